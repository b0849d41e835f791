// Slices that are lent: where they stand, what they have together, how they are measured and squeezed. With a real launcher.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/isolators/cgroup_files.h"
#include "tests/agent/launcher_rig.h"

namespace bourse::launcher_test {

namespace {

constexpr std::int64_t kMib = 1024 * 1024;

class LentSlices : public Rig {
 protected:
  static bool v2() { return access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0; }
  std::string root_of(const std::string& controller) const { return "/sys/fs/cgroup/" + (v2() ? "" : controller + "/") + root_; }
  static std::string text_of(const std::string& path) {
    auto text = cgroup::read_file(path);
    if (!text) return "(" + text.error().text() + ")";
    while (!text->empty() && text->back() == '\n') text->pop_back();
    return *text;
  }
  SliceLimits lent(std::int64_t mib = 64) const {
    SliceLimits limits;
    limits.cpus = MilliCpus{500};
    limits.mem = Bytes{mib * kMib};
    limits.revocable = true;
    return limits;
  }
  std::string hog(const std::string& words) const {
    const std::string tool = work_ + "/hog";
    if (!std::filesystem::exists(tool))
      std::filesystem::copy_file(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../tools/hog", tool);
    return "exec " + tool + " " + words;
  }
  bool ready(int count = 1) const {
    const std::string text = out();
    int found = 0;
    for (std::size_t at = text.find("ready"); at != std::string::npos; at = text.find("ready", at + 1)) ++found;
    return found >= count;
  }
  bool lives(const TaskKey& task) const { return alive(pid_of(task)); }
  launcher::Measured measured() {
    send(launcher::Measure{});
    return wait_for<launcher::Measured>();
  }
  static const SliceUse* use_of(const launcher::Measured& all, const SliceId& slice) {
    for (const auto& one : all.slices)
      if (one.slice == slice) return &one.use;
    return nullptr;
  }
};

TEST_F(LentSlices, StandBehindAllOthersAndHaveOneLimitTogether) {
  send(launcher::LimitLent{Bytes{160 * kMib}});
  const SliceId slice = prepare(lent());
  const std::string memory = root_of("memory") + "/lent";
  const std::string name = std::filesystem::path(root_of("memory")).filename();
  ASSERT_EQ(cgroup::children(memory).size(), 1U) << memory;
  if (v2()) {
    EXPECT_TRUE(text_of(memory + "/cpu.weight") == "1" || text_of(memory + "/cpu.idle") == "1");
    EXPECT_EQ(text_of(memory + "/memory.high"), std::to_string(160 * kMib));
    EXPECT_EQ(text_of(memory + "/memory.max"), std::to_string(180 * kMib));
  } else {
    EXPECT_EQ(text_of(root_of("cpu") + "/lent/cpu.shares"), "2");
    EXPECT_EQ(text_of(memory + "/memory.limit_in_bytes"), std::to_string(180 * kMib));
  }
  // A limit that comes later holds for what is there.
  send(launcher::LimitLent{Bytes{80 * kMib}});
  ASSERT_TRUE(
      eventually([&] { return text_of(memory + (v2() ? "/memory.max" : "/memory.limit_in_bytes")) == std::to_string(90 * kMib); }));
  EXPECT_EQ(end_of(start(slice, shell("cat /proc/self/oom_score_adj; true"))).wait_status, 0);
  EXPECT_EQ(out(), "900\n");
}

TEST_F(LentSlices, TheKernelTakesTheLeastImportantFirst) {
  const SliceId slice = prepare(lent());
  for (const auto& [priority, score] : {std::pair(50, "850\n"), std::pair(-50, "950\n"), std::pair(-100'000, "1000\n")}) {
    TaskSpec spec = shell("cat /proc/self/oom_score_adj; true");
    spec.priority = priority;
    unlink((work_ + "/out").c_str());
    EXPECT_EQ(end_of(start(slice, spec)).wait_status, 0);
    EXPECT_EQ(out(), score);
  }
  SliceLimits owned = lent();
  owned.revocable = false;
  const SliceId other = prepare(owned);
  TaskSpec spec = shell("cat /proc/self/oom_score_adj; true");
  spec.priority = -50;
  unlink((work_ + "/out").c_str());
  EXPECT_EQ(end_of(start(other, spec)).wait_status, 0);
  EXPECT_EQ(out(), "0\n") << "a slice that is not lent goes like everybody";
}

TEST_F(LentSlices, TogetherTheyAreEndedAtTheirLimitAndNobodyElseIs) {
  send(launcher::LimitLent{Bytes{48 * kMib}});
  const SliceId first = prepare(lent(256)), second = prepare(lent(256));
  SliceLimits owned = lent(256);
  owned.revocable = false;
  const SliceId owner = prepare(owned);
  const TaskKey kept = start(owner, shell(hog("100 60")));
  const TaskKey one = start(first, shell(hog("40 60")));
  ASSERT_TRUE(eventually([&] { return ready(); }));
  const TaskKey two = start(second, shell(hog("40 60")));
  // Whom the kernel takes depends on how large each is by then; it takes one of the two.
  const Ended ended = wait_for<Ended>();
  EXPECT_TRUE(ended.out_of_memory);
  EXPECT_TRUE(ended.task == one || ended.task == two);
  EXPECT_TRUE(lives(kept));
}

TEST_F(LentSlices, WhatSlicesUseIsMeasuredAndWhoIsCriticalIsSeen) {
  SliceLimits owned = lent(256);
  owned.revocable = false;
  const SliceId owner = prepare(owned), idle = prepare(owned);
  const TaskKey task = start(owner, shell(hog("60 60")));
  ASSERT_TRUE(eventually([&] { return ready(); }));
  launcher::Measured all = measured();
  ASSERT_NE(use_of(all, owner), nullptr);
  EXPECT_GE(use_of(all, owner)->mem.value, 60 * kMib);
  EXPECT_LT(use_of(all, owner)->mem.value, 120 * kMib);
  EXPECT_GT(use_of(all, owner)->cpu.count(), 0);
  EXPECT_FALSE(use_of(all, owner)->critical);
  ASSERT_NE(use_of(all, idle), nullptr);
  EXPECT_LT(use_of(all, idle)->mem.value, 4 * kMib);
  std::ofstream score("/proc/" + std::to_string(pid_of(task)) + "/oom_score_adj");
  score << "-1" << std::flush;
  if (!score.good()) return;  // wants CAP_SYS_RESOURCE, which the virtual machine's root has
  all = measured();
  EXPECT_TRUE(use_of(all, owner)->critical);
  EXPECT_FALSE(use_of(all, idle)->critical);
}

TEST_F(LentSlices, SurviveTheLauncherAndGoWithTheirRelease) {
  const SliceId slice = prepare(lent());
  const TaskKey task = start(slice, shell("echo ready; sleep 60"));
  ASSERT_TRUE(eventually([&] { return ready(); }));
  const pid_t before = launcher_pid();
  kill(before, SIGKILL);
  other_launcher(before);
  connect();
  hello(slices_);
  EXPECT_TRUE(lives(task));
  EXPECT_EQ(cgroup::children(root_of("memory") + "/lent").size(), 1U);
  send(launcher::Release{slice});
  wait_for<launcher::Released>();
  EXPECT_TRUE(cgroup::children(root_of("memory") + "/lent").empty());
}

TEST_F(LentSlices, OfNobodyAreRemovedByTheNextLauncher) {
  prepare(lent());
  const pid_t before = launcher_pid();
  kill(before, SIGKILL);
  other_launcher(before);
  connect();
  hello({});
  EXPECT_TRUE(eventually([&] { return cgroup::children(root_of("memory") + "/lent").empty(); }));
}

}  // namespace
}  // namespace bourse::launcher_test
