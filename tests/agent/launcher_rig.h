// A real keeper and launcher in a directory and a cgroup sub-tree of their own, spoken to as the agent does. Taken down, and
// looked after for what it left behind, at the end of each test.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/launcher/channel.h"

namespace bourse::launcher_test {

using launcher::Channel;
using launcher::Ended;
using launcher::Packet;
using launcher::State;

std::string read_text(const std::string& path);
bool eventually(const std::function<bool()>& condition, int ms = 20'000);  // asks again and again; never a fixed wait
bool alive(pid_t pid);                                                     // and not a zombie
std::vector<pid_t> children_of(pid_t pid);
std::vector<std::string> groups_of(const std::string& root);  // directories of that name below /sys/fs/cgroup

class Rig : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  void start_keeper(const std::vector<std::pair<std::string, std::string>>& environment = {});
  void connect();
  State hello(const std::vector<SliceId>& slices);
  void send(const Packet& packet);
  template <class P>
  P wait_for(const std::function<bool(const P&)>& which = {}) {
    for (;;) {
      for (auto it = inbox_.begin(); it != inbox_.end(); ++it) {
        if (const auto* p = std::get_if<P>(&*it); p && (!which || which(*p))) {
          P out = *p;
          inbox_.erase(it);
          return out;
        }
      }
      if (!receive()) {
        ADD_FAILURE() << "no such packet from the launcher";
        return P{};
      }
    }
  }
  SliceId prepare(const SliceLimits& limits = {});
  TaskKey start(const SliceId& slice, const TaskSpec& spec);  // started, or a failure of the test
  pid_t pid_of(const TaskKey& task) const { return pids_.at(task); }
  std::string start_fails(const SliceId& slice, const TaskSpec& spec);
  Ended end_of(const TaskKey& task);
  TaskKey new_task();
  TaskSpec shell(const std::string& script) const;  // as uid 54321, output to `out`
  std::string out() const { return read_text(work_ + "/out"); }
  [[nodiscard]] pid_t launcher_pid() const;  // waits for one that is not `not_this`
  pid_t other_launcher(pid_t than);

  std::string dir_, state_dir_, work_, root_;
  pid_t keeper_ = 0;
  std::optional<Channel> channel_;
  std::map<TaskKey, pid_t> pids_;
  std::vector<SliceId> slices_;
  bool want_isolation_ = true;

 private:
  bool receive();
  void clean_up_by_force();
  std::deque<Packet> inbox_;
  std::uint64_t number_ = 0;
  bool silent_ = false;
};

}  // namespace bourse::launcher_test
