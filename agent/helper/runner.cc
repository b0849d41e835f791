#include "agent/helper/runner.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <map>

#include "common/core/hooks.h"
#include "common/world/spawn.h"

namespace bourse {
namespace {

constexpr std::size_t kLastWordsMax = 400;
constexpr std::size_t kChunk = 64 * 1024;

struct Pipe {
  int read = -1, write = -1;
  bool open() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return false;
    read = fds[0], write = fds[1];
    fcntl(read, F_SETFL, O_NONBLOCK);
    return true;
  }
  static void shut(int& fd) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
};

std::string death_text(int wait_status) {
  if (wait_status < 0) return "ended, and nobody knows how";
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    const char* name = sigabbrev_np(signal);
    return "crashed: SIG" + std::string(name == nullptr ? "?" : name) + " (signal " + std::to_string(signal) + ")";
  }
  return "ended with status " + std::to_string(WEXITSTATUS(wait_status)) + " and no report";
}

// What it printed last, on one line.
std::string last_words(std::string text) {
  if (text.size() > kLastWordsMax) text.erase(0, text.size() - kLastWordsMax);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text.empty() ? "" : "; it said: " + text;
}

}  // namespace

struct HelperRunner::Impl : std::enable_shared_from_this<HelperRunner::Impl> {
  struct Waiting {
    std::string probe;
    ProbeInput input;
    Duration limit;
    Done done;
  };
  struct Run {
    std::string probe;
    Done done;
    pid_t pid = 0;
    int report = -1, words = -1;
    Reactor::WatchId report_watch = 0, words_watch = 0, exit_watch = 0;
    Reactor::TimerId timer = 0;
    std::string bytes, said;
    bool too_long = false, exited = false, answered = false;
    int wait_status = 0;
    Duration began{0}, limit{0};
  };

  Reactor& reactor;
  std::string helper;
  std::deque<Waiting> queue;
  std::map<std::uint64_t, Run> runs;
  std::uint64_t next = 0;
  bool closing = false;

  Impl(Reactor& r, std::string h) : reactor(r), helper(std::move(h)) {}

  void close_all() {
    closing = true;
    for (auto& [id, run] : runs) {
      kill(-run.pid, SIGKILL);
      if (run.exit_watch != 0) reactor.unwatch(run.exit_watch);
      release(run);
      // Not waited for: one that cannot be ended must not keep us. It is init's when we are gone.
      if (!run.exited) (void)waitpid(run.pid, nullptr, WNOHANG);
    }
    runs.clear();
    queue.clear();
  }

  void release(Run& run) {
    if (run.report_watch != 0) reactor.unwatch(run.report_watch);
    if (run.words_watch != 0) reactor.unwatch(run.words_watch);
    if (run.timer != 0) reactor.cancel(run.timer);
    run.report_watch = run.words_watch = 0;
    run.timer = 0;
    Pipe::shut(run.report);
    Pipe::shut(run.words);
  }

  [[nodiscard]] std::size_t stuck() const {
    std::size_t n = 0;
    for (const auto& [id, run] : runs) n += run.answered ? 1 : 0;
    return n;
  }

  void start_next() {
    while (!closing && !queue.empty() && runs.size() - stuck() < kRunsMax) {
      Waiting one = std::move(queue.front());
      queue.pop_front();
      start(std::move(one));
    }
  }

  void start(Waiting one) {
    Pipe report, words;
    const Duration began = real_time().mono;
    auto fail = [&](Error error) {
      for (Pipe* pipe : {&report, &words}) Pipe::shut(pipe->read), Pipe::shut(pipe->write);
      reactor.defer([done = std::move(one.done), error = std::move(error)] { done({error, Duration(0)}); });
    };
    for (const auto& [id, run] : runs)
      if (run.answered && run.probe == one.probe)
        return fail(Error(Code::kBusy, "its run before has been killed and does not end: it hangs in the kernel, pid " +
                                           std::to_string(run.pid)));
    if (!report.open() || !words.open()) return fail(errno_error("pipe"));
    SpawnOptions options;
    options.argv = {helper, one.probe, "--root", one.input.root};
    for (const auto& [name, value] : one.input.options) {
      options.argv.emplace_back("--set");
      options.argv.push_back(name + "=" + value);
    }
    options.directory = "/";
    options.own_session = true;  // its process group is killed as a whole
    options.death_signal = SIGKILL;
    options.pass = {{report.write, kReportFd}, {words.write, 2}, {words.write, 1}};
    const auto pid = spawn(options);
    if (!pid) return fail(Error(Code::kIo, pid.error().text()));
    Pipe::shut(report.write);
    Pipe::shut(words.write);
    const std::uint64_t id = ++next;
    Run& run = runs[id];
    run.probe = std::move(one.probe);
    run.done = std::move(one.done);
    run.pid = *pid;
    run.report = report.read;
    run.words = words.read;
    run.began = began;
    run.limit = one.limit;
    const std::weak_ptr<Impl> weak = weak_from_this();
    run.report_watch = reactor.watch(run.report, EPOLLIN, [this, id](std::uint32_t) { drain(id, true); });
    run.words_watch = reactor.watch(run.words, EPOLLIN, [this, id](std::uint32_t) { drain(id, false); });
    run.exit_watch = reactor.on_exit(run.pid, [weak, id](int status) {
      if (const auto self = weak.lock(); self && !self->closing) self->exited(id, status);
    });
    if (!hooks::mutant("helper.limit_ignored")) run.timer = reactor.after(one.limit, [this, id] { over_limit(id); });
  }

