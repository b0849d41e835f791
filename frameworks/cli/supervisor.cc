#include "frameworks/cli/supervisor.h"
#include "common/world/command_line.h"
#include "frameworks/cli/complain.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>

#include "common/world/driver.h"
#include "common/world/files.h"
#include "common/world/log.h"
#include "common/world/reactor.h"
#include "common/world/spawn.h"
#include "frameworks/cli/cluster.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/leftovers.h"

namespace bourse::cli {
namespace {

// How a program ended, in words.
std::string ending(int status) {
  if (WIFEXITED(status)) return "status " + std::to_string(WEXITSTATUS(status));
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "status unknown";
}

struct Program {
  std::string name;  // "master", "agent-h1", "batch": its log's name too
  std::vector<std::string> argv;
  int end_signal = SIGTERM;
  Duration end_wait = kEndWait;
  int stage = 0;  // started in rising, ended in falling order

  pid_t pid = 0;
  bool ready = false, wanted = false;
  int ready_pipe = -1;
  Reactor::WatchId ready_watch = 0;
  Reactor::TimerId timer = 0;
  Duration started{0}, delay{kRestartFirst};
};

constexpr int kStages = 4;  // master, agents, batch, console

class Supervisor {
 public:
  Supervisor(const Cluster& cluster, int ready_fd) : cluster_(cluster), ready_fd_(ready_fd) {
    const std::string bin = own_directory();
    const std::string config = cluster.dir + "/bourse.conf";
    for (const LocalMaster& master : cluster.masters) {
      std::vector<std::string> argv = {program(bin, "bourse-master"), "--config", config};
      if (!master.name.empty()) {
        argv.insert(argv.end(),
                    {"--state", cluster.dir + "/state/" + master.program(), "--set", "master.listen=" + master.endpoint});
        const std::vector<std::string> group = of_group(cluster, master);
        argv.insert(argv.end(), group.begin(), group.end());
      }
      add(master.program(), 0, std::move(argv));
    }
    for (const std::string& id : cluster.agents) {
      std::string name = "agent-" + id;
      std::replace(name.begin(), name.end(), '/', '_');
      Program& agent = add(name, 1,
                           {program(bin, "bourse-agent"), "--config", config, "--id", id, "--state", cluster.agent_state(id),
                            "--set", "agent.cgroup_root=" + cluster.cgroup_root(id)});
      agent.end_signal = SIGINT;  // tasks and launcher too
      agent.end_wait = kEndWaitAgent;
    }
    add("batch", 2, {program(bin, "bourse-batch"), "--config", config});
    if (cluster.console) add("console", 3, {program(bin, "bourse-console"), "--config", config});
  }

  void run() {
    for (const int signal : {SIGTERM, SIGINT, SIGQUIT}) reactor_.on_signal(signal, [this] { end("asked to"); });
    reactor_.on_signal(SIGHUP, [this] {
      for (const auto& p : programs_)
        if (p->pid > 0 && p->ready && (p->name.starts_with("master") || p->name == "batch")) kill(p->pid, SIGHUP);
    });
    start_stage(0);
    reactor_.run();
  }
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  // What a master needs to know of the group with which it replicates the registry.
  static std::vector<std::string> of_group(const Cluster& cluster, const LocalMaster& master) {
    std::string peers;
    for (const LocalMaster& one : cluster.masters) peers += (peers.empty() ? "" : ",") + one.name + "=" + one.raft;
    return {"--set", "master.id=" + master.name, "--set", "master.raft=" + master.raft, "--set", "master.peers=" + peers};
  }

  static std::string program(const std::string& bin, const std::string& name) {
    // Beside us, or where make install puts daemons.
    const std::string beside = bin + "/" + name;
    if (access(beside.c_str(), X_OK) == 0) return beside;
    const std::string system = bin + "/../sbin/" + name;
    return access(system.c_str(), X_OK) == 0 ? system : beside;
  }

  Program& add(const std::string& name, int stage, std::vector<std::string> argv) {
    programs_.push_back(std::make_unique<Program>());
    Program& p = *programs_.back();
    p.name = name;
    p.argv = std::move(argv);
    p.argv.insert(p.argv.end(), {"--ready-fd", "3"});
    p.stage = stage;
    return p;
  }

  void start_stage(int stage) {
    stage_ = stage;
    for (auto& p : programs_)
      if (p->stage == stage) {
        p->wanted = true;
        start(*p);
      }
  }

  void start(Program& p) {
    p.timer = 0;
    if (ending_) return;
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) return again(p, errno_error("pipe").text());
    SpawnOptions options;
    options.argv = p.argv;
    options.env = {"BOURSE_DIR=" + cluster_.dir};
    options.directory = "/";
    options.stdout_path = options.stderr_path = cluster_.log(p.name);
    options.death_signal = SIGTERM;
    options.pass = {{pipe_fds[1], 3}};
    const auto pid = spawn(options);
    close(pipe_fds[1]);
    if (!pid) {
      close(pipe_fds[0]);
      return again(p, pid.error().text());
    }
    p.pid = *pid;
    p.started = real_time().mono;
    p.ready_pipe = pipe_fds[0];
    p.ready_watch = reactor_.watch(p.ready_pipe, EPOLLIN, [this, &p](std::uint32_t) { on_ready(p); });
    reactor_.on_exit(*pid, [this, &p](int status) { on_exit(p, status); });
    log_event(LogLevel::kInfo, "started", {{"program", p.name}, {"pid", std::to_string(p.pid)}});
  }

  void close_ready(Program& p) {
    if (p.ready_pipe < 0) return;
    reactor_.unwatch(p.ready_watch);
    close(p.ready_pipe);
    p.ready_pipe = -1;
  }

