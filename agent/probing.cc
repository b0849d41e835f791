#include "agent/probing.h"

#include <algorithm>

#include "common/core/hooks.h"
#include "common/core/units.h"
#include "common/world/log.h"

namespace bourse {
namespace {

enum Due : std::uint64_t { kRound = 1, kPatienceOver, kRetry };

}  // namespace

void ProbeTable::configure(const AgentSettings& settings) {
  labels_ = settings.labels;
  every_ = settings.reprobe;
  order_.clear();
  for (const ProbePlan& plan : settings.probes) {
    if (std::find(order_.begin(), order_.end(), plan.name) != order_.end()) continue;
    order_.push_back(plan.name);
    probes_[plan.name].limit = plan.limit;
  }
  std::erase_if(probes_, [this](const auto& item) { return std::find(order_.begin(), order_.end(), item.first) == order_.end(); });
}

void ProbeTable::begin(Turn& turn) {
  turn.out.arm(timer_key(AgentTimer::kProbe, kPatienceOver), kPatience);
  look(turn, {});
}

void ProbeTable::look(Turn& turn, const std::string& why) {
  if (!why.empty()) turn.out.log(log_text(LogLevel::kInfo, "probing", {{"because", why}}));
  for (const std::string& name : order_) {
    Probe& probe = probes_.at(name);
    if (probe.running) {
      probe.again = true;
    } else {
      ask(turn, name, probe);
    }
  }
  if (every_ > Duration(0)) turn.out.arm(timer_key(AgentTimer::kProbe, kRound), every_);
}

void ProbeTable::ask(Turn& turn, const std::string& name, Probe& probe) {
  probe.running = true;
  probe.again = false;
  if (probe.retry_armed) turn.out.disarm(timer_key(AgentTimer::kProbe, kRetry, name));
  probe.retry_armed = false;
  turn.host(RunProbe{name, probe.limit});
}

void ProbeTable::due(Turn& turn, const TimerKey& key) {
  if (key.a == kPatienceOver) {
    patience_over_ = true;
  } else if (key.a == kRetry) {
    const auto it = probes_.find(key.name);
    if (it == probes_.end()) return;
    it->second.retry_armed = false;
    if (!it->second.running) ask(turn, key.name, it->second);
  } else {
    for (const std::string& name : order_) {
      Probe& probe = probes_.at(name);
      if (!probe.running && probe.failures == 0) ask(turn, name, probe);  // those that failed have a time of their own
    }
    if (every_ > Duration(0)) turn.out.arm(timer_key(AgentTimer::kProbe, kRound), every_);
  }
}

bool ProbeTable::done(Turn& turn, const ProbeDone& event) {
  const auto it = probes_.find(event.probe);
  if (it == probes_.end() || !it->second.running) return false;
  Probe& probe = it->second;
  const bool first = !std::exchange(probe.answered, true);
  probe.running = false;
  bool changed = first;
  if (!event.error.empty()) {
    changed = changed || probe.failure != event.error;
    failed(turn, event.probe, probe, event.error);
  } else {
    changed = changed || !probe.found || *probe.found != event.inventory || probe.failures > 0;
    if (probe.failures > 0)
      turn.out.log(
          log_text(LogLevel::kInfo, "probe_recovered", {{"probe", event.probe}, {"failures", std::to_string(probe.failures)}}));
    probe.failures = 0;
    probe.failure.clear();
    probe.found = event.inventory;
    const bool ill = std::any_of(event.inventory.devices.begin(), event.inventory.devices.end(),
                                 [](const Device& device) { return !device.healthy; });
    probe.ill = ill ? probe.ill + 1 : 0;
    if (ill && !hooks::mutant("agent.ill_devices_wait")) {
      turn.out.arm(timer_key(AgentTimer::kProbe, kRetry, event.probe),
                   std::min(kIllFirst * (1U << std::min<std::uint32_t>(probe.ill - 1, 16)), Duration(kIllMost)));
      probe.retry_armed = true;
    }
  }
  if (probe.again) ask(turn, event.probe, probe);
  if (!patience_over_ && all_answered()) {
    patience_over_ = true;
    turn.out.disarm(timer_key(AgentTimer::kProbe, kPatienceOver));
  }
  return changed;
}

void ProbeTable::failed(Turn& turn, const std::string& name, Probe& probe, const std::string& error) {
  ++probe.failures;
  const std::uint32_t doublings = std::min<std::uint32_t>(probe.failures - 1, 16);
  const Duration wait = std::min(kRetryFirst * (1U << doublings), Duration(kRetryMost));
  if (probe.failures == 1)
    turn.out.log(log_text(LogLevel::kWarn, "probe_failed",
                          {{"probe", name},
                           {"reason", error},
                           {"then", std::string(probe.found ? "keeping what it found before" : "going on without it") +
                                        "; trying again in " + format_duration(wait) + ", later less often"}}));
  probe.failure = error;
  turn.out.arm(timer_key(AgentTimer::kProbe, kRetry, name), wait);
  probe.retry_armed = true;
}

bool ProbeTable::enough() const {
  if (order_.empty()) return true;
  if (!probes_.at(order_.front()).answered) return false;
  return patience_over_ || all_answered();
}

bool ProbeTable::all_answered() const {
  return std::all_of(probes_.begin(), probes_.end(), [](const auto& item) { return item.second.answered; });
}

bool ProbeTable::settled() const {
  return std::all_of(probes_.begin(), probes_.end(), [](const auto& item) {
    const Probe& probe = item.second;
    return probe.found || probe.failures >= kChances;
  });
}

Inventory ProbeTable::inventory() const {
  std::vector<NamedReport> reports;
  for (const std::string& name : order_)
    if (const Probe& probe = probes_.at(name); probe.found) reports.push_back({name, &*probe.found, nullptr});
  Inventory all = merge(reports, labels_).inventory;
  for (const std::string& name : order_) {
    const Probe& probe = probes_.at(name);
    if (!probe.failure.empty())
      all.notes.push_back("probe " + name + ": " + probe.failure + (probe.found ? "; what it found before is used" : ""));
  }
  return all;
}

}  // namespace bourse
