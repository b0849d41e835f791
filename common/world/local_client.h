// The client's end of a LocalListener's socket: blocking, with time limits, for short-lived tools. No thread, no event loop.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "common/core/result.h"
#include "common/core/time.h"
#include "common/core/units.h"
#include "common/world/local_frame.h"

namespace bourse {

class LocalClient {
 public:
  // kNotFound: no such path; kBusy: nobody serves it, or not fast enough; kDenied; kInvalid: the path is too long.
  static Result<LocalClient> connect(const std::string& path, std::size_t answer_bytes_max);
  ~LocalClient();
  LocalClient(LocalClient&& other) noexcept;
  LocalClient& operator=(LocalClient&&) = delete;
  LocalClient(const LocalClient&) = delete;
  LocalClient& operator=(const LocalClient&) = delete;

  // All of the body is with the kernel, or (any error) the other side will not see this message. kGone: it closed the connection,
  // but what it sent before can still be received. While the other side does not read, its answers are: neither waits for ever.
  Result<> send(std::string_view body, Duration timeout);
  // kTimeout; kGone: closed; kCorrupt, kVersion, kLimit: what came is no frame of ours.
  Result<std::string> receive(Duration timeout);

 private:
  explicit LocalClient(int fd, std::size_t answer_bytes_max) : fd_(fd), in_(answer_bytes_max) {}
  Result<> wait(short events, Duration until);  // absolute
  Result<bool> take();                          // false: nothing there now

  int fd_ = -1;
  FrameReader in_;
  std::deque<std::string> early_;  // came while we sent
};

}  // namespace bourse
