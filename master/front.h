// The master's door: what comes in from the network before the actor sees it, and what has to be read again for whoever stands there.
//
// Frames are decoded here. A peer that sends more than it may, or what nobody of ours sends, is cut and the others are served. Keys,
// policy and configuration are read again by SIGHUP and `bourse reload`: all of it is checked before any of it is taken over. Owned by
// bourse-master's main, on the reactor's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/world/driver.h"
#include "common/world/program.h"
#include "common/world/transport.h"
#include "master/readers.h"
#include "plugins/policy/configured.h"

namespace bourse {

class MasterFront {
 public:
  static constexpr std::size_t kComplainersMax = 1024;  // peers remembered for "once per peer and minute"

  // What one peer may send in the long run: far above what an agent with 100,000 tasks or a framework that starts 5,000 a second does.
  static SocketLimits limits();

  MasterFront(Program& program, Context& context) : program_(program), context_(context) {}
  // Our key is KEYS/master, and with it the keyring. None: a socket without keys, which only ipc and loopback may have.
  Result<std::optional<KeyPair>> read_keys();
  [[nodiscard]] const std::string& keys_directory() const { return directory_; }  // "" without keys

  // Beside the socket for everybody else: master.readers, else another port of the same address, or the same path with .readers.
  Result<std::unique_ptr<Readers>> open_readers(const std::string& beside, const std::optional<KeyPair>& keys,
                                                Readers::Wanted wanted);
  void serve(Listener& listener, Driver& driver, policy::Configured& policy, Readers& readers);
  std::function<void(const Config&)> taken;  // called with what a reload has taken over
  void reload(std::uint64_t tag);            // answered by ReloadDone where the tag is not 0
  [[nodiscard]] std::uint64_t wire_errors() const { return wire_errors_; }

 private:
  void on_frame(const Frame& frame);
  Result<std::string> read_again();

  Program& program_;
  Context& context_;
  std::string directory_;
  Listener* listener_ = nullptr;
  Driver* driver_ = nullptr;
  policy::Configured* policy_ = nullptr;
  Readers* readers_ = nullptr;
  std::map<PeerId, Duration> complained_;  // undecodable frames: when last logged
  std::uint64_t wire_errors_ = 0;
};

}  // namespace bourse
