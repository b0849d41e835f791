// Whoever dies, tasks run on, are not started twice, and their exit codes are right. See "Keeper".
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "agent/launcher/exit_log.h"
#include "tests/agent/launcher_rig.h"

namespace bourse::launcher_test {

namespace {

class LauncherDeath : public Rig {
 protected:
  // 50 tasks with an exit code each, ending over about a second; `during` runs while they start and end.
  void fifty(const std::function<void()>& during) {
    const SliceId slice = prepare();
    std::map<TaskKey, int> codes;
    for (int i = 0; i < 50; ++i) {
      const TaskKey task =
          start(slice, shell("echo x >> ran; sleep 0." + std::to_string(10 + i * 3) + "; exit " + std::to_string(i + 1)));
      codes[task] = i + 1;
    }
    during();
    connect();
    hello(slices_);
    for (const auto& [task, code] : codes) {
      const Ended end = end_of(task);
      EXPECT_TRUE(end.known) << to_text(task);
      EXPECT_EQ(end.wait_status, code << 8) << to_text(task);
      send(launcher::Forget{task});
    }
  }
  void kill_and_see_gone(pid_t pid) {
    kill(pid, SIGKILL);
    if (pid == keeper_) waitpid(pid, nullptr, 0);
    EXPECT_TRUE(eventually([&] { return !alive(pid); }));
  }
};

}  // namespace

TEST_F(LauncherDeath, OfTheLauncherAtAnyMomentLosesNoExitCode) {
  std::mt19937 random(std::random_device{}());
  for (int round = 0; round < 4; ++round) {
    const int ms = static_cast<int>(random() % 1500);
    SCOPED_TRACE("killed after " + std::to_string(ms) + " ms");
    fifty([&] {
      const pid_t launcher = launcher_pid();
      ASSERT_GT(launcher, 0);
      (void)eventually([] { return false; }, ms);
      kill_and_see_gone(launcher);
      other_launcher(launcher);
    });
  }
}

TEST_F(LauncherDeath, OfTheKeeperAtAnyMomentLosesNoExitCodeAndItsPlaceIsTaken) {
  std::mt19937 random(std::random_device{}());
  for (int round = 0; round < 4; ++round) {
    const int ms = static_cast<int>(random() % 1500);
    SCOPED_TRACE("killed after " + std::to_string(ms) + " ms");
    fifty([&] {
      const pid_t launcher = launcher_pid();
      ASSERT_GT(launcher, 0);
      (void)eventually([] { return false; }, ms);
      kill_and_see_gone(keeper_);
      keeper_ = launcher;  // which became it
      EXPECT_NE(other_launcher(launcher), 0);
      EXPECT_EQ(read_text("/proc/" + std::to_string(keeper_) + "/comm"), "bourse-keeper\n");
    });
  }
}

TEST_F(LauncherDeath, WhileTasksAreStartedStartsNoneTwice) {
  const SliceId slice = prepare();
  std::mt19937 random(std::random_device{}());
  for (int round = 0; round < 5; ++round) {
    std::vector<TaskKey> tasks;
    const pid_t launcher = launcher_pid();
    for (int i = 0; i < 30; ++i) {
      tasks.push_back(new_task());
      send(launcher::Start{tasks.back(), slice, shell("echo " + to_text(tasks.back()) + " >> ran; exit 7")});
    }
    (void)eventually([] { return false; }, static_cast<int>(random() % 60));
    kill_and_see_gone(launcher);
    other_launcher(launcher);
    connect();
    hello(slices_);
    for (const auto& task : tasks) send(launcher::Start{task, slice, shell("echo " + to_text(task) + " >> ran; exit 7")});
    for (const auto& task : tasks) {
      const Ended end = end_of(task);
      EXPECT_TRUE(end.known);
      EXPECT_EQ(end.wait_status, 7 << 8);
    }
    std::map<std::string, int> runs;
    std::ifstream in(work_ + "/ran");
    for (std::string line; std::getline(in, line);) runs[line]++;
    for (const auto& task : tasks) EXPECT_EQ(runs[to_text(task)], 1) << to_text(task);
  }
}

TEST_F(LauncherDeath, OfBothAtOnceIsNeverAGuess) {
  const SliceId slice = prepare();
  const TaskKey quick = start(slice, shell("exit 3"));
  EXPECT_EQ(end_of(quick).wait_status, 3 << 8);
  const TaskKey slow = start(slice, shell("while [ ! -e go ]; do sleep 0.02; done; exit 4"));
  const TaskKey gone = start(slice, shell("while [ ! -e go1 ]; do sleep 0.02; done; exit 5"));
  const pid_t launcher = launcher_pid();
  kill(keeper_, SIGSTOP);  // so that it restarts nothing in between
  kill(launcher, SIGKILL);
  kill(keeper_, SIGKILL);
  waitpid(keeper_, nullptr, 0);
  std::ofstream(work_ + "/go1") << "\n";
  EXPECT_TRUE(eventually([&] { return !alive(pid_of(gone)); }));
  waitpid(pid_of(gone), nullptr, WNOHANG);
  start_keeper();
  connect();
  const State state = hello(slices_);
  EXPECT_FALSE(state.rebooted);
  EXPECT_TRUE(end_of(quick).known);  // the log knows
  EXPECT_FALSE(end_of(gone).known);
  EXPECT_TRUE(alive(pid_of(slow)));
  std::ofstream(work_ + "/go") << "\n";
  EXPECT_FALSE(end_of(slow).known);
}

TEST_F(LauncherDeath, AtItsCrashPointsLosesNothing) {
  for (const std::string point : {"launcher.after_clone:3", "launcher.before_exit_record:2", "launcher.after_exit_record:2"}) {
    SCOPED_TRACE(point);
    kill(keeper_, SIGTERM);
    waitpid(keeper_, nullptr, 0);
    start_keeper({{"BOURSE_CRASH_AT", point}});
    connect();
    hello({});
    slices_.clear();
    const SliceId slice = prepare();
    std::vector<TaskKey> tasks;
    for (int i = 0; i < 6; ++i) {
      tasks.push_back(new_task());
      (void)channel_->send(
          launcher::Start{tasks.back(), slice, shell("echo " + to_text(tasks.back()) + " >> ran; sleep 0.3; exit 9")});
    }
    EXPECT_TRUE(eventually([&] {
      auto packet = channel_->receive();
      return !packet && packet.error().code() == Code::kGone;
    })) << "it did not crash";
    connect();
    hello(slices_);
    for (const auto& task : tasks)
      send(launcher::Start{task, slice, shell("echo " + to_text(task) + " >> ran; sleep 0.3; exit 9")});
    for (const auto& task : tasks) EXPECT_EQ(end_of(task).wait_status, 9 << 8);
    std::map<std::string, int> runs;
    std::ifstream in(work_ + "/ran");
    for (std::string line; std::getline(in, line);) runs[line]++;
    for (const auto& task : tasks) EXPECT_EQ(runs[to_text(task)], 1);
  }
}

TEST_F(LauncherDeath, OfTheAgentIsFollowedByAReplayOfAllThatEnded) {
  const SliceId slice = prepare();
  const TaskKey first = start(slice, shell("exit 1"));
  end_of(first);
  const TaskKey second = start(slice, shell("sleep 0.2; exit 2"));
  const TaskKey third = start(slice, shell("sleep 993"));
  channel_.reset();  // nobody there
  EXPECT_TRUE(eventually([&] { return !alive(pid_of(second)); }));
  connect();
  const State state = hello(slices_);
  EXPECT_EQ(end_of(first).wait_status, 1 << 8);
  EXPECT_EQ(end_of(second).wait_status, 2 << 8);
  bool listed = false;
  for (const auto& task : state.running)
    listed = listed || (task.task == third && task.pid == pid_of(third) && task.slice == slice);
  EXPECT_TRUE(listed);
  send(launcher::Forget{first});
  connect();  // a second connection replaces the one before
  hello(slices_);
  EXPECT_EQ(end_of(second).wait_status, 2 << 8);
  // Forgotten: a start under that name would be a new one. Nothing was told of it before the answer to this.
  const TaskKey again = start(slice, shell("true"));
  EXPECT_EQ(wait_for<Ended>().task, again);
}

TEST_F(LauncherDeath, SlicesThatTheAgentDoesNotKnowAreKilledAndRemoved) {
  const SliceId known = prepare(), unknown = prepare();
  const TaskKey keep = start(known, shell("sleep 994")), lose = start(unknown, shell("sleep 995"));
  connect();
  hello({known});
  EXPECT_TRUE(WIFSIGNALED(end_of(lose).wait_status));
  EXPECT_TRUE(alive(pid_of(keep)));
  EXPECT_TRUE(eventually([&] {
    for (const auto& group : groups_of(root_)) {
      if (access((group + "/test,f#2").c_str(), F_OK) == 0) return false;
    }
    return true;
  }));
  EXPECT_EQ(start_fails(unknown, shell("true")), "slice test/f#2 is not prepared on this host");
}

TEST_F(LauncherDeath, LogOfAnotherBootIsPutAside) {
  const SliceId slice = prepare();
  end_of(start(slice, shell("exit 1")));
  kill(keeper_, SIGTERM);
  waitpid(keeper_, nullptr, 0);
  std::string log = read_text(state_dir_ + "/exits");
  ASSERT_EQ(log.substr(0, 2), "B ");
  log.replace(2, 8, "deadbeef");
  std::ofstream(state_dir_ + "/exits", std::ios::trunc)
      << log << "S test/f|old test/f#9 1 0 t0\n";  // init must not be taken for it
  start_keeper();
  connect();
  const State state = hello({});
  EXPECT_TRUE(state.rebooted);
  EXPECT_TRUE(state.running.empty());
  EXPECT_EQ(read_text(state_dir_ + "/exits.old").substr(0, 10), "B deadbeef");
}

// --- the log by itself -----------------------------------------------------------------------------------------------

class LauncherExitLog : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/bourse-exits-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    path_ = dir_ + "/exits";
  }
  void TearDown() override {
    for (const char* f : {"/exits", "/exits.new", "/exits.old"}) unlink((dir_ + f).c_str());
    rmdir(dir_.c_str());
  }
  std::unique_ptr<launcher::ExitLog> open() {
    auto log = launcher::ExitLog::open(path_, "boot");
    EXPECT_TRUE(log);
    return *std::move(log);
  }
  void write(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  static TaskKey key(const std::string& task) { return {FrameworkId("f"), TaskId(task)}; }
  std::string dir_, path_;
};

