// bourse relay: what the launcher runs in a job's slice for a step whose output, input and signals belong to a tool elsewhere
// (step_io.h). It runs the command, passes everything on, and ends as the command ended, so that the step's status is the command's.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <pty.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utmp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/world/reactor.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/step_io.h"

namespace bourse::cli {
namespace {

constexpr int kNotFound = 127, kCannotRun = 126;  // as a shell says it
constexpr int kNoTool = 255;
constexpr Duration kProbe = seconds(2);  // for one address to answer
constexpr Duration kDrain = seconds(1);  // for output of what the command left running behind it
constexpr Duration kByePatience = seconds(30);
constexpr Duration kLastWord = milliseconds(100);  // for one frame to leave

// What the launcher sends to a step, it sends to each process in it; the command has it already, and decides.
constexpr std::array kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// ZeroMQ would try one address for ever; so the first that answers at all is found before.
bool answers(const std::string& endpoint) {
  const std::size_t colon = endpoint.rfind(':');
  const std::string host = endpoint.substr(std::string("tcp://").size(), colon - std::string("tcp://").size());
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(number(endpoint.substr(colon + 1))));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) return false;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  timeval limit{};
  limit.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(kProbe).count();
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const bool ok = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return ok;
}

class Relay {
 public:
  explicit Relay(StepIo io) : io_(std::move(io)), connection_(context_, reactor_, SocketLimits{}) {}

  int run(const std::vector<std::string>& argv) {
    if (!connect()) return kNoTool;
    if (!io_.hold) {
      if (const int failed = start(argv); failed != 0) return failed;
    }
    reactor_.run();
    return end_;
  }

  // Dies as the command did.
  [[noreturn]] void finish(int status) const {
    if (signal_ != 0) {
      const rlimit none{0, 0};
      setrlimit(RLIMIT_CORE, &none);  // the command has written its own
      std::signal(signal_, SIG_DFL);
      sigset_t only;
      sigemptyset(&only);
      sigaddset(&only, signal_);
      sigprocmask(SIG_UNBLOCK, &only, nullptr);
      raise(signal_);
    }
    _exit(status);
  }

 private:
  bool connect() {
    std::vector<std::string> order = io_.endpoints;
    if (io_.boot == boot_id())  // the same host
      std::ranges::stable_partition(order, [](const std::string& e) { return e.starts_with("tcp://127."); });
    const auto there = std::ranges::find_if(order, answers);
    std::string tried;
    for (const std::string& endpoint : order) tried += (tried.empty() ? "" : ", ") + endpoint;
    if (there == order.end()) {
      fmt::print(stderr, "bourse relay: the tool that asked for this step cannot be reached at {}\n", tried);
      return false;
    }
    connection_.on_frame([this](std::string_view frame) { take(frame); });
    if (auto done = connection_.connect(*there, &io_.keys, io_.server_key); !done) {
      fmt::print(stderr, "bourse relay: {}\n", done.error().text());
      return false;
    }
    (void)connection_.send(step_frame(StepWord::kHello));
    heard_ = real_time().mono;
    while (!greeted_ && real_time().mono - heard_ < kStepConnectPatience)
      if (!reactor_.turn(milliseconds(200))) break;
    if (!greeted_) fmt::print(stderr, "bourse relay: no answer from the tool that asked for this step, at {}\n", *there);
    watch_silence();
    return greeted_;
  }

  void watch_silence() {
    reactor_.after(kStepBeat, [this] {
      if (real_time().mono - heard_ < kStepSilence) return watch_silence();
      if (io_.hold) {
        end_ = 1;
        return reactor_.stop();
      }
      kill_command(SIGKILL);  // whoever wanted it is gone
      watch_silence();
    });
  }

  void kill_command(int signal) {
    if (child_ <= 0)
      early_signal_ = signal;
    else if (!exited_)
      ::kill(-child_, signal);
  }

