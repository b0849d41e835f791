// The launcher: serves one agent connection, starts tasks in leaves, reaps, records, kills. See protocol.h and keeper.h.
//
// One thread, one epoll. Its truth is the exit log; the rest is remade from it and from the cgroup tree after a restart. The
// agent may come and go; without it the launcher goes on reaping.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/launcher/channel.h"
#include "agent/launcher/child.h"
#include "agent/launcher/exit_log.h"
#include "agent/launcher/keeper.h"
#include "agent/launcher/lease.h"
#include "agent/launcher/proofs.h"
#include "agent/launcher/scratch.h"
#include "agent/launcher/turns.h"
#include "agent/launcher/users.h"

namespace bourse::launcher {

constexpr std::size_t kTasksMax = 20'000;  // not forgotten, on one host: what State can tell in one packet

class Launcher {
 public:
  explicit Launcher(Options options);
  ~Launcher();
  int run();  // exit status of the process

 private:
  struct Watch;  // a task that is nobody's child any more
  Result<> open();
  void wait_for_half_started();
  void take_over();
  void take_over_task(const TaskKey& key, ExitLog::Task& task);
  Result<> loop();

  // From the agent.
  void accept_agent();
  void read_agent();
  void handle(Hello hello);
  void handle(Prepare prepare);
  void handle(Release release);
  void handle(Start start);
  Result<> into_container(Start& start, Launch& plan);
  Result<> into_guest(Start& start, Launch& plan);
  void sweep_guests(const std::string& uri);
  Launched start_in_leaf(const Start& start, Launch& plan, LaunchFailed& failed);
  void handle(const Signal& signal);
  void handle(const Forget& forget);
  void forget_all();
  void handle(const Measure&);
  void handle(const LimitLent& limit);
  void handle(const Squeeze& squeeze);
  void handle(const Lease& lease);
  void send(const Packet& packet);
  void begin(Start start);
  void next_in_turn(const SliceId& slice);
  void withdrawn(const Start& start, const std::string& why);
  [[nodiscard]] bool no_hurry(const SliceId& slice) const;  // to hear of what starts and ends in it
  void hold_start(const Start& start, pid_t pid);
  void tell_due();   // starts and ends that were held and are due
  void tell_held();  // ends
  void send_end(const TaskKey& key, const ExitLog::Task& task);
  void tell(const TaskKey& key, const ExitLog::Task& task);  // StartedTask or Ended

  // Tasks with fence = lease. See lease.h
  void leased(const TaskKey& key, const ExitLog::Task& task);  // runs
  void end_leased();                                           // what is due
  void next_lease_due();
  [[nodiscard]] std::int64_t lease_until() const;

  // Ends.
  void reap();
  void first_process_ended(const TaskKey& key, int wait_status, Duration cpu, Bytes largest);
  void log_has_grown();
  void not_known(const TaskKey& key);
  void clear_leaf(const TaskKey& key);  // then the agent is told
  void cleared(const TaskKey& key, const ExitLog::Task& task);
  void work();  // all that has to be tried again
  void ask_for_work();
  void stop();
  void note(const Result<>& result);

  Options options_;
  std::string boot_id_;
  std::unique_ptr<Isolator> isolator_;
  std::unique_ptr<ExitLog> log_;
  Users users_;
  Proofs proofs_;
  std::unique_ptr<Scratch> scratch_;
  std::string programs_;  // directory of our own program, and of those that go with it
  Channel agent_;
  int epoll_ = -1, signals_ = -1, null_fd_ = -1;
  pid_t keeper_ = 0;
  bool privileged_ = false, rebooted_ = false, stopping_ = false, recovering_ = false, quiet_ = false;
  struct rlimit descriptors_ {};
  std::set<SliceId> known_;                   // prepared
  std::set<SliceId> lent_;                    // of those, revocable ones: their tasks go first when memory is short
  std::map<SliceId, bool> releasing_;         // and whether the agent waits for Released
  std::map<TaskKey, std::int64_t> clearing_;  // its first process has ended, its leaf is being emptied; since (ms)
  std::set<TaskKey> killing_;                 // until the leaf is empty
  struct Begun {
    std::int64_t due_ms = 0;
    TaskKey task;
    pid_t pid = 0;
  };
  std::deque<Begun> begun_;  // starts not told yet, oldest first
  struct Held {
    std::int64_t due_ms = 0;
    TaskKey task;
  };
  std::vector<TaskKey> forgets_;  // of this turn
  std::deque<Held> held_;         // ends not told yet, oldest first: their slices have work enough
  Turns turns_;
  LeasePage lease_;
  std::set<TaskKey> leased_;                // run, and end with the lease
  std::map<TaskKey, std::int64_t> fenced_;  // of those: asked to end; killed then (ms)
  std::int64_t lease_due_ms_ = 0;           // when one of either is due; 0: never
  std::int64_t opened_ms_ = 0;
  std::map<int, TaskKey> watched_;  // by pidfd
  std::map<TaskKey, int> pidfds_;   // of tasks that are not our children
  int work_ms_ = -1;                // next try; -1: nothing to do
};

}  // namespace bourse::launcher
