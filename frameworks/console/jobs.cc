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

struct JobFigures::Impl {
  Reactor& reactor;
  std::string path;
  Duration interval;
  int fd = -1;
  Reactor::WatchId watch = 0;
  Reactor::TimerId timer = 0;
  FrameReader in{kJobsAnswerBytesMax};
  std::uint64_t tag = 0;
  bool asking = false;
  Duration asked{0};
  std::optional<batch::SummaryReply> latest;

  Impl(Reactor& r, std::string p, Duration i) : reactor(r), path(std::move(p)), interval(i) {}
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
    latest.reset();
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
    const std::string body = batch::encode(batch::ToolRequest{batch::kBatchProtocol, ++tag, batch::SummaryRequest{}});
    const std::string frame = local_head(body.size()) + body;
    // A question is small: what does not go into an empty socket at once has nobody at the other end.
    if (send(fd, frame.data(), frame.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(frame.size())) return fail();
    asking = true;
    asked = real_time().mono;
    again(kJobsAnswerTime);
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
      auto* summary = std::get_if<batch::SummaryReply>(&reply->body);
      if (summary == nullptr || reply->tag != tag || !asking) return fail();
      latest = std::move(*summary);
      asking = false;
      again(std::max(interval, (real_time().mono - asked) * kJobsRestTimes));
    }
  }
};

JobFigures::JobFigures(Reactor& reactor, std::string socket_path, Duration interval)
    : impl_(std::make_unique<Impl>(reactor, std::move(socket_path), interval)) {
  impl_->again(Duration{0});
}
JobFigures::~JobFigures() = default;

const batch::SummaryReply* JobFigures::latest() const { return impl_->latest ? &*impl_->latest : nullptr; }

}  // namespace bourse::console
