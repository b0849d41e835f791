// cgroup v1, one tree a controller: cpu (quota, shares), cpuset, pids and blkio for the slice; memory for slice (limit) and leaf
// (peak, OOM kills). Who is in a leaf, and killing it, comes from the v2 tree of a hybrid host (cgroup.kill, CPU time without
// a controller), else from freezer and cpuacct. So do the device rules, else the devices controller has them.
#pragma once

#include "agent/isolators/cgroup_base.h"
#include "agent/isolators/cgroup_files.h"

namespace bourse {

class CgroupV1 final : public CgroupBase {
 public:
  // kUnsupported where not even the memory controller and a way to kill are to be had.
  static Result<std::unique_ptr<Isolator>> make(const cgroup::Mounts& mounts, const std::string& root);
  [[nodiscard]] std::string_view name() const override { return "cgroup-v1"; }

 private:
  CgroupV1() = default;
  Result<> write_limits(const std::string& dir, const SliceLimits& limits) override;
  [[nodiscard]] bool uses(const Tree& tree, const SliceLimits& limits) const override;
  Result<> limit_lent_dir(Bytes mem) override;
  Result<> write_high(const std::string& dir, Bytes high) override;
  SliceUse slice_use(const std::string& dir) override;
  Result<> leaf_made(const std::string&, const std::string&) override { return {}; }
  Counters counters(const std::string& dir, Leaf& leaf) override;
  bool reset(const std::string& dir, Leaf& leaf, Bytes peak) override;
  [[nodiscard]] std::string path(std::string_view controller) const;  // "" where there is none
  [[nodiscard]] std::vector<std::uint32_t> all_cores() const override;
  Result<> limit_memory(const std::string& dir, const SliceLimits& limits);
  Result<> limit_io(const std::string& dir, const std::vector<IoLimit>& io);
  Result<> limit_devices(const std::string& dir, const SliceLimits& limits);

  std::string cores_file_;  // what our sub-tree may have
};

}  // namespace bourse
