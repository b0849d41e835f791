// bourse-master: the reactor, one ROUTER with CURVE, the replicated registry, and the master actor between them.
#include <unistd.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/wire.h"
#include "common/world/config.h"
#include "common/world/driver.h"
#include "common/world/log.h"
#include "common/world/log_file.h"
#include "common/world/program.h"
#include "common/world/reactor.h"
#include "common/world/trace_export.h"
#include "common/world/transport.h"
#include "master/front.h"
#include "master/master.h"
#include "master/raft_world.h"
#include "master/settings.h"
#include "plugins/policy/configured.h"

namespace bourse {
namespace {

struct World {
  Reactor reactor;
  Context context;
  LogFile::Content content;
  std::unique_ptr<LogFile> log;
  std::unique_ptr<TraceExporter> tracer;
  std::unique_ptr<RaftWorld> raft;
  std::unique_ptr<Master> master;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<policy::Configured> policy;
  std::unique_ptr<MasterFront> front;
  std::unique_ptr<Readers> readers;  // its thread ends before anything that it calls
};

// A leader in good order hands over first, so that nobody waits for its lease to run out.
void end(World& w, Duration patience) {
  Raft& raft = w.raft->raft();
  if ((!raft.leads() && !raft.handing_over()) || raft.alone() || patience <= Duration(0)) return w.reactor.stop();
  raft.hand_over();
  w.reactor.after(milliseconds(20), [&w, patience] { end(w, patience - milliseconds(20)); });
}

// The place of this master among those that replicate the registry.
bool recover_option = false;

Result<RaftWorld::Settings> raft_settings(const Config& config, const KeyPair* keys) {
  RaftWorld::Settings settings;
  settings.listen = config.text("master", "raft");
  settings.keys = keys;
  settings.raft.recover = recover_option;
  settings.raft.name = config.text("master", "id");
  settings.raft.lease = config.duration("master", "leader_lease");
  char host[256] = {};
  static_cast<void>(gethostname(host, sizeof host - 1));
  settings.raft.default_name = valid_name(host) ? host : "master";
  const std::string name = settings.raft.name.empty() ? settings.raft.default_name : settings.raft.name;
  if (!valid_name(name)) return Error(Code::kInvalid, "master.id '" + name + "': letters, digits and ._-");
  for (const std::string& text : config.list("master", "peers")) {
    RaftServer peer = BOURSE_TRY(parse_peer(text));
    if (peer.name == name) settings.raft.address = peer.address;
    settings.raft.peers.push_back(std::move(peer));
  }
  if (!settings.raft.peers.empty() && settings.listen.empty())
    return Error(Code::kInvalid, "master.peers names other masters, but master.raft, where they reach this one, is empty");
  return settings;
}

Result<> run(Program& program) {
  const Config& config = program.config();
  const std::string state = program.state_directory();
  World w;
  auto log = LogFile::open(state + "/registry.log", w.content);
  if (!log) {
    if (log.error().code() == Code::kBusy) return Error(Code::kBusy, "another bourse-master uses the state directory " + state);
    return std::move(log).error();
  }
  w.log = *std::move(log);
  if (w.content.torn_bytes > 0) {
    log_event(LogLevel::kWarn, "registry_tail_cut",
              {{"bytes", std::to_string(w.content.torn_bytes)}, {"then", "going on with what was whole"}});
  }
  const Incarnation incarnation = BOURSE_TRY(next_incarnation(state));

  w.front = std::make_unique<MasterFront>(program, w.context);
  const std::optional<KeyPair> keys = BOURSE_TRY(w.front->read_keys());

  RaftWorld::Settings settings = BOURSE_TRY(raft_settings(config, keys ? &*keys : nullptr));
  const std::string settings_address = settings.raft.address,
                    name = settings.raft.name.empty() ? settings.raft.default_name : settings.raft.name;
  w.raft = std::make_unique<RaftWorld>(w.reactor, w.context, *w.log, std::move(settings));
  BOURSE_TRY(w.raft->listen());
  const std::string listen = config.text("master", "listen");
  w.listener = std::make_unique<Listener>(w.context, w.reactor, MasterFront::limits());
  BOURSE_TRY(w.listener->bind(listen, keys ? &*keys : nullptr, /*allow_plain=*/true));

  MasterOptions options;
  take_config(config, options);
  options.pid = getpid();
  options.trust_identities = keys.has_value();
  options.endpoint = w.listener->endpoint();
  w.readers = BOURSE_TRY(w.front->open_readers(w.listener->endpoint(), keys, [&w](bool on, std::uint64_t flush) {
    w.reactor.wake([&w, on, flush] { w.driver->post(Watched{on, flush}); });
  }));
  options.readers = w.readers->endpoint();
  options.replicated = true;
  options.name = name;
  w.policy = BOURSE_TRY(policy::Configured::open({"bourse-master", "master", "drf", state, nullptr}, config));
  options.policy = w.policy->choice();
  options.policies = &w.policy->catalog();
  options.policy_guard = w.policy->guard();
  if (auto tracing = BOURSE_TRY(trace_options(config, "bourse-master"))) {
    options.trace = true;
    w.tracer = BOURSE_TRY(TraceExporter::open(*std::move(tracing)));
  }
  w.master = std::make_unique<Master>(std::move(options));

  Driver::Hooks hooks;
  hooks.send = [&w](PeerId peer, const Message& message) {
    // A full queue: the peer is slow or gone. It is forgotten; its silence, or its next hello, puts things right.
    // A master whose lease is over says nothing more, though it has not yet been told: it may have been stopped for a while.
    // Who asked for something hears all the same that nobody knows what came of it.
    const auto* told = std::get_if<OperatorReply>(&message.body);
    if (message.epoch.value != 0 && !w.raft->raft().may_lead() && (told == nullptr || told->code != Code::kGone)) return;
    if (!w.listener->send(peer, wire::encode(message))) w.driver->post(PeerLost{peer});
  };
  hooks.propose = [&w](std::vector<std::string> records, Driver::Hooks::Proposed done) {
    w.raft->raft().propose(records, std::move(done));
  };
  hooks.member = [&w](const ChangeMember& member) { w.raft->raft().change(member); };
  hooks.hand_over = [&w] { w.raft->raft().hand_over(); };
  hooks.cut = [&w](PeerId peer) { w.listener->cut(peer); };
  hooks.reload = [&w](std::uint64_t tag) { w.front->reload(tag); };
  hooks.publish = [&w](std::vector<ViewUpdate> views) {
    w.readers->publish(std::move(views), w.master->epoch(), w.master->cluster());
  };
  hooks.stop = [&w] { w.reactor.stop(); };
  if (w.tracer) hooks.spans = [&w](std::vector<Span> spans) { w.tracer->add(std::move(spans)); };
  w.driver = std::make_unique<Driver>(w.reactor, *w.master, std::move(hooks));
  w.front->serve(*w.listener, *w.driver, *w.policy, *w.readers);
  w.front->taken = [&w](const Config& taken) { w.raft->raft().set_lease(taken.duration("master", "leader_lease")); };

  Program::end_on_signals(w.reactor);
  for (const int signal : {SIGTERM, SIGINT}) w.reactor.on_signal(signal, [&w] { end(w, seconds(1)); });
  w.reactor.on_signal(SIGHUP, [&w] { w.front->reload(0); });

  w.driver->post(Started{incarnation, {}, {}});
  LogFile::Content content = std::exchange(w.content, {});
  w.raft->raft().set_endpoint(endpoint_for_others(w.listener->endpoint(), settings_address));
  BOURSE_TRY(w.raft->begin(*w.driver, std::move(content)));
  log_event(LogLevel::kInfo, "listening",
            {{"endpoint", w.listener->endpoint()}, {"keys", keys ? w.front->keys_directory() : "none"}});
  // Ready is when it leads: a peer that says hello earlier waits for nothing but the flush of one record. One of several is ready
  // at once: who leads is for all of them to find out.
  bool going = true;
  while (going && w.raft->raft().alone() && w.master->epoch().value == 0) going = w.reactor.turn(Duration::max());
  const bool served = going;
  if (going) {
    program.ready();
    w.reactor.run();
  }
  if (!w.raft->failure().empty()) return Error(Code::kIo, "the registry's log is broken: " + w.raft->failure());
  if (!served) return Error(Code::kIo, "stopped before it could lead; the log says why");
  return {};
}

}  // namespace
}  // namespace bourse

int main(int argc, char** argv) {
  bourse::Program program("bourse-master",
                          "Keeps the ledger of a cluster and makes offers of its resources to frameworks. See bourse-master(8).",
                          "when this master leads, or is one of several");
  program.options().option("--state", program.state_option, "Directory of the registry (default: master.state)");
  program.options().flag("--recover", bourse::recover_option, "Make this master the only one, after a majority was lost for good");
  return program.run(argc, argv, bourse::run);
}
