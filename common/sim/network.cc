#include "common/sim/network.h"

#include <algorithm>

#include "common/wire/wire.h"

namespace bourse::sim {

Network::Network(EventQueue& queue, Rng rng, NetworkOptions options, Hooks hooks)
    : queue_(queue), rng_(rng), options_(options), hooks_(std::move(hooks)) {}

Network::Link& Network::link(ClientIx client) { return links_[client]; }

Duration Network::delay() {
  const Duration most = rng_.chance(options_.slow_permille) ? options_.delay_slow : options_.delay_max;
  return Duration(rng_.between(std::min(options_.delay_min, most).count(), most.count()));
}

Message Network::through_wire(const Message& message) {
  ++counters_.sent;
  if (!options_.wire) return message;
  const std::string bytes = wire::encode(message);
  counters_.bytes += bytes.size();
  auto back = wire::decode(bytes);
  if (!back) {
    hooks_.violation("a " + std::string(body_name(message.body)) + " cannot be decoded: " + back.error().text());
    return message;
  }
  if (!(*back == message))
    hooks_.violation("a " + std::string(body_name(message.body)) + " is another after encoding and decoding");
  return *std::move(back);
}

// --- life of a link --------------------------------------------------------------------------------------------------

void Network::drop(Link& l, bool keep_queue_up) {
  if (l.peer.value != 0) peers_.erase(l.peer);
  l.peer = PeerId{};
  l.life = ++lives_;  // what is under way belongs to the life before, and is lost
  counters_.lost += l.queue_down.size();
  l.queue_down.clear();
  if (!keep_queue_up) {
    counters_.lost += l.queue_up.size();
    l.queue_up.clear();
  }
}

void Network::establish(ClientIx client) {
  Link& l = link(client);
  if (!l.exists || l.peer.value != 0 || !hooks_.server_up(l.server)) return;
  queue_.after(Duration(rng_.between(1, std::max<std::int64_t>(options_.connect_max.count(), 1))), [this, client, life = l.life] {
    Link& again = link(client);
    if (again.life != life || !again.exists || again.peer.value != 0 || !hooks_.server_up(again.server)) return;
    again.peer = PeerId(++peer_numbers_);
    peers_[again.peer] = client;
    pump_up(client);
  });
}

void Network::client_up(ClientIx client, std::string identity) {
  Link& l = link(client);
  drop(l, false);
  l.identity = std::move(identity);
  l.exists = true;
  l.heard = 0;
  establish(client);
}

void Network::client_down(ClientIx client) {
  Link& l = link(client);
  const PeerId peer = l.peer;
  drop(l, false);
  l.exists = false;
  if (peer.value != 0 && rng_.chance(options_.peer_lost_permille)) {
    queue_.after(delay(), [this, peer, server = l.server] { hooks_.server_lost_peer(server, peer); });
  }
}

void Network::reconnect(ClientIx client, ServerIx to) {
  Link& l = link(client);
  if (!l.exists) return;
  drop(l, false);
  l.server = to < servers_ ? to : (l.server + 1) % servers_;
  establish(client);
}

void Network::server_up(ServerIx server) {
  for (auto& [client, l] : links_)
    if (l.server == server) establish(client);
}

// A deposed leader still talks, for seconds: to those that were connected to it. What it said before they had heard its successor
// came in order and once, as TCP has it.
void Network::haunt(ServerIx server) {
  std::deque<Said> others;
  for (Said& said : said_) {
    if (said.server != server) {
      others.push_back(std::move(said));
      continue;
    }
    if (!rng_.chance(options_.ghost_permille)) continue;
    queue_.after(Duration(rng_.between(1000, 20'000'000)), [this, client = said.client, message = std::move(said.message)] {
      if (const Link& l = link(client); l.exists && l.heard > message.epoch.value) hooks_.to_client(client, message);
    });
  }
  said_ = std::move(others);
}

void Network::server_down(ServerIx server) {
  if (options_.ghost_permille != 0) haunt(server);
  for (auto& [client, l] : links_) {
    if (l.server != server) continue;
    const bool was = l.peer.value != 0;
    drop(l, true);  // the client's socket keeps its queue for whoever binds there next
    if (was && rng_.chance(options_.peer_lost_permille)) {
      queue_.after(delay(), [this, client = client] { hooks_.client_lost_server(client); });
    }
  }
}

void Network::reset(ClientIx client) {
  drop(link(client), true);
  establish(client);
}

void Network::cut(PeerId peer) {
  const auto at = peers_.find(peer);
  if (at == peers_.end()) return;
  const ClientIx client = at->second;
  Link& l = link(client);
  drop(l, true);
  establish(client);
}

void Network::block(ClientIx client, bool up, bool down) {
  Link& l = link(client);
  l.blocked_up = up;
  l.blocked_down = down;
  if (!up) pump_up(client);
  if (!down) pump_down(client);
}

// --- messages ----------------------------------------------------------------------------------------------------------

void Network::send_up(ClientIx client, const Message& message) {
  Link& l = link(client);
  if (!l.exists || l.queue_up.size() >= options_.high_water_mark) {
    ++counters_.lost;
    if (l.exists && options_.full_is_noticed) queue_.after(Duration(0), [this, client] { hooks_.client_lost_server(client); });
    return;
  }
  l.queue_up.push_back(through_wire(message));
  pump_up(client);
}

void Network::pump_up(ClientIx client) {
  Link& l = link(client);
  if (l.peer.value == 0 || l.blocked_up) return;
  while (!l.queue_up.empty()) {
    l.last_up = std::max(l.last_up, queue_.now() + delay());
    queue_.at(l.last_up, [this, client, life = l.life, message = std::move(l.queue_up.front())] {
      const Link& now = link(client);
      if (now.life != life || !hooks_.server_up(now.server)) {
        ++counters_.lost;
        return;
      }
      const PeerId peer = now.peer;
      const std::string identity = now.identity;
      const ServerIx server = now.server;
      for (std::uint32_t n = copies(); n > 0 && link(client).life == life; --n) {
        ++counters_.delivered;
        hooks_.to_server(server, peer, identity, message);
      }
    });
    l.queue_up.pop_front();
  }
}

void Network::send_down(PeerId peer, const Message& message, ServerIx server) {
  const auto at = peers_.find(peer);
  if (at == peers_.end()) {  // ROUTER_MANDATORY: no such peer
    ++counters_.lost;
    if (rng_.chance(options_.peer_lost_permille))
      queue_.after(Duration(0), [this, peer, server] { hooks_.server_lost_peer(server, peer); });
    return;
  }
  Link& l = link(at->second);
  if (l.queue_down.size() >= options_.high_water_mark) {
    ++counters_.lost;
    if (options_.full_is_noticed) queue_.after(Duration(0), [this, peer, server] { hooks_.server_lost_peer(server, peer); });
    return;
  }
  l.queue_down.push_back(through_wire(message));
  if (options_.ghost_permille != 0) {
    said_.push_back({server, at->second, message});
    if (said_.size() > kGhosts) said_.pop_front();
  }
  pump_down(at->second);
}

void Network::pump_down(ClientIx client) {
  Link& l = link(client);
  if (l.peer.value == 0 || l.blocked_down) return;
  while (!l.queue_down.empty()) {
    l.last_down = std::max(l.last_down, queue_.now() + delay());
    queue_.at(l.last_down, [this, client, life = l.life, message = std::move(l.queue_down.front())] {
      if (link(client).life != life) {
        ++counters_.lost;
        return;
      }
      for (std::uint32_t n = copies(); n > 0 && link(client).life == life; --n) {
        ++counters_.delivered;
        link(client).heard = std::max(link(client).heard, message.epoch.value);
        hooks_.to_client(client, message);
      }
    });
    l.queue_down.pop_front();
  }
}

}  // namespace bourse::sim
