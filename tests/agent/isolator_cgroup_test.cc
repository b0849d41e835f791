// Limits are real: the kernel enforces them, and what a task used and suffered is told. Cgroup v2 files against a directory.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/isolators/cgroup_files.h"
#include "agent/isolators/cgroup_v2.h"
#include "tests/agent/launcher_rig.h"

namespace bourse::launcher_test {

namespace fs = std::filesystem;

namespace {

class IsolatorLimits : public Rig {
 protected:
  static bool v2() { return access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0; }
  std::string group(const std::string& controller) const {
    return "/sys/fs/cgroup/" + (v2() ? "" : controller + "/") + root_ + "/test,f#1";
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Copied to where the task's user may execute it: the tree that is built in may be closed to others.
std::string hog(const std::string& work, const std::string& words) {
  const std::string tool = work + "/hog";
  if (!fs::exists(tool)) fs::copy_file(fs::read_symlink("/proc/self/exe").parent_path() / "../tools/hog", tool);
  return "exec " + tool + " " + words;
}

}  // namespace

TEST_F(IsolatorLimits, MemoryHogIsKilledAndSaidToHaveRunOutOfMemory) {
  SliceLimits limits;
  limits.mem = Bytes{64LL * 1024 * 1024};
  const SliceId slice = prepare(limits);
  const Ended end = end_of(start(slice, shell(hog(work_, "200"))));
  ASSERT_TRUE(WIFSIGNALED(end.wait_status));
  EXPECT_EQ(WTERMSIG(end.wait_status), SIGKILL);
  EXPECT_TRUE(end.out_of_memory);
  EXPECT_GT(end.mem_peak.value, 56LL * 1024 * 1024);
  EXPECT_LE(end.mem_peak.value, 64LL * 1024 * 1024);
  // The next one in the slice is another story, with a peak of its own.
  const Ended small = end_of(start(slice, shell("true")));
  EXPECT_FALSE(small.out_of_memory);
  EXPECT_EQ(small.wait_status, 0);
  EXPECT_LT(small.mem_peak.value, 32LL * 1024 * 1024);
  const Ended fits = end_of(start(slice, shell(hog(work_, "30"))));
  EXPECT_EQ(fits.wait_status, 0);
  EXPECT_GT(fits.mem_peak.value, 30LL * 1024 * 1024);
}

TEST_F(IsolatorLimits, ForkBombStopsAtItsLimitAndIsKilled) {
  SliceLimits limits;
  limits.pids = 30;
  const SliceId slice = prepare(limits);
  const TaskKey task = start(slice, shell("bomb() { sleep 995 & bomb | bomb & }; bomb 2>/dev/null; exec sleep 996"));
  // How many it keeps up is up to its shells, which end where they cannot fork; that it met the limit is counted.
  EXPECT_TRUE(eventually([&] {
    const std::string met = read_text(group("pids") + "/pids.events");
    return met.starts_with("max ") && !met.starts_with("max 0");
  }));
  EXPECT_EQ(cgroup::read_number(group("pids") + "/pids.max"), 30);
  EXPECT_LE(cgroup::read_number(group("pids") + "/pids.current"), 30);
  send(launcher::Signal{task, SIGKILL, true});
  end_of(task);
  EXPECT_TRUE(eventually([&] { return cgroup::read_number(group("pids") + "/pids.current") == 0; }));
}

TEST_F(IsolatorLimits, TaskIsBoundToItsCoresAndSeesNoOther) {
  SliceLimits limits;
  limits.cpus = MilliCpus{1000};
  limits.cpuset = {1};
  const SliceId slice = prepare(limits);
  EXPECT_EQ(end_of(start(slice, shell("grep Cpus_allowed_list /proc/self/status"))).wait_status, 0);
  EXPECT_EQ(out(), "Cpus_allowed_list:\t1\n");
}

TEST_F(IsolatorLimits, QuotaThrottles) {
  SliceLimits limits;
  limits.cpus = MilliCpus{200};
  const SliceId slice = prepare(limits);
  const TaskKey task = start(slice, shell("while :; do :; done"));
  EXPECT_TRUE(eventually([&] {
    const auto stat = cgroup::read_file(group("cpu") + "/cpu.stat");
    return stat && cgroup::value_of(*stat, "nr_throttled") >= 3;
  }));
  EXPECT_EQ(read_text(group("cpu") + (v2() ? "/cpu.weight" : "/cpu.shares")), v2() ? "20\n" : "204\n");
  send(launcher::Signal{task, SIGKILL, true});
  end_of(task);
}

TEST_F(IsolatorLimits, TaskIsInItsLeafInEveryTree) {
  SliceLimits limits;
  limits.cpus = MilliCpus{500};
  limits.pids = 50;
  limits.cpuset = {0};
  const SliceId slice = prepare(limits);
  end_of(start(slice, shell("cat /proc/self/cgroup")));
  const std::string mine = "/" + root_ + "/test,f#1";
  if (v2()) {
    EXPECT_EQ(out(), "0::" + mine + "/t0\n");
    return;
  }
  for (const std::string& line : {":cpu:" + mine + "\n", ":cpuset:" + mine + "\n", ":pids:" + mine + "\n",
                                  ":memory:" + mine + "/t0\n", "0::" + mine + "/t0\n"}) {
    EXPECT_TRUE(has(out(), line)) << line << out();
  }
}

// --- each call by itself, twice ---------------------------------------------------------------------------------------

class IsolatorCalls : public testing::Test {
 protected:
  void SetUp() override {
    root_ = "bourse-test-iso" + std::to_string(getpid());
    isolator_ = make_isolator(root_, true);
    if (isolator_->name() == "none") {
      if (std::getenv("BOURSE_ALLOW_DEGRADED")) GTEST_SKIP() << isolator_->degraded().front();
      FAIL() << isolator_->degraded().front();
    }
  }
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return static_cast<bool>(isolator_->recover({})); }));
    EXPECT_TRUE(isolator_->remove_root());
    EXPECT_EQ(groups_of(root_), std::vector<std::string>{});
  }
  pid_t sleeper_in(const Entry& entry) {
    const pid_t pid = fork();
    if (pid == 0) {
      for (const int fd : entry.write_zero) (void)!write(fd, "0", 1);
      execl("/bin/sleep", "sleep", "997", nullptr);
      _exit(127);
    }
    // Without clone3 into it: by its number.
    const std::string path = "/proc/self/fd/" + std::to_string(entry.clone_into);
    if (entry.clone_into >= 0) {
      EXPECT_TRUE(cgroup::write_file(fs::read_symlink(path).string() + "/cgroup.procs", std::to_string(pid)));
    }
    return pid;
  }
  std::string root_;
  std::unique_ptr<Isolator> isolator_;
};

