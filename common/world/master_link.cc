#include <memory>
#include <utility>

#include "common/core/hooks.h"
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

  Reactor& reactor;
  std::function<void()> lost_callback;
  bool lost = false;
  std::uint64_t connected = 0;  // how often: what was deferred for an earlier one no longer counts
  std::shared_ptr<Impl*> self = std::make_shared<Impl*>(this);

  Impl(Context& context, Reactor& r, SocketLimits limits) : connection(context, r, limits), reactor(r) {}
  ~Impl() { *self = nullptr; }

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

  Result<> open() {
    lost = false;
    ++connected;
    return connection.connect(endpoints[at], with_keys ? &keys : nullptr, server_key);
  }
};

MasterLink::MasterLink(Context& context, Reactor& reactor, std::vector<std::string> endpoints, const KeyPair* keys,
                       std::string server_key, SocketLimits limits)
    : impl_(std::make_unique<Impl>(context, reactor, limits)) {
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

void MasterLink::on_lost(std::function<void()> callback) { impl_->lost_callback = std::move(callback); }

void MasterLink::send(const Message& message) {
  Impl& im = *impl_;
  if (im.lost || im.connection.send(wire::encode(message)) || hooks::mutant("master_link.full_queue_ignored")) return;
  im.lost = true;
  im.reactor.defer([weak = im.self, connected = im.connected] {
    if (*weak == nullptr || (*weak)->connected != connected || !(*weak)->lost_callback) return;
    log_event(LogLevel::kWarn, "send_queue_full", {{"to", (*weak)->endpoints[(*weak)->at]}, {"action", "connecting again"}});
    (*weak)->lost_callback();
  });
}

Result<> MasterLink::connect() {
  impl_->connection.close();
  impl_->at = 0;
  return impl_->open();
}

const std::string& MasterLink::endpoint() const { return impl_->endpoints[impl_->at]; }

void MasterLink::next() {
  impl_->connection.close();
  impl_->at = (impl_->at + 1) % impl_->endpoints.size();
  Result<> opened = impl_->open();
  if (!opened) log_event(LogLevel::kError, "connect_failed", {{"reason", opened.error().text()}});
}

}  // namespace bourse
