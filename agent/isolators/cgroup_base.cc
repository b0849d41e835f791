#include "agent/isolators/cgroup_base.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "agent/isolators/cgroup_files.h"
#include "common/core/hooks.h"

namespace bourse {

namespace {

Error no_slice(const std::string& slice) { return {Code::kNotFound, "slice " + slice + " is not prepared on this host"}; }

std::uint64_t leaf_number(const std::string& name) {
  std::uint64_t n = 0;
  if (name.size() > 1) std::from_chars(name.data() + 1, name.data() + name.size(), n);
  return n;
}

}  // namespace

CgroupBase::~CgroupBase() {
  for (auto& [name, slice] : slices_) close_slice(slice);
}

// '/' may be in a framework's name; ',' may not.
std::string CgroupBase::flat_name(std::string slice) {
  std::replace(slice.begin(), slice.end(), '/', ',');
  return slice;
}

std::string CgroupBase::dir_name(const std::string& slice) const {
  std::string out = flat_name(slice);
  return lent_.count(out) == 0 ? out : std::string(kLentDir) + "/" + out;
}

// All trees of a leaf are entered together, so one tells who is in it: the first, which is the best one to kill in.
const CgroupBase::Tree& CgroupBase::first_tree() const {
  return *std::find_if(trees_.begin(), trees_.end(), [](const Tree& tree) { return tree.per_leaf; });
}

void CgroupBase::close_leaf(Leaf& leaf) {
  const auto shut = [](int& fd) {
    if (fd >= 0) close(fd);
    fd = -1;
  };
  for (int& fd : leaf.fds) shut(fd);
  for (int& fd : leaf.files) shut(fd);
  if (leaf.open) open_leaves_--;
  leaf.open = false;
}

bool CgroupBase::leaf_empty(const std::string& slice_dir, Leaf& leaf) {
  const std::string path = first_tree().path + "/" + slice_dir + "/" + leaf.name;
  if (!leaf.open) return cgroup::is_empty(path);
  const auto events = cgroup::read_kept(leaf.files[0], path + "/cgroup.events");
  return events ? cgroup::value_of(*events, "populated") == 0 : cgroup::is_empty(path);
}

void CgroupBase::close_slice(Slice& slice) {
  for (int& fd : slice.fds) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
  for (auto& [task, leaf] : slice.tasks) close_leaf(leaf);
  for (auto& leaf : slice.pool) close_leaf(leaf);
}

Result<> CgroupBase::prepare(const std::string& slice, const SliceLimits& limits) {
  if (limits.revocable) lent_.insert(flat_name(slice));
  const std::string dir = dir_name(slice);
  if (limits.revocable) {
    for (const auto& tree : trees_) BOURSE_TRY(cgroup::make_dir(tree.path + "/" + kLentDir));
    BOURSE_TRY(limit_lent_dir(lent_mem_));
  }
  for (const auto& tree : trees_) {
    if (tree.per_leaf || uses(tree, limits)) BOURSE_TRY(cgroup::make_dir(tree.path + "/" + dir));
    hooks::crash_point("isolator.half_made");
  }
  BOURSE_TRY(limit(slice, limits));
  hooks::crash_point("isolator.made_no_leaf");
  Slice& s = slices_[dir];
  if (s.pool.empty() && s.tasks.empty()) s.pool.push_back(BOURSE_TRY(make_leaf(dir, s)));
  return {};
}

// Cores of one slice are not its own as long as slices without cores of their own may run on them: those get what is nobody's.
// Where nothing is left (the host lost cores) they run everywhere.
SliceLimits CgroupBase::bound(Slice& slice) const {
  SliceLimits limits = slice.limits;
  if (limits.revocable) return limits;  // where its lenders are idle: anywhere, behind everybody
  if (!limits.cpuset.empty()) {
    slice.floats = false;
    return limits;
  }
  if ((own_.empty() && !slice.floats) || hooks::mutant("isolator.shared_anywhere")) return limits;
  const auto all = all_cores();
  std::copy_if(all.begin(), all.end(), std::back_inserter(limits.cpuset),
               [&](std::uint32_t core) { return own_.count(core) == 0; });
  if (limits.cpuset.empty()) limits.cpuset = all;
  slice.floats = true;  // and stays so: who has been bound once is not unbound, only given more
  return limits;
}

void CgroupBase::count_own(const std::vector<std::uint32_t>& cores, int more) {
  for (const std::uint32_t core : cores) {
    if ((own_[core] += more) <= 0) own_.erase(core);
  }
}

Result<> CgroupBase::move_shared(const std::string& but) {
  Result<> result;
  for (auto& [dir, s] : slices_) {
    if (!s.prepared || !s.limits.cpuset.empty() || s.limits.revocable || dir == but) continue;
    auto applied = apply(dir, bound(s));
    if (!applied) result = std::move(applied);
  }
  return result;
}

Result<> CgroupBase::limit(const std::string& slice, const SliceLimits& limits) {
  const std::string dir = dir_name(slice);
  Slice& s = slices_[dir];
  const bool moves = s.limits.cpuset != limits.cpuset;
  if (moves) {
    count_own(s.limits.cpuset, -1);
    count_own(limits.cpuset, 1);
  }
  s.limits = limits;
  s.prepared = true;
  if (moves) BOURSE_TRY(move_shared(dir));
  return apply(dir, bound(s));
}

Result<> CgroupBase::apply(const std::string& dir, const SliceLimits& limits) {
  Slice& s = slices_[dir];
  s.fds.resize(trees_.size(), -1);
  for (const auto& tree : trees_) {
    if (tree.per_leaf || uses(tree, limits)) BOURSE_TRY(cgroup::make_dir(tree.path + "/" + dir));
  }
  BOURSE_TRY(write_limits(dir, limits));
  for (std::size_t i = 0; i < trees_.size(); ++i) {
    const auto& tree = trees_[i];
    if (tree.per_leaf || s.fds[i] >= 0 || !uses(tree, limits)) continue;
    const std::string path = tree.path + "/" + dir;
    s.fds[i] = open((path + "/tasks").c_str(), O_WRONLY | O_CLOEXEC);
    if (s.fds[i] < 0) return errno_error("open " + path + "/tasks");
    // A limit that comes while tasks run has to take them in.
    for (const auto& [task, leaf] : s.tasks) {
      for (const auto pid : cgroup::members(first_tree().path + "/" + dir + "/" + leaf.name)) {
        (void)cgroup::write_file(path + "/cgroup.procs", std::to_string(pid));  // it may have ended meanwhile
      }
    }
  }
  return {};
}

Result<> CgroupBase::renew(const std::string& slice) {
  const std::string dir = dir_name(slice);
  const auto it = slices_.find(dir);
  if (it == slices_.end() || !it->second.prepared) return no_slice(slice);
  Slice& s = it->second;
  for (auto& leaf : s.pool) remove_leaf(dir, std::move(leaf));
  s.pool.clear();
  for (int& fd : s.fds) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
  const SliceLimits limits = s.limits;
  return prepare(slice, limits);
}

Result<> CgroupBase::limit_devices_by_bpf(const std::string& dir, const SliceLimits& limits) {
  const auto unified = std::find_if(trees_.begin(), trees_.end(), [](const Tree& tree) { return tree.controller == "unified"; });
  if (!limits.devices_limited || unified == trees_.end() || !devices::bpf_works()) return {};
  return devices::bpf_limit(unified->path + "/" + dir, limits.devices);
}

Result<> CgroupBase::open_leaf(const std::string& slice_dir, Leaf& leaf) {
  leaf.fds.resize(trees_.size(), -1);
  for (std::size_t i = 0; i < trees_.size(); ++i) {
    const auto& tree = trees_[i];
    if (!tree.per_leaf || leaf.fds[i] >= 0) continue;
    const std::string path = tree.path + "/" + slice_dir + "/" + leaf.name;
    leaf.fds[i] = tree.clone_into ? open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                  : open((path + "/tasks").c_str(), O_WRONLY | O_CLOEXEC);
    if (leaf.fds[i] >= 0) {
      if (!leaf.open) open_leaves_++;
      leaf.open = true;
      continue;
    }
    Error error = errno_error("open " + path);
    close_leaf(leaf);
    return error;
  }
  return {};
}

Result<CgroupBase::Leaf> CgroupBase::make_leaf(const std::string& slice_dir, Slice& slice) {
  Leaf leaf;
  leaf.name = "t" + std::to_string(slice.next_leaf);
  for (const auto& tree : trees_) {
    if (tree.per_leaf) BOURSE_TRY(cgroup::make_dir(tree.path + "/" + slice_dir + "/" + leaf.name));
  }
  slice.next_leaf++;
  BOURSE_TRY(leaf_made(slice_dir, leaf.name));
  return leaf;
}

void CgroupBase::remove_leaf(const std::string& slice_dir, Leaf leaf) {
  close_leaf(leaf);
  for (const auto& tree : trees_) {
    // One that is busy still is found and removed with its slice.
    if (tree.per_leaf) (void)cgroup::remove_dir(tree.path + "/" + slice_dir + "/" + leaf.name);
  }
}

Result<Entry> CgroupBase::attach(const std::string& slice, const std::string& task) {
  const std::string dir = dir_name(slice);
  const auto it = slices_.find(dir);
  if (it == slices_.end()) return no_slice(slice);
  Slice& s = it->second;
  auto found = s.tasks.find(task);
  if (found == s.tasks.end()) {
    Leaf leaf;
    if (s.pool.empty()) {
      leaf = BOURSE_TRY(make_leaf(dir, s));
    } else {
      leaf = std::move(s.pool.back());
      s.pool.pop_back();
    }
    found = s.tasks.emplace(task, std::move(leaf)).first;
  }
  BOURSE_TRY(open_leaf(dir, found->second));
  Entry entry;
  for (std::size_t i = 0; i < trees_.size(); ++i) {
    const int fd = trees_[i].per_leaf ? found->second.fds[i] : s.fds[i];
    if (fd < 0) continue;
    if (trees_[i].clone_into) {
      entry.clone_into = fd;
    } else {
      entry.write_zero.push_back(fd);
    }
  }
  return entry;
}

Result<CgroupBase::Leaf*> CgroupBase::find(const std::string& slice, const std::string& task) {
  const auto it = slices_.find(dir_name(slice));
  if (it == slices_.end()) return no_slice(slice);
  const auto found = it->second.tasks.find(task);
  if (found == it->second.tasks.end()) return Error(Code::kNotFound, "task " + task + " has no leaf in slice " + slice);
  return &found->second;
}

Result<Usage> CgroupBase::usage(const std::string& slice, const std::string& task) {
  Leaf* leaf = BOURSE_TRY(find(slice, task));
  const Counters now = counters(dir_name(slice), *leaf);
  leaf->last = now;
  leaf->seen = true;
  Usage usage;
  usage.cpu = std::max(Duration(0), now.cpu - leaf->cpu_base);
  usage.mem_peak = now.mem_peak;
  usage.out_of_memory = now.ooms > 0;
  return usage;
}

bool CgroupBase::kill_leaf(const std::string& slice_dir, const std::string& leaf) {
  const std::string path = first_tree().path + "/" + slice_dir + "/" + leaf;
  if (cgroup::is_empty(path)) return true;
  cgroup::kill_round(path);
  return cgroup::is_empty(path);
}

Result<> CgroupBase::kill(const std::string& slice, const std::string& task) {
  auto leaf = find(slice, task);
  if (!leaf) return {};  // there is none: nothing of it is left
  (*leaf)->seen = false;
  if (cgroup::is_empty(first_tree().path + "/" + dir_name(slice) + "/" + (*leaf)->name)) return {};
  (*leaf)->spent = true;
  if (kill_leaf(dir_name(slice), (*leaf)->name)) return {};
  return Error(Code::kBusy, "task " + task + ": its processes are still ending");
}

Result<> CgroupBase::signal(const std::string& slice, const std::string& task, int signal) {
  Leaf* leaf = BOURSE_TRY(find(slice, task));
  for (const auto pid : cgroup::members(first_tree().path + "/" + dir_name(slice) + "/" + leaf->name)) ::kill(pid, signal);
  return {};
}

Result<> CgroupBase::detach(const std::string& slice, const std::string& task) {
  const std::string dir = dir_name(slice);
  const auto it = slices_.find(dir);
  if (it == slices_.end()) return {};
  Slice& s = it->second;
  const auto found = s.tasks.find(task);
  if (found == s.tasks.end()) return {};
  if (!leaf_empty(dir, found->second)) { return Error(Code::kBusy, "task " + task + ": its leaf is not empty"); }
  Leaf leaf = std::move(found->second);
  s.tasks.erase(found);
  const Counters now = leaf.seen ? leaf.last : counters(dir, leaf);
  leaf.seen = false;
  // A leaf that saw an OOM kill is not used again: after a restart nobody would know whose it was.
  if (leaf.spent || s.pool.size() >= kPooledLeavesMax || now.ooms != 0 || !reset(dir, leaf, now.mem_peak)) {
    remove_leaf(dir, std::move(leaf));
    return {};
  }
  leaf.cpu_base = now.cpu;
  if (open_leaves_ > kOpenLeavesMax) close_leaf(leaf);
  s.pool.push_back(std::move(leaf));
  return {};
}

Result<> CgroupBase::release(const std::string& slice) {
  const std::string dir = dir_name(slice);
  auto released = release_dir(dir);
  if (released) lent_.erase(flat_name(slice));
  return released;
}

Result<> CgroupBase::release_dir(const std::string& dir) {
  const auto it = slices_.find(dir);
  Result<> result;
  if (it != slices_.end()) {
    const std::vector<std::uint32_t> own = it->second.limits.cpuset;
    close_slice(it->second);
    slices_.erase(it);
    count_own(own, -1);
    if (!own.empty()) result = move_shared(dir);
  }
  for (const auto& tree : trees_) {
    hooks::crash_point("isolator.half_removed");
    const std::string path = tree.path + "/" + dir;
    if (!tree.per_leaf && cgroup::remove_dir(path)) continue;  // as a rule there is nothing in it
    for (const auto& name : cgroup::children(path)) {
      auto removed = cgroup::remove_dir(path + "/" + name);
      if (!removed && removed.error().code() == Code::kBusy) {
        cgroup::kill_round(path + "/" + name);
        removed = cgroup::remove_dir(path + "/" + name);
      }
      if (!removed) result = std::move(removed);
    }
    auto removed = cgroup::remove_dir(path);
    if (!removed && removed.error().code() == Code::kBusy) {
      cgroup::kill_round(path);
      removed = cgroup::remove_dir(path);
    }
    if (!removed) result = std::move(removed);
  }
  return result;
}

void CgroupBase::started(const std::string& slice, const std::string& task, int) {
  auto leaf = find(slice, task);
  if (leaf && open_leaves_ > kOpenLeavesMax) close_leaf(**leaf);
}

std::string CgroupBase::leaf(const std::string& slice, const std::string& task) const {
  const auto it = slices_.find(dir_name(slice));
  if (it == slices_.end()) return {};
  const auto found = it->second.tasks.find(task);
  return found == it->second.tasks.end() ? std::string() : found->second.name;
}

Result<> CgroupBase::adopt(const std::string& slice, const std::string& task, const std::string& name) {
  const std::string dir = dir_name(slice);
  if (name.size() < 2 || name[0] != 't' || name.find('/') != std::string::npos) {
    return Error(Code::kInvalid, "\"" + name + "\" is not the name of a leaf");
  }
  for (const auto& tree : trees_) {
    if (tree.per_leaf && !cgroup::exists(tree.path + "/" + dir + "/" + name)) {
      return Error(Code::kNotFound, "task " + task + ": its leaf " + name + " is gone");
    }
  }
  Slice& s = slices_[dir];
  s.fds.resize(trees_.size(), -1);
  if (s.tasks.count(task) != 0) return {};
  const auto pooled = std::find_if(s.pool.begin(), s.pool.end(), [&](const Leaf& l) { return l.name == name; });
  if (pooled != s.pool.end()) {
    s.tasks.emplace(task, std::move(*pooled));
    s.pool.erase(pooled);
  } else {
    // What it had counted for earlier tasks is not known any more, so its CPU time is no use; peak and OOM kills are right.
    Leaf leaf;
    leaf.name = name;
    leaf.cpu_base = Duration::max();
    leaf.spent = true;  // what was done to it is not known either
    s.tasks.emplace(task, std::move(leaf));
  }
  s.next_leaf = std::max(s.next_leaf, leaf_number(name) + 1);
  return {};
}

void CgroupBase::find_lent() {
  for (const auto& dir : slices_on_host())
    if (const auto slash = dir.rfind('/'); slash != std::string::npos) lent_.insert(dir.substr(slash + 1));
}

// --- lending -----------------------------------------------------------------------------------------------------------------

Result<SliceUse> CgroupBase::measure(const std::string& slice) {
  const std::string dir = dir_name(slice);
  const auto it = slices_.find(dir);
  if (it == slices_.end()) return no_slice(slice);
  Slice& s = it->second;
  SliceUse use = slice_use(dir);
  std::vector<std::string> leaves;
  for (const auto& [task, leaf] : s.tasks) {
    leaves.push_back(leaf.name);
    for (const auto pid : cgroup::members(first_tree().path + "/" + dir + "/" + leaf.name)) {
      const auto adjusted = cgroup::read_file("/proc/" + std::to_string(pid) + "/oom_score_adj");
      use.critical = use.critical || (adjusted && !adjusted->empty() && adjusted->front() == '-');
    }
  }
  if (use.critical && !s.guarded && !s.limits.revocable) {
    s.guarded = true;
    guard(dir, s.limits, leaves);
  }
  return use;
}

Result<> CgroupBase::limit_lent(Bytes mem) {
  lent_mem_ = mem;
  return lent_.empty() ? Result<>() : limit_lent_dir(mem);
}

Result<> CgroupBase::squeeze(const std::string& slice, Bytes high) {
  const std::string dir = dir_name(slice);
  const auto it = slices_.find(dir);
  if (it == slices_.end()) return no_slice(slice);
  return write_high(dir, high.value > 0 ? high : it->second.limits.mem_high);
}

std::set<std::string> CgroupBase::slices_on_host() const {
  std::set<std::string> names;
  for (const auto& tree : trees_) {
    for (auto& name : cgroup::children(tree.path)) names.insert(std::move(name));
    for (const auto& name : cgroup::children(tree.path + "/" + kLentDir)) names.insert(std::string(kLentDir) + "/" + name);
  }
  names.erase(kLentDir);
  return names;
}

Result<> CgroupBase::remove_root() {
  Result<> result;
  for (const auto& tree : trees_) {
    (void)cgroup::remove_dir(tree.path + "/" + kLentDir);
    auto removed = cgroup::remove_dir(tree.path);
    if (!removed) result = std::move(removed);
  }
  return result;
}

Result<> CgroupBase::recover(const std::vector<std::string>& known) {
  find_lent();
  const std::set<std::string> on_host = slices_on_host();
  std::set<std::string> keep;
  for (const auto& slice : known) keep.insert(dir_name(slice));
  Result<> result;
  for (const auto& dir : on_host) {
    if (keep.count(dir) == 0) {
      auto released = release_dir(dir);
      if (released) lent_.erase(dir.substr(dir.rfind('/') == std::string::npos ? 0 : dir.rfind('/') + 1));
      if (!released) result = std::move(released);
      continue;
    }
    Slice& s = slices_[dir];
    s.fds.resize(trees_.size(), -1);
    for (std::size_t i = 0; i < trees_.size(); ++i) {
      const std::string path = trees_[i].path + "/" + dir + "/tasks";
      if (!trees_[i].per_leaf && s.fds[i] < 0) s.fds[i] = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    }
    std::set<std::string> mine, found;
    for (const auto& [task, leaf] : s.tasks) mine.insert(leaf.name);
    for (const auto& leaf : s.pool) mine.insert(leaf.name);
    for (const auto& tree : trees_) {
      if (!tree.per_leaf) continue;
      for (auto& name : cgroup::children(tree.path + "/" + dir)) found.insert(std::move(name));
    }
    for (const auto& name : found) {
      s.next_leaf = std::max(s.next_leaf, leaf_number(name) + 1);
      if (mine.count(name) != 0) continue;
      Leaf stray;
      stray.name = name;
      if (!kill_leaf(dir, name)) result = Error(Code::kBusy, "leaf " + dir + "/" + name + " is not empty yet");
      remove_leaf(dir, std::move(stray));
    }
  }
  return result;
}

}  // namespace bourse
