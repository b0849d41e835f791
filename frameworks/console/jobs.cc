#include "frameworks/console/jobs.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/world/local_frame.h"

namespace bourse::console {

namespace {

// What is asked for in a round, one after the other.
enum class Question : std::uint8_t { kFigures, kRunning, kPending, kEnded };

batch::RequestBody request_of(Question question) {
  using enum batch::JobState;
  batch::QueueRequest queue;
  switch (question) {
    case Question::kFigures:
      return batch::SummaryRequest{};
    case Question::kRunning:
      queue.filter.states = {kConfiguring, kRunning, kCompleting};
      queue.limit = kJobRowsRunning;
      return queue;
    case Question::kPending:
      queue.filter.states = {kPending};
      queue.order = batch::Order::kStart;
      queue.limit = kJobRowsPending;
      return queue;
    case Question::kEnded:
      break;
  }
  batch::HistoryRequest history;
  history.limit = kJobRowsEnded;
  return history;
}

JobView job_view(const batch::JobInfo& info) {
  JobView job;
  job.id = batch::display_id(info), job.name = info.name, job.user = info.user;
  job.state = std::string(batch::state_name(info.state));
  job.reason = !info.reason_text.empty()             ? info.reason_text
               : info.reason == batch::Reason::kNone ? std::string()
                                                     : std::string(batch::reason_name(info.reason));
  job.hosts = info.node_list;
  job.cpus = info.cpus;
  job.submitted = info.submitted, job.started = info.started, job.ended = info.ended, job.elapsed = info.elapsed;
  job.time_limit = info.time_limit, job.estimated_start = info.estimated_start;
  job.exit_code = info.exit_code, job.exit_signal = info.exit_signal;
  return job;
}

}  // namespace

struct JobFigures::Impl {
  Reactor& reactor;
  std::string path;
  Duration interval;
  bool one_by_one;
  int fd = -1;
  Reactor::WatchId watch = 0;
  Reactor::TimerId timer = 0;
  FrameReader in{kJobsAnswerBytesMax};
  std::uint64_t tag = 0;
  Question question = Question::kFigures;
  bool asking = false;
  Duration began{0};
  JobsView round, latest;

  Impl(Reactor& r, std::string p, Duration i, bool one) : reactor(r), path(std::move(p)), interval(i), one_by_one(one) {}
  ~Impl() {
    if (timer != 0) reactor.cancel(timer);
    hang_up();
  }

  void hang_up() {
    if (fd < 0) return;
    reactor.unwatch(watch);
    close(fd);
    fd = -1;
  }

  void again(Duration after) {
    if (timer != 0) reactor.cancel(timer);
    timer = reactor.after(after, [this] {
      timer = 0;
      turn();
    });
  }

  void fail() {
    hang_up();
    asking = false;
    question = Question::kFigures;
    latest = {};
    again(interval);
  }

  bool call() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return false;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return false;
    watch = reactor.watch(fd, EPOLLIN, [this](std::uint32_t) { read_answer(); });
    in = FrameReader(kJobsAnswerBytesMax);
    return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  void turn() {
    if (asking) return fail();  // it had its time
    if (fd < 0 && !call()) return fail();
    const std::string body = batch::encode(batch::ToolRequest{batch::kBatchProtocol, ++tag, request_of(question)});
    const std::string frame = local_head(body.size()) + body;
    // A question is small: what does not go into an empty socket at once has nobody at the other end.
    if (send(fd, frame.data(), frame.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(frame.size())) return fail();
    asking = true;
    if (question == Question::kFigures) {
      began = real_time().mono;
      round = {};
    }
    again(kJobsAnswerTime);
  }

  // False: not an answer to what was asked.
  bool take(batch::ReplyBody& body) {
    if (question == Question::kFigures) {
      auto* summary = std::get_if<batch::SummaryReply>(&body);
      if (summary == nullptr) return false;
      round.known = true;
      round.pending = summary->pending, round.held = summary->held;
      round.running = summary->running, round.completing = summary->completing;
      round.submitted = summary->submitted_total, round.started = summary->started_total, round.ended = summary->ended_total;
      round.by_reason = std::move(summary->pending_by_reason);
      return true;
    }
    const auto* queue = std::get_if<batch::QueueReply>(&body);
    const auto* history = std::get_if<batch::HistoryReply>(&body);
    if (queue == nullptr && history == nullptr) return false;
    // A page ends with a whole array, whose tasks may be many more than were asked for.
    const std::vector<batch::JobInfo>& rows = queue != nullptr ? queue->rows : history->rows;
    const std::size_t most = question == Question::kRunning   ? kJobRowsRunning
                             : question == Question::kPending ? kJobRowsPending
                                                              : kJobRowsEnded;
    for (std::size_t i = 0; i < std::min(rows.size(), most); ++i) round.jobs.push_back(job_view(rows[i]));
    return true;
  }

  void go_on() {
    asking = false;
    if (one_by_one && question != Question::kEnded) {
      question = static_cast<Question>(static_cast<std::uint8_t>(question) + 1);
      return turn();
    }
    question = Question::kFigures;
    latest = std::move(round);
    again(std::max(interval, (real_time().mono - began) * kJobsRestTimes));
  }

  void read_answer() {
    std::array<char, 16384> buffer;
    const ssize_t n = recv(fd, buffer.data(), buffer.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return fail();
    in.add(std::string_view(buffer.data(), static_cast<std::size_t>(n)));
    while (true) {
      const auto body = in.next();
      if (!body) return fail();
      if (!*body) return;
      auto reply = batch::decode_reply(**body);
      if (!reply) return fail();
      if (reply->tag != tag || !asking || !take(reply->body)) return fail();
      go_on();
      if (fd < 0) return;
    }
  }
};

JobFigures::JobFigures(Reactor& reactor, std::string socket_path, Duration interval, bool one_by_one)
    : impl_(std::make_unique<Impl>(reactor, std::move(socket_path), interval, one_by_one)) {
  impl_->again(Duration{0});
}
JobFigures::~JobFigures() = default;

const JobsView& JobFigures::latest() const { return impl_->latest; }

}  // namespace bourse::console
