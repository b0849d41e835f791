// Drives a Client with a clock of its own and remembers what came out. No I/O.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frameworks/api/client.h"

namespace bourse::test {

struct Rig {
  Client client;
  Time now{seconds(1'000), seconds(1'700'000'000)};
  Epoch epoch{7};
  std::map<TimerKey, Duration> timers;
  std::vector<Message> sent;
  std::vector<SessionEvent> up;
  int reconnects = 0;
  std::string went_to;               // the leader that the last reconnect named
  std::vector<std::string> masters;  // it was told of
  std::vector<std::string> logs;

  static ClientOptions defaults() {
    ClientOptions options;
    options.framework = FrameworkId("f");
    options.role = RoleName("r");
    return options;
  }
  explicit Rig(ClientOptions options = defaults()) : client(std::move(options)) {}

  void event(const Event& e) {
    Actions out;
    client.step(now, e, out, up);
    take(out);
  }
  void say(const SessionCommand& c) {
    Actions out;
    client.command(now, c, out, up);
    take(out);
  }
  void take(Actions& out) {
    for (auto& send : out.sends) sent.push_back(std::move(send.message));
    for (auto& arm : out.arms) timers[arm.key] = now.mono + arm.after;
    for (auto& key : out.disarms) timers.erase(key);
    reconnects += out.reconnect ? 1 : 0;
    if (out.reconnect) went_to = out.leader;
    if (!out.masters.empty()) masters = out.masters;
    for (auto& line : out.logs) logs.push_back(line);
  }
  void start(std::uint64_t incarnation = 5) { event(Started{Incarnation(incarnation), {}, {}}); }
  void from_master(Body body) { event(Received{kMasterPeer, {}, Message{epoch, Incarnation(1), {}, std::move(body)}}); }
  void welcome() {
    Welcome w;
    w.cluster = "c";
    w.heartbeat = seconds(4);
    w.peer_timeout = seconds(20);
    from_master(w);
  }
  void connect(std::uint64_t incarnation = 5) {
    start(incarnation);
    welcome();
    clear();
  }
  // Time passes; what is due fires in order. 0 fires what is due now.
  void pass(Duration d) {
    const Duration end = now.mono + d;
    for (int guard = 0; guard < 10'000; ++guard) {
      auto next = timers.end();
      for (auto it = timers.begin(); it != timers.end(); ++it)
        if (it->second <= end && (next == timers.end() || it->second < next->second)) next = it;
      if (next == timers.end()) break;
      const TimerKey key = next->first;
      if (next->second > now.mono) now.wall += next->second - now.mono, now.mono = next->second;
      timers.erase(next);
      event(TimerFired{key});
    }
    now.wall += end - now.mono;
    now.mono = end;
  }
  void turn() { pass(Duration{0}); }
  void clear() { sent.clear(), up.clear(), logs.clear(), reconnects = 0; }

  template <class T>
  std::vector<T> messages() const {
    std::vector<T> out;
    for (const auto& m : sent)
      if (const auto* t = std::get_if<T>(&m.body)) out.push_back(*t);
    return out;
  }
  template <class T>
  std::vector<T> events() const {
    std::vector<T> out;
    for (const auto& e : up)
      if (const auto* t = std::get_if<T>(&e)) out.push_back(*t);
    return out;
  }
};

inline Offer offer(std::uint64_t id, std::uint64_t generation = 1, Duration ttl = seconds(10)) {
  Offer o;
  o.id = OfferId(id);
  o.generation = Generation(generation);
  o.agent = AgentId("h" + std::to_string(id));
  o.resources.cpus = MilliCpus{4000};
  o.ttl = ttl;
  o.line = 1;
  return o;
}
inline Accept accept_of(std::uint64_t offer_id, std::uint64_t slice, std::uint64_t gang = 0) {
  Accept a;
  a.gang = GangId(gang);
  Accept::Item item;
  item.offer = OfferId(offer_id);
  item.generation = Generation(1);
  Accept::Slice s;
  s.number = slice;
  s.shape.cpus = MilliCpus{1000};
  item.slices.push_back(s);
  a.items.push_back(item);
  return a;
}
inline AcceptReply reply(std::uint64_t sequence, std::vector<std::pair<std::uint64_t, Code>> items) {
  AcceptReply r;
  r.sequence = Sequence(sequence);
  for (auto& [id, code] : items) r.items.push_back({OfferId(id), code, code == Code::kOk ? "" : "because"});
  return r;
}
inline SliceUp slice_up(std::uint64_t number, const std::string& agent = "h1", std::uint64_t gang = 0) {
  SliceUp s;
  s.agent = AgentId(agent);
  s.spec.id = {FrameworkId("f"), number};
  s.spec.gang = GangId(gang);
  return s;
}
inline SliceGone slice_gone(std::uint64_t number, SliceEnd end, const std::string& agent = "h1") {
  return {AgentId(agent), {FrameworkId("f"), number}, end, "why"};
}
inline StatusUpdate status(std::uint64_t sequence, const std::string& task, TaskState state, std::uint64_t stream = 9,
                           const std::string& agent = "h1") {
  StatusUpdate s;
  s.agent = AgentId(agent);
  s.framework = FrameworkId("f");
  s.stream = StreamId(stream);
  s.sequence = Sequence(sequence);
  s.slice = {FrameworkId("f"), 1};
  s.status.task = TaskId(task);
  s.status.state = state;
  return s;
}
inline LaunchTask launch(const std::string& task, std::uint64_t slice = 1, const std::string& agent = "h1") {
  LaunchTask l;
  l.agent = AgentId(agent);
  l.slice = {FrameworkId("f"), slice};
  l.task = TaskId(task);
  l.spec.argv = {"true"};
  return l;
}

}  // namespace bourse::test
