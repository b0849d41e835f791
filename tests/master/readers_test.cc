// The readers' socket with real peers: pages that are fresh, streams that are whole, and nobody who holds up the others.
#include "master/readers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>

#include "common/wire/wire.h"
#include "master/status.h"
#include "tests/world/support.h"

namespace bourse::test {
namespace {

// Stands for the master's actor: tells a table of agents, and what changes in it.
class Teller {
 public:
  void attach(Readers* readers) { readers_ = readers; }
  void wanted(bool on, std::uint64_t flush) {
    std::lock_guard lock(mutex_);
    if (on && !on_) begin();
    on_ = on;
    if (flush != 0) {
      ++flushes_;
      ViewUpdate mark;
      mark.sequence = Sequence(flush);
      tell({take(), mark});
    }
  }
  void set(const std::string& name, const std::string& value) {
    std::lock_guard lock(mutex_);
    rows_[name] = value;
    changed_.push_back(name);
  }
  void publish() {
    std::lock_guard lock(mutex_);
    if (on_) tell({take()});
  }
  [[nodiscard]] int flushes() const { return flushes_; }
  [[nodiscard]] bool on() const { return on_; }

 private:
  ViewUpdate take() {
    ViewUpdate update;
    update.what = "agents";
    for (const std::string& name : std::exchange(changed_, {})) update.rows.push_back({name, {{"n", rows_[name]}}});
    return update;
  }
  void begin() {
    std::vector<ViewUpdate> all;
    for (const std::string_view what : house::kViewTables) {
      ViewUpdate begin, end;
      begin.what = end.what = std::string(what);
      begin.snapshot = begin.more = end.snapshot = true;
      all.push_back(begin);
      if (what == "agents") {
        for (std::size_t i = 0; i < rows_.size(); i += 200) {
          ViewUpdate part;
          part.what = "agents";
          auto it = std::next(rows_.begin(), static_cast<std::ptrdiff_t>(i));
          for (int n = 0; n < 200 && it != rows_.end(); ++n, ++it) part.rows.push_back({it->first, {{"n", it->second}}});
          all.push_back(part);
        }
      }
      all.push_back(end);
    }
    changed_.clear();
    tell(std::move(all));
  }
  void tell(std::vector<ViewUpdate> updates) { readers_->publish(std::move(updates), Epoch(7), "test"); }

  Readers* readers_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, std::string> rows_;
  std::vector<std::string> changed_;
  std::atomic<bool> on_{false};
  std::atomic<int> flushes_{0};
};

struct ReadersTest : testing::Test {
  TempDir dir;
  Teller teller;
  std::unique_ptr<Readers> readers;
  Context context;
  Reactor reactor;

  void open(ReaderLimits limits = {}, std::optional<KeyPair> keys = {}, Keyring ring = {}) {
    Readers::Options options;
    options.endpoint = keys ? "tcp://127.0.0.1:*" : "ipc://" + (dir / "readers");
    options.keys = std::move(keys);
    options.keyring = std::move(ring);
    options.heartbeat = milliseconds(200);
    options.peer_timeout = seconds(20);
    options.limits = limits;
    auto opened = Readers::open(std::move(options), [this](bool on, std::uint64_t flush) { teller.wanted(on, flush); });
    ASSERT_TRUE(opened) << opened.error().text();
    readers = *std::move(opened);
    teller.attach(readers.get());
  }
};

struct Reader {
  Connection connection;
  Reactor& reactor;
  std::deque<Message> got;
  std::map<std::string, std::string> rows;
  std::uint64_t sequence = 0;
  bool whole = false, over = false, gap = false, acknowledge = true;
  std::optional<StatusReply> reply;
  std::optional<Refused> refused;
  bool welcome = false;

