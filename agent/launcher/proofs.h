// Whether a task may run as the user that it says it is of. See "User identity" and common/world/identity.h.
//
// The file that --identity names decides; it is root's, and read again whenever it changes. While it is wrong, what was read before stays
// in force; where nothing was, no task is started. Owned by the launcher, on its thread; asks munged, once for each credential.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "agent/launcher/protocol.h"
#include "common/core/result.h"
#include "common/world/identity.h"
#include "common/world/spawn.h"

namespace bourse::launcher {

class Proofs {
 public:
  // `artifacts`: directory of files that are named by their digests, with a slash at its end.
  Proofs(std::string file, std::string artifacts) : file_(std::move(file)), artifacts_(std::move(artifacts)) {}
  // kDenied with a sentence for the job's owner.
  Result<> check(const Start& start, Duration wall_now);
  // Takes out of spec.env what the agent's own variables replace. After check().
  static void settle_environment(Start& start);

 private:
  Result<> refresh();

  std::string file_, artifacts_;
  const std::string commands_ = slurm_commands_directory();
  std::optional<identity::Policy> policy_;
  std::string seen_, complaint_;  // the file as it was read last; what was wrong with it
  identity::KnownClaims known_;
};

}  // namespace bourse::launcher
