// Lines of a text file, plain or gzip, one at a time: a trace of any size costs one line of memory.
//
// Owned by one thread. Ends: next() says false. A line longer than kLineBytesMax, a torn or damaged archive: kInvalid or kCorrupt
// with the file's name and the line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/core/result.h"

namespace bourse::sim {

constexpr std::size_t kLineBytesMax = 64 * 1024;

class Lines {
 public:
  static Result<Lines> open(const std::string& path);
  static Lines over(std::string_view text, std::string name);  // of text in memory, which must stay
  Lines(Lines&&) noexcept;
  Lines& operator=(Lines&&) noexcept;
  ~Lines();

  // The next line without its end ("\n" or "\r\n"); valid until the next call.
  Result<bool> next(std::string_view& line);
  [[nodiscard]] std::uint64_t number() const { return number_; }  // of that line, from 1
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint64_t offset() const;  // bytes of the file consumed (compressed ones, where it is)
  [[nodiscard]] Error bad(std::size_t column, const std::string& why) const;  // "FILE:LINE:COLUMN: why", kInvalid

 private:
  struct File;
  Lines();
  Result<bool> next_of_file(std::string_view& line);
  std::string name_;
  std::uint64_t number_ = 0;
  std::string_view text_;
  std::unique_ptr<File> file_;
};

}  // namespace bourse::sim
