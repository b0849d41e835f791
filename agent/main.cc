// bourse-agent: one per host. Finds what the host has, keeps slices apart, has tasks started by the launcher.
//
//   SIGTERM         ends the agent only. Keeper, launcher and tasks go on; the next agent takes over.
//   SIGHUP          reads the configuration again and probes. Slices and tasks stay.
//   SIGINT, SIGQUIT end everything: slices are released, tasks killed, keeper and launcher ended, then the agent.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "agent/checkpoint.h"
#include "agent/host.h"
#include "agent/hotplug.h"
#include "agent/mock_host.h"
#include "agent/plan.h"
#include "common/core/hooks.h"
#include "common/world/config.h"
#include "common/world/config_changes.h"
#include "common/world/driver.h"
#include "common/world/files.h"
#include "common/world/log.h"
#include "common/world/program.h"
#include "common/world/spawn.h"
#include "common/world/trace_export.h"
#include "common/world/transport.h"

namespace bourse {
namespace {

constexpr Duration kReleaseWait = seconds(15);  // for slices to go by themselves when everything is to end
constexpr Duration kEndGiveUp = seconds(30);

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

// BOURSE_BOOT_ID_FILE: what a test writes there when its host "reboots"; the launcher reads the same.
std::string boot_id() {
  const char* file = std::getenv("BOURSE_BOOT_ID_FILE");  // NOLINT(concurrency-mt-unsafe)
  auto text = read_file(file != nullptr ? file : "/proc/sys/kernel/random/boot_id");
  if (!text) return {};
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *text;
}

struct Keys {
  std::optional<KeyPair> own;
  std::string server;
};

// Our key is KEYS/agent=ID, or agent=* for a site that gives all agents one. None: sockets without keys (ipc, loopback).
Result<Keys> read_keys(const Config& config, const std::string& directory, const std::string& id) {
  Keys keys;
  for (const std::string& name : {key_file_name("agent:" + id), key_file_name("agent:*")}) {
    const std::string path = directory + "/" + name;
    if (access(path.c_str(), F_OK) != 0) continue;
    keys.own = BOURSE_TRY(read_key_file(path));
    break;
  }
  std::string server = config.text("cluster", "server_key");
  if (server.empty() && access((directory + "/master.pub").c_str(), F_OK) == 0) server = directory + "/master.pub";
  if (!server.empty() && keys.own) keys.server = BOURSE_TRY(read_public_key(server));
  return keys;
}

// The state directory, passable by everyone: users' scripts are executed from STATE/artifacts. What is secret in it has its own mode.
Result<> prepare_state(const std::string& state) {
  BOURSE_TRY(make_directories(state, 0711));
  struct stat st;
  if (stat(state.c_str(), &st) != 0) return errno_error("stat " + state);
  if ((st.st_mode & S_IXOTH) == 0 && chmod(state.c_str(), (st.st_mode & 07777U) | S_IXGRP | S_IXOTH) != 0)
    return errno_error("chmod " + state);
  return {};
}

// The probe that the agent cannot do without runs once before anything else: what is wrong with the configuration is said at once.
Result<std::unique_ptr<Prober>> make_prober(Reactor& reactor, const Config& config, ProbeInputs inputs,
                                            const AgentSettings& settings) {
  const std::string helper = helper_path(config.text("agent", "helper"));
  std::optional<Inventory> found;
  if (const auto input = inputs.find(kProbeHwloc); input != inputs.end()) {
    HelperResult once = run_helper(helper, kProbeHwloc, input->second, settings.probes.front().limit);
    if (!once.report && (once.report.error().code() == Code::kInvalid || once.report.error().code() == Code::kIo))
      return std::move(once.report).error();
    if (once.report) found = std::move(once.report->inventory);
  }
  auto prober = std::make_unique<Prober>(reactor, helper, std::move(inputs));
  if (found) prober->prime(kProbeHwloc, *std::move(found));
  return prober;
}

// What the launcher asks of tasks' users: agent.identity, else launcher.conf beside the configuration, where there is one. A file that is
// named and not there is the launcher's to complain about: it then starts nothing.
std::string identity_file(const Config& config, const std::string& config_path) {
  std::string named = config.text("agent", "identity");
  if (!named.empty() || config_path.empty()) return named;
  std::string beside = directory_of(config_path) + "/launcher.conf";
  return access(beside.c_str(), F_OK) == 0 ? beside : std::string();
}

struct World {
  Reactor reactor;
  Context context;
  LogFile::Content content;
  std::unique_ptr<LogFile> log;  // goes before the reactor
  std::unique_ptr<TraceExporter> tracer;
  std::unique_ptr<Agent> agent;
  std::unique_ptr<MasterLink> link;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<HotplugWatch> hotplug;
  std::unique_ptr<Driver> driver;
  bool ready = false, ending = false;
};

void wait_for_slices(World& w, Duration left) {
  auto finish = [&w] {
    w.executor->end_all([&w] {
      log_event(LogLevel::kInfo, "ended_everything", {});
      w.reactor.stop();
    });
  };
  const Agent::View view = w.agent->view();
  if ((view.slices.empty() && view.held.empty()) || left <= Duration(0)) return finish();
  w.reactor.after(milliseconds(20), [&w, left] { wait_for_slices(w, left - milliseconds(20)); });
}

// As if the master had released every slice: so the checkpoint and the master's ledger say the same afterwards.
void end_everything(World& w) {
  if (w.ending) return;
  w.ending = true;
  const Agent::View view = w.agent->view();
  ReleaseSlices all;
  for (const SliceSpec& spec : view.slices) all.slices.push_back(spec.id);
  for (const SliceSpec& spec : view.held) all.slices.push_back(spec.id);
  log_event(LogLevel::kInfo, "ending_everything", {{"slices", std::to_string(all.slices.size())}});
  w.driver->post(Received{kMasterPeer, {}, Message{view.epoch_seen, {}, {}, std::move(all)}});
  wait_for_slices(w, kReleaseWait);
  w.reactor.after(kEndGiveUp, [&w] {
    log_event(LogLevel::kError, "end_incomplete", {{"reason", "launcher or tasks would not end in 30s"}});
    w.reactor.stop();
  });
}

// What is taken over while the agent runs; the rest needs its restart, which disturbs no task.
const std::vector<std::string_view>& live_keys() {
  static const std::vector<std::string_view> keys = {
      "agent.labels",        "agent.probes",      "agent.probe_limits", "agent.probe_options", "agent.probe_root",
      "agent.probe_plugins", "agent.topology",    "agent.declare",      "agent.reprobe",       "agent.kill_grace",
      "agent.reserve_cpus",  "agent.reserve_mem", "log.level"};
  return keys;
}

// The whole file is checked before any of it is used.
Result<std::string> read_again(World& w, Program& program) {
  Config config = BOURSE_TRY(program.read_again());
  BOURSE_TRY(read_isolation(config));
  ProbingPlan plan = BOURSE_TRY(plan_probes(config, program.config_path()));
  const ConfigChanges changes = config_changes(program.config(), config, {"agent", "cluster", "log"}, live_keys());
  program.take(std::move(config));
  w.executor->prober().set_inputs(std::move(plan.inputs));
  w.driver->post(Reload{to_text(plan.settings)});
  log_changes(changes, program.config_path());
  return to_text(changes, "bourse-agent");
}

// SIGHUP, and `bourse reload`, which waits for the answer (its tag is not 0).
void reload(World& w, Program& program, std::uint64_t tag) {
  const Result<std::string> done = read_again(w, program);
  if (!done)
    log_event(LogLevel::kError, "reload_refused",
              {{"reason", done.error().text()}, {"then", "going on with the configuration of before"}});
  if (tag == 0) return;
  w.driver->post(done ? ReloadDone{tag, Code::kOk, *done} : ReloadDone{tag, done.error().code(), done.error().text()});
}

Result<> run(Program& program, const std::string& id_option) {
  const Config& config = program.config();
  std::string id = !id_option.empty() ? id_option : config.text("agent", "id");
  if (id.empty()) id = host_name();
  if (!valid_name(id))
    return Error(Code::kInvalid, "agent.id: '" + id + "' is not a name (letters, digits and ._/+@:-, at most 128)");
  const std::string state = program.state_directory();
  BOURSE_TRY(prepare_state(state));

  // Before any thread is made (the log's, ZeroMQ's): a signal that one of them takes would not reach the reactor.
  sigset_t ours;
  sigemptyset(&ours);
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGHUP}) sigaddset(&ours, signal);
  pthread_sigmask(SIG_BLOCK, &ours, nullptr);

