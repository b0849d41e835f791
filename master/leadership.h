// This master among the masters: whether it leads, who does, and whose clock is right. See "Epoch", "Clock drift".
//
// The driver says Leader and NotLeader (raft.h). A master leads from the moment that its `lead` record is durable, silent before; one
// that no longer leads forgets every table but the registry and sends whoever speaks to it to the one that does.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/core/event.h"
#include "common/core/messages.h"
#include "common/core/time.h"

namespace bourse::house {

struct House;
struct Session;
struct Operation;

class Leadership {
 public:
  static constexpr Duration kDriftMost = milliseconds(200);  // from the median of at least kClocksLeast clocks, this one counted
  static constexpr std::size_t kClocksLeast = 3;
  static constexpr Duration kDriftEvery = seconds(5), kWarnEvery = std::chrono::minutes(10), kHandOverEvery = seconds(30);
  static constexpr Duration kHeardWithin = seconds(10);        // a master's clock counts that answered so lately
  static constexpr Duration kRefuseEvery = milliseconds(500);  // a peer is sent elsewhere, at most
  static constexpr std::size_t kRefusedMax = 10'000;           // peers remembered for that

  bool readers = false;                        // somebody reads (Watched)
  bool elected = false;                        // Leader was posted and NotLeader was not
  std::string leader, endpoint;                // who leads, as far as this one knows
  std::vector<MasterFacts> rows;               // by name; empty: this one is alone
  std::map<std::uint64_t, Operation> changes;  // of the masters, by the tag of their ChangeMember
  std::uint64_t tags = 0;

  // What is known of clocks: how far the median is ahead of ours.
  Duration offset{0};
  std::size_t clocks = 0;
  bool barred = false;

  // An agent's or framework's clock less ours, when its heartbeat came. The way here makes it look behind: the largest of the last few.
  struct Clock {
    std::array<Duration, 4> offsets{};
    std::size_t n = 0;
    Duration shown{0}, warned{-1};
    void add(Duration value) { offsets[n++ % offsets.size()] = value; }
    [[nodiscard]] Duration best() const;
  };
  std::map<std::uint32_t, Clock> agents, frameworks;  // by row
  // How far its clock is ahead of the median, in ms; "" where it has not said.
  [[nodiscard]] std::string clock_text(const std::map<std::uint32_t, Clock>& of, std::uint32_t row) const;

  Duration looked{0}, warned{-1}, handed_over{-1};
  std::map<std::uint64_t, Duration> refused;
};

void on_leader(House& house);
void on_not_leading(House& house, const Received& received);  // somebody speaks to a master that does not lead
void on_masters(House& house, const MastersChanged& event);
void on_heartbeat(House& house, const Session& from, const Message& message);
void take_the_lead(House& house);
void lead_durable(House& house);

// Operator actions add-master and remove-master, and their end.
Result<> check_add_master(House& house, const OperatorAction& action);
Result<> check_remove_master(House& house, const OperatorAction& action);
void change_master(House& house, Operation op);
void on_member_changed(House& house, const MemberChanged& event);
// Whoever waits for the end of such a change, or for a record, hears that this master cannot say what came of it.
void leadership_lost(House& house);

// Longest time that a peer may stay silent while all is well. Where another master can take over, peers must miss this one well within
// the lease, else they would find its successor late.
[[nodiscard]] Duration pulse(const House& house);
// What every Welcome says: pulse, silence after which another master is looked for, all masters (none where this one is alone).
[[nodiscard]] Welcome welcome(const House& house, std::vector<SliceId> release = {});
void masters_rows(const House& house, StatusReply& reply);

}  // namespace bourse::house
