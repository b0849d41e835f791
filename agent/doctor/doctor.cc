#include "agent/doctor/doctor.h"

#include <algorithm>
#include <map>

#include "agent/doctor/check.h"

namespace bourse::doctor {
namespace {

constexpr std::string_view kSetSysctl = "sysctl -w ";

}  // namespace

std::string_view level_text(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kNote:
      return "note";
    case Level::kWarning:
      return "warning";
    case Level::kError:
      break;
  }
  return "error";
}

std::string sysctl_path(std::string_view name) {
  std::string path = "/proc/sys/" + std::string(name);
  std::replace(path.begin() + 10, path.end(), '.', '/');
  return path;
}

std::optional<std::string> sysctl_text(const Host& host, std::string_view name) {
  auto text = host.files.text(sysctl_path(name));
  if (text) std::replace(text->begin(), text->end(), '\t', ' ');
  return text;
}

std::optional<std::int64_t> sysctl_number(const Host& host, std::string_view name) { return host.files.number(sysctl_path(name)); }

std::string set_sysctl(std::string_view name, std::string_view value) {
  return std::string(kSetSysctl) + std::string(name) + (value.find(' ') == std::string_view::npos ? "=" : "='") +
         std::string(value) + (value.find(' ') == std::string_view::npos ? "" : "'");
}

std::optional<std::int64_t> meminfo_value(std::string_view text, std::string_view key) {
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const auto found = line.find(std::string(key) + ":");
    // Lines of a node's own meminfo begin with "Node 0 ".
    if (found == std::string_view::npos || (found != 0 && line.substr(0, 5) != "Node ")) continue;
    const auto words = words_of(line.substr(found + key.size() + 1));
    if (words.empty()) return std::nullopt;
    const auto value = whole_number(words[0]);
    if (!value || *value < 0 || *value > INT64_MAX / 1024) return std::nullopt;
    return words.size() > 1 ? *value * 1024 : *value;
  }
  return std::nullopt;
}

std::vector<Finding> examine(const Options& options) {
  const Host host{options, Rooted(options.root)};
  std::vector<Finding> findings;
  network(host, Report("network", findings));
  memory(host, Report("memory", findings));
  kernel(host, Report("kernel", findings));
  cgroups(host, Report("cgroups", findings));
  clock(host, Report("clock", findings));
  limits(host, Report("limits", findings));
  devices(host, Report("devices", findings));
  identity(host, Report("identity", findings));
  storage(host, Report("storage", findings));
  return findings;
}

Level worst(const std::vector<Finding>& findings) {
  Level worst = Level::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.level);
  return worst;
}

std::string sysctl_file(const std::vector<Finding>& findings) {
  std::map<std::string, std::string> values;
  for (const Finding& finding : findings) {
    std::string_view mend = finding.mend;
    if (mend.substr(0, kSetSysctl.size()) != kSetSysctl) continue;
    mend.remove_prefix(kSetSysctl.size());
    const auto equals = mend.find('=');
    std::string value(mend.substr(equals + 1));
    value.erase(std::remove(value.begin(), value.end(), '\''), value.end());
    values.emplace(mend.substr(0, equals), value);
  }
  std::string text;
  for (const auto& [name, value] : values) text.append(name).append(" = ").append(value).append("\n");
  return text;
}

}  // namespace bourse::doctor
