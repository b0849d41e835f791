#include "agent/host.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <utility>

#include "agent/psi.h"
#include "agent/warm_keeper.h"
#include "common/core/hooks.h"
#include "common/world/files.h"
#include "common/world/log.h"
#include "common/world/spawn.h"

namespace bourse {
namespace {

constexpr Duration kConnectFirst = milliseconds(5), kConnectMost = milliseconds(500);
constexpr Duration kKeeperAgain = seconds(3);  // a keeper that nobody can reach by then is started anew
constexpr Duration kEndPoll = milliseconds(20);
constexpr std::uint32_t kPacketsATurn = 256;
// The launcher has no hurry to forget: what is told with a start that follows costs it no wake-up of its own.
constexpr Duration kForgetWithin = milliseconds(50);
constexpr std::size_t kForgetsMax = 64;
constexpr Duration kUserKept = seconds(10);  // an account that was found; the launcher looks again with its own patience
constexpr std::size_t kUsersKeptMax = 1024;

Inventory isolation_inventory(const launcher::State& state) {
  Inventory inventory;
  inventory.labels["isolation"] = state.isolation;
  if (!state.degraded.empty()) inventory.labels["degraded"] = "yes";
  for (const std::string& what : state.degraded) inventory.notes.push_back("isolation: " + what);
  return inventory;
}

}  // namespace

Result<> check_user(const std::string& user, std::uint32_t uid) {
  if (user.empty()) return Error(Code::kInvalid, "the job names no user");
  std::string buffer(4096, '\0');
  struct passwd entry;
  struct passwd* found = nullptr;
  int rc = 0;
  while ((rc = getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found)) == ERANGE && buffer.size() < 1024 * 1024)
    buffer.resize(buffer.size() * 2);
  if (rc != 0) return Error(Code::kIo, "user `" + user + "' cannot be looked up here: error " + std::to_string(rc));
  if (found == nullptr) return Error(Code::kNotFound, "user `" + user + "' does not exist here");
  if (entry.pw_uid != uid)
    return Error(Code::kDenied,
                 "user `" + user + "' has uid " + std::to_string(entry.pw_uid) + " here, the job says " + std::to_string(uid));
  return {};
}

std::vector<int> launcher_processes(const std::string& state_dir) {
  std::vector<int> keepers, launchers;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return {};
  while (const dirent* entry = readdir(proc)) {
    const int pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    const auto text = read_file("/proc/" + std::string(entry->d_name) + "/cmdline", 64 * 1024);
    if (!text || text->empty()) continue;
    std::vector<std::string> words;
    for (std::size_t at = 0; at < text->size();) {
      const std::size_t end = std::min(text->find('\0', at), text->size());
      words.push_back(text->substr(at, end - at));
      at = end + 1;
    }
    const std::string name = words[0].substr(words[0].rfind('/') == std::string::npos ? 0 : words[0].rfind('/') + 1);
    const auto state = std::find(words.begin(), words.end(), "--state");
    if (name != "bourse-launcher" || state == words.end() || state + 1 == words.end() || *(state + 1) != state_dir) continue;
    (std::find(words.begin(), words.end(), "--keeper") != words.end() ? keepers : launchers).push_back(pid);
  }
  closedir(proc);
  keepers.insert(keepers.end(), launchers.begin(), launchers.end());
  return keepers;
}

struct Host::Impl {
  Reactor& reactor;
  HostOptions options;
  Post post;
  KnownSlices known;
  ArtifactStore artifacts;
  std::unique_ptr<Prober> prober;
  launcher::Channel channel;
  Reactor::WatchId watch = 0;
  Reactor::TimerId timer = 0;
  bool ready = false;          // State has come
  bool isolation_due = false;  // RunProbe came before it
  bool ending = false, told = false;
  Duration wait = kConnectFirst, keeper_at{-1};
  launcher::State state;
  std::vector<launcher::StartedTask> begun;  // in this turn: the end of a short task may have come with it
  std::vector<TaskKey> forgets;              // to be sent; lost with the connection, for the launcher then tells the ends again
  Reactor::TimerId forget_timer = 0;
  std::map<std::pair<std::string, std::uint32_t>, Duration> users;  // accounts that exist, and until when that is believed
  std::unique_ptr<PsiWatch> psi;                                    // once somebody has asked
  std::unique_ptr<WarmKeeper> warm;                                 // likewise
  std::shared_ptr<Impl*> self = std::make_shared<Impl*>(this);      // outlives us in what was deferred

