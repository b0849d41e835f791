// The C API's outer driver: steps the client actor, carries out its actions, and delivers what it says by callbacks.
#include <unistd.h>

#include <csignal>
#include <limits>

#include "common/world/log.h"
#include "frameworks/api/handle.h"

using namespace bourse;        // NOLINT: this file is the border between the two
using namespace bourse::capi;  // NOLINT

namespace bourse::capi {

int fail(const bourse_client* client, int code, std::string text) {
  client->error = std::move(text);
  return code;
}

int check(const bourse_client* client, bool alive) {
  // The pid is asked for each time: it costs less than a message, and a library may not have global state for a fork handler.
  if (client->owner != getpid()) return BOURSE_E_FORK;
  if (client->freed) return fail(client, BOURSE_E_GONE, "the client has been freed");
  if (alive && client->client->ended()) return fail(client, BOURSE_E_GONE, "the session has ended: refused, or goodbye was said");
  return 0;
}

}  // namespace bourse::capi

void bourse_client::log(std::string line) {
  if (callbacks.log && logs.size() < kLogsMax) logs.push_back(std::move(line));
}

void bourse_client::step(const Event& event) {
  if (freed || !client) return;
  actions.clear();
  scratch.clear();
  client->step(real_time(), event, actions, scratch);
  execute();
}

void bourse_client::command(const SessionCommand& command) {
  actions.clear();
  scratch.clear();
  client->command(real_time(), command, actions, scratch);
  execute();
}

void bourse_client::execute() {
  for (SessionEvent& event : scratch) ready.push_back(std::move(event));
  for (const Send& send : actions.sends) link->send(send.message);
  for (Arm& arm : actions.arms) {
    auto [it, fresh] = timers.try_emplace(arm.key, 0);
    if (!fresh) reactor->cancel(it->second);
    it->second = reactor->after(arm.after, [this, key = arm.key] {
      timers.erase(key);
      step(TimerFired{key});
    });
  }
  for (const TimerKey& key : actions.disarms) {
    auto it = timers.find(key);
    if (it == timers.end()) continue;
    reactor->cancel(it->second);
    timers.erase(it);
  }
  for (std::string& line : actions.logs) log(std::move(line));
  if (!actions.masters.empty()) link->learn(actions.masters);
  if (actions.reconnect) link->next(actions.leader);
}

void bourse_client::keep_readable() {
  if (readable) return;
  readable = true;
  reactor->defer([this] { readable = false; });
}

void bourse_client::settle() {
  if (!ready.empty() || !logs.empty() || woken) keep_readable();
  reactor->settle();
}

int bourse_client::deliver(int max) {
  int count = 0;
  inside = true;
  void* const user = callbacks.user;
  while (!logs.empty() && !freed) {
    const std::string line = std::move(logs.front());
    logs.pop_front();
    const int32_t level = line.starts_with("level=error")  ? BOURSE_LOG_ERROR
                          : line.starts_with("level=warn") ? BOURSE_LOG_WARN
                          : line.starts_with("level=info") ? BOURSE_LOG_INFO
                                                           : BOURSE_LOG_DEBUG;
    callbacks.log(user, level, line.c_str());
  }
  if (woken && !freed) {
    woken = false;
    if (callbacks.woken) {
      callbacks.woken(user, this);
      idle_due = true;
      ++count;
    }
  }
  while (!ready.empty() && !freed && (max <= 0 || count < max)) {
    const SessionEvent event = std::move(ready.front());
    ready.pop_front();
    deliver_one(event);
    idle_due = true;
    ++count;
  }
  if (idle_due && ready.empty() && !freed) {
    idle_due = false;
    if (callbacks.idle) callbacks.idle(user, this);
  }
  inside = false;
  return count;
}

