// Frames on a plain Unix stream socket, as LocalListener and LocalClient exchange them.
//
//   bytes 0-2  "Brs"
//   byte  3    version of this framing
//   bytes 4-7  length of the body, little endian
//   then       the body, of whose meaning nothing is known here
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/core/result.h"

namespace bourse {

constexpr std::size_t kLocalHeadBytes = 8;
constexpr std::uint8_t kLocalFraming = 1;

std::string local_head(std::size_t body_bytes);

// Bytes as they come, frames as they are whole. Holds no more than one frame that is not, and what was added with its beginning.
class FrameReader {
 public:
  explicit FrameReader(std::size_t body_bytes_max) : body_bytes_max_(body_bytes_max) {}
  void add(std::string_view bytes);
  // The next body, valid until add(); nothing: more bytes are needed. An error is for good: kCorrupt (these are no frames), kVersion
  // (another framing), kLimit (a body larger than allowed, told before its bytes are here).
  Result<std::optional<std::string_view>> next();
  [[nodiscard]] std::size_t held() const { return bytes_.size() - at_; }  // bytes that next() has not given out

 private:
  std::size_t body_bytes_max_;
  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace bourse
