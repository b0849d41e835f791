// Carries out RunProbe: starts the helper with what the configuration says of that probe, and makes a ProbeDone of what comes back.
// Owned by the executor, on the reactor's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/helper/runner.h"
#include "common/core/action.h"
#include "common/core/event.h"

namespace bourse {

using ProbeInputs = std::map<std::string, ProbeInput>;

class Prober {
 public:
  using Post = std::function<void(Event)>;
  Prober(Reactor& reactor, const std::string& helper, ProbeInputs inputs);
  void set_inputs(ProbeInputs inputs) { inputs_ = std::move(inputs); }
  // A result that is known already answers the next run of that probe.
  void prime(const std::string& probe, Inventory inventory) { primed_[probe] = std::move(inventory); }
  // Answers once, later, never from within.
  void run(const RunProbe& action, const Post& post);

 private:
  Reactor& reactor_;
  HelperRunner runner_;
  ProbeInputs inputs_;
  std::map<std::string, Inventory> primed_;
};

}  // namespace bourse
