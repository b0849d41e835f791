#include "tests/agent/launcher_rig.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace bourse::launcher_test {

namespace fs = std::filesystem;

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();  // of a process that ends meanwhile: what there is, where an iterator would throw
  return out.str();
}

bool eventually(const std::function<bool()>& condition, int ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    poll(nullptr, 0, 2);
  }
  return true;
}

bool alive(pid_t pid) {
  const std::string text = read_text("/proc/" + std::to_string(pid) + "/stat");
  const auto at = text.rfind(") ");
  return at != std::string::npos && text[at + 2] != 'Z' && text[at + 2] != 'X';
}

std::vector<pid_t> children_of(pid_t pid) {
  std::istringstream in(read_text("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children"));
  std::vector<pid_t> out;
  for (pid_t child = 0; in >> child;) out.push_back(child);
  return out;
}

std::vector<std::string> groups_of(const std::string& root) {
  std::vector<std::string> out;
  std::error_code ignored;
  for (const auto& mount : fs::directory_iterator("/sys/fs/cgroup", ignored)) {
    if (fs::exists(mount.path() / root, ignored)) out.push_back((mount.path() / root).string());
  }
  if (fs::exists("/sys/fs/cgroup/" + root, ignored)) out.push_back("/sys/fs/cgroup/" + root);  // version 2 alone
  return out;
}

static std::string launcher_program() {
  if (const char* bin = std::getenv("BOURSE_BIN")) return std::string(bin) + "/bourse-launcher";
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path() / "bin/bourse-launcher";
}

void Rig::SetUp() {
  const char* tmp = std::getenv("TMPDIR");
  std::string name = std::string(tmp ? tmp : "/tmp") + "/bourse-launcher-XXXXXX";
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  dir_ = name;
  chmod(dir_.c_str(), 0755);
  state_dir_ = dir_ + "/state";
  work_ = dir_ + "/work";
  ASSERT_EQ(mkdir(work_.c_str(), 0777), 0);
  chmod(work_.c_str(), 0777);
  root_ = "bourse-test-" + name.substr(name.size() - 6);
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a killed keeper leaves is ours to clean up, not init's
  start_keeper();
  if (HasFatalFailure()) return;
  connect();
  const State state = hello({});
  if (want_isolation_ && (state.isolation == "none" || !state.degraded.empty())) {
    const std::string why = state.isolation + (state.degraded.empty() ? "" : ": " + state.degraded.front());
    if (std::getenv("BOURSE_ALLOW_DEGRADED")) GTEST_SKIP() << "isolation is degraded here: " << why;
    FAIL() << "isolation is degraded here (BOURSE_ALLOW_DEGRADED=1 skips): " << why;
  }
}

void Rig::start_keeper(const std::vector<std::pair<std::string, std::string>>& environment) {
  const std::string program = launcher_program();
  ASSERT_EQ(access(program.c_str(), X_OK), 0) << program << " is not built";
  keeper_ = fork();
  ASSERT_GE(keeper_, 0);
  if (keeper_ == 0) {
    for (const auto& [key, value] : environment) setenv(key.c_str(), value.c_str(), 1);
    execl(program.c_str(), "bourse-launcher", "--keeper", "--state", state_dir_.c_str(), "--cgroup-root", root_.c_str(),
          want_isolation_ ? nullptr : "--no-isolation", nullptr);
    _exit(127);
  }
}

void Rig::connect() {
  inbox_.clear();
  Result<int> fd = Error(Code::kBusy, "not tried");
  ASSERT_TRUE(eventually([&] {
    fd = launcher::connect_launcher(state_dir_);
    return static_cast<bool>(fd);
  })) << fd.error().text();
  channel_.emplace(*fd);
}

bool Rig::receive() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (;;) {
    auto packet = channel_->receive();
    if (packet) {
      inbox_.push_back(*std::move(packet));
      return true;
    }
    if (packet.error().code() != Code::kBusy) {
      ADD_FAILURE() << packet.error().text();
      return false;
    }
    pollfd p{channel_->fd(), POLLIN, 0};
    if (std::chrono::steady_clock::now() > until) silent_ = true;
    if (silent_) return false;  // one long wait is enough for a test that has failed
    poll(&p, 1, 1000);
  }
}