  Reader(Context& context, Reactor& r, const std::string& endpoint, const KeyPair* keys = nullptr, const std::string& server = "")
      : connection(context, r, {}), reactor(r) {
    connection.on_frame([this](std::string_view bytes) { take(bytes); });
    EXPECT_TRUE(connection.connect(endpoint, keys, server));
  }
  void say(Body body) {
    Message message;
    message.body = std::move(body);
    (void)connection.send(wire::encode(message));
  }
  void take(std::string_view bytes) {
    auto message = wire::decode(bytes);
    ASSERT_TRUE(message) << message.error().text();
    if (std::holds_alternative<Welcome>(message->body)) welcome = true;
    if (auto* r = std::get_if<StatusReply>(&message->body)) reply = std::move(*r);
    if (auto* r = std::get_if<Refused>(&message->body)) refused = std::move(*r);
    auto* update = std::get_if<ViewUpdate>(&message->body);
    if (update == nullptr) return;
    if (update->code != Code::kOk) {
      over = true;
      return;
    }
    gap = gap || update->sequence.value != ++sequence;
    for (const auto& row : update->rows) rows[row.name] = row.fields.at(0).second;
    for (const std::string& name : update->removed) rows.erase(name);
    if (update->snapshot && !update->more) whole = true;
    if (acknowledge) say(WatchAck{update->tag, update->sequence});
  }
  bool hello() {
    say(ReaderHello{kProtocolVersion, "test"});
    return run_until(reactor, [this] { return welcome || refused; }) && welcome;
  }
};

TEST_F(ReadersTest, APageHasWhatWasSoWhenItWasAskedFor) {
  open();
  for (int i = 0; i < 1200; ++i) teller.set("h" + std::to_string(i), "0");
  Reader r(context, reactor, readers->endpoint());
  ASSERT_TRUE(r.hello());
  std::size_t seen = 0;
  std::string after;
  for (bool more = true; more;) {
    r.reply.reset();
    r.say(StatusQuery{1, "agents", after, 0});
    ASSERT_TRUE(run_until(reactor, [&] { return r.reply.has_value(); }));
    seen += r.reply->rows.size();
    more = r.reply->more;
    after = r.reply->rows.back().name;
  }
  EXPECT_EQ(seen, 1200U);
  for (int i = 1; i <= 50; ++i) {  // nothing is published in between: only the asking brings it
    teller.set("h7", std::to_string(i));
    r.reply.reset();
    r.say(StatusQuery{2, "agents", "", 5'000});
    ASSERT_TRUE(run_until(reactor, [&] { return r.reply.has_value(); }));
    r.reply.reset();
    r.say(StatusQuery{3, "agents", "h6999", 1});
    ASSERT_TRUE(run_until(reactor, [&] { return r.reply.has_value(); }));
    ASSERT_EQ(r.reply->rows.at(0).name, "h7");
    ASSERT_EQ(r.reply->rows.at(0).fields.at(0).second, std::to_string(i));
  }
}

TEST_F(ReadersTest, ManyWhoAskAtOnceCostTheActorLittle) {
  open();
  for (int i = 0; i < 100; ++i) teller.set("h" + std::to_string(i), "0");
  std::vector<std::unique_ptr<Reader>> all;
  for (int i = 0; i < 30; ++i) {
    all.push_back(std::make_unique<Reader>(context, reactor, readers->endpoint()));
    ASSERT_TRUE(all.back()->hello());
  }
  const int before = teller.flushes();
  for (auto& r : all) r->say(StatusQuery{1, "agents", "", 0});
  ASSERT_TRUE(
      run_until(reactor, [&] { return std::all_of(all.begin(), all.end(), [](const auto& r) { return r->reply.has_value(); }); }));
  EXPECT_LE(teller.flushes() - before, 20);
}

TEST_F(ReadersTest, AStreamIsASnapshotAndThenWhatChanges) {
  open();
  for (int i = 0; i < 1700; ++i) teller.set("h" + std::to_string(i), "0");
  Reader r(context, reactor, readers->endpoint());
  ASSERT_TRUE(r.hello());
  r.say(Watch{9, {"agents"}, 2, ""});
  ASSERT_TRUE(run_until(reactor, [&] { return r.whole; }));
  EXPECT_EQ(r.rows.size(), 1700U);
  for (int i = 0; i < 300; ++i) {
    teller.set("h" + std::to_string(i % 10), std::to_string(i));
    teller.publish();
  }
  ASSERT_TRUE(run_until(reactor, [&] { return r.rows["h9"] == "299"; }));
  EXPECT_EQ(r.rows["h0"], "290");
  EXPECT_EQ(r.rows["h5"], "295");
  EXPECT_FALSE(r.gap);
}

TEST_F(ReadersTest, WhoReadsNothingIsCutAndTheOthersAreServed) {
  ReaderLimits limits;
  limits.stall = milliseconds(600);
  open(limits);
  for (int i = 0; i < 3000; ++i) teller.set("h" + std::to_string(i), "0");
  Reader lazy(context, reactor, readers->endpoint()), good(context, reactor, readers->endpoint());
  lazy.acknowledge = false;
  ASSERT_TRUE(lazy.hello());
  ASSERT_TRUE(good.hello());
  lazy.say(Watch{1, {"agents"}, 2, ""});
  good.say(Watch{1, {"agents"}, 2, ""});
  int n = 0;
  const bool cut = run_until(reactor, [&] {
    teller.set("h1", std::to_string(++n));
    teller.publish();
    return lazy.over;
  });
  ASSERT_TRUE(cut);
  EXPECT_LE(lazy.sequence, 2U) << "no more than its credit";
  EXPECT_EQ(readers->counters().cut, 1U);
  ASSERT_TRUE(run_until(reactor, [&] { return good.rows["h1"] == std::to_string(n); }));
  EXPECT_FALSE(good.over);
  // It begins anew and has everything.
  lazy.acknowledge = true;
  lazy.over = lazy.welcome = false;
  lazy.sequence = 0;
  lazy.rows.clear();
  ASSERT_TRUE(lazy.hello());
  lazy.say(Watch{2, {"agents"}, 2, ""});
  ASSERT_TRUE(run_until(reactor, [&] { return lazy.rows.size() == 3000 && lazy.rows["h1"] == std::to_string(n); }));
}

TEST_F(ReadersTest, OnlyKeysThatMayReadAreServedAndARevokedOneIsNotAnyMore) {
  const KeyPair server = make_key_pair(), reader = make_key_pair(), agent = make_key_pair();
  Keyring ring;
  ring.allow(reader.public_key, "reader:eve");
  ring.allow(agent.public_key, "agent:h1");
  open({}, server, ring);
  Context agents_context;
  Reader a(agents_context, reactor, readers->endpoint(), &agent, server.public_key);
  EXPECT_FALSE(a.hello());
  ASSERT_TRUE(a.refused);
  EXPECT_EQ(a.refused->code, Code::kDenied);
  Reader r(context, reactor, readers->endpoint(), &reader, server.public_key);
  ASSERT_TRUE(r.hello());
  r.say(Watch{1, {"agents"}, 2, ""});
  ASSERT_TRUE(run_until(reactor, [&] { return r.whole; }));
  ring = {};
  ring.allow(agent.public_key, "agent:h1");
  readers->set_keyring(ring);
  ASSERT_TRUE(run_until(reactor, [&] { return readers->counters().sessions == 0; }));
  const std::uint64_t at = r.sequence;
  teller.set("h1", "secret");
  teller.publish();
  r.say(StatusQuery{1, "agents", "", 0});
  (void)run_until(
      reactor, [&] { return r.reply.has_value(); }, milliseconds(500));
  EXPECT_FALSE(r.reply);
  EXPECT_EQ(r.sequence, at);
}

TEST_F(ReadersTest, TheActorTellsNothingWhenTheLastHasGone) {
  ReaderLimits limits;
  limits.linger = milliseconds(300);
  open(limits);
  EXPECT_FALSE(teller.on());
  {
    Reader r(context, reactor, readers->endpoint());
    ASSERT_TRUE(r.hello());
    EXPECT_TRUE(teller.on());
    r.say(Goodbye{});
    ASSERT_TRUE(run_until(reactor, [&] { return readers->counters().sessions == 0; }));
  }
  ASSERT_TRUE(run_until(reactor, [&] { return !teller.on(); }));
}

TEST_F(ReadersTest, UnknownTablesAndMessagesForOthersAreRefusedByName) {
  open();
  Reader r(context, reactor, readers->endpoint());
  ASSERT_TRUE(r.hello());
  r.say(StatusQuery{1, "masters", "", 0});
  ASSERT_TRUE(run_until(reactor, [&] { return r.reply.has_value(); }));
  EXPECT_EQ(r.reply->code, Code::kUnsupported);
  r.say(OperatorAction{1, "drain", "h1", ""});
  ASSERT_TRUE(run_until(reactor, [&] { return r.refused.has_value(); }));
  EXPECT_EQ(r.refused->code, Code::kDenied);
}

}  // namespace
}  // namespace bourse::test
