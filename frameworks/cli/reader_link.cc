#include "frameworks/cli/reader_link.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "common/world/driver.h"

namespace bourse::cli {
namespace {

constexpr Duration kHelloAgain = milliseconds(500);
constexpr std::size_t kUpdatesKept = 1'000;  // read and not asked for yet; a stream's credit is far less

}  // namespace

std::string readers_endpoint(const std::string& readers, const std::string& master) {
  for (const std::string any : {"tcp://0.0.0.0:", "tcp://[::]:", "tcp://*:"})
    if (readers.starts_with(any) && master.starts_with("tcp://"))
      return master.substr(0, master.rfind(':') + 1) + readers.substr(any.size());
  return readers;
}

struct ReaderLink::Impl {
  Reactor& reactor;
  std::unique_ptr<MasterLink> link;
  std::optional<Welcome> welcome;
  std::optional<Refused> refused;
  std::optional<StatusReply> reply;
  std::deque<ViewUpdate> updates;
  Epoch epoch;
  std::uint64_t tag = 0, watch_tag = 0;
  Sequence expected;
  bool gap = false;
  Duration heard{0}, said{0};

  explicit Impl(Reactor& r) : reactor(r) {}

  void receive(Message message) {
    heard = real_time().mono;
    epoch = std::max(epoch, message.epoch);
    if (auto* w = std::get_if<Welcome>(&message.body)) welcome = std::move(*w);
    if (auto* r = std::get_if<Refused>(&message.body)) refused = std::move(*r);
    if (auto* r = std::get_if<StatusReply>(&message.body); r != nullptr && r->tag == tag) reply = std::move(*r);
    auto* update = std::get_if<ViewUpdate>(&message.body);
    if (update == nullptr || update->tag != watch_tag) return;
    if (update->code == Code::kOk) {
      expected = Sequence(expected.value + 1);
      gap = gap || update->sequence != expected || updates.size() >= kUpdatesKept;
    }
    if (!gap) updates.push_back(std::move(*update));
  }

  void say(Body body) {
    said = real_time().mono;
    Message message;
    message.epoch = epoch;
    message.body = std::move(body);
    link->send(message);
  }

  template <class Ready>
  bool wait(Duration timeout, Ready ready) {
    const Duration end = real_time().mono + timeout;
    while (!ready()) {
      Duration left = end - real_time().mono;
      if (left <= Duration{0}) return false;
      if (welcome && welcome->heartbeat > Duration{0}) {  // it forgets those who say nothing
        if (real_time().mono - said >= welcome->heartbeat) say(Heartbeat{real_time().wall});
        left = std::min(left, welcome->heartbeat);
      }
      reactor.turn(left);
    }
    return true;
  }
};

ReaderLink::ReaderLink() = default;
ReaderLink::~ReaderLink() = default;

Result<std::unique_ptr<ReaderLink>> ReaderLink::open(Context& context, Reactor& reactor, const std::string& readers,
                                                     const std::string& master, const KeyPair* keys, const std::string& server_key,
                                                     const std::string& name, Duration timeout) {
  std::unique_ptr<ReaderLink> out(new ReaderLink());
  out->impl_ = std::make_unique<Impl>(reactor);
  Impl& im = *out->impl_;
  const std::string endpoint = readers_endpoint(readers, master);
  im.link = std::make_unique<MasterLink>(context, reactor, std::vector<std::string>{endpoint}, keys, server_key);
  im.link->on_message([&im](Message message) { im.receive(std::move(message)); });
  BOURSE_TRY(im.link->connect());
  const Duration end = real_time().mono + timeout;
  while (!im.welcome && !im.refused && real_time().mono < end) {
    im.say(ReaderHello{kProtocolVersion, name});
    im.wait(std::min(kHelloAgain, std::max(end - real_time().mono, Duration{0})), [&im] { return im.welcome || im.refused; });
  }
  if (im.refused) return Error(im.refused->code, "the master refuses us: " + im.refused->reason);
  if (!im.welcome) return Error(Code::kTimeout, "nobody answers at " + endpoint + ", where the master serves readers");
  return out;
}

Result<StatusReply> ReaderLink::page(const std::string& what, const std::string& after, Duration timeout) {
  Impl& im = *impl_;
  im.reply.reset();
  im.refused.reset();
  im.say(StatusQuery{++im.tag, what, after, 0});
  if (!im.wait(timeout, [&im] { return im.reply || im.refused; })) return Error(Code::kTimeout, "the master did not answer");
  if (im.refused) return Error(im.refused->code, "the master refuses us: " + im.refused->reason);
  if (im.reply->code != Code::kOk) return Error(im.reply->code, im.reply->reason);
  return *std::move(im.reply);
}

void ReaderLink::watch(std::vector<std::string> what, const std::string& after) {
  Impl& im = *impl_;
  im.updates.clear();
  im.expected = Sequence();
  im.gap = false;
  im.watch_tag = ++im.tag;
  im.say(Watch{im.watch_tag, std::move(what), 0, after});
}

Result<ViewUpdate> ReaderLink::next(Duration timeout) {
  Impl& im = *impl_;
  im.refused.reset();
  // It says something every heartbeat; after three it has most likely been killed.
  const Duration patience = std::min(im.welcome->peer_timeout, std::max<Duration>(3 * im.welcome->heartbeat, seconds(3)));
  const bool there = im.wait(
      timeout, [&im, patience] { return !im.updates.empty() || im.refused || im.gap || real_time().mono - im.heard > patience; });
  if (im.updates.empty()) {
    if (im.refused) return Error(Code::kGone, im.refused->reason);
    if (im.gap) return Error(Code::kGone, "a part of the stream was lost");
    if (there) return Error(Code::kGone, "the master is silent");
    return Error(Code::kTimeout, "nothing new");
  }
  ViewUpdate update = std::move(im.updates.front());
  im.updates.pop_front();
  if (update.code != Code::kOk) return Error(update.code == Code::kInvalid ? Code::kInvalid : Code::kGone, update.reason);
  im.say(WatchAck{im.watch_tag, update.sequence});
  return update;
}

Epoch ReaderLink::epoch() const { return impl_->epoch; }

}  // namespace bourse::cli
