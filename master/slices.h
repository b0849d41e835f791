// Slices: the right to a part of an agent, from the accept until the agent says that it is gone; and the routing of what
// frameworks and agents say about tasks in them. The master keeps no task and no status. See "Data path".
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "common/core/messages.h"
#include "master/ledger.h"

namespace bourse::house {

struct House;
struct Session;

struct SliceRow {
  enum class State : std::uint8_t {
    kCarving,     // the agent was asked
    kUp,          // and has answered
    kHeld,        // a gang's, not committed
    kCommitting,  // a gang's, commit sent
    kReleasing,   // asked to end; counts until the agent says it is gone
  };
  SliceSpec spec{};  // its `resources` are what the ledger counts
  AgentIx agent = 0;
  FrameworkIx framework = 0;
  State state = State::kCarving;
  Pool pool = Pool::kLeased;   // kHeld or kLeased
  std::uint32_t gang_row = 0;  // 0: none in this master
  PeerId asked{};              // connection on which the carve went out
  bool told = false;           // its framework has been told that it is gone
  Duration grace{0};           // of the release
  Duration since{-1};          // when it was had out of an offer; negative: it came with its agent
  Duration waited{0};          // its framework, until then
  std::string revoked{};       // why it is taken back; empty: it is not
  std::string unhealthy{};     // what the agent said last
};

class SliceTable {
 public:
  [[nodiscard]] SliceRow* find(const SliceId& id);
  SliceRow& add(SliceRow row);
  void erase(const SliceId& id) { rows_.erase(id); }
  [[nodiscard]] std::size_t size() const { return rows_.size(); }

 private:
  std::unordered_map<SliceId, SliceRow> rows_;
};
std::string_view slice_state_text(SliceRow::State state);

// Moves its amount from `from` to the row's pool. from == pool: the ledger has it already, the framework's use has not.
SliceRow& add_slice(House& house, SliceRow row, Pool from);
// Amounts go back; the framework is told unless it has been.
void end_slice(House& house, const SliceId& id, SliceEnd end, const std::string& reason);
// The same for one that ended unasked: if its gang is under way, that is aborted.
void lose_slice(House& house, const SliceId& id, SliceEnd end, const std::string& reason);
void tell_gone(House& house, SliceRow& row, SliceEnd end, const std::string& reason);
void release_slice(House& house, SliceRow& row, Duration grace);  // asks the agent, now or when it is back
// Taken back: its framework hears of it `grace` ahead (or at once, where that is 0: then the agent ends it).
void revoke_slice(House& house, const SliceId& id, Duration grace, const std::string& reason);

void on_slice_up(House& house, const Session& from, const Message& message);
void on_slice_gone(House& house, const Session& from, const Message& message);
void on_release(House& house, const Session& from, const Message& message);

void on_launch(House& house, const Session& from, const Message& message);
void on_kill(House& house, const Session& from, const Message& message);
void on_status(House& house, const Session& from, const Message& message);
void on_status_ack(House& house, const Session& from, const Message& message);
void on_reconcile(House& house, const Session& from, const Message& message);
void on_declare_lost(House& house, const Session& from, const Message& message);

}  // namespace bourse::house
