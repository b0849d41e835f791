// What operators may do: a table of actions. Each is checked, recorded in the registry, and carried out and answered when its
// record is durable, so that an answer is never taken back.
//
//   action            target     parameters
//   cordon            agent                           no new offers; what runs there goes on
//   uncordon          agent
//   drain             agent      deadline=DURATION    as cordon, and at the deadline what is left is taken back. 0 or absent: never
//   undrain           agent
//   label             agent      NAME=VALUE, NAME-=   sets labels over the agent's own; NAME- takes the operator's away again
//   reprobe           agent or ""                     its probes look again; "": all agents that are connected. Not recorded
//   remove-agent      agent                           forgotten, its tasks lost
//   remove-framework  framework                       forgotten, its slices released
//   set-role          role       weight=N, limit.KIND=AMOUNT|none, priority=N|none, guarantee.KIND=AMOUNT|none
//                                                     what is not named stays as it was
//   reload            agent or ""                     it reads its configuration again; "": this master. See reload.h
//   add-master        name       raft=tcp://HOST:PORT  a master joins those that replicate the registry. Not recorded there
//   remove-master     name                            it has no part in it any more
//   remove-role       role                            its settings; its frameworks stay, with weight 1 and no limit
//   reserve, extend-reservation, release-reservation  see reserve_actions.h
//
// Also here: the events of this master's life that operators see with `bourse events`, a bounded ring of its log lines.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "common/core/event.h"
#include "common/core/messages.h"
#include "common/core/time.h"

namespace bourse::house {

struct House;
struct Session;

struct Operation {
  PeerId peer;
  std::string identity;
  OperatorAction action;
  std::string from = {};  // where its session came from
};

class EventLog {
 public:
  static constexpr std::size_t kEventsMax = 10'000;  // beyond, the oldest is forgotten
  struct Row {
    std::uint64_t number = 0;
    Duration wall{0};
    std::string line;
  };
  void add(Duration wall, std::string line);
  [[nodiscard]] const std::deque<Row>& rows() const { return rows_; }  // by number, without gaps

 private:
  std::deque<Row> rows_;
  std::uint64_t last_ = 0;
};

constexpr std::size_t kLabelsPerAgentMax = 256;  // an operator's; beyond, the action is refused (kLimit)

// Writes the audit line and answers.
void conclude(House& house, const Operation& operation, Code code, const std::string& reason);
void on_operator(House& house, const Session& from, const Message& message);
void expire_reservation(House& house, const std::string& name);  // its time is over: off the record
void operations_durable(House& house, Ticket ticket);
void operations_failed(House& house, Ticket ticket, const std::string& why);

}  // namespace bourse::house
