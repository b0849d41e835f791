#include "agent/microvm/overlay.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace bourse::microvm {
namespace {

constexpr std::uint32_t kMagic = 0x514649fb;  // "QFI\xfb"
constexpr std::uint32_t kBackingFormat = 0xe2792aca;
constexpr unsigned kClusterBits = 16;
constexpr std::uint64_t kCluster = 1U << kClusterBits;
constexpr std::uint64_t kOneEntry = kCluster * (kCluster / 8);  // bytes of the disk that one entry of the first table stands for
constexpr std::uint64_t kSizeMost = UINT64_C(1) << 46;          // 64 TiB: the first table still is a megabyte
constexpr std::uint64_t kSector = 512;
// Offsets in the header of an image.
constexpr std::size_t kVersionAt = 4, kBackingAt = 8, kSizeAt = 24, kFeaturesAt = 72, kHeader = 72;
constexpr std::uint64_t kExternalData = 4;  // incompatible features, of version 3

std::uint64_t big(const unsigned char* bytes, std::size_t width) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < width; ++i) out = out << 8 | bytes[i];
  return out;
}
void put(std::string& out, std::uint64_t value, std::size_t width) {
  for (std::size_t i = width; i-- > 0;) out += static_cast<char>(value >> (8 * i) & 0xff);
}
std::uint64_t clusters(std::uint64_t bytes) { return (bytes + kCluster - 1) / kCluster; }

}  // namespace

Result<DiskShape> read_disk_shape(int fd, std::uint64_t file_size) {
  std::array<unsigned char, kFeaturesAt + 8> head{};
  const ssize_t n = pread(fd, head.data(), head.size(), 0);
  if (n < 0) return errno_error("read");
  DiskShape shape;
  if (n == static_cast<ssize_t>(head.size()) && big(head.data(), 4) == kMagic) {
    const bool external = big(head.data() + kVersionAt, 4) >= 3 && (big(head.data() + kFeaturesAt, 8) & kExternalData) != 0;
    if (external || big(head.data() + kBackingAt, 8) != 0)
      return Error(Code::kInvalid, "a part of it is in another file; convert it to one that stands alone (qemu-img convert)");
    shape.qcow2 = true;
    shape.size = big(head.data() + kSizeAt, 8);
  } else {
    shape.size = (file_size + kSector - 1) / kSector * kSector;
  }
  if (shape.size == 0) return Error(Code::kInvalid, "it is empty");
  return shape;
}

Result<std::string> overlay_file(const std::string& image, const DiskShape& shape) {
  if (shape.size > kSizeMost) return Error(Code::kLimit, "it says that it is a disk of " + std::to_string(shape.size) + " bytes");
  const std::string format = shape.qcow2 ? "qcow2" : "raw";
  const std::uint64_t entries = (shape.size + kOneEntry - 1) / kOneEntry, table = clusters(entries * 8);
  // Cluster 0: header. Then the first table, the table of reference counts, and one block of those, of two bytes for each cluster.
  const std::uint64_t table_at = kCluster, counts_at = table_at + table * kCluster, block_at = counts_at + kCluster;
  const std::uint64_t used = block_at / kCluster + 1;
  std::string extensions;
  put(extensions, kBackingFormat, 4);
  put(extensions, format.size(), 4);
  extensions += format;
  extensions.resize((extensions.size() + 7) / 8 * 8, '\0');
  put(extensions, 0, 8);  // no more of them
  const std::uint64_t name_at = kHeader + extensions.size();
  if (image.size() > 1023) return Error(Code::kLimit, "its path has more than 1023 bytes");

  std::string out;
  put(out, kMagic, 4), put(out, 2, 4), put(out, name_at, 8), put(out, image.size(), 4), put(out, kClusterBits, 4);
  put(out, shape.size, 8), put(out, 0, 4), put(out, entries, 4), put(out, table_at, 8), put(out, counts_at, 8), put(out, 1, 4);
  put(out, 0, 4), put(out, 0, 8);  // no snapshots
  out += extensions;
  out += image;
  out.resize(counts_at, '\0');  // the first table is empty: everything is the image's still
  put(out, block_at, 8);
  out.resize(block_at, '\0');
  for (std::uint64_t i = 0; i < used; ++i) put(out, 1, 2);
  out.resize(block_at + kCluster, '\0');
  return out;
}

}  // namespace bourse::microvm
