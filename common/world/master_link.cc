#include <utility>

#include "common/wire/wire.h"
#include "common/world/driver.h"
#include "common/world/log.h"
#include "common/world/transport.h"

namespace bourse {
namespace {
constexpr Duration kComplaintInterval = std::chrono::minutes(1);
}

struct MasterLink::Impl {
  std::vector<std::string> endpoints;
  bool with_keys = false;
  KeyPair keys;
  std::string server_key;
  std::size_t at = 0;
  Connection connection;
  std::function<void(Message)> callback;
  std::uint64_t refused = 0;
  Duration complained{-kComplaintInterval};

  Impl(Context& context, Reactor& reactor) : connection(context, reactor, SocketLimits{}) {}

  void receive(std::string_view bytes) {
    auto message = wire::decode(bytes);
    if (message) {
      if (callback) callback(std::move(*message));
      return;
    }
    ++refused;
    const Duration now = real_time().mono;
    if (now - complained < kComplaintInterval) return;
    complained = now;
    log_event(
        LogLevel::kWarn, "frame_refused",
        {{"from", endpoints[at]}, {"reason", message.error().text()}, {"count", std::to_string(refused)}, {"action", "ignoring"}});
  }

  Result<> open() { return connection.connect(endpoints[at], with_keys ? &keys : nullptr, server_key); }
};

MasterLink::MasterLink(Context& context, Reactor& reactor, std::vector<std::string> endpoints, const KeyPair* keys,
                       std::string server_key)
    : impl_(std::make_unique<Impl>(context, reactor)) {
  BOURSE_ASSERT(!endpoints.empty(), "no master to connect to");
  impl_->endpoints = std::move(endpoints);
  impl_->server_key = std::move(server_key);
  if (keys != nullptr) {
    impl_->with_keys = true;
    impl_->keys = *keys;
  }
  impl_->connection.on_frame([im = impl_.get()](std::string_view bytes) { im->receive(bytes); });
}
MasterLink::~MasterLink() = default;

void MasterLink::on_message(std::function<void(Message)> callback) { impl_->callback = std::move(callback); }

// A message that cannot be sent is lost, as any other may be: the session's own silence limit notices.
void MasterLink::send(const Message& message) { (void)impl_->connection.send(wire::encode(message)); }

Result<> MasterLink::connect() {
  impl_->connection.close();
  impl_->at = 0;
  return impl_->open();
}

void MasterLink::next() {
  impl_->connection.close();
  impl_->at = (impl_->at + 1) % impl_->endpoints.size();
  Result<> opened = impl_->open();
  if (!opened) log_event(LogLevel::kError, "connect_failed", {{"reason", opened.error().text()}});
}

}  // namespace bourse
