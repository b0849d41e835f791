// Small files, whole: read, write so that a crash leaves the old or the new one, make directories. Blocking.
#pragma once

#include <string>
#include <string_view>

#include "common/core/result.h"

namespace bourse {

constexpr std::size_t kSmallFileMax = 16 * 1024 * 1024;

Result<std::string> read_file(const std::string& path, std::size_t max = kSmallFileMax);  // kNotFound, kLimit, kIo
// Through PATH.tmp, flushed, renamed; the directory is flushed too.
Result<> write_file(const std::string& path, std::string_view content, unsigned mode = 0644);
Result<> make_directories(const std::string& path, unsigned mode = 0755);  // mode is for those it makes
Result<> flush_directory_of(const std::string& path);
std::string directory_of(const std::string& path);  // "a/b" -> "a", "b" -> ".", "/b" -> "/"

// All of `bytes`, whatever write(2) takes at a time. False: errno says why, and some may be written.
bool write_all(int fd, std::string_view bytes);

}  // namespace bourse
