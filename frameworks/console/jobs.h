// The batch framework's figures, asked for through the socket that it has for tools, where it runs on this host.
//
// Owned by main, on the reactor's thread, which it never holds up: the socket does not block, one question is under way at a time, and
// after one that took long it rests kJobsRestTimes as long. No framework, no figures; nothing else depends on them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/world/reactor.h"
#include "frameworks/batch/protocol.h"

namespace bourse::console {

constexpr Duration kJobsAnswerTime = seconds(10);
constexpr int kJobsRestTimes = 99;  // it counts all jobs for an answer: a hundredth of its time at most
constexpr std::size_t kJobsAnswerBytesMax = 4 * 1024 * 1024;

class JobFigures {
 public:
  JobFigures(Reactor& reactor, std::string socket_path, Duration interval);
  ~JobFigures();
  JobFigures(const JobFigures&) = delete;
  JobFigures& operator=(const JobFigures&) = delete;
  // Of the last answer; none where the framework could not be asked, or did not answer, when it last should have.
  [[nodiscard]] const batch::SummaryReply* latest() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse::console
