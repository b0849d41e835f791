// Runs probes in bourse-helper processes, one for each run, and brings back a report or how the process died. On the reactor's
// thread, which it never blocks.
//
// Each run has its own time limit: at the end of it the process and all it started are killed and the run answers kTimeout, whether or
// not the kernel can end it yet (a process in a driver's call that cannot be interrupted is reaped when that returns; it is counted
// in stuck()). Every run answers exactly once. Runs of different probes go on side by side, at most kRunsMax at one time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/probes/probe.h"
#include "common/world/reactor.h"

namespace bourse {

struct HelperResult {
  // Error codes: a probe's own; kTimeout: over its limit; kIo: could not be started; kGone: it died (text says of what, and its
  // last words); kCorrupt: its answer is no report.
  Result<ProbeReport> report = Error(Code::kGone, "not run");
  Duration took{0};
};

class HelperRunner {
 public:
  using Done = std::function<void(HelperResult)>;
  static constexpr std::size_t kRunsMax = 4, kQueueMax = 256;

  HelperRunner(Reactor& reactor, std::string helper);
  ~HelperRunner();  // kills what runs; their Done is not called
  void run(const std::string& probe, const ProbeInput& input, Duration limit, Done done);
  [[nodiscard]] std::size_t running() const;
  [[nodiscard]] std::size_t stuck() const;  // over their limit, killed, and not dead yet

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// The same for one probe, blocking: for the time before a loop runs.
HelperResult run_helper(const std::string& helper, const std::string& probe, const ProbeInput& input, Duration limit);
// bourse-helper beside this program, or in ../libexec/bourse; `configured` where not empty.
std::string helper_path(const std::string& configured);

}  // namespace bourse
