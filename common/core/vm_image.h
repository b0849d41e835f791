// What a task in a virtual machine boots: TaskSpec::image of a task of kind kMicroVm, as text and in its parts.
//
//   kernel=PATH,initrd=PATH[,disk=PATH][,arch=NAME][,append=WORDS]     a Linux kernel with its first file system
//   disk=PATH[,arch=NAME]      or PATH alone                           a disk image that boots by itself
//
// `append`, words for the kernel's command line, comes last, for it may hold commas; nothing else may. Paths are full ones, of the
// host that the task runs on. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/core/resources.h"
#include "common/core/result.h"

namespace bourse {

constexpr std::size_t kVmImageBytesMax = 8192;
constexpr std::string_view kHypervisorKind = "hypervisor/";  // devices of such a kind run guests; see agent/probes/libvirt.h
constexpr const char* kVmGuests = "guests";                  // their counter: how many more they take
constexpr const char* kVmUriAttribute = "libvirt.uri";       // and where they are reached

struct VmImage {
  std::string kernel, initrd, disk, arch, append;  // empty: none; arch: that of the host
  bool operator==(const VmImage&) const = default;
};
Result<VmImage> parse_vm_image(std::string_view text);  // kInvalid says which part and why
// kInvalid where parse_vm_image() would refuse it, or not give the same back.
Result<std::string> to_text(const VmImage& image);
// The hypervisor that a slice for it needs: a place for one guest, of one that runs this architecture.
DeviceAsk vm_device(const VmImage& image);

}  // namespace bourse
