// The console's side of the master: what it asks, when, and what it makes of masters that come and go.
#include "frameworks/console/poller.h"

#include <gtest/gtest.h>

namespace bourse::console {
namespace {

class PollerTest : public testing::Test {
 protected:
  PollerTest()
      : poller("reader:console", seconds(5),
               {[this](Body body) { sent.push_back(std::move(body)); },
                [this](const std::string& leader) { ++nexts, went_to = leader; },
                [this] { ++views; },
                {}}) {}

  // Time passes, as the reactor would let it.
  void pass(Duration time) {
    const Duration end = now.mono + time;
    while (true) {
      const Duration due = poller.turn(now);
      if (due > end) break;
      now.wall += std::max(due - now.mono, Duration{0});
      now.mono = std::max(due, now.mono);
    }
    now.wall += end - now.mono;
    now.mono = end;
    poller.turn(now);
  }
  void receive(Body body, std::uint64_t epoch = 1) {
    Message message;
    message.epoch = Epoch{epoch};
    message.body = std::move(body);
    poller.receive(now, std::move(message));
    poller.turn(now);
  }
  void welcome(std::uint64_t epoch = 1) {
    Welcome w;
    w.cluster = "lab";
    receive(w, epoch);
  }
  const StatusQuery& asked() {
    static const StatusQuery none;
    const auto* query = sent.empty() ? nullptr : std::get_if<StatusQuery>(&sent.back());
    return query == nullptr ? none : *query;
  }
  void reply(std::vector<Row> rows, bool more = false, std::uint64_t epoch = 1) {
    StatusReply r;
    r.tag = asked().tag;
    r.rows = std::move(rows);
    r.more = more;
    receive(r, epoch);
  }
  // A whole round of one agent.
  void round(std::uint64_t epoch = 1, const std::string& event = "1") {
    reply({{"leader", {{"endpoint", "tcp://m1"}}}}, false, epoch);
    reply({{"h1", {{"state", "up"}, {"cpus_total", "4"}}}}, false, epoch);
    reply({}, false, epoch);
    reply({}, false, epoch);
    reply({}, false, epoch);
    reply({{event, {{"time_us", "1"}, {"event", "level=info"}}}}, false, epoch);
  }
  template <class T>
  std::size_t count() const {
    std::size_t n = 0;
    for (const Body& body : sent) n += std::holds_alternative<T>(body) ? 1 : 0;
    return n;
  }