  // 0, or the status to end with; what went wrong has been said to the tool.
  int start(const std::vector<std::string>& argv) {
    std::array<int, 2> out{-1, -1}, err{-1, -1}, in{-1, -1}, failure{-1, -1};
    int master = -1, slave = -1;
    const bool made =
        io_.terminal ? openpty(&master, &slave, nullptr, nullptr, nullptr) == 0
                     : pipe2(out.data(), O_CLOEXEC) == 0 && pipe2(err.data(), O_CLOEXEC) == 0 && pipe2(in.data(), O_CLOEXEC) == 0;
    if (!made || pipe2(failure.data(), O_CLOEXEC) != 0) return say_failed(argv, errno);
    if (io_.terminal) fcntl(master, F_SETFD, FD_CLOEXEC), fcntl(slave, F_SETFD, FD_CLOEXEC);
    std::vector<char*> words;
    for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    child_ = fork();
    if (child_ < 0) return say_failed(argv, errno);
    if (child_ == 0) {
      if (io_.terminal)
        (void)login_tty(slave);  // a session of its own, with this as its terminal
      else
        join_pipes(in[0], out[1], err[1]);
      sigset_t none;
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, nullptr);
      for (const int signal : kPassedOn) std::signal(signal, SIG_DFL);
      std::signal(SIGPIPE, SIG_DFL);
      execvp(words[0], words.data());
      const int why = errno;
      (void)!write(failure[1], &why, sizeof why);
      _exit(why == ENOENT ? kNotFound : kCannotRun);
    }
    setpgid(child_, child_);
    for (const int fd : {slave, out[1], err[1], in[0], failure[1]})
      if (fd >= 0) close(fd);
    int why = 0;
    const bool failed = read(failure[0], &why, sizeof why) == sizeof why;
    close(failure[0]);
    if (failed) {
      waitpid(child_, nullptr, 0);
      child_ = 0;
      return say_failed(argv, why);
    }
    const int input = io_.terminal ? master : in[1];
    streams_[0] = {io_.terminal ? master : out[0], StepWord::kOut, 0, false};
    streams_[1] = {io_.terminal ? -1 : err[0], StepWord::kErr, 0, io_.terminal};
    input_ = io_.terminal ? dup(input) : input;
    for (const int fd : {streams_[0].fd, streams_[1].fd, input_})
      if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    for (Stream& stream : streams_)
      if (stream.fd >= 0) stream.watch = reactor_.watch(stream.fd, EPOLLIN, [this, &stream](std::uint32_t) { forward(stream); });
    reactor_.on_exit(child_, [this](int status) { on_exit(status); });
    // What was said before the command was there.
    feed();
    if (!early_window_.empty()) resize(early_window_);
    if (early_signal_ != 0) kill_command(early_signal_);
    return 0;
  }

  // In the child.
  void join_pipes(int in, int out, int err) const {
    setpgid(0, 0);
    if (!io_.files[0]) dup2(in, STDIN_FILENO);
    if (!io_.files[1]) dup2(out, STDOUT_FILENO);
    if (!io_.files[2]) dup2(err, STDERR_FILENO);
  }

  int say_failed(const std::vector<std::string>& argv, int why) {
    (void)connection_.send(step_frame(StepWord::kErr, fmt::format("{}: {}\n", argv[0], std::strerror(why))));
    end_ = why == ENOENT ? kNotFound : kCannotRun;
    say_end();
    reactor_.run();
    return end_;
  }

  struct Stream {
    int fd = -1;
    StepWord word = StepWord::kOut;
    Reactor::WatchId watch = 0;
    bool done = true;
  };

  void forward(Stream& stream) {
    std::array<char, kStepChunk> chunk;
    while (!stream.done && on_their_way_ < kStepCredit) {
      const ssize_t n = read(stream.fd, chunk.data(), chunk.size());
      if (n > 0) {
        on_their_way_ += static_cast<std::size_t>(n);
        (void)connection_.send(step_frame(stream.word, {chunk.data(), static_cast<std::size_t>(n)}));
        continue;
      }
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      reactor_.unwatch(stream.watch);  // the end, or EIO: nobody has the terminal open any more
      close(stream.fd);
      stream.done = true;
    }
    if (!stream.done) reactor_.rearm(stream.watch, 0);  // until there is credit again
    if (exited_) look_done();
  }

  void credit(std::size_t bytes) {
    on_their_way_ -= std::min(bytes, on_their_way_);
    for (Stream& stream : streams_) {
      if (stream.done) continue;
      reactor_.rearm(stream.watch, EPOLLIN);
      forward(stream);
    }
  }

  void on_exit(int status) {
    exited_ = true;
    if (WIFSIGNALED(status)) signal_ = WTERMSIG(status);
    end_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (input_ >= 0) stop_input();
    for (Stream& stream : streams_) forward(stream);
    look_done();
    // What it left in the background may keep the pipes; its output is waited for a moment only, as long as nothing is held up.
    reactor_.after(kDrain, [this] { give_up_streams(); });
  }
  void give_up_streams() {
    if (on_their_way_ >= kStepCredit) {
      reactor_.after(kDrain, [this] { give_up_streams(); });
      return;
    }
    for (Stream& stream : streams_)
      if (!stream.done) reactor_.unwatch(stream.watch), stream.done = true;
    look_done();
  }
  void look_done() {
    if (exited_ && streams_[0].done && streams_[1].done) say_end();
  }
  void say_end() {
    if (std::exchange(said_end_, true)) return;
    (void)connection_.send(step_frame(StepWord::kEnd));
    reactor_.after(kByePatience, [this] { reactor_.stop(); });
  }

  void take(std::string_view frame) {
    heard_ = real_time().mono;
    if (frame.empty()) return;
    const std::string_view rest = frame.substr(1);
    switch (static_cast<StepWord>(frame[0])) {
      case StepWord::kGo:
        greeted_ = true;
        break;
      case StepWord::kCredit:
        credit(static_cast<std::size_t>(std::max<std::int64_t>(number(rest), 0)));
        break;
      case StepWord::kInput:
        pending_ += rest;
        feed();
        break;
      case StepWord::kInputEnd:
        input_ends_ = true;
        feed();
        break;
      case StepWord::kSignal:
        kill_command(static_cast<int>(number(rest)));
        break;
      case StepWord::kWindow:
        resize(rest);
        break;
      case StepWord::kBye:
        if (!io_.hold) return reactor_.stop();
        end_ = static_cast<int>(number(rest));
        (void)connection_.send(step_frame(StepWord::kEnd));
        reactor_.after(kLastWord, [this] { reactor_.stop(); });
        break;
      default:
        break;
    }
  }

  void resize(std::string_view text) {
    if (child_ <= 0) early_window_ = text;
    const std::size_t blank = text.find(' ');
    if (!io_.terminal || streams_[0].done || blank == std::string_view::npos) return;
    winsize size{};
    size.ws_row = static_cast<unsigned short>(number(text.substr(0, blank)));
    size.ws_col = static_cast<unsigned short>(number(text.substr(blank + 1)));
    ioctl(streams_[0].fd, TIOCSWINSZ, &size);
  }

  // To the command, as fast as it takes it. A command that has closed its input gets no more; that is no error, as with a pipe.
  void feed() {
    std::size_t taken = 0;
    while (input_ >= 0 && !pending_.empty()) {
      const ssize_t n = write(input_, pending_.data(), pending_.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) {
        if (input_watch_ == 0) input_watch_ = reactor_.watch(input_, EPOLLOUT, [this](std::uint32_t) { feed(); });
        break;
      }
      if (n < 0) {
        stop_input();
        break;
      }
      taken += static_cast<std::size_t>(n);
      pending_.erase(0, static_cast<std::size_t>(n));
    }
    if (pending_.empty() && input_watch_ != 0) reactor_.unwatch(std::exchange(input_watch_, 0));
    if (pending_.empty() && input_ends_ && input_ >= 0 && !io_.terminal) close(std::exchange(input_, -1));
    if (taken > 0) (void)connection_.send(step_frame(StepWord::kEaten, std::to_string(taken)));
  }
  void stop_input() {
    if (input_watch_ != 0) reactor_.unwatch(std::exchange(input_watch_, 0));
    close(std::exchange(input_, -1));
    pending_.clear();
    (void)connection_.send(step_frame(StepWord::kEaten, "-"));
  }

  StepIo io_;
  Context context_;
  Reactor reactor_;
  Connection connection_;
  std::array<Stream, 2> streams_;
  std::size_t on_their_way_ = 0;
  std::string pending_;
  int input_ = -1;
  Reactor::WatchId input_watch_ = 0;
  bool input_ends_ = false, greeted_ = false, exited_ = false, said_end_ = false;
  Duration heard_{0};
  pid_t child_ = 0;
  int end_ = 0, signal_ = 0, early_signal_ = 0;
  std::string early_window_;
};

}  // namespace

int relay_main(int argc, char** argv) {
  const char* text = std::getenv(kStepIoVariable);
  auto io = parse_step_io(text == nullptr ? "" : text);
  if (!io || (argc < 2 && !io->hold)) {
    fmt::print(stderr, "bourse relay: it is run by srun and `bourse step', not by people{}\n", io ? "" : ": " + io.error().text());
    return 2;
  }
  unsetenv(kStepIoVariable);
  for (const char* name : {"SLURM_NODEID", "SUBMIT_NODEID"}) setenv(name, std::to_string(io->node).c_str(), 1);
  std::signal(SIGPIPE, SIG_IGN);
  for (const int signal : kPassedOn)
    if (!io->hold) std::signal(signal, SIG_IGN);
  Relay relay(*std::move(io));
  const int status = relay.run({argv + 1, argv + argc});
  relay.finish(status);
}

}  // namespace bourse::cli
