// The guard around a plugin's calls in production: a mark in shared memory, a clock for the budget, and an end to a call that does not
// come back. See "Policies".
//
// STATE/policy.mark is mapped; the mark is set while a plugin's code runs. Who dies in there leaves it set, and the next life, started by
// the supervisor, finds it and puts the plugin's digest on the list STATE/policy.quarantine. What is on the list is not loaded until
// its line is removed or the file is another one. A call that lasts longer than kStall ends the process, with the mark set.
// One per process, on the main thread; costs two clock readings a call, and a timer that runs only while plugins are called.
#pragma once

#include <memory>
#include <string>

#include "plugins/policy/host.h"

namespace bourse::policy {

class Watch final : public Guard {
 public:
  static constexpr Duration kStall = seconds(2);
  static constexpr int kStalledStatus = 70;

  // `program`: for the word that is said when a call stalls. Died in a plugin: crashed() says in which.
  static Result<std::unique_ptr<Watch>> open(const std::string& state_directory, const std::string& program);
  ~Watch() override;

  [[nodiscard]] const std::string& crashed() const { return crashed_; }  // the spec in which the former life died; "": in none
  // kDenied: it is on the list; the error says why and what to do.
  [[nodiscard]] Result<> allowed(const Choice& choice) const;

  void enter(const Choice& into) override;
  void leave() override;
  std::int64_t wall_ns() override;
  std::int64_t cpu_ns() override;

 private:
  struct Mark;
  Watch() = default;
  std::string list_, crashed_;
  Mark* mark_ = nullptr;
};

}  // namespace bourse::policy