  std::vector<Body> sent;
  int nexts = 0, views = 0;
  std::string went_to;
  Poller poller;
  Time now{seconds(1000), seconds(1'000'000)};
};

TEST_F(PollerTest, SaysHelloUntilSomebodyAnswersAndTriesTheNextMaster) {
  poller.turn(now);
  EXPECT_EQ(count<ReaderHello>(), 1U);
  pass(seconds(4));
  EXPECT_EQ(count<ReaderHello>(), 5U);
  EXPECT_EQ(nexts, 2);
  EXPECT_EQ(poller.error(), "no master answers");
  welcome();
  EXPECT_TRUE(poller.connected());
  EXPECT_EQ(poller.error(), "");
}

TEST_F(PollerTest, GoesToTheLeaderThatAMasterNames) {
  poller.turn(now);
  welcome(5);
  receive(Refused{Code::kBusy, "does not lead", true, "tcp://m2:7400"}, 2);
  EXPECT_EQ(nexts, 1);
  EXPECT_EQ(went_to, "tcp://m2:7400");
  EXPECT_EQ(count<ReaderHello>(), 2U) << "at once";
  receive(Refused{Code::kBusy, "does not lead", true, ""}, 2);
  EXPECT_EQ(went_to, "");
  EXPECT_EQ(count<ReaderHello>(), 2U);
  EXPECT_FALSE(poller.connected());
  pass(seconds(1));
  welcome(6);
  EXPECT_TRUE(poller.connected());
}

TEST_F(PollerTest, AsksOneQuestionAtATime) {
  poller.turn(now);
  welcome();
  EXPECT_EQ(asked().what, "cluster");
  pass(seconds(3));
  EXPECT_EQ(count<StatusQuery>(), 1U) << "no second question while the first is under way";
  reply({{"leader", {}}});
  EXPECT_EQ(asked().what, "agents");
  reply({{"h1", {}}}, true);
  EXPECT_EQ(asked().what, "agents");
  EXPECT_EQ(asked().after, "h1");
  reply({{"h2", {}}});
  EXPECT_EQ(asked().what, "frameworks");
  EXPECT_EQ(asked().after, "");
  EXPECT_EQ(poller.view().number, 0U) << "half a view is not shown";
}

TEST_F(PollerTest, AWholeRoundIsAViewAndTheNextOneAsksForNewEventsOnly) {
  poller.turn(now);
  welcome();
  round();
  EXPECT_EQ(views, 1);
  EXPECT_EQ(poller.view().totals.cpus.value, 4000);
  EXPECT_EQ(poller.view().cluster, "lab");
  const std::size_t before = count<StatusQuery>();
  pass(seconds(4));
  EXPECT_EQ(count<StatusQuery>(), before) << "it rests until the interval is over";
  pass(seconds(1));
  EXPECT_EQ(asked().what, "cluster");
  for (int i = 0; i < 5; ++i) reply({});
  EXPECT_EQ(asked().what, "events");
  EXPECT_EQ(asked().after, "1");
  reply({{"2", {}}});
  EXPECT_EQ(poller.view().events.size(), 2U);
}

TEST_F(PollerTest, ALongRoundIsFollowedByALongRest) {
  poller.turn(now);
  welcome();
  for (int i = 0; i < 6; ++i) {
    pass(seconds(2));
    reply({});
  }
  ASSERT_EQ(poller.view().took, seconds(12));
  const std::size_t before = count<StatusQuery>();
  pass(seconds(107));
  EXPECT_EQ(count<StatusQuery>(), before);
  pass(seconds(1));
  EXPECT_EQ(count<StatusQuery>(), before + 1);
}

TEST_F(PollerTest, AMasterThatDoesNotAnswerIsLeft) {
  poller.turn(now);
  welcome();
  round();
  pass(seconds(10));
  EXPECT_FALSE(poller.connected());
  EXPECT_EQ(poller.error(), "the master did not answer in time");
  EXPECT_EQ(poller.failures(), 1U);
  EXPECT_GE(nexts, 1);
  EXPECT_EQ(poller.view().number, 1U) << "what is known stays";
}

TEST_F(PollerTest, AMasterThatWasRestartedIsGreetedAtOnce) {
  poller.turn(now);
  welcome();
  round();
  pass(seconds(5));
  receive(Refused{Code::kGone, "say hello first"}, 2);
  EXPECT_TRUE(std::holds_alternative<ReaderHello>(sent.back()));
  const std::size_t hellos = count<ReaderHello>();
  receive(Refused{Code::kGone, "say hello first"}, 2);
  EXPECT_EQ(count<ReaderHello>(), hellos) << "but not as often as it refuses";
  pass(seconds(2));
  welcome(2);
  pass(seconds(5));
  round(2, "1");
  EXPECT_EQ(poller.view().epoch.value, 2U);
  EXPECT_EQ(poller.view().events.size(), 1U) << "its events are numbered anew";
}

TEST_F(PollerTest, RowsOfTwoLeadersAreNotMixed) {
  poller.turn(now);
  welcome();
  reply({{"leader", {}}});
  reply({{"h1", {}}}, true);
  const std::uint64_t tag = asked().tag;
  StatusReply late;
  late.tag = tag;
  late.rows = {{"h2", {}}};
  receive(late, 2);
  EXPECT_FALSE(poller.connected()) << "the round is given up";
  welcome(2);
  pass(seconds(5));
  EXPECT_EQ(asked().what, "cluster");
  reply({{"leader", {}}}, false, 1);
  EXPECT_EQ(asked().what, "cluster") << "what the earlier one says late is not looked at";
}

TEST_F(PollerTest, ARefusalThatAPersonMustMendIsShownAndTriedAgainLater) {
  poller.turn(now);
  receive(Refused{Code::kDenied, "key 'agent:h1' may not read"});
  EXPECT_EQ(poller.error(), "the master refuses us: key 'agent:h1' may not read");
  pass(seconds(4));
  EXPECT_EQ(count<ReaderHello>(), 1U);
  pass(milliseconds(1500));
  EXPECT_EQ(count<ReaderHello>(), 2U);
}

TEST_F(PollerTest, APageWithoutAnEndEnds) {
  poller.turn(now);
  welcome();
  reply({{"leader", {}}});
  reply({{"h1", {}}}, true);
  reply({{"h1", {}}}, true);
  EXPECT_EQ(asked().what, "frameworks");
}

TEST_F(PollerTest, ADemandIsExplainedInTurnAndTheExplanationKept) {
  poller.turn(now);
  welcome();
  const auto line = [](const std::string& framework, const std::string& number) {
    return Row{framework + "#" + number, {{"framework", framework}, {"line", number}, {"unmet", "2"}}};
  };
  const auto look = [&](const std::vector<Row>& demand) {
    for (int i = 0; i < 3; ++i) reply({});
    EXPECT_EQ(asked().what, "demand");
    reply(demand);
    reply({});
    reply({});
    const auto* why = std::get_if<ExplainQuery>(&sent.back());
    if (why == nullptr) return std::string("none");
    ExplainReply r;
    r.tag = why->tag;
    r.agents = 3, r.rank = "1st of 1", r.counts = {{"cordoned", 1}, {"mem", 2}}, r.nearest = "h7 lacks mem=4GiB";
    const std::string asked_about = why->framework.str() + "#" + std::to_string(why->line);
    receive(r);
    pass(seconds(5));
    return asked_about;
  };
  const std::vector<Row> three = {line("a", "2"), line("a", "10"), line("b", "1")};
  EXPECT_EQ(look(three), "a#2");
  EXPECT_EQ(views, 1) << "the view comes with its explanation";
  EXPECT_EQ(look(three), "a#10");
  EXPECT_EQ(look(three), "b#1");
  EXPECT_EQ(look(three), "a#2");
  ASSERT_EQ(poller.view().demand.size(), 3U);
  for (const DemandView& d : poller.view().demand)
    EXPECT_EQ(d.why, "1st of 1. 3 agents: 1 cordoned, 2 mem. Nearest: h7 lacks mem=4GiB.");
  EXPECT_EQ(look({line("a", "10")}), "a#10");
  EXPECT_EQ(look({}), "none");
  EXPECT_EQ(poller.view().demand.size(), 0U);
}

TEST_F(PollerTest, OnlyTheLatestEventsAreKept) {
  poller.turn(now);
  welcome();
  for (int i = 0; i < 5; ++i) reply({});
  std::vector<Row> rows;
  for (int i = 1; i <= 700; ++i) rows.push_back({std::to_string(i), {}});
  reply(rows);
  ASSERT_EQ(poller.view().events.size(), kEventsKept);
  EXPECT_EQ(poller.view().events.back().number, 700U);
}

}  // namespace
}  // namespace bourse::console
