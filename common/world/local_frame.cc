#include "common/world/local_frame.h"

#include "common/core/hooks.h"

namespace bourse {
namespace {

constexpr std::string_view kMagic = "Brs";
constexpr std::size_t kKeptBytes = 256 * 1024;  // of a buffer that is empty; what a large frame took is given back

}  // namespace

std::string local_head(std::size_t body_bytes) {
  std::string head(kMagic);
  head += static_cast<char>(kLocalFraming);
  for (unsigned shift = 0; shift < 32; shift += 8) head += static_cast<char>(body_bytes >> shift & 0xFF);
  return head;
}

void FrameReader::add(std::string_view bytes) {
  if (at_ == bytes_.size()) {
    if (bytes_.capacity() > kKeptBytes) bytes_ = std::string();
    bytes_.clear();
  } else if (at_ > 0) {
    bytes_.erase(0, at_);
  }
  at_ = 0;
  bytes_.append(bytes);
}

Result<std::optional<std::string_view>> FrameReader::next() {
  const std::string_view rest = std::string_view(bytes_).substr(at_);
  // What is wrong is told from as little as shows it: who speaks something else may never send more.
  if (!rest.starts_with(kMagic.substr(0, rest.size())))
    return Error(Code::kCorrupt, "it does not speak the protocol of this socket");
  if (rest.size() > kMagic.size() && static_cast<std::uint8_t>(rest[kMagic.size()]) != kLocalFraming)
    return Error(Code::kVersion, "its frames are of version " + std::to_string(static_cast<std::uint8_t>(rest[kMagic.size()])) +
                                     ", those of this program of version " + std::to_string(kLocalFraming));
  if (rest.size() < kLocalHeadBytes) return std::optional<std::string_view>();
  std::size_t size = 0;
  for (std::size_t i = 0; i < 4; ++i) size |= static_cast<std::size_t>(static_cast<std::uint8_t>(rest[4 + i])) << (8 * i);
  if (size > body_bytes_max_ && !hooks::mutant("local.frame_limit"))
    return Error(Code::kLimit, "a message of " + std::to_string(size) + " bytes; the most is " + std::to_string(body_bytes_max_));
  if (rest.size() - kLocalHeadBytes < size) return std::optional<std::string_view>();
  at_ += kLocalHeadBytes + size;
  return std::optional<std::string_view>(rest.substr(kLocalHeadBytes, size));
}

}  // namespace bourse
