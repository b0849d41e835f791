// cgroup v1, one tree a controller: cpu (quota, shares), cpuset and pids for the slice; memory for slice (limit) and leaf
// (peak, OOM kills). Who is in a leaf, and killing it, comes from the v2 tree of a hybrid host (cgroup.kill, CPU time without
// a controller), else from freezer and cpuacct.
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
  Result<> leaf_made(const std::string&, const std::string&) override { return {}; }
  Counters counters(const std::string& dir, Leaf& leaf) override;
  bool reset(const std::string& dir, Leaf& leaf, Bytes peak) override;
  [[nodiscard]] std::string path(std::string_view controller) const;  // "" where there is none
  Result<> limit_memory(const std::string& dir, Bytes mem);
};

}  // namespace bourse
