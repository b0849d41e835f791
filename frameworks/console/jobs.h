// The batch framework's figures and the jobs that one wants to see, asked for through the socket that it has for tools, where it runs on
// this host.
//
// Owned by main, on the reactor's thread, which it never holds up: the socket does not block, one question is under way at a time, and
// after a round that took long it rests kJobsRestTimes as long. No framework, no figures; nothing else depends on them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/world/reactor.h"
#include "frameworks/batch/protocol.h"
#include "frameworks/console/view.h"

namespace bourse::console {

constexpr Duration kJobsAnswerTime = seconds(10);
constexpr int kJobsRestTimes = 99;  // it looks at all jobs for an answer: a hundredth of its time at most
constexpr std::uint32_t kJobRowsRunning = 200, kJobRowsPending = 200, kJobRowsEnded = 100;  // shown one by one
constexpr std::size_t kJobsAnswerBytesMax = 4 * 1024 * 1024;

class JobFigures {
 public:
  // one_by_one: the jobs themselves too.
  JobFigures(Reactor& reactor, std::string socket_path, Duration interval, bool one_by_one);
  ~JobFigures();
  JobFigures(const JobFigures&) = delete;
  JobFigures& operator=(const JobFigures&) = delete;
  // Of the last round; not known where the framework could not be asked, or did not answer, when it last should have.
  [[nodiscard]] const JobsView& latest() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse::console
