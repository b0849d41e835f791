// The one structural decision that everything else leans on: master, agent and every framework are step functions.
//
// An actor holds no socket, file, clock, thread or randomness. Two drivers call step and nothing else does: the reactor's
// (common/world/driver.h) and the simulator's (common/sim). What a driver promises:
//  - Started is the first event of a life.
//  - Sends, replies and session commands of a step that appended records leave after those records are safe, in the sense
//    each record asked for; then Durable{ticket} is delivered. A step without appends is not held up by earlier steps,
//    so an actor that needs that order waits for Durable.
//  - Sends to one peer leave in order among themselves, but for that holding back. Delivery is not promised: the transport
//    may lose any message silently, at a full queue or across a reconnect. It never duplicates or reorders.
//  - A timer fires once, not before its time. Disarming is exact: a disarmed timer does not fire.
#pragma once

#include "common/core/action.h"
#include "common/core/event.h"
#include "common/core/time.h"

namespace bourse {

struct Actor {
  virtual ~Actor() = default;
  virtual void step(Time now, const Event& event, Actions& out) = 0;
};

// The master's end of an agent's or framework's connection has a PeerId per connection; the other end always has this one.
constexpr PeerId kMasterPeer{1};

}  // namespace bourse