TEST_F(IsolatorCalls, AreIdempotent) {
  SliceLimits limits;
  limits.mem = Bytes{1 << 26};
  limits.cpuset = {0};
  limits.pids = 10;
  limits.cpus = MilliCpus{500};
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(isolator_->prepare("f#1", limits));
  limits.mem = Bytes{1 << 27};
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(isolator_->limit("f#1", limits));
  const auto first = isolator_->attach("f#1", "f|t");
  const auto second = isolator_->attach("f#1", "f|t");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->clone_into, second->clone_into);
  EXPECT_EQ(first->write_zero, second->write_zero);
  const pid_t pid = sleeper_in(*first);
  EXPECT_EQ(isolator_->detach("f#1", "f|t").error().code(), Code::kBusy);
  (void)isolator_->kill("f#1", "f|t");
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return static_cast<bool>(isolator_->kill("f#1", "f|t")); }));
  EXPECT_TRUE(isolator_->usage("f#1", "f|t"));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(isolator_->detach("f#1", "f|t"));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(isolator_->release("f#1"));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(isolator_->recover({}));
  EXPECT_EQ(isolator_->attach("f#1", "f|t").error().code(), Code::kNotFound);
}

TEST_F(IsolatorCalls, ALeafServesTheNextTaskAndASecondAtTheSameTimeGetsAnother) {
  ASSERT_TRUE(isolator_->prepare("f#1", {}));
  ASSERT_TRUE(isolator_->attach("f#1", "f|a"));
  const std::string leaf = isolator_->leaf("f#1", "f|a");
  ASSERT_TRUE(isolator_->attach("f#1", "f|b"));
  EXPECT_NE(isolator_->leaf("f#1", "f|b"), leaf);
  ASSERT_TRUE(isolator_->detach("f#1", "f|a"));
  ASSERT_TRUE(isolator_->attach("f#1", "f|c"));
  // Of version 2 a leaf tells the peak of all that ever ran in it: it serves one task.
  if (isolator_->name() == "cgroup-v1") {
    EXPECT_EQ(isolator_->leaf("f#1", "f|c"), leaf);
  } else {
    EXPECT_NE(isolator_->leaf("f#1", "f|c"), leaf);
  }
}

