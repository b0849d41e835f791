// Serves readers on a thread and a socket of their own, from a copy of the master's view: pages (StatusQuery) and streams (Watch).
//
// The master's actor only tells what changed (view.h), and only while somebody reads; 50 dashboards cost it what one does. A query is
// answered with what was so when it came: the actor is asked to tell what it has not told yet, once for all queries that wait. A reader of
// a stream says how many messages may be under way; one that acknowledges none for kStall is told so and cut, and begins anew.
//
// Owned by bourse-master's main. publish() and set_keyring() may be called from its thread; `wanted` is called on the readers' thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/core/messages.h"
#include "common/core/time.h"
#include "common/world/transport.h"

namespace bourse {

struct ReaderLimits {
  std::size_t sessions_max = 5'000;                     // beyond, a hello is refused (kLimit)
  std::size_t queries_max = 10'000;                     // that wait for the actor; beyond, kBusy
  std::uint32_t credit_default = 16, credit_max = 256;  // messages under way to one reader
  std::size_t rows = 500;                               // in one message
  Duration stall = seconds(30);                         // without an acknowledgement while something is under way
  Duration linger = seconds(60);                        // after the last reader has gone: then the actor tells nothing any more
  std::uint32_t frames_per_second = 2'000;              // from one reader
};

class Readers {
 public:
  struct Options {
    std::string endpoint;
    std::optional<KeyPair> keys;  // none: plain, on ipc or loopback only
    Keyring keyring;
    Duration heartbeat = seconds(5), peer_timeout = seconds(30);
    ReaderLimits limits = {};
  };
  // `wanted`: whether anybody reads; and what was not told yet is to be told, ended by an empty ViewUpdate with this sequence.
  using Wanted = std::function<void(bool on, std::uint64_t flush)>;
  static Result<std::unique_ptr<Readers>> open(Options options, Wanted wanted);
  ~Readers();
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  [[nodiscard]] const std::string& endpoint() const;
  void publish(std::vector<ViewUpdate> updates, Epoch epoch, const std::string& cluster);
  void set_keyring(Keyring keyring);
  struct Counters {
    std::uint64_t sessions = 0, queries = 0, updates = 0, cut = 0, encoded = 0, flushes = 0;
  };
  [[nodiscard]] Counters counters() const;

 private:
  Readers();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse
