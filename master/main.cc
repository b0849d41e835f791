// bourse-master: the reactor, one ROUTER with CURVE, the registry's log, and the master actor between them.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/core/hooks.h"
#include "common/wire/wire.h"
#include "common/world/config.h"
#include "common/world/driver.h"
#include "common/world/log.h"
#include "common/world/log_file.h"
#include "common/world/reactor.h"
#include "common/world/transport.h"
#include "master/master.h"

namespace bourse {
namespace {

struct Arguments {
  std::string config, state;
  std::vector<std::string> overrides;
  int ready_fd = -1;
};

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
};

void set_level(const Config& config) {
  const std::string level = config.text("log", "level");
  log_init("bourse-master", level == "debug"   ? LogLevel::kDebug
                            : level == "warn"  ? LogLevel::kWarn
                            : level == "error" ? LogLevel::kError
                                               : LogLevel::kInfo);
}

std::string config_path(const Arguments& arguments, const Places& places) {
  if (!arguments.config.empty()) return arguments.config;
  return access(places.config.c_str(), F_OK) == 0 ? places.config : std::string();
}

std::string keys_directory(const Config& config, const Places& places) {
  const std::string keys = config.text("cluster", "keys");
  return keys.empty() ? places.keys : keys;
}

MasterOptions options_of(const Config& config) {
  MasterOptions options;
  options.cluster_name = config.text("cluster", "name");
  options.offer_ttl = config.duration("master", "offer_ttl");
  options.heartbeat = config.duration("master", "heartbeat");
  options.peer_timeout = config.duration("master", "peer_timeout");
  options.failover_timeout = config.duration("master", "failover_timeout");
  options.coalesce = config.duration("master", "coalesce");
  options.gang_hold = config.duration("master", "gang_hold");
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

// SIGHUP. Keys are read again at once. The rest is only checked: what the running master was given stays until its restart.
void reload(World& w, const Arguments& arguments) {
  const Places places = Places::find();
  const auto config = Config::read(config_path(arguments, places), arguments.overrides);
  if (!config) {
    log_event(LogLevel::kError, "reload_refused", {{"reason", config.error().text()}, {"then", "going on as before"}});
    return;
  }
  const std::string directory = keys_directory(*config, places);
  if (access(directory.c_str(), F_OK) == 0) {
    auto keyring = Keyring::read(directory);
    if (!keyring) {
      log_event(LogLevel::kError, "reload_refused",
                {{"reason", keyring.error().text()}, {"then", "going on with the former keys"}});
      return;
    }
    w.context.set_keyring(*std::move(keyring));
  }
  set_level(*config);
  log_event(LogLevel::kInfo, "reloaded", {{"keys", directory}});
}

Result<> run(const Arguments& arguments) {
  const Places places = Places::find();
  const Config config = BOURSE_TRY(Config::read(config_path(arguments, places), arguments.overrides));
  set_level(config);
  if (const std::string hooks = hooks::active(); !hooks.empty())
    log_event(LogLevel::kWarn, "test_hooks_active", {{"hooks", hooks}});

  std::string state = !arguments.state.empty() ? arguments.state : config.text("master", "state");
  if (state.empty()) state = places.state + "/master";

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
  const std::string directory = keys_directory(config, places), key_path = directory + "/master";
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

  w.reactor.on_signal(SIGTERM, [&w] { w.reactor.stop(); });
  w.reactor.on_signal(SIGINT, [&w] { w.reactor.stop(); });
  w.reactor.on_signal(SIGHUP, [&w, &arguments] { reload(w, arguments); });
  std::signal(SIGPIPE, SIG_IGN);

  w.driver->post(Started{incarnation, std::move(w.content.snapshot), std::move(w.content.records)});
  w.content = {};
  log_event(LogLevel::kInfo, "listening", {{"endpoint", w.listener->endpoint()}, {"keys", keyed ? directory : "none"}});
  // Ready is when it leads: a peer that says hello earlier waits for nothing but the flush of one record.
  bool going = true;
  while (going && w.master->epoch().value == 0) going = w.reactor.turn(Duration::max());
  if (going) {
    announce_ready(arguments.ready_fd);
    w.reactor.run();
  }
  if (w.master->epoch().value == 0) return Error(Code::kIo, "stopped before it could lead; the log says why");
  return {};
}

}  // namespace
}  // namespace bourse

int main(int argc, char** argv) {
  bourse::hooks::init(std::getenv("BOURSE_CRASH_AT"), std::getenv("BOURSE_MUTANT"));
  bourse::Arguments arguments;
  CLI::App app("Keeps the ledger of a cluster and makes offers of its resources to frameworks. See bourse-master(8).",
               "bourse-master");
  app.add_option("--config", arguments.config, "Configuration file (default: of the cluster's directory, see bourse.conf(5))");
  app.add_option("--set", arguments.overrides, "section.key=value, over the configuration file")->allow_extra_args(false);
  app.add_option("--state", arguments.state, "Directory of the registry (default: master.state)");
  app.add_option("--ready-fd", arguments.ready_fd, "Descriptor on which a newline is written when this master leads");
  app.set_version_flag("--version", "bourse-master " BOURSE_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) { return app.exit(error) == 0 ? 0 : 2; }
  const auto result = bourse::run(arguments);
  if (result) return 0;
  std::fprintf(stderr, "bourse-master: %s\n", result.error().text().c_str());
  return 1;
}
