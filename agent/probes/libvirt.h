// The probe "libvirt": which virtual machines this host can carry, by asking the hypervisors of the configured URIs.
//
// One device for each URI, kind hypervisor/TYPE (hypervisor/qemu), whose counter `guests` is how many guests the site allows at once;
// its attributes name each architecture with its machine types and whether it is accelerated. Labels say the same for constraints:
//   vm.x86_64=kvm   vm.aarch64=emulated
// so that "this x86 host can also run Arm guests, slowly" can be asked for. A URI that does not answer is a device that is not healthy.
//
// Options: "uris" (separated by blanks; default qemu:///system), "guests" (default 64). A URI must be this host's own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/probes/probe.h"

namespace bourse {

constexpr const char* kProbeLibvirt = "libvirt";

Result<ProbeReport> run_libvirt(const ProbeInput& input);

// The device's id: "libvirt:" and the URI's scheme, path and, where it has one, query, without characters that names cannot have.
std::string libvirt_device(const std::string& uri);

}  // namespace bourse
