// What readers see of the master, told as changes (Actions::views) to whoever serves them on a thread of its own. See readers.h.
//
// Nothing is rendered while nobody reads. Else a row that changed is rendered once per kEvery, or at once when a reader waits for it
// (Watched::flush), and never more than kRowsPerStep in one step, so that what readers cost goes with what changes and not with their
// number nor with the size of the cluster. A round of all rows, kSweep at a time, mends what a change might have failed to mark.
//
// Offers and slices come and go quickly: one that is gone before it was told is never told. Tables: cluster, agents, frameworks, offers,
// slices, demand, roles, events. Owned by the master.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/core/event.h"
#include "master/dirty.h"
#include "master/ledger.h"

namespace bourse::house {

struct House;

class ViewTable {
 public:
  static constexpr Duration kEvery = milliseconds(500), kSoon = milliseconds(2), kRolesEvery = seconds(2);
  static constexpr std::size_t kRowsPerStep = 200, kSweep = 50;

  void framework(FrameworkIx ix) { frameworks_.add(ix); }
  void offer(std::uint64_t id, bool ended = false) { offers_.changed(on_, id, ended); }
  void slice(const SliceId& id, bool ended = false) { slices_.changed(on_, id, ended); }
  void settled(House& house);  // after each step: something may have changed

  void watched(House& house, const Watched& event);
  void due(House& house);

 private:
  template <class Id>
  struct Passing {  // what comes and goes
    std::set<Id> dirty, told;
    void changed(bool on, const Id& id, bool ended) {
      if (!on) return;
      if (ended && !told.contains(id))
        dirty.erase(id);
      else
        dirty.insert(id);
    }
    void look_again(Id& from) {
      auto it = told.upper_bound(from);
      for (std::size_t i = 0; i < kSweep && it != told.end(); ++i) dirty.insert(from = *it++);
      if (it == told.end()) from = Id{};
    }
  };
  void fill(House& house);
  bool round(House& house, bool now);
  void agents(House& house, std::size_t& room);
  void frameworks(House& house, std::size_t& room);
  void demand(House& house, FrameworkIx ix, const std::string& name, ViewUpdate& out);
  void offers(House& house, std::size_t& room);
  void slices(House& house, std::size_t& room);
  void roles(House& house);
  void events(House& house, std::size_t& room);
  void sweep(House& house);

  bool on_ = false, armed_ = false, filling_ = false;
  Passing<std::uint64_t> offers_;
  Passing<SliceId> slices_;
  std::optional<std::uint64_t> offers_filled_;  // so far; nothing: all are told
  std::optional<std::string> slices_filled_;
  std::uint64_t sweep_offer_ = 0;
  SliceId sweep_slice_;
  Dirty frameworks_;  // agents' are the ledgers'
  bool roles_dirty_ = false;
  Duration roles_at_{0};
  std::uint64_t flush_ = 0, events_through_ = 0;
  AgentIx sweep_agent_ = 0;
  FrameworkIx sweep_framework_ = 0;
  std::vector<std::string> agent_names_, framework_names_;  // as told, by row
  std::vector<std::set<std::string>> lines_;                // of a framework's demand, as told
  std::map<std::string, StatusReply::Row> roles_;           // as told
};

}  // namespace bourse::house
