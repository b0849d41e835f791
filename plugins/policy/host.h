// The host's side of a policy: tells it what the owner tells, asks it, and does not believe what it answers.
//
// Owned by one actor (the master's allocator, batch, a replay), used from its steps only. It keeps what was told (a Book), so that
// another policy can take over at any moment: after a reload, between two events; or the fall-back, when a plugin gives an
// answer that cannot be, or takes longer than its budget. That is said once, and lasts until the next swap().
//
// Built-in policies are believed. Around every call into a plugin stands the Guard, if there is one: it leaves a mark that a
// supervisor finds when the process dies or stalls in there. See "Policies".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/rng.h"
#include "common/core/time.h"
#include "plugins/policy/book.h"
#include "plugins/policy/catalog.h"
#include "plugins/policy/usage.h"

namespace bourse::policy {

class Guard {
 public:
  virtual ~Guard() = default;
  virtual void enter(const Choice& into) = 0;
  virtual void leave() = 0;
  virtual std::int64_t wall_ns() = 0;
  virtual std::int64_t cpu_ns() = 0;  // of this thread
};

struct HostOptions {
  std::string name = "bourse";  // of the program
  std::string fallback = "fifo";
  std::uint64_t seed = 1;
  Duration budget = milliseconds(50);  // of one walk, ranking or scoring; only where there is a guard to read a clock
  Guard* guard = nullptr;
  std::function<void(std::string line)> log;
};

// Most calls back into the host that a policy may make within one call. Counts where there is no clock.
constexpr std::uint64_t kHostCallsMax = 1'000'000;
constexpr std::uint64_t kHostLinesMax = 20;  // logged of one call; the rest is dropped

struct AccountFacts {
  std::uint32_t handle = 0, parent = kNone, weight = kUsualWeight;
  std::string_view name = {};
  const Usage* used = nullptr;  // null: nothing
};
struct ClaimantFacts {
  std::uint32_t handle = 0, account = kNone, weight = kUsualWeight, gang = 1;
  std::int64_t priority = 0;
  std::uint64_t order = 0, units = 0;
  std::string_view name = {};
  Duration submitted{0}, limit = kNoLimit;
  const Usage* used = nullptr;   // null: nothing
  const Shape* shape = nullptr;  // of one unit; null: nothing
};

class Host {
 public:
  // kInvalid: the policy refuses its parameters; the error is its own sentence.
  static Result<std::unique_ptr<Host>> make(const Choice& choice, HostOptions options);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // --- deltas
  void total(const Usage& total);
  void account(const AccountFacts& account);
  void account_used(std::uint32_t handle, const Usage& used);
  void account_removed(std::uint32_t handle);
  void claimant(const ClaimantFacts& claimant);
  void claimant_used(std::uint32_t handle, const Usage& used);
  void claimant_units(std::uint32_t handle, std::uint64_t units);
  void claimant_removed(std::uint32_t handle);
  // Only where wants_agents(); after a swap() that made it true, of every agent there is.
  [[nodiscard]] bool wants_agents() const { return table_->score != nullptr || (table_->wants & BOURSE_WANTS_AGENTS) != 0; }
  void agent(std::uint32_t handle, std::string_view name, const Resources& total, const Resources& free);
  void agent_removed(std::uint32_t handle);

  // --- ranking. A policy that only scores leaves it to the fall-back's order.
  void begin(Duration now, std::uint32_t agent = kNone);
  struct Next {
    std::uint32_t claimant = 0;
    bool reserve = false;
  };
  std::optional<Next> next();
  void rank(Duration now, std::uint32_t agent, std::vector<std::uint32_t>& claimants);  // those that want something
  // For people; O(n log n). From 1; 0: it wants nothing.
  std::uint32_t position(Duration now, std::uint32_t claimant);
  [[nodiscard]] std::uint32_t wanting() const { return wanting_; }

  // --- placement. scores() false: the owner's own rule holds.
  [[nodiscard]] bool scores() const { return table_->score != nullptr; }
  // One per agent; empty: the owner's own rule, after all.
  const std::vector<bourse_score>& score(std::uint32_t claimant, const Shape& shape, const std::vector<std::uint32_t>& agents);

  // --- feedback
  [[nodiscard]] bool wants_feedback() const { return table_->feedback != nullptr && (table_->wants & BOURSE_WANTS_FEEDBACK) != 0; }
  struct Feedback {
    std::uint32_t event = 0, claimant = kNone, account = kNone;
    Duration now{0}, wait{0}, run{0}, limit{0};
    std::uint64_t units = 0;
    const Shape* shape = nullptr;
  };
  void feedback(const Feedback& feedback);

  // --- another policy, another life. An error changes nothing. What the former has learned goes over, where it is of the same name.
  Result<> swap(const Choice& choice);
  [[nodiscard]] std::string save();  // with the policy's name; "" where there is nothing to keep
  [[nodiscard]] bool learns() const { return table_->save != nullptr && table_->load != nullptr; }
  bool load(std::string_view saved);  // false: of another policy, or refused; it is as new

  [[nodiscard]] const Choice& choice() const { return choice_; }     // as it was asked for
  [[nodiscard]] const std::string& fault() const { return fault_; }  // why it is not in force; "": it is
  [[nodiscard]] std::string in_force() const;                        // the spec that answers, in text

 private:
  struct Instance;  // one created policy and what it sees of us
  Host(HostOptions options, Choice choice);
  static Result<std::unique_ptr<Instance>> create(const Choice& choice, const HostOptions& options);

  const Vector& vector_of(const Usage* usage);  // valid until the next call
  void learn_kinds(const Usage& usage);
  std::uint32_t kind_of(const std::string& name);
  bool learn_counters(std::uint32_t kind, const Counters& counters);
  void tell_kinds();
  const std::vector<DeviceWish>& wishes_of(const Shape* shape);
  void count_wants(std::uint32_t handle, bool wants);
  void walk_by_rank();
  void touch(std::uint32_t handle);

  template <class Call>
  void call(const Call& call);
  void entered();
  void left();
  void broke(const std::string& why);
  void fall_back();

  HostOptions options_;
  Choice choice_;
  std::string fault_, broken_;
  std::unique_ptr<Instance> policy_, order_;  // order_: ranks where policy_ does not
  const bourse_policy_1* table_ = nullptr;
  Book book_;
  Told told_;

  std::vector<Kind> kinds_;
  std::map<std::string, std::uint32_t, std::less<>> kind_index_;
  std::vector<std::vector<std::string>> counters_;  // by kind
  bool kinds_full_ = false;
  Vector scratch_, scratch_ask_, scratch_total_, scratch_free_;
  std::vector<DeviceWish> wishes_;
  std::vector<Vector> device_vectors_;

  std::uint32_t wanting_ = 0;
  std::uint64_t deltas_ = 0;  // of use and wants, to tell a walk that goes on from one that stands still
  Duration now_{0};
  std::uint32_t agent_ = kNone;
  std::vector<std::uint64_t> given_;  // by claimant: deltas_ when it was given in this walk, + 1
  std::vector<std::uint32_t> given_list_, walk_, touched_, checked_;
  std::vector<std::uint8_t> touched_mark_;
  std::size_t walk_at_ = 0;
  std::vector<bourse_score> scores_;
  std::int64_t entered_at_ = 0, spent_ = 0, cpu_at_ = 0;
};

}  // namespace bourse::policy
