#include "toy.h"

#include <algorithm>
#include <sstream>

namespace bourse::sim {

namespace {
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t h = (a + 0x9e3779b97f4a7c15ULL) ^ (b * 0xbf58476d1ce4e5b9ULL);
  h ^= h >> 31;
  return h * 0x94d049bb133111ebULL >> 7;
}
}  // namespace

Toy::Toy(ToyOptions options) : options_(std::move(options)) {
  for (std::uint64_t i = 1; i <= options_.singles + options_.gangs; ++i) {
    Unit unit;
    unit.id = i;
    unit.size = i <= options_.singles ? 1 : options_.gang_size;
    unit.members.resize(unit.size);
    units_[i] = unit;
  }
}

TaskId Toy::task_id(const Unit& unit, std::size_t member) const {
  return TaskId("t" + std::to_string(unit.id) + "." + std::to_string(member) + "." + std::to_string(unit.attempt));
}

Shape Toy::shape(const Unit& unit) const {
  Shape s;
  s.cpus = MilliCpus{1000 + 500 * static_cast<std::int64_t>(unit.size > 1)};
  s.mem = Bytes{256LL << 20};
  s.revocable = options_.revocable;
  if (!options_.device_kind.empty()) s.devices = {{options_.device_kind, 1, true, {}, {}, {}}};
  return s;
}

bool Toy::done() const {
  return std::all_of(units_.begin(), units_.end(), [](const auto& u) { return u.second.phase == Phase::kDone; });
}

std::string Toy::unfinished() const {
  std::string out;
  for (const auto& [id, unit] : units_) {
    if (unit.phase == Phase::kDone) continue;
    out += " unit=" + std::to_string(id) + " attempt=" + std::to_string(unit.attempt) +
           " phase=" + std::to_string(static_cast<int>(unit.phase));
    for (const Member& m : unit.members) {
      if (m.launched && !m.ended) out += " waits for " + m.task.value + " on " + m.agent.value + " in " + to_text(m.slice);
    }
    out += ";";
  }
  return out;
}

Toy::Unit* Toy::unit_of(const TaskId& task, Member** member) {
  const auto at = unit_of_task_.find(task);
  if (at == unit_of_task_.end()) return nullptr;
  Unit& unit = units_.at(at->second);
  for (Member& m : unit.members) {
    if (m.task == task) {
      *member = &m;
      return &unit;
    }
  }
  return nullptr;  // of an attempt that is over
}

Toy::Unit* Toy::unit_of(GangId gang) {
  for (auto& [id, unit] : units_) {
    if (unit.gang == gang && unit.phase == Phase::kAsked) return &unit;
  }
  return nullptr;
}

// --- records -----------------------------------------------------------------------------------------------------------

void Toy::replay(const std::string& record) {
  std::istringstream in(record);
  std::string kind, task, agent;
  in >> kind;
  if (kind == "launch") {
    std::uint64_t unit_id = 0, slice = 0;
    std::size_t index = 0;
    in >> unit_id >> index >> task >> slice >> agent;
    Unit& unit = units_.at(unit_id);
    Member& m = unit.members.at(index);
    m = {TaskId(task), SliceId{FrameworkId(options_.name), slice}, AgentId(agent), true, false, false};
    unit.phase = Phase::kLaunched;
    unit_of_task_[m.task] = unit_id;
  } else if (kind == "skip") {
    std::uint64_t unit_id = 0;
    std::size_t index = 0;
    in >> unit_id >> index;
    skip(units_.at(unit_id), index);
  } else if (kind == "end") {
    int state = 0;
    in >> task >> state;
    Member* m = nullptr;
    if (Unit* unit = unit_of(TaskId(task), &m)) ended(*unit, *m, static_cast<TaskState>(state));
  }
}

void Toy::ended(Unit& unit, Member& member, TaskState state) {
  if (member.ended) return;
  member.ended = true;
  member.again = state == TaskState::kLost || state == TaskState::kNeverStarted || state == TaskState::kFailedStart ||
                 state == TaskState::kPreempted || state == TaskState::kUnknownExit;
  settle(unit);
}

// A power loss took the records of some launches of a gang, hence also those launches: they wait behind their records.
void Toy::skip(Unit& unit, std::size_t index) {
  unit.members.at(index).ended = unit.members.at(index).again = true;
  settle(unit);
}

void Toy::settle(Unit& unit) {
  const auto over = [](const Member& m) { return m.ended; };
  if (!std::all_of(unit.members.begin(), unit.members.end(), over)) return;
  if (std::none_of(unit.members.begin(), unit.members.end(), [](const Member& m) { return m.again; })) {
    unit.phase = Phase::kDone;
    return;
  }
  ++unit.attempt;
  unit.phase = Phase::kWanted;
  unit.members.assign(unit.size, Member{});
}

