// What has a lease ends on its host when the leader was not heard for it, whoever of agent, launcher and keeper is dead or stopped by then.
#include <signal.h>
#include <time.h>

#include <fstream>

#include "tests/agent/launcher_rig.h"

namespace bourse::launcher_test {

namespace {

class LauncherLease : public Rig {
 protected:
  static std::int64_t now_ms() {
    struct timespec now {};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
  }
  TaskSpec leased(const std::string& script, Duration grace = seconds(30)) const {
    TaskSpec spec = shell(script);
    spec.fence_lease = true;
    spec.kill_grace = grace;
    return spec;
  }
  void lease(std::int64_t ms) {
    send(launcher::Lease{now_ms() + ms});
    send(launcher::Measure{});
    wait_for<launcher::Measured>();  // it is known by now
  }
};

}  // namespace

TEST_F(LauncherLease, PassesAndOnlyWhatHasOneEndsWithoutAnAgent) {
  const SliceId slice = prepare();
  lease(60'000);
  const TaskKey with = start(slice, leased("trap 'exit 7' TERM; while :; do sleep 0.05; done"));
  const TaskKey without = start(slice, shell("sleep 991"));
  lease(200);
  channel_.reset();  // nobody there
  EXPECT_TRUE(eventually([&] { return !alive(pid_of(with)); }));
  EXPECT_TRUE(alive(pid_of(without)));
  connect();
  hello(slices_);
  const Ended end = end_of(with);
  EXPECT_EQ(end.wait_status, 7 << 8) << "it was asked to end, and could clear up";
  EXPECT_TRUE(end.fenced);
  EXPECT_EQ(start_fails(slice, leased("true")), "the leader was not heard for the lease");
  lease(60'000);
  EXPECT_FALSE(end_of(start(slice, leased("true"))).fenced);
  send(launcher::Signal{without, SIGKILL, true});
  EXPECT_FALSE(end_of(without).fenced);
}

TEST_F(LauncherLease, HeardAgainInTimeKeepsIt) {
  const SliceId slice = prepare();
  lease(60'000);
  const TaskKey task = start(slice, leased("while [ ! -e go ]; do sleep 0.02; done"));
  lease(1'000);
  lease(60'000);
  (void)eventually([&] { return !alive(pid_of(task)); }, 1'200);
  EXPECT_TRUE(alive(pid_of(task)));
  std::ofstream(work_ + "/go") << "\n";
  const Ended end = end_of(task);
  EXPECT_EQ(end.wait_status, 0);
  EXPECT_FALSE(end.fenced);
}

TEST_F(LauncherLease, WhatDoesNotHeedItIsKilledAfterItsGrace) {
  const SliceId slice = prepare();
  lease(60'000);
  const TaskKey task = start(slice, leased("trap '' TERM; echo up; while :; do sleep 0.05; done", milliseconds(300)));
  EXPECT_TRUE(eventually([&] { return out() == "up\n"; }));
  lease(100);
  const Ended end = end_of(task);
  EXPECT_EQ(end.wait_status, SIGKILL);
  EXPECT_TRUE(end.fenced);
}

TEST_F(LauncherLease, IsKnownToTheNextLauncher) {
  const SliceId slice = prepare();
  lease(60'000);
  const TaskKey task = start(slice, leased("sleep 992"));
  const pid_t launcher = launcher_pid();
  lease(1'000);
  kill(launcher, SIGKILL);
  other_launcher(launcher);
  EXPECT_TRUE(eventually([&] { return !alive(pid_of(task)); })) << "no agent came to it";
  connect();
  hello(slices_);
  EXPECT_TRUE(end_of(task).fenced);
}

TEST_F(LauncherLease, IsNotLetPassByALauncherThatIsStopped) {
  const SliceId slice = prepare();
  lease(60'000);
  const TaskKey task = start(slice, leased("sleep 990"));
  const pid_t launcher = launcher_pid();
  lease(2'000);
  kill(launcher, SIGSTOP);
  EXPECT_TRUE(eventually([&] { return !alive(pid_of(task)); }, 60'000));
  EXPECT_NE(launcher_pid(), launcher) << "the keeper has put another one in its place";
  connect();
  hello(slices_);
  EXPECT_TRUE(end_of(task).fenced);
}

}  // namespace bourse::launcher_test
