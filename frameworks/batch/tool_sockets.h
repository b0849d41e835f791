// Every socket on which bourse-batch serves tools, as one: peers of all of them in one space of numbers, requests in, answers out.
//
// unix://PATH is for the tools of this host: the kernel says who asks (LocalListener). tcp://HOST:PORT and ipc://PATH are ZeroMQ; tcp
// takes those whose key is allowed. The bodies are the same on all (protocol.h). Owned by main, used on the reactor's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/world/transport.h"

namespace bourse::batch {

class ToolSockets {
 public:
  explicit ToolSockets(Reactor& reactor);
  ~ToolSockets();
  ToolSockets(const ToolSockets&) = delete;
  ToolSockets& operator=(const ToolSockets&) = delete;

  // `keys`, and the keyring of the directory, are for tcp.
  Result<> open(const std::string& endpoint, const std::string& key_directory, const std::string& framework);
  Result<> read_keys(const std::string& key_directory);  // again: a revoked one is of no use from the next message on
  void on_request(std::function<void(PeerId peer, const Frame& frame)> callback);
  void on_gone(std::function<void(PeerId)> callback);
  // One who is gone, or too slow to read: his watches and steps end with him (on_gone), everything else he can ask again.
  void send(PeerId peer, std::string bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse::batch
