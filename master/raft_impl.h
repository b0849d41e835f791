// The inside of Raft: included by raft.cc, raft_io.cc and raft_members.cc, by nothing else.
#pragma once

#include "master/libraft.h"

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "master/clocks.h"
#include "master/raft.h"
#include "master/raft_wire.h"

namespace bourse {

namespace raft_detail {

inline std::string text_of(int code) { return raft_strerror(code); }
inline std::string_view view(const raft_buffer& buffer) { return {static_cast<const char*>(buffer.base), buffer.len}; }

inline raft_buffer copied(std::string_view bytes) {
  raft_buffer buffer{raft_malloc(bytes.empty() ? 1 : bytes.size()), bytes.size()};
  BOURSE_ASSERT(buffer.base != nullptr, "out of memory");
  std::memcpy(buffer.base, bytes.data(), bytes.size());
  return buffer;
}

template <class T>
T* zeroed() {
  T* made = static_cast<T*>(raft_malloc(sizeof(T)));
  BOURSE_ASSERT(made != nullptr, "out of memory");
  std::memset(made, 0, sizeof(T));
  return made;
}

}  // namespace raft_detail
using namespace raft_detail;  // NOLINT: one class in three files

struct Raft::Impl {
  static constexpr Duration kNever = Duration::min() / 4;
  static constexpr std::int64_t kDriftPart = 64;  // of a lease is left to clocks that run at different speeds

  // What is asked of libraft and answered later. Its memory lives until the answer.
  struct Proposal {
    struct raft_apply request {};
    Impl* impl = nullptr;
    Proposed done;  // empty: nobody waits any more
  };
  struct Change {
    ChangeMember member;
    Duration deadline{0};
    bool internal = false;  // ours, of Options::peers: nobody is told
    bool asked = false;     // libraft is at it
    raft_change request{};
    Impl* impl = nullptr;
  };
  struct Peer {
    RaftServer server;      // its address is where it was heard from last
    std::string endpoint;   // where it serves agents, frameworks and tools
    Duration heard{-1};     // mono
    bool pristine = false;  // it belongs to no cluster
    std::uint64_t sequence = 0;
    Duration pinged{0};         // mono, of `sequence`
    std::uint64_t stamp = 0;    // of the last message that it sent leading
    Duration contact = kNever;  // mono: it followed us at that moment
    Duration promise{0};        // it gives no vote for so long after that; 0: it does not say
    ClockSamples clock;
  };

  Options options;
  Ports& ports;
  Machine& machine;
  RaftLog log;
  raft r{};
  raft_io io{};
  raft_fsm fsm{};
  bool running = false, restarting = false, closed = false, ended = false;
  bool disk_refuses = false;  // the last write was refused, as by a full disk
  bool changing = false;      // within a call that changes the group
  // libraft was told that something is stored that is not: nothing more goes in or out until it has read the log again.
  bool lame = false;
  std::string address_text;
  raft_io_tick_cb on_tick = nullptr;
  raft_io_recv_cb on_recv = nullptr;

  std::uint64_t life = 0;  // of the libraft instance: what was begun for an earlier one is void
  bool ticking = false, pinging = false;
  int depth = 0;
  std::deque<std::function<void()>> later;   // libraft's callbacks, which must not be called from within its calls
  std::deque<std::function<void()>> outbox;  // to the actor, in order
  std::deque<std::pair<raft_io_append*, raft_io_append_cb>> appends;

  bool leading = false;
  std::uint64_t leading_term = 0;  // libraft's leadership that we know of; 0: none
  std::uint64_t stored_term = 0;   // of the last entry that is flushed here
  std::uint64_t yielded_term = 0;  // in which another one was asked to take over: this one does not lead in it any more
  Duration lease_until = kNever;   // mono: a majority follows until then, or so it promised
  Duration promised{0};            // no vote for so long after a leader was heard
  Duration mute_until = kNever;    // what an earlier life of libraft has promised
  std::uint64_t verified = 0, verified_term = 0;  // our log is that of this term's leader up to there
  std::vector<RaftMessage> held;
  std::map<std::uint64_t, Proposal*> proposals;  // by index: those that somebody waits for
  std::string hint_name, hint_endpoint;
  bool hinted = false;

  std::map<std::string, Peer> peers;  // by name: members, and those of Options::peers; never ourselves
  std::vector<RaftServer> known;      // the configuration that the actor knows
  std::vector<RaftServer> logged;     // the last one of the log, where it is not stale
  bool logged_stale = true;
  Duration facts_at{0}, seek_logged{-1};
  std::uint64_t pings = 0;
  std::unique_ptr<Change> change;
  std::vector<std::unique_ptr<Change>> changes_over;  // libraft may still call back
  struct raft_transfer* transfer = nullptr;
  std::map<std::string, Duration> complained;

  std::shared_ptr<Impl*> self = std::make_shared<Impl*>(this);

  Impl(Options o, Ports& p, Machine& m) : options(std::move(o)), ports(p), machine(m) {}

