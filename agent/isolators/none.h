// Where nothing can be isolated (not root, or cgroups cannot be written): tasks run with process group, session and a marker
// in their environment, by which they are found and killed. No limits. Says so, for each thing that is missing.
#pragma once

#include <map>
#include <utility>

#include "agent/isolators/isolator.h"

namespace bourse {

class NoIsolation final : public Isolator {
 public:
  explicit NoIsolation(std::string root, std::vector<std::string> why);
  [[nodiscard]] std::string_view name() const override { return "none"; }
  [[nodiscard]] std::vector<std::string> degraded() const override { return degraded_; }
  Result<> prepare(const std::string& slice, const SliceLimits& limits) override;
  Result<> limit(const std::string& slice, const SliceLimits& limits) override;
  Result<Entry> attach(const std::string& slice, const std::string& task) override;
  Result<Usage> usage(const std::string& slice, const std::string& task) override;
  Result<> kill(const std::string& slice, const std::string& task) override;
  Result<> signal(const std::string& slice, const std::string& task, int signal) override;
  Result<> renew(const std::string&) override { return {}; }
  Result<> detach(const std::string& slice, const std::string& task) override;
  Result<> release(const std::string& slice) override;
  [[nodiscard]] std::string leaf(const std::string& slice, const std::string& task) const override;
  Result<> adopt(const std::string& slice, const std::string& task, const std::string& leaf) override;
  void started(const std::string& slice, const std::string& task, int pid) override;
  [[nodiscard]] std::string marker(const std::string& slice, const std::string& task) const override;
  Result<> recover(const std::vector<std::string>& known) override;
  Result<> remove_root() override { return {}; }

 private:
  struct Task {
    int pid = 0;
    std::uint64_t number = 0;  // stands for a leaf: no two tasks of a launcher's life have one in common
  };
  [[nodiscard]] std::vector<int> processes(const std::string& marker, int session) const;
  [[nodiscard]] std::string slice_marker(const std::string& slice) const;
  std::string root_;
  std::vector<std::string> degraded_;
  std::map<std::string, std::map<std::string, Task>> slices_;
  std::uint64_t next_ = 0;
};

}  // namespace bourse
