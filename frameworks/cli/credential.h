// A user's credential for what a tool asks to be run, where the cluster wants one. See frameworks/batch/proof.h.
//
// It is made by another program, `bourse credential`, so that submit needs neither MUNGE nor a cryptographic library where there is no
// need. Blocking.
#pragma once

#include <string>

#include "frameworks/batch/protocol.h"

namespace bourse::cli {

// Whether this refusal asks for one.
bool wants_credential(Code code, const std::string& reason);
// Puts one into a SubmitRequest (of one job) or StepRequest, for its key.
Result<> add_credential(batch::RequestBody& body);

}  // namespace bourse::cli
