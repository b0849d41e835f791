// bourse events: what happened in the master, as it happens, for people and as JSON.
#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "common/core/units.h"
#include "common/world/command_line.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/complain.h"
#include "frameworks/cli/master_client.h"
#include "frameworks/cli/table.h"

namespace bourse::cli {
namespace {

using Row = StatusReply::Row;
using Fields = std::vector<std::pair<std::string, std::string>>;

const std::string kProgram = "bourse events";
constexpr useconds_t kLook = 500'000;  // between two tries, and between two looks where there is no stream
constexpr Duration kListen = seconds(3600);

int failed(const Error& error) {
  const bool unreachable = error.code() == Code::kTimeout || error.code() == Code::kIo || error.code() == Code::kNotFound;
  return complain(kProgram, error, unreachable ? 3 : 1);
}

std::string utc_time(std::int64_t us) {
  const std::time_t whole = us / 1'000'000;
  std::tm parts{};
  char text[32];
  gmtime_r(&whole, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", text, us % 1'000'000 / 1000);
}

// `level=info event=agent_up agent=h1 reason="it is \"back\""`
Fields parse_line(std::string_view line) {
  Fields fields;
  std::size_t at = 0;
  while (at < line.size()) {
    while (at < line.size() && line[at] == ' ') ++at;
    const std::size_t equals = line.find('=', at);
    if (equals == std::string_view::npos) break;
    std::string name(line.substr(at, equals - at)), value;
    at = equals + 1;
    if (at < line.size() && line[at] == '"') {
      for (++at; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] == '\\' && at + 1 < line.size()) ++at;
        value.push_back(line[at]);
      }
      ++at;
    } else {
      const std::size_t end = std::min(line.find(' ', at), line.size());
      value = line.substr(at, end - at);
      at = end;
    }
    fields.emplace_back(std::move(name), std::move(value));
  }
  return fields;
}

int level_number(std::string_view level) { return level == "error" ? 3 : level == "warn" ? 2 : level == "info" ? 1 : 0; }

struct Wanted {
  bool json = false, follow = false;
  int last = -1;
  std::string level, since;
  std::vector<std::string> filters;
  int least = 0;
  std::int64_t from_us = 0;
  Fields patterns;

  Result<> settle() {
    least = level.empty() ? 0 : level_number(level);
    if (!since.empty()) {
      const Duration back = BOURSE_TRY(parse_duration(since, seconds(1), false));
      timespec now{};
      clock_gettime(CLOCK_REALTIME, &now);
      from_us = now.tv_sec * 1'000'000 + now.tv_nsec / 1000 - back.count();
    }
    for (const std::string& filter : filters) {
      const std::size_t equals = filter.find('=');
      if (equals == 0 || equals == std::string::npos)
        return Error(Code::kInvalid, "'" + filter + "' is not NAME=PATTERN, such as event=agent_* or agent=h7");
      patterns.emplace_back(filter.substr(0, equals), filter.substr(equals + 1));
    }
    return {};
  }

  [[nodiscard]] bool takes(std::int64_t us, const Fields& fields) const {
    if (us < from_us) return false;
    const auto value_of = [&](std::string_view name) -> const std::string* {
      for (const auto& [key, value] : fields)
        if (key == name) return &value;
      return nullptr;
    };
    if (const std::string* level_text = value_of("level"); level_text != nullptr && level_number(*level_text) < least) return false;
    return std::all_of(patterns.begin(), patterns.end(), [&](const auto& pattern) {
      const std::string* value = value_of(pattern.first);
      return value != nullptr && fnmatch(pattern.second.c_str(), value->c_str(), 0) == 0;
    });
  }
};

// Writes those that are wanted; with --last the first batch is held back to its end.
class Printer {
 public:
  explicit Printer(const Wanted& wanted) : wanted_(wanted) {}
  void row(const Row& row) {
    const std::int64_t us = std::strtoll(field(row, "time_us").c_str(), nullptr, 10);
    const std::string line = field(row, "event");
    const Fields fields = parse_line(line);
    if (!wanted_.takes(us, fields)) return;
    std::string text;
    if (wanted_.json) {
      Fields members;
      for (const auto& [name, value] : fields) members.emplace_back(name, json_quote(value));
      text = json_object({{"number", row.name},
                          {"time", json_quote(utc_time(us))},
                          {"event", json_quote(line)},
                          {"fields", json_object(members)}});
    } else {
      text = utc_time(us) + " " + line;
    }
    held_.push_back(std::move(text));
    if (wanted_.last < 0 || begun_) return flush();
    if (held_.size() > static_cast<std::size_t>(wanted_.last)) held_.pop_front();
  }
  void flush() {
    begun_ = true;
    for (const std::string& text : held_) fmt::print("{}\n", text);
    held_.clear();
    std::fflush(stdout);
  }

 private:
  const Wanted& wanted_;
  std::deque<std::string> held_;
  bool begun_ = false;
};

// Until the stream breaks; true where there was one at all. `after`: the last number that was read.
bool follow_stream(MasterClient& client, std::string& after, Printer& printer) {
  ReaderLink* link = client.readers();
  if (link == nullptr) return false;
  link->watch({"events"}, after);
  for (;;) {
    auto update = link->next(kListen);
    if (!update && update.error().code() == Code::kTimeout) continue;
    if (!update) return true;
    for (const Row& row : update->rows) {
      printer.row(row);
      after = row.name;
    }
    if (!update->more) printer.flush();
  }
}

}  // namespace

int events_main(int argc, char** argv) {
  Wanted wanted;
  CommandLine app("Shows what happened in the master lately, oldest first.", kProgram);
  app.flag("--json", wanted.json, "A JSON object a line");
  app.flag("-f,--follow", wanted.follow, "Wait for more, until interrupted");
  app.option("-n,--last", wanted.last, "Of what there is already, at most so many").between(0, 1'000'000);
  app.option("--since", wanted.since, "Only what happened in that time: 10m, 2h, 1-12");
  app.option("--level", wanted.level, "Only what is at least so important").one_of({"debug", "info", "warn", "error"});
  app.option("--filter", wanted.filters, "NAME=PATTERN, such as event=agent_* or agent=h7; all that are given must hold")
      .one_each();
  app.directory();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  if (auto good = wanted.settle(); !good) return complain(kProgram, good.error(), 2);
  Printer printer(wanted);
  std::string after;
  std::uint64_t epoch = 0;
  for (;; usleep(kLook)) {
    auto client = MasterClient::open();
    if (!client && !wanted.follow) return failed(client.error());
    if (!client) continue;  // it may come back, or another one lead
    if (epoch != (*client)->epoch().value) after.clear();
    epoch = (*client)->epoch().value;
    if (wanted.follow && follow_stream(**client, after, printer)) continue;
    for (auto rows = (*client)->status("events", after); rows; usleep(kLook), rows = (*client)->status("events", after)) {
      for (const Row& row : *rows) {
        printer.row(row);
        after = row.name;
      }
      printer.flush();
      if (!wanted.follow) return 0;
    }
    if (!wanted.follow) return complain(kProgram, Error(Code::kTimeout, "the master does not answer"), 3);
  }
}

}  // namespace bourse::cli
