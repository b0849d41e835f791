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
  const auto duration = [&] {
    const std::string number = word();
    std::int64_t us = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), us);
    ok = ok && error == std::errc() && end == number.data() + number.size();
    return Duration(us);
  };
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
    } else {
      ok = false;
    }
  }
  if (!ok) return Error(Code::kCorrupt, "these are not an agent's settings");
  return settings;
}

}  // namespace bourse
