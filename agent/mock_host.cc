#include "agent/mock_host.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>

namespace bourse {
namespace {

constexpr std::string_view kRunMs = "BOURSE_MOCK_RUN_MS=";
constexpr std::string_view kWord = "mock:";
constexpr long kRunMsMax = 1'000'000'000;

Duration run_time(const char* text, char** end) { return milliseconds(std::clamp(std::strtol(text, end, 10), 0L, kRunMsMax)); }

}  // namespace

MockHost::Run MockHost::run_of(const TaskSpec& spec) {
  Run run;
  char* end = nullptr;
  if (!spec.argv.empty() && spec.argv[0].compare(0, kWord.size(), kWord) == 0) {
    run.time = run_time(spec.argv[0].c_str() + kWord.size(), &end);
    if (*end == ':') run.exit_code = std::atoi(end + 1) & 0xff;
  }
  for (const std::string& variable : spec.env)
    if (variable.compare(0, kRunMs.size(), kRunMs) == 0) run.time = run_time(variable.c_str() + kRunMs.size(), &end);
  return run;
}

MockHost::~MockHost() {
  for (const auto& [key, timer] : running_) reactor_.cancel(timer);
}

void MockHost::end(const TaskKey& key, int wait_status) {
  if (running_.erase(key) == 0) return;
  TaskEnded ended;
  ended.task = key;
  ended.wait_status = wait_status;
  post_(std::move(ended));
}

void MockHost::execute(const HostAction& action) {
  if (const auto* carve = std::get_if<CarveSlice>(&action)) {
    post_(SliceCarved{carve->spec.id, {}});
  } else if (const auto* erase = std::get_if<EraseSlice>(&action)) {
    post_(SliceErased{erase->slice});
  } else if (const auto* start = std::get_if<StartTask>(&action)) {
    if (running_.count(start->task) != 0) return;
    const Run run = run_of(start->spec);
    running_[start->task] = reactor_.after(run.time, [this, key = start->task, status = run.exit_code << 8] { end(key, status); });
    post_(TaskStarted{start->task, 0});
  } else if (const auto* signal = std::get_if<SignalTask>(&action)) {
    const auto it = running_.find(signal->task);
    if (it == running_.end() || (signal->signal != SIGTERM && signal->signal != SIGKILL)) return;
    reactor_.cancel(it->second);
    end(signal->task, signal->signal);
  } else if (const auto* probe = std::get_if<RunProbe>(&action)) {
    prober_->run(*probe, post_);
  }
}

}  // namespace bourse
