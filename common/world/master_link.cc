#include <algorithm>
#include <memory>
#include <utility>

#include "common/core/hooks.h"
#include "common/wire/wire.h"
#include "common/world/driver.h"
#include "common/world/log.h"
#include "common/world/master_list.h"
#include "common/world/transport.h"

namespace bourse {
namespace {
constexpr Duration kComplaintInterval = std::chrono::minutes(1);
}

struct MasterLink::Impl {
  MasterList masters;
  bool with_keys = false;
  KeyPair keys;
  std::string server_key;
  Connection connection;
  std::function<void(Message)> callback;
  std::function<void(std::string)> log_callback;
  std::uint64_t refused = 0;
  Duration complained{-kComplaintInterval};

  Reactor& reactor;
  std::function<void()> lost_callback;
  bool lost = false, up = false;
  Duration patience = kConnectWait;
  std::uint32_t in_vain = 0;  // connections in a row that did not come about
  Reactor::TimerId wait = 0;
  std::uint64_t connected = 0;  // how often: what was deferred for an earlier one no longer counts
  std::shared_ptr<Impl*> self = std::make_shared<Impl*>(this);

  Impl(Context& context, Reactor& r, SocketLimits limits) : connection(context, r, limits), reactor(r) {}
  ~Impl() {
    *self = nullptr;
    if (wait != 0) reactor.cancel(wait);
  }

  void log(LogLevel level, std::string_view event, LogFields fields) const {
    if (log_callback)
      log_callback(log_text(level, event, fields));
    else
      log_event(level, event, fields);
  }

  void receive(std::string_view bytes) {
    auto message = wire::decode(bytes);
    if (message) {
      if (const auto* welcome = std::get_if<Welcome>(&message->body); welcome != nullptr && welcome->peer_timeout > Duration(0))
        patience = std::clamp<Duration>(welcome->peer_timeout / 3, kConnectWaitMin, kConnectWait);
      if (callback) callback(std::move(*message));
      return;
    }
    ++refused;
    const Duration now = real_time().mono;
    if (now - complained < kComplaintInterval) return;
    complained = now;
    log(LogLevel::kWarn, "frame_refused",
        {{"from", masters.here()}, {"reason", message.error().text()}, {"count", std::to_string(refused)}, {"action", "ignoring"}});
  }

  void state(bool now_up) {
    if (now_up) {
      up = true;
      in_vain = 0;
      if (wait != 0) reactor.cancel(std::exchange(wait, 0));
      return;
    }
    if (up && !hooks::mutant("master_link.broken_unnoticed")) lose({});
    up = false;
  }

  // Nothing more is said to this master; whoever uses us hears of it on the next turn.
  void lose(std::string why) {
    if (lost) return;
    lost = true;
    reactor.defer([weak = self, now = connected, why = std::move(why)] {
      if (*weak == nullptr || (*weak)->connected != now || !(*weak)->lost_callback) return;
      Impl& im = **weak;
      if (!why.empty()) im.log(LogLevel::kWarn, why, {{"to", im.masters.here()}, {"action", "connecting again"}});
      im.lost_callback();
    });
  }

  void waited() {
    wait = 0;
    if (up || hooks::mutant("master_link.waits_for_the_silent")) return;
    ++in_vain;
    lose({});
  }

  Result<> open() {
    lost = up = false;
    ++connected;
    if (wait != 0) reactor.cancel(std::exchange(wait, 0));
    if (masters.all().size() > 1) {
      const Duration now = std::min<Duration>(patience * (1 << std::min(in_vain, 4U)), kConnectWaitMax);
      wait = reactor.after(now, [this] { waited(); });
    }
    return connection.connect(masters.here(), with_keys ? &keys : nullptr, server_key);
  }
};

MasterLink::MasterLink(Context& context, Reactor& reactor, std::vector<std::string> endpoints, const KeyPair* keys,
                       std::string server_key, SocketLimits limits)
    : impl_(std::make_unique<Impl>(context, reactor, limits)) {
  BOURSE_ASSERT(!endpoints.empty(), "no master to connect to");
  impl_->masters = MasterList(std::move(endpoints));
  impl_->server_key = std::move(server_key);
  if (keys != nullptr) {
    impl_->with_keys = true;
    impl_->keys = *keys;
  }
  impl_->connection.on_frame([im = impl_.get()](std::string_view bytes) { im->receive(bytes); });
  impl_->connection.on_state([im = impl_.get()](bool up) { im->state(up); });
}
MasterLink::~MasterLink() = default;

void MasterLink::on_message(std::function<void(Message)> callback) { impl_->callback = std::move(callback); }
void MasterLink::on_lost(std::function<void()> callback) { impl_->lost_callback = std::move(callback); }
void MasterLink::on_log(std::function<void(std::string)> callback) { impl_->log_callback = std::move(callback); }
const std::string& MasterLink::endpoint() const { return impl_->masters.here(); }
const std::vector<std::string>& MasterLink::endpoints() const { return impl_->masters.all(); }
void MasterLink::learn(const std::vector<std::string>& masters) { impl_->masters.learn(masters); }

void MasterLink::send(const Message& message) {
  Impl& im = *impl_;
  if (im.lost || im.connection.send(wire::encode(message)) || hooks::mutant("master_link.full_queue_ignored")) return;
  im.lose("send_queue_full");
}

Result<> MasterLink::connect() {
  Impl& im = *impl_;
  // Every endpoint is tried for form now: a typo in the third must not wait for the first two to fail. The first is tried last.
  const std::vector<std::string> all = im.masters.all();
  for (std::size_t i = all.size(); i > 0; --i) {
    im.connection.close();
    im.masters.move(all[i - 1]);
    BOURSE_TRY(im.open());
  }
  return {};
}

void MasterLink::next(const std::string& leader) {
  Impl& im = *impl_;
  im.connection.close();
  im.masters.move(leader);
  Result<> opened = im.open();
  if (!opened) im.log(LogLevel::kError, "connect_failed", {{"reason", opened.error().text()}, {"action", "retrying"}});
}

}  // namespace bourse
