// Warm containers with a real crun and a real launcher: a task that runs in one cannot tell, and nobody is left behind.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "agent/warm_keeper.h"
#include "common/world/spawn.h"
#include "tests/agent/launcher_rig.h"

namespace bourse::launcher_test {

namespace fs = std::filesystem;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class WarmContainer : public Rig {
 protected:
  void SetUp() override {
    Rig::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    if (system("command -v crun >/dev/null 2>&1") != 0) FAIL() << "crun is not installed";
    image_ = dir_ + "/image";
    for (const char* part : {"bin", "dev", "proc", "sys", "tmp", "etc"}) fs::create_directories(fs::path(image_) / part);
    fs::copy_file("/bin/busybox", image_ + "/bin/busybox");
    for (const char* name : {"sh", "cat", "id", "sleep", "echo", "true", "env", "ls"})
      fs::create_symlink("busybox", image_ + "/bin/" + name);
    std::ofstream(image_ + "/etc/image-name") << "tiny\n";
    programs_ = fs::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path() / "bin/";
    new_keeper();
  }
  void TearDown() override {
    warm_.reset();
    EXPECT_TRUE(eventually([&] {  // but for the keeper
      while (waitpid(-1, nullptr, WNOHANG) > 0) {}
      return children_of(getpid()).size() <= 1;
    }));
    Rig::TearDown();
  }
  void new_keeper() {
    warm_ = std::make_unique<WarmKeeper>(
        reactor_, state_dir_, programs_, [](const TaskSpec&) { return Result<launcher::Confine>(launcher::Confine{}); },
        [this](WarmState state) { state_ = std::move(state); });
  }
  TaskSpec container(const std::string& script) const {
    TaskSpec spec = shell(script);
    spec.kind = TaskKind::kContainer;
    spec.image = image_;
    return spec;
  }
  void keep(std::uint32_t count) {
    KeepWarm wanted;
    if (count > 0) wanted.pools = {{"pool", container("true"), count}};
    warm_->keep(wanted);
  }
  bool ready(std::size_t count) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (state_.ready.size() != count && std::chrono::steady_clock::now() < until) reactor_.turn(milliseconds(20));
    return state_.ready.size() == count;
  }
  TaskKey start_in(std::string place, const SliceId& slice, const TaskSpec& spec) {
    const TaskKey task = new_task();
    warm_->claimed(place);
    send(launcher::Start{task, slice, spec, {}, {}, {}, std::move(place)});
    const auto started = wait_for<launcher::StartedTask>([&](const launcher::StartedTask& p) { return p.task == task; });
    pids_[task] = static_cast<pid_t>(started.pid);
    return task;
  }
  std::size_t holders() const {
    std::size_t found = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::string line = read_text(entry.path().string() + "/cmdline");
      std::replace(line.begin(), line.end(), '\0', ' ');
      if (contains(line, "bourse-container ") && contains(line, " --park " + state_dir_)) ++found;
    }
    return found;
  }
  std::size_t directories() const {
    std::error_code error;
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(state_dir_ + "/warm", error), fs::directory_iterator()));
  }
  bool turned(const std::function<bool()>& condition) {
    return eventually([&] {
      reactor_.turn(milliseconds(1));
      return condition();
    });
  }

  Reactor reactor_;
  std::string image_, programs_;
  WarmState state_;
  std::unique_ptr<WarmKeeper> warm_;
};

}  // namespace

TEST_F(WarmContainer, ATaskRunsInItAsIfItHadBeenMadeForIt) {
  keep(1);
  ASSERT_TRUE(ready(1)) << read_text(state_dir_ + "/warm.log");
  EXPECT_GT(state_.ready[0].mem.value, 0);
  TaskSpec spec = container(
      "cat /etc/image-name; pwd; id -u; id -g; echo $(($$ < 100)); umask; echo \"$WHO it is\"; echo here > made; ls /.bourse-wait; "
      "exit 5");
  spec.umask = 027;
  spec.env.push_back("WHO=Ada");
  const std::string place = state_.ready[0].place;
  EXPECT_EQ(end_of(start_in(place, prepare(), spec)).wait_status, 5 << 8) << out();
  EXPECT_TRUE(contains(out(), "tiny\n" + work_ + "\n54321\n54322\n1\n0027\nAda it is\n")) << out();
  EXPECT_TRUE(contains(out(), "\n/.bourse-wait\n")) << "it was made anew";
  EXPECT_EQ(read_text(work_ + "/made"), "here\n");
  keep(0);
  EXPECT_TRUE(turned([&] { return holders() == 0 && directories() == 0; })) << holders() << " " << directories();
}