  Impl(Reactor& r, HostOptions o, std::unique_ptr<Prober> q, Post p, KnownSlices k, ArtifactStore a)
      : reactor(r), options(std::move(o)), post(std::move(p)), known(std::move(k)), artifacts(std::move(a)), prober(std::move(q)) {}
  ~Impl() {
    *self = nullptr;
    if (watch != 0) reactor.unwatch(watch);
    if (timer != 0) reactor.cancel(timer);
    if (forget_timer != 0) reactor.cancel(forget_timer);
  }

  // --- connection ----------------------------------------------------------------------------------------------------

  void connect() {
    timer = 0;
    if (ending) return;
    auto fd = launcher::connect_launcher(options.state_dir);
    if (!fd) {
      const bool nobody = fd.error().code() == Code::kNotFound || fd.error().code() == Code::kGone;
      if (nobody) start_keeper(fd.error().text());
      retry();
      return;
    }
    channel = launcher::Channel(*fd);
    wait = kConnectFirst;
    watch = reactor.watch(channel.fd(), EPOLLIN, [this](std::uint32_t events) { on_ready(events); });
    launcher::Hello hello{known()};
    (void)send(launcher::Packet(std::move(hello)));
  }

  void retry() {
    timer = reactor.after(wait, [this] { connect(); });
    wait = std::min(wait * 2, Duration(kConnectMost));
  }

  void start_keeper(const std::string& why) {
    const Duration now = real_time().mono;
    if (keeper_at >= Duration(0) && now - keeper_at < kKeeperAgain) return;
    keeper_at = now;
    SpawnOptions spawn_options;
    spawn_options.argv = {options.launcher, "--keeper", "--state", options.state_dir, "--cgroup-root", options.cgroup_root};
    if (!options.isolation) spawn_options.argv.emplace_back("--no-isolation");
    if (!options.identity.empty()) spawn_options.argv.insert(spawn_options.argv.end(), {"--identity", options.identity});
    spawn_options.stdout_path = spawn_options.stderr_path = options.state_dir + "/launcher.log";
    spawn_options.directory = "/";
    spawn_options.own_session = true;
    const auto pid = spawn_detached(spawn_options);
    if (!pid) {
      log_event(LogLevel::kError, "keeper_not_started",
                {{"launcher", options.launcher},
                 {"reason", pid.error().text()},
                 {"then", "retrying; no task can be started until then"}});
      return;
    }
    log_event(LogLevel::kInfo, "keeper_started", {{"pid", std::to_string(*pid)}, {"because", why}});
  }

  void lost(const std::string& why) {
    if (!channel.open()) return;
    reactor.unwatch(watch);
    watch = 0;
    channel.close();
    const bool was_ready = ready;
    ready = false;
    forgets.clear();
    if (ending) return;
    log_event(LogLevel::kWarn, "launcher_connection_lost", {{"reason", why}, {"then", "reconnecting"}});
    if (was_ready) post(LauncherLost{});
    if (timer == 0) retry();
  }

  Result<> send(const launcher::Packet& packet) {
    auto sent = channel.send(packet);
    if (!sent && sent.error().code() == Code::kGone) {
      const std::string why = sent.error().text();
      reactor.defer([weak = self, why] {
        if (*weak != nullptr) (*weak)->lost(why);
      });  // not from within an action: the step goes on first
    }
    if (channel.open() && channel.waiting()) reactor.rearm(watch, EPOLLIN | EPOLLOUT);
    return sent;
  }

  void on_ready(std::uint32_t events) {
    if ((events & EPOLLOUT) != 0) {
      if (auto flushed = channel.flush(); !flushed) return lost(flushed.error().text());
      if (!channel.waiting()) reactor.rearm(watch, EPOLLIN);
    }
    const auto alive = self;
    std::string why;
    for (std::uint32_t i = 0; i < kPacketsATurn && channel.open(); ++i) {
      auto packet = channel.receive();
      if (!packet) {
        if (packet.error().code() == Code::kBusy) break;
        if (packet.error().code() == Code::kCorrupt) {
          log_event(LogLevel::kWarn, "launcher_packet", {{"reason", packet.error().text()}, {"then", "ignoring it"}});
          continue;
        }
        why = packet.error().text();
        break;
      }
      std::visit([this](auto& p) { receive(p); }, *packet);
      if (*alive == nullptr) return;
    }
    for (const launcher::StartedTask& p : std::exchange(begun, {})) {
      post(TaskStarted{p.task, p.pid});
      if (*alive == nullptr) return;
    }
    if (!why.empty()) lost(why);
  }