void Rig::send(const Packet& packet) {
  const auto sent = channel_->send(packet);
  EXPECT_TRUE(sent) << sent.error().text();
}

State Rig::hello(const std::vector<SliceId>& slices) {
  send(launcher::Hello{slices});
  return wait_for<State>();
}

SliceId Rig::prepare(const SliceLimits& limits) {
  const SliceId slice{FrameworkId("test/f"), ++number_};
  send(launcher::Prepare{slice, limits});
  const auto prepared = wait_for<launcher::Prepared>();
  EXPECT_EQ(prepared.error, "");
  slices_.push_back(slice);
  return slice;
}

TaskKey Rig::new_task() { return {FrameworkId("test/f"), TaskId("t" + std::to_string(++number_))}; }

TaskKey Rig::start(const SliceId& slice, const TaskSpec& spec) {
  const TaskKey task = new_task();
  send(launcher::Start{task, slice, spec});
  for (;;) {
    for (auto it = inbox_.begin(); it != inbox_.end(); ++it) {
      if (const auto* started = std::get_if<launcher::StartedTask>(&*it); started && started->task == task) {
        pids_[task] = static_cast<pid_t>(started->pid);
        inbox_.erase(it);
        return task;
      }
      if (const auto* failed = std::get_if<launcher::StartFailed>(&*it); failed && failed->task == task) {
        ADD_FAILURE() << failed->reason;
        return task;
      }
    }
    if (!receive()) {
      ADD_FAILURE() << "no answer to Start";
      return task;
    }
  }
}

std::string Rig::start_fails(const SliceId& slice, const TaskSpec& spec) {
  send(launcher::Start{new_task(), slice, spec});
  return wait_for<launcher::StartFailed>().reason;
}

Ended Rig::end_of(const TaskKey& task) {
  return wait_for<Ended>([&](const Ended& e) { return e.task == task; });
}

TaskSpec Rig::shell(const std::string& script) const {
  TaskSpec spec;
  spec.argv = {"/bin/sh", "-c", script};
  spec.env = {"PATH=/usr/bin:/bin"};
  spec.uid = 54321;
  spec.gid = 54322;
  spec.directory = work_;
  spec.stdout_path = "out";
  return spec;
}

pid_t Rig::launcher_pid() const {
  for (const pid_t child : children_of(keeper_)) {
    if (read_text("/proc/" + std::to_string(child) + "/comm") == "bourse-launcher\n") return child;
  }
  return 0;
}

pid_t Rig::other_launcher(pid_t than) {
  pid_t now = 0;
  EXPECT_TRUE(eventually([&] {
    now = launcher_pid();
    return now != 0 && now != than;
  }));
  return now;
}

// For a launcher that is broken, or was made so by a mutant.
void Rig::clean_up_by_force() {
  const pid_t launcher = launcher_pid();
  kill(keeper_, SIGKILL);
  if (launcher > 0) kill(launcher, SIGKILL);
  waitpid(keeper_, nullptr, 0);
  const auto isolator = make_isolator(root_, want_isolation_);
  EXPECT_TRUE(eventually([&] {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {}
    return isolator->recover({}) && isolator->remove_root();
  }));
}

void Rig::TearDown() {
  channel_.reset();
  // A keeper that took over is our child too, since we are a subreaper.
  if (keeper_ > 0) kill(keeper_, SIGTERM);
  int status = 0;
  if (!eventually([&] { return keeper_ <= 0 || waitpid(keeper_, &status, WNOHANG) == keeper_; })) {
    ADD_FAILURE() << "the keeper does not end";
    clean_up_by_force();
  }
  EXPECT_EQ(status, 0);
  while (waitpid(-1, &status, WNOHANG) > 0) {}
  EXPECT_TRUE(children_of(getpid()).empty()) << "processes are left";
  EXPECT_EQ(groups_of(root_), std::vector<std::string>{});
  std::error_code error;
  fs::remove_all(dir_, error);
  EXPECT_FALSE(error);
}

}  // namespace bourse::launcher_test
