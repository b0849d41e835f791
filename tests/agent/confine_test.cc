// Namespaces, privileges and system calls of tasks, as the task sees them.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/agent/launcher_rig.h"

namespace bourse::launcher_test {

namespace fs = std::filesystem;
using launcher::Confine;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string own_namespace(const std::string& name) { return fs::read_symlink("/proc/self/ns/" + name).string(); }

class LauncherConfine : public Rig {
 protected:
  TaskKey start_confined(const SliceId& slice, const TaskSpec& spec, const Confine& confine) {
    const TaskKey task = new_task();
    send(launcher::Start{task, slice, spec, confine, {}});
    const auto started = wait_for<launcher::StartedTask>([&](const auto& p) { return p.task == task; });
    pids_[task] = static_cast<pid_t>(started.pid);
    return task;
  }
  int run(const TaskSpec& spec, const Confine& confine) { return end_of(start_confined(prepare(), spec, confine)).wait_status; }
  TaskSpec as_root(const std::string& script) const {
    TaskSpec spec = shell(script);
    spec.uid = spec.gid = 0;
    return spec;
  }
  bool scratch_is_empty() const {
    const fs::path scratch = state_dir_ + "/scratch";
    return !fs::exists(scratch) || fs::is_empty(scratch);
  }
};

}  // namespace

TEST_F(LauncherConfine, ByDefaultATaskSharesTmpIpcNetAndProcessesWithItsHost) {
  EXPECT_EQ(run(shell("for n in pid ipc net mnt; do readlink /proc/self/ns/$n; done"), {}), 0);
  EXPECT_EQ(out(),
            own_namespace("pid") + "\n" + own_namespace("ipc") + "\n" + own_namespace("net") + "\n" + own_namespace("mnt") + "\n");
}

TEST_F(LauncherConfine, APrivateTmpIsEmptyHidesTheHostsAndGoesWithTheTask) {
  std::ofstream(dir_ + "/of-the-host") << "x";
  for (const auto tmp : {Confine::Tmp::kDisk, Confine::Tmp::kMemory}) {
    Confine confine;
    confine.tmp = tmp;
    const std::string script = "ls -A /tmp /var/tmp; test -e " + dir_ +
                               "/of-the-host || echo hidden; echo text > /tmp/f && cat /tmp/f; "
                               "touch /var/tmp/g; ls -ld /tmp | cut -c1-4";
    EXPECT_EQ(run(shell(script), confine), 0);
    EXPECT_EQ(out(), "/tmp:\n\n/var/tmp:\nhidden\ntext\ndrwx\n");
    EXPECT_TRUE(eventually([&] { return scratch_is_empty(); }));
    EXPECT_FALSE(fs::exists("/tmp/f"));
    TaskSpec hidden = shell("");
    hidden.argv = {work_ + "/of-the-host"};
    const TaskKey task = new_task();
    send(launcher::Start{task, prepare(), hidden, confine, {}});
    EXPECT_TRUE(has(wait_for<launcher::StartFailed>().reason, "hidden from a task with a private /tmp"));
  }
}

TEST_F(LauncherConfine, APidNamespaceShowsTheTaskItselfOnlyAndItsEndIsTold) {
  Confine confine;
  confine.pid = true;
  EXPECT_EQ(run(shell("echo $$; ls /proc | grep -c '^[0-9]'; grep NoNewPrivs /proc/self/status; id -u; exit 5"), confine), 5 << 8);
  const std::string text = out();
  EXPECT_EQ(text.substr(0, 2), "2\n");
  EXPECT_LE(std::stoi(text.substr(2)), 5);  // its init, the shell, ls and grep
  EXPECT_TRUE(has(text, "NoNewPrivs:\t1\n54321\n"));
  EXPECT_EQ(WTERMSIG(run(shell("kill -9 $$"), confine)), SIGKILL);
  EXPECT_EQ(WTERMSIG(run(shell("kill -TERM $$; sleep 5"), confine)), SIGTERM);
  confine.tmp = Confine::Tmp::kMemory;  // wherever our own programs are
  EXPECT_EQ(run(shell("ls -A /tmp; echo $$"), confine), 0);
  EXPECT_EQ(out(), "2\n");
  confine.tmp = Confine::Tmp::kShared;
  TaskSpec missing = shell("");
  missing.argv = {"/no/such/program"};
  EXPECT_EQ(run(missing, confine), 127 << 8);
  EXPECT_TRUE(has(out(), "exec /no/such/program: No such file or directory"));
}

