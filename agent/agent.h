// The agent actor: routes events to the tables that own the rules (slices, tasks, inventory). See DESIGN §6 and §8.
//
// Its durable state is its checkpoint: records appended with Safety::kProcess before dependent sends leave. After a restart
// it rebuilds slices, tasks and unacknowledged statuses from it and from HostTasks, then says hello with all of it.
#pragma once

#include <memory>
#include <string>

#include "agent/settings.h"
#include "common/core/actor.h"

namespace bourse {

struct AgentOptions {
  AgentId id;
  std::string boot_id;
  AgentSettings settings;
  bool fence_without_leader = true;
  std::size_t masters = 1;      // that its driver knows
  bool trace = false;           // tell of slices and tasks that come with a trace context, as spans
  std::string tasks_collector;  // what tasks that are traced find in OTEL_EXPORTER_OTLP_ENDPOINT; "": nothing
};

class Agent final : public Actor {
 public:
  explicit Agent(AgentOptions options);
  ~Agent() override;
  void step(Time now, const Event& event, Actions& out) override;

  // For the simulator's checkers and tests: what it has, without a copy of its rules.
  struct View {
    std::vector<SliceSpec> slices, held;
    std::vector<TaskKey> active;  // not terminal
    std::size_t unacknowledged = 0;
    Resources total, free;
    Epoch epoch_seen;
  };
  [[nodiscard]] View view() const;
  [[nodiscard]] const Inventory& inventory() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse
