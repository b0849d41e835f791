#include "agent/microvm/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "agent/isolators/cgroup_files.h"
#include "agent/microvm/libvirt_api.h"
#include "common/core/hooks.h"
#include "common/world/rooted.h"

namespace bourse::microvm {
namespace {

constexpr std::string_view kPrefix = "bourse-";
constexpr Bytes kKvmOverhead{48LL * 1024 * 1024}, kTcgOverhead{128LL * 1024 * 1024};
constexpr int kTranslationMiB = 64;  // QEMU takes up to a GiB otherwise, out of the slice's memory
constexpr std::int64_t kNoLimit = INT64_C(1) << 60;
constexpr int kCpusMax = 4096;

// Field 22 of /proc/PID/stat: clock ticks after boot; with the pid it names a process for good.
std::optional<std::int64_t> start_ticks(pid_t pid) {
  const auto text = Rooted("").text("/proc/" + std::to_string(pid) + "/stat");
  if (!text) return std::nullopt;
  const auto words = words_of(text->substr(text->rfind(')') + 1));
  return words.size() > 19 ? whole_number(words[19]) : std::nullopt;
}

struct Group {
  std::string mount, path;
  std::vector<std::string> controllers;  // empty: v2
};
std::vector<Group> own_groups() {
  const cgroup::Mounts mounts = cgroup::find_mounts();
  std::vector<Group> groups;
  const std::string text = Rooted("").text("/proc/self/cgroup").value_or("");
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string list = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (list.empty()) {
      if (!mounts.v2.empty()) groups.push_back({mounts.v2, path, {}});
      continue;
    }
    Group group{"", path, {}};
    for (std::size_t from = 0; from < list.size();) {
      const auto comma = std::min(list.find(',', from), list.size());
      group.controllers.push_back(list.substr(from, comma - from));
      from = comma + 1;
    }
    const auto it = mounts.v1.find(group.controllers.front());
    if (it == mounts.v1.end()) continue;  // a hierarchy with a name only, or not mounted
    group.mount = it->second;
    groups.push_back(std::move(group));
  }
  return groups;
}

// The smallest of a limit from the group up to the root. `read` gives -1 for none.
template <class Read>
std::int64_t smallest(const Group& group, const Read& read) {
  std::int64_t least = kNoLimit;
  for (std::string path = group.path; path.size() > 1; path.resize(path.rfind('/'))) {
    const std::int64_t value = read(group.mount + path);
    if (value >= 0) least = std::min(least, value);
  }
  return least;
}

bool has(const Group& group, const char* controller) {
  return std::find(group.controllers.begin(), group.controllers.end(), controller) != group.controllers.end();
}

// Thousandths of a core.
std::int64_t quota_v2(const std::string& dir) {
  const auto words = words_of(cgroup::read_file(dir + "/cpu.max") ? *cgroup::read_file(dir + "/cpu.max") : "");
  if (words.size() != 2 || words[0] == "max") return -1;
  const auto quota = whole_number(words[0]), period = whole_number(words[1]);
  return quota && period && *period > 0 ? *quota * 1000 / *period : -1;
}
std::int64_t quota_v1(const std::string& dir) {
  const std::int64_t quota = cgroup::read_number(dir + "/cpu.cfs_quota_us"),
                     period = cgroup::read_number(dir + "/cpu.cfs_period_us");
  return quota > 0 && period > 0 ? quota * 1000 / period : -1;
}

}  // namespace

std::string domain_xml(const Domain& domain) {
  const bool arm = domain.arch == "aarch64";
  // Of other architectures libvirt's choice, without a word, is some old board.
  const bool general = arm || domain.arch == "armv7l" || domain.arch == "riscv64";
  const bool x86 = domain.arch == "x86_64" || domain.arch == "i686";
  std::string xml = "<domain type='" + std::string(domain.kvm ? "kvm" : "qemu") + "'>\n  <name>" + xml_quoted(domain.name) +
                    "</name>\n  <memory unit='b'>" + std::to_string(domain.mem.value) + "</memory>\n  <vcpu>" +
                    std::to_string(domain.cpus) + "</vcpu>\n  <os>\n    <type arch='" + xml_quoted(domain.arch) + "'" +
                    (general ? " machine='virt'" : "") + ">hvm</type>\n";
  if (!domain.kernel.empty()) xml += "    <kernel>" + xml_quoted(domain.kernel) + "</kernel>\n";
  if (!domain.initrd.empty()) xml += "    <initrd>" + xml_quoted(domain.initrd) + "</initrd>\n";
  if (!domain.command_line.empty()) xml += "    <cmdline>" + xml_quoted(domain.command_line) + "</cmdline>\n";
  xml += "  </os>\n  <features>\n";
  if (x86) xml += "    <acpi/>\n";
  if (!domain.kvm) xml += "    <tcg>\n      <tb-cache unit='MiB'>" + std::to_string(kTranslationMiB) + "</tb-cache>\n    </tcg>\n";
  xml += "  </features>\n";
  if (domain.kvm)
    xml += "  <cpu mode='host-passthrough'/>\n";
  else if (arm)
    xml += "  <cpu mode='custom' match='exact'><model>cortex-a57</model></cpu>\n";  // the machine's own default is a 32-bit core
  xml +=
      "  <clock offset='utc'/>\n  <on_poweroff>destroy</on_poweroff>\n  <on_reboot>destroy</on_reboot>\n  "
      "<on_crash>destroy</on_crash>\n"
      "  <devices>\n";
  // Firmware shows a guest the disks that it may boot from, and no others.
  const auto order = [&](int place) {
    return domain.kernel.empty() ? "      <boot order='" + std::to_string(place) + "'/>\n" : std::string();
  };
  // libvirt gives our own files to whoever runs the emulator; the image it leaves as it is, for others use it too.
  if (!domain.disk.empty())
    xml += "    <disk type='file' device='disk'>\n      <driver name='qemu' type='qcow2'/>\n      <source file='" +
           xml_quoted(domain.disk_layer) + "'/>\n      <backingStore type='file'>\n        <format type='" +
           xml_quoted(domain.disk_format) + "'/>\n        <source file='" + xml_quoted(domain.disk) +
           "'>\n          <seclabel model='dac' relabel='no'/>\n        </source>\n        <backingStore/>\n      </backingStore>\n"
           "      <target dev='vda' bus='virtio'/>\n" +
           order(1) + "    </disk>\n";
  if (!domain.task_disk.empty())
    xml += "    <disk type='file' device='disk'>\n      <driver name='qemu' type='raw'/>\n      <source file='" +
           xml_quoted(domain.task_disk) +
           "'/>\n      <target dev='vdb' bus='virtio'/>\n      <readonly/>\n      <serial>bourse-task</serial>\n" + order(2) +
           "    </disk>\n";
  xml +=
      "    <serial type='pty'><target port='0'/></serial>\n    <console type='pty'><target type='serial' port='0'/></console>\n"
      "    <controller type='usb' model='none'/>\n    <memballoon model='none'/>\n  </devices>\n</domain>\n";
  return xml;
}