TEST_F(WarmContainer, ItsTaskIsInTheGroupsOfItsSliceWithTheTasksLimits) {
  keep(1);
  ASSERT_TRUE(ready(1)) << read_text(state_dir_ + "/warm.log");
  TaskSpec spec = container("echo ready; sleep 977");
  spec.rlimits = {{7, 77, 99}};  // RLIMIT_NOFILE
  const TaskKey task = start_in(state_.ready[0].place, prepare(), spec);
  ASSERT_TRUE(turned([&] { return contains(out(), "ready"); })) << out();
  pid_t inside = 0;
  ASSERT_TRUE(eventually([&] {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string line = read_text(entry.path().string() + "/cmdline");
      if (contains(line, "sleep") && contains(line, "977") && !contains(line, "ready"))
        inside = std::atoi(entry.path().filename().c_str());
    }
    return inside > 0;
  }));
  EXPECT_EQ(read_text("/proc/" + std::to_string(inside) + "/cgroup"),
            read_text("/proc/" + std::to_string(pid_of(task)) + "/cgroup"));
  EXPECT_TRUE(
      contains(read_text("/proc/" + std::to_string(inside) + "/limits"), "Max open files            77                   99"));
  send(launcher::Signal{task, SIGKILL, true});
  EXPECT_TRUE(WIFSIGNALED(end_of(task).wait_status));
  EXPECT_TRUE(eventually([&] { return !alive(inside); }));
  keep(0);
  EXPECT_TRUE(turned([&] { return holders() == 0; }));
}

// Who makes a container's process is another program each time; what the task sees of itself must not tell which.
TEST_F(WarmContainer, ATaskHasTheRightsThatItWouldHaveInAColdOne) {
  for (const bool root : {false, true}) {
    SCOPED_TRACE(root);
    TaskSpec spec = container(
        "busybox grep -E 'NoNewPrivs|Cap|Seccomp:|Groups|Uid|Gid|Umask|Sig[A-Z][a-z]+:' /proc/self/status; cat /proc/self/limits "
        "/proc/self/cgroup; "
        "pwd; busybox tail -n +2 /proc/mounts | busybox cut -d' ' -f2-4 | busybox sort; busybox env | busybox sort; "
        "busybox mount -t tmpfs x /mnt 2>&1 | busybox tail -c 24; "
        "echo $(ls -l /proc/self/fd | busybox wc -l) files; set -- $(cat /proc/self/stat); [ $6 -lt 100 ] && echo session of its "
        "own");
    spec.env.push_back("WHO=Ada");
    spec.rlimits = {{7, 77, 99}};
    spec.umask = 027;
    if (root) spec.uid = spec.gid = 0;
    launcher::Confine confine;
    confine.capabilities = launcher::usual_capabilities();
    const SliceId slice = prepare();
    KeepWarm wanted;
    wanted.pools = {{"pool", spec, 1}};
    warm_->keep(wanted);
    ASSERT_TRUE(ready(1)) << read_text(state_dir_ + "/warm.log");
    std::string told[2];
    for (const bool warm : {false, true}) {
      const TaskKey task = new_task();
      const std::string place = warm ? state_.ready[0].place : std::string();
      send(launcher::Start{task, slice, spec, confine, {}, {}, place});
      EXPECT_EQ(end_of(task).wait_status, 0);
      told[warm ? 1 : 0] = out();
      fs::remove(work_ + "/out");
    }
    EXPECT_TRUE(contains(told[0], "NoNewPrivs:\t1")) << told[0];
    EXPECT_TRUE(contains(told[0], "\nWHO=Ada\n")) << told[0];
    const auto lines = [](const std::string& text) {
      std::vector<std::string> out;
      std::istringstream in(text);
      for (std::string line; std::getline(in, line);)
        if (!contains(line, "/.bourse-wait")) out.push_back(line);
      return out;
    };
    EXPECT_EQ(lines(told[1]), lines(told[0]));
    keep(0);
    ASSERT_TRUE(turned([&] { return holders() == 0; }));
  }
}

