#include "agent/settings.h"

#include <charconv>

namespace bourse {
namespace {

void put(std::string& out, std::string_view word) {
  out += word;
  out.push_back('\0');
}

}  // namespace

// Words ended by NUL, which the configuration never has in a text.
std::string to_text(const AgentSettings& settings) {
  std::string out;
  for (const auto& [key, value] : settings.labels) put(out, "label"), put(out, key), put(out, value);
  for (const ProbePlan& plan : settings.probes)
    put(out, "probe"), put(out, plan.name), put(out, std::to_string(plan.limit.count()));
  put(out, "reprobe"), put(out, std::to_string(settings.reprobe.count()));
  put(out, "grace"), put(out, std::to_string(settings.default_grace.count()));
  if (settings.warm.on) put(out, "warm"), put(out, std::to_string(settings.warm.budget.value));
  const LendSettings& lend = settings.lend;
  if (!lend.on) return out;
  put(out, "lend");
  for (const std::int64_t n : {lend.every.count(), lend.slack.window.count(), lend.slack.settle.count(),
                               std::int64_t{lend.slack.keep_permille}, std::int64_t{lend.pressure.evict},
                               std::int64_t{lend.pressure.stop}, lend.pressure.notice.count(), lend.pressure.settle.count()})
    put(out, std::to_string(n));
  return out;
}

Result<AgentSettings> parse_settings(std::string_view text) {
  AgentSettings settings;
  bool ok = true;
  const auto word = [&] {
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos) return ok = false, std::string();
    std::string out(text.substr(0, end));
    text.remove_prefix(end + 1);
    return out;
  };
  const auto integer = [&] {
    const std::string number = word();
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), n);
    ok = ok && error == std::errc() && end == number.data() + number.size();
    return n;
  };
  const auto duration = [&] { return Duration(integer()); };
  while (ok && !text.empty()) {
    const std::string what = word();
    if (what == "label") {
      std::string key = word();
      settings.labels[std::move(key)] = word();
    } else if (what == "probe") {
      std::string name = word();
      settings.probes.emplace_back(std::move(name), duration());
    } else if (what == "reprobe") {
      settings.reprobe = duration();
    } else if (what == "grace") {
      settings.default_grace = duration();
    } else if (what == "warm") {
      settings.warm = {true, Bytes{integer()}};
    } else if (what == "lend") {
      LendSettings& lend = settings.lend;
      lend.on = true;
      lend.every = duration();
      lend.slack.window = duration(), lend.slack.settle = duration();
      lend.slack.keep_permille = static_cast<std::int32_t>(integer());
      lend.pressure.evict = static_cast<std::int32_t>(integer()), lend.pressure.stop = static_cast<std::int32_t>(integer());
      lend.pressure.notice = duration(), lend.pressure.settle = duration();
    } else {
      ok = false;
    }
  }
  if (!ok) return Error(Code::kCorrupt, "these are not an agent's settings");
  return settings;
}

}  // namespace bourse
