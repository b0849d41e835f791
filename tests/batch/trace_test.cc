// Spans of what becomes of jobs: one trace a job, whoever lives when.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/batch/house.h"

namespace bourse::batch::test {
namespace {

using Strings = std::vector<std::string>;
constexpr const char* kOuter = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

JobSpec under(const std::string& traceparent) {
  JobSpec spec = House::job();
  spec.env.push_back("TRACEPARENT=" + traceparent);
  return spec;
}

struct BatchTrace : ::testing::Test {
  House house;
  void cluster(int nodes, std::int64_t cores) {
    for (int i = 1; i <= nodes; ++i) house.add_agent("h" + std::to_string(i), cores);
    house.start();
    house.batch->set_tracing(1000);
  }
  Strings names() const {
    Strings out;
    for (const Span& span : house.spans) out.push_back(span.name);
    std::sort(out.begin(), out.end());
    return out;
  }
  const Span& one(const std::string& name) const {
    static const Span none;
    const Span* found = nullptr;
    for (const Span& span : house.spans)
      if (span.name == name) {
        EXPECT_EQ(found, nullptr) << name << " twice";
        found = &span;
      }
    EXPECT_NE(found, nullptr) << name;
    return found == nullptr ? none : *found;
  }
  // Every span is of one trace, no id is there twice, and every parent is there but `outer`.
  void check_tree(std::uint64_t outer) const {
    std::set<std::uint64_t> ids;
    for (const Span& span : house.spans) {
      EXPECT_TRUE(ids.insert(span.context.span).second) << span.name;
      EXPECT_EQ(trace_id_text(span.context), trace_id_text(house.spans.front().context)) << span.name;
      EXPECT_LE(span.start, span.end) << span.name;
    }
    for (const Span& span : house.spans) EXPECT_TRUE(span.parent == outer || ids.count(span.parent) == 1) << span.name;
  }
};

TEST_F(BatchTrace, AJobIsOneTraceFromItsSubmissionToItsEnd) {
  cluster(1, 1);
  const Duration submitted = house.now.wall;
  house.submit(House::job("first"));
  house.pass(seconds(5));
  const std::string told = house.spec_of("1.0.1").trace;
  house.end("1.0.1");
  EXPECT_EQ(names(), (Strings{"accept", "end", "job", "offer", "queue", "start", "submit", "task"}));
  check_tree(0);
  EXPECT_EQ(one("job").parent, 0U);
  EXPECT_EQ(one("job").start, submitted);
  for (const char* name : {"submit", "queue", "offer", "accept", "task", "end"})
    EXPECT_EQ(one(name).parent, one("job").context.span) << name;
  EXPECT_EQ(one("start").parent, one("task").context.span);
  EXPECT_EQ(told, to_traceparent(one("task").context)) << "what the task itself is told";
  EXPECT_EQ(house.accept_trace, to_traceparent(one("accept").context)) << "what the master is told";
  EXPECT_GE(one("task").end - one("task").start, seconds(5));
  for (const Span& span : house.spans) EXPECT_FALSE(span.failed) << span.name;
}

TEST_F(BatchTrace, ASliceThatIsUsedAgainHasNoOffer) {
  cluster(1, 1);
  house.submit(House::job());
  house.submit(House::job());
  house.end("1.0.1");
  house.spans.clear();
  house.end("2.0.1");
  const Strings all = names();
  EXPECT_EQ(std::count(all.begin(), all.end(), "offer"), 0);
  EXPECT_EQ(std::count(all.begin(), all.end(), "task"), 1);
}

TEST_F(BatchTrace, AFailureIsOneAndSaysWhy) {
  cluster(1, 1);
  house.submit(House::job());
  house.end("1.0.1", 3);
  for (const char* name : {"job", "task"}) {
    EXPECT_TRUE(one(name).failed) << name;
    EXPECT_NE(one(name).message.find("exit code 3"), std::string::npos) << one(name).message;
  }
  EXPECT_FALSE(one("start").failed) << "it did start";
}

TEST_F(BatchTrace, WhoSubmitsUnderATraceStaysInIt) {
  cluster(1, 1);
  const JobSpec spec = under(kOuter);
  house.submit(spec);
  house.end("1.0.1");
  const TraceContext outer = *parse_traceparent(kOuter);
  EXPECT_EQ(one("job").parent, outer.span);
  EXPECT_EQ(trace_id_text(one("job").context), trace_id_text(outer));
  check_tree(outer.span);
}

TEST_F(BatchTrace, TwoJobsOfOneSubmitterAreTwoPartsOfItsTrace) {
  cluster(1, 2);
  const JobSpec spec = under(kOuter);
  house.submit(spec);
  house.submit(spec);
  house.end_all();
  check_tree(parse_traceparent(kOuter)->span);
  const Strings all = names();
  EXPECT_EQ(std::count(all.begin(), all.end(), "job"), 2);
}

TEST_F(BatchTrace, WhoIsNotToBeSampledIsNotToldOfButHandsItOn) {
  cluster(1, 1);
  const JobSpec spec = under("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
  house.submit(spec);
  const auto told = parse_traceparent(house.spec_of("1.0.1").trace);
  ASSERT_TRUE(told);
  EXPECT_FALSE(told->sampled);
  EXPECT_EQ(trace_id_text(*told), "4bf92f3577b34da6a3ce929d0e0e4736");
  house.end("1.0.1");
  EXPECT_EQ(names(), Strings{});
}

TEST_F(BatchTrace, WhatIsNoTraceContextIsAsIfItWereNotThere) {
  cluster(1, 1);
  const JobSpec spec = under("00-zzz");
  ASSERT_NE(house.submit(spec), JobId());
  house.end("1.0.1");
  EXPECT_EQ(one("job").parent, 0U);
}

TEST_F(BatchTrace, ALaterLifeTellsTheRestOfTheSameTrace) {
  cluster(1, 1);
  house.submit(House::job());
  const std::string before = house.spec_of("1.0.1").trace;
  house.restart();
  house.batch->set_tracing(1000);
  house.end("1.0.1");
  EXPECT_EQ(to_traceparent(one("task").context), before);
  EXPECT_EQ(names(), (Strings{"accept", "end", "job", "offer", "queue", "start", "submit", "task"})) << "nothing twice";
  check_tree(0);
}

TEST_F(BatchTrace, EachAttemptIsATaskOfItsOwn) {
  cluster(2, 1);
  JobSpec spec = House::job();
  spec.requeue = true;
  house.submit(spec);
  house.end("1.0.1", TaskState::kPreempted);
  house.pass(seconds(1));
  ASSERT_EQ(house.running(), Strings{"1.0.2"});
  house.end("1.0.2");
  check_tree(0);
  std::map<std::uint64_t, bool> attempts;
  for (const Span& span : house.spans)
    if (span.name == "task") attempts[std::get<std::int64_t>(span.attributes.back().second)] = span.failed;
  EXPECT_EQ(attempts, (std::map<std::uint64_t, bool>{{1, true}, {2, false}}));
  const Strings all = names();
  EXPECT_EQ(std::count(all.begin(), all.end(), "queue"), 2);
  EXPECT_EQ(std::count(all.begin(), all.end(), "job"), 1);
}

TEST_F(BatchTrace, AnArrayIsOneTraceWithAJobForEachTask) {
  cluster(1, 2);
  JobSpec spec = House::job();
  spec.array = "1-5";
  house.submit(spec);
  house.end_all();
  check_tree(0);
  EXPECT_EQ(one("array").parent, 0U);
  std::set<std::string> jobs;
  for (const Span& span : house.spans)
    if (span.name == "job") {
      EXPECT_EQ(span.parent, one("array").context.span);
      for (const auto& [key, value] : span.attributes)
        if (key == "bourse.job.id") jobs.insert(std::get<std::string>(value));
    }
  EXPECT_EQ(jobs, (std::set<std::string>{"1_1", "1_2", "1_3", "1_4", "1_5"}));
}

TEST_F(BatchTrace, ACancelledJobIsToldOf) {
  cluster(1, 1);
  house.submit(House::job());
  house.submit(House::job());
  house.spans.clear();
  CancelRequest cancel;
  cancel.jobs = {{JobId(2), ""}};
  house.ask(cancel);
  house.settle();
  EXPECT_EQ(names(), (Strings{"end", "job"}));
  EXPECT_TRUE(one("job").failed);
}

TEST(BatchWithoutTrace, TellsNothingAndHandsOnWhatItWasGiven) {
  House house;
  house.add_agent("h1", 2);
  house.start();
  const JobSpec spec = under(kOuter);
  house.submit(spec);
  house.submit(House::job());
  EXPECT_EQ(house.spec_of("1.0.1").trace, "");
  const Strings& env = house.spec_of("1.0.1").env;
  EXPECT_EQ(std::count(env.begin(), env.end(), std::string("TRACEPARENT=") + kOuter), 1);
  house.end_all();
  EXPECT_TRUE(house.spans.empty());
  EXPECT_EQ(house.accept_trace, "");
}

}  // namespace
}  // namespace bourse::batch::test
