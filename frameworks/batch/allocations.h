// What batch has been given: open offers, and slices with what runs in them. Owned by Batch; keeps the planner's view of free
// amounts and runs in step.
//
// A slice whose job has ended stays for a while: the next job of the same layout and user starts in it without an offer round.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/core/messages.h"
#include "frameworks/batch/planner.h"
#include "frameworks/batch/reserved.h"

namespace bourse::batch {

// Which jobs a slice may serve next: those with the same needs, of the same user.
struct SliceKind {
  std::string shape;  // Layout.key
  std::uint32_t uid = 0;
  auto operator<=>(const SliceKind&) const = default;
};

struct Slice {
  SliceId id;
  AgentId agent;
  Resources amount;
  SliceKind kind;
  OfferId offer;          // it was asked for out of this one, and that was not answered yet; 0: answered
  std::uint64_t run = 0;  // number of the task that has it; 0: idle
  GangId gang;
  bool ready = false;      // the agent made it
  bool releasing = false;  // we gave it back
  bool foreign = false;    // of an earlier life, not claimed (yet)
  bool unhealthy = false;  // a device of it is gone: no further job is started in it
  bool recalled = false;   // the master takes it back: no further job is started in it
  bool revocable = false;  // lent: it takes nothing from what the planner counts
  bool apart = false;      // of a reservation that its job names: nor does this
  Duration idle_since{0};
  std::deque<std::uint64_t> ahead;            // those that have been sent to follow it there, in order
  Duration moved{0};                          // when the first of them came, or the last one had its turn
  std::optional<std::size_t> follow_indexed;  // Allocations' own
};

class Allocations {
 public:
  // --- agents
  bool facts(const AgentFacts& facts, Duration wall);  // true: what is known of reservations has changed
  [[nodiscard]] const std::map<AgentId, AgentFacts>& agents() const { return agents_; }
  [[nodiscard]] bool seen_agents() const { return seen_; }
  void snapshot() { seen_ = true; }
  [[nodiscard]] MilliCpus largest_cpus() const { return largest_; }
  [[nodiscard]] std::uint32_t epoch() const { return epoch_; }  // grows when what is possible changes
  Planner::Node node(const AgentId& agent);
  // Maintenance and reservations: does any agent close to anybody; would what ends at `wall` (kNoLimit: never) run into that there? A
  // job that names a reservation is asked about with its name, one that names none with "".
  [[nodiscard]] bool any_closes() const { return !closing_.empty() || reserved_.any(); }
  [[nodiscard]] bool closes_at_all(const AgentId& agent) const { return closing_.contains(agent) || reserved_.on(agent); }
  [[nodiscard]] bool closes_before(const AgentId& agent, Duration wall, const std::string& reservation) const;
  [[nodiscard]] std::set<AgentId> closing() const;
  [[nodiscard]] Reserved& reserved() { return reserved_; }
  [[nodiscard]] const Reserved& reserved() const { return reserved_; }
  [[nodiscard]] bool could_hold(const Shape& shape, const AgentId& agent) { return planner_.could_hold(shape, node(agent)); }
  [[nodiscard]] const AgentId& agent_of(Planner::Node node) const { return node_names_[node]; }
  Planner& planner() { return planner_; }

  // --- offers
  void offer(Offer offer);
  bool end_offer(OfferId id);
  [[nodiscard]] std::map<OfferId, Offer>& offers() { return offers_; }
  void clear_offers();

  // --- slices
  Slice& add(Slice slice);
  [[nodiscard]] Slice* find(const SliceId& id);
  [[nodiscard]] const std::map<SliceId, Slice>& slices() const { return slices_; }
  [[nodiscard]] std::size_t idle() const { return idle_count_; }
  void erase(const SliceId& id);
  void occupy(Slice& slice, std::uint64_t run);
  void vacate(Slice& slice, Duration now);  // idle from here on
  void release(Slice& slice);               // given back: no longer free for us
  void recall(Slice& slice);                // to be given back once what runs in it has ended
  void follow(Slice& slice, std::uint64_t run, Duration now);
  void unfollow(Slice& slice, std::uint64_t run);  // one that was sent to follow will not
  void advance(Slice& slice, Duration now);        // the first that follows has it now
  // A busy slice of this kind with the fewest that follow, less than `most`; null: there is none.
  [[nodiscard]] Slice* to_follow(const SliceKind& kind, std::size_t most);
  [[nodiscard]] const std::set<SliceId>& followed() const { return followed_; }
  void resize(Slice& slice, Resources amount);
  // The idle slices of this kind on different agents, `count` of them, for what ends at `wall`; empty where there are fewer.
  [[nodiscard]] std::vector<SliceId> idle_of(const SliceKind& kind, std::uint32_t count, Duration wall,
                                             const std::string& reservation) const;
  [[nodiscard]] const std::map<SliceKind, std::set<SliceId>>& idle_by_kind() const { return idle_; }
  [[nodiscard]] std::vector<SliceId> idle_on(const AgentId& agent) const;
  [[nodiscard]] std::vector<SliceId> idle_on_closed() const;  // on agents that are being drained or are cordoned
  [[nodiscard]] std::vector<SliceId> from_offer(OfferId offer) const;
  [[nodiscard]] std::vector<SliceId> of_gang(GangId gang) const;

  // Take from an offer's rest, while a pass is deciding.
  Result<Resources> carve_from(Offer& offer, const Shape& shape);

 private:
  void refresh(const AgentId& agent);
  void hold(const Slice& slice);
  void unhold(Slice& slice);
  [[nodiscard]] static bool is_idle(const Slice& s) { return s.run == 0 && !s.releasing && !s.foreign; }
  void index(Slice& slice, bool on);
  void index_follow(Slice& slice);

  std::map<AgentId, AgentFacts> agents_;
  std::set<AgentId> closed_;
  std::map<AgentId, Duration> closing_;  // for maintenance -> when, as wall time
  Reserved reserved_;
  std::map<AgentId, Planner::Node> nodes_;
  std::vector<AgentId> node_names_;
  std::map<OfferId, Offer> offers_;
  std::map<SliceId, Slice> slices_;
  std::map<SliceKind, std::set<SliceId>> idle_;
  std::map<AgentId, std::set<SliceId>> by_agent_;
  std::multimap<OfferId, SliceId> by_offer_;
  std::multimap<GangId, SliceId> by_gang_;
  std::map<SliceKind, std::set<std::pair<std::size_t, SliceId>>> busy_;  // by how many follow
  std::set<SliceId> followed_;
  std::size_t idle_count_ = 0;
  Planner planner_;
  MilliCpus largest_;
  std::uint32_t epoch_ = 1;
  bool seen_ = false;
};

}  // namespace bourse::batch
