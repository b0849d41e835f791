// bourse-master: the reactor, one ROUTER with CURVE, the registry's log, and the master actor between them.
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
#include "common/world/transport.h"
#include "master/front.h"
#include "master/master.h"
#include "master/settings.h"
#include "plugins/policy/configured.h"

namespace bourse {
namespace {

struct World {
  Reactor reactor;
  Context context;
  LogFile::Content content;
  std::unique_ptr<LogFile> log;
  std::unique_ptr<Master> master;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<policy::Configured> policy;
  std::unique_ptr<MasterFront> front;
  std::unique_ptr<Readers> readers;  // its thread ends before anything that it calls
};

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
  w.policy = BOURSE_TRY(policy::Configured::open({"bourse-master", "master", "drf", state, nullptr}, config));
  options.policy = w.policy->choice();
  options.policies = &w.policy->catalog();
  options.policy_guard = w.policy->guard();
  w.master = std::make_unique<Master>(std::move(options));

  Driver::Hooks hooks;
  hooks.send = [&w](PeerId peer, const Message& message) {
    // A full queue: the peer is slow or gone. It is forgotten; its silence, or its next hello, puts things right.
    if (!w.listener->send(peer, wire::encode(message))) w.driver->post(PeerLost{peer});
  };
  hooks.cut = [&w](PeerId peer) { w.listener->cut(peer); };
  hooks.reload = [&w](std::uint64_t tag) { w.front->reload(tag); };
  hooks.publish = [&w](std::vector<ViewUpdate> views) {
    w.readers->publish(std::move(views), w.master->epoch(), w.master->cluster());
  };
  hooks.stop = [&w] { w.reactor.stop(); };
  w.driver = std::make_unique<Driver>(w.reactor, *w.master, std::move(hooks));
  w.driver->use_log(w.log.get());
  w.front->serve(*w.listener, *w.driver, *w.policy, *w.readers);

  Program::end_on_signals(w.reactor);
  w.reactor.on_signal(SIGHUP, [&w] { w.front->reload(0); });

  w.driver->post(Started{incarnation, std::move(w.content.snapshot), std::move(w.content.records)});
  w.content = {};
  log_event(LogLevel::kInfo, "listening",
            {{"endpoint", w.listener->endpoint()}, {"keys", keys ? w.front->keys_directory() : "none"}});
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