  World w;
  auto log = LogFile::open(state + "/checkpoint.log", w.content);
  if (!log) {
    if (log.error().code() == Code::kBusy) return Error(Code::kBusy, "another bourse-agent uses the state directory " + state);
    return std::move(log).error();
  }
  w.log = *std::move(log);
  if (w.content.torn_bytes > 0)
    log_event(LogLevel::kWarn, "checkpoint_tail_cut",
              {{"bytes", std::to_string(w.content.torn_bytes)}, {"then", "going on with what was whole"}});
  if (auto records = decode_checkpoint(w.content.snapshot, w.content.records); !records)
    return std::move(records).error().add(state + "/checkpoint.log");
  const Incarnation incarnation = BOURSE_TRY(next_incarnation(state));
  const Keys keys = BOURSE_TRY(read_keys(config, program.keys_directory(config), id));

  ProbingPlan plan = BOURSE_TRY(plan_probes(config, program.config_path()));
  auto prober = BOURSE_TRY(make_prober(w.reactor, config, std::move(plan.inputs), plan.settings));

  AgentOptions options;
  options.id = AgentId(id);
  options.boot_id = boot_id();
  options.settings = plan.settings;
  options.masters = config.list("cluster", "masters").size();
  if (auto tracing = BOURSE_TRY(trace_options(config, "bourse-agent"))) {
    options.trace = true;
    options.tasks_collector = tracing->tasks_endpoint;
    w.tracer = BOURSE_TRY(TraceExporter::open(*std::move(tracing)));
  }
  w.agent = std::make_unique<Agent>(std::move(options));

