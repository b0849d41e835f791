// bourse-master: the reactor, one ROUTER with CURVE, the registry's log, and the master actor between them.
#include <unistd.h>

#include <csignal>
#include <map>
#include <memory>
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
#include "common/world/transport.h"
#include "master/master.h"
#include "plugins/policy/configured.h"

namespace bourse {
namespace {

constexpr std::size_t kComplainersMax = 1024;  // peers remembered for "once per peer and minute"

struct World {
  Reactor reactor;
  Context context;
  LogFile::Content content;
  std::unique_ptr<LogFile> log;
  std::unique_ptr<Master> master;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Driver> driver;
  std::map<PeerId, Duration> complained;  // undecodable frames: when last logged
  std::uint64_t wire_errors = 0;
  std::unique_ptr<policy::Configured> policy;
};

MasterOptions options_of(const Config& config) {
  MasterOptions options;
  options.cluster_name = config.text("cluster", "name");
  options.offer_ttl = config.duration("master", "offer_ttl");
  options.heartbeat = config.duration("master", "heartbeat");
  options.peer_timeout = config.duration("master", "peer_timeout");
  options.failover_timeout = config.duration("master", "failover_timeout");
  options.coalesce = config.duration("master", "coalesce");
  options.gang_hold = config.duration("master", "gang_hold");
  options.revoke_grace = config.duration("master", "revoke_grace");
  options.pid = getpid();
  return options;
}

void on_frame(World& w, const Frame& frame) {
  auto message = wire::decode(frame.bytes);
  if (message) {
    w.driver->post(Received{frame.peer, frame.identity, *std::move(message)});
    return;
  }
  ++w.wire_errors;
  const Duration now = real_time().mono;
  if (w.complained.size() >= kComplainersMax) w.complained.clear();
  const auto [last, first] = w.complained.emplace(frame.peer, now);
  if (!first && now - last->second < std::chrono::minutes(1)) return;
  last->second = now;
  log_event(LogLevel::kWarn, "frame_refused",
            {{"peer", std::to_string(frame.peer.value)},
             {"identity", frame.identity},
             {"bytes", std::to_string(frame.bytes.size())},
             {"errors_so_far", std::to_string(w.wire_errors)},
             {"reason", message.error().text()}});
  if (message.error().code() != Code::kVersion) return;
  Message refused;
  refused.epoch = w.master->epoch();
  refused.body = Refused{Code::kVersion, message.error().text()};
  w.listener->send(frame.peer, wire::encode(refused));
}

// SIGHUP. Keys and the policy are read again at once. The rest is only checked: what the running master was given stays until its
// restart.
void reload(World& w, Program& program) {
  auto config = program.read_again();
  if (!config) {
    log_event(LogLevel::kError, "reload_refused", {{"reason", config.error().text()}, {"then", "going on as before"}});
    return;
  }
  const auto choice = w.policy->read(*config);
  if (!choice) {
    log_event(LogLevel::kError, "reload_refused", {{"reason", choice.error().text()}, {"then", "going on as before"}});
    return;
  }
  const std::string directory = program.keys_directory(*config);
  if (access(directory.c_str(), F_OK) == 0) {
    auto keyring = Keyring::read(directory);
    if (!keyring) {
      log_event(LogLevel::kError, "reload_refused",
                {{"reason", keyring.error().text()}, {"then", "going on with the former keys"}});
      return;
    }
    w.context.set_keyring(*std::move(keyring));
  }
  program.take(*std::move(config));
  if (auto change = w.policy->take(*choice)) w.driver->post(Reload{*std::move(change)});
  log_event(LogLevel::kInfo, "reloaded", {{"keys", directory}});
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

  // Our key is KEYS/master. None: a socket without keys, which only ipc and loopback may have.
  const std::string directory = program.keys_directory(config), key_path = directory + "/master";
  KeyPair keys;
  const bool keyed = access(key_path.c_str(), F_OK) == 0;
  if (keyed) {
    keys = BOURSE_TRY(read_key_file(key_path));
    w.context.set_keyring(BOURSE_TRY(Keyring::read(directory)));
  }

  const std::string listen = config.text("master", "listen");
  w.listener = std::make_unique<Listener>(w.context, w.reactor, SocketLimits{});
  BOURSE_TRY(w.listener->bind(listen, keyed ? &keys : nullptr, /*allow_plain=*/true));

  MasterOptions options = options_of(config);
  options.trust_identities = keyed;
  options.endpoint = w.listener->endpoint();
  w.policy = BOURSE_TRY(policy::Configured::open({"bourse-master", "master", "drf", state, nullptr}, config));
  options.policy = w.policy->choice();
  options.policies = &w.policy->catalog();
  options.policy_guard = w.policy->guard();
  options.policy_budget = config.duration("master", "policy_budget");
  w.master = std::make_unique<Master>(std::move(options));

  Driver::Hooks hooks;
  hooks.send = [&w](PeerId peer, const Message& message) {
    // A full queue: the peer is slow or gone. It is forgotten; its silence, or its next hello, puts things right.
    if (!w.listener->send(peer, wire::encode(message))) w.driver->post(PeerLost{peer});
  };
  hooks.cut = [&w](PeerId peer) { w.listener->cut(peer); };
  hooks.stop = [&w] { w.reactor.stop(); };
  w.driver = std::make_unique<Driver>(w.reactor, *w.master, std::move(hooks));
  w.driver->use_log(w.log.get());
  w.listener->on_frame([&w](const Frame& frame) { on_frame(w, frame); });

  Program::end_on_signals(w.reactor);
  w.reactor.on_signal(SIGHUP, [&w, &program] { reload(w, program); });

  w.driver->post(Started{incarnation, std::move(w.content.snapshot), std::move(w.content.records)});
  w.content = {};
  log_event(LogLevel::kInfo, "listening", {{"endpoint", w.listener->endpoint()}, {"keys", keyed ? directory : "none"}});
  // Ready is when it leads: a peer that says hello earlier waits for nothing but the flush of one record.
  bool going = true;
  while (going && w.master->epoch().value == 0) going = w.reactor.turn(Duration::max());
  if (going) {
    program.ready();
    w.reactor.run();
  }
  if (w.master->epoch().value == 0) return Error(Code::kIo, "stopped before it could lead; the log says why");
  return {};
}

}  // namespace
}  // namespace bourse

int main(int argc, char** argv) {
  bourse::Program program("bourse-master",
                          "Keeps the ledger of a cluster and makes offers of its resources to frameworks. See bourse-master(8).",
                          "when this master leads");
  program.options().option("--state", program.state_option, "Directory of the registry (default: master.state)");
  return program.run(argc, argv, bourse::run);
}