TEST_F(IsolatorCalls, RecoverKeepsKnownSlicesAndTheirTasksAndRemovesTheRest) {
  ASSERT_TRUE(isolator_->prepare("f#1", {}));
  ASSERT_TRUE(isolator_->prepare("f#2", {}));
  const pid_t mine = sleeper_in(*isolator_->attach("f#1", "f|a"));
  const std::string leaf = isolator_->leaf("f#1", "f|a");
  const pid_t strange = sleeper_in(*isolator_->attach("f#2", "f|b"));
  auto next = make_isolator(root_, true);  // as after a restart
  ASSERT_TRUE(next->adopt("f#1", "f|a", leaf));
  EXPECT_EQ(next->adopt("f#1", "f|z", "t99").error().code(), Code::kNotFound);
  EXPECT_EQ(next->adopt("f#1", "f|z", "../x").error().code(), Code::kInvalid);
  (void)next->recover({"f#1"});
  int status = 0;
  EXPECT_EQ(waitpid(strange, &status, 0), strange);
  EXPECT_TRUE(eventually([&] { return static_cast<bool>(next->recover({"f#1"})); }));
  EXPECT_TRUE(alive(mine));
  EXPECT_TRUE(next->attach("f#1", "f|d"));
  EXPECT_EQ(next->attach("f#2", "f|d").error().code(), Code::kNotFound);
  kill(mine, SIGKILL);
  waitpid(mine, nullptr, 0);
}

// --- v2, file by file ---------------------------------------------------------------------------------------------------

// A stand-in for the kernel's tree: plain files where the kernel would make them, so only what is written can be seen.
class IsolatorV2Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/bourse-v2-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    mount_ = name;
    put("cgroup.controllers", "cpuset cpu io memory pids\n");
    put("cgroup.subtree_control", "");
    make_group("bourse", {"cgroup.subtree_control"});
    make_group("bourse/f#1",
               {"cgroup.subtree_control", "cpu.max", "cpu.weight", "cpuset.cpus", "cpuset.mems", "memory.max", "pids.max"});
    make_group("bourse/f#1/t0", {"memory.oom.group", "cgroup.kill"});
  }
  void TearDown() override { fs::remove_all(mount_); }
  void put(const std::string& file, const std::string& text) { std::ofstream(mount_ + "/" + file) << text; }
  std::string get(const std::string& file) const { return read_text(mount_ + "/" + file); }
  void make_group(const std::string& dir, const std::vector<std::string>& files) {
    fs::create_directories(mount_ + "/" + dir);
    for (const auto& f : files) put(dir + "/" + f, "");
  }
  std::string mount_;
};

TEST_F(IsolatorV2Files, LimitsAreWrittenInTheKernelsWords) {
  auto isolator = CgroupV2::make(mount_, "bourse");
  ASSERT_TRUE(isolator);
  EXPECT_TRUE((*isolator)->degraded().empty());
  SliceLimits limits;
  limits.cpus = MilliCpus{1500};
  limits.mem = Bytes{1 << 30};
  limits.cpuset = {0, 2, 3};
  limits.mems = {1};
  limits.pids = 77;
  ASSERT_TRUE((*isolator)->prepare("f#1", limits));
  EXPECT_EQ(get("bourse/f#1/cpu.max"), "150000 100000");
  EXPECT_EQ(get("bourse/f#1/cpu.weight"), "150");
  EXPECT_EQ(get("bourse/f#1/cpuset.cpus"), "0,2,3\n");
  EXPECT_EQ(get("bourse/f#1/cpuset.mems"), "1\n");
  EXPECT_EQ(get("bourse/f#1/memory.max"), "1073741824");
  EXPECT_EQ(get("bourse/f#1/pids.max"), "77");
  EXPECT_EQ(get("bourse/f#1/cgroup.subtree_control"), "+memory");
  EXPECT_EQ(get("bourse/f#1/t0/memory.oom.group"), "1");
  const auto entry = (*isolator)->attach("f#1", "f|t");
  ASSERT_TRUE(entry);
  EXPECT_GE(entry->clone_into, 0);
  EXPECT_TRUE(entry->write_zero.empty());
}

