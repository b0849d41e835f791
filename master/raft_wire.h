// What masters say to each other: libraft's messages, and a ping that finds, times and compares clocks.
//
// Every message names its sender and the cluster it belongs to, so that masters of two clusters that share an address do not mix.
// Peers hold the cluster's own key (transport.h), yet what they send is verified like anything else.
#pragma once

#include "master/libraft.h"

#include <string>
#include <string_view>
#include <variant>

#include "common/core/result.h"
#include "common/core/time.h"
#include "master/raft_log.h"

namespace bourse {

struct RaftPing {
  std::uint64_t sequence = 0;
  bool answer = false;   // to the ping of that sequence
  Duration wall{0};      // the sender's clock
  bool pristine = true;  // it belongs to no cluster yet
  std::string endpoint;  // where it serves agents, frameworks and tools
  bool operator==(const RaftPing&) const = default;
};

// Owns the memory of a libraft message until libraft takes it.
class RaftMessage {
 public:
  RaftMessage() = default;
  RaftMessage(RaftMessage&& other) noexcept;
  RaftMessage& operator=(RaftMessage&& other) noexcept;
  RaftMessage(const RaftMessage&) = delete;
  RaftMessage& operator=(const RaftMessage&) = delete;
  ~RaftMessage();
  raft_message value{};
  void taken() { held_ = false; }  // the memory is libraft's now
  void hold() { held_ = true; }

 private:
  bool held_ = false;
};

struct RaftHeader {
  std::uint64_t cluster = 0;  // 0: none yet
  std::string name, address;  // of the sender
  std::uint64_t stamp = 0;    // the sender's monotonic clock when it left
  std::uint64_t echo = 0;     // the last stamp that it heard from the receiver leading; 0: none
  // How long after `echo` it will give no vote, in microseconds by its own clock. Behind the message; 0: an older master does not say.
  std::uint64_t promise = 0;
};

struct RaftEnvelope : RaftHeader {
  std::variant<RaftPing, RaftMessage> body;
};

constexpr std::size_t kRaftEntriesMax = 1'000'000, kRaftServersMax = 64;

// `raft`: a libraft message as it is to be sent; its memory stays the caller's.
std::string encode_raft(const RaftHeader& header, const raft_message& raft);
std::string encode_ping(const RaftHeader& header, const RaftPing& ping);
// The result's server_id and server_address are left to the caller.
Result<RaftEnvelope> decode_raft(std::string_view bytes);

// libraft's address of a server holds name and address, since it has no room for both.
std::string raft_text_of(const RaftServer& server);
RaftServer raft_server_of(const std::string& text, int role);
// Into `out`, which the caller closes.
void fill_configuration(const std::vector<RaftServer>& servers, raft_configuration& out);
std::vector<RaftServer> servers_of(const raft_configuration& configuration);
// That of an entry of type RAFT_CHANGE, as raft_configuration_encode makes it.
Result<std::vector<RaftServer>> decode_configuration(std::string_view bytes);
struct RaftConfigurationAt {
  std::uint64_t index = 0;
  std::vector<RaftServer> servers;
};
// The last one at or before `index`, be it committed or not.
RaftConfigurationAt configuration_at(const RaftLog& log, std::uint64_t index);

// The records of one step are one entry, so that they come to pass together.
std::string pack_records(const std::vector<std::string>& records);
Result<std::vector<std::string>> unpack_records(std::string_view bytes);

}  // namespace bourse
