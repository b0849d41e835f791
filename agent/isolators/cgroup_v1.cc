#include "agent/isolators/cgroup_v1.h"

#include <unistd.h>

#include <algorithm>

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
  add("pids", false, "the number of processes is not limited");
  if (!memory && !can_kill) return Error(Code::kUnsupported, "cgroup v1 is mounted but neither memory nor freezer can be written");
  if (!memory && trees.front().controller != "unified" && trees.front().controller != "freezer") {
    return Error(Code::kUnsupported, "cgroup v1: no controller that could hold a task's processes together");
  }
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
  return true;
}

Result<> CgroupV1::limit_memory(const std::string& dir, Bytes mem) {
  if (hooks::mutant("isolator.no_mem_limit")) return {};
  const std::string memory = path("memory");
  if (memory.empty()) return {};
  const std::string base = memory + "/" + dir + "/memory.";
  if (mem.value == 0 && !cgroup::exists(base + "limit_in_bytes")) return {};
  const std::string text = mem.value > 0 ? std::to_string(mem.value) : "-1";
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
  BOURSE_TRY(limit_memory(dir, limits.mem));
  if (const std::string pids = path("pids"); !pids.empty() && cgroup::exists(pids + "/" + dir)) {
    BOURSE_TRY(cgroup::write_file(pids + "/" + dir + "/pids.max", limits.pids > 0 ? std::to_string(limits.pids) : "max"));
  }
  return {};
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
