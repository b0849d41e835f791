// A house for one Batch actor: its driver, disk, master and agents as a few hundred lines in one thread and virtual time.
//
// The driver part keeps actor.h's promises (what a step appended holds back its replies and commands). The master offers what is free to
// what is demanded; agents run tasks until the test ends them. It asserts by itself what must never happen: a task id launched
// twice, a terminal status acknowledged before its end is on the disk.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frameworks/batch/batch.h"

namespace bourse::batch::test {

class House {
 public:
  struct Agent {
    Resources total, free;
    Labels labels;
    bool up = true;
    std::uint64_t sequence = 0;
    Duration closes{0};                          // wall; 0: no window is known
    std::vector<AgentFacts::Reserved> reserved;  // whole; at most one has begun
  };
  struct Task {
    AgentId agent;
    SliceId slice;
    TaskSpec spec;
    bool running = true;
  };
  std::map<SliceId, std::deque<std::pair<TaskId, Task>>> in_turn;  // what waits in a slice for those before it
  struct Slot {                                                    // a slice
    AgentId agent;
    Resources amount;
    GangId gang;
  };

  explicit House(BatchOptions options = defaults());
  static BatchOptions defaults();
  void add_agent(const std::string& name, std::int64_t cores, Bytes mem = Bytes{4 * kGiB.value}, Labels labels = {});
  void start();              // a first life: Started, session up
  void restart();            // kill -9: memory is gone, the disk and the agents are not
  void settle();             // until nothing is left to do at this moment (timers of up to 10 ms included)
  void pass(Duration time);  // virtual time goes on

  // Tools.
  static JobSpec job(const std::string& name = "j");
  std::uint64_t ask(RequestBody body, std::int64_t uid = 1000);
  template <class Reply>
  std::optional<Reply> reply(std::uint64_t tag) {
    for (auto it = replies.begin(); it != replies.end(); ++it) {
      if (it->tag != tag || !std::holds_alternative<Reply>(it->body)) continue;
      Reply out = std::get<Reply>(std::move(it->body));
      replies.erase(it);
      return out;
    }
    return std::nullopt;
  }
  std::string why(JobId job);                           // what `bourse why` says of it, a line each
  JobId submit(JobSpec spec, std::int64_t uid = 1000);  // and settles; 0 when refused, the reason in `refusal`
  JobInfo info(const std::string& selector);            // of a live job; state of ended ones from the log
  JobState state(const std::string& selector) { return info(selector).state; }
  std::vector<std::string> running() const;  // task ids on the agents, sorted
  void end(const std::string& task, int exit_code = 0,
           Duration ran = Duration{0});  // and settles; ran: as its host says, if it does
  void end(const std::string& task, TaskState state, int signal = 0);
  void end_all();  // again and again until nothing runs
  const TaskSpec& spec_of(const std::string& task) { return tasks.at(TaskId(task)).spec; }

  // The disk.
  std::vector<std::string> disk;
  bool disk_full = false, disk_slow = false;  // slow: nothing is durable until release_disk()
  void release_disk();

  std::unique_ptr<Batch> batch;
  Time now{seconds(1000), seconds(1'700'000'000)};
  std::map<AgentId, Agent> agents;
  std::map<TaskId, Task> tasks;  // running on agents
  std::map<SliceId, Slot> slices;
  std::map<TaskId, int> launches;
  std::vector<Kill> kills;
  std::deque<ToolReply> replies;
  std::vector<Mail> mails;
  std::vector<Span> spans;
  std::string accept_trace;  // of the last accept that had one
  std::vector<DemandLine> demand;
  std::string refusal;
  std::uint64_t accepts = 0, steps = 0;
  int carves_fail = 0;         // so many slices that are asked for next cannot be made
  bool hold_statuses = false;  // agents keep still
  bool hold_slices = false;    // and do not say that slices are made
  std::vector<SliceReady> held_slices;
  bool auto_offers = true;
  std::optional<Explained> explain_answer;
  std::function<void()> after_step;
  void post(Event event) { events_.push_back(std::move(event)); }
  void update(const AgentId& agent, const SliceId& slice, TaskStatus status);
  void next_in_turn(const SliceId& slice);  // the agent's: when a task of it has ended
  void session_up();
  void facts(const AgentId& agent);  // tells what is known of it

 private:
  struct HeldStep {
    Ticket ticket = 0;
    std::vector<Append> appends;
    std::vector<SessionCommand> session;
    std::vector<Reply> replies;
    std::vector<Mail> mails;
  };
  bool step_one();
  void execute(Actions& actions);
  void release(HeldStep held);
  void finish_append(HeldStep held);
  void command(const SessionCommand& command);
  void make_offers();
  [[nodiscard]] AgentFacts facts_of(const AgentId& id, const Agent& agent) const;
  [[nodiscard]] bool may_offer(const Agent& agent, const DemandLine& line, std::string& reserved) const;
  [[nodiscard]] bool end_on_disk(const TaskId& task) const;

  BatchOptions options_;
  std::deque<Event> events_;
  std::map<TimerKey, Duration> timers_;
  std::deque<HeldStep> waiting_;
  std::map<OfferId, Offer> offers_;
  std::map<std::pair<AgentId, std::uint64_t>, Duration> hold_off_;
  std::map<AgentId, std::map<std::uint64_t, TaskUpdate>> unacked_;
  std::map<std::pair<Incarnation, TaskId>, AgentId> asked_at_;
  std::set<TaskId> refused_;  // tombstones of NeverStarted
  std::set<TaskId> ended_;
  std::uint64_t next_offer_ = 1, next_tag_ = 1;
  Ticket next_ticket_ = 1;
  Incarnation incarnation_{1};
};

}  // namespace bourse::batch::test
