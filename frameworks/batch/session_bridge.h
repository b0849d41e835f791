// Between the C API and the actor's values: callbacks become SessionEvents, SessionCommands become calls. This is all of batch that knows
// libbourse, and it knows only its public header. See "One client".
//
// Owned by main; everything on the reactor's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/core/session.h"
#include "common/world/reactor.h"

namespace bourse::batch {

struct BridgeOptions {
  std::string framework, role, config;
  std::vector<std::string> endpoints;
  Incarnation incarnation;
  Duration failover_timeout{0};
  std::function<std::string(const TaskSpec&)> prove;  // a credential for a task that has none; null: none is needed
};

class SessionBridge {
 public:
  static Result<std::unique_ptr<SessionBridge>> open(Reactor& reactor, const BridgeOptions& options,
                                                     std::function<void(SessionEvent)> up);
  ~SessionBridge();
  void command(const SessionCommand& command);

 private:
  SessionBridge();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse::batch