TEST_F(LauncherConfine, AnInitPassesASignalOnOnceAndDiesWithItsTask) {
  Confine confine;
  confine.pid = true;
  const SliceId slice = prepare();
  const std::string script = "trap 'echo got' TERM; trap 'exit 4' USR1; echo ready; while :; do sleep 0.05; done";
  for (const bool whole : {false, true}) {
    const TaskKey task = start_confined(slice, shell(script), confine);
    ASSERT_TRUE(eventually([&] { return has(out(), "ready"); }));
    send(launcher::Signal{task, SIGTERM, whole});
    EXPECT_TRUE(eventually([&] { return has(out(), "got"); }));
    send(launcher::Signal{task, SIGUSR1, false});
    EXPECT_EQ(end_of(task).wait_status, 4 << 8);
    const std::string text = out();  // a shell also says what became of its sleep
    EXPECT_EQ(text.find("got\n"), text.rfind("got\n")) << "whole: " << whole << ": " << text;
  }
  // Without its init a task does not go on.
  const TaskKey orphan = start_confined(slice, shell("trap '' TERM; echo ready; sleep 985"), confine);
  ASSERT_TRUE(eventually([&] { return has(out(), "ready"); }));
  kill(pid_of(orphan), SIGKILL);
  EXPECT_EQ(WTERMSIG(end_of(orphan).wait_status), SIGKILL);
  // What it leaves behind, even in sessions of its own, ends with it.
  const TaskKey left = start_confined(slice, shell("setsid sleep 984 & setsid sleep 984 & exit 6"), confine);
  EXPECT_EQ(end_of(left).wait_status, 6 << 8);
}

// The loader of a program that starts as root must not do what the user's variables say: here it would write a file as root.
TEST_F(LauncherConfine, AUsersVariablesMeanNothingToAnInitThatIsRootYet) {
  Confine confine;
  confine.pid = true;
  TaskSpec spec = shell("exec bash -c 'echo $LD_DEBUG $MINE'");  // one with a loader, which not every sh has
  spec.env.insert(spec.env.end(), {"LD_DEBUG=files", "LD_DEBUG_OUTPUT=" + work_ + "/loader", "MINE=x"});
  EXPECT_EQ(run(spec, confine), 0);
  EXPECT_EQ(out(), "files x\n");
  int found = 0;
  for (const auto& entry : fs::directory_iterator(work_)) {
    if (!has(entry.path().filename(), "loader")) continue;
    struct stat st {};
    ASSERT_EQ(stat(entry.path().c_str(), &st), 0);
    EXPECT_EQ(st.st_uid, spec.uid) << entry.path();
    ++found;
  }
  EXPECT_GT(found, 0) << "the loader of the task's own program wrote nothing";
}

TEST_F(LauncherConfine, IpcAndNetworkAreItsOwnWhereAsked) {
  Confine confine;
  confine.ipc = confine.net = true;
  const std::string shm = "/dev/shm/" + root_;
  std::ofstream(shm) << "x";
  fs::remove("/dev/shm/mine");  // of a run that failed
  const int status =
      run(shell("ls /dev/shm | wc -l; for n in ipc net; do readlink /proc/self/ns/$n; done; tail -n +3 /proc/self/net/dev | wc -l; "
                "bash -c ': < /dev/tcp/127.0.0.1/1' 2>&1 | grep -o refused | head -1; echo mine > /dev/shm/mine"),
          confine);
  fs::remove(shm);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(out().substr(0, 2), "0\n");
  EXPECT_FALSE(has(out(), own_namespace("ipc")));
  EXPECT_FALSE(has(out(), own_namespace("net")));
  EXPECT_TRUE(has(out(), "\n1\nrefused\n")) << out();  // one interface, and it is up
  EXPECT_FALSE(fs::exists("/dev/shm/mine"));
}

TEST_F(LauncherConfine, RootKeepsOnlyTheCapabilitiesThatAreLeftToIt) {
  Confine confine;
  confine.capabilities = launcher::usual_capabilities();
  const std::string show = "grep -E 'Cap(Eff|Bnd)' /proc/self/status | cut -f2";
  char wanted[40];
  std::snprintf(wanted, sizeof wanted, "%016llx", static_cast<unsigned long long>(confine.capabilities));
  EXPECT_EQ(run(as_root(show), confine), 0);
  EXPECT_EQ(out(), std::string(wanted) + "\n" + wanted + "\n");
  confine.pid = true;  // the same by way of an init
  EXPECT_EQ(run(as_root(show), confine), 0);
  EXPECT_EQ(out(), std::string(wanted) + "\n" + wanted + "\n");
  confine = {};
  EXPECT_EQ(run(as_root(show), confine), 0);
  EXPECT_EQ(out(), "0000000000000000\n0000000000000000\n");
  confine.all_capabilities = true;
  EXPECT_EQ(run(as_root("grep CapEff /proc/self/status"), confine), 0);
  EXPECT_FALSE(has(out(), "0000000000000000"));
}