TEST_F(WarmContainer, ATaskGetsSignalsAndWhatItLeavesEndsWithIt) {
  keep(1);
  ASSERT_TRUE(ready(1)) << read_text(state_dir_ + "/warm.log");
  const TaskKey task = start_in(state_.ready[0].place, prepare(),
                                container("trap 'exit 9' TERM; sleep 975 & echo ready; while :; do sleep 0.01; done"));
  ASSERT_TRUE(turned([&] { return contains(out(), "ready"); })) << out();
  send(launcher::Signal{task, SIGTERM, false});
  EXPECT_EQ(end_of(task).wait_status, 9 << 8);
  keep(0);
  EXPECT_TRUE(turned([&] { return holders() == 0 && directories() == 0; }));
  for (const auto& entry : fs::directory_iterator("/proc"))
    EXPECT_FALSE(contains(read_text(entry.path().string() + "/cmdline"), std::string("sleep") + '\0' + "975")) << entry.path();
}

TEST_F(WarmContainer, ATaskOutlivesWhoKeptItsContainerAndOneThatWaitsDoesNot) {
  keep(2);
  ASSERT_TRUE(ready(2)) << read_text(state_dir_ + "/warm.log");
  const TaskKey task = start_in(state_.ready[0].place, prepare(), container("echo ready; sleep 976"));
  ASSERT_TRUE(turned([&] { return contains(out(), "ready"); })) << out();
  warm_.reset();  // as if the agent had died
  EXPECT_TRUE(eventually([&] { return holders() == 1; })) << holders();
  EXPECT_TRUE(alive(pid_of(task)));
  new_keeper();
  EXPECT_TRUE(turned([&] { return directories() == 1U; })) << "that of the task is in use, the others are removed";
  send(launcher::Signal{task, SIGKILL, true});
  end_of(task);
  EXPECT_TRUE(eventually([&] { return holders() == 0; }));
}

TEST_F(WarmContainer, OneThatHasGoneIsNoFailure) {
  keep(1);
  ASSERT_TRUE(ready(1)) << read_text(state_dir_ + "/warm.log");
  const std::string place = state_.ready[0].place;
  keep(0);
  ASSERT_TRUE(turned([&] { return holders() == 0; }));
  EXPECT_EQ(end_of(start_in(place, prepare(), container("echo cold; exit 3"))).wait_status, 3 << 8);
  EXPECT_EQ(out(), "cold\n");
}

TEST_F(WarmContainer, AnImageThatCannotBeStartedIsToldAndLeftAloneForAWhile) {
  KeepWarm wanted;
  wanted.pools = {{"bad", container("true"), 2}};
  wanted.pools[0].spec.image = dir_ + "/nowhere";
  warm_->keep(wanted);
  EXPECT_TRUE(turned([&] { return !state_.failed.empty(); }));
  EXPECT_EQ(state_.failed.at(0).first, "bad");
  EXPECT_TRUE(state_.ready.empty());
  EXPECT_TRUE(turned([&] { return holders() == 0 && directories() == 0; }));
}

// From the launcher's order to the first byte that the program writes.
TEST_F(WarmContainer, ItIsHadFasterThanOneIsMade) {
  using Clock = std::chrono::steady_clock;
  ASSERT_EQ(mkfifo((work_ + "/pipe").c_str(), 0666), 0);
  chmod((work_ + "/pipe").c_str(), 0666);
  const int pipe = open((work_ + "/pipe").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(pipe, 0);
  TaskSpec spec = container("echo x");
  spec.stdout_path = "pipe";
  const SliceId slice = prepare();
  const auto first_byte = [&](const std::function<TaskKey()>& begin) {
    const auto begun = Clock::now();
    const TaskKey task = begin();
    pollfd p{pipe, POLLIN, 0};
    poll(&p, 1, 20'000);
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
    char bytes[16];
    EXPECT_EQ(read(pipe, bytes, sizeof bytes), 2);
    end_of(task);
    return ms;
  };
  std::vector<double> cold, warm;
  for (int i = 0; i < 9; ++i) {
    cold.push_back(first_byte([&] { return start(slice, spec); }));
    keep(1);
    ASSERT_TRUE(ready(1)) << read_text(state_dir_ + "/warm.log");
    const std::string place = state_.ready[0].place;
    warm.push_back(first_byte([&] { return start_in(place, slice, spec); }));
    keep(0);
    ASSERT_TRUE(turned([&] { return holders() == 0; }));
  }
  close(pipe);
  std::sort(cold.begin(), cold.end()), std::sort(warm.begin(), warm.end());
  std::printf("a container's program writes: cold after %.1f ms, warm after %.1f ms (medians)\n", cold[4], warm[4]);
  EXPECT_EQ(warm.size(), cold.size());  // how they compare is the machine's to say: make bench
}

}  // namespace bourse::launcher_test
