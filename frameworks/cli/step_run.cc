#include "frameworks/cli/step_run.h"
#include "frameworks/cli/credential.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "common/core/units.h"
#include "common/world/thread.h"
#include "frameworks/cli/batch_client.h"

extern char** environ;

namespace bourse::cli {
namespace {

constexpr std::size_t kLineMax = 64 * 1024;        // a longer line is passed on in pieces
constexpr Duration kLastWords = seconds(10);       // for output, after the framework has said how a process ended
constexpr Duration kSecondInterrupt = seconds(1);  // two of them so close: kill
constexpr Duration kGrace = seconds(5);            // from SIGTERM to SIGKILL
constexpr int kReconnectsMax = 60;                 // a second apart

std::size_t count_of(std::string_view digits) {
  std::size_t n = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), n);
  return n;
}

// Asks the framework in a thread of its own, since its client blocks; answers come by reactor.wake.
class Asking {
 public:
  using Answer = std::function<void(std::size_t process, Result<batch::StepReply>)>;

  static Result<std::unique_ptr<Asking>> open(const std::string& dir) {
    auto client = BOURSE_TRY(BatchClient::open(dir));
    return std::unique_ptr<Asking>(new Asking(std::move(client)));
  }
  ~Asking() {
    if (thread_.joinable()) thread_.join();
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  void start(Reactor& reactor, std::vector<batch::StepRequest> requests, Answer answer) {
    thread_ = quiet_thread([this, &reactor, requests = std::move(requests), answer = std::move(answer)] {
      const auto tell = [&](std::size_t process, Result<batch::StepReply> reply) {
        reactor.wake([answer, process, reply = std::move(reply)]() mutable { answer(process, std::move(reply)); });
      };
      ask(requests, tell);
    });
  }

 private:
  explicit Asking(std::unique_ptr<BatchClient> client) : client_(std::move(client)) {}

  template <class Tell>
  void ask(std::vector<batch::StepRequest> requests, const Tell& tell) {
    std::set<std::size_t> open;
    for (std::size_t i = 0; i < requests.size(); ++i) open.insert(i);
    std::map<std::uint64_t, std::size_t> tags;
    const auto send = [&](std::size_t i) { tags[client_->send(requests[i])] = i; };
    for (const std::size_t i : open) send(i);
    for (int losses = 0; !open.empty();) {
      auto reply = client_->next(kNoLimit);
      if (!reply) {  // the same keys again: what runs is found, what does not is started
        auto back = losses++ < kReconnectsMax ? client_->reconnect() : Result<>(Error(Code::kIo, reply.error().text()));
        if (!back) {
          for (const std::size_t i : open) tell(i, back.error());
          return;
        }
        tags.clear();
        for (const std::size_t i : open) send(i);
        continue;
      }
      const auto it = tags.find(reply->tag);
      const auto* refused = std::get_if<batch::RequestRefused>(&reply->body);
      if (it == tags.end()) {
        if (refused == nullptr || reply->tag != 0) continue;
        for (const std::size_t i : open) tell(i, Error(refused->code, refused->reason));
        return;
      }
      const std::size_t i = it->second;
      const auto* step = std::get_if<batch::StepReply>(&reply->body);
      if (step != nullptr && step->code == Code::kBusy && losses++ < kReconnectsMax) {  // it looks for its master
        sleep(1);                                                                       // lint-ok: a tool, not an actor
        tags.erase(it);
        send(i);
        continue;
      }
      tags.erase(it);
      if (step != nullptr && wants_credential(step->code, step->reason) && requests[i].credential.empty()) {
        batch::RequestBody proven = requests[i];
        const auto added = add_credential(proven);
        if (added) {
          requests[i] = std::get<batch::StepRequest>(std::move(proven));
          send(i);
          continue;
        }
        open.erase(i);
        tell(i, added.error());
        continue;
      }
      open.erase(i);
      if (step != nullptr)
        tell(i, *step);
      else if (refused != nullptr)
        tell(i, Error(refused->code, refused->reason));
      else
        tell(i, Error(Code::kCorrupt, "the batch framework answered something else than was asked; are the versions the same?"));
    }
  }

  std::unique_ptr<BatchClient> client_;
  std::thread thread_;
};

class Run {
 public:
  Run(StepDesk& desk, const StepPlan& plan)
      : desk_(desk), plan_(plan), reactor_(desk.reactor()), processes_(plan.processes.size()) {}
  ~Run() { restore_terminal(); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  int run(const std::string& cluster_dir) {
    auto asking = Asking::open(cluster_dir);
    if (!asking) {
      fmt::print(stderr, "{}: {}\n", plan_.program, asking.error().text());
      return kStepUnreachable;
    }
    std::vector<batch::StepRequest> requests;
    for (std::size_t i = 0; i < processes_.size(); ++i) requests.push_back(request_of(i));
    desk_.admit();
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT})
      reactor_.on_signal(signal, [this, signal] { on_signal(signal); });
    take_input();
    if (plan_.limit != kNoLimit)
      reactor_.after(plan_.limit, [this] {
        fmt::print(stderr, "{}: the time limit is over\n", plan_.program);
        end_all();
      });
    (*asking)->start(reactor_, std::move(requests), [this](std::size_t i, Result<batch::StepReply> r) { ended(i, std::move(r)); });
    while (left_ > 0 && reactor_.turn(kNoLimit)) {}
    return status_;
  }

