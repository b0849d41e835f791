#include "common/sim/swf.h"

#include <algorithm>
#include <array>
#include <charconv>

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

Result<SwfJob> parse(const Lines& lines, std::string_view text) {
  SwfJob job;
  std::size_t at = 0;
  for (std::size_t column = 0; column < kColumns.size(); ++column) {
    at = text.find_first_not_of(" \t", at);
    if (at == std::string_view::npos) {
      return lines.bad(text.size() + 1, "the line ends after " + std::to_string(column) + " of 18 columns; " +
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
      return lines.bad(at + 1,
                       "\"" + std::string(word.substr(0, 32)) + "\" is not a number (" + std::string(kColumnNames[column]) + ")");
    }
    const bool is_time = column == 1 || column == 3 || column == 8;
    if (value < -1 && (is_time || column == 4 || column == 7)) {
      return lines.bad(at + 1, std::string(kColumnNames[column]) + " " + std::to_string(value) +
                                   " is negative; -1 is how a trace says that it is not known");
    }
    if (is_time && value > kTraceSecondsMax) {
      return lines.bad(at + 1, std::string(kColumnNames[column]) + " " + std::to_string(value) + " is more than " +
                                   std::to_string(kTraceSecondsMax) + " seconds");
    }
    job.*kColumns[column] = value;
    at = end;
  }
  at = text.find_first_not_of(" \t", at);
  if (at != std::string_view::npos) return lines.bad(at + 1, "more than 18 columns");
  return job;
}

}  // namespace

Result<> scan_swf(Lines& lines, const std::function<bool(const SwfJob&)>& on_job,
                  const std::function<void(std::string_view, std::string_view)>& on_header) {
  std::string_view text;
  std::size_t jobs = 0;
  std::int64_t previous = 0;
  while (BOURSE_TRY(lines.next(text))) {
    const std::size_t start = text.find_first_not_of(" \t");
    if (start == std::string_view::npos) continue;
    if (text[start] == ';') {
      const std::string_view comment = text.substr(start + 1);
      const std::size_t colon = comment.find(':'), name = comment.find_first_not_of(" \t");
      if (!on_header || colon == std::string_view::npos || name >= colon) continue;
      const std::size_t value = comment.find_first_not_of(" \t", colon + 1);
      on_header(comment.substr(name, colon - name), value == std::string_view::npos ? std::string_view{} : comment.substr(value));
      continue;
    }
    const SwfJob job = BOURSE_TRY(parse(lines, text));
    if (job.submit >= 0 && job.submit < previous) {
      return lines.bad(start + 1, "job " + std::to_string(job.number) +
                                      " was submitted before the one above it; a trace is sorted by submit time");
    }
    previous = std::max(previous, job.submit);
    if (jobs++ == kSwfJobsMax) {
      return Error(Code::kLimit,
                   lines.name() + ":" + std::to_string(lines.number()) + ": more than " + std::to_string(kSwfJobsMax) + " jobs");
    }
    if (!on_job(job)) return {};
  }
  return {};
}

namespace {

Result<SwfTrace> collect(Lines lines, std::size_t jobs_max) {
  SwfTrace trace;
  BOURSE_TRY(scan_swf(
      lines,
      [&](const SwfJob& job) {
        trace.jobs.push_back(job);
        return jobs_max == 0 || trace.jobs.size() < jobs_max;
      },
      [&](std::string_view name, std::string_view value) { trace.header.emplace(name, value); }));
  return trace;
}

}  // namespace

Result<SwfTrace> parse_swf(std::string_view text, const std::string& name, std::size_t jobs_max) {
  return collect(Lines::over(text, name), jobs_max);
}

Result<SwfTrace> read_swf(const std::string& path, std::size_t jobs_max) {
  return collect(BOURSE_TRY(Lines::open(path)), jobs_max);
}

}  // namespace bourse::sim
