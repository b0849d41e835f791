// A tool's side of the batch framework: one blocking request at a time over its local socket.
//
// While the framework restarts, tools wait for it instead of failing: for up to kPatience, or what BOURSE_CONNECT_WAIT says, and with a
// word on stderr once that takes more than a second. Only where nothing of a cluster is there at all they fail at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/core/result.h"
#include "common/core/time.h"
#include "frameworks/batch/protocol.h"

namespace bourse::cli {

constexpr Duration kPatience = seconds(30);
constexpr int kLossesMax = 10;  // of the connection, while one request is under way

class BatchClient {
 public:
  // Finds the cluster by `dir` ("" : BOURSE_DIR, then the system's places). kIo, with what to do, when nothing listens.
  static Result<std::unique_ptr<BatchClient>> open(const std::string& dir);
  ~BatchClient();
  BatchClient(const BatchClient&) = delete;
  BatchClient& operator=(const BatchClient&) = delete;

  // Sends and waits for the answer with the same tag. A RequestRefused comes back as the Error it stands for. When the connection is
  // lost, it is made anew and the request sent again, where that does no harm: what only asks, and submits and steps that have a key.
  // kTimeout, and kIo for what may do harm: the request may or may not have been carried out.
  Result<batch::ReplyBody> call(batch::RequestBody body, Duration timeout = seconds(30));
  // For watches and pipelines: without waiting, its tag; and the next answer of any tag. kGone: the connection is lost and with it what
  // was asked; reconnect().
  std::uint64_t send(batch::RequestBody body);
  Result<batch::ToolReply> next(Duration timeout);
  Result<> reconnect();
  void set_patience(Duration patience);

 private:
  BatchClient();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The answer of the wanted kind, or a kCorrupt error naming what came instead.
template <class Reply>
Result<Reply> call(BatchClient& client, batch::RequestBody body, Duration timeout = seconds(30)) {
  auto reply = client.call(std::move(body), timeout);
  if (!reply) return std::move(reply).error();
  if (Reply* wanted = std::get_if<Reply>(&*reply)) return std::move(*wanted);
  return Error(Code::kCorrupt, "the batch framework answered something else than was asked; are the versions the same?");
}

}  // namespace bourse::cli
