// Devices and amounts that a site declares in TOML, for hardware that no probe knows. The format is in bourse.conf(5), "Declarations".
//
// A file is read whole or refused whole, and so is a directory of files: every complaint has file and line. Nothing is looked at on the
// host but, where a device names /dev nodes, whether they are there: one that is not makes the device unhealthy.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/probes/probe.h"

namespace bourse {

constexpr std::size_t kDeclaredDevicesMax = 4096;  // of all files together
constexpr std::size_t kDeclarationFilesMax = 256;

struct DeclarationText {
  std::string file, text;
};
// kInvalid: every complaint, one a line, "FILE:LINE: ...".
Result<ProbeReport> parse_declarations(const std::vector<DeclarationText>& texts);
// The probe "declared": option "declare" is a file, or a directory whose *.toml are read in the order of their names.
Result<ProbeReport> run_declared(const ProbeInput& input);

}  // namespace bourse
