// The agent's part of traces: how long slices took to make, and tasks to start and to run.
//
// Owned by the agent actor, and only there when it is to trace. It looks on: at what comes in with a trace context, and at what the
// agent says of the same slice or task afterwards; nothing depends on it. What it remembers is bounded, and lost when the agent ends.
#pragma once

#include <map>
#include <string>

#include "common/core/actor.h"
#include "common/core/span.h"

namespace bourse {

class AgentTracer {
 public:
  static constexpr std::size_t kTracedMax = 20'000;  // slices, and tasks; what comes beyond is not traced

  explicit AgentTracer(AgentId agent) : agent_(std::move(agent)) {}
  // After each step, with what it was about and what it led to. Messages about what is traced get the context they lack.
  void saw(Time now, const Event& event, Actions& out);
  [[nodiscard]] std::size_t traced() const { return slices_.size() + tasks_.size(); }

 private:
  struct Traced {
    TraceContext context;
    Duration came{0};  // wall
    bool running = false;
  };
  void received(Time now, const Message& message);
  void slice_said(Time now, Actions& out, Message& message, const SliceId& slice, const std::string& failure);
  void task_said(Time now, Actions& out, Message& message, const StatusUpdate& update);

  AgentId agent_;
  std::map<SliceId, Traced> slices_;
  std::map<TaskKey, Traced> tasks_;
};

// OTEL_RESOURCE_ATTRIBUTES of a task: `theirs`, and where it runs.
std::string resource_attributes(const std::string& theirs, const std::string& cluster, const AgentId& agent, const TaskKey& task);

}  // namespace bourse
