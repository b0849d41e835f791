#include "frameworks/cli/batch_client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "common/core/hooks.h"
#include "common/core/units.h"
#include "common/world/config.h"
#include "common/world/local_client.h"
#include "common/world/reactor.h"

namespace bourse::cli {
namespace {

constexpr Duration kFirstPause = milliseconds(20), kLongestPause = milliseconds(500);
constexpr Duration kSilentFor = seconds(1);
constexpr Duration kAbsentPatience = seconds(3);  // it took its socket away, as it does when it is ended in order
constexpr Duration kSendTimeout = seconds(30);

// A second time it changes nothing, and the answer is as good.
bool repeatable(const batch::RequestBody& body) {
  if (const auto* submit = std::get_if<batch::SubmitRequest>(&body))
    return submit->test_only || std::ranges::none_of(submit->items, [](const auto& item) { return item.key.empty(); });
  if (const auto* step = std::get_if<batch::StepRequest>(&body)) return !step->key.empty();
  return !std::holds_alternative<batch::CancelRequest>(body) && !std::holds_alternative<batch::ChangeRequest>(body);
}

Duration patience_of_environment(Duration otherwise) {
  const char* text = std::getenv("BOURSE_CONNECT_WAIT");  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr) return otherwise;
  const auto patience = parse_duration(text, seconds(1));
  return patience ? *patience : otherwise;
}

}  // namespace

struct BatchClient::Impl {
  std::string path;
  Duration patience = patience_of_environment(kPatience);
  Duration absent = patience_of_environment(kAbsentPatience);
  std::optional<LocalClient> connection;
  std::uint64_t tag = 0;
  // The last error was of the connection, not of the request. Then there is none any more.
  bool lost = false;

  // Somebody may come to listen there: it has the file of a framework that ended, or at least the directory for it.
  [[nodiscard]] bool may_come(Code code) const {
    if (code == Code::kBusy) return true;
    return code == Code::kNotFound && access(path.substr(0, path.rfind('/')).c_str(), F_OK) == 0;
  }

  Result<> connect() {
    connection.reset();
    const Time start = real_time();
    bool said = false;
    for (Duration pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
      auto made = LocalClient::connect(path, batch::kReplyBytesMax);
      if (made) {
        connection.emplace(std::move(*made));
        lost = false;
        return {};
      }
      const Code code = made.error().code();
      const Duration waited = real_time().mono - start.mono;
      const Duration limit = code == Code::kNotFound ? std::min(patience, absent) : patience;
      if (!may_come(code) || waited >= limit || hooks::mutant("cli.reconnect"))
        return Error(Code::kIo, "no batch framework is listening; is the cluster up (`bourse up`), and BOURSE_DIR right?: " +
                                    made.error().text());
      if (waited >= kSilentFor && !said) {
        fmt::print(stderr, "{}: waiting for the batch framework, up to {}: {}\n", program_invocation_short_name,
                   format_duration(limit), made.error().text());
        said = true;
      }
      usleep(static_cast<useconds_t>(std::min(pause, limit - waited).count()));  // lint-ok: a tool, not an actor
    }
  }

  template <class T>
  Result<T> lose(Result<T> result) {
    if (!result) connection.reset(), lost = true;
    return result;
  }

  // After kGone there may still be something to receive: why we were closed.
  Result<> put(const std::string& bytes) {
    if (!connection) return lose(Result<>(Error(Code::kGone, "not connected to the batch framework")));
    auto done = connection->send(bytes, kSendTimeout);
    return !done && done.error().code() == Code::kGone ? std::move(done) : lose(std::move(done));
  }

  Result<batch::ToolReply> take(Duration timeout) {
    if (!connection) return lose(Result<batch::ToolReply>(Error(Code::kGone, "not connected to the batch framework")));
    auto bytes = connection->receive(timeout);
    if (!bytes && bytes.error().code() == Code::kTimeout)
      return Error(Code::kTimeout, fmt::format("no answer from the batch framework for {}", format_duration(timeout)));
    if (!bytes) return lose(Result<batch::ToolReply>(std::move(bytes).error().add("the batch framework")));
    auto reply = batch::decode_reply(*bytes);
    if (!reply) return Error(Code::kCorrupt, "an answer could not be read: " + reply.error().text());
    return reply;
  }

  // Once. `sent`: the whole request was handed over.
  Result<batch::ReplyBody> exchange(const std::string& bytes, std::uint64_t wanted, Duration timeout, bool& sent) {
    const Result<> put_out = put(bytes);
    sent = bool(put_out);
    const Duration until = timeout == kNoLimit ? kNoLimit : real_time().mono + timeout;
    while (true) {
      if (!sent && !connection) return put_out.error();
      const Duration left = until == kNoLimit ? kNoLimit : std::max(until - real_time().mono, Duration(0));
      batch::ToolReply reply = BOURSE_TRY(take(left));
      // Tag 0 goes with a refusal of the connection itself.
      const auto* refused = std::get_if<batch::RequestRefused>(&reply.body);
      if (reply.tag != wanted && !(refused != nullptr && reply.tag == 0)) continue;  // of a call that was given up
      if (refused != nullptr) return Error(refused->code, refused->reason);
      return std::move(reply.body);
    }
  }
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

Result<> BatchClient::reconnect() { return impl_->connect(); }
void BatchClient::set_patience(Duration patience) { impl_->patience = impl_->absent = patience; }

std::uint64_t BatchClient::send(batch::RequestBody body) {
  batch::ToolRequest request;
  request.tag = ++impl_->tag;
  request.body = std::move(body);
  (void)impl_->put(batch::encode(request));  // that it is lost, next() tells
  return request.tag;
}

Result<batch::ToolReply> BatchClient::next(Duration timeout) { return impl_->take(timeout); }

Result<batch::ReplyBody> BatchClient::call(batch::RequestBody body, Duration timeout) {
  const bool again = repeatable(body);
  batch::ToolRequest request;
  request.tag = ++impl_->tag;
  request.body = std::move(body);
  const std::string bytes = batch::encode(request);
  if (bytes.size() > batch::kRequestBytesMax)
    return Error(Code::kLimit, fmt::format("the request has {} bytes, the most is {}", bytes.size(), batch::kRequestBytesMax));
  for (int losses = 0;; ++losses) {
    bool sent = false;
    impl_->lost = false;
    auto reply = impl_->exchange(bytes, request.tag, timeout, sent);
    if (reply || !impl_->lost) return reply;
    if (sent && !again)
      return Error(Code::kIo, reply.error().text() + " before it answered; it may or may not have done what was asked");
    if (losses >= kLossesMax) return Error(Code::kIo, std::move(reply).error().text());
    BOURSE_TRY(reconnect());
  }
}

}  // namespace bourse::cli
