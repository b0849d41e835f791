// First come, first served with EASY backfilling, as arithmetic: no I/O, no clock, no jobs' names.
//
// Source: Lifka 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001, section 2 (EASY). The reservation of the blocked head names
// its nodes, so that it holds on machines that differ: of those that will do, the ones that come free last. On one node this is the
// textbook's rule of counting, and on nodes of one processor each where what outlasts the reservation is placed on nodes that spares()
// lets go (pass() does not look for those). Rules that matter and are fixed here: a pass sees all completions and arrivals of its
// moment; the reservation is computed anew in every pass; a run beyond its limit counts as ending just after now; "ends by the
// reservation" is <=; among nodes the lowest index comes first.
//
// The caller tells what is free and what runs; the planner says who may start. Cost of a reservation: the runs that end before it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "common/core/labels.h"
#include "common/core/resources.h"
#include "common/core/time.h"

namespace bourse::batch {

struct Need {
  Shape shape;              // on each node
  std::uint32_t nodes = 1;  // different ones
};

class Planner {
 public:
  using Node = std::uint32_t;
  using RunId = std::uint64_t;
  struct Holding {
    Node node = 0;
    Resources amount;
  };
  struct Reservation {
    Duration at{0};                    // kNoLimit: not with what is known to run here
    std::vector<Node> nodes;           // those reserved
    std::map<Node, Resources> future;  // what is free on them at `at`, less what was let past it since
  };
  struct Candidate {
    std::uint64_t job = 0;
    const Need* need = nullptr;
    Duration limit = kNoLimit;
  };
  struct Start {
    std::uint64_t job = 0;
    std::vector<Holding> holdings;
    bool backfilled = false;
  };

  Node add_node(Resources total, Labels labels, Resources free);
  void set_node(Node node, Resources total, Labels labels);
  void set_free(Node node, Resources free);  // what could be used at once
  [[nodiscard]] const Resources& total(Node node) const { return nodes_[node].total; }
  [[nodiscard]] const Resources& free(Node node) const { return nodes_[node].free; }
  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }

  void start(RunId run, Duration end, std::vector<Holding> holdings);  // takes nothing from `free`: see take()
  void finish(RunId run);                                              // gives nothing back: see give()
  Result<> take(const Holding& holding);
  Result<> give(const Holding& holding);
  [[nodiscard]] const std::vector<Holding>* holdings(RunId run) const;

  // Where `need` fits into what is free now; empty where it does not. Nothing is taken.
  [[nodiscard]] std::vector<Holding> place(const Need& need) const;
  [[nodiscard]] Reservation reserve(const Need& head, Duration now) const;
  // May this start on these nodes, ending at `end`, without delaying the head? If so, and it outlasts the reservation, it is
  // counted there.
  bool allow(Reservation& reservation, const Need& head, const std::vector<Holding>& holdings, Duration end) const;

  // The same question about one node, counting nothing: may a part of something that ends at `end` be placed there?
  [[nodiscard]] bool spares(const Reservation& reservation, const Need& head, const Holding& holding, Duration end) const;

  // One whole pass over a queue: starts what may start (taking from `free`, with start()), looks at most `depth` jobs past the head.
  std::vector<Start> pass(Duration now, const std::vector<Candidate>& queue, std::size_t depth);

 private:
  struct NodeState {
    Resources total, free;
    Labels labels;
  };
  struct Run {
    Duration end{0};
    std::vector<Holding> holdings;
  };
  [[nodiscard]] bool fits_on(const Shape& shape, Node node, const Resources& free) const;

  void reopen(Node node);

  std::vector<NodeState> nodes_;
  std::set<Node> open_;  // a part of a core is free
  std::set<std::pair<Duration, RunId>> ends_;
  std::unordered_map<RunId, Run> runs_;
};

}  // namespace bourse::batch
