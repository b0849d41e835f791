// The event loop: timers, signals, exits, wake, and that it sleeps when there is nothing to do. And spawn, which needs it.
#include "common/world/reactor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "common/world/files.h"
#include "common/world/log_file.h"
#include "common/world/spawn.h"
#include "common/world/transport.h"
#include "tests/world/support.h"

namespace bourse {
namespace {

using test::run_until;
using test::TempDir;

TEST(Reactor, TimersFireInTheOrderOfTheirTimesAndNeverEarly) {
  Reactor reactor;
  std::vector<int> order;
  const Duration start = real_time().mono;
  Duration fired{0};
  reactor.after(milliseconds(30), [&] {
    order.push_back(3);
    fired = real_time().mono;
  });
  reactor.after(milliseconds(10), [&] { order.push_back(1); });
  reactor.after(milliseconds(10), [&] { order.push_back(2); });  // same time: in the order they were made
  ASSERT_TRUE(run_until(reactor, [&] { return order.size() == 3; }));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_GE(fired - start, milliseconds(30));
}

TEST(Reactor, ACancelledTimerDoesNotFireEvenInTheTurnInWhichItIsDue) {
  Reactor reactor;
  bool fired = false, over = false;
  Reactor::TimerId second = 0;
  reactor.after(milliseconds(5), [&] { reactor.cancel(second); });
  second = reactor.after(milliseconds(5), [&] { fired = true; });
  const auto third = reactor.after(milliseconds(1), [&] { fired = true; });
  reactor.cancel(third);
  reactor.cancel(third);  // harmless
  reactor.after(milliseconds(20), [&] { over = true; });
  ASSERT_TRUE(run_until(reactor, [&] { return over; }));
  EXPECT_FALSE(fired);
}

TEST(Reactor, AZeroTimerThatArmsItselfStarvesNobody) {
  Reactor reactor;
  int spins = 0;
  bool other = false;
  std::function<void()> spin = [&] {
    ++spins;
    if (spins < 100'000) reactor.after(Duration{0}, spin);
  };
  reactor.after(Duration{0}, spin);
  reactor.after(milliseconds(5), [&] { other = true; });
  ASSERT_TRUE(run_until(reactor, [&] { return other; }));
  EXPECT_LT(spins, 100'000);
}

TEST(Reactor, SleepsUntilSomethingHappens) {
  Reactor reactor;
  for (int i = 0; i < 100; ++i) reactor.cancel(reactor.after(milliseconds(20 + i), [] {}));
  reactor.after(milliseconds(250), [&] { reactor.stop(); });
  int turns = 0;
  while (reactor.turn(Duration::max())) ++turns;
  EXPECT_LE(turns, 3);
  EXPECT_FALSE(reactor.turn(Duration{0}));  // stopped stays stopped
}

TEST(Reactor, FarTimersDoNotOverflow) {
  Reactor reactor;
  bool fired = false;
  reactor.after(Duration::max(), [&] { fired = true; });
  reactor.after(Duration::min(), [&] { reactor.stop(); });
  reactor.run();
  EXPECT_FALSE(fired);
}

TEST(Reactor, WakeRunsOnTheLoopFromAnyThreadAndLosesNothing) {
  Reactor reactor;
  const auto loop = std::this_thread::get_id();
  int count = 0;
  bool right_thread = true;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i)
        reactor.wake([&] {
          ++count;
          right_thread = right_thread && std::this_thread::get_id() == loop;
        });
    });
  EXPECT_TRUE(run_until(reactor, [&] { return count == 4000; }));
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(right_thread);
}

TEST(Reactor, DeferredWorkRunsBeforeTheLoopSleeps) {
  Reactor reactor;
  std::vector<int> order;
  reactor.defer([&] {
    order.push_back(1);
    reactor.defer([&] {
      order.push_back(2);
      reactor.stop();
    });
  });
  reactor.run();  // would sleep for ever
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(Reactor, ATurnThatDidDeferredWorkDoesNotSleep) {
  Reactor reactor;
  bool done = false;
  reactor.defer([&] { reactor.defer([&] { done = true; }); });
  const Duration start = real_time().mono;
  while (!done) reactor.turn(seconds(30));
  EXPECT_LT(real_time().mono - start, seconds(20));
}

TEST(Reactor, AWatchMayRemoveItselfAndOthers) {
  Reactor reactor;
  int a[2], b[2];
  ASSERT_EQ(pipe(a), 0);
  ASSERT_EQ(pipe(b), 0);
  ASSERT_TRUE(write_all(a[1], "x"));
  ASSERT_TRUE(write_all(b[1], "x"));
  int calls = 0;
  Reactor::WatchId first = 0, second = 0;
  const auto callback = [&, padding = std::string(100, 'p')](std::uint32_t events) {
    EXPECT_NE(events & EPOLLIN, 0U);
    ++calls;
    reactor.unwatch(first);
    reactor.unwatch(second);
    EXPECT_EQ(padding.size(), 100U);  // still alive
  };
  first = reactor.watch(a[0], EPOLLIN, callback);
  second = reactor.watch(b[0], EPOLLIN, callback);
  for (int i = 0; i < 5; ++i) reactor.turn(milliseconds(1));
  EXPECT_EQ(calls, 1);
  for (const int fd : {a[0], a[1], b[0], b[1]}) close(fd);
}

TEST(Reactor, ASignalIsAnEvent) {
  Reactor reactor;
  int hangups = 0, users = 0;
  reactor.on_signal(SIGHUP, [&] { ++hangups; });
  reactor.on_signal(SIGUSR2, [&] { ++users; });
  kill(getpid(), SIGHUP);
  kill(getpid(), SIGUSR2);
  EXPECT_TRUE(run_until(reactor, [&] { return hangups == 1 && users == 1; }));
}

TEST(Reactor, ASignalDoesNotFallToAThreadThatIsOlderThanItsHandler) {
  // As in every program of ours: sockets and the log first, signals later. Taken by one of their threads, it would kill us.
  EXPECT_EQ(test::in_child([] {
              Reactor reactor;
              Context context;
              TempDir dir;
              LogFile::Content content;
              auto log = LogFile::open(dir / "log", content);
              bool flushed = false, asked = false;
              (*log)->append(reactor, Safety::kPower, {"x"}, [&](const Result<>&) { flushed = true; });
              if (!run_until(reactor, [&] { return flushed; })) return 1;
              reactor.on_signal(SIGTERM, [&] { asked = true; });
              kill(getpid(), SIGTERM);
              return run_until(reactor, [&] { return asked; }) ? 0 : 2;
            }),
            0);
}

TEST(Reactor, ReportsHowChildrenEnded) {
  Reactor reactor;
  std::vector<int> statuses;
  for (int i = 0; i < 20; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      if (i % 2 == 1) kill(getpid(), SIGKILL);
      _exit(i);
    }
    reactor.on_exit(pid, [&, i](int status) {
      statuses.push_back(status);
      if (i % 2 == 1) {
        EXPECT_EQ(WTERMSIG(status), SIGKILL);
      } else {
        EXPECT_EQ(WEXITSTATUS(status), i);
      }
    });
  }
  EXPECT_TRUE(run_until(reactor, [&] { return statuses.size() == 20; }));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // all reaped
}

// --- spawn -------------------------------------------------------------------------------------------------------------------

int run_shell(Reactor& reactor, SpawnOptions options, const std::string& script) {
  options.argv = {"sh", "-c", script};
  const auto pid = spawn(options);
  EXPECT_TRUE(pid) << pid.error().text();
  if (!pid) return -1;
  int status = -1;
  bool ended = false;
  reactor.on_exit(*pid, [&](int s) {
    status = s;
    ended = true;
  });
  EXPECT_TRUE(run_until(reactor, [&] { return ended; }));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(Spawn, TheChildHasTheEnvironmentDirectoryAndFilesItWasGiven) {
  Reactor reactor;
  TempDir dir;
  SpawnOptions options;
  options.env = {"COLOUR=green", "PATH"};
  options.directory = dir.path();
  options.stdout_path = dir / "out";
  options.stderr_path = dir / "err";
  EXPECT_EQ(run_shell(reactor, options, "/bin/pwd; echo $COLOUR; echo bad >&2; exit 7"), 7);
  EXPECT_EQ(*read_file(dir / "out"), dir.path() + "\ngreen\n");
  EXPECT_EQ(*read_file(dir / "err"), "bad\n");
}

TEST(Spawn, TheChildInheritsNeitherDescriptorsNorSignalSettings) {
  Reactor reactor;
  reactor.on_signal(SIGUSR1, [] {});  // blocked here
  TempDir dir;
  const int leak = open((dir / "leak").c_str(), O_RDWR | O_CREAT, 0600);  // not close-on-exec
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  SpawnOptions options;
  options.stdout_path = dir / "out";
  options.pass = {{pipe_fds[1], 3}};
  EXPECT_EQ(run_shell(reactor, options, "ls /proc/$$/fd; grep -E 'SigBlk|SigIgn' /proc/self/status; echo hello >&3"), 0);
  std::istringstream out(*read_file(dir / "out"));
  std::string word;
  std::vector<std::string> words;
  while (out >> word) words.push_back(word);
  // 32 and 33 are the C library's own; they come ignored from a parent that was started by posix_spawn (make does that).
  if (words.size() == 8 && words[7].size() == 16) words[7][7] = words[7][8] = '0';
  EXPECT_EQ(words, (std::vector<std::string>{"0", "1", "2", "3", "SigBlk:", "0000000000000000", "SigIgn:", "0000000000000000"}));
  char text[6] = {};
  EXPECT_EQ(read(pipe_fds[0], text, 6), 6);
  EXPECT_EQ(std::string(text, 6), "hello\n");
  close(leak);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

TEST(Spawn, AProgramThatCannotBeStartedIsAnErrorThatNamesIt) {
  SpawnOptions options;
  options.argv = {"/no/such/program"};
  for (const auto& pid : {spawn(options), spawn_detached(options)}) {
    ASSERT_FALSE(pid);
    EXPECT_EQ(pid.error().text(), "exec /no/such/program: No such file or directory");
  }
  options.argv = {"/bin/true"};
  options.directory = "/no/such/directory";
  EXPECT_EQ(spawn(options).error().text(), "chdir /no/such/directory: No such file or directory");
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // nothing left to reap
}

TEST(Spawn, ADetachedChildIsNotOursAndHasItsOwnSession) {
  TempDir dir;
  ASSERT_EQ(mkfifo((dir / "go").c_str(), 0600), 0);
  SpawnOptions options;
  options.argv = {"sh", "-c", "cut -d' ' -f1,6 /proc/self/stat > out; read x < go"};
  options.directory = dir.path();
  const auto pid = spawn_detached(options);
  ASSERT_TRUE(pid) << pid.error().text();
  EXPECT_EQ(waitpid(*pid, nullptr, WNOHANG), -1);
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, *pid, 0));
  ASSERT_GE(pidfd, 0);
  EXPECT_NE(getsid(*pid), getsid(0));
  EXPECT_NE(getsid(*pid), -1);
  std::ofstream(dir / "go") << "x\n";
  Reactor reactor;
  bool ended = false;
  reactor.watch(pidfd, EPOLLIN, [&](std::uint32_t) { ended = true; });
  EXPECT_TRUE(run_until(reactor, [&] { return ended; }));
  close(pidfd);
}

}  // namespace
}  // namespace bourse