TEST_F(LauncherExitLog, TornTailIsShutOffAndLosesOnlyItself) {
  write("B boot\nS f|a f#1 100 5 t0\nS f|b f#1 101 5 t1\nE 100 256 7 0 4096\nE 10");
  auto log = open();
  EXPECT_EQ(log->find(key("a"))->wait_status, 256);
  EXPECT_EQ(log->find(key("b"))->how, launcher::ExitLog::How::kRunning);
  launcher::EndWriter writer(path_.c_str());
  ASSERT_TRUE(writer.append(101, 9, 3));
  ASSERT_EQ(log->read_new(), std::vector<TaskKey>{key("b")});
  log = open();
  EXPECT_EQ(log->find(key("b"))->wait_status, 9);
}

TEST_F(LauncherExitLog, FirstEndOfAPidCountsAndAnotherTaskMayHaveThePidLater) {
  write("B boot\nS f|a f#1 100 5 t0\nE 100 256 7 0 4096\nE 100 0 0 0 0\nS f|b f#1 100 50 t0\nE 100 512 1 1 1\nE 555 1 1 1 1\n");
  auto log = open();
  EXPECT_EQ(log->find(key("a"))->wait_status, 256);
  EXPECT_EQ(log->find(key("a"))->mem_peak, Bytes{4096});
  EXPECT_EQ(log->find(key("b"))->wait_status, 512);
  EXPECT_TRUE(log->find(key("b"))->out_of_memory);
}

