// An executor that runs nothing: slices are carved at once, and tasks end when their time is up, so that one machine can stand for
// thousands of agents (agent.executor = mock).
//
// A task's run time is BOURSE_MOCK_RUN_MS in its environment, or argv[0] "mock:MS" or "mock:MS:EXIT"; none of them: it ends at once with 0. SIGTERM and
// SIGKILL end it. One that is to run in turn waits as it would for the launcher. Forgets everything when the agent ends, as a host would whose keeper and launcher died together.
#pragma once

#include <deque>
#include <map>
#include <memory>

#include "agent/host.h"

namespace bourse {

class MockHost final : public Executor {
 public:
  MockHost(Reactor& reactor, std::unique_ptr<Prober> prober, Post post)
      : reactor_(reactor), prober_(std::move(prober)), post_(std::move(post)) {}
  ~MockHost() override;
  void start() override { post_(HostTasks{}); }
  [[nodiscard]] Prober& prober() override { return *prober_; }
  void execute(const HostAction& action) override;
  void end_all(std::function<void()> done) override { done(); }

  struct Run {
    Duration time{0};
    int exit_code = 0;
  };
  static Run run_of(const TaskSpec& spec);

 private:
  void end(const TaskKey& key, int wait_status);

  Reactor& reactor_;
  std::unique_ptr<Prober> prober_;
  Post post_;
  struct Running {
    Reactor::TimerId timer = 0;
    SliceId slice;
  };
  void run(const StartTask& start);
  void next_in_turn(const SliceId& slice);
  [[nodiscard]] bool withdraw(const TaskKey& key);
  std::map<TaskKey, Running> running_;
  std::map<SliceId, std::size_t> inside_;
  std::map<SliceId, std::deque<StartTask>> waiting_;
};

}  // namespace bourse
