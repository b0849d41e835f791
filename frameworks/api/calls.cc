// What a framework says: the C API's calls on a client, each a command to the actor.
#include <algorithm>

#include "frameworks/api/handle.h"

using namespace bourse;        // NOLINT: this file is the border between the two
using namespace bourse::capi;  // NOLINT

namespace {

constexpr std::size_t kListMax = 100'000;  // tasks or offers of one call

int bad(bourse_client* c, std::string text) { return fail(c, BOURSE_E_INVALID, std::move(text)); }

int bad_name(bourse_client* c, const char* what, const char* name) {
  if (!name) return bad(c, std::string(what) + " is NULL");
  if (!valid_name(name)) return bad(c, std::string(what) + ": `" + std::string(name).substr(0, 128) + "' is not a name");
  return 0;
}

// The calls of one callback leave together at its end; others now.
int say(bourse_client* c, const SessionCommand& command) {
  c->command(command);
  if (!c->inside) c->settle();
  return 0;
}

int task_list(bourse_client* c, const char* const* tasks, size_t count, std::vector<TaskId>& out) {
  if (count != 0 && !tasks) return bad(c, "tasks is NULL");
  if (count > kListMax) return fail(c, BOURSE_E_LIMIT, "more than " + std::to_string(kListMax) + " tasks in one call");
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (int rc = bad_name(c, "task", tasks[i]); rc != 0) return rc;
    out.emplace_back(tasks[i]);
  }
  return 0;
}

}  // namespace

