// A tool's side of the batch framework: one blocking request at a time over the local socket (or tcp with the operator's key).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/core/result.h"
#include "common/core/time.h"
#include "frameworks/batch/protocol.h"

namespace bourse::cli {

class BatchClient {
 public:
  // Finds the cluster by `dir` ("" : BOURSE_DIR, then the system's places). kNotFound, with what to do, when nothing listens.
  static Result<std::unique_ptr<BatchClient>> open(const std::string& dir);
  ~BatchClient();
  BatchClient(const BatchClient&) = delete;
  BatchClient& operator=(const BatchClient&) = delete;

  // Sends and waits for the answer with the same tag. A RequestRefused comes back as the Error it stands for. kTimeout: no
  // answer; the request may or may not have been carried out (submit repeats it under the same key).
  Result<batch::ReplyBody> call(batch::RequestBody body, Duration timeout = seconds(30));
  // The next answer of any tag; for watches.
  Result<batch::ToolReply> next(Duration timeout);
  std::uint64_t send(batch::RequestBody body);  // without waiting: its tag
  Result<> reconnect();                         // after a kTimeout

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
