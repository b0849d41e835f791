// Tasks that start in turn: one after the other in their slice, without anybody asking.
#include <signal.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/agent/launcher_rig.h"

namespace bourse::launcher_test {

namespace {

class LauncherTurn : public Rig {
 protected:
  SliceId slice_;

  // Writes its name, waits for a file of that name with ".go" if it is to, and writes its name again.
  TaskKey give(const std::string& name, bool waits = false) {
    TaskSpec spec =
        shell("echo " + name + "; " + (waits ? "while ! [ -e " + name + ".go ]; do sleep 0.01; done; " : "") + "echo /" + name);
    spec.append_output = true;
    spec.in_turn = true;
    const TaskKey key = new_task();
    send(launcher::Start{key, slice_, std::move(spec)});
    return key;
  }
  void go(const std::string& name) { std::ofstream(work_ + "/" + name + ".go") << "x"; }
  launcher::StartFailed failure_of(const TaskKey& task) {
    return wait_for<launcher::StartFailed>([&](const auto& p) { return p.task == task; });
  }
};

}  // namespace

TEST_F(LauncherTurn, OfEachComesWhenTheOneBeforeHasEndedInTheOrderGiven) {
  slice_ = prepare();
  const TaskKey a = give("a", true), b = give("b"), c = give("c", true), d = give("d");
  ASSERT_TRUE(eventually([&] { return out() == "a\n"; }));
  go("a");
  EXPECT_EQ(end_of(a).wait_status, 0);
  EXPECT_EQ(end_of(b).wait_status, 0);
  ASSERT_TRUE(eventually([&] { return out() == "a\n/a\nb\n/b\nc\n"; })) << out();
  go("c");
  end_of(c);
  const auto last = end_of(d);
  EXPECT_EQ(out(), "a\n/a\nb\n/b\nc\n/c\nd\n/d\n");
  EXPECT_GT(last.started, Duration(0));
  EXPECT_GE(last.ended, last.started);
}

TEST_F(LauncherTurn, InAnotherSliceIsNotWaitedFor) {
  slice_ = prepare();
  const TaskKey a = give("a", true);
  ASSERT_TRUE(eventually([&] { return out() == "a\n"; }));
  slice_ = prepare();
  end_of(give("b"));
  go("a");
  end_of(a);
}

TEST_F(LauncherTurn, ComesOnlyAfterWhatATaskLeftRunningIsGone) {
  slice_ = prepare();
  TaskSpec spec = shell("(trap '' TERM; while :; do echo left >> left; sleep 0.01; done) & until [ -e left ]; do sleep 0.01; done");
  const TaskKey a = start(slice_, spec);
  TaskSpec next = shell("cp left before; sleep 0.2; cmp left before && echo same");
  next.in_turn = true;
  const TaskKey b = new_task();
  send(launcher::Start{b, slice_, next});
  end_of(a);
  end_of(b);
  EXPECT_EQ(out(), "same\n");
}

TEST_F(LauncherTurn, IsLostByWhoeverIsTakenBackAndNotByWhoRuns) {
  slice_ = prepare();
  const TaskKey a = give("a", true), b = give("b"), c = give("c"), d = give("d");
  ASSERT_TRUE(eventually([&] { return out() == "a\n"; }));
  send(launcher::Signal{a, 0, false});  // it runs: nothing comes of it
  send(launcher::Signal{b, 0, false});
  EXPECT_TRUE(failure_of(b).withdrawn);
  send(launcher::Signal{c, SIGTERM, true});
  EXPECT_TRUE(failure_of(c).withdrawn);
  go("a");
  EXPECT_EQ(end_of(a).wait_status, 0);
  EXPECT_EQ(end_of(d).wait_status, 0);
  EXPECT_EQ(out(), "a\n/a\nd\n/d\n");
}

TEST_F(LauncherTurn, GoesToTheNextWhenOneCannotStart) {
  slice_ = prepare();
  const TaskKey a = give("a", true);
  TaskSpec bad = shell("true");
  bad.argv = {"/nowhere/program"};
  bad.in_turn = true;
  const TaskKey b = new_task();
  send(launcher::Start{b, slice_, bad});
  const TaskKey c = give("c");
  ASSERT_TRUE(eventually([&] { return out() == "a\n"; }));
  go("a");
  EXPECT_FALSE(failure_of(b).withdrawn);
  EXPECT_EQ(end_of(c).wait_status, 0);
  end_of(a);
}

TEST_F(LauncherTurn, IsForgottenWithTheConnectionAndAskedForAgain) {
  slice_ = prepare();
  const TaskKey a = give("a", true), b = give("b");
  ASSERT_TRUE(eventually([&] { return out() == "a\n"; }));
  connect();
  const State state = hello({slice_});
  ASSERT_EQ(state.running.size(), 1u);
  EXPECT_EQ(state.running[0].task, a);
  TaskSpec spec = shell("echo b; echo /b");
  spec.append_output = spec.in_turn = true;
  send(launcher::Start{b, slice_, spec});
  send(launcher::Start{b, slice_, spec});  // known by now: once is enough
  go("a");
  end_of(a);
  end_of(b);
  EXPECT_EQ(out(), "a\n/a\nb\n/b\n");
}

TEST_F(LauncherTurn, DoesNotComeInASliceThatIsReleased) {
  slice_ = prepare();
  const TaskKey a = give("a", true), b = give("b");
  ASSERT_TRUE(eventually([&] { return out() == "a\n"; }));
  send(launcher::Release{slice_});
  EXPECT_TRUE(failure_of(b).withdrawn);
  wait_for<launcher::Released>();
  EXPECT_EQ(out(), "a\n");
  slices_.clear();
}

// While enough wait to keep the slice busy, ends are told together: none of them may be lost or out of order by that.
TEST_F(LauncherTurn, OfManyShortOnesIsToldOfEach) {
  slice_ = prepare();
  std::vector<TaskKey> all;
  for (int i = 0; i < 40; ++i) {
    TaskSpec spec = shell("true");
    spec.argv = {"/bin/true"};
    spec.in_turn = true;
    all.push_back(new_task());
    send(launcher::Start{all.back(), slice_, std::move(spec)});
  }
  Duration before{0};
  for (const TaskKey& key : all) {
    const auto ended = wait_for<launcher::Ended>();
    EXPECT_EQ(ended.task, key);
    EXPECT_TRUE(ended.known);
    EXPECT_GE(ended.started, before);
    before = ended.ended;
  }
}

}  // namespace bourse::launcher_test
