// What the tools ask: queue, job, nodes, why, summary. Answers are made from memory; the history has its own reader.
#include <algorithm>

#include "frameworks/batch/batch.h"

namespace bourse::batch {
namespace {

bool has(const std::vector<std::string>& list, std::string_view word) {
  return list.empty() || std::find(list.begin(), list.end(), word) != list.end();
}

constexpr std::uint64_t kPhaseQueue = std::uint64_t{1} << 62, kPhaseRest = std::uint64_t{2} << 62,
                        kPhaseMask = std::uint64_t{3} << 62;

}  // namespace

// --- rows ----------------------------------------------------------------------------------------------------------

bool Batch::passes(const Job& job, const JobFilter& filter) const {
  if (!filter.jobs.empty()) {
    bool found = false;
    for (const JobSelector& s : filter.jobs)
      found = found || (s.job.value >= job.id.value && s.job.value - job.id.value < job.ids());
    if (!found) return false;
  }
  if (filter.users.empty() && filter.names.empty() && filter.partitions.empty() && filter.accounts.empty()) return true;
  const SpecView v = Jobs::view(job);
  return has(filter.users, v.user) && has(filter.names, v.name) && has(filter.partitions, v.partition) &&
         has(filter.accounts, v.account);
}

bool Batch::is_first(const Job& job) const {
  if (!order_.plain()) return head_ == job.id;
  return !queue_.order().empty() && queue_.order().begin()->first.job == job.id;
}

std::pair<Reason, std::string> Batch::reason_of(const Job& job) const {
  switch (job.reason) {
    case Reason::kPriority:
    case Reason::kResources:
      if (alloc_.agents().empty()) return {Reason::kNoAgents, "no agent has registered yet"};
      if (job.spec->reservation) return {Reason::kResources, {}};
      if (std::string text = closed_to(job); !text.empty()) return {Reason::kNodeNotAvailable, std::move(text)};
      if (is_first(job)) return {Reason::kResources, {}};
      return {Reason::kPriority, {}};
    case Reason::kReservation:
    case Reason::kReservationGone:
      return {job.reason, reservation_text(job)};
    case Reason::kNodeNotAvailable:
      return {job.reason, "after a restart: waiting for the agents' word on whether one of them runs it"};
    case Reason::kHeldAdmin:
      if (job.attempt > options_.attempts_max)
        return {Reason::kLaunchHeld, "held after " + std::to_string(job.attempt - 1) + " attempts"};
      return {job.reason, {}};
    default:
      return {job.reason, {}};
  }
}

// Every agent that could hold it closes before it would end: which, and when the next one is open again.
std::string Batch::closed_to(const Job& job) const {
  if (!alloc_.any_closes() || job.spec->reservation) return {};
  const std::optional<AgentId> closing = window_in_way(job);
  if (!closing) return {};
  const Shape& shape = layouts_.at(job.layout).need.shape;
  const Duration ends = job.spec->limit > kNoLimit - now_.wall ? kNoLimit : now_.wall + job.spec->limit;
  for (const auto& [agent, facts] : alloc_.agents()) {
    const bool open = facts.state == AgentFacts::State::kUp && !alloc_.closes_before(agent, ends, "");
    if (open && const_cast<Allocations&>(alloc_).could_hold(shape, agent)) return {};
  }
  const std::string limits =
      job.spec->limit == kNoLimit ? "it has no time limit, and" : "its time limit of " + format_duration(job.spec->limit);
  const AgentFacts& facts = alloc_.agents().at(*closing);
  if (facts.closes.count() == 0 || ends <= facts.closes) {
    const AgentFacts::Reserved* part = alloc_.reserved().next(*closing, "");
    if (part == nullptr) return {};
    return limits + " would run into reservation " + part->name + " of " + closing->str() + " for " +
           (part->named ? "jobs that name it" : "role " + part->role.str()) + ", which begins in " +
           format_duration(std::chrono::ceil<seconds>(std::max(Duration{0}, part->start - now_.wall)));
  }
  const Duration until = std::chrono::ceil<seconds>(std::max(Duration{0}, facts.closes - now_.wall));
  return limits + " would run into the maintenance of " + closing->str() +
         (until.count() > 0 ? ", which begins in " + format_duration(until) : ", which has begun");
}

JobInfo Batch::base_info(const Job& job, bool full) const {
  JobInfo i;
  const SpecView v = Jobs::view(job);
  i.id = job.id;
  i.name = v.name, i.user = v.user, i.account = v.account, i.partition = v.partition, i.qos = v.qos, i.uid = v.uid;
  i.priority = job.rank_priority, i.nice = job.spec->nice;
  i.time_limit = job.spec->limit;
  i.submitted = job.submitted, i.eligible = job.eligible;
  i.restarts = job.restarts;
  if (job.spec->layout_epoch != 0) {
    const Layout& l = layouts_.at(job.queued > 0 || job.state != JobState::kPending ? job.layout : job.spec->layout);
    i.nodes = l.need.nodes, i.tasks = l.tasks, i.cpus_per_task = l.cpus_per_task;
    i.cpus = MilliCpus(l.need.shape.cpus.value * l.need.nodes), i.mem = l.need.shape.mem;
  }
  if (!full) return i;
  i.full = true;
  const JobSpec* spec = &jobs_.full_spec(job);
  i.gid = spec->gid, i.directory = spec->directory, i.script_path = spec->script_path, i.comment = spec->comment;
  i.dependency = spec->dependency, i.constraints = to_text(spec->constraints), i.node_request = spec->node_list;
  i.exclude = spec->exclude, i.submit_dir = spec->submit_dir, i.args = spec->args, i.begin = spec->begin;
  i.requeue = job.spec->requeue, i.exclusive = spec->exclusive;
  i.reservation = spec->reservation, i.mail_type = spec->mail_type, i.mail_user = spec->mail_user;
  i.stdin_path = spec->stdin_path;
  i.stdout_path = spec->stdout_path.empty() ? (job.array ? "job-%A_%a.out" : "job-%j.out") : spec->stdout_path;
  i.stderr_path = spec->stderr_path;
  if (job.script != nullptr) i.script_digest = job.script->digest;
  for (const DeviceAsk& ask : spec->devices_per_node)
    i.devices += (i.devices.empty() ? "" : ",") + ask.kind + ":" + std::to_string(ask.count);
  if (job.spec->layout_epoch == 0)
    if (auto l = lay_out(*spec, options_, alloc_.largest_cpus()); l) {
      i.nodes = l->need.nodes, i.tasks = l->tasks, i.cpus_per_task = l->cpus_per_task;
      i.cpus = MilliCpus(l->need.shape.cpus.value * l->need.nodes), i.mem = l->need.shape.mem;
    }
  return i;
}

JobInfo Batch::run_info(const Job& job, const Run& run, bool full) const {
  JobInfo i = base_info(job, full);
  const Placement placement = placement_of(job, run);
  i.id = placement.id, i.array = placement.array;
  if (job.array) i.indexes = std::to_string(placement.index);
  i.state = run.state;
  i.restarts = run.restarts;
  i.time_limit = run.limit;
  i.started = run.started.count() > 0 ? run.started : run.launched_wall;
  i.elapsed = std::max<Duration>(now_.wall - i.started, Duration{0});
  i.node_list = compress_hosts(placement.hosts);
  i.cpus = MilliCpus(placement.cpus_per_node.value * static_cast<std::int64_t>(std::max<std::size_t>(placement.hosts.size(), 1)));
  if (full) {
    const OutputNames names = output_names(jobs_.full_spec(job), placement);
    i.stdin_path = names.in, i.stdout_path = names.out, i.stderr_path = names.error.empty() ? names.out : names.error;
  }
  return i;
}

JobInfo Batch::waiting_info(const Job& job, bool full) const {
  JobInfo i = base_info(job, full);
  if (job.array) i.array = job.id, i.indexes = job.array->waiting_text();
  i.state = job.ending ? JobState::kCompleting : JobState::kPending;
  std::tie(i.reason, i.reason_text) = reason_of(job);
  if (job.spec->begin > now_.wall) i.estimated_start = job.spec->begin;
  return i;
}

void Batch::rows_of(const Job& job, const JobFilter& filter, bool full, bool each_task, std::size_t limit,
                    std::vector<JobInfo>& rows) const {
  auto put = [&](JobInfo info) {
    if (!filter.states.empty() && std::find(filter.states.begin(), filter.states.end(), info.state) == filter.states.end()) return;
    if (!filter.hosts.empty()) {
      auto hosts = expand_hosts(info.node_list);
      if (!hosts || std::none_of(hosts->begin(), hosts->end(), [&](const std::string& h) { return has(filter.hosts, h); })) return;
    }
    rows.push_back(std::move(info));
  };
  std::set<std::uint64_t> numbers;  // single tasks that were asked for
  bool whole = filter.jobs.empty();
  for (const JobSelector& s : filter.jobs) {
    if (s.job == job.id && s.indexes.empty())
      whole = true;
    else if (s.job == job.id && job.array) {
      if (auto set = IndexSet::parse(s.indexes); set)
        for (std::uint64_t rank : job.array->running())
          if (set->contains(job.array->index(rank))) numbers.insert(job.number(rank));
      if (auto set = IndexSet::parse(s.indexes); set && set->size() == 1)
        if (auto rank = job.array->rank(set->min()); rank) numbers.insert(job.number(*rank));
    } else if (s.job.value > job.id.value && s.job.value - job.id.value < job.ids())
      numbers.insert(s.job.value);
  }
  auto wanted = [&](std::uint64_t number) { return whole || numbers.contains(number); };
  if (!job.array) {
    auto run = runs_.find(job.id.value);
    return put(run != runs_.end() ? run_info(job, run->second, full) : waiting_info(job, full));
  }
  for (auto it = runs_.lower_bound(job.number(0)); it != runs_.end() && it->second.job == job.id && rows.size() < limit; ++it)
    if (wanted(it->first)) put(run_info(job, it->second, full));
  if (job.array->waiting() == 0) return;
  if (whole && !each_task) return put(waiting_info(job, full));
  for (auto [a, b] : job.array->waiting_ranges(kPageMax))
    for (std::uint64_t rank = a; rank <= b && rows.size() < limit; ++rank) {
      if (!wanted(job.number(rank))) {
        if (!whole && numbers.upper_bound(job.number(rank)) == numbers.end()) break;
        continue;
      }
      JobInfo info = waiting_info(job, full);
      info.id = JobId(job.number(rank)), info.indexes = std::to_string(job.array->index(rank));
      put(std::move(info));
    }
}

void Batch::handle(const Asker& asker, const Who&, const QueueRequest& q) {
  QueueReply reply;
  const std::size_t limit = q.limit == 0 ? kPageDefault : std::min<std::size_t>(q.limit, kPageMax);
  if (q.order == Order::kId) {
    auto it = jobs_.all().upper_bound(JobId(q.after));
    for (; it != jobs_.all().end() && reply.rows.size() < limit; ++it) {
      if (!it->second.durable || !passes(it->second, q.filter)) continue;
      rows_of(it->second, q.filter, q.full, q.each_task, limit, reply.rows);
      reply.next = it->first.value;
    }
    if (it == jobs_.all().end()) reply.next = 0;
    return answer(asker, std::move(reply));
  }
  // Running ones by number, then the queue in its order, then those that may not start yet by id.
  std::uint64_t after = q.after;
  JobFilter tasks = q.filter;
  if ((after & kPhaseMask) == 0) {
    auto it = runs_.upper_bound(after);
    for (; it != runs_.end() && reply.rows.size() < limit; ++it) {
      const Job& job = jobs_.all().at(it->second.job);
      if (!passes(job, q.filter)) continue;
      JobInfo info = run_info(job, it->second, q.full);
      if (q.filter.states.empty() || std::find(q.filter.states.begin(), q.filter.states.end(), info.state) != q.filter.states.end())
        reply.rows.push_back(std::move(info));
      reply.next = it->first;
    }
    if (it == runs_.end()) after = kPhaseQueue;
  }
  auto waiting = [&](const Job& job) {
    if (!job.durable || !job.waiting() || !passes(job, q.filter)) return;
    JobInfo info = waiting_info(job, q.full);
    if (q.filter.hosts.empty() &&
        (q.filter.states.empty() || std::find(q.filter.states.begin(), q.filter.states.end(), info.state) != q.filter.states.end()))
      reply.rows.push_back(std::move(info));
  };
  if ((after & kPhaseMask) == kPhaseQueue) {
    // In a policy's order the next page begins at a place: what comes and goes in between may be told twice or not at all.
    const bool plain = order_.plain();
    std::uint64_t place = plain ? 0 : after & ~kPhaseMask;
    Queue::Key key{INT64_MIN, JobId()};
    if (const std::uint64_t id = after & ~kPhaseMask; plain && id != 0) {
      const Job* job = jobs_.find(JobId(id));
      key = job != nullptr ? Queue::key_of(*job) : Queue::Key{0, JobId(id)};
    }
    bool more = true;
    while (more && reply.rows.size() < limit) {
      const std::size_t room = limit - reply.rows.size();
      const auto page = plain ? queue_.page(key, room) : order_.page(now_, place, room);
      more = page.size() == room;
      place += page.size();
      for (JobId id : page) {
        const Job& job = *jobs_.find(id);
        key = Queue::key_of(job);
        waiting(job);
      }
      if (page.empty()) more = false;
    }
    reply.next = kPhaseQueue | (plain ? key.job.value : place);
    if (!more) after = kPhaseRest;
  }
  if ((after & kPhaseMask) == kPhaseRest) {
    auto it = jobs_.all().upper_bound(JobId(after & ~kPhaseMask));
    for (; it != jobs_.all().end() && reply.rows.size() < limit; ++it) {
      if (it->second.queued == 0) waiting(it->second);
      reply.next = kPhaseRest | it->first.value;
    }
    if (it == jobs_.all().end()) reply.next = 0;
  }
  answer(asker, std::move(reply));
}

void Batch::handle(const Asker& asker, const Who& caller, const JobRequest& request) {
  JobReply reply;
  std::optional<std::uint64_t> rank;
  Job* job = jobs_.find_number(request.job.job.value, rank);
  if (job == nullptr || !job->durable) {
    reply.code = Code::kNotFound, reply.reason = "there is no job " + to_text(request.job);
    return answer(asker, std::move(reply));
  }
  JobFilter filter;
  filter.jobs = {request.job};
  rows_of(*job, filter, true, false, kPageMax, reply.rows);
  if (reply.rows.empty())
    reply.code = Code::kNotFound, reply.reason = "there is no task " + to_text(request.job) + " that has not ended";
  // Once: an array's tasks share it, and there may be thousands.
  if (request.script && job->script != nullptr && may_touch(caller, *job) && !reply.rows.empty())
    reply.rows.front().script = job->script->bytes;
  answer(asker, std::move(reply));
}

void Batch::handle(const Asker& asker, const Who&, const HistoryRequest&) {
  // The driver answers these from the store, off this thread. In a simulation there is none.
  HistoryReply reply;
  reply.code = Code::kUnsupported, reply.reason = "no history is kept here";
  answer(asker, std::move(reply));
}

// --- nodes, summary ------------------------------------------------------------------------------------------------

void Batch::handle(const Asker& asker, const Who&, const NodesRequest& request) {
  NodesReply reply;
  const std::size_t limit = request.limit == 0 ? kPageDefault : std::min<std::size_t>(request.limit, kPageMax);
  std::map<AgentId, NodeInfo> used;
  for (const auto& [id, slice] : alloc_.slices()) {
    if (slice.run == 0) continue;
    NodeInfo& n = used[slice.agent];
    n.cpus_used.value += slice.amount.cpus.value;
    n.mem_used.value += slice.amount.mem.value;
    ++n.jobs;
  }
  for (auto it = alloc_.agents().upper_bound(AgentId(request.after)); it != alloc_.agents().end(); ++it) {
    if (reply.nodes.size() == limit) {
      reply.more = true;
      break;
    }
    const AgentFacts& facts = it->second;
    NodeInfo n = used[it->first];
    n.name = it->first.str();
    n.cpus = facts.total.cpus, n.mem = facts.total.mem, n.degraded = facts.degraded;
    for (const auto& [key, value] : facts.labels) n.labels += (n.labels.empty() ? "" : ",") + key + "=" + value;
    std::map<std::string, std::uint32_t> kinds;
    for (const DeviceShare& d : facts.total.devices) ++kinds[d.kind];
    for (const auto& [kind, count] : kinds) n.devices += (n.devices.empty() ? "" : ",") + kind + ":" + std::to_string(count);
    switch (facts.state) {
      case AgentFacts::State::kUp:
        n.state = n.cpus_used.value == 0 ? "idle" : n.cpus_used < n.cpus ? "mixed" : "allocated";
        break;
      case AgentFacts::State::kUnreachable:
        n.state = "unreachable";
        break;
      case AgentFacts::State::kDraining:
        n.state = "draining";
        break;
      case AgentFacts::State::kCordoned:
        n.state = "cordoned";
        break;
      case AgentFacts::State::kRemoved:
        n.state = "removed";
        break;
    }
    reply.nodes.push_back(std::move(n));
  }
  answer(asker, std::move(reply));
}

void Batch::handle(const Asker& asker, const Who&, const SummaryRequest&) {
  SummaryReply r;
  r.cluster = cluster_, r.connected = connected_;
  std::map<std::string, std::uint64_t> by_reason, by_user;
  for (const auto& [id, job] : jobs_.all()) {
    if (job.ending) {
      ++r.completing;
      continue;
    }
    const std::uint64_t waiting = job.array ? job.array->waiting() : (job.state == JobState::kPending ? 1 : 0);
    if (waiting == 0) continue;
    r.pending += waiting;
    if (job.held || job.held_admin) r.held += waiting;
    by_reason[std::string(reason_name(reason_of(job).first))] += waiting;
    by_user[std::string(Jobs::view(job).user)] += waiting;
  }
  for (const auto& [number, run] : runs_) ++(run.state == JobState::kCompleting ? r.completing : r.running);
  r.pending_by_reason.assign(by_reason.begin(), by_reason.end());
  r.pending_by_user.assign(by_user.begin(), by_user.end());
  if (r.pending_by_user.size() > kPageDefault) r.pending_by_user.resize(kPageDefault);
  r.shadows = shadow_.findings();
  r.submitted_total = submitted_, r.started_total = started_, r.ended_total = ended_;
  for (const auto& [id, facts] : alloc_.agents()) {
    ++r.nodes;
    if (facts.state != AgentFacts::State::kUp) continue;
    ++r.nodes_up;
    r.cpus.value += facts.total.cpus.value, r.mem.value += facts.total.mem.value;
  }
  for (const auto& [id, slice] : alloc_.slices()) {
    ++r.slices;
    if (slice.run == 0) continue;
    r.cpus_used.value += slice.amount.cpus.value, r.mem_used.value += slice.amount.mem.value;
  }
  r.slices_idle = static_cast<std::uint32_t>(alloc_.idle());
  answer(asker, std::move(r));
}

// --- why -----------------------------------------------------------------------------------------------------------

void Batch::handle(const Asker& asker, const Who&, const WhyRequest& request) {
  WhyReply reply;
  std::optional<std::uint64_t> rank;
  Job* job = jobs_.find_number(request.job.job.value, rank);
  if (job == nullptr) {
    reply.code = Code::kNotFound, reply.reason = "there is no job " + to_text(request.job) + " that has not ended";
    return answer(asker, std::move(reply));
  }
  if (!job->waiting() || (rank && runs_.contains(request.job.job.value))) {
    JobFilter filter;
    filter.jobs = {request.job};
    std::vector<JobInfo> rows;
    rows_of(*job, filter, false, false, 1, rows);
    reply.job = rows.empty() ? base_info(*job, false) : rows.front();
    reply.lines.push_back("it is not waiting: state " + std::string(state_name(reply.job.state)) +
                          (reply.job.node_list.empty() ? "" : " on " + reply.job.node_list));
    return answer(asker, std::move(reply));
  }
  reply.job = waiting_info(*job, false);
  reply.position = order_.position(now_, *job);
  const auto [reason, text] = reason_of(*job);
  auto say = [&](std::string line) { reply.lines.push_back(std::move(line)); };
  switch (reason) {
    case Reason::kHeldUser:
      say("held by its user; `bourse release " + std::to_string(job->id.value) + "` lets it go");
      break;
    case Reason::kHeldAdmin:
      say("held by an operator");
      break;
    case Reason::kBeginTime:
      say(job->spec->begin > now_.wall ? "it asked not to begin before a given time"
                                       : "several starts of it failed; it is tried again in " +
                                             std::to_string((job->not_before - now_.mono) / seconds(1) + 1) + " seconds");
      break;
    case Reason::kDependency:
    case Reason::kDependencyNeverSatisfied:
      say((reason == Reason::kDependency ? "waits for other jobs: " : "waits for what can never be: ") +
          (job->depend ? to_text(job->depend->items) : ""));
      break;
    case Reason::kArrayTaskLimit:
      say("its array runs as many tasks at once as it allows: " + std::to_string(job->array->spec().max_running));
      break;
    case Reason::kNoAgents:
      say(connected_ ? "no agent has registered yet" : "not connected to a master: " + down_reason_);
      break;
    case Reason::kPriority:
      say(std::to_string(reply.position - 1) + " jobs are ahead of it");
      break;
    case Reason::kResources:
      say(job->spec->reservation ? "it waits for enough of reservation " + *job->spec->reservation + " to be free"
                                 : "it is the next of its kind, and waits for enough to be free");
      break;
    default:
      if (!text.empty()) say(text);
  }
  if (const auto trouble = troubles_.find(job->id); trouble != troubles_.end())
    say((job->array ? "one of its tasks was queued again: " : "it was queued again: ") + trouble->second);
  if (!connected_ && reason != Reason::kNoAgents) say("not connected to a master: " + down_reason_);
  if (job->queued == 0 || !connected_ || whys_.size() >= kWhysMax) return answer(asker, std::move(reply));
  // When does the first in the queue start, by what runs now?
  const Need& need = layouts_.at(job->layout).need;
  if (is_first(*job)) {
    const auto reservation = alloc_.planner().reserve(need, now_.mono);
    if (reservation.at != kNoLimit && reservation.at > now_.mono) {
      reply.job.estimated_start = now_.wall + (reservation.at - now_.mono);
      say("by the limits of what runs now it starts within " +
          format_duration(std::chrono::ceil<seconds>(reservation.at - now_.mono)));
    }
  }
  say("each of its " + std::to_string(need.nodes) + " nodes needs " + to_text(need.shape));
  const std::uint64_t tag = next_why_++;
  whys_[tag] = {asker, std::move(reply)};
  out_->session.push_back(Explain{tag, job->layout + std::uint64_t{1}});
}

void Batch::session(const Explained& e) {
  auto it = whys_.find(e.reply.tag);
  if (it == whys_.end()) return;
  WhyReply reply = std::move(it->second.reply);
  const Asker asker = it->second.asker;
  whys_.erase(it);
  if (e.reply.code == Code::kOk) {
    reply.agents = e.reply.agents;
    for (const auto& count : e.reply.counts) reply.counts.emplace_back(count.reason, count.agents);
    for (const auto& part : e.reply.failing)
      reply.lines.push_back(part.reason + " fails on " + std::to_string(part.agents) + " of " + std::to_string(e.reply.agents) +
                            (e.reply.agents == 1 ? " host" : " hosts"));
    if (!e.reply.nearest.empty()) reply.lines.push_back("nearest: " + e.reply.nearest);
    if (!e.reply.quota.empty()) reply.lines.push_back("limits: " + e.reply.quota);
    if (!e.reply.estimate.empty()) reply.lines.push_back("as the master sees it: " + e.reply.estimate);
    if (!e.reply.last_offer.empty()) reply.lines.push_back("last offer: " + e.reply.last_offer);
    if (!e.reply.last_decline.empty()) reply.lines.push_back("last decline: " + e.reply.last_decline);
    if (!e.reply.rank.empty()) reply.lines.push_back("rank: " + e.reply.rank);
  }
  answer(asker, std::move(reply));
}

}  // namespace bourse::batch
