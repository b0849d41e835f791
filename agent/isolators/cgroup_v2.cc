#include "agent/isolators/cgroup_v2.h"

#include <algorithm>
#include <map>

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

Result<std::unique_ptr<Isolator>> CgroupV2::make(const std::string& mount, const std::string& root, const std::string& nodes) {
  auto isolator = std::unique_ptr<CgroupV2>(new CgroupV2(nodes));
  std::string offered = BOURSE_TRY(cgroup::read_file(mount + "/cgroup.controllers"));
  std::replace(offered.begin(), offered.end(), '\n', ' ');
  const std::string top = mount + "/" + root;
  BOURSE_TRY(cgroup::make_dir(top));
  const std::pair<std::string, std::string> wanted[] = {
      {"memory", "memory is not limited and peaks are not known"},
      {"cpu", "CPU time is not limited"},
      {"cpuset", "tasks are not bound to cores"},
      {"pids", "the number of processes is not limited"},
      {"io", ""},  // not missed before limits for disks are asked for, and refused then
  };
  for (const auto& [controller, lost] : wanted) {
    if (!has_word(offered, controller)) {
      if (lost.empty()) continue;
      isolator->degraded_.push_back("the " + controller + " cgroup controller is not offered by " + mount + ": " + lost);
      continue;
    }
    auto given = cgroup::write_file(mount + "/cgroup.subtree_control", "+" + controller);
    if (given) given = cgroup::write_file(top + "/cgroup.subtree_control", "+" + controller);
    if (!given) {
      if (lost.empty()) continue;
      isolator->degraded_.push_back(given.error().text() + ": " + lost);
      continue;
    }
    isolator->controllers_.push_back(controller);
  }
  if (isolator->controllers_.empty()) return Error(Code::kUnsupported, "cgroup v2 at " + mount + " offers no controller");
  if (!devices::bpf_works())
    isolator->degraded_.emplace_back("the kernel takes no device programs (eBPF): tasks may open all devices");
  isolator->trees_.push_back({top, "unified", true, true});
  isolator->find_lent();
  return std::unique_ptr<Isolator>(std::move(isolator));
}

bool CgroupV2::has(std::string_view controller) const {
  return std::find(controllers_.begin(), controllers_.end(), controller) != controllers_.end();
}

std::vector<std::uint32_t> CgroupV2::all_cores() const {
  if (!has("cpuset")) return {};
  const auto text = cgroup::read_file(trees_.front().path + "/cpuset.cpus.effective");
  return text ? cgroup::parse_list(*text) : std::vector<std::uint32_t>{};
}

Result<> CgroupV2::limit_io(const std::string& path, const std::vector<IoLimit>& io) {
  if (!has("io"))
    return io.empty() ? Result<>() : Error(Code::kUnsupported, "disk limits are asked for, but there is no io controller");
  const auto value = [](const char* name, std::uint64_t n) {
    return std::string(" ") + name + "=" + (n == 0 ? "max" : std::to_string(n));
  };
  std::map<std::string, std::string> wanted;
  const auto now = cgroup::read_file(path + "io.max");  // lists what is limited: what is not asked for any more becomes free
  for (std::size_t at = 0; now && at < now->size();) {
    const auto end = std::min(now->find('\n', at), now->size());
    const std::string line = now->substr(at, end - at);
    if (const auto space = line.find(' '); space != std::string::npos)
      wanted[line.substr(0, space)] = " rbps=max wbps=max riops=max wiops=max";
    at = end + 1;
  }
  for (const IoLimit& one : io) {
    wanted[std::to_string(one.major) + ":" + std::to_string(one.minor)] =
        value("rbps", one.read_bytes) + value("wbps", one.write_bytes) + value("riops", one.reads) + value("wiops", one.writes);
  }
  for (const auto& [device, limits] : wanted) BOURSE_TRY(cgroup::write_file(path + "io.max", device + limits));
  return {};
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
    // Linux (6.1) moves the memory of a group that leaves a node only from where the group has been told to be; who was cloned into
    // it does not count. So it is told, while nobody is in it.
    if (const auto nodes = nodes_.with_memory(); limits.revocable && nodes.size() > 1) {
      const auto events = cgroup::read_file(path + "cgroup.events");
      if (events && cgroup::value_of(*events, "populated") == 0)
        (void)cgroup::write_file(path + "cpuset.mems", std::to_string(nodes.back()) + "\n");
    }
    BOURSE_TRY(cgroup::write_file(path + "cpuset.mems", cgroup::list_text(limits.mems) + "\n"));
  }
  if (has("memory") && !hooks::mutant("isolator.no_mem_limit")) {
    BOURSE_TRY(cgroup::write_file(path + "memory.max", limits.mem.value > 0 ? std::to_string(limits.mem.value) : "max"));
    // Memory is what was paid for: a slice that is full must not go on in the host's swap.
    if (cgroup::exists(path + "memory.swap.max"))
      BOURSE_TRY(cgroup::write_file(path + "memory.swap.max", limits.mem.value > 0 ? "0" : "max"));
    if (cgroup::exists(path + "memory.high"))
      BOURSE_TRY(
          cgroup::write_file(path + "memory.high", limits.mem_high.value > 0 ? std::to_string(limits.mem_high.value) : "max"));
  }
  BOURSE_TRY(limit_io(path, limits.io));
  BOURSE_TRY(limit_devices_by_bpf(dir, limits));
  if (has("pids")) { BOURSE_TRY(cgroup::write_file(path + "pids.max", limits.pids > 0 ? std::to_string(limits.pids) : "max")); }
  // Of the controllers only memory has something to say about a single task.
  if (has("memory")) BOURSE_TRY(cgroup::write_file(path + "cgroup.subtree_control", "+memory"));
  return {};
}

