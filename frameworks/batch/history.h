// Ended jobs, read from the store's file on a connection and thread of their own, so that a report never slows a decision.
//
// Owned by main; ask() on the reactor's thread, the answer comes back there.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/core/result.h"
#include "common/world/reactor.h"
#include "frameworks/batch/protocol.h"

namespace bourse::batch {

constexpr std::size_t kHistoryWaitingMax = 1000;  // questions in the queue; more are answered kBusy

class History {
 public:
  static Result<std::unique_ptr<History>> open(const std::string& where, Reactor& reactor);  // as Store::open
  ~History();
  void ask(HistoryRequest request, std::function<void(HistoryReply)> done);
  void ask(JobRequest request, std::function<void(JobReply)> done);
  void ask(WhyRequest request, std::function<void(WhyReply)> done);  // how it ended
  // The same, at once; for tests and tools.
  HistoryReply answer(const HistoryRequest& request);
  JobReply answer(const JobRequest& request);

 private:
  History();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse::batch