TEST_F(LauncherExitLog, IsRewrittenWhenLargeAndAKeeperFollowsToTheNewFile) {
  auto log = open();
  launcher::EndWriter writer(path_.c_str());
  ASSERT_TRUE(writer.append(4711, 0, 0));  // holds the first file open
  launcher::ExitLog::Task live;
  live.slice = {FrameworkId("f"), 1};
  live.pid = 99;
  live.leaf = "t9";
  log->started(key("live"), live);
  bool shrank = false;
  for (int i = 0; i < 3000; ++i) {
    launcher::ExitLog::Task task;
    task.slice = live.slice;
    task.pid = 1000 + i;
    task.leaf = "t1";
    const TaskKey k = key("task-with-a-name-of-some-length-" + std::to_string(i));
    write(launcher::start_prefix(k, task.slice) + std::to_string(task.pid) + " 0" + launcher::start_suffix("t1", -1));
    log->started(k, task);
    ASSERT_TRUE(log->ended(k, 0, Duration(1), false, Bytes{1}));
    ASSERT_TRUE(log->forget({k}));
    const auto before = log->bytes();
    ASSERT_TRUE(log->tidy());
    shrank = shrank || log->bytes() < before;
  }
  EXPECT_TRUE(shrank);
  EXPECT_LT(log->bytes(), 2 * static_cast<std::int64_t>(launcher::kLogBytesLeast));
  ASSERT_TRUE(writer.append(99, 1024, 5));
  EXPECT_EQ(log->read_new(), std::vector<TaskKey>{key("live")});
  EXPECT_EQ(open()->find(key("live"))->wait_status, 1024);
}

TEST_F(LauncherExitLog, EveryPrefixOfALogCanBeRead) {
  const std::string text =
      "B boot\nS f|a f#1 100 5 t0\nX f|a chdir: no\nS f|b f#1 101 5 t1\nE 101 9 1 0 0\nR f|b 5 1 77\nS f|c f#2 102 6 t0\nU f|c\nF "
      "f|b\n";
  for (std::size_t n = text.find('\n') + 1; n <= text.size(); ++n) {
    unlink(path_.c_str());
    write(text.substr(0, n));
    auto log = open();
    EXPECT_LE(log->tasks().size(), 2U);
    const auto* a = log->find(key("a"));
    EXPECT_TRUE(!a || a->how == launcher::ExitLog::How::kRunning);
  }
}

}  // namespace bourse::launcher_test
