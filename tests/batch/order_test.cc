// The order of batch's queue by a policy. Right orders come from the policies' formulas (bourse-policy(7)), worked by hand.
#include <gtest/gtest.h>

#include "tests/batch/house.h"

namespace bourse::batch::test {
namespace {

using Strings = std::vector<std::string>;

BatchOptions by(const std::string& policy, Backfill backfill = Backfill::kNone) {
  BatchOptions options = House::defaults();
  options.policy = *policy::Catalog().find(policy);
  options.backfill = backfill;
  return options;
}

struct Ordered : House {
  explicit Ordered(const std::string& policy, std::int64_t cores = 1, Backfill backfill = Backfill::kNone)
      : House(by(policy, backfill)) {
    add_agent("h1", cores);
    start();
  }
  static JobSpec asks(std::int64_t minutes, std::uint32_t cores = 1, std::int64_t uid = 1000) {
    JobSpec spec = job("m" + std::to_string(minutes));
    spec.time_limit = seconds(60 * minutes);
    spec.tasks = cores, spec.nodes_min = spec.nodes_max = 1;
    spec.user = "u" + std::to_string(uid);
    return spec;
  }
  JobId waits(std::int64_t minutes, std::uint32_t cores = 1, std::int64_t uid = 1000) {
    return submit(asks(minutes, cores, uid), uid);
  }
  // What runs is ended, one after the other, until nothing does: who ran, in that order.
  Strings drain() {
    Strings out;
    while (!running().empty()) {
      out.push_back(running().front().substr(0, running().front().rfind('.')));
      end(running().front());
      pass(seconds(3));
    }
    return out;
  }
  void use(const std::string& policy) {
    post(Reload{"policy=" + policy});
    settle();
  }
  std::vector<std::uint64_t> queue() {
    std::vector<std::uint64_t> out;
    QueueRequest request;
    request.order = Order::kStart, request.limit = 3;  // in pages
    do {
      const auto answer = reply<QueueReply>(ask(request));
      if (!answer) return out;
      for (const JobInfo& info : answer->rows) out.push_back(info.id.value);
      request.after = answer->next;
    } while (request.after != 0);
    return out;
  }
};

TEST(BatchOrder, ShortestFirst) {
  Ordered house("sjf");
  house.waits(10);
  for (const std::int64_t minutes : {50, 20, 40, 20, 30}) house.waits(minutes);
  EXPECT_EQ(house.queue(), (std::vector<std::uint64_t>{1, 3, 5, 6, 4, 2}));
  EXPECT_EQ(house.drain(), (Strings{"1.0", "3.0", "5.0", "6.0", "4.0", "2.0"}));
}

TEST(BatchOrder, AlikeJobsTakeTheirOwnPlaces) {
  // Areas: jobs 2 and 4 are of one class, and job 3 lies between them by expansion factor once all have waited.
  Ordered house("xf:guard=off");
  house.waits(10);
  house.waits(60);  // waits from 0
  house.pass(seconds(60 * 30));
  house.waits(120);              // from 30 minutes
  house.waits(60);               // from 30 minutes
  house.pass(seconds(60 * 60));  // waits: 90/60, 60/120, 60/60
  EXPECT_EQ(house.queue(), (std::vector<std::uint64_t>{1, 2, 4, 3}));
  EXPECT_EQ(house.drain(), (Strings{"1.0", "2.0", "4.0", "3.0"}));
  house.waits(10);  // 5
  house.waits(60);  // 6
  house.pass(seconds(60 * 10));
  house.waits(20);               // 7
  house.waits(60);               // 8
  house.pass(seconds(60 * 30));  // waits: 40/60, 30/20, 30/60
  EXPECT_EQ(house.drain(), (Strings{"5.0", "7.0", "6.0", "8.0"}));
}

TEST(BatchOrder, AnArraysTasksAreNextToEachOther) {
  Ordered house("sjf");
  house.waits(10);
  house.waits(30);
  JobSpec array = House::job("array");
  array.array = "0-2", array.time_limit = seconds(60 * 20), array.tasks = 1;
  house.submit(array);
  house.waits(20);
  EXPECT_EQ(house.drain(), (Strings{"1.0", "3.0", "3.1", "3.2", "7.0", "2.0"}));
}

TEST(BatchOrder, WhoHasLessRunningGoesFirst) {
  Ordered house("drf", 4);
  house.waits(10, 1, 1000), house.waits(10, 1, 1000), house.waits(10, 1, 1001), house.waits(10, 1, 1002);
  // 1000 has two cores, the others one each. What comes free goes to who has the least then.
  house.waits(10, 1, 1000), house.waits(10, 1, 1000), house.waits(10, 1, 1002), house.waits(10, 1, 1001);
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "2.0.1", "3.0.1", "4.0.1"}));
  house.end("4.0.1");  // 1002 has none
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "2.0.1", "3.0.1", "7.0.1"}));
  house.end("2.0.1");  // one each; the lowest number of a user wins
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "3.0.1", "5.0.1", "7.0.1"}));
  house.end("3.0.1");
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "5.0.1", "7.0.1", "8.0.1"}));
}

