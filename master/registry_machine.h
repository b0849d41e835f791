// The registry as libraft's state machine: its state at the last applied entry, whoever leads. The actor has one of its own, which may
// lag behind this by the events that are under way to it.
#pragma once

#include "master/raft.h"
#include "master/registry.h"

namespace bourse {

class RegistryMachine : public Raft::Machine {
 public:
  void apply(std::uint64_t index, const std::vector<std::string>& records) override {
    const auto done = registry_.committed(index, records);
    if (!done) failure_ = done.error().text();  // the actor hears the same record, and stops
  }
  std::string snapshot() const override { return registry_.snapshot(); }
  Result<> restore(const std::string& snapshot) override { return registry_.replay(snapshot, {}); }
  Result<std::uint64_t> adopt(const std::string& snapshot, const std::vector<std::string>& records) override {
    BOURSE_TRY(registry_.replay(snapshot, records));
    return registry_.index();
  }
  [[nodiscard]] const house::LogRegistry& registry() const { return registry_; }
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  house::LogRegistry registry_;
  std::string failure_;
};

}  // namespace bourse