std::string domain_name(pid_t pid) {
  return std::string(kPrefix) + std::to_string(pid) + "-" + std::to_string(start_ticks(pid).value_or(0));
}

std::optional<bool> owner_lives(const std::string& name) {
  if (name.compare(0, kPrefix.size(), kPrefix) != 0) return std::nullopt;
  const auto dash = name.find('-', kPrefix.size());
  if (dash == std::string::npos) return std::nullopt;
  const auto pid = whole_number(name.substr(kPrefix.size(), dash - kPrefix.size())), ticks = whole_number(name.substr(dash + 1));
  if (!pid || !ticks) return std::nullopt;
  return start_ticks(static_cast<pid_t>(*pid)) == ticks;
}

Result<Bytes> guest_memory(Bytes slice, bool kvm) {
  const Bytes overhead = kvm ? kKvmOverhead : kTcgOverhead;
  const std::int64_t mem = slice.value - std::max(overhead.value, slice.value / 16);
  if (mem < kGuestLeast.value)
    return Error(Code::kInvalid, "a memory of " + format_size(slice) + " is too little for a virtual machine: it needs " +
                                     format_size(overhead) + " for the emulator and at least " + format_size(kGuestLeast) +
                                     " for the guest");
  return Bytes{mem / (1 << 20) * (1 << 20)};
}

Limits own_limits() {
  Limits limits;
  cpu_set_t* set = CPU_ALLOC(kCpusMax);
  std::int64_t cores = 1;
  if (sched_getaffinity(0, CPU_ALLOC_SIZE(kCpusMax), set) == 0) cores = CPU_COUNT_S(CPU_ALLOC_SIZE(kCpusMax), set);
  CPU_FREE(set);
  std::int64_t mem = kNoLimit, milli = kNoLimit;
  for (const Group& group : own_groups()) {
    if (group.controllers.empty()) {
      mem = std::min(mem, smallest(group, [](const std::string& dir) { return cgroup::read_number(dir + "/memory.max"); }));
      milli = std::min(milli, smallest(group, quota_v2));
    }
    if (has(group, "memory"))
      mem = std::min(mem,
                     smallest(group, [](const std::string& dir) { return cgroup::read_number(dir + "/memory.limit_in_bytes"); }));
    if (has(group, "cpu")) milli = std::min(milli, smallest(group, quota_v1));
  }
  if (mem < kNoLimit) limits.mem = Bytes{mem};
  // A part of a core is still one to the guest; the quota holds it to its part.
  if (milli < kNoLimit) cores = std::min(cores, (milli + 999) / 1000);
  limits.cpus = static_cast<std::uint32_t>(std::max<std::int64_t>(cores, 1));
  return limits;
}

Result<> join_own_groups(pid_t pid) {
  if (hooks::mutant("microvm.not_in_slice")) return {};
  for (const Group& group : own_groups())
    BOURSE_TRY(cgroup::write_file(group.mount + group.path + "/cgroup.procs", std::to_string(pid)));
  return {};
}

pid_t find_emulator(const std::string& name) {
  const Rooted files("");
  for (const std::string& entry : files.names("/proc")) {
    const auto pid = whole_number(entry);
    if (!pid) continue;
    const auto line = files.text("/proc/" + entry + "/cmdline");
    if (line && line->find(std::string(1, '\0') + "guest=" + name + ",") != std::string::npos) return static_cast<pid_t>(*pid);
  }
  return 0;
}

std::string console_path(const std::string& description) {
  for (const XmlElement& serial : xml_elements(description, "serial"))
    for (const XmlElement& source : xml_elements(serial.inside, "source"))
      if (const std::string path = source.attribute("path"); !path.empty()) return path;
  return {};
}

}  // namespace bourse::microvm
