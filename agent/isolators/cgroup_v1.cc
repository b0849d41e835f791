#include "agent/isolators/cgroup_v1.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/core/hooks.h"

namespace bourse {

namespace {

constexpr std::int64_t kPeriodUs = 100'000;
constexpr std::int64_t kQuotaLeastUs = 1'000;      // the kernel's own least
constexpr std::int64_t kResidueMax = 1024 * 1024;  // page cache that a leaf may keep from one task to the next

// A cpuset of exactly the cores that are paid for is a limit already; a quota on top would only throttle at its seams.
bool cpuset_is_the_limit(const SliceLimits& limits) {
  return static_cast<std::int64_t>(limits.cpuset.size()) * 1000 == limits.cpus.value;
}

}  // namespace

Result<std::unique_ptr<Isolator>> CgroupV1::make(const cgroup::Mounts& mounts, const std::string& root) {
  auto isolator = std::unique_ptr<CgroupV1>(new CgroupV1);
  auto& trees = isolator->trees_;
  const auto add = [&](const std::string& controller, bool per_leaf, const std::string& lost) {
    const auto it = mounts.v1.find(controller);
    if (it == mounts.v1.end()) {
      isolator->degraded_.push_back("the " + controller + " cgroup controller is not mounted: " + lost);
      return false;
    }
    auto made = cgroup::make_dir(it->second + "/" + root);
    if (!made) {
      isolator->degraded_.push_back(made.error().text() + ": " + lost);
      return false;
    }
    trees.push_back({it->second + "/" + root, controller, per_leaf, false});
    return true;
  };
  bool can_kill = false;
  if (!mounts.v2.empty() && cgroup::make_dir(mounts.v2 + "/" + root) && cgroup::exists(mounts.v2 + "/" + root + "/cgroup.kill")) {
    trees.push_back({mounts.v2 + "/" + root, "unified", true, true});
    can_kill = true;
  } else {
    can_kill = add("freezer", true, "a fork bomb may outrun its kill");
    add("cpuacct", true, "CPU time of children that were left behind is not counted");
  }
  const bool memory = add("memory", true, "memory is not limited and peaks are not known");
  add("cpu", false, "CPU time is not limited");
  if (add("cpuset", false, "tasks are not bound to cores")) {
    // A new group of this controller is empty and takes nobody in until it has cores and memory nodes.
    const std::string base = mounts.v1.at("cpuset");
    for (const std::string file : {"cpuset.cpus", "cpuset.mems"}) {
      const auto now = cgroup::read_file(base + "/" + root + "/" + file);
      if (now && now->find_first_not_of("\n") != std::string::npos) continue;
      const auto all = cgroup::read_file(base + "/" + file);
      auto written = all ? cgroup::write_file(base + "/" + root + "/" + file, *all) : Result<>(all.error());
      if (!written) return std::move(written).error();
    }
  }
  if (mounts.v1.count("cpuset") != 0) isolator->cores_file_ = mounts.v1.at("cpuset") + "/" + root + "/cpuset.cpus";
  add("pids", false, "the number of processes is not limited");
  // Not missed before limits for disks are asked for, and refused then.
  if (mounts.v1.count("blkio") != 0) add("blkio", false, "reading and writing of disks is not limited");
  // See devices.h: by the v2 tree where that is possible, since each further tree costs every start.
  if (trees.front().controller != "unified" || !devices::bpf_works()) add("devices", false, "tasks may open all devices");
  if (!memory && !can_kill) return Error(Code::kUnsupported, "cgroup v1 is mounted but neither memory nor freezer can be written");
  if (!memory && trees.front().controller != "unified" && trees.front().controller != "freezer") {
    return Error(Code::kUnsupported, "cgroup v1: no controller that could hold a task's processes together");
  }
  isolator->find_lent();
  return std::unique_ptr<Isolator>(std::move(isolator));
}

std::string CgroupV1::path(std::string_view controller) const {
  const auto it = std::find_if(trees_.begin(), trees_.end(), [&](const Tree& tree) { return tree.controller == controller; });
  return it == trees_.end() ? std::string() : it->path;
}

bool CgroupV1::uses(const Tree& tree, const SliceLimits& limits) const {
  if (tree.controller == "cpu") return limits.cpus.value > 0 && !cpuset_is_the_limit(limits);
  if (tree.controller == "cpuset") return !limits.cpuset.empty() || !limits.mems.empty();
  if (tree.controller == "pids") return limits.pids > 0;
  if (tree.controller == "blkio") return !limits.io.empty();
  if (tree.controller == "devices") return limits.devices_limited;
  return true;
}

std::vector<std::uint32_t> CgroupV1::all_cores() const {
  const auto text = cgroup::read_file(cores_file_);
  return text ? cgroup::parse_list(*text) : std::vector<std::uint32_t>{};
}

Result<> CgroupV1::limit_io(const std::string& dir, const std::vector<IoLimit>& io) {
  const std::string blkio = path("blkio");
  if (blkio.empty() && io.empty()) return {};
  if (blkio.empty()) return Error(Code::kUnsupported, "disk limits are asked for, but there is no blkio controller");
  const std::string base = blkio + "/" + dir + "/blkio.throttle.";
  if (!cgroup::exists(base + "read_bps_device")) return {};  // it never had any
  const std::pair<const char*, std::uint64_t IoLimit::*> files[] = {{"read_bps_device", &IoLimit::read_bytes},
                                                                    {"write_bps_device", &IoLimit::write_bytes},
                                                                    {"read_iops_device", &IoLimit::reads},
                                                                    {"write_iops_device", &IoLimit::writes}};
  for (const auto& [file, member] : files) {
    // A limit of 0 is none; those that are not asked for any more go.
    std::map<std::string, std::uint64_t> wanted;
    const std::string now = BOURSE_TRY(cgroup::read_file(base + file));
    for (std::size_t at = 0; at < now.size();) {
      const auto end = std::min(now.find('\n', at), now.size());
      const std::string line = now.substr(at, end - at);
      if (const auto space = line.find(' '); space != std::string::npos) wanted[line.substr(0, space)] = 0;
      at = end + 1;
    }
    for (const IoLimit& one : io) wanted[std::to_string(one.major) + ":" + std::to_string(one.minor)] = one.*member;
    for (const auto& [device, limit] : wanted) BOURSE_TRY(cgroup::write_file(base + file, device + " " + std::to_string(limit)));
  }
  return {};
}

Result<> CgroupV1::limit_devices(const std::string& dir, const SliceLimits& limits) {
  const std::string tree = path("devices");
  if (tree.empty()) return limit_devices_by_bpf(dir, limits);
  if (!limits.devices_limited || hooks::mutant("isolator.all_devices")) return {};
  const std::string base = tree + "/" + dir + "/devices.";
  std::set<std::string> wanted = {"c *:* m", "b *:* m"};
  for (const DeviceRule& rule : limits.devices) wanted.insert(devices::text(rule) + " rwm");
  // Allowed first, the rest taken away after it: a task that runs loses nothing for a moment that it may have.
  std::string now = BOURSE_TRY(cgroup::read_file(base + "list"));
  if (now.compare(0, 1, "a") == 0) {
    BOURSE_TRY(cgroup::write_file(base + "deny", "a"));  // a new group, nobody is in it yet
    now.clear();
  }
  for (const std::string& rule : wanted) BOURSE_TRY(cgroup::write_file(base + "allow", rule));
  for (std::size_t at = 0; at < now.size();) {
    const auto end = std::min(now.find('\n', at), now.size());
    const std::string rule = now.substr(at, end - at);
    if (!rule.empty() && wanted.count(rule) == 0) BOURSE_TRY(cgroup::write_file(base + "deny", rule));
    at = end + 1;
  }
  return {};
}

Result<> CgroupV1::limit_memory(const std::string& dir, const SliceLimits& limits) {
  const Bytes mem = limits.mem;
  if (hooks::mutant("isolator.no_mem_limit")) return {};
  const std::string memory = path("memory");
  if (memory.empty()) return {};
  const std::string base = memory + "/" + dir + "/memory.";
  if (mem.value == 0 && !cgroup::exists(base + "limit_in_bytes")) return {};
  const std::string text = mem.value > 0 ? std::to_string(mem.value) : "-1";
  // What version 1 has of memory.high: reclaimed down to it when the host runs short, never slowed down for it.
  const std::string soft = limits.mem_high.value > 0 ? std::to_string(limits.mem_high.value) : "-1";
  if (limits.mem_high.value > 0) BOURSE_TRY(cgroup::write_file(base + "soft_limit_in_bytes", soft));
  const bool swap = cgroup::exists(base + "memsw.limit_in_bytes");
  auto written = cgroup::write_file(base + "limit_in_bytes", text);
  if (!swap) return written;
  // Memory with swap may never be less than memory: growing has to begin with the other one.
  BOURSE_TRY(cgroup::write_file(base + "memsw.limit_in_bytes", text));
  return written ? std::move(written) : cgroup::write_file(base + "limit_in_bytes", text);
}

Result<> CgroupV1::write_limits(const std::string& dir, const SliceLimits& limits) {
  if (const std::string cpu = path("cpu"); !cpu.empty() && cgroup::exists(cpu + "/" + dir)) {
    const std::int64_t milli = limits.cpus.value;
    const bool quota = milli > 0 && !cpuset_is_the_limit(limits);
    const std::string us = quota ? std::to_string(std::max(kQuotaLeastUs, milli * kPeriodUs / 1000)) : "-1";
    BOURSE_TRY(cgroup::write_file(cpu + "/" + dir + "/cpu.cfs_quota_us", us));
    const std::int64_t shares = milli > 0 ? std::clamp<std::int64_t>(milli * 1024 / 1000, 2, 262'144) : 1024;
    BOURSE_TRY(cgroup::write_file(cpu + "/" + dir + "/cpu.shares", std::to_string(shares)));
  }
  if (const std::string set = path("cpuset"); !set.empty() && cgroup::exists(set + "/" + dir)) {
    for (const auto& [file, list] : {std::pair{"cpuset.cpus", &limits.cpuset}, std::pair{"cpuset.mems", &limits.mems}}) {
      const std::string text = list->empty() ? BOURSE_TRY(cgroup::read_file(set + "/" + file)) : cgroup::list_text(*list);
      BOURSE_TRY(cgroup::write_file(set + "/" + dir + "/" + file, text));
    }
  }
  BOURSE_TRY(limit_memory(dir, limits));
  BOURSE_TRY(limit_io(dir, limits.io));
  BOURSE_TRY(limit_devices(dir, limits));
  if (const std::string pids = path("pids"); !pids.empty() && cgroup::exists(pids + "/" + dir)) {
    BOURSE_TRY(cgroup::write_file(pids + "/" + dir + "/pids.max", limits.pids > 0 ? std::to_string(limits.pids) : "max"));
  }
  return {};
}

Result<> CgroupV1::limit_lent_dir(Bytes mem) {
  if (const std::string cpu = path("cpu"); !cpu.empty()) BOURSE_TRY(cgroup::write_file(cpu + "/" + kLentDir + "/cpu.shares", "2"));
  if (const std::string set = path("cpuset"); !set.empty()) {
    for (const std::string file : {"cpuset.cpus", "cpuset.mems"}) {
      const std::string all = BOURSE_TRY(cgroup::read_file(set + "/" + file));
      BOURSE_TRY(cgroup::write_file(set + "/" + kLentDir + "/" + file, all));
    }
  }
  const std::string memory = path("memory");
  if (memory.empty() || mem.value <= 0 || hooks::mutant("isolator.lent_unlimited")) return {};
  // Version 1 refuses a limit below what is in use and cannot be reclaimed: the agent takes some of it back then.
  (void)cgroup::write_file(memory + "/" + kLentDir + "/memory.soft_limit_in_bytes", std::to_string(mem.value));
  (void)cgroup::write_file(memory + "/" + kLentDir + "/memory.limit_in_bytes", std::to_string(mem.value + mem.value / 8));
  return {};
}

Result<> CgroupV1::write_high(const std::string& dir, Bytes high) {
  const std::string memory = path("memory");
  if (memory.empty()) return {};
  return cgroup::write_file(memory + "/" + dir + "/memory.soft_limit_in_bytes", high.value > 0 ? std::to_string(high.value) : "-1");
}

SliceUse CgroupV1::slice_use(const std::string& dir) {
  SliceUse use;
  if (const std::string unified = path("unified"); !unified.empty()) {
    if (const auto stat = cgroup::read_file(unified + "/" + dir + "/cpu.stat"))
      use.cpu = Duration(std::max<std::int64_t>(0, cgroup::value_of(*stat, "usage_usec")));
  } else if (const std::string acct = path("cpuacct"); !acct.empty()) {
    use.cpu = Duration(std::max<std::int64_t>(0, cgroup::read_number(acct + "/" + dir + "/cpuacct.usage")) / 1000);
  }
  if (const std::string memory = path("memory"); !memory.empty()) {
    const std::int64_t charged = std::max<std::int64_t>(0, cgroup::read_number(memory + "/" + dir + "/memory.usage_in_bytes"));
    const auto stat = cgroup::read_file(memory + "/" + dir + "/memory.stat");
    const std::int64_t idle = stat ? std::max<std::int64_t>(0, cgroup::value_of(*stat, "total_inactive_file")) : 0;
    use.mem = Bytes{std::max<std::int64_t>(0, charged - idle)};
  }
  return use;
}

CgroupBase::Counters CgroupV1::counters(const std::string& dir, Leaf& leaf) {
  Counters out;
  const std::string below = "/" + dir + "/" + leaf.name + "/";
  if (const std::string unified = path("unified"); !unified.empty()) {
    if (const auto stat = cgroup::read_kept(leaf.files[1], unified + below + "cpu.stat")) {
      out.cpu = Duration(std::max<std::int64_t>(0, cgroup::value_of(*stat, "usage_usec")));
    }
  } else if (const std::string acct = path("cpuacct"); !acct.empty()) {
    out.cpu = Duration(std::max<std::int64_t>(0, cgroup::read_number(acct + below + "cpuacct.usage")) / 1000);
  }
  if (const std::string memory = path("memory"); !memory.empty()) {
    const auto peak = cgroup::read_kept(leaf.files[2], memory + below + "memory.max_usage_in_bytes", true);
    out.mem_peak = Bytes{std::max<std::int64_t>(0, peak ? cgroup::to_number(*peak) : 0)};
    if (const auto control = cgroup::read_kept(leaf.files[3], memory + below + "memory.oom_control")) {
      out.ooms = std::max<std::int64_t>(0, cgroup::value_of(*control, "oom_kill"));
    }
  }
  return out;
}

bool CgroupV1::reset(const std::string& dir, Leaf& leaf, Bytes peak) {
  const std::string memory = path("memory");
  if (memory.empty()) return true;
  const std::string below = memory + "/" + dir + "/" + leaf.name + "/memory.";
  const bool kept = leaf.files[2] >= 0 && pwrite(leaf.files[2], "0", 1, 0) == 1;
  if (!kept && !cgroup::write_file(below + "max_usage_in_bytes", "0")) return false;
  // Resetting makes the peak equal to what is charged now: page cache that the last task left, at most its peak.
  if (peak.value <= kResidueMax || cgroup::read_number(below + "usage_in_bytes") <= kResidueMax) return true;
  return cgroup::write_file(below + "force_empty", "0") && cgroup::write_file(below + "max_usage_in_bytes", "0");
}

}  // namespace bourse
