#include "common/sim/lines.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

namespace bourse::sim {

struct Lines::File {
  gzFile file = nullptr;
  std::vector<char> buffer;
  std::size_t begin = 0, end = 0;
  bool eof = false;
  ~File() {
    if (file != nullptr) gzclose(file);
  }
};

Lines::Lines() = default;
Lines::Lines(Lines&&) noexcept = default;
Lines& Lines::operator=(Lines&&) noexcept = default;
Lines::~Lines() = default;

Result<Lines> Lines::open(const std::string& path) {
  Lines out;
  out.name_ = path;
  out.file_ = std::make_unique<File>();
  out.file_->file = gzopen(path.c_str(), "rb");  // reads plain files as they are
  if (out.file_->file == nullptr) return errno_error("open " + path);
  gzbuffer(out.file_->file, 256 * 1024);
  out.file_->buffer.resize(2 * kLineBytesMax);
  return out;
}

Lines Lines::over(std::string_view text, std::string name) {
  Lines out;
  out.name_ = std::move(name);
  out.text_ = text;
  return out;
}

std::uint64_t Lines::offset() const { return file_ ? static_cast<std::uint64_t>(std::max<z_off_t>(gzoffset(file_->file), 0)) : 0; }

Error Lines::bad(std::size_t column, const std::string& why) const {
  return Error(Code::kInvalid, name_ + ":" + std::to_string(number_) + ":" + std::to_string(column) + ": " + why);
}

Result<bool> Lines::next(std::string_view& line) {
  if (file_) {
    if (!BOURSE_TRY(next_of_file(line))) return false;
  } else {
    if (text_.empty()) return false;
    ++number_;
    const std::size_t end = text_.find('\n');
    line = text_.substr(0, end);
    text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
  }
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return true;
}

Result<bool> Lines::next_of_file(std::string_view& line) {
  File& f = *file_;
  ++number_;
  while (true) {
    const auto from = f.buffer.begin() + static_cast<std::ptrdiff_t>(f.begin),
               to = f.buffer.begin() + static_cast<std::ptrdiff_t>(f.end);
    const auto at = std::find(from, to, '\n');
    if (at != to || (f.eof && from != to)) {
      line = std::string_view(f.buffer.data() + f.begin, static_cast<std::size_t>(at - from));
      f.begin += line.size() + (at != to ? 1 : 0);
      return true;
    }
    if (f.eof) return false;
    if (f.end - f.begin > kLineBytesMax)
      return bad(kLineBytesMax,
                 "the line is longer than " + std::to_string(kLineBytesMax) + " bytes; this is not a workload trace");
    std::copy(from, to, f.buffer.begin());
    f.end -= f.begin, f.begin = 0;
    const int got = gzread(f.file, f.buffer.data() + f.end, static_cast<unsigned>(f.buffer.size() - f.end));
    if (got > 0) f.end += static_cast<std::size_t>(got);
    int code = Z_OK;
    const char* const why = gzerror(f.file, &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END))
      return Error(Code::kCorrupt, name_ + ":" + std::to_string(number_) + ": " +
                                       (code == Z_ERRNO       ? errno_error("read").text()
                                        : code == Z_BUF_ERROR ? "the archive ends too early; was it copied whole?"
                                                              : std::string(why)));
    f.eof = got == 0;
  }
}

}  // namespace bourse::sim
