// A master without sockets: events in, what it sent to a function. Time stands still until the bench moves it.
#pragma once

#include <functional>
#include <utility>

#include "master/master.h"

namespace bourse::bench {

struct House {
  Master master;
  Actions out;
  Duration now = seconds(1);
  Ticket ticket = 0;
  std::function<void(std::uint64_t, const Message&)> sent;
  bool pass_due = false;

  House() : master(options()) { step(Started{Incarnation(1), {}, {}}); }
  static MasterOptions options() {
    MasterOptions o;
    o.trust_identities = false;
    return o;
  }
  void step(const Event& event) {
    out.clear();
    out.ticket = ++ticket;
    const Ticket mine = ticket;
    master.step({now, now}, event, out);
    for (const Arm& arm : out.arms) pass_due = pass_due || arm.key == kPass;
    const bool appended = !out.appends.empty();
    if (sent) {
      const std::vector<Send> sends = std::move(out.sends);  // what hears of them may make the next step
      out.sends.clear();
      for (const Send& send : sends) sent(send.to.value, send.message);
    }
    if (appended) step(Durable{mine});
  }
  void say(std::uint64_t peer, Body body) {
    Message message;
    message.body = std::move(body);
    step(Received{PeerId(peer), "", std::move(message)});
  }
  void pass() {
    pass_due = false;
    step(TimerFired{kPass});
  }
  static constexpr TimerKey kPass{1, 0, {}};
};

}  // namespace bourse::bench