// --- events ------------------------------------------------------------------------------------------------------------

void Toy::step(Time, const Event& event, Actions& out) {
  out_ = &out;
  if (const auto* started = std::get_if<Started>(&event)) {
    incarnation_ = started->incarnation;
    for (const std::string& record : started->records) replay(record);
    for (auto& [id, unit] : units_) {
      for (std::size_t i = 0; unit.phase == Phase::kLaunched && i < unit.members.size(); ++i) {
        if (unit.members[i].launched || unit.members[i].ended) continue;
        out.append(Safety::kPower, "skip " + std::to_string(id) + " " + std::to_string(i));
        skip(unit, i);
      }
    }
  } else if (const auto* session = std::get_if<SessionEvent>(&event)) {
    up(*session);
  }
  publish();
}

void Toy::up(const SessionEvent& event) {
  if (std::holds_alternative<SessionUp>(event)) {
    std::map<AgentId, std::vector<TaskId>> believed;
    for (const auto& [id, unit] : units_) {
      for (const Member& m : unit.members) {
        if (m.launched && !m.ended) believed[m.agent].push_back(m.task);
      }
    }
    for (auto& [agent, tasks] : believed) out_->session.push_back(ReconcileTasks{agent, std::move(tasks)});
  } else if (const auto* made = std::get_if<OfferMade>(&event)) {
    offer(made->offer);
  } else if (const auto* ended = std::get_if<OfferEnded>(&event)) {
    for (auto& [id, unit] : units_) unit.pool.erase(ended->offer);
  } else if (const auto* ready = std::get_if<SliceReady>(&event)) {
    bool wanted = asked_.contains(ready->spec.id);
    for (const auto& [id, unit] : units_) {
      for (const Member& m : unit.members) wanted = wanted || (m.slice == ready->spec.id && !m.ended);
    }
    if (!wanted) out_->session.push_back(ReleaseSlice{ready->spec.id, seconds(1)});
  } else if (const auto* gang = std::get_if<GangReady>(&event)) {
    if (Unit* unit = unit_of(gang->gang)) {
      unit->phase = Phase::kLaunched;
      for (Member& m : unit->members) launch(*unit, m);
    }
  } else if (const auto* failed = std::get_if<GangFailed>(&event)) {
    if (Unit* unit = unit_of(failed->gang)) {
      for (const Member& m : unit->members) asked_.erase(m.slice);
      unit->phase = Phase::kWanted;
      unit->gang = GangId{};
      unit->members.assign(unit->size, Member{});
    }
  } else if (const auto* update_event = std::get_if<TaskUpdate>(&event)) {
    update(*update_event);
  }
}

void Toy::offer(const Offer& offer) {
  if (mix(options_.seed, ++offers_seen_ + offer.id.value) % 1000 < options_.ignore_permille) return;
  if (offer.line > options_.singles) {
    const auto at = units_.find(offer.line);
    if (at != units_.end() && at->second.phase == Phase::kWanted) {
      at->second.pool[offer.id] = offer;
      gather(at->second);
      return;
    }
  } else {
    for (auto& [id, unit] : units_) {
      if (unit.size > 1 || unit.phase != Phase::kWanted) continue;
      if (fits(shape(unit), offer.resources, offer.agent_total, offer.labels) != Misfit::kNone) break;
      Member& m = unit.members[0];
      m.slice = {FrameworkId(options_.name), (incarnation_.value << 24) + ++slices_made_};
      m.agent = offer.agent;
      asked_.insert(m.slice);
      AcceptOffers accept;
      accept.accept.items.push_back({offer.id, offer.generation, {{m.slice.number, shape(unit), Duration(0), offer.line}}, false});
      out_->session.push_back(std::move(accept));
      unit.phase = Phase::kLaunched;
      launch(unit, m);
      follow(m);
      return;
    }
  }
  out_->session.push_back(DeclineOffers{{{offer.id, DeclineReason::kNoWork, {}, Duration(0)}}});
}

