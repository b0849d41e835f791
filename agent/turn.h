// What every table of the agent needs during one step, handed down instead of kept.
#pragma once

#include <string>
#include <utility>

#include "agent/checkpoint.h"
#include "agent/session.h"
#include "common/core/actor.h"

namespace bourse {

struct Turn {
  Time now;
  Actions& out;
  Checkpoint& book;
  AgentSession& session;

  void record(const CheckpointRecord& record) const { book.add(out, record); }
  void say(Body body, std::string trace = {}) const { session.say(now, out, std::move(body), std::move(trace)); }
  void host(HostAction action) const { out.host.push_back(std::move(action)); }
};

}  // namespace bourse
