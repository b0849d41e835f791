// In which order waiting jobs are tried, as a policy (plugins/policy) says. Batch and the replay both ask here: what is simulated runs.
//
// A claimant is a waiting job (of alike ones batch shows the first); what it is charged to is its user, with what runs of his. One
// owner, used from its steps only. A walk gives the best first; what starts or changes in the middle of it counts at once, and who
// changed is met again where he ranks now, if that lies ahead. Whom a policy passes by (hdrf: who asks for more than is left) comes at the end,
// by number: nobody waits for ever without being looked at. Cost: a change O(log n), a walk what it gives, with the policies that walk
// by themselves; else a walk ranks all.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "frameworks/batch/profile.h"
#include "plugins/policy/host.h"

namespace bourse::batch {

class JobOrder {
 public:
  static constexpr std::size_t kIdleUsersMax = 1000;  // users of whom nothing waits or runs that are still known to the policy

  struct Waiting {
    std::uint64_t number = 0;  // breaks ties, lower first
    std::int64_t user = -1;    // -1: unknown
    std::int64_t priority = 0;
    std::uint64_t tasks = 1;  // that could start
    Duration submitted{0}, limit = kNoLimit;
    const Need* need = nullptr;
  };

  // kInvalid: the policy refuses its parameters.
  static Result<std::unique_ptr<JobOrder>> make(const policy::Choice& choice, policy::HostOptions options);

  void total(const Usage& total);
  std::uint32_t add(const Waiting& job);  // its handle, used again after remove()
  void change(std::uint32_t handle, const Waiting& job);
  void remove(std::uint32_t handle);

  // `handle`: of what waits, before it is changed or removed; policy::kNone where it is not known.
  void started(std::uint64_t run, std::uint32_t handle, const Waiting& job, Duration now);
  void ended(std::uint64_t run, Duration now);  // nothing where it is not known
  [[nodiscard]] std::size_t runs() const { return runs_.size(); }

  void begin(Duration now);
  std::uint32_t next();  // a handle; policy::kNone: that was all

  [[nodiscard]] policy::Host& host() { return *host_; }
  [[nodiscard]] const policy::Host& host() const { return *host_; }

 private:
  struct User {
    std::uint32_t handle = 0;
    std::uint32_t jobs = 0;  // that wait or run
    Usage used;
  };
  struct Run {
    std::int64_t user = -1;
    Usage used;
    Duration submitted{0}, started{0}, limit{0};
    std::uint32_t nodes = 1;
    std::unique_ptr<Shape> shape;  // null: plain, and `used` says all of it
  };

  explicit JobOrder(std::unique_ptr<policy::Host> host) : host_(std::move(host)) {}
  User& user(std::int64_t number);
  void left(std::int64_t number);
  void tell(std::uint32_t handle, const Waiting& job);
  void feedback(std::uint32_t event, std::uint32_t handle, const Run& run, Duration now);

  std::unique_ptr<policy::Host> host_;
  std::map<std::int64_t, User> users_;
  std::size_t idle_users_ = 0;
  struct Claim {
    std::int64_t user = -1;
    std::uint64_t number = 0;
    std::uint64_t given_in = 0;  // the last walk
    bool waits = false;
  };
  std::vector<Claim> claims_;  // by claimant
  std::vector<std::uint32_t> free_, free_users_;
  std::unordered_map<std::uint64_t, Run> runs_;  // looked up only
  std::uint64_t walk_ = 0;
  std::uint32_t given_ = 0;  // in this walk, and still waiting
  bool passed_by_known_ = false;
  std::vector<std::uint32_t> passed_by_;  // backwards
};

}  // namespace bourse::batch
