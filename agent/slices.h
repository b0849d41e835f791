// The slices of this agent: carved, held for a gang, idle, released, erased.
//
//   held --commit--> carving --SliceCarved--> up --release--> releasing --no task left--> erasing --SliceErased--> gone
//   carving --error--> gone (kCarveFailed)      held --abort, hold_ttl--> gone (kGangAborted)      up --idle too long--> erasing
//
// After a restart every slice that is not being released begins at `carving`: carving is idempotent on the host. Knows how many
// tasks are active in each slice, and whose; it does not know the tasks. Owned by the agent actor.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/inventory.h"
#include "agent/turn.h"

namespace bourse {

class SliceTable {
 public:
  static constexpr std::size_t kSlicesMax = 10'000;
  static constexpr std::size_t kGoneMax = 10'000;      // ends remembered, for questions that come late
  static constexpr std::size_t kFarewellsMax = 1'000;  // ends that no master has been told yet

  enum class Phase { kHeld, kCarving, kUp, kReleasing, kErasing };
  struct Slice {
    SliceSpec spec;
    Phase phase = Phase::kCarving;
    Duration hold_until{0};
    SliceEnd end = SliceEnd::kReleased;
    std::string reason;
    std::uint32_t active = 0;  // tasks accepted and not ended
    std::string user;          // whose, while active > 0
    Duration idle_since{0};
    bool idle_timer = false;
    bool restored = false;  // not confirmed by the host in this life
    std::string unhealthy;  // what of it is not on the host any more
  };

  SliceTable(AgentId agent, AgentInventory& inventory) : agent_(std::move(agent)), inventory_(inventory) {}

  void carve(Turn& turn, const CarveSlices& message);
  void commit(Turn& turn, const CommitGang& message);
  std::vector<SliceId> of_gang(const FrameworkId& framework, GangId gang) const;
  void drop_hold(Turn& turn, const SliceId& id, const std::string& reason);
  [[nodiscard]] Slice* find(const SliceId& id);
  [[nodiscard]] const AgentInventory& inventory() const { return inventory_; }
  [[nodiscard]] const std::map<SliceId, Slice>& all() const { return slices_; }

  // False: no such slice, or it is ending already; nothing to do. True: end its tasks, then call erase_if_drained.
  bool begin_release(Turn& turn, const SliceId& id, SliceEnd end, const std::string& reason);
  void erase_if_drained(Turn& turn, const SliceId& id);
  void unknown(Turn& turn, const SliceId& id);  // asked to release what is not here: says so again

  // From the host. carved: true when tasks may start now; `failed` when the slice must go (end its queued tasks first).
  bool carved(Turn& turn, const SliceCarved& event, bool& failed);
  void finish(Turn& turn, const SliceId& id, SliceEnd end, const std::string& reason);
  bool erased(Turn& turn, const SliceId& id);  // true: it is gone now
  void resume_host(Turn& turn);                // the host is there (again): asks for everything outstanding once more
  void reboot(Turn& turn);                     // all restored slices are gone

  void task_begun(const SliceId& id, const std::string& user);
  void task_over(Turn& turn, const SliceId& id);
  bool hold_due(Turn& turn, const SliceId& id);  // true: lapsed
  bool idle_due(Turn& turn, const SliceId& id);  // true: released for idleness

  // What no longer fits on the host, with the reason; all others are well. Tells the master of every change.
  void set_health(Turn& turn, const std::map<SliceId, std::string>& unhealthy);
  void tell_health(Turn& turn) const;  // to a master that may not know it

  // What a hello lists (without tasks); those whose end was not told yet are among them, and farewell() follows the hello.
  [[nodiscard]] std::vector<AgentHello::Slice> hello() const;
  void farewell(Turn& turn);
  void session_up() { farewells_.clear(); }

  void restore(const SliceRecord& record);
  void restore(const SliceGoneRecord& record);
  void restored(Turn& turn);  // all records are read: arms holds
  void snapshot(std::vector<CheckpointRecord>& out) const;
  [[nodiscard]] bool gone(const SliceId& id) const { return gone_.count(id) != 0; }

 private:
  void record(Turn& turn, const Slice& slice) const;
  [[nodiscard]] static SliceRecord as_record(const Slice& slice);
  void idle_from(Turn& turn, Slice& slice);
  void remember_end(const SliceGone& end);

  AgentId agent_;
  AgentInventory& inventory_;
  std::map<SliceId, Slice> slices_;
  std::map<SliceId, SliceGone> gone_;
  std::deque<SliceId> gone_order_;
  struct Farewell {
    SliceSpec spec;
    SliceGone gone;
  };
  std::map<SliceId, Farewell> farewells_;
};

}  // namespace bourse
