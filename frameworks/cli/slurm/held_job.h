// A job that a tool outside of it holds: srun and salloc at a login node. It is submitted as any other, and runs the relay
// (step_io.h) alone, which ends when the tool says so, with the status that the tool gives, or when the tool is no more.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "frameworks/batch/protocol.h"
#include "frameworks/cli/step_desk.h"

namespace bourse::cli {

class HeldJob {
 public:
  struct Wish {
    std::string program;             // who speaks on stderr
    std::vector<std::string> words;  // options for submit(1)
    std::string dir;                 // of the cluster
    Duration patience = kNoLimit;    // to start; then it is cancelled
    bool quiet = false;
  };
  // Returns when it runs. Interrupted or out of patience while it waits, it is cancelled: kTimeout, kGone.
  static Result<std::unique_ptr<HeldJob>> start(StepDesk& desk, const Wish& wish);
  // Lets go; it ends with that status. Returns when it has heard, or after two seconds.
  void end(int status);
  [[nodiscard]] const batch::JobInfo& info() const { return info_; }

 private:
  HeldJob(StepDesk& desk) : desk_(desk) {}

  StepDesk& desk_;
  std::size_t guest_ = 0;
  bool heard_ = false;
  batch::JobInfo info_;
};

}  // namespace bourse::cli
