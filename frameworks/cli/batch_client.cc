#include "frameworks/cli/batch_client.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>

#include "common/world/config.h"
#include "common/world/transport.h"

namespace bourse::cli {
namespace {

// ZeroMQ would wait in silence for a socket that nobody serves; a plain connect tells at once.
Result<> somebody_listens(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Error(Code::kInvalid, fmt::format("{}: the path is too long for a socket", path));
  path.copy(address.sun_path, path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno_error("socket");
  const int rc = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  const Error error = errno_error(path);
  close(fd);
  if (rc == 0) return {};
  return Error(Code::kIo,
               "no batch framework is listening; is the cluster up (`bourse up`), and BOURSE_DIR right?: " + error.text());
}

}  // namespace

struct BatchClient::Impl {
  Reactor reactor;
  Context context;
  std::unique_ptr<Connection> connection;
  std::string path;
  std::uint64_t tag = 0;
  std::deque<batch::ToolReply> arrived;
  std::string broken;  // why the last frame could not be read
};

BatchClient::BatchClient() : impl_(std::make_unique<Impl>()) {}
BatchClient::~BatchClient() = default;

Result<std::unique_ptr<BatchClient>> BatchClient::open(const std::string& dir) {
  if (!dir.empty()) setenv("BOURSE_DIR", dir.c_str(), 1);
  std::unique_ptr<BatchClient> client(new BatchClient());
  client->impl_->path = Places::find().run + "/" + batch::kBatchSocketName;
  BOURSE_TRY(client->reconnect());
  return client;
}

Result<> BatchClient::reconnect() {
  BOURSE_TRY(somebody_listens(impl_->path));
  SocketLimits limits;
  limits.message_bytes_max = 64LL * 1024 * 1024;  // a page of 10,000 full rows
  impl_->connection = std::make_unique<Connection>(impl_->context, impl_->reactor, limits);
  impl_->connection->on_frame([this](std::string_view bytes) {
    auto reply = batch::decode_reply(bytes);
    if (reply)
      impl_->arrived.push_back(std::move(*reply));
    else
      impl_->broken = reply.error().text();
  });
  return impl_->connection->connect("ipc://" + impl_->path, nullptr, "");
}

std::uint64_t BatchClient::send(batch::RequestBody body) {
  batch::ToolRequest request;
  request.tag = ++impl_->tag;
  request.body = std::move(body);
  std::string bytes = batch::encode(request);
  const Time start = real_time();
  // Right after connect the pipe may not be there yet; ZeroMQ's answer to that is a refusal to queue.
  while (!impl_->connection->send(bytes) && real_time().mono - start.mono < seconds(5)) impl_->reactor.turn(milliseconds(1));
  return request.tag;
}

Result<batch::ToolReply> BatchClient::next(Duration timeout) {
  const Time start = real_time();
  while (impl_->arrived.empty()) {
    if (!impl_->broken.empty()) return Error(Code::kCorrupt, "an answer could not be read: " + std::exchange(impl_->broken, ""));
    const Duration left = timeout == kNoLimit ? seconds(60) : timeout - (real_time().mono - start.mono);
    if (left <= Duration(0))
      return Error(Code::kTimeout, fmt::format("no answer from the batch framework for {}", format_duration(timeout)));
    impl_->reactor.turn(left);
    if (timeout == kNoLimit && impl_->arrived.empty()) {
      if (auto alive = somebody_listens(impl_->path); !alive) return std::move(alive).error();
    }
  }
  batch::ToolReply reply = std::move(impl_->arrived.front());
  impl_->arrived.pop_front();
  return reply;
}

Result<batch::ReplyBody> BatchClient::call(batch::RequestBody body, Duration timeout) {
  const std::uint64_t tag = send(std::move(body));
  while (true) {
    batch::ToolReply reply = BOURSE_TRY(next(timeout));
    if (reply.tag != tag) continue;  // of a call that was given up
    if (const auto* refused = std::get_if<batch::RequestRefused>(&reply.body)) return Error(refused->code, refused->reason);
    return std::move(reply.body);
  }
}

}  // namespace bourse::cli
