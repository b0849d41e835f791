#include "common/world/config_changes.h"

#include <algorithm>
#include <map>

#include "common/world/log.h"

namespace bourse {
namespace {

std::map<std::string, std::string> values_of(const Config& config, const std::vector<std::string_view>& sections) {
  std::map<std::string, std::string> out;
  std::string section;
  const std::string text = config.dump();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("[")) section = line.substr(1, line.find(']') - 1);
    const std::size_t equals = line.find(" = ");
    if (line.starts_with("[") || equals == std::string::npos) continue;
    // A table of its own, [agent.labels], belongs to its section.
    const std::string_view top = std::string_view(section).substr(0, section.find('.'));
    if (std::find(sections.begin(), sections.end(), top) != sections.end())
      out[section + "." + line.substr(0, equals)] = line.substr(equals + 3);
  }
  return out;
}

}  // namespace

ConfigChanges config_changes(const Config& before, const Config& after, const std::vector<std::string_view>& sections,
                             const std::vector<std::string_view>& live) {
  ConfigChanges out;
  std::map<std::string, std::string> old = values_of(before, sections);
  const auto note = [&](const std::string& key, const std::string& from, const std::string& to) {
    const bool now = std::any_of(live.begin(), live.end(),
                                 [&](std::string_view name) { return key == name || key.starts_with(std::string(name) + "."); });
    (now ? out.live : out.restart).push_back(key + ": " + (from.empty() ? "none" : from) + " -> " + (to.empty() ? "none" : to));
  };
  for (const auto& [key, value] : values_of(after, sections)) {
    const auto it = old.find(key);
    if (it == old.end() || it->second != value) note(key, it == old.end() ? "" : it->second, value);
    if (it != old.end()) old.erase(it);
  }
  for (const auto& [key, value] : old) note(key, value, "");
  return out;
}

void log_changes(const ConfigChanges& changes, const std::string& file) {
  for (const std::string& line : changes.live) log_event(LogLevel::kInfo, "reload_changed", {{"what", line}});
  for (const std::string& line : changes.restart)
    log_event(LogLevel::kWarn, "reload_needs_restart", {{"what", line}, {"until_then", "ignoring it"}});
  if (changes.live.empty() && changes.restart.empty()) log_event(LogLevel::kInfo, "reload_without_changes", {{"file", file}});
}

std::string to_text(const ConfigChanges& changes, std::string_view program) {
  std::string out;
  const auto add = [&](const std::string& line) { out += (out.empty() ? "" : "\n") + line; };
  for (const std::string& line : changes.live) add(line);
  for (const std::string& line : changes.restart) add(line + " (not before " + std::string(program) + " is started again)");
  return out.empty() ? "nothing has changed" : out;
}

}  // namespace bourse
