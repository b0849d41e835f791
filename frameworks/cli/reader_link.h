// A tool's link to the socket that a master keeps for readers: pages of a table, and the stream of what changes. Blocking.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/core/messages.h"
#include "common/core/result.h"
#include "common/world/transport.h"

namespace bourse::cli {

// Where a master serves readers, as its Welcome names it, seen from here: "tcp://0.0.0.0:7401" beside "tcp://h1:7400" is h1's.
std::string readers_endpoint(const std::string& readers, const std::string& master);

class ReaderLink {
 public:
  // `readers`: as the master's Welcome names it; `master`: the endpoint at which that master answered, whose address counts where the
  // other is that of any interface. kTimeout: nobody answers there, as behind a firewall.
  static Result<std::unique_ptr<ReaderLink>> open(Context& context, Reactor& reactor, const std::string& readers,
                                                  const std::string& master, const KeyPair* keys, const std::string& server_key,
                                                  const std::string& name, Duration timeout = seconds(2));
  ~ReaderLink();
  ReaderLink(const ReaderLink&) = delete;
  ReaderLink& operator=(const ReaderLink&) = delete;

  // A page behind `after`. kUnsupported: this table is not served here.
  Result<StatusReply> page(const std::string& what, const std::string& after, Duration timeout);
  // The stream of these tables from now on; next() is its next message, acknowledged. kGone: it is over, open anew; kTimeout: nothing
  // came, which is no fault.
  void watch(std::vector<std::string> what, const std::string& after = "");
  Result<ViewUpdate> next(Duration timeout);
  [[nodiscard]] Epoch epoch() const;

 private:
  ReaderLink();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse::cli