  void drain(std::uint64_t id, bool of_report) {
    const auto it = runs.find(id);
    if (it == runs.end()) return;
    Run& run = it->second;
    int& fd = of_report ? run.report : run.words;
    std::string buffer(kChunk, '\0');
    for (;;) {
      const ssize_t n = read(fd, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) break;
      const std::string_view got(buffer.data(), static_cast<std::size_t>(n));
      if (of_report) {
        if (run.bytes.size() + got.size() > kReportBytesMax) run.too_long = true;
        if (!run.too_long) run.bytes += got;
      } else {
        run.said += got;
        if (run.said.size() > 2 * kChunk) run.said.erase(0, run.said.size() - kLastWordsMax);
      }
    }
    reactor.unwatch(of_report ? run.report_watch : run.words_watch);
    (of_report ? run.report_watch : run.words_watch) = 0;
    Pipe::shut(fd);
  }

  void exited(std::uint64_t id, int status) {
    const auto it = runs.find(id);
    if (it == runs.end()) return;
    it->second.exited = true;
    it->second.wait_status = status;
    kill(-it->second.pid, SIGKILL);  // what a driver's library may have started
    if (it->second.report >= 0) drain(id, true);
    if (it->second.words >= 0) drain(id, false);
    Run run = std::move(it->second);
    runs.erase(it);
    release(run);
    if (!run.answered) answer(run, result(run));
    start_next();
  }

  static Result<ProbeReport> result(const Run& run) {
    if (run.too_long)
      return Error(Code::kCorrupt, "its answer has more than " + std::to_string(kReportBytesMax) + " bytes" + last_words(run.said));
    if (WIFEXITED(run.wait_status) && WEXITSTATUS(run.wait_status) == 0 && !run.bytes.empty()) return decode_report(run.bytes);
    return Error(Code::kGone, death_text(run.wait_status) + last_words(run.said));
  }

  void over_limit(std::uint64_t id) {
    const auto it = runs.find(id);
    if (it == runs.end()) return;
    Run& run = it->second;
    run.timer = 0;
    kill(-run.pid, SIGKILL);
    kill(run.pid, SIGKILL);
    drain(id, false);
    run.answered = true;
    const Error error(Code::kTimeout,
                      "gave no answer within " + format_duration(run.limit) + " and was killed" + last_words(run.said));
    release(run);
    answer(run, error);
    start_next();
  }

  static void answer(Run& run, Result<ProbeReport> report) {
    const Done done = std::move(run.done);
    done({std::move(report), real_time().mono - run.began});
  }
};

HelperRunner::HelperRunner(Reactor& reactor, std::string helper) : impl_(std::make_shared<Impl>(reactor, std::move(helper))) {}
HelperRunner::~HelperRunner() { impl_->close_all(); }

void HelperRunner::run(const std::string& probe, const ProbeInput& input, Duration limit, Done done) {
  if (impl_->queue.size() >= kQueueMax)
    return impl_->reactor.defer([done = std::move(done)] {
      done({Error(Code::kLimit, "too many probes wait to be run"), Duration(0)});
    });
  impl_->queue.push_back({probe, input, limit, std::move(done)});
  impl_->start_next();
}

std::size_t HelperRunner::running() const { return impl_->runs.size() - impl_->stuck(); }
std::size_t HelperRunner::stuck() const { return impl_->stuck(); }

HelperResult run_helper(const std::string& helper, const std::string& probe, const ProbeInput& input, Duration limit) {
  Reactor reactor;
  HelperRunner runner(reactor, helper);
  HelperResult result;
  runner.run(probe, input, limit, [&](HelperResult r) {
    result = std::move(r);
    reactor.stop();
  });
  reactor.run();
  return result;
}

std::string helper_path(const std::string& configured) {
  if (!configured.empty()) return configured;
  const std::string beside = own_directory() + "/bourse-helper";
  return access(beside.c_str(), X_OK) == 0 ? beside : own_directory() + "/../libexec/bourse/bourse-helper";
}

}  // namespace bourse
