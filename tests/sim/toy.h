// A small framework for the simulator: N single tasks and some gangs, durable, restartable. It decides as simply as it can;
// what is tested is everything below it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/core/actor.h"

namespace bourse::sim {

struct ToyOptions {
  std::string name = "toy";
  std::uint32_t singles = 20, gangs = 3;
  std::uint32_t gang_size = 2;
  std::uint32_t ignore_permille = 50;   // of offers get no answer at all
  bool kills = true;                    // every seventh task is killed once it runs
  std::uint32_t follow_permille = 250;  // of single tasks are sent to follow another in its slice; some of them are taken back
  std::uint64_t seed = 1;
  std::string device_kind = {};  // not empty: each task wants one of these
  bool revocable = false;        // out of what is lent
  Duration time_limit = seconds(15);
};

class Toy final : public Actor {
 public:
  explicit Toy(ToyOptions options);
  void step(Time now, const Event& event, Actions& out) override;

  [[nodiscard]] bool done() const;
  [[nodiscard]] std::string unfinished() const;  // one line for a failure report

 private:
  struct Member {
    TaskId task;
    SliceId slice;
    AgentId agent;
    bool launched = false, ended = false, again = false;
  };
  enum class Phase { kWanted, kAsked, kLaunched, kDone };
  struct Unit {
    std::uint64_t id = 0;
    std::uint32_t size = 1, attempt = 0;
    Phase phase = Phase::kWanted;
    GangId gang;
    std::vector<Member> members;
    std::map<OfferId, Offer> pool;  // a gang's, until there are enough
  };

  void replay(const std::string& record);
  void up(const SessionEvent& event);
  void offer(const Offer& offer);
  void gather(Unit& unit);
  void launch(Unit& unit, Member& member, bool in_turn = false);
  void follow(const Member& first);
  [[nodiscard]] bool slice_in_use(const SliceId& slice) const;
  void take_back_behind(const TaskId& first, const SliceId& slice);
  void update(const TaskUpdate& update);
  void ended(Unit& unit, Member& member, TaskState state);
  void skip(Unit& unit, std::size_t index);
  void settle(Unit& unit);
  void publish();
  Unit* unit_of(const TaskId& task, Member** member);
  Unit* unit_of(GangId gang);
  [[nodiscard]] TaskId task_id(const Unit& unit, std::size_t member) const;
  [[nodiscard]] Shape shape(const Unit& unit) const;

  ToyOptions options_;
  Actions* out_ = nullptr;
  Incarnation incarnation_;
  std::uint64_t slices_made_ = 0, gangs_made_ = 0, offers_seen_ = 0;
  std::map<std::uint64_t, Unit> units_;
  std::set<SliceId> asked_;  // in this life
  std::map<TaskId, std::uint64_t> unit_of_task_;
  std::vector<DemandLine> published_;
  bool published_any_ = false;
};

}  // namespace bourse::sim