TEST_F(LauncherConfine, SetuidProgramsWorkOnlyWhereThatIsLeftToThem) {
  for (const char* path : {"/usr/bin/setpriv", "/bin/setpriv"})
    if (fs::exists(path) && !fs::exists(work_ + "/tool")) fs::copy_file(path, work_ + "/tool");
  chmod((work_ + "/tool").c_str(), 04755);
  Confine confine;
  EXPECT_EQ(run(shell("./tool --dump | grep ^euid"), confine), 0) << out();
  EXPECT_EQ(out(), "euid: 54321\n");
  confine.new_privileges = true;
  confine.capabilities = launcher::usual_capabilities();
  EXPECT_EQ(run(shell("./tool --dump | grep ^euid"), confine), 0) << out();
  EXPECT_EQ(out(), "euid: 0\n");
}

TEST_F(LauncherConfine, CallsForTheHostsAdministrationFail) {
  Confine confine;
  confine.all_capabilities = true;
  confine.seccomp = true;
  fs::copy_file(fs::read_symlink("/proc/self/exe").parent_path() / "../tools/calls", work_ + "/calls");
  const std::string script = "grep Seccomp: /proc/self/status; ./calls; echo still runs";
  for (const bool pid : {false, true}) {
    confine.pid = pid;
    EXPECT_EQ(run(as_root(script), confine), 0);
    EXPECT_TRUE(has(out(), "Seccomp:\t2\n")) << out();
    EXPECT_TRUE(has(out(), "swapoff: Operation not permitted\numount: Operation not permitted\n")) << out();
    EXPECT_TRUE(has(out(), "still runs"));
  }
  confine.seccomp = false;
  EXPECT_EQ(run(as_root("./calls"), confine), 0);
  EXPECT_EQ(out(), "swapoff: No such file or directory\numount: No such file or directory\n");
  fs::remove(work_ + "/out");  // root's
  confine = {};
  confine.seccomp = true;
  EXPECT_EQ(run(shell("grep Seccomp: /proc/self/status"), confine), 0);  // a user's
  EXPECT_EQ(out(), "Seccomp:\t2\n");
}

TEST_F(LauncherConfine, WhatDeadLaunchersLeftOnDiskIsRemoved) {
  Confine confine;
  confine.tmp = Confine::Tmp::kDisk;
  for (const std::string point : {"launcher.scratch_made", "launcher.scratch_renamed", "launcher.after_clone"}) {
    SCOPED_TRACE(point);
    kill(keeper_, SIGTERM);
    waitpid(keeper_, nullptr, 0);
    start_keeper({{"BOURSE_CRASH_AT", point}});
    connect();
    hello({});
    slices_.clear();
    const SliceId slice = prepare();
    const TaskKey task = new_task();
    (void)channel_->send(launcher::Start{task, slice, shell("echo text > /tmp/f; sleep 0.3; cat /tmp/f; exit 3"), confine, {}});
    EXPECT_TRUE(eventually([&] {
      auto packet = channel_->receive();
      return !packet && packet.error().code() == Code::kGone;
    })) << "it did not crash";
    connect();
    hello(slices_);
    send(launcher::Start{task, slice, shell("echo text > /tmp/f; sleep 0.3; cat /tmp/f; exit 3"), confine, {}});
    EXPECT_EQ(end_of(task).wait_status, 3 << 8);
    EXPECT_EQ(out(), "text\n");
    EXPECT_TRUE(eventually([&] { return scratch_is_empty(); }));
  }
}

TEST(Confine, WordsThatMeanNothingAreNamed) {
  Confine confine;
  EXPECT_EQ(launcher::restrict(confine, "chroot").error().code(), Code::kInvalid);
  EXPECT_TRUE(has(launcher::restrict(confine, "chroot").error().text(), "private-tmp, private-tmp=memory, pid, ipc, net, seccomp"));
  EXPECT_TRUE(has(launcher::parse_capabilities({"CAP_KILL", "cap_everything"}).error().text(), "`everything' is not a capability"));
  EXPECT_EQ(*launcher::parse_capabilities({"CAP_CHOWN", "kill"}), 1U | 1U << 5U);  // capabilities(7): numbers of linux/capability.h
  EXPECT_FALSE(launcher::read_word(confine, "tmp=ram"));
  EXPECT_FALSE(launcher::read_word(confine, "caps=x"));
}

}  // namespace bourse::launcher_test
