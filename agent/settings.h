// What of the agent's configuration can change while it runs, as a value; and what it looks like in Reload.config.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/pressure.h"
#include "agent/slack.h"
#include "agent/warm_pools.h"
#include "common/core/labels.h"
#include "common/core/result.h"
#include "common/core/time.h"

namespace bourse {

// One probe that the agent asks its driver for.
struct ProbePlan {
  std::string name;
  Duration limit = seconds(10);
  ProbePlan() = default;
  ProbePlan(const char* n) : name(n) {}  // NOLINT: a name is a plan
  ProbePlan(std::string n, Duration l) : name(std::move(n)), limit(l) {}
  bool operator==(const ProbePlan&) const = default;
};

// Lending what slices do not use. See oversubscription.h.
struct LendSettings {
  bool on = false;
  Duration every = seconds(10);  // between two looks at what slices use, while nothing is lent
  SlackMeter::Rule slack;
  PressureRule::Limits pressure;
  bool operator==(const LendSettings&) const = default;
};

struct AgentSettings {
  Labels labels;                  // the site's
  std::vector<ProbePlan> probes;  // the first that has a topology gives the amounts
  Duration reprobe{0};            // time between two rounds of all probes; 0: only when something happens
  Duration default_grace = seconds(30);
  LendSettings lend;
  WarmSettings warm;
  bool operator==(const AgentSettings&) const = default;
};

std::string to_text(const AgentSettings& settings);
Result<AgentSettings> parse_settings(std::string_view text);  // of to_text; kCorrupt

}  // namespace bourse
