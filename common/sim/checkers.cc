#include "common/sim/checkers.h"

#include <sys/wait.h>

#include <algorithm>

#include "agent/agent.h"
#include "master/master.h"

namespace bourse::sim {

// --- ledger ----------------------------------------------------------------------------------------------------------

void LedgerChecker::stepped(Node& node, const Event&) {
  if (node.kind() != Node::Kind::kMaster || !node.alive()) return;
  const auto* master = dynamic_cast<const Master*>(node.actor());
  if (master == nullptr) return;
  // What is lent is an account of its own: its parts make its own total.
  std::vector<std::pair<AgentId, Master::Account>> accounts;
  for (auto& entry : master->accounts()) accounts.emplace_back(entry);
  for (const auto& [agent, account] : master->lent_accounts()) accounts.emplace_back(AgentId(agent.value + " (lent)"), account);
  for (const auto& [agent, account] : accounts) {
    Resources sum;
    for (const auto& [name, part] : {std::pair<const char*, const Resources*>{"free", &account.free},
                                     {"offered", &account.offered},
                                     {"held", &account.held},
                                     {"leased", &account.leased},
                                     {"reserved", &account.reserved},
                                     {"unavailable", &account.unavailable}}) {
      const auto sound = part->check();
      const auto added = sum.add(*part);
      if (!sound || !added) {
        world_.violation("ledger of " + agent.value + ": " + name + " (" + to_text(*part) +
                         "): " + (sound ? added.error().text() : sound.error().text()));
        return;
      }
    }
    if (sum == without_traits(account.total)) continue;
    world_.violation("ledger of " + agent.value + ": the parts add up to " + to_text(sum) + ", the total is " +
                     to_text(account.total) + " (free " + to_text(account.free) + ", offered " + to_text(account.offered) +
                     ", held " + to_text(account.held) + ", leased " + to_text(account.leased) + ", reserved " +
                     to_text(account.reserved) + ", unavailable " + to_text(account.unavailable) + ")");
    return;
  }
}

// --- offers ----------------------------------------------------------------------------------------------------------

void OfferChecker::stepped(Node& node, const Event& event) {
  if (node.kind() != Node::Kind::kMaster) return;
  const auto* received = std::get_if<Received>(&event);
  if (received == nullptr) return;
  if (const auto* hello = std::get_if<FrameworkHello>(&received->message.body)) {
    peers_[received->peer] = hello->framework;
    lives_[received->peer] = hello->incarnation;
  }
  if (const auto* accept = std::get_if<Accept>(&received->message.body)) {
    for (const Accept::Item& item : accept->items) {
      const auto at = offers_.find(item.offer);
      if (at != offers_.end() && item.keep_rest) at->second.keeps_rest = true;
    }
  }
}

void OfferChecker::sent(Node& from, const Send& send) {
  if (from.kind() != Node::Kind::kMaster) return;
  if (const auto* made = std::get_if<Offers>(&send.message.body)) {
    for (const Offer& offer : made->offers) {
      if (!offers_.try_emplace(offer.id).second) { world_.violation("offer " + std::to_string(offer.id.value) + " is made twice"); }
    }
  } else if (const auto* ended = std::get_if<OffersEnded>(&send.message.body)) {
    for (const OffersEnded::Item& item : ended->items) {
      State& state = offers_[item.offer];
      if (state.ended || (state.granted && !state.keeps_rest)) {
        world_.violation("offer " + std::to_string(item.offer.value) + " ends twice");
      }
      state.ended = true;
    }
  } else if (const auto* reply = std::get_if<AcceptReply>(&send.message.body)) {
    const auto peer = peers_.find(send.to);
    if (peer == peers_.end()) return;
    const auto [before, first] =
        answered_.try_emplace({send.message.epoch, peer->second, lives_[send.to], reply->sequence}, reply->items);
    if (!first) {
      const auto same = [](const AcceptReply::Item& a, const AcceptReply::Item& b) {
        return a.offer == b.offer && a.code == b.code;
      };
      if (before->second.size() != reply->items.size() ||
          !std::equal(before->second.begin(), before->second.end(), reply->items.begin(), same)) {
        world_.violation("accept " + std::to_string(reply->sequence.value) + " of " + peer->second.value +
                         " is answered differently when it is repeated");
      }
      return;
    }
    for (const AcceptReply::Item& item : reply->items) {
      if (item.code != Code::kOk) continue;
      State& state = offers_[item.offer];
      if (state.ended) world_.violation("offer " + std::to_string(item.offer.value) + " is granted after its end");
      if (state.granted && !state.keeps_rest) world_.violation("offer " + std::to_string(item.offer.value) + " is granted twice");
      state.granted = true;
    }
  }
}

// --- tasks -----------------------------------------------------------------------------------------------------------

void TaskChecker::started(const TaskKey& task, const Execution& execution) {
  if (execution.starts > 1)
    world_.violation("task " + to_text(task) + " runs for the " + std::to_string(execution.starts) + "th time");
  const auto end = ends_.find(task);
  if (end != ends_.end()) {
    world_.violation("task " + to_text(task) + " starts after its framework was told that it is " +
                     std::string(task_state_text(end->second.status.state)));
  }
}

void TaskChecker::session(Node& framework, const SessionEvent& event) {
  // Nobody removes agents or frameworks here.
  if (const auto* lost = std::get_if<SliceLost>(&event); lost != nullptr && lost->end == SliceEnd::kAgentLost)
    world_.violation("slice " + to_text(lost->slice) + " is given up: an unreachable agent may come back");
  const auto* update = std::get_if<TaskUpdate>(&event);
  if (update == nullptr) return;
  const FrameworkId id(framework.name());
  const TaskKey key{id, update->status.task};
  if (update->stream.value != 0 &&
      !seen_.insert({framework.incarnation(), id, update->agent, update->stream, update->sequence}).second) {
    world_.violation("status " + std::to_string(update->sequence.value) + " of " + update->agent.value + " (task " + to_text(key) +
                     ") is delivered twice in one life");
    return;
  }
  const auto ended = ends_.find(key);
  if (!is_terminal(update->status.state)) {
    if (ended != ends_.end() && ended->second.life == framework.incarnation()) {
      world_.violation("task " + to_text(key) + " is " + std::string(task_state_text(update->status.state)) + " after its end");
    }
    return;
  }
  end(key, *update, framework.incarnation());
}

void TaskChecker::end(const TaskKey& key, const TaskUpdate& update, Incarnation life) {
  const TaskStatus& status = update.status;
  const std::string name = "task " + to_text(key) + " on " + update.agent.value;
  const auto truth = world_.executions().find(key);
  const bool ran = truth != world_.executions().end();
  const auto [at, first] = ends_.try_emplace(key, End{status, life, update.stream});
  if (!first) {
    const bool before_in_this_life = at->second.life == life;
    const StreamId before_stream = at->second.stream;
    at->second.life = life;
    if (before_in_this_life) world_.violation(name + " ends twice in one life of its framework");
    if (ran && truth->second.vanished) return;
    // It never ran; the record of its end went with the host's power, so the next boot, in its own stream, cannot know better.
    const bool cannot_know =
        status.state == TaskState::kNeverStarted || (status.state == TaskState::kLost && status.message == "host rebooted");
    if (!ran && cannot_know && before_stream != update.stream) return;
    const TaskStatus& before = at->second.status;
    if (before.state != status.state || before.exit_code != status.exit_code || before.signal != status.signal) {
      const auto told = [](const TaskStatus& t) {
        return std::string(task_state_text(t.state)) + " (exit code " + std::to_string(t.exit_code) + ", signal " +
               std::to_string(t.signal) + ", \"" + t.message + "\")";
      };
      world_.violation(name + " was " + told(before) + " and is now " + told(status));
    }
    return;
  }
  if (status.message == "its framework has been removed") world_.violation(name + " is ended for a framework that only was away");
  if (ran && truth->second.vanished && truth->second.ended < Duration(0) && status.state == TaskState::kUnknownExit)
    world_.violation(name + " went with its host's power, but is said to have ended unseen");
  if (ran && truth->second.vanished) return;  // its host lost power: nobody is left who knows
  const bool says_it_ran = status.state != TaskState::kNeverStarted && status.state != TaskState::kFailedStart;
  if (ran && !says_it_ran) world_.violation(name + " did run, but is said to be " + std::string(task_state_text(status.state)));
  if (!ran &&
      (status.state == TaskState::kExited || status.state == TaskState::kSignaled || status.state == TaskState::kTimeLimit)) {
    world_.violation(name + " never ran, but is said to be " + std::string(task_state_text(status.state)));
  }
  if (!ran) return;
  if (says_it_ran && status.state != TaskState::kLost && truth->second.ended < Duration(0)) {
    world_.violation(name + " still runs, but is said to be " + std::string(task_state_text(status.state)));
  }
  const std::int32_t wait = truth->second.wait_status;
  if (status.state == TaskState::kExited && (!WIFEXITED(wait) || WEXITSTATUS(wait) != status.exit_code)) {
    world_.violation(name + " is said to have exited with " + std::to_string(status.exit_code) + ", its wait status was " +
                     std::to_string(wait));
  }
  if (status.state == TaskState::kUnknownExit) world_.violation(name + ": its exit status was lost");
}

// --- gangs -----------------------------------------------------------------------------------------------------------

void GangChecker::sent(Node& from, const Send& send) {
  if (from.kind() != Node::Kind::kFramework) return;
  const auto* accept = std::get_if<Accept>(&send.message.body);
  if (accept == nullptr || accept->gang.value == 0) return;
  auto& members = members_[{FrameworkId(from.name()), accept->gang}];
  for (const Accept::Item& item : accept->items) {
    for (const Accept::Slice& slice : item.slices) members.insert(slice.number);
  }
}

void GangChecker::session(Node& framework, const SessionEvent& event) {
  const FrameworkId id(framework.name());
  if (const auto* ready = std::get_if<SliceReady>(&event)) {
    if (ready->spec.gang.value != 0) ready_[{id, ready->spec.gang}].insert(ready->spec.id.number);
  } else if (const auto* gang = std::get_if<GangReady>(&event)) {
    const auto& members = members_[{id, gang->gang}];
    if (ready_[{id, gang->gang}] != members) {
      world_.violation("gang " + std::to_string(gang->gang.value) + " of " + id.value + " is ready with " +
                       std::to_string(ready_[{id, gang->gang}].size()) + " of its " + std::to_string(members.size()) + " slices");
    }
  }
}

// --- masters ---------------------------------------------------------------------------------------------------------

void MasterChecker::applied(Node& master, std::uint64_t index, const RegistryMachine& registry) {
  std::string now = registry.snapshot();
  const auto [at, first] = registries_.try_emplace(index, std::move(now));
  if (!first && at->second != registry.snapshot())
    world_.violation("the registry of " + master.name() + " at entry " + std::to_string(index) +
                     " is another than it was elsewhere");
}

void MasterChecker::stepped(Node& node, const Event&) {
  if (node.kind() != Node::Kind::kMaster || node.raft() == nullptr || !node.alive()) return;
  const Raft& raft = node.raft()->raft();
  if (raft.leads()) {
    const auto [at, first] = leaders_.try_emplace(raft.term(), node.ix());
    if (!first && at->second != node.ix())
      world_.violation("term " + std::to_string(raft.term()) + " has two leaders: " + world_.node(at->second).name() + " and " +
                       node.name());
    for (Node* other : world_.of(Node::Kind::kMaster)) {
      if (other == &node || other->raft() == nullptr || other->stalled()) continue;
      if (raft.holds_lease() && other->raft()->raft().holds_lease())
        world_.violation(node.name() + " and " + other->name() + " lead at once, in terms " + std::to_string(raft.term()) +
                         " and " + std::to_string(other->raft()->raft().term()));
    }
  }
  const auto* master = dynamic_cast<const Master*>(node.actor());
  // One that slept since its record was committed is told first that it leads, and then that it does not: nobody hears of it.
  if (master == nullptr || master->epoch().value == 0 || !raft.holds_lease()) return;
  const auto [at, first] = epochs_.try_emplace(master->epoch().value, node.ix(), node.incarnation());
  if (!first && at->second != std::pair(node.ix(), node.incarnation()))
    world_.violation("epoch " + std::to_string(at->first) + " is that of two leaderships");
  if (first && std::next(at) != epochs_.end())
    world_.violation(node.name() + " begins to lead with epoch " + std::to_string(at->first) + " after there was " +
                     std::to_string(epochs_.rbegin()->first));
}

std::string registries_differ(World& world) {
  const Node* first = nullptr;
  for (Node* node : world.of(Node::Kind::kMaster)) {
    const auto* master = dynamic_cast<const Master*>(node->actor());
    if (master == nullptr) return node->name() + " is dead";
    if (node->raft() == nullptr) continue;
    if (first == nullptr) {
      first = node;
      continue;
    }
    auto* reference = const_cast<Node*>(first);  // NOLINT: only looked at
    if (node->raft()->raft().applied() != reference->raft()->raft().applied())
      return node->name() + " has applied " + std::to_string(node->raft()->raft().applied()) + " entries, " + first->name() + " " +
             std::to_string(reference->raft()->raft().applied());
    if (master->registry() != dynamic_cast<const Master*>(reference->actor())->registry())
      return "the registries of " + node->name() + " and " + first->name() + " differ";
  }
  return {};
}

// --- quiet -----------------------------------------------------------------------------------------------------------

std::string leaks(World& world) {
  const auto* master = world.master() != nullptr ? dynamic_cast<const Master*>(world.master()->actor()) : nullptr;
  if (master == nullptr) return "there is no master";
  if (master->open_offers() != 0) return std::to_string(master->open_offers()) + " offers are open though nothing is wanted";
  const auto accounts = master->accounts();
  for (Node* node : world.of(Node::Kind::kAgent)) {
    const auto* agent = dynamic_cast<const Agent*>(node->actor());
    if (agent == nullptr) return node->name() + " is dead";
    const Agent::View view = agent->view();
    if (!view.slices.empty()) return node->name() + " has slice " + to_text(view.slices.front().id);
    if (!view.held.empty()) return node->name() + " holds " + to_text(view.held.front().id) + " for a gang";
    if (!view.active.empty()) return node->name() + " has task " + to_text(view.active.front());
    if (view.unacknowledged != 0) return node->name() + " has " + std::to_string(view.unacknowledged) + " unacknowledged statuses";
    if (view.free != without_traits(view.total))
      return node->name() + " has " + to_text(view.free) + " free of " + to_text(view.total);
    if (node->host()->slices() != 0)
      return "the host of " + node->name() + " has " + std::to_string(node->host()->slices()) + " slices";
    if (node->host()->tasks() != 0)
      return "the launcher of " + node->name() + " remembers " + std::to_string(node->host()->tasks()) + " tasks";
    const auto account = accounts.find(AgentId(node->name()));
    if (account == accounts.end()) return "the master does not know " + node->name();
    if (!account->second.reachable) return node->name() + " is unreachable for the master";
    if (account->second.free != without_traits(account->second.total)) {
      return "the master's ledger of " + node->name() + ": free " + to_text(account->second.free) + " of " +
             to_text(account->second.total);
    }
    if (account->second.total != view.total) return "the master and " + node->name() + " disagree about its total";
  }
  return {};
}

}  // namespace bourse::sim
