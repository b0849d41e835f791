// bourse-batch: the reactor, sockets for the tools, the session with the master, the store, and the batch actor between them.
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/world/config.h"
#include "common/world/driver.h"
#include "common/world/files.h"
#include "common/world/log.h"
#include "common/world/program.h"
#include "common/world/reactor.h"
#include "common/world/transport.h"
#include "frameworks/batch/batch.h"
#include "frameworks/batch/history.h"
#include "frameworks/batch/options.h"
#include "frameworks/batch/session_bridge.h"
#include "frameworks/batch/store.h"

namespace bourse::batch {
namespace {

constexpr const char* kStepProgram = "bourse-rsh";

struct World {
  Reactor reactor;
  Context context;
  std::unique_ptr<Store> store;
  std::unique_ptr<History> history;
  std::unique_ptr<Batch> batch;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<SessionBridge> session;
  std::vector<std::unique_ptr<Listener>> listeners;
};

// A listener's peers have numbers of its own; the actor sees them apart by the listener's place.
constexpr std::uint64_t kPeerBits = 56;
PeerId outer(std::size_t listener, PeerId peer) { return PeerId((static_cast<std::uint64_t>(listener) << kPeerBits) | peer.value); }

void reply(World& w, PeerId peer, std::string bytes) {
  const auto listener = static_cast<std::size_t>(peer.value >> kPeerBits);
  // Gone, or too slow to read: its watches and steps end with it, everything else it can ask again.
  if (w.listeners[listener]->send(PeerId(peer.value & ((std::uint64_t{1} << kPeerBits) - 1)), std::move(bytes))) return;
  log_event(LogLevel::kDebug, "reply_dropped", {{"peer", std::to_string(peer.value)}});
  w.driver->post(PeerLost{peer});
}

void on_frame(World& w, std::size_t listener, const Frame& frame) {
  const PeerId peer = outer(listener, frame.peer);
  // What is about the past is answered by the history's own thread. A job that has just ended is in one of the two: the actor
  // forgets it only after its record is safe.
  auto request = decode_request(frame.bytes);
  if (request) {
    const std::uint64_t tag = request->tag;
    if (auto* h = std::get_if<HistoryRequest>(&request->body)) {
      w.history->ask(std::move(*h), [&w, peer, tag](HistoryReply r) {
        reply(w, peer, encode(ToolReply{kBatchProtocol, tag, std::move(r)}));
      });
      return;
    }
    if (auto* j = std::get_if<JobRequest>(&request->body); j != nullptr && !w.batch->knows(j->job)) {
      if (frame.uid != 0) j->script = false;
      w.history->ask(std::move(*j), [&w, peer, tag](JobReply r) {
        reply(w, peer, encode(ToolReply{kBatchProtocol, tag, std::move(r)}));
      });
      return;
    }
    if (auto* y = std::get_if<WhyRequest>(&request->body); y != nullptr && !w.batch->knows(y->job)) {
      w.history->ask(std::move(*y), [&w, peer, tag](WhyReply r) {
        reply(w, peer, encode(ToolReply{kBatchProtocol, tag, std::move(r)}));
      });
      return;
    }
  }
  w.driver->post(Request{peer, frame.uid, frame.gid, frame.identity, std::string(frame.bytes)});
}

// mpirun runs inside a job, whose PATH may lack us: the path of the program beside this one, else where programs for users are.
std::string step_agent() {
  std::array<char, 4096> self{};
  const ssize_t n = readlink("/proc/self/exe", self.data(), self.size() - 1);
  const std::string directory = n > 0 ? directory_of(std::string(self.data(), static_cast<std::size_t>(n))) : "";
  for (const std::string& path : {directory + "/" + kStepProgram, directory + "/../bin/" + kStepProgram})
    if (!directory.empty() && access(path.c_str(), X_OK) == 0) return path;
  return kStepProgram;
}

// A bad file changes nothing; what cannot change while this runs is named and waits for a restart, which disturbs no job.
void reload(World& w, Program& program) {
  auto next = program.read_again();
  if (!next)
    return log_event(LogLevel::kError, "reload_refused", {{"reason", next.error().text()}, {"what", "nothing was changed"}});
  const ConfigChanges changes = config_changes(program.config(), *next);
  for (const std::string& line : changes.live) log_event(LogLevel::kInfo, "reload_changed", {{"what", line}});
  for (const std::string& line : changes.restart)
    log_event(LogLevel::kWarn, "reload_needs_restart", {{"what", line}, {"until_then", "ignoring it"}});
  if (changes.live.empty() && changes.restart.empty())
    log_event(LogLevel::kInfo, "reload_without_changes", {{"file", program.config_path()}});
  w.store->keep_history(next->duration("batch", "history_keep"));
  w.driver->post(Reload{live_text(options_of(*next))});
  program.take(*std::move(next));
}

Result<> run(Program& program) {
  const Config& config = program.config();
  const std::string state = program.state_directory();

  World w;
  std::vector<std::string> records;
  w.store = BOURSE_TRY(Store::open(state + "/queue.db", records));
  w.store->keep_history(config.duration("batch", "history_keep"));
  w.history = BOURSE_TRY(History::open(state + "/queue.db", w.reactor));
  const Incarnation incarnation = BOURSE_TRY(next_incarnation(state));
  BatchOptions options = options_of(config);
  options.step_agent = step_agent();
  w.batch = std::make_unique<Batch>(std::move(options));

  Driver::Hooks hooks;
  hooks.reply = [&w](PeerId peer, std::string bytes) { reply(w, peer, std::move(bytes)); };
  hooks.session = [&w](const SessionCommand& command) {
    if (w.session) w.session->command(command);
  };
  hooks.append = [&w](std::vector<Append> appends, std::string, LogFile::Done done) {
    w.store->append(w.reactor, std::move(appends), std::move(done));
  };
  hooks.stop = [&w] { w.reactor.stop(); };
  w.driver = std::make_unique<Driver>(w.reactor, *w.batch, std::move(hooks));

  BridgeOptions bridge;
  bridge.framework = config.text("batch", "framework"), bridge.role = config.text("batch", "role");
  bridge.config = program.config_path();
  bridge.endpoints = config.list("cluster", "masters");
  bridge.incarnation = incarnation;
  w.session = BOURSE_TRY(SessionBridge::open(w.reactor, bridge, [&w](SessionEvent e) { w.driver->post(std::move(e)); }));
  w.driver->post(Started{incarnation, {}, std::move(records)});

  // The local socket is open to every user of the host: the kernel says who asks. tcp is for those whose key is allowed.
  std::vector<std::string> endpoints = config.list("batch", "listen");
  if (endpoints.empty()) {
    BOURSE_TRY(make_directories(program.places().run, 0755));
    endpoints.push_back("ipc://" + program.places().run + "/" + kBatchSocketName);
  }
  KeyPair keys;
  bool keyed = false;
  const std::string key_directory = program.keys_directory(config);
  for (const std::string& endpoint : endpoints) {
    const bool tcp = endpoint.starts_with("tcp://");
    if (tcp && !keyed && access((key_directory + "/framework=" + bridge.framework).c_str(), F_OK) == 0) {
      keys = BOURSE_TRY(read_key_file(key_directory + "/framework=" + bridge.framework));
      w.context.set_keyring(BOURSE_TRY(Keyring::read(key_directory)));
      keyed = true;
    }
    auto listener =
        std::make_unique<Listener>(w.context, w.reactor, SocketLimits{10'000, static_cast<std::int64_t>(kRequestBytesMax)});
    BOURSE_TRY(listener->bind(endpoint, tcp && keyed ? &keys : nullptr));
    if (endpoint.starts_with("ipc://")) ::chmod(endpoint.substr(6).c_str(), 0666);
    const std::size_t place = w.listeners.size();
    listener->on_frame([&w, place](const Frame& frame) { on_frame(w, place, frame); });
    log_event(LogLevel::kInfo, "listening", {{"endpoint", listener->endpoint()}});
    w.listeners.push_back(std::move(listener));
  }

  Program::end_on_signals(w.reactor);
  w.reactor.on_signal(SIGHUP, [&w, &program] { reload(w, program); });
  program.ready();
  w.reactor.run();
  return {};
}

}  // namespace
}  // namespace bourse::batch

int main(int argc, char** argv) {
  bourse::Program program("bourse-batch", "Keeps the queue of batch jobs and runs them on a Bourse cluster. See bourse-batch(8).",
                          "when submits are taken");
  program.options().option("--state", program.state_option, "Directory of the queue and the history (default: batch.state)");
  return program.run(argc, argv, bourse::batch::run);
}