  // --- from the launcher -----------------------------------------------------------------------------------------------

  void receive(launcher::State& p) {
    state = std::move(p);
    ready = true;
    if (!state.degraded.empty() && !told) {
      told = true;  // once a life: an admin reads it at start, or in `bourse agents`
      std::string all;
      for (const std::string& what : state.degraded) all += (all.empty() ? "" : "; ") + what;
      log_event(LogLevel::kWarn, "isolation_degraded",
                {{"isolation", state.isolation}, {"missing", all}, {"then", "tasks run without these limits"}});
    }
    if (isolation_due) {
      isolation_due = false;
      post(ProbeDone{kProbeIsolation, isolation_inventory(state), {}});
    }
    HostTasks tasks;
    for (const launcher::State::Task& task : state.running) tasks.running.push_back(task.task);
    tasks.rebooted = state.rebooted;
    post(std::move(tasks));
  }
  void receive(launcher::Prepared& p) { post(SliceCarved{p.slice, p.error}); }
  void receive(launcher::Released& p) { post(SliceErased{p.slice}); }
  void receive(launcher::StartedTask& p) { begun.push_back(std::move(p)); }
  void receive(launcher::StartFailed& p) { post(TaskStartFailed{p.task, p.reason, p.withdrawn}); }
  void receive(launcher::Ended& p) {
    std::erase_if(begun, [&p](const launcher::StartedTask& one) { return one.task == p.task; });  // its end says all
    post(TaskEnded{p.task, p.known, p.wait_status, p.out_of_memory, p.cpu, p.mem_peak, p.started, p.ended, p.fenced});
  }
  void receive(launcher::Measured& p) {
    UsageSample sample;
    for (const auto& s : p.slices) sample.slices.push_back({s.slice, s.use.cpu, s.use.mem, s.use.critical});
    post(std::move(sample));
  }
  template <class Other>
  void receive(Other&) {
    log_event(LogLevel::kWarn, "launcher_packet", {{"reason", "a packet that only the agent sends"}, {"then", "ignoring it"}});
  }

  // --- from the agent ----------------------------------------------------------------------------------------------------

