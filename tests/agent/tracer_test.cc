// The agent's part of traces: what it makes of a context that comes with a message.
#include "agent/tracer.h"

#include <gtest/gtest.h>

#include "tests/agent/rig.h"

namespace bourse {
namespace {

constexpr const char* kTask = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SliceId kSlice{FrameworkId("batch"), 7};

class AgentTracerTest : public ::testing::Test {
 protected:
  Received from_master(Body body, const std::string& trace) {
    return {kMasterPeer, {}, Message{Epoch(1), {}, trace, std::move(body)}};
  }
  void hears(Body body, const std::string& trace) {
    Actions out;
    tracer.saw(now, from_master(std::move(body), trace), out);
    EXPECT_TRUE(out.spans.empty());
  }
  // What the agent says in a step, with the context that it leaves with.
  std::string says(Body body) {
    Actions out;
    out.send(kMasterPeer, Message{Epoch(1), {}, {}, std::move(body)});
    tracer.saw(now, TimerFired{}, out);
    for (Span& span : out.spans) spans.push_back(std::move(span));
    return out.sends[0].message.trace;
  }
  StatusUpdate status(TaskState state, int code = 0, Duration started = {}, Duration ended = {}) {
    StatusUpdate update;
    update.framework = kSlice.framework, update.slice = kSlice;
    update.status.task = TaskId("1.0.1"), update.status.state = state, update.status.exit_code = code;
    update.status.started = started, update.status.ended = ended, update.status.cpu = milliseconds(12);
    return update;
  }
  Launch launch() { return {AgentId("h1"), kSlice, TaskId("1.0.1"), {}}; }

  AgentTracer tracer{AgentId("h1")};
  Time now{seconds(10), seconds(1'700'000'000)};
  std::vector<Span> spans;
};

TEST_F(AgentTracerTest, ATaskIsALaunchAndARunBelowWhatItCameWith) {
  hears(launch(), kTask);
  const Duration came = now.wall;
  EXPECT_EQ(says(status(TaskState::kStaging)), kTask);
  EXPECT_TRUE(spans.empty());
  EXPECT_EQ(says(status(TaskState::kRunning, 0, came + seconds(1))), kTask);
  EXPECT_EQ(says(status(TaskState::kExited, 3, came + seconds(1), came + seconds(4))), kTask);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].name, "launch");
  EXPECT_EQ(spans[0].start, came);
  EXPECT_EQ(spans[0].end, came + seconds(1));
  EXPECT_FALSE(spans[0].failed);
  EXPECT_EQ(spans[1].name, "run");
  EXPECT_EQ(spans[1].start, came + seconds(1));
  EXPECT_EQ(spans[1].end, came + seconds(4));
  EXPECT_TRUE(spans[1].failed);
  EXPECT_EQ(spans[1].message, "exit code 3");
  for (const Span& span : spans) {
    EXPECT_EQ(span.parent, 0x00f067aa0ba902b7ULL);
    EXPECT_EQ(trace_id_text(span.context), "4bf92f3577b34da6a3ce929d0e0e4736");
  }
  EXPECT_NE(spans[0].context.span, spans[1].context.span);
  EXPECT_EQ(says(status(TaskState::kExited, 3, came + seconds(1), came + seconds(4))), "") << "sent again: told of already";
  EXPECT_EQ(spans.size(), 2U);
  EXPECT_EQ(tracer.traced(), 0U);
}

TEST_F(AgentTracerTest, AnEndWithoutAWordBeforeIsBoth) {
  hears(launch(), kTask);
  says(status(TaskState::kExited, 0, now.wall, now.wall + seconds(1)));
  EXPECT_EQ(spans.size(), 2U);
}

TEST_F(AgentTracerTest, WhatNeverRanIsALaunchThatFailed) {
  hears(launch(), kTask);
  StatusUpdate failed = status(TaskState::kFailedStart);
  failed.status.message = "chdir /x: No such file or directory";
  says(failed);
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_TRUE(spans[0].failed);
  EXPECT_EQ(spans[0].message, "chdir /x: No such file or directory");
}

TEST_F(AgentTracerTest, ASliceIsACarve) {
  CarveSlices carve;
  carve.slices.resize(1);
  carve.slices[0].id = kSlice;
  hears(carve, kTask);
  const Duration came = now.wall;
  now.wall += seconds(2);
  SliceUp up;
  up.spec.id = kSlice;
  EXPECT_EQ(says(up), kTask);
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].name, "carve");
  EXPECT_EQ(spans[0].start, came);
  EXPECT_EQ(spans[0].end, came + seconds(2));
  hears(carve, kTask);
  says(SliceGone{AgentId("h1"), kSlice, SliceEnd::kCarveFailed, "no hands"});
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_TRUE(spans[1].failed);
  EXPECT_EQ(spans[1].message, "no hands");
}

TEST_F(AgentTracerTest, OnlyWhatIsToBeSampledIsRemembered) {
  hears(launch(), "");
  hears(launch(), "nonsense");
  hears(launch(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
  EXPECT_EQ(tracer.traced(), 0U);
}

TEST_F(AgentTracerTest, MemoryIsBounded) {
  for (std::size_t i = 0; i < AgentTracer::kTracedMax + 100; ++i) {
    Launch one = launch();
    one.task = TaskId("t" + std::to_string(i));
    hears(one, kTask);
  }
  EXPECT_EQ(tracer.traced(), AgentTracer::kTracedMax);
}

TEST(ResourceAttributes, AreAddedToTheirs) {
  const TaskKey key{FrameworkId("batch"), TaskId("1.0.1")};
  EXPECT_EQ(resource_attributes("", "lab", AgentId("h1"), key),
            "bourse.cluster=lab,bourse.agent=h1,bourse.framework=batch,bourse.task=1.0.1");
  EXPECT_EQ(resource_attributes("a=1", "our, lab=100% \xc3\xa9", AgentId("h1"), key),
            "a=1,bourse.cluster=our%2C%20lab%3D100%25%20%C3%A9,bourse.agent=h1,bourse.framework=batch,bourse.task=1.0.1");
}

}  // namespace
}  // namespace bourse
