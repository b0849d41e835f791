// Raft in the real world: registry.log, the reactor's time, and CURVE between masters. See "Raft is driver-side".
//
// Owned by main.cc; on the reactor's thread; destroyed before the reactor and the context. All masters of a cluster hold the same key
// pair, KEYS/master; a peer on the masters' own listener that does not hold it is not heard.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/world/driver.h"
#include "common/world/log_file.h"
#include "common/world/reactor.h"
#include "common/world/transport.h"
#include "master/raft.h"
#include "master/registry_machine.h"

namespace bourse {

class RaftWorld final : public Raft::Ports {
 public:
  static constexpr std::size_t kLinksMax = 2 * 64;                   // connections to other masters
  static constexpr std::int64_t kMessageMax = 1024LL * 1024 * 1024;  // a snapshot of the registry is one message
  static constexpr std::size_t kUnflushedMax = 64UL * 1024 * 1024;

  struct Settings {
    std::string listen;  // endpoint for the other masters; "": none
    Raft::Options raft;  // its address "": from `listen`
    const KeyPair* keys = nullptr;
  };
  RaftWorld(Reactor& reactor, Context& context, LogFile& log, Settings settings);
  ~RaftWorld() override;

  // Listens. Then `begin`, once the driver is there: events go to it from that moment.
  Result<> listen();
  Result<> begin(Driver& driver, LogFile::Content content);
  [[nodiscard]] Raft& raft() { return *raft_; }
  [[nodiscard]] const std::string& failure() const { return failure_; }  // not empty: the process must end, and why

  Time now() override;
  std::uint64_t random() override;
  Result<> write(const std::vector<std::string>& records) override;
  void flush(std::function<void()> done) override;
  Result<> write_through(const std::string& record) override;
  Result<> compact(const std::string& snapshot) override;
  Result<> sync() override;
  void fatal(const std::string& why) override;
  void send(const RaftServer& to, std::string bytes) override;
  void after(Duration delay, std::function<void()> call) override;
  void post(Event event) override;
  void log(LogLevel level, std::string_view event, LogFields fields) override;

 private:
  struct Link {
    std::unique_ptr<Connection> connection;
    Duration used{0};
  };
  Reactor& reactor_;
  Context& context_;
  LogFile& log_;
  Settings settings_;
  RegistryMachine machine_;
  std::unique_ptr<Listener> listener_;
  std::map<std::string, Link> links_;  // by address
  Driver* driver_ = nullptr;
  std::string failure_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<Raft> raft_;
};

// "NAME=tcp://HOST:PORT", as in master.peers.
Result<RaftServer> parse_peer(const std::string& text);
// `listen` as others can reach it: where it is bound to every address, the host of `reachable`. "": it cannot be told.
std::string endpoint_for_others(const std::string& listen, const std::string& reachable);

}  // namespace bourse
