// What slices do to each other and to the host: devices, disks, cores, and groups that others remove or crashes leave half made.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "agent/isolators/cgroup_files.h"
#include "tests/agent/launcher_rig.h"

namespace bourse::launcher_test {

namespace fs = std::filesystem;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class IsolatorHost : public Rig {
 protected:
  void limit(const SliceId& slice, const SliceLimits& limits) {
    send(launcher::Prepare{slice, limits});
    EXPECT_EQ(wait_for<launcher::Prepared>().error, "");
  }
  // A node of our own, open to all, for a device that every host has and that nobody is hurt by opening.
  DeviceRule make_node() {
    for (const char* path : {"/dev/fuse", "/dev/loop-control", "/dev/kmsg"}) {
      struct stat st {};
      if (stat(path, &st) != 0 || !S_ISCHR(st.st_mode)) continue;
      EXPECT_EQ(mknod((work_ + "/node").c_str(), S_IFCHR | 0666, st.st_rdev), 0);
      chmod((work_ + "/node").c_str(), 0666);
      return {'c', major(st.st_rdev), minor(st.st_rdev)};
    }
    ADD_FAILURE() << "no device to try";
    return {};
  }
  TaskSpec as_root(const std::string& script) const {
    TaskSpec spec = shell(script);
    spec.uid = spec.gid = 0;
    return spec;
  }
  std::string slice_file(const std::string& controller, const std::string& file) const {
    const bool v2 = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
    return "/sys/fs/cgroup/" + (v2 ? "" : controller + "/") + root_ + "/test,f#1/" + file;
  }
};

}  // namespace

TEST_F(IsolatorHost, ATaskOpensTheDevicesOfItsSliceAndNoOther) {
  const DeviceRule node = make_node();
  SliceLimits limits;
  limits.devices_limited = true;
  limits.devices = devices::usual();
  const SliceId slice = prepare(limits);
  const std::string usual =
      "echo x > /dev/null; head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; "
      "test -c /dev/full; : < ./node && echo opened";
  for (const TaskSpec& spec : {shell(usual), as_root(usual)}) {
    EXPECT_NE(end_of(start(slice, spec)).wait_status, 0);
    EXPECT_TRUE(has(out(), "4\n4\n")) << out();
    EXPECT_TRUE(has(out(), "not permitted")) << out();
    EXPECT_FALSE(has(out(), "opened"));
    unlink((work_ + "/out").c_str());
  }
  limits.devices.push_back(node);
  limit(slice, limits);  // the same slice, given one more
  EXPECT_EQ(end_of(start(slice, shell(usual))).wait_status, 0) << out();
  limits.devices.pop_back();
  limit(slice, limits);
  EXPECT_NE(end_of(start(slice, shell(usual))).wait_status, 0);
  const SliceId free = prepare();  // not limited
  EXPECT_EQ(end_of(start(free, shell(usual))).wait_status, 0) << out();
}

TEST_F(IsolatorHost, WhatATaskMayOpenSurvivesTheLaunchersDeath) {
  make_node();
  SliceLimits limits;
  limits.devices_limited = true;
  limits.devices = devices::usual();
  const SliceId slice = prepare(limits);
  const TaskKey task = start(slice, shell("echo ready; while [ ! -e go ]; do sleep 0.02; done; : < ./node && echo opened"));
  ASSERT_TRUE(eventually([&] { return has(out(), "ready"); }));
  const pid_t before = launcher_pid();
  kill(before, SIGKILL);
  other_launcher(before);
  connect();
  hello(slices_);
  close(open((work_ + "/go").c_str(), O_CREAT | O_WRONLY, 0666));
  EXPECT_NE(end_of(task).wait_status, 0);
  EXPECT_FALSE(has(out(), "opened"));
}

// Named apart: a machine may have no disk that can be read raw; the virtual machine has one in memory.
class DiskLimits : public IsolatorHost {};

TEST_F(DiskLimits, ReadingADiskKeepsToTheSlicesRate) {
  const char* disk = access("/dev/ram0", F_OK) == 0 ? "/dev/ram0" : "/dev/vda";
  struct stat st {};
  const int fd = open(disk, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) != 0) GTEST_SKIP() << "no disk can be read here";
  close(fd);
  SliceLimits limits;
  const std::string script = std::string("dd if=") + disk + " of=/dev/null bs=65536 count=32 iflag=direct";  // 2 MiB
  const SliceId slice = prepare(limits);
  const auto seconds_of = [&] {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(end_of(start(slice, as_root(script))).wait_status, 0) << out();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double free = seconds_of();
  limits.io = {{major(st.st_rdev), minor(st.st_rdev), 1024 * 1024, 0, 0, 0}};
  limit(slice, limits);
  const double limited = seconds_of();
  EXPECT_GT(limited, 1.5) << "free: " << free;
  limits.io.clear();
  limit(slice, limits);
  EXPECT_LT(seconds_of(), limited);
}

TEST_F(IsolatorHost, SlicesWithoutCoresOfTheirOwnKeepOffThoseOfOthers) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "one core";
  SliceLimits shared, own;
  shared.cpus = MilliCpus{500};
  own.cpuset = {0};
  const SliceId sharing = prepare(shared);
  const TaskKey task = start(sharing, shell("sleep 983"));
  const auto cores = [&](pid_t pid) {
    const std::string text = read_text("/proc/" + std::to_string(pid) + "/status");
    const auto at = text.find("Cpus_allowed_list:\t");
    return at == std::string::npos ? std::vector<std::uint32_t>{}
                                   : cgroup::parse_list(text.substr(at + 19, text.find('\n', at) - at - 19));
  };
  const auto all = cores(pid_of(task));
  ASSERT_GE(all.size(), 2U);
  const SliceId owning = prepare(own);
  const std::vector<std::uint32_t> rest(all.begin() + 1, all.end());
  EXPECT_EQ(cores(pid_of(task)), rest);
  const SliceId late = prepare(shared);  // made while the cores are another's
  const TaskKey second = start(late, shell("sleep 982"));
  EXPECT_EQ(cores(pid_of(second)), rest);
  send(launcher::Release{owning});
  wait_for<launcher::Released>();
  EXPECT_EQ(cores(pid_of(task)), all);
  EXPECT_EQ(cores(pid_of(second)), all);
  for (const auto& each : {task, second}) {
    send(launcher::Signal{each, SIGKILL, true});
    end_of(each);
  }
}

TEST_F(IsolatorHost, ASoftLimitIsBelowTheHardOne) {
  SliceLimits limits;
  limits.mem = Bytes{64LL << 20};
  limits.mem_high = Bytes{48LL << 20};
  prepare(limits);
  const std::string high = read_text(slice_file("memory", "memory.high")),
                    soft = read_text(slice_file("memory", "memory.soft_limit_in_bytes"));
  EXPECT_EQ(high.empty() ? soft : high, std::to_string(48LL << 20) + "\n");
}

// Named apart: it needs two nodes, which the virtual machine has.
class NumaBinding : public IsolatorHost {};

TEST_F(NumaBinding, MemoryComesFromTheNodeOfTheSlice) {
  if (access("/sys/devices/system/node/node1", F_OK) != 0) GTEST_SKIP() << "one NUMA node";
  const fs::path tool = fs::read_symlink("/proc/self/exe").parent_path() / "../tools/hog";
  fs::copy_file(tool, work_ + "/hog");
  for (const std::uint32_t node : {0U, 1U}) {
    SliceLimits limits;
    limits.cpuset = {node == 0 ? 3U : 0U};  // far from its memory: what binds it is not where it runs
    limits.mems = {node};
    const SliceId slice = prepare(limits);
    const TaskKey task = start(slice, shell("exec ./hog 40 600"));
    ASSERT_TRUE(eventually([&] { return has(out(), "ready"); }));
    std::int64_t pages[2] = {0, 0};
    std::string maps = read_text("/proc/" + std::to_string(pid_of(task)) + "/numa_maps");
    for (std::size_t at = 0; (at = maps.find(" N", at)) != std::string::npos; ++at) {
      const int which = maps[at + 2] - '0';
      if ((which == 0 || which == 1) && maps[at + 3] == '=') pages[which] += std::atoll(maps.c_str() + at + 4);
    }
    EXPECT_GT(pages[node], 40 * 256) << maps;
    EXPECT_LT(pages[1 - node], 1024) << maps;  // pages of files that were read before
    EXPECT_TRUE(has(read_text("/proc/" + std::to_string(pid_of(task)) + "/status"), "Mems_allowed_list:\t" + std::to_string(node)));
    send(launcher::Signal{task, SIGKILL, true});
    end_of(task);
  }
}

namespace {

std::int64_t node_free_mib(int node) {
  const std::string text = read_text("/sys/devices/system/node/node" + std::to_string(node) + "/meminfo");
  return std::atoll(text.c_str() + text.find("MemFree:") + 8) / 1024;
}

}  // namespace

// Its owner gets all of a node though who borrows has filled it: they are moved, nobody is ended.
TEST_F(NumaBinding, WhoBorrowsIsMovedOffANodeThatItsOwnerNeeds) {
  if (access("/sys/devices/system/node/node1", F_OK) != 0) GTEST_SKIP() << "one NUMA node";
  fs::copy_file(fs::read_symlink("/proc/self/exe").parent_path() / "../tools/hog", work_ + "/hog");
  const auto hog = [](std::int64_t mib) { return "./hog " + std::to_string(mib) + " 600"; };
  SliceLimits lent, owned;
  lent.revocable = true;
  owned.mems = {0};
  const std::int64_t borrowed = std::min<std::int64_t>(node_free_mib(0) / 2, node_free_mib(1) / 2);
  ASSERT_GT(borrowed, 100) << "the nodes of this machine are too full for the test";
  const TaskKey borrower = start(prepare(lent), shell("exec taskset -c 0 " + hog(borrowed)));
  ASSERT_TRUE(eventually([&] { return has(out(), "ready"); }));
  // The owner grows until little is left.
  const SliceId slice = prepare(owned);
  unlink((work_ + "/out").c_str());
  start(slice, shell("exec " + hog(node_free_mib(0) - 70)));
  ASSERT_TRUE(eventually([&] { return has(out(), "ready"); }));
  const std::int64_t before = node_free_mib(0);
  EXPECT_LT(before, 120);
  send(launcher::LimitLent{Bytes{2LL << 30}});  // as the agent says every second while something is lent
  EXPECT_TRUE(eventually([&] { return node_free_mib(0) > before + borrowed / 2; }))
      << node_free_mib(0) << " MiB of node 0 are free; lent ones may have "
      << read_text("/sys/fs/cgroup/" + root_ + "/lent/cpuset.mems") << "of "
      << read_text("/sys/devices/system/node/node0/meminfo").substr(0, 900)
      << read_text("/proc/" + std::to_string(pid_of(borrower)) + "/numa_maps");
  // And on.
  unlink((work_ + "/out").c_str());
  start(slice, shell("exec " + hog(before + borrowed / 2)));
  EXPECT_TRUE(eventually([&] { return has(out(), "ready"); }));
  EXPECT_TRUE(alive(pid_of(borrower)));
}

// --- others' hands -----------------------------------------------------------------------------------------------------------

TEST_F(IsolatorHost, GroupsThatSomebodyRemovedAreMadeAgain) {
  SliceLimits limits;
  limits.mem = Bytes{64LL << 20};
  limits.cpus = MilliCpus{500};
  limits.pids = 40;
  const SliceId slice = prepare(limits);
  EXPECT_EQ(end_of(start(slice, shell("exit 1"))).wait_status, 1 << 8);
  for (int round = 0; round < 2; ++round) {
    for (const auto& group : groups_of(root_)) {
      for (const auto& leaf : cgroup::children(group + "/test,f#1")) rmdir((group + "/test,f#1/" + leaf).c_str());
      if (round == 1 && cgroup::exists(group + "/test,f#1")) { EXPECT_EQ(rmdir((group + "/test,f#1").c_str()), 0) << group; }
    }
    EXPECT_EQ(end_of(start(slice, shell("exit 7"))).wait_status, 7 << 8);
    EXPECT_EQ(cgroup::read_number(slice_file("pids", "pids.max")), 40);
  }
  EXPECT_TRUE(end_of(start(slice, shell("exec true"))).known);
}

TEST_F(IsolatorHost, ACrashAtAnyPointLeavesNoGroupWithoutAnOwnerAndNoneMissing) {
  for (const std::string point : {"isolator.half_made:1", "isolator.half_made:2", "isolator.made_no_leaf",
                                  "isolator.half_removed:1", "isolator.half_removed:2"}) {
    SCOPED_TRACE(point);
    kill(keeper_, SIGTERM);
    waitpid(keeper_, nullptr, 0);
    start_keeper({{"BOURSE_CRASH_AT", point}});
    connect();
    hello({});
    const SliceId kept{FrameworkId("test/f"), 1001}, gone{FrameworkId("test/f"), 1002};
    SliceLimits limits;
    limits.mem = Bytes{64LL << 20};
    limits.pids = 50;
    for (const SliceId& slice : {kept, gone}) (void)channel_->send(launcher::Prepare{slice, limits});
    (void)channel_->send(launcher::Release{gone});
    EXPECT_TRUE(eventually([&] {
      auto packet = channel_->receive();
      return !packet && packet.error().code() == Code::kGone;
    })) << "it did not crash";
    connect();
    hello({kept});  // as an agent that asks for everything outstanding once more
    send(launcher::Prepare{kept, limits});
    EXPECT_EQ(wait_for<launcher::Prepared>().error, "");
    EXPECT_EQ(end_of(start(kept, shell("exit 8"))).wait_status, 8 << 8);
    EXPECT_TRUE(eventually([&] {
      for (const auto& group : groups_of(root_))
        for (const auto& name : cgroup::children(group))
          if (name != "test,f#1001") return false;
      return true;
    })) << "a group is left of a slice that nobody knows";
    int found = 0;
    for (const auto& group : groups_of(root_)) found += cgroup::exists(group + "/test,f#1001") ? 1 : 0;
    EXPECT_GE(found, 1);
  }
}

}  // namespace bourse::launcher_test
