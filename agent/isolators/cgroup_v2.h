// cgroup v2, one tree: cpu.max, cpu.weight, cpuset, memory.high and .max, pids.max, io.max and devices on the slice; memory.peak, memory.events and
// cgroup.kill on the leaf, which a task enters by clone3. Processes sit in leaves only, so controllers can be delegated down
// to them ("no internal processes").
#pragma once

#include "agent/isolators/cgroup_base.h"
#include "agent/isolators/lent_nodes.h"

namespace bourse {

class CgroupV2 final : public CgroupBase {
 public:
  // `mount` is where the tree is mounted, `nodes` where the kernel shows its NUMA nodes (a test gives directories of its own).
  // kUnsupported: no controller to be had.
  static Result<std::unique_ptr<Isolator>> make(const std::string& mount, const std::string& root,
                                                const std::string& nodes = "/sys/devices/system/node");
  [[nodiscard]] std::string_view name() const override { return "cgroup-v2"; }

 private:
  explicit CgroupV2(const std::string& nodes) : nodes_(nodes) {}
  Result<> write_limits(const std::string& dir, const SliceLimits& limits) override;
  [[nodiscard]] bool uses(const Tree&, const SliceLimits&) const override { return true; }
  Result<> limit_lent_dir(Bytes mem) override;
  Result<> write_high(const std::string& dir, Bytes high) override;
  SliceUse slice_use(const std::string& dir) override;
  void guard(const std::string& dir, const SliceLimits& limits, const std::vector<std::string>& leaves) override;
  Result<> leaf_made(const std::string& dir, const std::string& leaf) override;
  Counters counters(const std::string& dir, Leaf& leaf) override;
  bool reset(const std::string& dir, Leaf& leaf, Bytes peak) override;
  [[nodiscard]] std::vector<std::uint32_t> all_cores() const override;
  Result<> limit_io(const std::string& path, const std::vector<IoLimit>& io);
  [[nodiscard]] bool has(std::string_view controller) const;

  LentNodes nodes_;
  std::string lent_mems_ = "\n";  // as last written
  std::vector<std::string> controllers_;
  std::int64_t guarded_ = 0;  // bytes of all slices that are kept from reclaim
};

}  // namespace bourse