void Toy::gather(Unit& unit) {
  std::uint32_t have = 0;
  for (const auto& [id, offer] : unit.pool)
    have += count_fits(shape(unit), offer.resources, offer.agent_total, offer.labels, unit.size);
  if (have < unit.size) return;
  AcceptOffers accept;
  unit.gang = GangId((incarnation_.value << 24) + ++gangs_made_);
  accept.accept.gang = unit.gang;
  accept.accept.all_or_nothing = true;
  std::uint32_t next = 0;
  for (const auto& [id, offer] : unit.pool) {
    Accept::Item item{id, offer.generation, {}, false};
    const std::uint32_t most = count_fits(shape(unit), offer.resources, offer.agent_total, offer.labels, unit.size);
    have -= most;  // what the offers after this one can carry
    const std::uint32_t need = unit.size - next;
    std::uint32_t here = std::min(most, std::max(need > have ? need - have : 0u, need > 0 ? 1u : 0u));  // spread where that can be
    for (; here > 0; --here, ++next) {
      Member& m = unit.members[next];
      m.slice = {FrameworkId(options_.name), (incarnation_.value << 24) + ++slices_made_};
      m.agent = offer.agent;
      asked_.insert(m.slice);
      item.slices.push_back({m.slice.number, shape(unit), Duration(0), offer.line});
    }
    accept.accept.items.push_back(std::move(item));
  }
  unit.pool.clear();
  unit.phase = Phase::kAsked;
  out_->session.push_back(std::move(accept));
}

void Toy::follow(const Member& first) {
  const SliceId slice = first.slice;
  const AgentId agent = first.agent;
  for (auto& [id, unit] : units_) {
    if (unit.size > 1 || unit.phase != Phase::kWanted) continue;
    if (mix(options_.seed + unit.attempt, id) % 1000 >= options_.follow_permille) return;
    Member& m = unit.members[0];
    m.slice = slice, m.agent = agent;
    unit.phase = Phase::kLaunched;
    launch(unit, m, true);
  }
}

bool Toy::slice_in_use(const SliceId& slice) const {
  for (const auto& [id, unit] : units_) {
    for (const Member& m : unit.members)
      if (m.slice == slice && m.launched && !m.ended) return true;
  }
  return false;
}

void Toy::take_back_behind(const TaskId& first, const SliceId& slice) {
  for (const auto& [id, unit] : units_) {
    for (const Member& m : unit.members) {
      if (m.slice != slice || !m.launched || m.ended || m.task == first || id % 3 != 0) continue;
      Kill kill;
      kill.agent = m.agent, kill.task = m.task;
      kill.unstarted_only = true;
      out_->session.push_back(KillTask{kill});
    }
  }
}

void Toy::launch(Unit& unit, Member& member, bool in_turn) {
  const auto index = static_cast<std::size_t>(&member - unit.members.data());
  member.task = task_id(unit, index);
  member.launched = true;
  unit_of_task_[member.task] = unit.id;
  out_->append(Safety::kPower, "launch " + std::to_string(unit.id) + " " + std::to_string(index) + " " + member.task.value + " " +
                                   std::to_string(member.slice.number) + " " + member.agent.value);
  TaskSpec spec;
  spec.user = "user";
  spec.argv = {"/bin/true"};
  spec.kill_grace = seconds(2);
  spec.time_limit = options_.time_limit;
  spec.in_turn = in_turn;
  out_->session.push_back(LaunchTask{member.agent, member.slice, member.task, std::move(spec)});
}

void Toy::update(const TaskUpdate& update) {
  // Acknowledged in order, each behind its record: acknowledgements are cumulative.
  const bool terminal = is_terminal(update.status.state);
  const std::string state = std::to_string(static_cast<int>(update.status.state));
  out_->append(Safety::kPower, (terminal ? "end " : "seen ") + update.status.task.value + " " + state);
  if (update.stream.value != 0) out_->session.push_back(AckStatus{update.agent, update.stream, update.sequence});
  Member* member = nullptr;
  Unit* unit = unit_of(update.status.task, &member);
  if (unit == nullptr) return;
  if (terminal) {
    const SliceId slice = member->slice;
    ended(*unit, *member, update.status.state);
    if (slice_in_use(slice)) return;
    asked_.erase(slice);
    out_->session.push_back(ReleaseSlice{slice, seconds(1)});
    return;
  }
  if (update.status.state == TaskState::kRunning) take_back_behind(member->task, member->slice);
  if (options_.kills && unit->id % 7 == 3 && update.status.state == TaskState::kRunning) {
    Kill kill;
    kill.agent = update.agent;
    kill.task = update.status.task;
    out_->session.push_back(KillTask{kill});
  }
}

void Toy::publish() {
  std::vector<DemandLine> lines;
  DemandLine singles;
  singles.id = 1;
  for (const auto& [id, unit] : units_) {
    if (unit.phase != Phase::kWanted) continue;
    if (unit.size == 1) {
      singles.shape = shape(unit);
      ++singles.count;
    } else {
      DemandLine line;
      line.id = id;
      line.shape = shape(unit);
      line.count = line.gang_min = unit.size;
      lines.push_back(line);
    }
  }
  if (singles.count > 0) lines.insert(lines.begin(), singles);
  if (published_any_ && lines == published_) return;
  published_any_ = true;
  published_ = lines;
  out_->session.push_back(SetDemand{false, lines});
}

}  // namespace bourse::sim
