// Who may start now, as arithmetic: no I/O, no clock, no jobs' names. Batch plans with it, and so does `bourse simulate`.
//
// Sources: Lifka 1995 and Mu'alem and Feitelson, IEEE TPDS 12(6), 2001, section 2 (EASY, conservative); Tsafrir, Etsion and
// Feitelson, IEEE TPDS 18(6), 2007 (a run beyond its estimate). The rules that decide, each of them tested:
//  - A pass sees all completions and then all arrivals of its moment.
//  - easy: the first that does not fit now gets a reservation: the earliest time at which its nodes are free by the limits of what
//    runs, and those nodes by number, lowest first. Whoever comes after it starts if it fits now and either ends by that time (<=) or
//    leaves the reserved nodes with what the first needs; one that outlasts the reservation is placed beside it. Computed anew in
//    every pass.
//  - easy-count: the same, but the reservation counts what is free in the whole cluster and names no node; what outlasts it must fit
//    into what the first leaves over, which then shrinks.
//  - conservative: everybody waiting has a reservation that names nodes. After a completion, in order of the queue, each is taken
//    out and put in at the earliest time again, the others staying (compression); else only the new ones are put in.
//  - A run beyond its limit counts as ending just after now. Under conservative that breaks promises, so then all are made anew; so they
//    are when somebody was to start and has not (in production an offer has to come first).
//  - Among nodes the lowest number comes first.
//
// The caller tells what is free and what runs. Owned by one thread. Cost of a reservation: the runs that end before it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/core/labels.h"
#include "common/core/resources.h"
#include "common/core/time.h"
#include "frameworks/batch/backfill.h"
#include "frameworks/batch/profile.h"

namespace bourse::batch {

// Chooses among nodes where something fits, by a policy's scores; null in a Planner: the lowest numbers.
class NodeChooser {
 public:
  struct Chosen {
    NodeSet::Node node = 0;
    std::uint32_t device = UINT32_MAX;  // place among the node's devices of the one that is to be used; none: the first that serve
  };
  virtual ~NodeChooser() = default;
  [[nodiscard]] virtual bool places() const { return false; }  // false: choose() is not asked
  virtual void cluster(const std::vector<PlannedNode>&) {}
  virtual void changed(NodeSet::Node, const PlannedNode&) {}  // what is free there
  // Puts the best need.nodes first and drops the rest; given are all that fit, ascending.
  virtual void choose(const Need&, std::vector<Chosen>&) {}
};

class Planner {
 public:
  using Node = NodeSet::Node;
  using RunId = std::uint64_t;
  using Holding = batch::Holding;
  struct Totals {  // of all nodes; devices in permille of one, by the part of their kind before '/'
    std::int64_t cpus = 0, mem = 0;
    Counters devices;
  };
  struct Reservation {
    Duration at{0};              // kNoLimit: not with what is known to run here
    std::vector<Node> nodes;     // those reserved, ascending
    std::vector<Amount> future;  // what is free on each at `at`, less what was let past it since
    NodeSet named;               // the same nodes
    bool counted = false;        // names no node; `spare` counts
    Totals spare;
  };
  enum class Verdict : std::uint8_t {
    kUnseen,    // by no pass so far: nothing was free, or it is behind what a pass looks at
    kNoRoom,    // it does not fit into what is free
    kReserved,  // it would fit, and would delay somebody ahead of it
  };
  struct Candidate {
    std::uint64_t job = 0;
    const Need* need = nullptr;
    Duration limit = kNoLimit;
    // Set by pass(): why it waits, and, keeping that of the last pass in which it did, that it started.
    Verdict verdict = Verdict::kUnseen;
    bool started = false;
  };
  struct Start {
    std::uint64_t job = 0;
    std::vector<Holding> holdings;
    bool backfilled = false;
  };
  class Source {  // a queue that is asked job by job, the best first, each once in a pass
   public:
    virtual ~Source() = default;
    virtual Candidate* next() = 0;          // null: that was all
    virtual void started(Start start) = 0;  // at once, since it may change what comes next
  };
  struct PassOptions {
    Backfill backfill = Backfill::kEasy;
    std::size_t depth = SIZE_MAX;  // jobs looked at past the first that waits; conservative: that have a reservation
    // Another order in which those past the first that waits are tried; it hears of no starts. Null: the queue's. Not for conservative,
    // whose order is that of the promises.
    Source* behind = nullptr;
  };

  Node add_node(Resources total, Labels labels, Resources free);
  void set_node(Node node, Resources total, Labels labels);
  void set_free(Node node, Resources free);  // what could be used at once
  [[nodiscard]] Resources total(Node node) const { return nodes_[node].total.resources(); }
  [[nodiscard]] Resources free(Node node) const { return nodes_[node].free.resources(); }
  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }
  [[nodiscard]] bool could_hold(const Shape& shape, Node node) const {  // if nothing else ran there
    return fits(shape, nodes_[node].total, nodes_[node].total, nodes_[node].labels);
  }
  void choose_by(NodeChooser* chooser);  // must outlive this; null: the lowest numbers
  [[nodiscard]] bool anything_free() const { return !open_.empty(); }