  void act(const CarveSlice& a) {
    if (!ready) return;
    auto limits = limits_of(a.spec, a.device_nodes, options.limits);
    if (!limits) return post(SliceCarved{a.spec.id, limits.error().text()});
    (void)send(launcher::Prepare{a.spec.id, *std::move(limits)});
  }
  void act(const EraseSlice& a) {
    if (ready) (void)send(launcher::Release{a.slice});
  }
  void act(const SignalTask& a) {
    if (ready) (void)send(launcher::Signal{a.task, a.signal, a.whole});
  }
  void act(const ForgetTask& a) {
    if (!ready) return;
    forgets.push_back(a.task);
    if (forgets.size() >= kForgetsMax) return send_forgets();
    if (forget_timer != 0) return;
    forget_timer = reactor.after(kForgetWithin, [this] {
      forget_timer = 0;
      send_forgets();
    });
  }
  void send_forgets() {
    for (const TaskKey& task : std::exchange(forgets, {}))
      if (ready) (void)send(launcher::Forget{task});
  }
  Result<> known_user(const TaskSpec& spec) {
    const Duration now = real_time().mono;
    const std::pair key(spec.user, spec.uid);
    if (const auto it = users.find(key); it != users.end() && now < it->second) return {};
    BOURSE_TRY(check_user(spec.user, spec.uid));
    if (users.size() >= kUsersKeptMax) users.clear();
    users[key] = now + kUserKept;
    return {};
  }
  void act(const StartTask& a) {
    if (!ready) return;
    hooks::crash_point("agent.after_append");
    auto confine = confine_of(a.spec, options.limits);
    if (!confine) return post(TaskStartFailed{a.task, confine.error().text(), false});
    launcher::Start start{a.task,   a.slice,         a.spec,
                          *confine, a.device_nodes,  a.hypervisor,
                          a.warm,   a.own_variables, static_cast<std::uint32_t>(a.replaced.size())};
    start.spec.env.insert(start.spec.env.end() - a.own_variables, a.replaced.begin(), a.replaced.end());
    if (auto user = known_user(start.spec); !user) return post(TaskStartFailed{a.task, user.error().text(), false});
    if (auto resolved = artifacts.resolve(start.spec); !resolved)
      return post(TaskStartFailed{a.task, resolved.error().text(), false});
    hooks::crash_point("agent.before_start");
    if (!a.warm.empty() && warm) warm->claimed(a.warm);
    const auto sent = send(launcher::Packet(std::move(start)));
    send_forgets();
    // Gone: it is asked for again when the launcher is back. Too large or too slow: that would not help.
    if (!sent && sent.error().code() != Code::kGone) return post(TaskStartFailed{a.task, sent.error().text(), false});
    hooks::crash_point("agent.after_start");
  }
  void act(const MeasureUsage&) {
    if (ready) (void)send(launcher::Packet(launcher::Measure{}));
    if (!psi)
      psi = std::make_unique<PsiWatch>(reactor, pressure_files(options.limits.root, options.cgroup_root),
                                       [this](PressureSample sample) { post(std::move(sample)); });
    psi->sample();
  }
  void act(const LimitRevocable& a) {
    if (ready) (void)send(launcher::Packet(launcher::LimitLent{a.mem}));
  }
  void act(const SqueezeSlice& a) {
    if (ready) (void)send(launcher::Packet(launcher::Squeeze{a.slice, a.mem_high}));
  }
  void act(const HoldLease& a) {
    if (ready) (void)send(launcher::Packet(launcher::Lease{std::chrono::duration_cast<milliseconds>(a.until).count()}));
  }
  void act(const KeepWarm& a) {
    if (!warm)
      warm = std::make_unique<WarmKeeper>(
          reactor, options.state_dir, directory_of(options.launcher) + "/",
          [this](const TaskSpec& spec) { return confine_of(spec, options.limits); },
          [this](WarmState now_warm) { post(std::move(now_warm)); });
    KeepWarm wanted = a;  // a script that a task brings is a file by now, mounted where the next one finds it
    std::erase_if(wanted.pools, [this](KeepWarm::Pool& pool) { return !artifacts.resolve(pool.spec); });
    warm->keep(wanted);
  }
  void act(const RunProbe& a) {
    if (a.probe != kProbeIsolation) return prober->run(a, post);
    if (!ready) {
      isolation_due = true;
    } else {
      post(ProbeDone{a.probe, isolation_inventory(state), {}});
    }
  }

  void end_all(std::function<void()> done) {
    ending = true;
    for (const int pid : launcher_processes(options.state_dir)) {
      kill(pid, SIGTERM);
      break;  // the keeper, who takes its launcher with it; or the launcher where there is no keeper
    }
    await_end(std::move(done), 0);
  }
  void await_end(std::function<void()> done, int polls) {
    const std::vector<int> left = launcher_processes(options.state_dir);
    if (left.empty()) return done();
    // What was the launcher may be the keeper by now: asked again every second.
    if (polls % 50 == 49) kill(left.front(), SIGTERM);
    timer = reactor.after(kEndPoll, [this, done = std::move(done), polls]() mutable { await_end(std::move(done), polls + 1); });
  }
};

Host::Host() = default;
Host::~Host() = default;

Result<std::unique_ptr<Host>> Host::make(Reactor& reactor, HostOptions options, std::unique_ptr<Prober> prober, Post post,
                                         KnownSlices known) {
  ArtifactStore artifacts = BOURSE_TRY(ArtifactStore::open(options.state_dir + "/artifacts", options.artifacts_max));
  if (const auto closed = artifacts.closed_directories(); !closed.empty())
    log_event(
        LogLevel::kWarn, "state_directory_closed",
        {{"directory", closed.back()}, {"then", "scripts of users other than its owner cannot be executed from it; chmod o+x it"}});
  std::unique_ptr<Host> host(new Host);
  host->impl_ = std::make_unique<Impl>(reactor, std::move(options), std::move(prober), std::move(post), std::move(known),
                                       std::move(artifacts));
  return host;
}

void Host::start() { impl_->connect(); }
Prober& Host::prober() { return *impl_->prober; }
void Host::execute(const HostAction& action) {
  std::visit([this](const auto& a) { impl_->act(a); }, action);
}
void Host::end_all(std::function<void()> done) { impl_->end_all(std::move(done)); }
bool Host::connected() const { return impl_->ready; }

}  // namespace bourse
