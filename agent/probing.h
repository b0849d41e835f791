// Which probes run when, and what they have found: the agent's half of probing. Owned by the agent actor.
//
// All probes run at the start, every `reprobe`, when the kernel or an administrator says that the hardware changed (HardwareChanged,
// Heartbeat.reprobe, Reload), side by side, each with its limit. One that fails (crash, hang, error) costs its own results of that
// run and nothing else: what it found before stays, with a note, and it is tried again after 30 s, doubling to an hour; a
// round that somebody asked for tries it at once. One that finds a device ill (a daemon that is away, a port that is down) looks again
// after 5 s, doubling to five minutes, so that what comes back is of use without anybody's word. A failure is logged when it begins and when it is over, not in between.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "agent/merge.h"
#include "agent/settings.h"
#include "agent/turn.h"
#include "common/core/event.h"

namespace bourse {

class ProbeTable {
 public:
  static constexpr Duration kPatience = seconds(3);  // the first hello waits so long for probes other than the first
  static constexpr Duration kRetryFirst = seconds(30), kRetryMost = seconds(3600);
  static constexpr Duration kIllFirst = seconds(5), kIllMost = seconds(300);

  // Probes that are planned no longer are forgotten with all that they found.
  void configure(const AgentSettings& settings);
  void begin(Turn& turn);  // the first round of a life
  void look(Turn& turn, const std::string& why);
  void due(Turn& turn, const TimerKey& key);
  // False: it was not asked for, or nothing has changed.
  bool done(Turn& turn, const ProbeDone& event);

  // Enough is known for a hello: the first probe has answered, and the others have or had their time.
  [[nodiscard]] bool enough() const;
  // Every probe has found something at least once in this life, or has failed kChances times: what is missing now is missing on the
  // host, as far as can be known.
  [[nodiscard]] bool settled() const;
  static constexpr std::uint32_t kChances = 3;
  [[nodiscard]] Inventory inventory() const;

 private:
  struct Probe {
    Duration limit{0};
    bool running = false, again = false, answered = false, retry_armed = false;
    std::uint32_t failures = 0;
    std::uint32_t ill = 0;  // runs one after another that found a device which is not healthy
    std::string failure;
    std::optional<Inventory> found;
  };
  [[nodiscard]] bool all_answered() const;
  void ask(Turn& turn, const std::string& name, Probe& probe);
  void failed(Turn& turn, const std::string& name, Probe& probe, const std::string& error);

  std::vector<std::string> order_;
  std::map<std::string, Probe> probes_;
  Labels labels_;
  Duration every_{0};
  bool patience_over_ = false;
};

}  // namespace bourse
