#include "tests/batch/house.h"

#include <algorithm>
#include <cstdlib>

namespace bourse::batch::test {

BatchOptions House::defaults() {
  BatchOptions o;
  o.default_time_limit = seconds(3600);
  o.launch_ahead = Duration{0};  // what most tests are about comes one job after the other
  return o;
}

House::House(BatchOptions options) : options_(std::move(options)) {}

void House::add_agent(const std::string& name, std::int64_t cores, Bytes mem, Labels labels) {
  Agent agent;
  agent.total.cpus = MilliCpus(cores * 1000);
  agent.total.mem = mem;
  agent.free = agent.total;
  labels["host"] = name;
  agent.labels = std::move(labels);
  agents[AgentId(name)] = std::move(agent);
}

void House::start() {
  batch = std::make_unique<Batch>(options_);
  post(Started{incarnation_, {}, disk});
  session_up();
  settle();
}

void House::session_up() {
  post(SessionEvent(SessionUp{Epoch(1), "test"}));
  AgentsChanged changed;
  changed.snapshot = true;
  for (const auto& [id, a] : agents) changed.agents.push_back(facts_of(id, a));
  post(SessionEvent(std::move(changed)));
  for (const auto& [id, slot] : slices) {
    SliceSpec spec;
    spec.id = id, spec.resources = slot.amount, spec.gang = slot.gang;
    if (agents.at(slot.agent).up) post(SessionEvent(SliceReady{slot.agent, spec}));
  }
  for (const auto& [agent, updates] : unacked_)
    if (agents.at(agent).up)
      for (const auto& [sequence, update] : updates) post(SessionEvent(update));
}

AgentFacts House::facts_of(const AgentId& id, const Agent& a) const {
  AgentFacts facts{id, a.up ? AgentFacts::State::kUp : AgentFacts::State::kUnreachable, a.total, a.labels, Incarnation(1), false};
  if (a.closes.count() > 0) facts.closes = a.closes, facts.reopens = a.closes + seconds(3600);
  facts.reserved = a.reserved;
  return facts;
}

void House::facts(const AgentId& id) {
  AgentsChanged changed;
  changed.agents.push_back(facts_of(id, agents.at(id)));
  post(SessionEvent(std::move(changed)));
}

// What the master looks at before it offers something of an agent: windows, and whose it is.
bool House::may_offer(const Agent& a, const DemandLine& line, std::string& reserved) const {
  reserved.clear();
  if (a.closes.count() > 0 && line.lasts > a.closes - now.wall) return false;
  for (const AgentFacts::Reserved& r : a.reserved) {
    if (r.end.count() != 0 && r.end <= now.wall) continue;
    const bool serves = r.role == RoleName("batch") && (line.reservation == r.name || (line.reservation.empty() && !r.named));
    if (r.start > now.wall) {
      if (!serves && line.lasts > r.start - now.wall) return false;
      continue;
    }
    if (!serves) return false;
    if (!line.reservation.empty() && r.end.count() != 0 && line.lasts > r.end - now.wall) return false;
    reserved = r.name;
  }
  return line.reservation.empty() || reserved == line.reservation;
}

void House::restart() {
  batch = std::make_unique<Batch>(options_);
  events_.clear();
  timers_.clear();
  // What was not durable when it died is lost; what it had already asked the disk for may or may not be: here it is lost.
  waiting_.clear();
  for (auto& [id, offer] : offers_) (void)static_cast<bool>(agents.at(offer.agent).free.add(offer.resources));
  offers_.clear();
  demand.clear();
  hold_off_.clear();
  incarnation_ = incarnation_.next();
  post(Started{incarnation_, {}, disk});
  session_up();
  settle();
}

bool House::step_one() {
  if (events_.empty()) {
    for (auto& [key, at] : timers_) {
      if (at > now.mono) continue;
      TimerKey due = key;
      timers_.erase(key);
      post(TimerFired{due});
      break;
    }
  }
  if (events_.empty()) return false;
  const Event event = std::move(events_.front());
  events_.pop_front();
  Actions actions;
  actions.ticket = next_ticket_++;
  batch->step(now, event, actions);
  ++steps;
  execute(actions);
  if (after_step) after_step();
  return true;
}

void House::execute(Actions& actions) {
  HeldStep held{actions.ticket, std::move(actions.appends), std::move(actions.session), std::move(actions.replies),
                std::move(actions.mails)};
  spans.insert(spans.end(), std::make_move_iterator(actions.spans.begin()), std::make_move_iterator(actions.spans.end()));
  for (const TimerKey& key : actions.disarms) timers_.erase(key);
  for (const Arm& arm : actions.arms) timers_[arm.key] = now.mono + arm.after;
  if (held.appends.empty()) return release(std::move(held));
  const bool power =
      std::any_of(held.appends.begin(), held.appends.end(), [](const Append& a) { return a.safety == Safety::kPower; });
  if (!power) {  // hints: on the disk some time; here at once, unless the disk is slow (then they get lost by a restart)
    if (!disk_slow)
      for (Append& a : held.appends) disk.push_back(std::move(a.record));
    held.appends.clear();
    post(Durable{held.ticket});
    return release(std::move(held));
  }
  if (disk_slow)
    waiting_.push_back(std::move(held));
  else
    finish_append(std::move(held));
}

void House::finish_append(HeldStep held) {
  if (disk_full) return post(AppendFailed{held.ticket, "No space left on device"});
  for (Append& a : held.appends) disk.push_back(std::move(a.record));
  const Ticket ticket = held.ticket;
  release(std::move(held));
  post(Durable{ticket});
}

void House::release_disk() {
  disk_slow = false;
  while (!waiting_.empty()) {
    HeldStep held = std::move(waiting_.front());
    waiting_.pop_front();
    finish_append(std::move(held));
  }
  settle();
}

void House::release(HeldStep held) {
  mails.insert(mails.end(), std::make_move_iterator(held.mails.begin()), std::make_move_iterator(held.mails.end()));
  for (const SessionCommand& c : held.session) command(c);
  for (Reply& r : held.replies) {
    auto decoded = decode_reply(r.payload);
    ASSERT_TRUE(decoded) << decoded.error().text();
    replies.push_back(*std::move(decoded));
  }
}

bool House::end_on_disk(const TaskId& task) const {
  // "job.index.attempt": an end of it, or a later attempt, is on record.
  const std::string& text = task.str();
  const std::uint64_t job = std::stoull(text), index = std::stoull(text.substr(text.find('.') + 1));
  const auto attempt = std::stoull(text.substr(text.rfind('.') + 1));
  for (const std::string& bytes : disk) {
    auto record = decode_record(bytes);
    if (!record) continue;
    if (const auto* e = std::get_if<EndRecord>(&*record); e != nullptr && e->job.value == job) {
      auto info = decode_info(e->info);
      if (info && (info->array.value == 0 || info->indexes == std::to_string(index))) return true;
    }
    if (const auto* a = std::get_if<AttemptRecord>(&*record); a != nullptr && a->job.value == job && a->attempt > attempt)
      return true;
  }
  return false;
}

void House::update(const AgentId& agent, const SliceId& slice, TaskStatus status) {
  Agent& a = agents.at(agent);
  TaskUpdate u{agent, StreamId(1), Sequence(++a.sequence), slice, std::move(status)};
  unacked_[agent][u.sequence.value] = u;
  if (a.up && !hold_statuses) post(SessionEvent(u));
}

void House::command(const SessionCommand& c) {
  if (const auto* d = std::get_if<SetDemand>(&c)) {
    demand = d->lines;
  } else if (const auto* accept = std::get_if<AcceptOffers>(&c)) {
    ++accepts;
    if (!accept->trace.empty()) accept_trace = accept->trace;
    bool ok = true;
    for (const auto& item : accept->accept.items) ok = ok && offers_.contains(item.offer);
    std::vector<SliceReady> ready;
    std::vector<SliceLost> lost;
    for (const auto& item : accept->accept.items) {
      auto it = offers_.find(item.offer);
      if (it == offers_.end() || (accept->accept.gang.value != 0 && !ok)) {
        post(SessionEvent(AcceptAnswered{Sequence(1), item.offer, Code::kGone, "it had expired"}));
        continue;
      }
      Offer offer = std::move(it->second);
      offers_.erase(it);
      Agent& a = agents.at(offer.agent);
      EXPECT_TRUE(a.free.add(offer.resources));
      for (const auto& slice : item.slices) {
        auto amount = carve(slice.shape, a.free, a.total, a.labels);
        ASSERT_TRUE(amount) << "accepted more than was offered";
        ASSERT_TRUE(a.free.subtract(*amount));
        const SliceId id{FrameworkId("batch"), slice.number};
        ASSERT_TRUE(slices.emplace(id, Slot{offer.agent, *amount, accept->accept.gang}).second) << "slice number used twice";
        for (DemandLine& line : demand)
          if (line.id == slice.line && line.count > 0) --line.count;
        if (carves_fail > 0) {
          --carves_fail;
          EXPECT_TRUE(a.free.add(*amount));
          slices.erase(id);
          lost.push_back({offer.agent, id, SliceEnd::kCarveFailed, "no hands"});
          continue;
        }
        SliceSpec spec;
        spec.id = id, spec.resources = *amount, spec.gang = accept->accept.gang;
        ready.push_back({offer.agent, spec});
      }
      post(SessionEvent(AcceptAnswered{Sequence(1), item.offer, Code::kOk, {}}));
    }
    for (SliceReady& r : ready) {
      if (hold_slices)
        held_slices.push_back(std::move(r));
      else
        post(SessionEvent(std::move(r)));
    }
    for (SliceLost& l : lost) post(SessionEvent(std::move(l)));
    if (accept->accept.gang.value != 0 && ok) post(SessionEvent(GangReady{accept->accept.gang}));
  } else if (const auto* decline = std::get_if<DeclineOffers>(&c)) {
    for (const auto& item : decline->items) {
      auto it = offers_.find(item.offer);
      if (it == offers_.end()) continue;
      EXPECT_TRUE(agents.at(it->second.agent).free.add(it->second.resources));
      if (item.hold_off.count() > 0) hold_off_[{it->second.agent, it->second.line}] = now.mono + item.hold_off;
      offers_.erase(it);
    }
  } else if (const auto* launch = std::get_if<LaunchTask>(&c)) {
    EXPECT_EQ(++launches[launch->task], 1) << "task " << launch->task.str() << " launched twice";
    auto slot = slices.find(launch->slice);
    if (slot == slices.end() || refused_.contains(launch->task) || ended_.contains(launch->task)) {
      TaskUpdate no;
      no.agent = launch->agent, no.slice = launch->slice, no.status.task = launch->task, no.status.state = TaskState::kNeverStarted;
      post(SessionEvent(no));
      return;
    }
    if (launch->spec.in_turn) {
      in_turn[launch->slice].emplace_back(launch->task, Task{launch->agent, launch->slice, launch->spec, true});
      return next_in_turn(launch->slice);
    }
    for (const auto& [id, task] : tasks)
      EXPECT_FALSE(task.slice == launch->slice && id.str().find(".s") == std::string::npos &&
                   launch->task.str().find(".s") == std::string::npos)
          << "two tasks in one slice: " << id.str() << " and " << launch->task.str();
    tasks[launch->task] = {launch->agent, launch->slice, launch->spec, true};
    TaskStatus status;
    status.task = launch->task, status.state = TaskState::kRunning, status.started = now.wall;
    update(launch->agent, launch->slice, status);
  } else if (const auto* kill = std::get_if<KillTask>(&c)) {
    kills.push_back(kill->kill);
    for (auto& [slice, waiting] : in_turn) {
      const auto found =
          std::find_if(waiting.begin(), waiting.end(), [&](const auto& one) { return one.first == kill->kill.task; });
      if (found == waiting.end()) continue;
      const Task task = found->second;
      waiting.erase(found);
      TaskStatus status;
      status.task = kill->kill.task, status.state = kill->kill.unstarted_only ? TaskState::kNeverStarted : TaskState::kKilled;
      ended_.insert(kill->kill.task);
      return update(task.agent, task.slice, status);
    }
    auto it = tasks.find(kill->kill.task);
    if (it == tasks.end() || kill->kill.signal != 0 || kill->kill.unstarted_only) return;
    TaskStatus status;
    status.task = kill->kill.task, status.state = kill->kill.preempt ? TaskState::kPreempted : TaskState::kKilled,
    status.signal = 15;
    status.ended = now.wall;
    const Task task = it->second;
    tasks.erase(it);
    ended_.insert(kill->kill.task);
    update(task.agent, task.slice, status);
    next_in_turn(task.slice);
  } else if (const auto* ack = std::get_if<AckStatus>(&c)) {
    auto& updates = unacked_[ack->agent];
    while (!updates.empty() && updates.begin()->first <= ack->through.value) {
      const TaskStatus& s = updates.begin()->second.status;
      if (is_terminal(s.state) && s.state != TaskState::kNeverStarted && s.task.str().find(".s") == std::string::npos) {
        EXPECT_TRUE(end_on_disk(s.task)) << s.task.str() << " acknowledged before its end was safe";
      }
      updates.erase(updates.begin());
    }
  } else if (const auto* give = std::get_if<ReleaseSlice>(&c)) {
    auto it = slices.find(give->slice);
    if (it == slices.end()) return;
    std::vector<TaskId> in;
    for (const auto& [id, task] : tasks)
      if (task.slice == give->slice) in.push_back(id);
    for (const TaskId& id : in) {
      TaskStatus status;
      status.task = id, status.state = TaskState::kKilled, status.signal = 9;
      const Task task = tasks.at(id);
      tasks.erase(id);
      ended_.insert(id);
      update(task.agent, task.slice, status);
    }
    EXPECT_TRUE(agents.at(it->second.agent).free.add(it->second.amount));
    post(SessionEvent(SliceLost{it->second.agent, give->slice, SliceEnd::kReleased, {}}));
    slices.erase(it);
  } else if (const auto* reconcile = std::get_if<ReconcileTasks>(&c)) {
    if (!agents.at(reconcile->agent).up) return;
    std::set<TaskId> listed(reconcile->tasks.begin(), reconcile->tasks.end());
    auto running_status = [&](const TaskId& id, const Task& task) {
      TaskStatus status;
      status.task = id, status.state = TaskState::kRunning, status.started = now.wall;
      update(task.agent, task.slice, status);
    };
    // The client knows a task by its id, on one agent: of a second one it would not ask.
    for (const TaskId& id : reconcile->tasks) {
      const AgentId& first = asked_at_.try_emplace({incarnation_, id}, reconcile->agent).first->second;
      EXPECT_EQ(first, reconcile->agent) << id.str();
    }
    std::map<TaskId, Task> waiting;
    for (const auto& [slice, list] : in_turn) waiting.insert(list.begin(), list.end());
    auto waiting_status = [&](const TaskId& id, const Task& task) {
      TaskStatus status;
      status.task = id, status.state = TaskState::kStaging;
      update(task.agent, task.slice, status);
    };
    // The worst order: the answer to the sentinel before those that the list lacks.
    for (const TaskId& id : reconcile->tasks) {
      auto it = tasks.find(id);
      if (it != tasks.end()) {
        running_status(id, it->second);
        continue;
      }
      if (const auto turn = waiting.find(id); turn != waiting.end()) {
        waiting_status(id, turn->second);
        continue;
      }
      if (ended_.contains(id)) continue;  // its status is in the stream
      refused_.insert(id);
      TaskStatus status;
      status.task = id, status.state = TaskState::kNeverStarted;
      update(reconcile->agent, {}, status);
    }
    for (const auto& [id, task] : tasks)
      if (task.agent == reconcile->agent && !listed.contains(id)) running_status(id, task);
    for (const auto& [id, task] : waiting)
      if (task.agent == reconcile->agent && !listed.contains(id)) waiting_status(id, task);
  } else if (const auto* explain = std::get_if<Explain>(&c)) {
    Explained e = explain_answer.value_or(Explained{});
    e.reply.tag = explain->tag;
    post(SessionEvent(e));
  }
}

void House::make_offers() {
  if (!auto_offers) return;
  for (DemandLine& line : demand) {
    std::uint32_t outstanding = 0;
    for (const auto& [id, offer] : offers_)
      if (offer.line == line.id)
        outstanding += count_fits(line.shape, offer.resources, offer.agent_total, offer.labels, line.count);
    std::vector<OfferMade> made;
    std::uint32_t got = outstanding;
    std::string reserved;
    for (auto& [id, a] : agents) {
      if (got >= line.count) break;
      if (!may_offer(a, line, reserved)) continue;
      if (!a.up || (hold_off_.contains({id, line.id}) && hold_off_[{id, line.id}] > now.mono)) continue;
      const auto fit = count_fits(line.shape, a.free, a.total, a.labels, line.count);
      if (fit == 0) continue;
      Offer offer;
      offer.id = OfferId(next_offer_++), offer.generation = Generation(1), offer.agent = id, offer.resources = a.free;
      offer.agent_total = a.total, offer.labels = a.labels, offer.ttl = seconds(10), offer.line = line.id;
      offer.reserved = reserved;
      got += line.gang_min > 1 ? 1 : fit;
      made.push_back({offer});
    }
    if (line.gang_min > 1 && got < line.gang_min) continue;  // fewer are of no use
    for (OfferMade& o : made) {
      agents.at(o.offer.agent).free = Resources{};
      offers_[o.offer.id] = o.offer;
      post(SessionEvent(o));
    }
  }
}

void House::settle() {
  const Duration until = now.mono + milliseconds(10);
  for (int rounds = 0; rounds < 2'000'000; ++rounds) {
    if (step_one()) continue;
    make_offers();
    if (!events_.empty()) continue;
    Duration next = kNoLimit;
    for (const auto& [key, at] : timers_) next = std::min(next, at);
    if (next > until) return;
    if (next > now.mono) now.wall += next - now.mono, now.mono = next;
  }
  FAIL() << "the house does not come to rest";
}

void House::pass(Duration time) {
  const Duration until = now.mono + time;
  settle();
  while (true) {
    Duration next = kNoLimit;
    for (const auto& [key, at] : timers_) next = std::min(next, at);
    for (const auto& [key, at] : hold_off_)
      if (at > now.mono) next = std::min(next, at);
    if (next > until) break;
    if (next > now.mono) now.wall += next - now.mono, now.mono = next;
    settle();
  }
  if (until > now.mono) now.wall += until - now.mono, now.mono = until;
  settle();
}

JobSpec House::job(const std::string& name) {
  JobSpec s;
  s.name = name, s.user = "ann", s.script = "#!/bin/sh\ntrue\n", s.directory = "/home/ann", s.submit_dir = "/home/ann";
  s.env = {"PATH=/bin", "HOME=/home/ann"};
  return s;
}

std::uint64_t House::ask(RequestBody body, std::int64_t uid) {
  const std::uint64_t tag = next_tag_++;
  post(Request{PeerId(77), uid, uid, {}, encode(ToolRequest{kBatchProtocol, tag, std::move(body)})});
  settle();
  return tag;
}

std::string House::why(JobId job) {
  std::string all;
  if (const auto answer = reply<WhyReply>(ask(WhyRequest{{job, {}}})))
    for (const std::string& line : answer->lines) all += line + "\n";
  return all;
}

JobId House::submit(JobSpec spec, std::int64_t uid) {
  SubmitRequest request;
  request.items.push_back({{}, std::move(spec)});
  const auto answer = reply<SubmitReply>(ask(std::move(request), uid));
  if (!answer || answer->items.empty()) return refusal = "no answer", JobId();
  refusal = answer->items.front().reason;
  return answer->items.front().code == Code::kOk ? answer->items.front().id : JobId();
}

JobInfo House::info(const std::string& text) {
  auto selector = parse_selector(text);
  EXPECT_TRUE(selector) << text;
  auto live = reply<JobReply>(ask(JobRequest{*selector, false}));
  if (live && live->code == Code::kOk && !live->rows.empty()) return live->rows.front();
  JobInfo out;
  out.name = "(unknown)";
  for (const std::string& bytes : disk) {
    auto record = decode_record(bytes);
    const auto* e = record ? std::get_if<EndRecord>(&*record) : nullptr;
    if (e == nullptr) continue;
    auto info = decode_info(e->info);
    if (!info) continue;
    if (display_id(*info) == text || info->id == selector->job) out = *info;
    if (e->job == selector->job && !selector->indexes.empty() && IndexSet::parse(info->indexes) &&
        IndexSet::parse(info->indexes)->contains(IndexSet::parse(selector->indexes)->min()))
      out = *info;
  }
  return out;
}

std::vector<std::string> House::running() const {
  std::vector<std::string> out;
  for (const auto& [id, task] : tasks) out.push_back(id.str());
  return out;
}

void House::end(const std::string& task, int exit_code, Duration ran) {
  TaskStatus status;
  status.task = TaskId(task), status.state = TaskState::kExited, status.exit_code = exit_code;
  auto it = tasks.find(TaskId(task));
  ASSERT_NE(it, tasks.end()) << task << " does not run";
  status.ended = now.wall;
  if (ran > Duration{0}) status.started = now.wall - ran;
  const Task t = it->second;
  tasks.erase(it);
  ended_.insert(TaskId(task));
  update(t.agent, t.slice, status);
  next_in_turn(t.slice);
  settle();
}

void House::end(const std::string& task, TaskState state, int signal) {
  auto it = tasks.find(TaskId(task));
  ASSERT_NE(it, tasks.end()) << task << " does not run";
  TaskStatus status;
  status.task = TaskId(task), status.state = state, status.signal = signal, status.ended = now.wall;
  const Task t = it->second;
  tasks.erase(it);
  ended_.insert(TaskId(task));
  update(t.agent, t.slice, status);
  next_in_turn(t.slice);
  settle();
}

void House::next_in_turn(const SliceId& slice) {
  auto& waiting = in_turn[slice];
  if (waiting.empty()) return;
  for (const auto& [id, task] : tasks)
    if (task.slice == slice) return;
  const auto [id, task] = waiting.front();
  waiting.pop_front();
  tasks[id] = task;
  TaskStatus status;
  status.task = id, status.state = TaskState::kRunning, status.started = now.wall;
  update(task.agent, slice, status);
}

void House::end_all() {
  for (int i = 0; i < 100'000 && !tasks.empty(); ++i) end(tasks.begin()->first.str());
}

}  // namespace bourse::batch::test
