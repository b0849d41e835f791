// Messages a second through Listener and Connection on loopback, against raw libzmq ROUTER and DEALER in the same run.
//
// What is measured: a client with kWindow small messages in flight to an echoing server, both on one thread, as an actor's
// driver uses them. The raw pair does the same with zmq_poll and zmq_msg calls, without identities, limits or tables. Each
// is run kRounds times in turn and the best of each is taken, since other work on the machine only ever slows one down.
#include <zmq.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "common/world/transport.h"

namespace {

using namespace bourse;

constexpr int kMessages = 60'000, kWindow = 100, kRounds = 5;
constexpr std::size_t kBytes = 200;

double seconds_since(Duration start) { return static_cast<double>((real_time().mono - start).count()) / 1e6; }

double ours(const KeyPair* server_keys, const KeyPair* client_keys) {
  Context context;
  Reactor reactor;
  if (client_keys != nullptr) {
    Keyring ring;
    ring.allow(client_keys->public_key, "agent:h1");
    context.set_keyring(ring);
  }
  Listener listener(context, reactor, {});
  if (!listener.bind("tcp://127.0.0.1:*", server_keys, true)) return 0;
  listener.on_frame([&](const Frame& f) { (void)listener.send(f.peer, std::string(f.bytes)); });
  Connection client(context, reactor, {});
  if (!client.connect(listener.endpoint(), client_keys, server_keys == nullptr ? "" : server_keys->public_key)) return 0;
  const std::string payload(kBytes, 'x');
  int received = 0, sent = 0;
  bool connected = false;
  client.on_frame([&](std::string_view) {
    if (!connected) {
      connected = true;
      return;
    }
    ++received;
    if (sent < kMessages && client.send(payload)) ++sent;
  });
  (void)client.send(payload);
  while (!connected) reactor.turn(seconds(1));
  const Duration start = real_time().mono;
  while (sent < kWindow && client.send(payload)) ++sent;
  while (received < kMessages) reactor.turn(seconds(1));
  return kMessages / seconds_since(start);
}

double raw(const KeyPair* server_keys, const KeyPair* client_keys) {
  void* context = zmq_ctx_new();
  void* router = zmq_socket(context, ZMQ_ROUTER);
  void* dealer = zmq_socket(context, ZMQ_DEALER);
  const int zero = 0, one = 1;
  for (void* s : {router, dealer}) zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof zero);
  if (server_keys != nullptr) {
    zmq_setsockopt(router, ZMQ_CURVE_SERVER, &one, sizeof one);
    zmq_setsockopt(router, ZMQ_CURVE_SECRETKEY, server_keys->secret_key.c_str(), 41);
    zmq_setsockopt(dealer, ZMQ_CURVE_SERVERKEY, server_keys->public_key.c_str(), 41);
    zmq_setsockopt(dealer, ZMQ_CURVE_PUBLICKEY, client_keys->public_key.c_str(), 41);
    zmq_setsockopt(dealer, ZMQ_CURVE_SECRETKEY, client_keys->secret_key.c_str(), 41);
  }
  zmq_bind(router, "tcp://127.0.0.1:*");
  char endpoint[256];
  std::size_t size = sizeof endpoint;
  zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &size);
  zmq_connect(dealer, endpoint);
  const std::string payload(kBytes, 'x');
  int received = -1, sent = -1;  // the first is for the connection
  Duration start{0};
  const auto send_one = [&] {
    zmq_send(dealer, payload.data(), payload.size(), 0);
    ++sent;
  };
  send_one();
  while (received < kMessages) {
    zmq_pollitem_t items[] = {{router, 0, ZMQ_POLLIN, 0}, {dealer, 0, ZMQ_POLLIN, 0}};
    zmq_poll(items, 2, 1000);
    zmq_msg_t id, body;
    zmq_msg_init(&id);
    zmq_msg_init(&body);
    while (zmq_msg_recv(&id, router, ZMQ_DONTWAIT) >= 0 && zmq_msg_recv(&body, router, ZMQ_DONTWAIT) >= 0) {
      zmq_msg_t reply;  // a copy, as ours makes
      zmq_msg_init_size(&reply, zmq_msg_size(&body));
      std::memcpy(zmq_msg_data(&reply), zmq_msg_data(&body), zmq_msg_size(&body));
      zmq_msg_send(&id, router, ZMQ_SNDMORE);
      zmq_msg_send(&reply, router, 0);
    }
    while (received < kMessages && zmq_msg_recv(&body, dealer, ZMQ_DONTWAIT) >= 0) {
      if (++received == 0) {
        start = real_time().mono;
        while (sent < kWindow) send_one();
      } else if (sent < kMessages) {
        send_one();
      }
    }
    zmq_msg_close(&id);
    zmq_msg_close(&body);
  }
  const double rate = kMessages / seconds_since(start);
  zmq_close(router);
  zmq_close(dealer);
  zmq_ctx_term(context);
  return rate;
}

}  // namespace

int main() {
  const KeyPair server = make_key_pair(), client = make_key_pair();
  double rates[2] = {};
  for (const bool curve : {false, true}) {
    const KeyPair* s = curve ? &server : nullptr;
    const KeyPair* c = curve ? &client : nullptr;
    double best_ours = 0, best_raw = 0;
    for (int round = 0; round < kRounds; ++round) {
      best_raw = std::max(best_raw, raw(s, c));
      best_ours = std::max(best_ours, ours(s, c));
    }
    std::printf("transport %-5s echo of %zu bytes, %d in flight: %8.0f/s, raw libzmq %8.0f/s, ratio %.2f (goal 0.80)\n",
                curve ? "curve" : "plain", kBytes, kWindow, best_ours, best_raw, best_ours / best_raw);
    rates[curve ? 1 : 0] = best_ours;
  }
  std::printf("transport with CURVE over plain: %.2f of the messages a second; a message costs %.1f us more, both ends together\n",
              rates[1] / rates[0], 1e6 / rates[1] - 1e6 / rates[0]);
  return 0;
}