void bourse_client::deliver_one(const SessionEvent& event) {
  const bourse_callbacks& cb = callbacks;
  void* const user = cb.user;
  auto text = [](const std::string& s) { return s.c_str(); };
  struct Visitor {
    decltype(text) t;
    bourse_client* self;
    const bourse_callbacks& cb;
    void* user;
    void operator()(const SessionUp& e) const {
      const bourse_up_event out{sizeof out, e.epoch.value, t(e.cluster)};
      if (cb.up) cb.up(user, self, &out);
    }
    void operator()(const SessionDown& e) const {
      const bourse_down_event out{sizeof out, t(e.reason)};
      if (cb.down) cb.down(user, self, &out);
    }
    void operator()(const SessionRefused& e) const {
      const bourse_refused_event out{sizeof out, code_number(e.code), t(e.reason)};
      if (cb.refused) cb.refused(user, self, &out);
    }
    void operator()(const OfferMade& e) const {
      if (cb.offer) cb.offer(user, self, view(e.offer));
    }
    void operator()(const OfferEnded& e) const {
      const bourse_offer_ended_event out{sizeof out, e.offer.value, static_cast<int32_t>(e.end)};
      if (cb.offer_ended) cb.offer_ended(user, self, &out);
    }
    void operator()(const AcceptAnswered& e) const {
      const bourse_accepted_event out{sizeof out, e.sequence.value, e.offer.value, code_number(e.code), t(e.reason)};
      if (cb.accepted) cb.accepted(user, self, &out);
    }
    void operator()(const SliceReady& e) const {
      const SliceSpec& s = e.spec;
      const bourse_slice_event out{sizeof out,       t(e.agent.value),  s.id.number,        s.gang.value,
                                   t(s.role),        view(s.resources), s.cpuset.data(),    s.cpuset.size(),
                                   s.expiry.count(), t(e.unhealthy),    s.revocable ? 1 : 0};
      if (cb.slice) cb.slice(user, self, &out);
    }
    void operator()(const GangReady& e) const {
      const bourse_gang_event out{sizeof out, e.gang.value, ""};
      if (cb.gang_ready) cb.gang_ready(user, self, &out);
    }
    void operator()(const GangFailed& e) const {
      const bourse_gang_event out{sizeof out, e.gang.value, t(e.reason)};
      if (cb.gang_failed) cb.gang_failed(user, self, &out);
    }
    void operator()(const SliceLost& e) const {
      const bourse_slice_lost_event out{sizeof out, t(e.agent.value), e.slice.number, static_cast<int32_t>(e.end), t(e.reason)};
      if (cb.slice_lost) cb.slice_lost(user, self, &out);
    }
    void operator()(const SliceRecalled& e) const {
      const bourse_recalled_event out{sizeof out, e.slice.number, e.grace.count(), t(e.reason)};
      if (cb.recalled) cb.recalled(user, self, &out);
    }
    void operator()(const TaskUpdate& e) const {
      const TaskStatus& s = e.status;
      const bourse_task_event out{sizeof out,
                                  t(e.agent.value),
                                  e.stream.value,
                                  e.sequence.value,
                                  e.slice.number,
                                  t(s.task.value),
                                  static_cast<int32_t>(s.state),
                                  s.exit_code,
                                  s.signal,
                                  t(s.message),
                                  s.started.count(),
                                  s.ended.count(),
                                  s.cpu.count(),
                                  s.mem_peak.value};
      if (cb.task) cb.task(user, self, &out);
      if (self->automatic_acks && e.sequence.value != 0 && !self->freed && !self->client->ended())
        self->command(AckStatus{e.agent, e.stream, e.sequence});
    }
    void operator()(const AgentsChanged& e) const {
      const bourse_agents_event out{sizeof out, e.snapshot ? 1 : 0, view(e.agents)};
      if (cb.agents) cb.agents(user, self, &out);
    }
    void operator()(const Explained& e) const {
      const auto listed = [this](const std::vector<ExplainReply::Count>& list) {
        std::vector<bourse_count> counts;
        counts.reserve(list.size());
        for (const auto& count : list) counts.push_back({t(count.reason), count.agents, 0});
        return counts;
      };
      const std::vector<bourse_count> counts = listed(e.reply.counts), failing = listed(e.reply.failing);
      const ExplainReply& r = e.reply;
      const bourse_explained_event out{sizeof out,
                                       r.tag,
                                       code_number(r.code),
                                       r.agents,
                                       counts.data(),
                                       counts.size(),
                                       t(r.nearest),
                                       t(r.last_offer),
                                       t(r.last_decline),
                                       t(r.rank),
                                       failing.data(),
                                       failing.size(),
                                       t(r.asks),
                                       t(r.quota),
                                       t(r.estimate),
                                       r.wanted,
                                       r.offered,
                                       r.unmet,
                                       0};
      if (cb.explained) cb.explained(user, self, &out);
    }
  };
  std::visit(Visitor{text, this, cb, user}, event);
}

namespace {

// A client that a callback freed goes now, at the last moment in which the library still stood on it.
bool gone(bourse_client* client) {
  if (!client->freed) return false;
  delete client;
  return true;
}

int busy(const bourse_client* client) {
  return client->inside ? fail(client, BOURSE_E_BUSY, "dispatch and run cannot be called from a callback") : 0;
}

}  // namespace

extern "C" {

const char* bourse_client_error(const bourse_client* client) { return client ? client->error.c_str() : ""; }

int bourse_client_fd(const bourse_client* client) {
  if (!client) return BOURSE_E_INVALID;
  return guard([&] {
    const int rc = check(client, false);
    return rc != 0 ? rc : client->reactor->fd();
  });
}

int bourse_client_dispatch(bourse_client* client, int max) {
  if (!client || max < 0) return BOURSE_E_INVALID;
  return guard([&] {
    if (int rc = check(client, false); rc != 0) return rc;
    if (int rc = busy(client); rc != 0) return rc;
    client->reactor->turn(Duration{0});
    const int count = client->deliver(max);
    if (!gone(client)) client->settle();
    return count;
  });
}

int bourse_client_run(bourse_client* client) {
  if (!client) return BOURSE_E_INVALID;
  return guard([&] {
    if (int rc = check(client, false); rc != 0) return rc;
    if (int rc = busy(client); rc != 0) return rc;
    constexpr int kEventsPerTurn = 1024;
    while (!client->stop) {
      const bool work = !client->ready.empty() || !client->logs.empty() || client->woken;
      client->reactor->turn(work ? Duration{0} : Duration::max());
      client->deliver(kEventsPerTurn);
      if (gone(client)) return 0;
    }
    client->stop = false;
    client->settle();
    return 0;
  });
}

int bourse_client_stop(bourse_client* client) {
  if (!client) return BOURSE_E_INVALID;
  return guard([&] {
    if (int rc = check(client, false); rc != 0) return rc;
    client->stop = true;
    return 0;
  });
}

// Any thread, any signal handler: touches nothing but a descriptor.
int bourse_client_wake(bourse_client* client) {
  if (!client) return BOURSE_E_INVALID;
  if (client->owner != getpid()) return BOURSE_E_FORK;
  const int code = errno;
  const std::uint64_t one = 1;
  (void)!write(client->wake_fd, &one, sizeof one);
  errno = code;
  return 0;
}

uint64_t bourse_client_incarnation(const bourse_client* client) { return client ? client->incarnation.value : 0; }

}  // extern "C"