  // --- time (raft.cc)
  [[nodiscard]] Duration mono() const { return ports.now().mono; }
  [[nodiscard]] Duration election() const { return options.lease / 2; }
  void set_lease(Duration lease);
  void set_timeouts();
  // The least that libraft takes is a millisecond.
  [[nodiscard]] unsigned election_ms() const;
  [[nodiscard]] unsigned heartbeat_ms() const { return std::max(election_ms() / 20, 5U); }
  void after(Duration delay, std::function<void()> call);
  // Every call into libraft is made in here, so that what it leads to is done when libraft is at rest.
  template <class Call>
  void enter(const Call& call) {
    ++depth;
    call();
    if (depth == 1) settle();
    --depth;
  }
  void settle();
  void tell(Event event);
  void fatal(const std::string& why);
  void complain(const std::string& about, LogLevel level, std::string_view event, LogFields fields);

  // --- the libraft instance (raft_io.cc)
  static Impl& of(raft_io* io) { return *static_cast<Impl*>(io->impl); }
  static Impl& of(raft_fsm* fsm) { return *static_cast<Impl*>(fsm->data); }
  void wire_io();
  Result<> open();
  void shut();
  // libraft frees what it has when this calls back; by then every request must have been answered.
  void close(raft_io_close_cb done);
  // The disk refused something, or a change of the group is void: what counts is what is there.
  void restart(Duration in);
  void reopen();
  // libraft keeps to the group that the log ends with, except where it was told of a change as a follower and had stored it as a
  // candidate: that one it leaves out.
  [[nodiscard]] bool group_differs();

  // --- raft_io: files (raft_io.cc)
  int load(raft_term* term, raft_id* vote_of, raft_snapshot** snapshot, raft_index* start, raft_entry** entries, size_t* n);
  raft_snapshot* copy_of_snapshot();
  int vote(std::uint64_t term, std::uint64_t id);
  int refused_write(const Error& error);
  int append(raft_io_append* request, const raft_entry* entries, unsigned n, raft_io_append_cb done);
  void flushed(std::uint64_t term);
  bool cut(std::uint64_t from);
  // An installed snapshot must be there when this returns, for libraft has forgotten its log already; one of our own may wait.
  int put(unsigned trailing, raft_io_snapshot_put* request, const raft_snapshot& snapshot, raft_io_snapshot_put_cb done);
  int get(raft_io_snapshot_get* request, raft_io_snapshot_get_cb done);

  // --- raft_io: messages (raft_io.cc)
  [[nodiscard]] RaftHeader header(const std::string& to) const;
  [[nodiscard]] raft_message honest(const raft_message& message) const;
  int send(raft_io_send* request, const raft_message& message, raft_io_send_cb done);
  void yields();
  void received(std::string_view bytes);
  // What a follower answers shows that it followed when what it heard last had left. See may_lead.
  void answered(Peer& peer, const RaftHeader& header, const raft_message& message);
  // Whether libraft may hear of a request for a vote. It may take the permission to disturb a leader from it.
  bool vote_may_be_given(raft_request_vote& request) const;
  int* own_role();  // in libraft's configuration; null: it is not in there
  // Of what a leader sends, how far our log is the same as its.
  void verify(const raft_message& message);
  // `stamp`: of what a leader says that libraft will follow; else 0.
  void deliver(const std::string& from, std::uint64_t stamp, RaftMessage message);
  // A change of the group among what a leader overwrites: libraft looks for the configuration before it in a log that may have been
  // compacted, and after a restart does not know that there is one to undo. False: the disk refused.
  bool make_way(const raft_append_entries& m);
  void release_held();

  // --- the state machine (raft.cc)
  int applied(std::string_view bytes);
  int restored(raft_buffer* buffer);
  void propose(const std::vector<std::string>& records, Proposed done);
  void proposed(std::uint64_t index, Proposal& over, int status);

  // --- leadership (raft.cc)
  [[nodiscard]] bool voter(std::string_view name) const;
  // Until when a majority, this one counted, follows us.
  void count_lease();
  [[nodiscard]] bool lease_holds() const;
  void step_down();
  void leader_hint(std::string& name, std::string& endpoint);
  // After everything that happened: what of it concerns the actor.
  void look();

  // --- the other masters (raft_members.cc)
  Peer& peer_of(const std::string& name);
  [[nodiscard]] bool member(const std::string& name) const;
  [[nodiscard]] bool expected(const std::string& name) const;
  void arm();
  void asks_before_it_votes();
  void tick();
  void ping();
  void pinged(const RaftEnvelope& envelope, const RaftPing& ping);
  void facts();

  // --- how a cluster begins (raft_members.cc)
  // Only the first of the masters that the configuration lists, only when every other says that it belongs to no cluster: one whose
  // disk was lost must not begin a second cluster beside the one that goes on without it.
  void seek();
  Result<> begin(std::uint64_t index);
  Result<> recover();
  Result<> start(const std::string& snapshot, const std::vector<std::string>& records);
  // Whether this log ends with a group of which we are the only voter. Changes in it count as soon as they are written.
  [[nodiscard]] bool sole_voter() const;

  // --- members (raft_members.cc)
  [[nodiscard]] bool own_entry_committed() const;
  void begin_change(const ChangeMember& member, bool internal);
  void ask_change();
  static void change_over(raft_change* request, int status);
  void forget_change(const Change* over);  // libraft has called back
  void end_change(Code code, const std::string& reason);
  void hand_over();
};

}  // namespace bourse
