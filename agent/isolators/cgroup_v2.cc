#include "agent/isolators/cgroup_v2.h"

#include <algorithm>

#include "agent/isolators/cgroup_files.h"
#include "common/core/hooks.h"

namespace bourse {

namespace {

constexpr std::int64_t kPeriodUs = 100'000;
constexpr std::int64_t kQuotaLeastUs = 1'000;

bool has_word(const std::string& text, const std::string& word) {
  return (" " + text + " ").find(" " + word + " ") != std::string::npos || text == word;
}

}  // namespace

Result<std::unique_ptr<Isolator>> CgroupV2::make(const std::string& mount, const std::string& root) {
  auto isolator = std::unique_ptr<CgroupV2>(new CgroupV2);
  std::string offered = BOURSE_TRY(cgroup::read_file(mount + "/cgroup.controllers"));
  std::replace(offered.begin(), offered.end(), '\n', ' ');
  const std::string top = mount + "/" + root;
  BOURSE_TRY(cgroup::make_dir(top));
  const std::pair<std::string, std::string> wanted[] = {
      {"memory", "memory is not limited and peaks are not known"},
      {"cpu", "CPU time is not limited"},
      {"cpuset", "tasks are not bound to cores"},
      {"pids", "the number of processes is not limited"},
  };
  for (const auto& [controller, lost] : wanted) {
    if (!has_word(offered, controller)) {
      isolator->degraded_.push_back("the " + controller + " cgroup controller is not offered by " + mount + ": " + lost);
      continue;
    }
    auto given = cgroup::write_file(mount + "/cgroup.subtree_control", "+" + controller);
    if (given) given = cgroup::write_file(top + "/cgroup.subtree_control", "+" + controller);
    if (!given) {
      isolator->degraded_.push_back(given.error().text() + ": " + lost);
      continue;
    }
    isolator->controllers_.push_back(controller);
  }
  if (isolator->controllers_.empty()) return Error(Code::kUnsupported, "cgroup v2 at " + mount + " offers no controller");
  isolator->trees_.push_back({top, "unified", true, true});
  return std::unique_ptr<Isolator>(std::move(isolator));
}

bool CgroupV2::has(std::string_view controller) const {
  return std::find(controllers_.begin(), controllers_.end(), controller) != controllers_.end();
}

Result<> CgroupV2::write_limits(const std::string& dir, const SliceLimits& limits) {
  const std::string path = trees_.front().path + "/" + dir + "/";
  const std::int64_t milli = limits.cpus.value;
  if (has("cpu")) {
    // A cpuset of exactly the cores that are paid for is a limit already.
    const bool quota = milli > 0 && static_cast<std::int64_t>(limits.cpuset.size()) * 1000 != milli;
    const std::string us = quota ? std::to_string(std::max(kQuotaLeastUs, milli * kPeriodUs / 1000)) : "max";
    BOURSE_TRY(cgroup::write_file(path + "cpu.max", us + " " + std::to_string(kPeriodUs)));
    const std::int64_t weight = milli > 0 ? std::clamp<std::int64_t>(milli / 10, 1, 10'000) : 100;
    BOURSE_TRY(cgroup::write_file(path + "cpu.weight", std::to_string(weight)));
  }
  if (has("cpuset")) {  // empty: the parent's
    BOURSE_TRY(cgroup::write_file(path + "cpuset.cpus", cgroup::list_text(limits.cpuset) + "\n"));
    BOURSE_TRY(cgroup::write_file(path + "cpuset.mems", cgroup::list_text(limits.mems) + "\n"));
  }
  if (has("memory") && !hooks::mutant("isolator.no_mem_limit")) {
    BOURSE_TRY(cgroup::write_file(path + "memory.max", limits.mem.value > 0 ? std::to_string(limits.mem.value) : "max"));
  }
  if (has("pids")) { BOURSE_TRY(cgroup::write_file(path + "pids.max", limits.pids > 0 ? std::to_string(limits.pids) : "max")); }
  // Of the controllers only memory has something to say about a single task.
  if (has("memory")) BOURSE_TRY(cgroup::write_file(path + "cgroup.subtree_control", "+memory"));
  return {};
}

Result<> CgroupV2::leaf_made(const std::string& dir, const std::string& leaf) {
  if (!has("memory")) return {};
  // A task that lost one process to the OOM killer is lost as a whole.
  return cgroup::write_file(trees_.front().path + "/" + dir + "/" + leaf + "/memory.oom.group", "1");
}

CgroupBase::Counters CgroupV2::counters(const std::string& dir, Leaf& leaf) {
  Counters out;
  const std::string path = trees_.front().path + "/" + dir + "/" + leaf.name + "/";
  if (const auto stat = cgroup::read_kept(leaf.files[1], path + "cpu.stat")) {
    out.cpu = Duration(std::max<std::int64_t>(0, cgroup::value_of(*stat, "usage_usec")));
  }
  out.mem_peak = Bytes{std::max<std::int64_t>(0, cgroup::read_number(path + "memory.peak"))};
  if (const auto events = cgroup::read_kept(leaf.files[3], path + "memory.events")) {
    out.ooms = std::max<std::int64_t>(0, cgroup::value_of(*events, "oom_kill"));
  }
  return out;
}

// memory.peak starts anew only for the descriptor it was written through (since Linux 6.12), which a restarted launcher
// has lost. So a leaf with a peak serves one task.
bool CgroupV2::reset(const std::string& dir, Leaf& leaf, Bytes) {
  return !cgroup::exists(trees_.front().path + "/" + dir + "/" + leaf.name + "/memory.peak");
}

}  // namespace bourse
