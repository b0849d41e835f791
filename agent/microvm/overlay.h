// The layer over a disk image that takes a guest's writes, so that an image serves many tasks and stays as it is: an empty qcow2 file
// with the image below it, in the task's scratch directory. Format: docs/interop/qcow2.txt of QEMU, version 2. Pure but for
// read_disk_shape().
#pragma once

#include <cstdint>
#include <string>

#include "common/core/result.h"

namespace bourse::microvm {

struct DiskShape {
  bool qcow2 = false;      // else raw
  std::uint64_t size = 0;  // as the guest sees it
};
// Of an open file, by its first bytes. kInvalid: an image without a size, or one that is not all in this file: others
// would be opened with rights that its user has not.
Result<DiskShape> read_disk_shape(int fd, std::uint64_t file_size);
// The file, whole. kLimit: the image is larger than any disk.
Result<std::string> overlay_file(const std::string& image, const DiskShape& shape);

}  // namespace bourse::microvm