// Behind everybody in cpu time, and together never more memory than is lent. Slowed down from there on, ended (by the kernel, the
// highest oom_score_adj first) only a little beyond: by then the agent has chosen one to go.
Result<> CgroupV2::limit_lent_dir(Bytes mem) {
  const std::string path = trees_.front().path + "/" + kLentDir + "/";
  for (const auto& controller : controllers_) BOURSE_TRY(cgroup::write_file(path + "cgroup.subtree_control", "+" + controller));
  if (has("cpu")) {
    // A group that is idle has no weight any more: writing one is refused.
    const bool idle = cgroup::exists(path + "cpu.idle") && cgroup::write_file(path + "cpu.idle", "1");
    if (!idle) BOURSE_TRY(cgroup::write_file(path + "cpu.weight", "1"));
  }
  // Tried again the next time where it cannot be written, as when a node has just gone.
  if (const std::string mems = cgroup::list_text(nodes_.roomy()) + "\n"; has("cpuset") && mems != lent_mems_ &&
                                                                         !hooks::mutant("isolator.lent_stays") &&
                                                                         cgroup::write_file(path + "cpuset.mems", mems))
    lent_mems_ = mems;
  if (!has("memory") || mem.value <= 0 || hooks::mutant("isolator.lent_unlimited")) return {};
  if (cgroup::exists(path + "memory.swap.max")) BOURSE_TRY(cgroup::write_file(path + "memory.swap.max", "0"));
  BOURSE_TRY(cgroup::write_file(path + "memory.high", std::to_string(mem.value)));
  // Lowered below what is in use it would have the kernel choose at once. Slowed down they press, and the agent chooses.
  const std::int64_t most = mem.value + mem.value / 8;
  if (cgroup::read_number(path + "memory.current") > most && cgroup::read_number(path + "memory.max") > 0) return {};
  return cgroup::write_file(path + "memory.max", std::to_string(most));
}

Result<> CgroupV2::write_high(const std::string& dir, Bytes high) {
  if (!has("memory")) return {};
  return cgroup::write_file(trees_.front().path + "/" + dir + "/memory.high", high.value > 0 ? std::to_string(high.value) : "max");
}

SliceUse CgroupV2::slice_use(const std::string& dir) {
  SliceUse use;
  const std::string path = trees_.front().path + "/" + dir + "/";
  if (const auto stat = cgroup::read_file(path + "cpu.stat"))
    use.cpu = Duration(std::max<std::int64_t>(0, cgroup::value_of(*stat, "usage_usec")));
  const std::int64_t charged = std::max<std::int64_t>(0, cgroup::read_number(path + "memory.current"));
  const auto stat = cgroup::read_file(path + "memory.stat");
  const std::int64_t idle = stat ? std::max<std::int64_t>(0, cgroup::value_of(*stat, "inactive_file")) : 0;
  use.mem = Bytes{std::max<std::int64_t>(0, charged - idle)};
  return use;
}

// A guarantee holds only as far as every group above and below gives one. All of them are best effort: what cannot be written is
// less protection, no error.
void CgroupV2::guard(const std::string& dir, const SliceLimits& limits, const std::vector<std::string>& leaves) {
  if (!has("memory") || limits.mem.value <= 0) return;
  guarded_ += limits.mem.value;
  const std::string top = trees_.front().path, bytes = std::to_string(limits.mem.value);
  (void)cgroup::write_file(top + "/memory.min", std::to_string(guarded_));
  (void)cgroup::write_file(top + "/" + dir + "/memory.min", bytes);
  for (const auto& leaf : leaves) (void)cgroup::write_file(top + "/" + dir + "/" + leaf + "/memory.min", bytes);
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
