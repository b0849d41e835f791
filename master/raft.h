// One master's voice in the group that replicates the registry: libraft, driven. See "Raft is driver-side".
//
// Owned by a driver (raft_world.h for real masters, common/sim/masters.h for simulated ones), which gives it files, messages, time and
// randomness through Ports, and tells the master actor what it posts: Restored, Committed, Leader, NotLeader, MastersChanged,
// MemberChanged. One thread. A group of one is the same code with one voter: no message, no tick.
//
// What it promises, with libraft 0.15 below it and a few things done here that libraft leaves to its caller:
//  - A step's records are one entry: all of them are committed, or none.
//  - Nothing is acknowledged before it is flushed here and on a majority. A write that fails is refused before anybody hears of the
//    entry; after a flush that failed nobody can say what is on the disk, and the process ends (Ports::fatal).
//  - An entry of an earlier term is committed only behind one of the leader's own (the dissertation's figure 3.7): what followers
//    answer is held back until the leader's first own entry is stored, for libraft counts replicas of any term.
//  - One lease at a time. A leader leads only while a majority has answered it within the election timeout, less what clocks may drift,
//    and never again in a term in which it asked another one to take over. Whoever answered gives no vote for as long, though its
//    process or libraft begins anew; votes are asked for out of turn only in the name of the leader that gave way. See may_lead.
//  - Every round of an election begins with a pre-vote, where libraft has only the first do so.
//  - Who was made a voter and has not heard of it votes all the same.
//  - A follower answers for what is in the leader's log only, where libraft answers for all that is in its own.
//  - libraft 0.15 goes on with memory that it has freed, or with what it could not store, where a write is refused in the midst of a
//    change of the group or of an election. It is told that all went well, is not heard any more, and reads the log again.
//  - A voter alone begins a new term with each life, so that what it wrote and lost is never mistaken for what it wrote later.
//  - An uncommitted change of the group that turns out void is undone by reading the log again, which libraft does not get right.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/action.h"
#include "common/core/event.h"
#include "common/core/result.h"
#include "common/core/time.h"
#include "common/world/log.h"
#include "master/raft_log.h"

namespace bourse {

class Raft {
 public:
  static constexpr std::uint64_t kSnapshotEvery = 10'000, kTrailing = 1'000;  // entries
  static constexpr Duration kPingEvery = seconds(1), kFactsEvery = seconds(5), kHeardWithin = seconds(4);
  static constexpr Duration kRestartAfter = seconds(1);        // after the disk refused something: read what is there, and on
  static constexpr Duration kMemberWithin = seconds(15);       // an addition or removal that takes longer has failed
  static constexpr Duration kAnswerWithin = milliseconds(50);  // before leadership is handed over, answers get out
  static constexpr Duration kSnapshotWithin = seconds(5);      // then it is sent again
  static constexpr std::size_t kHeldMax = 256;                 // answers that wait for the leader's first own entry

  // What is replicated: the registry. Its state at the last applied entry, whether this master leads or not.
  struct Machine {
    virtual ~Machine() = default;
    virtual void apply(std::uint64_t index, const std::vector<std::string>& records) = 0;
    virtual std::string snapshot() const = 0;
    virtual Result<> restore(const std::string& snapshot) = 0;
    // The log of a master of before replication, as its LogFile has it. The index that its next record would follow.
    virtual Result<std::uint64_t> adopt(const std::string& snapshot, const std::vector<std::string>& records) = 0;
  };

  struct Ports {
    virtual ~Ports() = default;
    virtual Time now() = 0;
    virtual std::uint64_t random() = 0;
    // In order. write: in the kernel's hands when it returns. flush: all written so far, `done` later, in order, never from within;
    // it is not called where that fails, fatal() is. write_through: on the disk when it returns. compact: replaces all records.
    virtual Result<> write(const std::vector<std::string>& records) = 0;  // all or none
    virtual void flush(std::function<void()> done) = 0;
    virtual Result<> write_through(const std::string& record) = 0;
    virtual Result<> compact(const std::string& snapshot) = 0;
    virtual Result<> sync() = 0;  // all written so far is on the disk when it returns
    virtual void fatal(const std::string& why) = 0;
    virtual void send(const RaftServer& to, std::string bytes) = 0;  // may be lost
    virtual void after(Duration delay, std::function<void()> call) = 0;
    virtual void post(Event event) = 0;  // to the actor
    virtual void log(LogLevel level, std::string_view event, LogFields fields) = 0;
  };

  struct Options {
    std::string name;               // "": what the log has, else `default_name`
    std::string default_name;       // for a log that is new
    std::string address;            // where the other masters reach this one; "": nowhere
    std::string endpoint;           // where it serves agents, frameworks and tools
    std::vector<RaftServer> peers;  // the masters that this cluster begins with, this one among them; empty: alone
    Duration lease = seconds(8);
    bool recover = false;  // become the only member, whatever the log says: a majority was lost for good
    std::uint64_t snapshot_every = kSnapshotEvery, trailing = kTrailing;  // entries
  };

  Raft(Options options, Ports& ports, Machine& machine);
  ~Raft();
  Raft(const Raft&) = delete;
  Raft& operator=(const Raft&) = delete;

  // With what the log file holds.
  Result<> start(const std::string& snapshot, const std::vector<std::string>& records);

  void abandon();  // as if its process had died: from now on it does and says nothing

  // Answered once: with the entry's index when it is applied, or with an error: refused (nothing is on record), or no longer this
  // leader's to answer (kGone: it is void, or comes back as Committed).
  using Proposed = std::function<void(const Result<std::uint64_t>& index)>;
  void propose(const std::vector<std::string>& records, Proposed done);
  void received(std::string_view bytes);  // from another master, whose key has been checked
  void change(const ChangeMember& member);
  void hand_over();
  void set_lease(Duration lease);
  void set_endpoint(std::string endpoint);

  // False: a master that has been Leader must not speak as one any more, and NotLeader is on its way. Costs a few comparisons.
  [[nodiscard]] bool may_lead();

  [[nodiscard]] bool holds_lease() const;   // the same, without a look at what follows from it
  [[nodiscard]] bool leads() const;         // Leader has been posted and NotLeader has not
  [[nodiscard]] bool handing_over() const;  // another one has been asked to take over, and is not seen to lead yet
  [[nodiscard]] bool alone() const;         // it is the one voter, and expects no other
  [[nodiscard]] std::uint64_t term() const;
  [[nodiscard]] std::uint64_t applied() const;
  [[nodiscard]] const RaftLog& log() const;
  [[nodiscard]] std::vector<RaftServer> servers() const;  // of the configuration in force

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse
