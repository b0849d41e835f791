// The network model: what ZeroMQ's DEALER and ROUTER promise over TCP, and what they do not.
//
// A link joins one client node (agent, framework, reader) to one server node (a master, of which there may be several). Per link and direction: first in, first
// out; a queue with a high-water mark beyond which messages vanish silently. When a link is re-established (its server was
// restarted, the connection was reset, the client asked for it) what was under way is lost, without a word, and the server
// sees a new PeerId; what a client had queued is delivered to the server's successor. Partitions block either direction.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "common/core/ids.h"
#include "common/core/messages.h"
#include "common/core/rng.h"
#include "common/sim/queue.h"

namespace bourse::sim {

struct NetworkOptions {
  Duration delay_min = microseconds(50), delay_max = microseconds(400);
  std::uint32_t slow_permille = 10;  // of messages take up to
  Duration delay_slow = milliseconds(40);
  Duration connect_max = milliseconds(120);
  std::size_t high_water_mark = 10'000;
  std::uint32_t peer_lost_permille = 300;  // of lost links are noticed by the other side
  std::uint32_t duplicate_permille = 0;    // of messages are delivered twice, one right behind the other
  std::uint32_t ghost_permille = 0;  // of what the master said in its lives before is heard again, by who has heard a later one
  bool full_is_noticed = true;       // a message that finds the queue full: the sender is told that the peer is lost
  bool wire = false;                 // every message through wire::encode and decode
};

struct NetworkCounters {
  std::uint64_t sent = 0, delivered = 0, lost = 0, bytes = 0;
};

class Network {
 public:
  using ClientIx = std::uint32_t;
  using ServerIx = std::uint32_t;  // 0, 1, ...
  struct Hooks {
    std::function<bool(ServerIx)> server_up;
    std::function<void(ServerIx, PeerId, std::string identity, Message)> to_server;
    std::function<void(ServerIx, PeerId)> server_lost_peer;
    std::function<void(ClientIx, Message)> to_client;  // dropped by the world where the client is dead
    std::function<void(ClientIx)> client_lost_server;
    std::function<void(std::string)> violation;
  };

  Network(EventQueue& queue, Rng rng, NetworkOptions options, Hooks hooks);
  void set_servers(ServerIx servers) { servers_ = servers; }

  void client_up(ClientIx client, std::string identity);  // a new process, a new socket
  void client_down(ClientIx client);
  static constexpr ServerIx kNext = ~ServerIx{0};
  void reconnect(ClientIx client, ServerIx to = kNext);  // it closes its socket and opens another
  void server_up(ServerIx server = 0);
  void server_down(ServerIx server = 0);

  void send_up(ClientIx client, const Message& message);
  void send_down(PeerId peer, const Message& message, ServerIx server = 0);
  void cut(PeerId peer);  // forgotten by the server: its frames are strangers' from now on

  void reset(ClientIx client);                      // the connection breaks and comes back; neither side is told
  void block(ClientIx client, bool up, bool down);  // partition, one or both ways
  void set_options(const NetworkOptions& options) { options_ = options; }
  [[nodiscard]] const NetworkOptions& options() const { return options_; }
  [[nodiscard]] const NetworkCounters& counters() const { return counters_; }

 private:
  struct Link {
    std::string identity;
    PeerId peer;  // 0: not established
    ServerIx server = 0;
    std::uint64_t life = 0;
    bool exists = false, blocked_up = false, blocked_down = false;
    std::deque<Message> queue_up, queue_down;  // not yet under way
    Duration last_up{0}, last_down{0};
    std::uint64_t heard = 0;  // the highest epoch that it has heard of
  };
  Duration delay();
  Message through_wire(const Message& message);
  std::uint32_t copies() { return options_.duplicate_permille != 0 && rng_.chance(options_.duplicate_permille) ? 2 : 1; }
  void haunt(ServerIx server);  // after it has gone
  void establish(ClientIx client);
  void drop(Link& link, bool keep_queue_up);
  void pump_up(ClientIx client);
  void pump_down(ClientIx client);
  Link& link(ClientIx client);

  EventQueue& queue_;
  Rng rng_;
  NetworkOptions options_;
  Hooks hooks_;
  NetworkCounters counters_;
  std::map<ClientIx, Link> links_;
  std::map<PeerId, ClientIx> peers_;  // established now
  static constexpr std::size_t kGhosts = 200;
  struct Said {
    ServerIx server = 0;
    ClientIx client = 0;
    Message message;
  };
  std::deque<Said> said_;  // with ghosts: the last that the servers said, delivered or not
  ServerIx servers_ = 1;
  std::uint64_t peer_numbers_ = 100, lives_ = 0;
};

}  // namespace bourse::sim
