#include "common/world/log.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <ctime>

#include "common/world/files.h"

namespace bourse {
namespace {

constexpr std::size_t kLineMax = 16 * 1024;  // longer ones are cut: a log line is for reading

struct Settings {
  std::string program = "bourse";
  std::atomic<LogLevel> level{LogLevel::kInfo};
};
Settings& settings() {
  static Settings instance;
  return instance;
}

std::string_view level_text(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      return "error";
  }
  return "info";
}

void append_value(std::string& out, std::string_view value) {
  bool plain = !value.empty();
  for (const char c : value) plain = plain && c > ' ' && c != '"' && c != '=' && c != '\\' && c != 0x7F;
  if (plain) {
    out.append(value);
    return;
  }
  out.push_back('"');
  for (const char c : value) {
    switch (c) {
      case '"':
        out.append("\\\"");
        break;
      case '\\':
        out.append("\\\\");
        break;
      case '\n':
        out.append("\\n");
        break;
      case '\t':
        out.append("\\t");
        break;
      default:
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) {
          char hex[8];
          std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
          out.append(hex);
        } else {
          out.push_back(c);
        }
    }
  }
  out.push_back('"');
}

// One write(2) a line, so that lines of several threads or processes on one stream stay whole.
void emit(std::string_view text) {
  timespec ts{};
  clock_gettime(CLOCK_REALTIME, &ts);
  tm parts{};
  gmtime_r(&ts.tv_sec, &parts);
  char stamp[64];
  std::snprintf(stamp, sizeof stamp, "%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ ", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                parts.tm_hour, parts.tm_min, parts.tm_sec, ts.tv_nsec / 1000);
  std::string line = stamp;
  // "level=x" first, then prog=, then the rest.
  const auto space = text.starts_with("level=") ? text.find(' ') : std::string_view::npos;
  if (space != std::string_view::npos) {
    line.append(text.substr(0, space + 1));
    text.remove_prefix(space + 1);
  }
  line.append("prog=").append(settings().program).push_back(' ');
  for (const char c : text) line.push_back(c == '\n' ? ' ' : c);
  if (line.size() > kLineMax) {
    line.resize(kLineMax);
    line.append("...");
  }
  line.push_back('\n');
  const int before = errno;
  (void)write_all(STDERR_FILENO, line);  // nowhere to complain to
  errno = before;
}

LogLevel level_of(std::string_view line) {
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kWarn, LogLevel::kError})
    if (line.starts_with("level=" + std::string(level_text(level)))) return level;
  return LogLevel::kInfo;
}

}  // namespace

void log_init(std::string_view program, LogLevel level) {
  if (settings().program != program) settings().program = program;  // other threads may be logging at a reload
  settings().level = level;
}

void log_event(LogLevel level, std::string_view event, LogFields fields) {
  if (level >= settings().level) emit(log_text(level, event, fields));
}

void log_line(std::string_view line) {
  if (level_of(line) >= settings().level) emit(line);
}

std::string log_text(LogLevel level, std::string_view event, LogFields fields) {
  std::string out = "level=";
  out.append(level_text(level)).append(" event=");
  append_value(out, event);
  for (const auto& [name, value] : fields) {
    out.push_back(' ');
    out.append(name);
    out.push_back('=');
    append_value(out, value);
  }
  return out;
}

}  // namespace bourse
