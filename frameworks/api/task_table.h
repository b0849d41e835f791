// Tasks that are not known to have ended: launched by this life, named by the framework, or heard of. Owned by the client actor.
//
// It is what Reconcile is made of, and where launches wait that cannot be sent yet.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/core/session.h"

namespace bourse::api {

class TaskTable {
 public:
  struct Entry {
    AgentId agent;
    SliceId slice;            // number 0: not known
    bool waiting = false;     // its launch has not been sent
    bool confirmed = false;   // the agent told us of it in this session
    StreamId heard;           // in which it told us of it, in this life; 0: it did not
    std::uint64_t round = 0;  // of reconciliation, in which doubt began
    bool declared_lost = false;
    std::optional<Kill> kill;  // asked for; repeated in each session until it has ended
    Blob payload;              // while waiting
    std::string trace;
  };
  static constexpr std::size_t kWaitingMax = 200'000;  // launches that wait to be sent
  static constexpr std::size_t kToldMax = 100'000;     // ends remembered

  Entry& put(const TaskId& task, const AgentId& agent, const SliceId& slice);
  [[nodiscard]] Entry* find(const TaskId& task);
  void erase(const TaskId& task);
  // Its end is told to the framework. What the framework said of it before it heard (a kill, say) must not bring it back: the agent,
  // which has forgotten it, would tell a second end.
  void told(const TaskId& task);
  [[nodiscard]] bool was_told(const TaskId& task) const;
  void wait(const TaskId& task, Blob payload, std::string trace);
  Launch sent(const TaskId& task, std::string& trace);  // it is about to be: no longer waits
  [[nodiscard]] std::size_t waiting() const { return waiting_; }
  [[nodiscard]] std::vector<TaskId> waiting_in(const SliceId& slice) const;
  [[nodiscard]] std::vector<SliceId> waiting_slices() const;

  void session_lost();                                               // nothing is confirmed
  void doubt(const AgentId& agent, const SliceId& slice);            // it is no longer there: its tasks are to be asked about
  [[nodiscard]] std::vector<TaskId> on(const AgentId& agent) const;  // sent ones, for Reconcile
  [[nodiscard]] std::set<AgentId> agents() const;
  [[nodiscard]] std::set<AgentId> unconfirmed_agents(std::uint64_t before_round) const;
  [[nodiscard]] const std::map<TaskId, Entry>& all() const { return tasks_; }

 private:
  std::map<TaskId, Entry> tasks_;
  std::map<AgentId, std::set<TaskId>> by_agent_;
  std::map<SliceId, std::deque<TaskId>> waiting_by_slice_;  // in the order of launching
  std::size_t waiting_ = 0;
  std::set<TaskId> told_;
  std::deque<TaskId> told_order_;
};

}  // namespace bourse::api