TEST(BatchOrder, OneUserDoesNotFillAnEmptyCluster) {
  Ordered house("drf", 4);
  house.waits(10, 4, 1005);  // while it runs all come together
  for (int i = 0; i < 6; ++i) house.waits(10, 1, 1000);
  for (int i = 0; i < 6; ++i) house.waits(10, 1, 1001);
  house.end("1.0.1");
  house.pass(seconds(3));
  EXPECT_EQ(house.running(), (Strings{"2.0.1", "3.0.1", "8.0.1", "9.0.1"}));
}

TEST(BatchOrder, OldJobsAreGuarded) {
  Ordered house("sjf:guard=1h");
  house.waits(10);
  house.waits(50);
  house.pass(seconds(3700));
  house.waits(20);
  EXPECT_EQ(house.drain(), (Strings{"1.0", "2.0", "3.0"}));
}

TEST(BatchOrder, AWideJobIsPassedByAndNotForgotten) {
  for (const Backfill backfill : {Backfill::kNone, Backfill::kEasy, Backfill::kConservative}) {
    Ordered house("hdrf", 4, backfill);
    house.waits(10, 2, 1000);
    house.waits(10, 4, 1001);
    for (int i = 0; i < 5; ++i) house.waits(10, 1, 1002);
    EXPECT_EQ(house.drain().size(), 7U) << text_of(backfill);
  }
}

TEST(BatchOrder, AnotherPolicyTakesOverAtOnce) {
  Ordered house("fifo");
  house.waits(10);
  for (const std::int64_t minutes : {50, 20, 40}) house.waits(minutes);
  EXPECT_EQ(house.queue(), (std::vector<std::uint64_t>{1, 2, 3, 4}));
  house.use("sjf");
  EXPECT_EQ(house.queue(), (std::vector<std::uint64_t>{1, 3, 4, 2}));
  house.use("nonsense"), house.use("sjf:gard=1h"), house.use("binpack");
  EXPECT_EQ(house.queue(), (std::vector<std::uint64_t>{1, 3, 4, 2})) << "a refused one changes nothing";
  house.end("1.0.1");
  house.pass(seconds(3));
  EXPECT_EQ(house.running(), (Strings{"3.0.1"}));
  house.use("fifo");
  house.end("3.0.1");
  house.pass(seconds(3));
  EXPECT_EQ(house.running(), (Strings{"2.0.1"}));
  house.use("drf");  // knows what has started under the others
  house.waits(10, 1, 1001);
  house.end("2.0.1");
  EXPECT_EQ(house.drain().size(), 2U);
}

TEST(BatchOrder, IsThatOfPromisesToo) {
  // Two cores, of which one is taken for 10 minutes.
  Ordered house("sjf", 2, Backfill::kConservative);
  house.waits(10, 1);
  SubmitRequest together;  // 2 to 5
  for (const JobSpec& spec : {Ordered::asks(60, 2), Ordered::asks(20, 2), Ordered::asks(15), Ordered::asks(5)})
    together.items.push_back({"k" + std::to_string(together.items.size()), spec});
  house.ask(std::move(together));
  // In the order 5, 4, 3, 2: 5 now, 4 behind it, 3 when both cores are free, then 2. In order of submission 4 would wait for 2 and 3.
  house.pass(seconds(3));
  EXPECT_EQ(house.running(), (Strings{"1.0.1", "5.0.1"}));
  house.end("5.0.1");
  house.pass(seconds(3));
  house.end("1.0.1");
  house.pass(seconds(3));
  EXPECT_EQ(house.running(), (Strings{"4.0.1"}));
}

TEST(BatchOrder, AJobOfAnotherUserIsDemandedThoughAsManyWaitAsBefore) {
  Ordered house("fifo", 1, Backfill::kEasy);
  house.waits(10, 1, 1000);
  house.waits(10, 1, 1001), house.waits(10, 1, 1002);  // two are demanded
  house.end("1.0.1");
  house.pass(seconds(3));    // one of them has been accepted
  house.waits(10, 1, 1003);  // and two wait again
  EXPECT_EQ(house.drain(), (Strings{"2.0", "3.0", "4.0"}));
}

TEST(BatchOrder, SurvivesARestart) {
  Ordered house("sjf");
  house.waits(10);
  for (const std::int64_t minutes : {50, 20, 40}) house.waits(minutes);
  house.restart();
  house.pass(seconds(200));
  EXPECT_EQ(house.drain(), (Strings{"1.0", "3.0", "4.0", "2.0"}));
}

}  // namespace
}  // namespace bourse::batch::test
