#include "common/sim/swf.h"

#include <zlib.h>

#include <array>
#include <charconv>
#include <memory>

namespace bourse::sim {

namespace {

constexpr std::array<std::int64_t SwfJob::*, 18> kColumns = {
    &SwfJob::number, &SwfJob::submit,           &SwfJob::wait,       &SwfJob::run,          &SwfJob::processors, &SwfJob::cpu,
    &SwfJob::memory, &SwfJob::processors_asked, &SwfJob::time_asked, &SwfJob::memory_asked, &SwfJob::status,     &SwfJob::user,
    &SwfJob::group,  &SwfJob::application,      &SwfJob::queue,      &SwfJob::partition,    &SwfJob::previous,   &SwfJob::think};
constexpr std::array<std::string_view, 18> kColumnNames = {"job number",
                                                           "submit time",
                                                           "wait time",
                                                           "run time",
                                                           "allocated processors",
                                                           "average CPU time",
                                                           "used memory",
                                                           "requested processors",
                                                           "requested time",
                                                           "requested memory",
                                                           "status",
                                                           "user",
                                                           "group",
                                                           "application",
                                                           "queue",
                                                           "partition",
                                                           "preceding job",
                                                           "think time"};

class Reader {
 public:
  Reader(std::string name, std::size_t jobs_max) : name_(std::move(name)), jobs_max_(jobs_max) {}

  // False: enough jobs, the rest is not looked at.
  Result<bool> line(std::string_view text) {
    ++number_;
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    const std::size_t start = text.find_first_not_of(" \t");
    if (start == std::string_view::npos) return true;
    if (text[start] == ';') {
      comment(text.substr(start + 1));
      return true;
    }
    const SwfJob job = BOURSE_TRY(parse(text));
    if (!trace.jobs.empty() && job.submit < trace.jobs.back().submit) {
      return bad(1,
                 "job " + std::to_string(job.number) + " was submitted before the one above it; a trace is sorted by submit time");
    }
    if (trace.jobs.size() == kSwfJobsMax) {
      return Error(Code::kLimit, name_ + ":" + std::to_string(number_) + ": more than " + std::to_string(kSwfJobsMax) + " jobs");
    }
    trace.jobs.push_back(job);
    return jobs_max_ == 0 || trace.jobs.size() < jobs_max_;
  }
  SwfTrace trace;

 private:
  Error bad(std::size_t column, const std::string& why) const {
    return Error(Code::kInvalid, name_ + ":" + std::to_string(number_) + ":" + std::to_string(column) + ": " + why);
  }

  void comment(std::string_view text) {
    const std::size_t colon = text.find(':');
    const std::size_t start = text.find_first_not_of(" \t");
    if (colon == std::string_view::npos || start >= colon) return;
    const std::size_t value = text.find_first_not_of(" \t", colon + 1);
    trace.header.emplace(text.substr(start, colon - start),
                         value == std::string_view::npos ? std::string_view{} : text.substr(value));
  }

  Result<SwfJob> parse(std::string_view text) const {
    SwfJob job;
    std::size_t at = 0;
    for (std::size_t column = 0; column < kColumns.size(); ++column) {
      at = text.find_first_not_of(" \t", at);
      if (at == std::string_view::npos) {
        return bad(text.size() + 1, "the line ends after " + std::to_string(column) + " of 18 columns; " +
                                        std::string(kColumnNames[column]) + " is missing");
      }
      std::size_t end = text.find_first_of(" \t", at);
      if (end == std::string_view::npos) end = text.size();
      const std::string_view word = text.substr(at, end - at);
      std::int64_t value = 0;
      auto [rest, failure] = std::from_chars(word.data(), word.data() + word.size(), value);
      const char* const last = word.data() + word.size();
      if (failure == std::errc{} && rest != last && *rest == '.') {  // averages have decimals, which nobody here needs
        ++rest;
        while (rest != last && *rest >= '0' && *rest <= '9') ++rest;
      }
      if (failure != std::errc{} || rest != last) {
        return bad(at + 1,
                   "\"" + std::string(word.substr(0, 32)) + "\" is not a number (" + std::string(kColumnNames[column]) + ")");
      }
      job.*kColumns[column] = value;
      at = end;
    }
    at = text.find_first_not_of(" \t", at);
    if (at != std::string_view::npos) return bad(at + 1, "more than 18 columns");
    return job;
  }

  std::string name_;
  std::size_t jobs_max_;
  std::uint64_t number_ = 0;
};

}  // namespace

Result<SwfTrace> parse_swf(std::string_view text, const std::string& name, std::size_t jobs_max) {
  Reader reader(name, jobs_max);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (!BOURSE_TRY(reader.line(text.substr(0, end)))) break;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return std::move(reader.trace);
}

Result<SwfTrace> read_swf(const std::string& path, std::size_t jobs_max) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);  // reads plain files as they are
  if (!file) return errno_error("open " + path);
  gzbuffer(file.get(), 256 * 1024);
  Reader reader(path, jobs_max);
  std::string line;
  std::array<char, 4096> chunk{};
  while (gzgets(file.get(), chunk.data(), static_cast<int>(chunk.size())) != nullptr) {
    line += chunk.data();
    if (line.size() > kSwfLineBytesMax) {
      return Error(Code::kInvalid,
                   path + ": a line is longer than " + std::to_string(kSwfLineBytesMax) + " bytes; this is not a workload trace");
    }
    if (line.back() != '\n') continue;
    line.pop_back();
    if (!BOURSE_TRY(reader.line(line))) return std::move(reader.trace);
    line.clear();
  }
  int code = Z_OK;
  const char* const why = gzerror(file.get(), &code);
  if (code != Z_OK && code != Z_STREAM_END)
    return Error(Code::kCorrupt, path + ": " + (code == Z_ERRNO ? errno_error("read").text() : std::string(why)));
  if (!line.empty()) (void)BOURSE_TRY(reader.line(line));
  return std::move(reader.trace);
}

}  // namespace bourse::sim
