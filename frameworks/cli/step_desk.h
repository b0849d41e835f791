// The tool's end of its steps' output, input and signals: one socket, and for each process that was invited a key of its own.
// Single-threaded, with the reactor that it owns.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/world/reactor.h"
#include "frameworks/cli/step_io.h"

namespace bourse::cli {

class StepDesk {
 public:
  using Heard = std::function<void(StepWord word, std::string_view rest)>;

  // loopback: whatever is invited runs on this host.
  static Result<std::unique_ptr<StepDesk>> open(bool loopback);
  // A process that may come, and what becomes of what it says; its kHello is answered here. What it needs to come is in StepIo;
  // the flags are the caller's to set. The answer's second is its number, for say().
  std::pair<StepIo, std::size_t> invite(Heard heard);
  void admit();  // after the last of several invitations: from now on they can come
  // Kept until it comes, where it has not come yet.
  void say(std::size_t guest, std::string frame);
  [[nodiscard]] bool came(std::size_t guest) const { return guests_[guest].peer != PeerId{}; }
  void beat_all();  // by itself every kStepBeat; and for a caller that must wait elsewhere
  Reactor& reactor() { return reactor_; }

 private:
  struct Guest {
    Heard heard;
    PeerId peer;
    std::vector<std::string> kept;
  };
  StepDesk() : listener_(context_, reactor_, SocketLimits{}) {}
  void take(const Frame& frame);
  void beat();

  Context context_;
  Reactor reactor_;
  Listener listener_;
  KeyPair keys_;
  Keyring keyring_;
  std::vector<std::string> endpoints_;
  std::vector<Guest> guests_;
};

}  // namespace bourse::cli