 private:
  struct Process {
    std::size_t guest = 0;
    std::string line[2];  // begun and not written
    std::size_t unfed = 0;
    bool fed = true;  // takes input
    bool all_said = false, over = false;
    int status = 0;
    std::string word;  // about how it ended
  };

  batch::StepRequest request_of(std::size_t i) {
    const StepProcess& process = plan_.processes[i];
    Process& p = processes_[i];
    auto [io, guest] = desk_.invite([this, i](StepWord word, std::string_view rest) { heard(i, word, rest); });
    p.guest = guest;
    io.terminal = plan_.terminal, io.node = process.node;
    io.files[0] = !process.in.empty(), io.files[1] = !process.out.empty(), io.files[2] = !process.err.empty();
    p.fed = !io.files[0] && (plan_.input == StepPlan::Input::kAll || (plan_.input == StepPlan::Input::kOne && plan_.input_to == i));
    if (!p.fed && !io.files[0]) desk_.say(guest, step_frame(StepWord::kInputEnd));
    batch::StepRequest request;
    request.job = plan_.job, request.node = process.host;
    request.argv = relay_command();
    request.argv.insert(request.argv.end(), process.argv.begin(), process.argv.end());
    std::set<std::string, std::less<>> own;
    for (const std::string& word : process.env) own.insert(word.substr(0, word.find('=')));
    for (char** variable = environ; plan_.inherit && *variable != nullptr; ++variable)
      if (const std::string_view word = *variable; own.find(word.substr(0, word.find('='))) == own.end())
        request.env.emplace_back(word);
    request.env.insert(request.env.end(), process.env.begin(), process.env.end());
    request.env.push_back(fmt::format("{}={}", kStepIoVariable, to_text(io)));
    std::array<char, 4096> here{};
    request.directory = plan_.directory;
    if (request.directory.empty() && getcwd(here.data(), here.size()) != nullptr) request.directory = here.data();
    request.stdin_path = process.in, request.stdout_path = process.out, request.stderr_path = process.err;
    request.cpus = process.cpus;
    const Time now = real_time();
    request.key = fmt::format("{:x}-{:x}-{:x}-{:x}", getpid(), now.wall.count(), now.mono.count(), i);
    return request;
  }

  // --- what comes ---

  void heard(std::size_t i, StepWord word, std::string_view rest) {
    Process& p = processes_[i];
    switch (word) {
      case StepWord::kHello:
        if (plan_.terminal) begin_terminal(), tell_window();
        if (const auto it = doomed_; it != 0) desk_.say(p.guest, step_frame(StepWord::kSignal, std::to_string(it)));
        break;
      case StepWord::kOut:
      case StepWord::kErr:
        output(i, word == StepWord::kOut ? 0 : 1, rest);
        desk_.say(p.guest, step_frame(StepWord::kCredit, std::to_string(rest.size())));
        break;
      case StepWord::kEnd:
        desk_.say(p.guest, step_frame(StepWord::kBye));
        give_up(i);
        break;
      case StepWord::kEaten:
        if (rest == "-")
          p.fed = false;
        else
          p.unfed -= std::min(p.unfed, count_of(rest));
        take_input();
        break;
      default:
        break;
    }
  }

  // A reader may take its time (a pager): the commands are held up then, as by a pipe, and told that we are here.
  void write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      pollfd ready{fd, POLLOUT, 0};
      if (poll(&ready, 1, static_cast<int>(std::chrono::duration_cast<milliseconds>(kStepBeat).count())) == 0) {
        desk_.beat_all();
        continue;
      }
      const ssize_t n = write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return;  // a reader that has gone: the commands' output is for nobody
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  void output(std::size_t i, int which, std::string_view bytes) {
    const int fd = which == 0 ? plan_.out : plan_.err;
    if (!plan_.label && (plan_.terminal || plan_.unbuffered || processes_.size() == 1)) return write_all(fd, bytes);
    std::string& line = processes_[i].line[which];
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      const bool whole = end != std::string_view::npos;
      line += bytes.substr(0, whole ? end + 1 : bytes.size());
      bytes.remove_prefix(whole ? end + 1 : bytes.size());
      if (whole || line.size() >= kLineMax) put_line(i, fd, line);
    }
  }
  void put_line(std::size_t i, int fd, std::string& line) {
    if (line.empty()) return;
    if (plan_.label) line.insert(0, fmt::format("{:>{}}: ", i, std::to_string(processes_.size() - 1).size()));
    write_all(fd, line);
    line.clear();
  }
  void flush(std::size_t i) {
    for (int which = 0; which < 2; ++which) {
      std::string& line = processes_[i].line[which];
      if (plan_.label && !line.empty()) line += '\n';
      put_line(i, which == 0 ? plan_.out : plan_.err, line);
    }
  }

  // --- what goes ---

  // As much as the slowest of those that want it has room for.
  void take_input() {
    const auto wants = [](const Process& p) { return p.fed && !p.over; };
    std::size_t room = kStepInputCredit;
    bool any = false;
    for (const Process& p : processes_)
      if (wants(p)) any = true, room = std::min(room, kStepInputCredit - std::min(kStepInputCredit, p.unfed));
    if (input_over_ || !any) return stop_input();
    if (room < kStepChunk) {
      if (input_watch_ != 0) reactor_.unwatch(std::exchange(input_watch_, 0));
      return;
    }
    if (input_watch_ != 0) return;
    // A file cannot be watched; it can be read at once.
    const auto readable = [this] { read_input(); };
    input_watch_ = can_watch() ? reactor_.watch(plan_.in, EPOLLIN, [readable](std::uint32_t) { readable(); }) : 0;
    if (input_watch_ == 0) reactor_.defer(readable);
  }
  [[nodiscard]] bool can_watch() const {
    struct stat info {};
    return fstat(plan_.in, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) && !is_null(info);
  }
  static bool is_null(const struct stat& info) { return S_ISCHR(info.st_mode) && major(info.st_rdev) == 1; }
  void read_input() {
    if (input_over_) return;
    std::array<char, kStepChunk> chunk;
    const ssize_t n = read(plan_.in, chunk.data(), chunk.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return take_input();
    const std::string_view bytes(chunk.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    for (Process& p : processes_) {
      if (!p.fed || p.over) continue;
      if (!bytes.empty()) p.unfed += bytes.size(), desk_.say(p.guest, step_frame(StepWord::kInput, bytes));
      if (bytes.empty()) desk_.say(p.guest, step_frame(StepWord::kInputEnd));
    }
    if (bytes.empty()) return stop_input();
    if (input_watch_ != 0) {
      for (const Process& p : processes_)
        if (p.fed && !p.over && p.unfed + kStepChunk > kStepInputCredit) return reactor_.unwatch(std::exchange(input_watch_, 0));
      return;
    }
    take_input();
  }
  void stop_input() {
    input_over_ = true;
    if (input_watch_ != 0) reactor_.unwatch(std::exchange(input_watch_, 0));
  }

  // --- signals and the terminal ---

  void on_signal(int signal) {
    const Duration now = real_time().mono;
    if (signal == SIGINT && now - interrupted_ < kSecondInterrupt) return end_all();
    if (signal == SIGINT) interrupted_ = now;
    send_signal(signal);
  }
  void send_signal(int signal) {
    if (signal == SIGKILL || signal == SIGTERM) doomed_ = signal;
    for (const Process& p : processes_)
      if (!p.over && desk_.came(p.guest)) desk_.say(p.guest, step_frame(StepWord::kSignal, std::to_string(signal)));
  }
  void end_all() {
    send_signal(SIGTERM);
    reactor_.after(kGrace, [this] { send_signal(SIGKILL); });
  }

  void begin_terminal() {
    if (raw_ || tcgetattr(plan_.in, &before_) != 0) return;
    termios raw = before_;
    cfmakeraw(&raw);
    raw_ = tcsetattr(plan_.in, TCSANOW, &raw) == 0;
    reactor_.on_signal(SIGWINCH, [this] { tell_window(); });
  }
  void tell_window() {
    winsize size{};
    if (ioctl(plan_.in, TIOCGWINSZ, &size) != 0) return;
    for (const Process& p : processes_)
      desk_.say(p.guest, step_frame(StepWord::kWindow, fmt::format("{} {}", size.ws_row, size.ws_col)));
  }
  void restore_terminal() {
    if (std::exchange(raw_, false)) tcsetattr(plan_.in, TCSADRAIN, &before_);
  }

  // --- ends ---

  void ended(std::size_t i, Result<batch::StepReply> reply) {
    Process& p = processes_[i];
    if (p.over) return;
    const std::string where = plan_.processes[i].host.empty() ? "" : plan_.processes[i].host + ": ";
    if (!reply || reply->code != Code::kOk) {
      p.status = kStepUnreachable;
      p.word = where + (reply ? reply->reason : reply.error().text());
      p.all_said = true;
    } else if (reply->exit_signal != 0) {
      p.status = 128 + reply->exit_signal;
      p.word = fmt::format("{}task {}: {}", where, i, strsignal(reply->exit_signal));
      if (!reply->reason.empty()) p.word += ": " + reply->reason;
    } else if (reply->exit_code != 0) {
      p.status = reply->exit_code;
      p.word = fmt::format("{}task {}: Exited with exit code {}", where, i, reply->exit_code);
    }
    p.over = true;
    // What it said last may be behind: the framework's word comes another way. One that was killed says no last word.
    if (!desk_.came(p.guest)) p.all_said = true;
    if (!p.all_said) reactor_.after(p.status > 128 ? seconds(1) : kLastWords, [this, i] { give_up(i); });
    look_over(i);
  }
  void give_up(std::size_t i) {  // on more output
    Process& p = processes_[i];
    if (std::exchange(p.all_said, true)) return;
    flush(i);
    look_over(i);
  }

  void look_over(std::size_t i) {
    Process& p = processes_[i];
    if (!p.over || !p.all_said) return;
    restore_terminal();
    --left_;
    status_ = std::max(status_, p.status);
    if (!p.word.empty() && (!plan_.quiet || p.status == kStepUnreachable))
      fmt::print(stderr, "{}: error: {}\n", plan_.program, p.word);
    if (p.status != 0 && plan_.kill_on_bad_exit && left_ > 0 && doomed_ == 0) {
      fmt::print(stderr, "{}: ending the others, as --kill-on-bad-exit asks\n", plan_.program);
      end_all();
    }
    if (plan_.wait > Duration(0) && left_ > 0 && !std::exchange(waiting_, true))
      reactor_.after(plan_.wait, [this] {
        fmt::print(stderr, "{}: ending the others, {} after the first, as --wait asks\n", plan_.program,
                   format_duration(plan_.wait));
        end_all();
      });
    take_input();
  }

  StepDesk& desk_;
  const StepPlan& plan_;
  Reactor& reactor_;
  std::vector<Process> processes_;
  std::size_t left_ = processes_.size();
  int status_ = 0, doomed_ = 0;
  bool input_over_ = false, raw_ = false, waiting_ = false;
  Reactor::WatchId input_watch_ = 0;
  Duration interrupted_{-1'000'000'000};
  termios before_{};
};

}  // namespace

std::vector<std::string> relay_command() {
  std::array<char, 4096> self{};
  const ssize_t n = readlink("/proc/self/exe", self.data(), self.size() - 1);
  return {n > 0 ? std::string(self.data(), static_cast<std::size_t>(n)) : "bourse", "relay"};
}

int run_steps(StepDesk& desk, const std::string& cluster_dir, const StepPlan& plan) { return Run(desk, plan).run(cluster_dir); }

}  // namespace bourse::cli
