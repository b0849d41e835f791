// What batch's policy has learnt outlives the process, and candidates for it are compared and change nothing.
#include <gtest/gtest.h>

#include "tests/batch/house.h"

namespace bourse::batch::test {
namespace {

struct Candidates : House {
  explicit Candidates(const std::string& policy, const std::string& shadows = "", std::int64_t cores = 1)
      : House(options(policy, shadows)) {
    add_agent("h1", cores);
    start();
  }
  static BatchOptions options(const std::string& policy, const std::string& shadows) {
    BatchOptions o = House::defaults();
    o.policy = *policy::Catalog().find(policy);
    o.backfill = Backfill::kNone;
    o.shadow_policy = shadows;
    o.shadow_every = seconds(30);
    return o;
  }
  JobId waits(std::int64_t minutes) {
    JobSpec spec = job("m" + std::to_string(minutes));
    spec.time_limit = seconds(60 * minutes);
    spec.nodes_min = spec.nodes_max = 1;
    return submit(spec);
  }
  std::vector<ShadowFinding> found() {
    const auto summary = reply<SummaryReply>(ask(SummaryRequest{}));
    return summary ? summary->shadows : std::vector<ShadowFinding>{};
  }
  std::vector<LearntRecord> learnt() const {
    std::vector<LearntRecord> out;
    for (const std::string& bytes : disk)
      if (auto record = decode_record(bytes); record)
        if (const auto* l = std::get_if<LearntRecord>(&*record)) out.push_back(*l);
    return out;
  }
};

TEST(BatchShadow, SaysWhoWouldHaveBeenStartedInstead) {
  Candidates house("fifo", "sjf\nfifo");
  house.waits(10);
  const JobId longer = house.waits(50), shorter = house.waits(20);
  house.pass(seconds(31));
  const auto found = house.found();
  ASSERT_EQ(found.size(), 2U);
  // One core: fifo starts the second job next, sjf the third; the one 50, the other 20 minutes long.
  EXPECT_EQ(found[0].policy, "sjf");
  EXPECT_EQ(found[0].fault, "");
  EXPECT_EQ(found[0].moved, 2U);
  EXPECT_EQ(found[0].live_job, longer.value);
  EXPECT_EQ(found[0].job, shorter.value);
  EXPECT_LT(found[0].wait_s, found[0].live_wait_s);
  EXPECT_EQ(found[1].policy, "fifo");
  EXPECT_EQ(found[1].moved, 0U) << "it is the policy in force";
  EXPECT_EQ(found[1].job, 0U);
}

TEST(BatchShadow, ChangesNothingThatIsDecided) {
  const auto ran = [](const std::string& shadows) {
    Candidates house("fifo", shadows);
    std::string out;
    for (const std::int64_t minutes : {10, 50, 20, 40, 30}) house.waits(minutes);
    while (!house.running().empty()) {
      house.pass(seconds(65));
      out += house.running().front() + " ";
      house.end(house.running().front());
      house.pass(seconds(3));
    }
    return out;
  };
  EXPECT_EQ(ran("sjf\nxf\nqlearn"), ran(""));
}

TEST(BatchShadow, ChangesWithTheConfiguration) {
  Candidates house("fifo");
  EXPECT_TRUE(house.found().empty());
  house.post(Reload{"shadow_policy=saf"});
  house.settle();
  ASSERT_EQ(house.found().size(), 1U);
  EXPECT_EQ(house.found()[0].at, Duration(0)) << "not looked at yet";
  house.waits(10);
  house.waits(20);
  house.pass(seconds(31));
  EXPECT_EQ(house.found()[0].jobs, 1U) << "the first ran when the time that is looked at began";
  house.post(Reload{"shadow_policy="});
  house.settle();
  EXPECT_TRUE(house.found().empty());
}

TEST(BatchRestart, KeepsWhatItsPolicyHasLearnt) {
  Candidates house("qlearn:window=10s");
  for (int i = 0; i < 12; ++i) {
    house.waits(10);
    house.waits(50);
    house.pass(seconds(20));
    if (!house.running().empty()) house.end(house.running().front());
  }
  house.pass(seconds(120));
  house.waits(5);
  house.pass(seconds(5));
  const auto before = house.learnt();
  ASSERT_FALSE(before.empty());
  EXPECT_EQ(before.back().policy, "qlearn");
  house.restart();
  house.waits(6);  // a pass, and a minute later another
  house.pass(seconds(61));
  house.waits(7);
  house.pass(seconds(5));
  // The count of windows goes on where the former life had left it.
  const auto windows = [](const LearntRecord& r) { return std::stoul(r.state.substr(r.state.find("\n1 ") + 3)); };
  ASSERT_GT(house.learnt().size(), before.size());
  EXPECT_GT(windows(house.learnt().back()), windows(before.back()));
}

TEST(Records, WhatWasLearntIsReadBack) {
  const Record record(LearntRecord{"qlearn", std::string("qlearn\n1 2\0x", 12)});
  const auto back = decode_record(encode(record));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::get<LearntRecord>(*back), std::get<LearntRecord>(record));
}

}  // namespace
}  // namespace bourse::batch::test