  void start(RunId run, Duration end, std::vector<Holding> holdings);  // takes nothing from `free`: see take()
  void finish(RunId run);                                              // gives nothing back: see give()
  Result<> take(const Holding& holding);
  Result<> give(const Holding& holding);
  void end_run(RunId run);  // finish() and give() of all it holds
  [[nodiscard]] const std::vector<Holding>* holdings(RunId run) const;

  // Where `need` fits into what is free now; empty where it does not. Nothing is taken.
  [[nodiscard]] std::vector<Holding> place(const Need& need) const { return place(need, nullptr, nullptr); }
  // Places, takes and starts, or null where there is no room.
  const std::vector<Holding>* start_now(RunId run, const Need& need, Duration end);
  // Named are the lowest nodes that will do; kLatest: those that come free last, so that what is free now is for others. That is for
  // who does not place on the lowest nodes first: in production offers decide.
  enum class Named : std::uint8_t { kLowest, kLatest };
  [[nodiscard]] Reservation reserve(const Need& head, Duration now, Backfill backfill = Backfill::kEasy,
                                    Named named = Named::kLowest) const;
  // May this start on these nodes, ending at `end`, without delaying the head? If so, and it outlasts the reservation, it is
  // counted there.
  bool allow(Reservation& reservation, const Need& head, const std::vector<Holding>& holdings, Duration end) const;
  // The same question about one node, counting nothing: may a part of something that ends at `end` be placed there?
  [[nodiscard]] bool spares(const Reservation& reservation, const Need& head, const Holding& holding, Duration end) const;

  // One whole pass over a queue: starts what may start (taking from `free`, with start()) and says of each other why not.
  std::vector<Start> pass(Duration now, std::span<Candidate> queue, const PassOptions& options);
  void pass(Duration now, Source& queue, const PassOptions& options);

  // --- conservative, in steps, for who places by himself. pass() does the same.
  // Brings the reservations to `now`: true when each is to be made again, in order of the queue.
  bool promises_begin(Duration now);
  // Makes or keeps the reservation of a waiting job, and says when it starts: now, or later (kNoLimit: never).
  Duration promise(Duration now, const Candidate& job, bool again);
  // Would this, from now to `end`, delay nobody who has a reservation? `job`'s own does not count.
  [[nodiscard]] bool breaks_no_promise(std::uint64_t job, const std::vector<Holding>& holdings, Duration now, Duration end);
  void promises_end();                          // those not asked for since promises_begin() are dropped
  [[nodiscard]] Duration next_promise() const;  // the earliest start that was promised; kNoLimit: none
  void forget_promises();
  void bound_profile(std::size_t cells) { profile_.bound(cells); }
  [[nodiscard]] std::size_t profile_slices() const { return profile_.slices(); }

  // Steps of the inner loops so far, for tests of scaling.
  [[nodiscard]] std::uint64_t operations() const { return operations_ + profile_.operations(); }

 private:
  struct Run {
    Duration end{0};
    Duration until{0};  // its end in the profile
    std::vector<Holding> holdings;
  };
  struct Promise {
    Duration at{0}, end{0};
    std::vector<Holding> holdings;
    std::uint64_t round = 0;
  };
  struct Refused {  // plain shapes that found no place in this pass
    std::int64_t cpus = 0, mem = 0;
    std::uint32_t nodes = 0;
    bool beside = false;
  };

  [[nodiscard]] std::vector<Holding> place(const Need& need, const Reservation* beside, const Need* head) const;
  [[nodiscard]] std::vector<Holding> place_by_score(const Need& need) const;
  [[nodiscard]] Reservation reserve_count(const Need& head, Duration now) const;
  void begin_run(RunId run, Duration end, std::vector<Holding> holdings);
  void drop_run(RunId run);
  void reopen(Node node);
  [[nodiscard]] bool known_refused(const Need& need, bool beside) const;
  void note_refused(const Need& need, bool beside);
  template <class Queue>
  void pass_easy(Duration now, Queue& queue, const PassOptions& options);
  void pass_conservative(Duration now, Source& queue, const PassOptions& options);
  void rebuild_profile(Duration now);
  void unpromise(std::unordered_map<std::uint64_t, Promise>::iterator it);
  [[nodiscard]] bool overrun(Duration now) const;

  std::vector<PlannedNode> nodes_;
  NodeSet open_;  // a part of a core is free
  NodeChooser* chooser_ = nullptr;
  std::unordered_map<RunId, Run> runs_;
  std::map<std::pair<Duration, RunId>, Run*> ends_;
  std::vector<Refused> refused_;

  Profile profile_;
  bool profile_valid_ = false, freed_ = false;
  std::uint64_t round_ = 0;
  std::unordered_map<std::uint64_t, Promise> promises_;

  mutable std::uint64_t operations_ = 0;
  // Of one reserve(), kept for their storage: amounts by node, valid where the stamp is the round's.
  mutable std::vector<Amount> future_;
  mutable std::vector<std::uint32_t> stamps_;
  mutable std::uint32_t stamp_ = 0;
  mutable NodeSet fitting_;
  mutable std::vector<Node> chosen_, by_time_;
  mutable std::vector<NodeChooser::Chosen> scored_;
};

// now + limit, without running over the end of time.
constexpr Duration end_of(Duration now, Duration limit) { return limit > kNoLimit - now ? kNoLimit : now + limit; }

}  // namespace bourse::batch
