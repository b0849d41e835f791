// A tool's side of the master: hello, then one blocking question at a time. For operators' commands and scripts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/core/messages.h"
#include "common/core/result.h"
#include "common/world/config.h"
#include "common/world/transport.h"
#include "frameworks/cli/reader_link.h"

namespace bourse::cli {

// What a tool shows the master. Both empty on a cluster without keys.
struct ToolKeys {
  std::optional<KeyPair> keys;
  std::string server_key;
};
// `own`: the identity that is preferred, "operator:alice"; else any operator's or reader's key that we can read, of the same kind first.
Result<ToolKeys> tool_keys(const Config& config, const std::string& directory, const std::string& own);

class MasterClient {
 public:
  // The cluster is found as everywhere: BOURSE_DIR, then the system's places. The key is KEYS/operator=USER, else the first
  // operator=* or reader=* there that we can read; none is fine on a cluster without keys. kTimeout: no master that leads was found;
  // the text says what each of them did.
  static Result<std::unique_ptr<MasterClient>> open(Duration timeout = seconds(5));
  ~MasterClient();
  MasterClient(const MasterClient&) = delete;
  MasterClient& operator=(const MasterClient&) = delete;

  // All pages of "cluster", "agents", "frameworks", "offers", "slices", "roles" or "events", after the row of that name.
  Result<std::vector<StatusReply::Row>> status(const std::string& what, std::string after = "", Duration timeout = seconds(10));
  // Why a demand line is not met. The answer's code is kNotFound where there is no such line.
  Result<ExplainReply> explain(const FrameworkId& framework, std::uint64_t line, Duration timeout = seconds(10));
  // The socket for readers of the master that leads; null where there is none, or we do not get there.
  ReaderLink* readers();
  // See master/operators.h for what can be done. What there is to say of it when it is done, mostly nothing.
  Result<std::string> act(const std::string& action, const std::string& target, const std::string& reason,
                          std::vector<std::pair<std::string, std::string>> parameters, Duration timeout = seconds(10));
  [[nodiscard]] Epoch epoch() const;
  [[nodiscard]] const std::string& cluster() const;
  [[nodiscard]] const std::vector<std::string>& endpoints() const;

  // Every master that is known, and what it says of itself; each is asked, all at once.
  struct MasterState {
    std::string endpoint;
    std::string state;   // "leader", "standby", "deposed" (thinks that it leads, under an older epoch), "refuses", "unreachable"
    std::string reason;  // in its words
    Epoch epoch;         // leader, deposed
  };
  std::vector<MasterState> masters(Duration timeout = seconds(2));

 private:
  MasterClient();
  Result<StatusReply> page(const std::string& what, const std::string& after, Duration timeout);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The field of a row, "" where it has none of that name.
std::string field(const StatusReply::Row& row, std::string_view name);

}  // namespace bourse::cli
