// Runs one actor in a reactor: the real-world counterpart of the simulator. Nothing else calls step in production.
//
// Owns no socket: main.cc wires listeners, connection, log and executors in through the hooks below. All on the reactor's
// thread. Sends of a step that appended wait for its records (see actor.h); a step's actions are executed in the order
// appends, host, session, sends, replies, arms, disarms, cut, reconnect, logs. Spans are of the past: they go out at once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/core/actor.h"
#include "common/world/log_file.h"
#include "common/world/reactor.h"
#include "common/world/transport.h"

namespace bourse {

class Driver {
 public:
  struct Hooks {
    std::function<void(PeerId, const Message&)> send;  // cluster protocol, encoded by the hook's owner
    std::function<void(PeerId, std::string)> reply;    // a framework's own clients
    std::function<void(Mail)> mail;                    // behind the step's records, as replies are
    std::function<void(PeerId)> cut;
    std::function<void(const std::string& leader)> reconnect;          // Actions::reconnect and leader
    std::function<void(const std::vector<std::string>& all)> masters;  // Actions::masters
    std::function<void(const HostAction&)> host;
    std::function<void(const SessionCommand&)> session;
    // Instead of `log` where records go elsewhere (batch: its store). Must call done exactly once, on the reactor's thread.
    std::function<void(std::vector<Append>, std::string compact, LogFile::Done done)> append;
    std::function<void()> stop;
    std::function<void(std::vector<Span>)> spans;          // to whoever exports them; null: dropped
    std::function<void(std::uint64_t tag)> reload;         // answers with ReloadDone, now or later
    std::function<void(std::vector<ViewUpdate>)> publish;  // not held back by records: what it shows may still be lost in a crash
    // Instead of `log` where records go to a log that several processes share: each step's as one entry, answered once with its
    // index, in the order in which they were proposed. Snapshots are that log's own affair.
    using Proposed = std::function<void(const Result<std::uint64_t>& index)>;
    std::function<void(std::vector<std::string> records, Proposed done)> propose;
    std::function<void(const ChangeMember&)> member;
    std::function<void()> hand_over;
  };

  Driver(Reactor& reactor, Actor& actor, Hooks hooks);
  ~Driver();
  void use_log(LogFile* log);  // executes appends and compaction; null: appends are dropped (readers)
  // One event at a time; an event posted during a step waits its turn.
  void post(Event event);
  [[nodiscard]] std::uint64_t steps() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Incarnation for a new life: a counter in `state_dir`/incarnation, flushed; at least one more than the last, and at least the
// wall clock in seconds, so that a lost state directory does not step back.
Result<Incarnation> next_incarnation(const std::string& state_dir);

// Ready = a newline on this descriptor (--ready-fd), then it is closed; and sd_notify where NOTIFY_SOCKET is set.
void announce_ready(int ready_fd);

// Connects an actor's kMasterPeer to one of a list of masters: decodes, encodes, goes where Actions::reconnect says. Used by agent,
// client library and tools.
class MasterLink {
 public:
  MasterLink(Context& context, Reactor& reactor, std::vector<std::string> endpoints, const KeyPair* keys, std::string server_key,
             SocketLimits limits = {});
  ~MasterLink();
  void on_message(std::function<void(Message)> callback);  // verified; a frame that is not is counted and logged once a minute
  // A message that cannot be queued is lost, and what follows it must not arrive without it: nothing more is sent, and on_lost is
  // called, once and not from within send, until next() or connect(). The same when the connection breaks, and, where there is
  // another master to try, when there is none within kConnectWait (less where the leader wants to be missed sooner), doubling at each
  // attempt in vain up to kConnectWaitMax: a host that is gone or a process that is stopped says nothing, and would keep us waiting.
  void send(const Message& message);
  void on_lost(std::function<void()> callback);
  void on_log(std::function<void(std::string)> callback);  // lines that are otherwise logged
  void next(const std::string& leader = {});               // leave; to the endpoint that is named, else to the next one known
  void learn(const std::vector<std::string>& masters);     // that the leader says there are
  Result<> connect();                                      // to the first; an endpoint of the list that is no endpoint is an error
  [[nodiscard]] const std::string& endpoint() const;       // where we are, or try to be
  [[nodiscard]] const std::vector<std::string>& endpoints() const;

  static constexpr Duration kConnectWaitMin = milliseconds(500), kConnectWait = seconds(2), kConnectWaitMax = seconds(8);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse
