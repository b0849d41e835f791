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
  for (const auto& [key, one] : running_) reactor_.cancel(one.timer);
}

void MockHost::end(const TaskKey& key, int wait_status) {
  const auto it = running_.find(key);
  if (it == running_.end()) return;
  const SliceId slice = it->second.slice;
  running_.erase(it);
  if (--inside_[slice] == 0) inside_.erase(slice);
  TaskEnded ended;
  ended.task = key;
  ended.wait_status = wait_status;
  post_(std::move(ended));
  next_in_turn(slice);
}

void MockHost::run(const StartTask& start) {
  const Run how = run_of(start.spec);
  const auto timer = reactor_.after(how.time, [this, key = start.task, status = how.exit_code << 8] { end(key, status); });
  running_[start.task] = {timer, start.slice};
  ++inside_[start.slice];
  post_(TaskStarted{start.task, 0});
}

void MockHost::next_in_turn(const SliceId& slice) {
  const auto it = waiting_.find(slice);
  if (it == waiting_.end() || inside_.count(slice) != 0) return;
  const StartTask next = std::move(it->second.front());
  it->second.pop_front();
  if (it->second.empty()) waiting_.erase(it);
  run(next);
}

bool MockHost::withdraw(const TaskKey& key) {
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (std::erase_if(it->second, [&](const StartTask& one) { return one.task == key; }) == 0) continue;
    if (it->second.empty()) waiting_.erase(it);
    post_(TaskStartFailed{key, "taken back before it was started", true});
    return true;
  }
  return false;
}

void MockHost::execute(const HostAction& action) {
  if (const auto* carve = std::get_if<CarveSlice>(&action)) {
    post_(SliceCarved{carve->spec.id, {}});
  } else if (const auto* erase = std::get_if<EraseSlice>(&action)) {
    post_(SliceErased{erase->slice});
  } else if (const auto* start = std::get_if<StartTask>(&action)) {
    if (running_.count(start->task) != 0) return;
    if (!start->spec.in_turn || inside_.count(start->slice) == 0) return run(*start);
    waiting_[start->slice].push_back(*start);
  } else if (const auto* signal = std::get_if<SignalTask>(&action)) {
    const bool ends = signal->signal == SIGTERM || signal->signal == SIGKILL;
    if ((ends || signal->signal == 0) && withdraw(signal->task)) return;
    const auto it = running_.find(signal->task);
    if (it == running_.end() || !ends) return;
    reactor_.cancel(it->second.timer);
    end(signal->task, signal->signal);
  } else if (const auto* probe = std::get_if<RunProbe>(&action)) {
    prober_->run(*probe, post_);
  }
}

}  // namespace bourse
