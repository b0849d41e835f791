// What a task finds when it is started, and what is said when it cannot be.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/agent/launcher_rig.h"

namespace bourse::launcher_test {

namespace {

class LauncherTask : public Rig {};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

#define EXPECT_HAS(text, part) EXPECT_PRED2(has, text, part)

}  // namespace

TEST_F(LauncherTask, RunsAsTheUserWithItsGroupsInADirectorySessionAndGroupOfItsOwn) {
  const SliceId slice = prepare();
  const TaskKey task =
      start(slice, shell("id -u; id -g; id -G; pwd; echo $$; ps -o sid=,pgid= -p $$; grep NoNewPrivs /proc/self/status"));
  EXPECT_EQ(end_of(task).wait_status, 0);
  const std::string pid = std::to_string(pid_of(task));
  EXPECT_HAS(out(), "54321\n54322\n54322\n" + work_ + "\n" + pid + "\n");
  std::string session = out();
  EXPECT_GE(std::count(session.begin(), session.end(), '\n'), 7);
  EXPECT_HAS(session, "NoNewPrivs:\t1");
  struct stat file {};
  ASSERT_EQ(stat((work_ + "/out").c_str(), &file), 0);
  EXPECT_EQ(file.st_uid, 54321U);
  EXPECT_EQ(file.st_gid, 54322U);
}

TEST_F(LauncherTask, GetsExactlyItsEnvironmentUmaskLimitsAndNothingOfTheLaunchers) {
  const SliceId slice = prepare();
  TaskSpec spec =
      shell("env | sort; umask; ulimit -c; ulimit -n; ls /proc/self/fd; cat /proc/self/status | grep -E 'SigBlk|SigIgn'");
  spec.env = {"PATH=/usr/bin:/bin", "GREETING=good day"};
  spec.umask = 0077;
  spec.rlimits = {{RLIMIT_CORE, 0, 0}, {RLIMIT_NOFILE, 77, 99}};
  EXPECT_EQ(end_of(start(slice, spec)).wait_status, 0);
  EXPECT_HAS(out(), "GREETING=good day\n");
  EXPECT_HAS(out(), "0077\n0\n77\n");
  EXPECT_HAS(out(), "0\n1\n2\n3\n");  // 3 is the directory that ls reads
  EXPECT_FALSE(has(out(), "\n4\n"));
  EXPECT_FALSE(has(out(), "BOURSE"));
  // Signals 32 and 33 are the C library's own; they come ignored from a parent that was started by posix_spawn (make does that).
  std::string masks = out();
  if (const auto at = masks.find("SigIgn:\t"); at != std::string::npos) masks[at + 15] = masks[at + 16] = '0';
  EXPECT_HAS(masks, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000");
}

// Guests themselves are in tests/microvm.
TEST_F(LauncherTask, IsNoGuestWithoutAHypervisorAndAnImage) {
  const SliceId slice = prepare();
  TaskSpec spec = shell("true");
  spec.kind = TaskKind::kMicroVm;
  spec.image = "kernel=/boot/vmlinuz,initrd=/boot/initrd";
  EXPECT_HAS(start_fails(slice, spec), "its slice has no hypervisor");
  for (const auto& [image, why] : {std::pair{"", "a kernel or a disk image is needed"}, {"vmlinuz", "is not NAME=VALUE"}}) {
    spec.image = image;
    send(launcher::Start{new_task(), slice, spec, {}, {}, "qemu:///system"});
    EXPECT_HAS(wait_for<launcher::StartFailed>().reason, why);
  }
  EXPECT_FALSE(std::filesystem::exists(state_dir_ + "/scratch")) << "nothing was made for them";
}

TEST_F(LauncherTask, WritesOutputAsAsked) {
  const SliceId slice = prepare();
  std::ofstream(work_ + "/in") << "from a file\n";
  std::ofstream(work_ + "/out") << "old\n";
  chmod((work_ + "/out").c_str(), 0666);
  TaskSpec spec = shell("cat; echo one; echo two >&2; echo three");
  spec.stdin_path = work_ + "/in";
  end_of(start(slice, spec));
  EXPECT_EQ(out(), "from a file\none\ntwo\nthree\n");  // truncated, and both streams append to the one file

  spec.append_output = true;
  spec.stdin_path.clear();
  end_of(start(slice, spec));
  EXPECT_EQ(out(), "from a file\none\ntwo\nthree\none\ntwo\nthree\n");

  spec.append_output = false;
  spec.stderr_path = "err";
  end_of(start(slice, spec));
  EXPECT_EQ(out(), "one\nthree\n");
  EXPECT_EQ(read_text(work_ + "/err"), "two\n");
}

TEST_F(LauncherTask, ThatCannotStartSaysWhy) {
  const SliceId slice = prepare();
  TaskSpec spec = shell("true");
  spec.directory = "/nowhere/at/all";
  EXPECT_EQ(start_fails(slice, spec), "chdir /nowhere/at/all: No such file or directory");
  spec = shell("true");
  spec.stdout_path = "/root-only/out";
  EXPECT_EQ(start_fails(slice, spec), "open output /root-only/out: No such file or directory");
  mkdir((dir_ + "/private").c_str(), 0700);  // root's: the launcher could write there, the user may not
  spec.stdout_path = dir_ + "/private/out";
  EXPECT_EQ(start_fails(slice, spec), "open output " + dir_ + "/private/out: Permission denied");
  spec = shell("true");
  spec.directory = dir_ + "/private";
  EXPECT_EQ(start_fails(slice, spec), "chdir " + dir_ + "/private: Permission denied");
  spec = shell("true");
  spec.stdin_path = "missing";
  EXPECT_EQ(start_fails(slice, spec), "open input missing: No such file or directory");
  spec = shell("true");
  spec.argv = {"/no/such/program"};
  EXPECT_EQ(start_fails(slice, spec), "exec /no/such/program: No such file or directory");
  spec.argv = {"no-such-program"};
  EXPECT_EQ(start_fails(slice, spec), "exec no-such-program: not found in PATH");
  const auto script = [&](const std::string& name, const std::string& text, mode_t mode) {
    std::ofstream(work_ + "/" + name) << text;
    chmod((work_ + "/" + name).c_str(), mode);
    spec.argv = {work_ + "/" + name};
    return "exec " + spec.argv[0] + ": ";
  };
  std::string exec = script("a", "#!/usr/bin/no-such-python -u\n", 0755);
  EXPECT_EQ(start_fails(slice, spec), exec + "its interpreter \"/usr/bin/no-such-python\" does not exist on this host");
  exec = script("b", "#!/bin/sh\r\ntrue\r\n", 0755);
  EXPECT_EQ(start_fails(slice, spec), exec +
                                          "its interpreter \"/bin/sh\" does not exist on this host; the file has DOS line ends, "
                                          "which become part of that name");
  exec = script("c", "echo hello\n", 0755);
  EXPECT_EQ(start_fails(slice, spec), exec + "neither a program for this host nor a script: it has no \"#!\" line");
  exec = script("d", "#!/bin/sh\n", 0644);
  EXPECT_EQ(start_fails(slice, spec), exec + "Permission denied");
  spec.argv.clear();
  EXPECT_EQ(start_fails(slice, spec), "there is no program to run: argv is empty");
  spec = shell("true");
  spec.user = "no-such-user-here";
  EXPECT_EQ(start_fails(slice, spec), "user no-such-user-here does not exist on this host");
  spec.user = "root";
  EXPECT_EQ(start_fails(slice, spec), "user root has uid 0 on this host, not 54321");
  EXPECT_HAS(start_fails({FrameworkId("test/f"), 4711}, shell("true")), "is not prepared");
  EXPECT_EQ(mkfifo((work_ + "/pipe").c_str(), 0666), 0);
  chmod((work_ + "/pipe").c_str(), 0666);
  spec = shell("true");
  spec.stdout_path = "pipe";  // without a reader: must not hold up the launcher
  EXPECT_EQ(start_fails(slice, spec), "open output pipe: No such device or address");
  EXPECT_EQ(end_of(start(slice, shell("exit 3"))).wait_status, 3 << 8);  // and nothing of this has hurt the slice
}

TEST_F(LauncherTask, KnownAlreadyIsNotStartedAgain) {
  const SliceId slice = prepare();
  const TaskKey task = new_task();
  TaskSpec spec = shell("echo x");
  spec.append_output = true;
  for (int i = 0; i < 3; ++i) send(launcher::Start{task, slice, spec});
  EXPECT_EQ(end_of(task).wait_status, 0);
  send(launcher::Start{task, slice, spec});
  EXPECT_EQ(end_of(task).wait_status, 0);
  EXPECT_EQ(out(), "x\n");
}

TEST_F(LauncherTask, SignalsReachTheFirstProcessOnlyOrAll) {
  const SliceId slice = prepare();
  const std::string script =
      "trap 'echo first; kill $child; exit 0' USR1; sh -c 'trap \"echo second\" USR1; echo ready; while :; do sleep 0.05; done' & "
      "child=$!; "
      "while :; do wait; done";
  TaskKey task = start(slice, shell(script));
  ASSERT_TRUE(eventually([&] { return has(out(), "ready"); }));
  send(launcher::Signal{task, SIGUSR1, false});
  EXPECT_EQ(end_of(task).wait_status, 0);
  EXPECT_HAS(out(), "first");
  EXPECT_FALSE(has(out(), "second"));

  task = start(
      slice,
      shell("trap 'sleep 0.3; exit 0' USR1; sh -c 'trap \"echo second\" USR1; echo ready; for i in 1 2 3; do sleep 1; done' & "
            "while :; do wait; done"));
  ASSERT_TRUE(eventually([&] { return has(out(), "ready"); }));
  send(launcher::Signal{task, SIGUSR1, true});
  EXPECT_TRUE(eventually([&] { return has(out(), "second") || !alive(pid_of(task)); }));
  end_of(task);
}

TEST_F(LauncherTask, KilledWholeIsGoneWithAllThatHidFromItsSession) {
  const SliceId slice = prepare();
  const TaskKey task =
      start(slice, shell("trap '' TERM; setsid sh -c 'trap \"\" TERM; (setsid sleep 987 & echo $! > inner); sleep 986' & "
                         "while [ ! -s inner ]; do sleep 0.01; done; echo ready; while :; do sleep 1; done"));
  ASSERT_TRUE(eventually([&] { return has(out(), "ready"); }));
  const pid_t inner = std::atoi(read_text(work_ + "/inner").c_str());
  ASSERT_TRUE(alive(inner));
  send(launcher::Signal{task, SIGTERM, true});
  EXPECT_TRUE(alive(pid_of(task)));
  send(launcher::Signal{task, SIGKILL, true});
  EXPECT_TRUE(WIFSIGNALED(end_of(task).wait_status));
  EXPECT_FALSE(alive(inner));
}

TEST_F(LauncherTask, ThatEndsTakesWithItWhatItLeftBehind) {
  const SliceId slice = prepare();
  const TaskKey task = start(slice, shell("setsid sleep 988 > /dev/null 2>&1 & echo $! > left; exit 5"));
  EXPECT_EQ(end_of(task).wait_status, 5 << 8);
  const pid_t left = std::atoi(read_text(work_ + "/left").c_str());
  ASSERT_GT(left, 1);
  EXPECT_TRUE(eventually([&] { return !alive(left); }, 2000));
}

// Since Linux 6.14 a child that is cloned into a group on which cgroup.kill was ever used is killed at once.
TEST_F(LauncherTask, RunsWellAfterOneOfItsSliceWasKilled) {
  hello({});
  const SliceId slice = prepare();
  for (int round = 0; round < 3; ++round) {
    const TaskKey left = start(slice, shell("sleep 990 & exit 3"));
    EXPECT_EQ(end_of(left).wait_status, 3 << 8);
    const TaskKey killed = start(slice, shell("sleep 990"));
    send(launcher::Signal{killed, SIGKILL, true});
    EXPECT_TRUE(WIFSIGNALED(end_of(killed).wait_status));
    EXPECT_EQ(end_of(start(slice, shell("exit 4"))).wait_status, 4 << 8) << "round " << round;
  }
}

TEST_F(LauncherTask, CpuTimeCountsChildrenThatNobodyWaitedFor) {
  const SliceId slice = prepare();
  const Ended end = end_of(start(slice, shell("(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; touch done) & "
                                              "while [ ! -e done ]; do sleep 0.01; done; exec true")));
  EXPECT_GT(end.cpu, milliseconds(30));
  EXPECT_GT(end.mem_peak.value, 4096);
}

TEST_F(LauncherTask, ReleasedSliceKillsItsTasksAndLeavesNoGroup) {
  const SliceId slice = prepare();
  const TaskKey task = start(slice, shell("sleep 989"));
  send(launcher::Release{slice});
  EXPECT_TRUE(WIFSIGNALED(end_of(task).wait_status));
  EXPECT_EQ(wait_for<launcher::Released>().slice, slice);
  for (const auto& group : groups_of(root_)) EXPECT_EQ(access((group + "/test,f#1").c_str(), F_OK), -1) << group;
  send(launcher::Release{slice});  // again
  EXPECT_EQ(wait_for<launcher::Released>().slice, slice);
}

class LauncherDegraded : public Rig {
 protected:
  LauncherDegraded() { want_isolation_ = false; }
};

TEST_F(LauncherDegraded, SaysWhatIsMissingAndStillKillsAWholeTask) {
  const State state = hello({});
  EXPECT_EQ(state.isolation, "none");
  EXPECT_FALSE(state.degraded.empty());
  const SliceId slice = prepare();
  const TaskKey task = start(slice, shell("setsid sh -c '(setsid sleep 990 & echo $! > inner); sleep 991' & "
                                          "while [ ! -s inner ]; do sleep 0.01; done; echo ready; sleep 992"));
  ASSERT_TRUE(eventually([&] { return has(out(), "ready"); }));
  const pid_t inner = std::atoi(read_text(work_ + "/inner").c_str());
  send(launcher::Signal{task, SIGKILL, true});
  EXPECT_TRUE(WIFSIGNALED(end_of(task).wait_status));
  EXPECT_FALSE(alive(inner));
}

}  // namespace bourse::launcher_test
