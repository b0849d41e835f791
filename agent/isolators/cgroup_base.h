// What cgroup v1 and v2 have in common: a slice is a directory with the limits, a task has a leaf of its own under it, in one
// or several trees (v1: one tree a controller). Leaves are kept when a task ends and used again.
//
// Slices live in TREE/ROOT/NAME (revocable ones in TREE/ROOT/lent/NAME), leaves in TREE/ROOT/NAME/tN. Nothing outside TREE/ROOT is touched, but that the controllers
// of a v2 parent are enabled for us. Owned by the launcher, one thread. See "Slice and task cgroups".
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/isolators/isolator.h"

namespace bourse {

constexpr const char* kLentDir = "lent";      // above revocable slices: no slice has that name
constexpr std::size_t kPooledLeavesMax = 64;  // empty leaves kept in one slice
constexpr std::size_t kOpenLeavesMax = 32;    // leaves whose files stay open: every fork copies the table of descriptors

class CgroupBase : public Isolator {
 public:
  ~CgroupBase() override;
  CgroupBase(const CgroupBase&) = delete;
  CgroupBase& operator=(const CgroupBase&) = delete;

  [[nodiscard]] std::vector<std::string> degraded() const override { return degraded_; }
  Result<> prepare(const std::string& slice, const SliceLimits& limits) override;
  Result<> limit(const std::string& slice, const SliceLimits& limits) override;
  Result<Entry> attach(const std::string& slice, const std::string& task) override;
  Result<Usage> usage(const std::string& slice, const std::string& task) override;
  Result<> kill(const std::string& slice, const std::string& task) override;
  Result<> signal(const std::string& slice, const std::string& task, int signal) override;
  Result<> renew(const std::string& slice) override;
  Result<> detach(const std::string& slice, const std::string& task) override;
  Result<> release(const std::string& slice) override;
  [[nodiscard]] std::string leaf(const std::string& slice, const std::string& task) const override;
  Result<> adopt(const std::string& slice, const std::string& task, const std::string& leaf) override;
  void started(const std::string& slice, const std::string& task, int pid) override;
  [[nodiscard]] std::string marker(const std::string&, const std::string&) const override { return {}; }
  Result<> recover(const std::vector<std::string>& known) override;
  Result<SliceUse> measure(const std::string& slice) override;
  Result<> limit_lent(Bytes mem) override;
  Result<> squeeze(const std::string& slice, Bytes high) override;
  Result<> remove_root() override;

 protected:
  struct Tree {
    std::string path;         // MOUNT/ROOT
    std::string controller;   // "cpu", "memory", "unified", ...
    bool per_leaf = false;    // each task has a directory of its own in it; else it sits in the slice's
    bool clone_into = false;  // entered by clone3; else by writing to `tasks`
  };
  struct Counters {
    Duration cpu{0};
    Bytes mem_peak;
    std::int64_t ooms = 0;
  };
  struct Leaf {
    std::string name;
    std::vector<int> fds;                      // by tree: what a child enters it by
    std::array<int, 4> files{-1, -1, -1, -1};  // kept open: the first says whether it is empty, the others are counters()'s
    Duration cpu_base{0};                      // what its counter said when it was handed out
    Counters last;                             // as usage() saw them
    bool open = false;                         // counted in open_leaves_
    bool seen = false;                         // and nothing has run in it since
    // cgroup.kill was used on it. Linux (6.14 on) compares the group's count of kills with that of the parent's group when a
    // child is cloned into it, finds them different, and kills the child at once: such a leaf is not used again.
    bool spent = false;
  };
  struct Slice {
    std::vector<int> fds;  // by tree; -1 where the tree is per_leaf, or not used by this slice
    std::map<std::string, Leaf> tasks;
    std::vector<Leaf> pool;
    std::uint64_t next_leaf = 0;
    SliceLimits limits;     // as they were asked for
    bool prepared = false;  // `limits` are known: not only found on the host
    bool floats = false;    // its cpuset is what the others leave
    bool guarded = false;   // it was critical once: its memory is not reclaimed
  };

  CgroupBase() = default;
  // Writes the limits into the trees that uses() names: those that are not per leaf and have something to limit.
  virtual Result<> write_limits(const std::string& slice_dir_name, const SliceLimits& limits) = 0;
  [[nodiscard]] virtual bool uses(const Tree& tree, const SliceLimits& limits) const = 0;
  // kLentDir has just been made in the trees (or was there): its own limits, `mem` of memory (0: not known yet). Idempotent.
  virtual Result<> limit_lent_dir(Bytes mem) = 0;
  virtual Result<> write_high(const std::string& slice_dir_name, Bytes high) = 0;                 // 0: none
  virtual SliceUse slice_use(const std::string& slice_dir_name) = 0;                              // but for `critical`
  virtual void guard(const std::string&, const SliceLimits&, const std::vector<std::string>&) {}  // from reclaim; with its leaves
  virtual Result<> leaf_made(const std::string& slice_dir_name, const std::string& leaf) = 0;
  virtual Counters counters(const std::string& slice_dir_name, Leaf& leaf) = 0;
  // Makes peaks start anew. False: this leaf cannot, so it is removed and another made.
  virtual bool reset(const std::string& slice_dir_name, Leaf& leaf, Bytes peak) = 0;

  // PUs that slices may have at all; empty: not to be bound.
  [[nodiscard]] virtual std::vector<std::uint32_t> all_cores() const = 0;
  // Attaches the device rules to the slice's group in the v2 tree; nothing where there is none.
  Result<> limit_devices_by_bpf(const std::string& slice_dir_name, const SliceLimits& limits);

  // Which slices are lent, from an earlier launcher: before anything else is asked of them. At the end of make().
  void find_lent();

  std::vector<Tree> trees_;
  std::vector<std::string> degraded_;

 private:
  [[nodiscard]] const Tree& first_tree() const;
  Result<> apply(const std::string& slice_dir, const SliceLimits& limits);
  [[nodiscard]] SliceLimits bound(Slice& slice) const;
  void count_own(const std::vector<std::uint32_t>& cores, int more);
  Result<> move_shared(const std::string& but);
  static std::string flat_name(std::string slice);
  [[nodiscard]] std::string dir_name(const std::string& slice) const;
  Result<> release_dir(const std::string& dir);
  Result<Leaf> make_leaf(const std::string& slice_dir, Slice& slice);
  Result<> open_leaf(const std::string& slice_dir, Leaf& leaf);
  void close_leaf(Leaf& leaf);
  void close_slice(Slice& slice);
  void remove_leaf(const std::string& slice_dir, Leaf leaf);
  bool leaf_empty(const std::string& slice_dir, Leaf& leaf);
  bool kill_leaf(const std::string& slice_dir, const std::string& leaf);  // true: empty now
  [[nodiscard]] std::set<std::string> slices_on_host() const;
  Result<Leaf*> find(const std::string& slice, const std::string& task);

  std::map<std::string, Slice> slices_;
  std::set<std::string> lent_;  // names of those in kLentDir
  Bytes lent_mem_{};
  std::map<std::uint32_t, int> own_;  // PUs that slices have for their own, and how many say so
  std::size_t open_leaves_ = 0;
};

}  // namespace bourse
