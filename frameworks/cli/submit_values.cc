// Values of single options: begin times and signals.
#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "common/world/config.h"
#include "frameworks/cli/submit_options.h"

namespace bourse::cli {
namespace {

struct SignalName {
  std::string_view name;
  int number;
};
constexpr std::array kSignals = {SignalName{"HUP", SIGHUP},   SignalName{"INT", SIGINT},   SignalName{"QUIT", SIGQUIT},
                                 SignalName{"ABRT", SIGABRT}, SignalName{"KILL", SIGKILL}, SignalName{"USR1", SIGUSR1},
                                 SignalName{"USR2", SIGUSR2}, SignalName{"TERM", SIGTERM}, SignalName{"CONT", SIGCONT},
                                 SignalName{"STOP", SIGSTOP}, SignalName{"TSTP", SIGTSTP}, SignalName{"ALRM", SIGALRM},
                                 SignalName{"URG", SIGURG},   SignalName{"PIPE", SIGPIPE}, SignalName{"XCPU", SIGXCPU}};

Duration from_local(std::tm tm) {
  tm.tm_isdst = -1;
  return seconds(std::mktime(&tm));
}

std::tm local(Duration wall) {
  const std::time_t t = std::chrono::duration_cast<seconds>(wall).count();
  std::tm tm{};
  localtime_r(&t, &tm);
  return tm;
}

Result<Duration> parse_relative(std::string_view text, Duration now) {  // after "now"
  if (text.empty()) return now;
  if (text[0] != '+') return Error(Code::kInvalid, "after `now' comes +TIME");
  std::string amount(text.substr(1));
  struct Unit {
    std::string_view word;
    std::int64_t seconds;
  };
  constexpr std::array units = {Unit{"seconds", 1},    Unit{"second", 1},   Unit{"minutes", 60}, Unit{"minute", 60},
                                Unit{"hours", 3600},   Unit{"hour", 3600},  Unit{"days", 86400}, Unit{"day", 86400},
                                Unit{"weeks", 604800}, Unit{"week", 604800}};
  for (const Unit& unit : units) {
    if (!amount.ends_with(unit.word)) continue;
    const std::string number = amount.substr(0, amount.size() - unit.word.size());
    char* end = nullptr;
    const long long n = std::strtoll(number.c_str(), &end, 10);
    if (number.empty() || *end != 0 || n < 0 || n > 1'000'000'000)
      return Error(Code::kInvalid, fmt::format("`{}' is not a number", number));
    return now + seconds(n * unit.seconds);
  }
  return now + BOURSE_TRY(parse_duration(amount, seconds(1)));
}

}  // namespace

Result<Duration> parse_begin(std::string_view text, Duration wall_now) {
  const std::string word(text);
  const auto fail = [&] {
    return Error(Code::kInvalid, fmt::format("--begin: `{}' is no time; write now+1hour, 16:00 or 2026-12-01T08:00", word));
  };
  if (text.starts_with("now")) {
    auto at = parse_relative(text.substr(3), wall_now);
    if (!at) return fail();
    return at;
  }
  std::tm tm = local(wall_now);
  const auto at_clock = [&](int hour, int minute, int second) {
    tm.tm_hour = hour, tm.tm_min = minute, tm.tm_sec = second;
    Duration when = from_local(tm);
    if (when <= wall_now) {  // that time of today has passed
      tm.tm_mday += 1;
      when = from_local(tm);
    }
    return when;
  };
  if (text == "midnight") return at_clock(0, 0, 0);
  if (text == "noon") return at_clock(12, 0, 0);
  if (text == "teatime") return at_clock(16, 0, 0);
  if (text == "today") return wall_now;
  if (text == "tomorrow") {
    tm.tm_mday += 1;
    return from_local(tm);
  }
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, used = 0;
  const auto whole = [&] { return static_cast<std::size_t>(used) == word.size(); };
  if ((std::sscanf(word.c_str(), "%2d:%2d%n", &hour, &minute, &used) == 2 && whole()) ||
      (std::sscanf(word.c_str(), "%2d:%2d:%2d%n", &hour, &minute, &second, &used) == 3 && whole())) {
    if (hour > 23 || minute > 59 || second > 59 || hour < 0 || minute < 0 || second < 0) return fail();
    return at_clock(hour, minute, second);
  }
  hour = minute = second = 0;
  if ((std::sscanf(word.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &year, &month, &day, &hour, &minute, &second, &used) == 6 &&
       whole()) ||
      (std::sscanf(word.c_str(), "%4d-%2d-%2dT%2d:%2d%n", &year, &month, &day, &hour, &minute, &used) == 5 && whole()) ||
      (std::sscanf(word.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &used) == 3 && whole())) {
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60) return fail();
    std::tm date{};
    date.tm_year = year - 1900, date.tm_mon = month - 1, date.tm_mday = day;
    date.tm_hour = hour, date.tm_min = minute, date.tm_sec = second;
    return from_local(date);
  }
  return fail();
}

Result<int> parse_signal_name(std::string_view text) {
  std::string word(text);
  char* end = nullptr;
  const long number = std::strtol(word.c_str(), &end, 10);
  if (!word.empty() && *end == 0) {
    if (number < 1 || number > SIGRTMAX) return Error(Code::kInvalid, fmt::format("there is no signal {}", number));
    return static_cast<int>(number);
  }
  for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string_view name = word;
  if (name.starts_with("SIG")) name.remove_prefix(3);
  for (const SignalName& known : kSignals)
    if (known.name == name) return known.number;
  std::vector<std::string> names;
  for (const SignalName& known : kSignals) names.emplace_back(known.name);
  const std::string near = nearest_word(name, names);
  return Error(Code::kInvalid,
               fmt::format("there is no signal `{}'{}", text, near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

Result<SignalAsk> parse_signal(std::string_view text) {
  SignalAsk ask;
  if (text.starts_with("B:")) {
    ask.shell_only = true;
    text.remove_prefix(2);
  } else if (text.starts_with("R:")) {
    text.remove_prefix(2);
  }
  const std::size_t at = text.find('@');
  ask.signal = BOURSE_TRY(parse_signal_name(text.substr(0, at)));
  if (at != std::string_view::npos) ask.before = BOURSE_TRY(parse_duration(text.substr(at + 1), seconds(1)));
  return ask;
}

}  // namespace bourse::cli
