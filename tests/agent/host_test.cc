// The agent's host: artifacts, users, limits, the mock executor, and one life with the real launcher.
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <deque>

#include "agent/host.h"
#include "agent/mock_host.h"
#include "common/world/digest.h"
#include "common/world/files.h"
#include "rig.h"

namespace bourse::testing {
namespace {

class TempDir {
 public:
  TempDir() {
    char pattern[] = "/tmp/bourse-host-XXXXXX";
    if (mkdtemp(pattern) != nullptr) path_ = pattern;
    EXPECT_EQ(chmod(path_.c_str(), 0755), 0);
  }
  ~TempDir() { EXPECT_EQ(std::system(("rm -rf " + path_).c_str()), 0); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Artifact artifact(const std::string& bytes, const std::string& name = "script") {
  return Artifact{name, "sha256:" + sha256_hex(bytes), bytes, {}};
}

TEST(ArtifactsTest, KeepsAScriptOnceForEverybodyToExecute) {
  TempDir dir;
  auto store = ArtifactStore::open(dir.path() + "/a");
  ASSERT_TRUE(store);
  TaskSpec spec = task_spec();
  spec.argv = {"{artifact:script}", "x"};
  spec.artifacts = {artifact("#!/bin/sh\nexit 0\n")};
  ASSERT_TRUE(store->resolve(spec));
  EXPECT_TRUE(spec.artifacts.empty());
  struct stat st;
  ASSERT_EQ(stat(spec.argv[0].c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777U, 0555U);
  EXPECT_EQ(*read_file(spec.argv[0]), "#!/bin/sh\nexit 0\n");
  // From now on the digest is enough, in another life too.
  TaskSpec again = task_spec();
  again.argv = {"{artifact:script}"};
  again.artifacts = {artifact("#!/bin/sh\nexit 0\n")};
  again.artifacts[0].inline_bytes.clear();
  auto next = ArtifactStore::open(dir.path() + "/a");
  ASSERT_TRUE(next->resolve(again));
  EXPECT_EQ(again.argv[0], spec.argv[0]);
}

TEST(ArtifactsTest, RefusesWhatIsNotWhatItsDigestSays) {
  TempDir dir;
  auto store = ArtifactStore::open(dir.path() + "/a");
  Artifact wrong = artifact("one");
  wrong.inline_bytes = "two";
  EXPECT_EQ(store->keep(wrong).error().code(), Code::kInvalid);
  Artifact absent = artifact("one");
  absent.inline_bytes.clear();
  EXPECT_EQ(store->keep(absent).error().code(), Code::kNotFound);
  for (const char* digest : {"sha256:../../etc/passwd", "md5:00", "", "sha256:ABCD"}) {
    Artifact bad = artifact("one");
    bad.digest = digest;
    EXPECT_EQ(store->keep(bad).error().code(), Code::kInvalid) << digest;
  }
  TaskSpec spec = task_spec();
  spec.argv = {"{artifact:script}"};
  EXPECT_EQ(store->resolve(spec).error().code(), Code::kInvalid);
}

TEST(ArtifactsTest, AHalfWrittenFileOfAnEarlierLifeIsNotTrusted) {
  TempDir dir;
  std::string path;
  {
    auto store = ArtifactStore::open(dir.path() + "/a");
    path = *store->keep(artifact("whole"));
  }
  ASSERT_TRUE(write_file(path, "wh"));
  auto store = ArtifactStore::open(dir.path() + "/a");
  Artifact only_digest = artifact("whole");
  only_digest.inline_bytes.clear();
  EXPECT_FALSE(store->keep(only_digest));
  ASSERT_TRUE(store->keep(artifact("whole")));
  EXPECT_EQ(*read_file(path), "whole");
}

TEST(ArtifactsTest, TheLongestUnusedGoFirst) {
  TempDir dir;
  auto store = ArtifactStore::open(dir.path() + "/a", Bytes{70'000});
  std::vector<std::string> paths;
  for (int i = 0; i < 100; ++i) paths.push_back(*store->keep(artifact(std::string(1000, 'a') + std::to_string(i))));
  EXPECT_LE(store->bytes(), Bytes{70'000});
  EXPECT_NE(access(paths[0].c_str(), F_OK), 0);
  EXPECT_EQ(access(paths[99].c_str(), F_OK), 0);
}

TEST(HostTest, AUserMustHaveTheUidThatTheJobSays) {
  EXPECT_TRUE(check_user("root", 0));
  EXPECT_EQ(check_user("root", 1000).error().text(), "user `root' has uid 0 here, the job says 1000");
  EXPECT_EQ(check_user("no-such-user-here", 1).error().code(), Code::kNotFound);
  EXPECT_EQ(check_user("", 0).error().code(), Code::kInvalid);
}

TEST(HostTest, ExclusiveCoresNeedNoQuota) {
  SliceSpec spec = slice_spec(1, 2000, 1);
  IsolationOptions options;
  options.pids_max = 100;
  EXPECT_EQ(limits_of(spec, {}, options)->cpus, MilliCpus{2000});
  spec.cpuset = {4, 5};
  const SliceLimits limits = *limits_of(spec, {}, options);
  EXPECT_EQ(limits.cpus, MilliCpus{0});
  EXPECT_EQ(limits.cpuset, spec.cpuset);
  EXPECT_EQ(limits.mems, std::vector<std::uint32_t>{1});
  EXPECT_EQ(limits.mem, Bytes{1LL << 30});
  EXPECT_EQ(limits.pids, 100u);
  EXPECT_FALSE(limits.devices_limited);
}

TEST(HostTest, ASliceMayOpenTheUsualDevicesAndItsOwn) {
  IsolationOptions options;
  options.limit_devices = true;
  options.devices = devices::usual();
  options.mem_high_permille = 900;
  const SliceSpec spec = slice_spec(1, 2000, 1);
  const TempDir dir;
  const std::string node = dir.path() + "/node";
  if (mknod(node.c_str(), S_IFCHR | 0600, makedev(1, 1)) != 0) GTEST_SKIP() << "only root makes device nodes";
  const SliceLimits without = *limits_of(spec, {}, options), with = *limits_of(spec, {node, "/dev/null"}, options);
  EXPECT_TRUE(without.devices_limited);
  EXPECT_EQ(without.devices.size(), devices::usual().size());
  EXPECT_EQ(with.devices.size(), devices::usual().size() + 1);
  EXPECT_NE(std::find(with.devices.begin(), with.devices.end(), DeviceRule{'c', 1, 1}), with.devices.end());
  EXPECT_EQ(with.mem_high, Bytes{(1LL << 30) / 1000 * 900});
  EXPECT_EQ(limits_of(spec, {"/dev/no-such"}, options).error().text(), "device node /dev/no-such is not there");
  EXPECT_EQ(limits_of(spec, {"/etc/passwd"}, options).error().text(), "/etc/passwd is not a device node");
}

TEST(HostTest, ATaskCanAskForMoreIsolationAndNeverForLess) {
  IsolationOptions options;
  options.filter_root = true;
  options.confine.tmp = launcher::Confine::Tmp::kMemory;
  TaskSpec spec;
  spec.uid = 1000;
  EXPECT_FALSE(confine_of(spec, options)->seccomp);
  spec.isolate = {"private-tmp", "pid"};
  const auto confine = confine_of(spec, options);
  EXPECT_EQ(confine->tmp, launcher::Confine::Tmp::kMemory);
  EXPECT_TRUE(confine->pid && !confine->ipc && !confine->net);
  spec.uid = 0;
  EXPECT_TRUE(confine_of(spec, options)->seccomp);
  options.image_max = Bytes{5 << 20};
  EXPECT_EQ(confine_of(spec, options)->image_bytes, 0U);
  spec.kind = TaskKind::kContainer;
  EXPECT_EQ(confine_of(spec, options)->image_bytes, 5U << 20U);
  spec.isolate = {"shared-tmp"};
  EXPECT_NE(confine_of(spec, options).error().text().find("`shared-tmp' is not a kind of isolation"), std::string::npos);
}

// Turns the reactor until `done`, at most ten seconds.
template <class Done>
bool turn_until(Reactor& reactor, Done done) {
  const Duration end = real_time().mono + seconds(10);
  while (!done()) {
    if (real_time().mono > end) return false;
    reactor.turn(milliseconds(20));
  }
  return true;
}

TEST(MockHostTest, TasksTakeTheTimeTheyAreGiven) {
  TaskSpec spec = task_spec();
  spec.argv = {"mock:40:3"};
  EXPECT_EQ(MockHost::run_of(spec).time, milliseconds(40));
  EXPECT_EQ(MockHost::run_of(spec).exit_code, 3);
  Reactor reactor;
  std::vector<Event> events;
  MockHost host(reactor, {}, [&](Event event) { events.push_back(std::move(event)); });
  host.start();
  host.execute(StartTask{task_key("a"), slice_id(1), spec});
  spec.env = {"BOURSE_MOCK_RUN_MS=3600000"};
  host.execute(StartTask{task_key("b"), slice_id(1), spec});
  host.execute(SignalTask{task_key("b"), SIGTERM, true});
  ASSERT_TRUE(turn_until(reactor, [&] { return events.size() == 5; }));
  EXPECT_EQ(std::get<TaskEnded>(events[3]).wait_status, SIGTERM);
  EXPECT_EQ(std::get<TaskEnded>(events[4]).wait_status, 3 << 8);
}

// --- with the real launcher -------------------------------------------------------------------------------------------------

class RealHost : public ::testing::Test {
 protected:
  void SetUp() override {
    // make check has built the launcher and says where: it may not be missing there.
    const char* bin = std::getenv("BOURSE_BIN");
    if (bin == nullptr) GTEST_SKIP() << "set BOURSE_BIN to the folder of bourse-launcher, as make check does";
    const std::string program = std::string(bin) + "/bourse-launcher";
    ASSERT_EQ(access(program.c_str(), X_OK), 0) << program << " is not built";
    options_.state_dir = dir_.path() + "/state";
    options_.launcher = program;
    options_.cgroup_root = "bourse-test-" + std::to_string(getpid());
    options_.limits.pids_max = 100;
    ASSERT_TRUE(make_directories(options_.state_dir, 0711));
    const struct passwd* me = getpwuid(getuid());
    ASSERT_NE(me, nullptr);
    user_ = me->pw_name;
  }
  void TearDown() override {
    if (options_.state_dir.empty()) return;
    if (!host_) connect();
    bool ended = false;
    host_->end_all([&] { ended = true; });
    EXPECT_TRUE(turn_until(reactor_, [&] { return ended; }));
    EXPECT_TRUE(launcher_processes(options_.state_dir).empty());
  }
  void connect() {
    auto host = Host::make(
        reactor_, options_, nullptr, [this](Event event) { events_.push_back(std::move(event)); }, [this] { return known_; });
    ASSERT_TRUE(host) << host.error().text();
    host_ = *std::move(host);
    host_->start();
  }
  template <class T>
  const T* find() const {
    for (const Event& event : events_)
      if (const T* found = std::get_if<T>(&event)) return found;
    return nullptr;
  }
  template <class T>
  bool await() {
    return turn_until(reactor_, [this] { return find<T>() != nullptr; });
  }
  TaskSpec sh(const std::string& script) {
    TaskSpec spec;
    spec.user = user_;
    spec.uid = getuid();
    spec.gid = getgid();
    spec.directory = "/";
    spec.argv = {"{artifact:script}"};
    spec.artifacts = {artifact("#!/bin/sh\n" + script)};
    spec.env = {"PATH=/usr/bin:/bin"};
    return spec;
  }

  TempDir dir_;
  Reactor reactor_;
  HostOptions options_;
  std::string user_;
  std::deque<Event> events_;
  std::vector<SliceId> known_;
  std::unique_ptr<Host> host_;
};

TEST_F(RealHost, ATaskOutlivesTheHostObjectAndItsExitCodeIsRight) {
  connect();
  ASSERT_TRUE(await<HostTasks>());
  EXPECT_TRUE(find<HostTasks>()->running.empty());
  SliceSpec slice = slice_spec(1, 500);
  slice.resources.numa.clear();
  host_->execute(CarveSlice{slice, {}});
  ASSERT_TRUE(await<SliceCarved>());
  ASSERT_EQ(find<SliceCarved>()->error, "");
  known_ = {slice.id};
  const std::string gate = dir_.path() + "/gate";
  host_->execute(StartTask{task_key("1.0.1"), slice.id, sh("while [ ! -e " + gate + " ]; do sleep 0.02; done\nexit 7\n")});
  ASSERT_TRUE(await<TaskStarted>()) << (find<TaskStartFailed>() ? find<TaskStartFailed>()->reason : "");

  host_.reset();  // as kill -9 would, for the launcher
  events_.clear();
  connect();
  ASSERT_TRUE(await<HostTasks>());
  EXPECT_EQ(find<HostTasks>()->running, std::vector<TaskKey>{task_key("1.0.1")});
  host_.reset();
  events_.clear();
  ASSERT_TRUE(write_file(gate, "open"));
  connect();
  ASSERT_TRUE(await<TaskEnded>());
  EXPECT_TRUE(find<TaskEnded>()->known);
  EXPECT_EQ(find<TaskEnded>()->wait_status, 7 << 8);
  host_->execute(ForgetTask{task_key("1.0.1")});
  host_->execute(EraseSlice{slice.id});
  ASSERT_TRUE(await<SliceErased>());
}

TEST_F(RealHost, SaysWhyATaskCannotStart) {
  connect();
  ASSERT_TRUE(await<HostTasks>());
  SliceSpec slice = slice_spec(1, 500);
  slice.resources.numa.clear();
  host_->execute(CarveSlice{slice, {}});
  ASSERT_TRUE(await<SliceCarved>());
  TaskSpec stranger = sh("exit 0\n");
  stranger.uid += 1;
  host_->execute(StartTask{task_key("a"), slice.id, stranger});
  ASSERT_TRUE(await<TaskStartFailed>());
  EXPECT_NE(find<TaskStartFailed>()->reason.find("the job says"), std::string::npos);
  events_.clear();
  TaskSpec nowhere = sh("exit 0\n");
  nowhere.directory = "/no/such/directory";
  host_->execute(StartTask{task_key("b"), slice.id, nowhere});
  ASSERT_TRUE(await<TaskStartFailed>());
  EXPECT_NE(find<TaskStartFailed>()->reason.find("/no/such/directory"), std::string::npos);
  events_.clear();
  TaskSpec huge = sh("exit 0\n");
  huge.env.push_back("X=" + std::string(launcher::kPacketBytesMax, 'x'));
  host_->execute(StartTask{task_key("c"), slice.id, huge});
  ASSERT_TRUE(await<TaskStartFailed>());
  EXPECT_EQ(find<TaskStartFailed>()->task, task_key("c"));
}

}  // namespace
}  // namespace bourse::testing