  void on_ready(Program& p) {
    char c = 0;
    const bool said = read(p.ready_pipe, &c, 1) == 1 && c == '\n';
    close_ready(p);
    if (!said) return;
    p.ready = true;
    log_event(LogLevel::kInfo, "ready", {{"program", p.name}});
    for (const auto& other : programs_)
      if (other->wanted && !other->ready) return;
    for (int next = stage_ + 1; next < kStages; ++next)
      if (std::any_of(programs_.begin(), programs_.end(), [&](const auto& other) { return other->stage == next; }))
        return start_stage(next);
    announce();
  }

  void announce() {
    if (announced_) return;
    announced_ = true;
    announce_ready(ready_fd_);
    ready_fd_ = -1;
    log_event(LogLevel::kInfo, "cluster_ready", {{"endpoint", cluster_.masters.front().endpoint}});
  }

  void on_exit(Program& p, int status) {
    close_ready(p);
    p.pid = 0;
    if (ending_) {
      log_event(LogLevel::kInfo, "ended", {{"program", p.name}, {"how", ending(status)}});
      return end_stage();
    }
    // A program that cannot even start will not by being tried again: say so at once.
    if (!announced_ && !p.ready) {
      failure_ = fmt::format("{} ended before it was ready ({})", p.name, ending(status));
      log_event(LogLevel::kError, "start_failed", {{"program", p.name}, {"how", ending(status)}});
      if (ready_fd_ >= 0) {
        (void)write_all(ready_fd_, failure_ + "\n");
        close(ready_fd_);
        ready_fd_ = -1;
      }
      return end(failure_);
    }
    again(p, ending(status));
  }

  void again(Program& p, const std::string& why) {
    if (p.started > Duration{0} && real_time().mono - p.started >= kGoodLife) p.delay = kRestartFirst;
    log_event(LogLevel::kWarn, "program_died",
              {{"program", p.name}, {"how", why}, {"then", "starting it again in " + format_duration(p.delay)}});
    p.timer = reactor_.after(p.delay, [this, &p] { start(p); });
    p.delay = std::min(p.delay * 2, kRestartMost);
  }

  void end(const std::string& why) {
    if (ending_) return;
    ending_ = true;
    log_event(LogLevel::kInfo, "ending", {{"because", why}});
    for (auto& p : programs_)
      if (p->timer != 0) reactor_.cancel(p->timer);
    stage_ = kStages;
    end_stage();
  }

  // Ends the next stage once the one before is gone.
  void end_stage() {
    for (const auto& p : programs_)
      if (p->stage >= stage_ && p->pid > 0) return;
    while (--stage_ >= 0) {
      bool any = false;
      for (auto& p : programs_) {
        if (p->stage != stage_ || p->pid <= 0) continue;
        any = true;
        kill(p->pid, p->end_signal);
        reactor_.after(p->end_wait, [&p = *p, pid = p->pid] {
          if (p.pid != pid) return;
          log_event(LogLevel::kWarn, "killing", {{"program", p.name}, {"because", "it did not end when asked"}});
          kill(pid, SIGKILL);
        });
      }
      if (any) return;
    }
    log_event(LogLevel::kInfo, "cluster_ended", {});
    reactor_.stop();
  }

  Reactor reactor_;
  const Cluster& cluster_;
  int ready_fd_;
  std::vector<std::unique_ptr<Program>> programs_;
  int stage_ = 0;
  bool announced_ = false, ending_ = false;
  std::string failure_;
};

}  // namespace

Result<> supervise(const SupervisorOptions& options) {
  const Cluster cluster = BOURSE_TRY(load_cluster(options.dir));
  log_init("bourse-supervisor", LogLevel::kInfo);
  const int lock = open(cluster.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return errno_error("open " + cluster.lock());
  // Somebody who only looks whether we run holds it for a moment.
  bool held = false;
  for (int attempt = 0; attempt < 50 && !held; ++attempt) {
    held = flock(lock, LOCK_EX | LOCK_NB) == 0;
    if (!held) poll(nullptr, 0, 20);
  }
  if (!held) return Error(Code::kBusy, "a supervisor of " + cluster.dir + " is running already");
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(lock, 0) != 0 || !write_all(lock, pid)) return errno_error("write " + cluster.lock());
  std::string failure;
  {
    Supervisor supervisor(cluster, options.ready_fd);
    supervisor.run();
    failure = supervisor.failure();
  }
  Result<> clean = remove_leftovers(cluster);
  if (!clean) log_event(LogLevel::kError, "leftovers", {{"reason", clean.error().text()}});
  unlink(cluster.lock().c_str());
  if (options.remove) {
    std::error_code error;
    std::filesystem::remove_all(cluster.dir, error);
  }
  if (!failure.empty()) return Error(Code::kGone, failure);
  return clean;
}

int supervise_main(int argc, char** argv) {
  SupervisorOptions options;
  CommandLine app("Keeps a local cluster running. Started by bourse up.", "bourse supervise");
  app.option("--ready-fd", options.ready_fd, "Descriptor for the word that all is ready");
  app.flag("--remove", options.remove, "Remove the directory at the end");
  app.option("DIR", options.dir, "Directory of the cluster").required();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  if (options.ready_fd >= 0) fcntl(options.ready_fd, F_SETFD, FD_CLOEXEC);
  const auto done = supervise(options);
  if (done) return 0;
  if (options.ready_fd >= 0) (void)write_all(options.ready_fd, done.error().text() + "\n");
  return complain("bourse supervise", done.error());
}

}  // namespace bourse::cli