TEST_F(IsolatorV2Files, WhoBorrowsLeavesANodeThatRunsShortWhileAnotherHasRoom) {
  make_group("bourse/lent", {"cgroup.subtree_control", "cpuset.mems", "cpu.weight", "memory.high", "memory.max"});
  make_group("bourse/lent/f#1",
             {"cgroup.subtree_control", "cpu.max", "cpu.weight", "cpuset.cpus", "cpuset.mems", "memory.max", "pids.max"});
  make_group("bourse/lent/f#1/t0", {"memory.oom.group", "cgroup.kill"});
  fs::create_directories(mount_ + "/node/node0"), fs::create_directories(mount_ + "/node/node1");
  put("node/online", "0-1\n");
  const auto node = [&](int number, int free, int cache) {  // MiB of 1024, in the kernel's words
    const std::string prefix = "Node " + std::to_string(number) + " ";
    put("node/node" + std::to_string(number) + "/meminfo",
        "\n" + prefix + "MemTotal:       1048576 kB\n" + prefix + "MemFree:         " + std::to_string(free * 1024) + " kB\n" +
            prefix + "Active(file):     " + std::to_string(cache * 512) + " kB\n" + prefix +
            "Inactive(file):    " + std::to_string(cache * 512) + " kB\n");
  };
  auto isolator = CgroupV2::make(mount_, "bourse", mount_ + "/node");
  ASSERT_TRUE(isolator);
  SliceLimits limits;
  limits.revocable = true;
  node(0, 500, 0), node(1, 500, 0);
  ASSERT_TRUE((*isolator)->prepare("f#1", limits));
  const auto mems_after = [&](int free0, int cache0, int free1) {  // what is written then; "": nothing
    put("bourse/lent/cpuset.mems", "");
    node(0, free0, cache0), node(1, free1, 0);
    EXPECT_TRUE((*isolator)->limit_lent(Bytes{256LL << 20}));
    return get("bourse/lent/cpuset.mems");
  };
  EXPECT_EQ(get("bourse/lent/cpuset.mems"), "") << "all have room";
  EXPECT_EQ(mems_after(100, 100, 500), "") << "what is only cache is room";
  EXPECT_EQ(mems_after(100, 20, 500), "1\n");
  EXPECT_EQ(mems_after(200, 20, 500), "") << "what has just been freed by leaving is no reason to come back";
  EXPECT_EQ(mems_after(300, 20, 500), "\n");
  EXPECT_EQ(mems_after(100, 0, 500), "1\n");
  EXPECT_EQ(mems_after(100, 0, 100), "\n") << "with no room anywhere they are where they can be, and some go by pressure";
  EXPECT_EQ(mems_after(500, 0, 100), "0\n");
}

TEST_F(IsolatorV2Files, UsageIsReadFromTheLeaf) {
  auto isolator = CgroupV2::make(mount_, "bourse");
  ASSERT_TRUE((*isolator)->prepare("f#1", {}));
  ASSERT_TRUE((*isolator)->attach("f#1", "f|t"));
  put("bourse/f#1/t0/cpu.stat", "usage_usec 123456\nuser_usec 1\n");
  put("bourse/f#1/t0/memory.peak", "987654\n");
  put("bourse/f#1/t0/memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\noom_group_kill 1\n");
  const auto usage = (*isolator)->usage("f#1", "f|t");
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->cpu, Duration(123456));
  EXPECT_EQ(usage->mem_peak, Bytes{987654});
  EXPECT_TRUE(usage->out_of_memory);
}

TEST_F(IsolatorV2Files, MissingControllerIsNamedWithWhatIsLost) {
  put("cgroup.controllers", "cpu memory pids\n");
  auto isolator = CgroupV2::make(mount_, "bourse");
  ASSERT_TRUE(isolator);
  ASSERT_EQ((*isolator)->degraded().size(), 1U);
  EXPECT_TRUE(has((*isolator)->degraded()[0], "cpuset"));
  put("cgroup.controllers", "\n");
  EXPECT_EQ(CgroupV2::make(mount_, "bourse").error().code(), Code::kUnsupported);
}

}  // namespace bourse::launcher_test