  auto post = [&w](Event event) { w.driver->post(std::move(event)); };
  if (config.text("agent", "executor") == "mock") {
    w.executor = std::make_unique<MockHost>(w.reactor, std::move(prober), post);
  } else {
    HostOptions host;
    host.state_dir = state;
    host.launcher = config.text("agent", "launcher");
    if (host.launcher.empty()) host.launcher = own_directory() + "/bourse-launcher";
    if (access(host.launcher.c_str(), X_OK) != 0 && config.text("agent", "launcher").empty())
      host.launcher = own_directory() + "/../libexec/bourse/bourse-launcher";
    host.cgroup_root = config.text("agent", "cgroup_root");
    host.isolation = config.text("agent", "isolation") != "off";
    host.identity = identity_file(config, program.config_path());
    host.limits = BOURSE_TRY(read_isolation(config));
    w.executor = BOURSE_TRY(Host::make(w.reactor, std::move(host), std::move(prober), post, [&w] {
      std::vector<SliceId> known;
      const Agent::View view = w.agent->view();
      for (const SliceSpec& spec : view.slices) known.push_back(spec.id);
      return known;
    }));
  }

  w.link = std::make_unique<MasterLink>(w.context, w.reactor, config.list("cluster", "masters"), keys.own ? &*keys.own : nullptr,
                                        keys.server);
  w.link->on_lost([&w] { w.driver->post(PeerLost{kMasterPeer}); });
  w.link->on_message([&w, &program, &id](Message message) {
    const bool welcome = std::holds_alternative<Welcome>(message.body);
    w.driver->post(Received{kMasterPeer, {}, std::move(message)});
    if (!welcome || w.ready) return;
    w.ready = true;
    log_event(LogLevel::kInfo, "ready", {{"agent", id}});
    program.ready();
  });

  Driver::Hooks hooks;
  hooks.send = [&w](PeerId, const Message& message) {
    w.link->send(message);
    if (std::holds_alternative<StatusUpdate>(message.body)) hooks::crash_point("agent.after_status_send");
  };
  hooks.reconnect = [&w](const std::string& leader) { w.link->next(leader); };
  hooks.masters = [&w](const std::vector<std::string>& all) { w.link->learn(all); };
  hooks.host = [&w](const HostAction& action) { w.executor->execute(action); };
  hooks.stop = [&w] { w.reactor.stop(); };
  hooks.reload = [&w, &program](std::uint64_t tag) { reload(w, program, tag); };
  if (w.tracer) hooks.spans = [&w](std::vector<Span> spans) { w.tracer->add(std::move(spans)); };
  w.driver = std::make_unique<Driver>(w.reactor, *w.agent, std::move(hooks));
  w.driver->use_log(w.log.get());
  w.reactor.on_signal(SIGTERM, [&w] { w.reactor.stop(); });
  w.reactor.on_signal(SIGINT, [&w] { end_everything(w); });
  w.reactor.on_signal(SIGQUIT, [&w] { end_everything(w); });
  w.reactor.on_signal(SIGHUP, [&w, &program] { reload(w, program, 0); });
  std::signal(SIGPIPE, SIG_IGN);
  w.hotplug = std::make_unique<HotplugWatch>(w.reactor, [&w](const std::string& what) { w.driver->post(HardwareChanged{what}); });

  BOURSE_TRY(w.link->connect());
  w.driver->post(Started{incarnation, w.content.snapshot, w.content.records});
  w.content = {};
  w.executor->start();
  w.reactor.run();
  w.hotplug.reset();
  w.executor.reset();
  return {};
}

}  // namespace
}  // namespace bourse

int main(int argc, char** argv) {
  bourse::Program program("bourse-agent",
                          "Finds the resources of this host, keeps slices of it apart and runs tasks in them. See bourse-agent(8).",
                          "when the master has answered");
  std::string id;
  program.options().option("--id", id, "Name of this host in the cluster (default: agent.id, else the host name)");
  program.options().option("--state", program.state_option, "Directory of the checkpoint (default: agent.state)");
  return program.run(argc, argv, [&id](bourse::Program& started) { return bourse::run(started, id); });
}