extern "C" {

int bourse_client_slice_number(bourse_client* client, uint64_t* slice) {
  return call(client, [&] {
    if (!slice) return bad(client, "slice is NULL");
    *slice = client->client->make_slice_number();
    return 0;
  });
}

int bourse_client_gang_number(bourse_client* client, uint64_t* gang) {
  return call(client, [&] {
    if (!gang) return bad(client, "gang is NULL");
    *gang = client->client->make_gang().value;
    return 0;
  });
}

int bourse_client_demand(bourse_client* client, const bourse_demand* demand) {
  return call(client, [&] { return demand ? say(client, demand->value) : bad(client, "demand is NULL"); });
}

int bourse_client_accept(bourse_client* client, const bourse_accept* accept, uint64_t* sequence) {
  return call(client, [&] {
    if (!accept) return bad(client, "accept is NULL");
    if (accept->value.items.empty()) return bad(client, "accept: no offer in it");
    std::vector<std::uint64_t> offers, slices;
    for (const auto& item : accept->value.items) {
      offers.push_back(item.offer.value);
      if (item.slices.empty())
        return bad(client, "accept: no slice out of offer " + std::to_string(item.offer.value) + "; decline it instead");
      for (const auto& slice : item.slices) slices.push_back(slice.number);
    }
    for (auto* list : {&offers, &slices}) {
      std::sort(list->begin(), list->end());
      auto twice = std::adjacent_find(list->begin(), list->end());
      if (twice != list->end())
        return bad(client,
                   std::string("accept: ") + (list == &offers ? "offer " : "slice ") + std::to_string(*twice) + " is in it twice");
    }
    say(client, AcceptOffers{accept->value, accept->trace});
    if (sequence) *sequence = client->client->last_accept().value;
    return 0;
  });
}

int bourse_client_decline(bourse_client* client, const uint64_t* offers, size_t count, int32_t reason, const char* text,
                          int64_t hold_off) {
  return call(client, [&] {
    if (count != 0 && !offers) return bad(client, "offers is NULL");
    if (count > kListMax) return fail(client, BOURSE_E_LIMIT, "more than " + std::to_string(kListMax) + " offers in one call");
    if (reason < BOURSE_DECLINE_NO_WORK || reason > BOURSE_DECLINE_OTHER)
      return bad(client, "decline: no such reason: " + std::to_string(reason));
    if (hold_off < 0) return bad(client, "decline: hold_off is negative");
    DeclineOffers decline;
    for (size_t i = 0; i < count; ++i)
      decline.items.push_back({OfferId(offers[i]), static_cast<DeclineReason>(reason), text ? text : "", Duration(hold_off)});
    return say(client, decline);
  });
}

int bourse_client_launch(bourse_client* client, const char* agent, uint64_t slice, const char* task, const bourse_task_spec* spec) {
  return call(client, [&] {
    if (int rc = bad_name(client, "agent", agent); rc != 0) return rc;
    if (int rc = bad_name(client, "task", task); rc != 0) return rc;
    if (!spec) return bad(client, "spec is NULL");
    if (slice == 0) return bad(client, "slice is 0");
    if (spec->value.argv.empty()) return bad(client, std::string("task ") + task + ": nothing to run: no word of a command");
    client->actions.clear();
    client->scratch.clear();
    auto done = client->client->launch(AgentId(agent), SliceId{client->framework, slice}, TaskId(task), spec->value,
                                       client->actions, client->scratch);
    client->execute();
    if (!client->inside) client->settle();
    return done ? 0 : fail(client, code_number(done.error().code()), done.error().text());
  });
}

int bourse_client_kill(bourse_client* client, const char* agent, const char* task, const bourse_kill_options* options) {
  return call(client, [&] {
    bourse_kill_options in{};
    if (options)
      if (int rc = take(options, in); rc != 0)
        return fail(client, rc, "kill: bad size, or options that this library does not know");
    if (int rc = bad_name(client, "agent", agent); rc != 0) return rc;
    if (int rc = bad_name(client, "task", task); rc != 0) return rc;
    if (in.signal < 0 || in.signal > 64) return bad(client, "kill: no such signal: " + std::to_string(in.signal));
    if (in.has_grace != 0 && in.grace < 0) return bad(client, "kill: grace is negative");
    KillTask kill;
    kill.kill.agent = AgentId(agent);
    kill.kill.task = TaskId(task);
    kill.kill.signal = in.signal;
    kill.kill.first_process_only = in.first_process_only != 0;
    kill.kill.preempt = in.preempt != 0;
    kill.kill.unstarted_only = in.unstarted_only != 0;
    if (in.has_grace != 0) kill.kill.grace = Duration(in.grace);
    return say(client, kill);
  });
}

int bourse_client_ack(bourse_client* client, const char* agent, uint64_t stream, uint64_t through) {
  return call(client, [&] {
    if (int rc = bad_name(client, "agent", agent); rc != 0) return rc;
    if (through == 0) return 0;
    return say(client, AckStatus{AgentId(agent), StreamId(stream), Sequence(through)});
  });
}

int bourse_client_release(bourse_client* client, uint64_t slice, int64_t grace) {
  return call(client, [&] {
    if (slice == 0) return bad(client, "slice is 0");
    if (grace < 0) return bad(client, "release: grace is negative");
    return say(client, ReleaseSlice{{client->framework, slice}, Duration(grace)});
  });
}

int bourse_client_reconcile(bourse_client* client, const char* agent, const char* const* tasks, size_t count) {
  return call(client, [&] {
    ReconcileTasks reconcile;
    if (int rc = bad_name(client, "agent", agent); rc != 0) return rc;
    if (int rc = task_list(client, tasks, count, reconcile.tasks); rc != 0) return rc;
    reconcile.agent = AgentId(agent);
    return say(client, reconcile);
  });
}

int bourse_client_declare_lost(bourse_client* client, const char* agent, const char* const* tasks, size_t count) {
  return call(client, [&] {
    DeclareTasksLost declare;
    if (int rc = bad_name(client, "agent", agent); rc != 0) return rc;
    if (int rc = task_list(client, tasks, count, declare.tasks); rc != 0) return rc;
    declare.agent = AgentId(agent);
    return say(client, declare);
  });
}

int bourse_client_explain(bourse_client* client, uint64_t tag, uint64_t line) {
  return call(client, [&] { return say(client, Explain{tag, line}); });
}

int bourse_client_goodbye(bourse_client* client, int32_t forever) {
  return call(client, [&] { return say(client, EndSession{forever != 0}); });
}

}  // extern "C"
