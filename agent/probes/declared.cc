#include "agent/probes/declared.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 0  // compiled in common/world/config.cc
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "common/core/hooks.h"
#include "common/core/units.h"
#include "common/world/config.h"
#include "common/world/files.h"

namespace bourse {
namespace {

constexpr std::int64_t kShareMost = 1000;  // permille: all of it
constexpr std::int64_t kCountMost = 1024;  // devices by one entry
const std::vector<std::string> kUnits = {"permille", "%", "KiB", "MiB", "GiB", "TiB", "PiB"};
const std::vector<std::string> kSections = {"device", "amounts", "labels"};
const std::vector<std::string> kDeviceKeys = {"id",   "kind",     "vendor", "model",      "mode",  "count", "counters",
                                              "numa", "profiles", "pci",    "attributes", "nodes", "links", "env"};
const std::vector<std::pair<std::string, Device::Mode>> kModes = {{"exclusive", Device::Mode::kExclusive},
                                                                  {"counters", Device::Mode::kCounters},
                                                                  {"template", Device::Mode::kTemplate},
                                                                  {"time-sliced", Device::Mode::kTimeSliced}};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}
// Memory is in MiB on a device, and compute is a share of it, whatever else it has.
bool is_memory(std::string_view counter) { return counter == "mem" || ends_with(counter, ".mem"); }
bool is_share(std::string_view counter) { return counter == "compute"; }

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known, const char* open = "`",
                         const char* close = "'") {
  const std::string near = nearest_word(word, known);
  return near.empty() ? "" : "; did you mean " + (open + near) + close + "?";
}

std::string with_index(std::string text, std::int64_t index) {
  for (std::size_t at = 0; (at = text.find("{}", at)) != std::string::npos;) text.replace(at, 2, std::to_string(index));
  return text;
}

class Reader {
 public:
  ProbeReport report;
  std::vector<std::string> complaints;

  void read(const DeclarationText& one) {
    file_ = one.file;
    const toml::parse_result parsed = toml::parse(one.text, one.file);
    if (!parsed) return complain(parsed.error().source().begin.line, std::string(parsed.error().description()));
    for (const auto& [key, node] : parsed.table()) {
      const std::string name(key.str());
      if (name == "device") {
        devices(node, key.source().begin.line);
      } else if (name == "amounts" && node.is_table()) {
        for (const auto& [kind, value] : *node.as_table()) amount(kind, value);
      } else if (name == "labels" && node.is_table()) {
        for (const auto& [label, value] : *node.as_table()) {
          const auto words = text(value, "label `" + std::string(label.str()) + "'");
          if (words) report.inventory.labels[std::string(label.str())] = *words;
        }
      } else {
        complain(key.source().begin.line, "unknown section [" + name + "]" + did_you_mean(name, kSections, "[", "]"));
      }
    }
  }

 private:
  void complain(std::uint32_t line, const std::string& what) {
    complaints.push_back(file_ + ":" + std::to_string(line) + ": " + what);
  }
  static std::uint32_t line_of(const toml::node& node) { return node.source().begin.line; }

  std::optional<std::string> text(const toml::node& node, const std::string& what) {
    if (node.is_string()) return **node.as_string();
    complain(line_of(node), what + " must be a text in quotes");
    return {};
  }
  std::vector<std::string> texts(const toml::node& node, const std::string& what) {
    std::vector<std::string> out;
    if (!node.is_array()) {
      complain(line_of(node), what + " must be a list of texts");
      return out;
    }
    for (const toml::node& item : *node.as_array())
      if (const auto one = text(item, what)) out.push_back(*one);
    return out;
  }

  // An amount of a counter: a whole number, or a number with a unit: "16GiB", "500 permille", "50%".
  std::optional<std::int64_t> quantity(const toml::node& node, std::string_view counter) {
    const std::uint32_t line = line_of(node);
    const std::string what = "`" + std::string(counter) + "'";
    std::int64_t value = 0;
    bool share = is_share(counter);
    if (node.is_integer()) {
      value = **node.as_integer();
    } else if (node.is_string()) {
      const std::string words = **node.as_string();
      const std::size_t digits = words.find_first_not_of("-0123456789.");
      const std::string unit = digits == std::string::npos ? "" : words.substr(words.find_first_not_of(' ', digits));
      const std::string number = words.substr(0, digits);
      if (unit == "permille" || unit == "%") {
        const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
        if (error != std::errc() || end != number.data() + number.size()) {
          complain(line, what + " is `" + words + "', expected a whole number of " + unit);
          return {};
        }
        if (unit == "%") value = value > kShareMost || value < -kShareMost ? value : value * 10;
        share = true;
      } else if (std::find(kUnits.begin(), kUnits.end(), unit) != kUnits.end()) {
        const bool negative = !number.empty() && number.front() == '-';
        const auto size = parse_size(negative ? words.substr(1) : words);
        if (!size) {
          complain(line, what + " is `" + words + "': " + size.error().text());
          return {};
        }
        value = negative ? -size->value : size->value;
        if (is_memory(counter)) {
          if (value % kMiB.value != 0) {
            complain(line, what + " is `" + words + "', expected whole MiB");
            return {};
          }
          value /= kMiB.value;
        }
      } else {
        complain(line, what + " is `" + words + "': " +
                           (unit.empty() ? "a number without a unit is written without quotes"
                                         : "unknown unit `" + unit + "'" + did_you_mean(unit, kUnits)));
        return {};
      }
    } else {
      complain(line, what + " must be a whole number, or a text such as \"16GiB\" or \"500 permille\"");
      return {};
    }
    if (value < 0) {
      complain(line, what + " is below zero");
      return {};
    }
    if (share && value > kShareMost) {
      complain(line, what + " is a share of " + std::to_string(value) + " permille; the whole is 1000");
      return {};
    }
    return value;
  }

  Counters counters(const toml::node& node, const std::string& what) {
    Counters out;
    if (!node.is_table()) {
      complain(line_of(node), what + " must be a table of amounts");
      return out;
    }
    for (const auto& [key, value] : *node.as_table()) {
      const std::string name(key.str());
      if (!valid_name(name)) {
        complain(key.source().begin.line, "`" + name + "' is not a name");
        continue;
      }
      if (const auto amount = quantity(value, name)) out.set(name, *amount);
    }
    return out;
  }

  void amount(const toml::key& key, const toml::node& value) {
    const std::string kind(key.str());
    if (kind == "disk") {
      const auto words = text(value, "`disk'");
      if (!words) return;
      const auto size = parse_size(*words);
      if (!size)
        return complain(line_of(value),
                        "`disk' is `" + *words + "', expected a size such as \"1TiB\" (" + size.error().text() + ")");
      report.inventory.total.disk = *size;
    } else if (kind == "ports") {
      const auto words = text(value, "`ports'");
      if (!words) return;
      auto ports = Ports::parse(*words);
      if (!ports) return complain(line_of(value), "`ports' is `" + *words + "': " + ports.error().text());
      report.inventory.total.ports = *std::move(ports);
    } else if (kind == "cpus" || kind == "mem") {
      complain(key.source().begin.line, "`" + kind + "' is found by the agent itself; agent.reserve_" + kind + " keeps some back");
    } else if (!valid_name(kind)) {
      complain(key.source().begin.line, "`" + kind + "' is not a name");
    } else if (const auto number = quantity(value, kind)) {
      report.inventory.total.others.set(kind, *number);
    }
    report.sources["total/" + kind] = file_ + ":" + std::to_string(key.source().begin.line);
  }

  void devices(const toml::node& node, std::uint32_t line) {
    const toml::array* list = node.as_array();
    if (list == nullptr || !std::all_of(list->begin(), list->end(), [](const toml::node& item) { return item.is_table(); }))
      return complain(line, "a device is declared as [[device]], with two brackets");
    for (const toml::node& item : *list) device(*item.as_table());
  }

  void device(const toml::table& table) {
    const std::uint32_t line = line_of(table);
    const std::size_t before = complaints.size();
    Device d;
    std::int64_t count = 0;
    std::optional<std::uint32_t> profiles_line;
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (name == "id") {
        d.id = DeviceId(text(node, "`id'").value_or(""));
      } else if (name == "kind") {
        d.kind = text(node, "`kind'").value_or("");
      } else if (name == "vendor") {
        d.vendor = text(node, "`vendor'").value_or("");
      } else if (name == "model") {
        d.model = text(node, "`model'").value_or("");
      } else if (name == "pci") {
        d.pci = text(node, "`pci'").value_or("");
      } else if (name == "mode") {
        mode(node, d.mode);
      } else if (name == "count" || name == "numa") {
        const std::int64_t most = name == "count" ? kCountMost : 65'535, least = name == "count" ? 1 : 0;
        const std::int64_t value = node.is_integer() ? **node.as_integer() : -1;
        if (value < least || value > most) {
          complain(line_of(node),
                   "`" + name + "' must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
        } else if (name == "count") {
          count = value;
        } else {
          d.numa = static_cast<std::int32_t>(value);
        }
      } else if (name == "counters") {
        d.counters = counters(node, "`counters'");
      } else if (name == "profiles") {
        profiles_line = line_of(node);
        if (!node.is_table()) complain(line_of(node), "`profiles' must be a table of tables of amounts");
        if (node.is_table())
          for (const auto& [profile, consumes] : *node.as_table())
            d.profiles[std::string(profile.str())] = counters(consumes, "profile `" + std::string(profile.str()) + "'");
      } else if (name == "attributes" || name == "env") {
        if (!node.is_table()) complain(line_of(node), "`" + name + "' must be a table of texts");
        if (node.is_table())
          for (const auto& [attribute, value] : *node.as_table())
            if (const auto words = text(value, "`" + std::string(attribute.str()) + "'"))
              d.attributes[(name == "env" ? "env." : "") + std::string(attribute.str())] = *words;
      } else if (name == "nodes") {
        d.nodes = texts(node, "`nodes'");
        for (const std::string& path : d.nodes)
          if (path.compare(0, 5, "/dev/") != 0 || path.find("/../") != std::string::npos)
            complain(line_of(node), "`" + path + "' is not a path below /dev");
      } else if (name == "links") {
        for (const std::string& link : texts(node, "`links'")) d.links.emplace_back(link);
      } else {
        complain(key.source().begin.line, "unknown key `" + name + "' of a device" + did_you_mean(name, kDeviceKeys));
      }
    }
    if (complaints.size() != before) return;  // what follows from a fault is none of its own
    if (!valid_name(with_index(d.id.str(), 0)))
      complain(line, "a device needs an `id' that is a name: letters, digits and ._/+@:-");
    if (!valid_name(d.kind)) complain(line, "a device needs a `kind', such as \"npu/acme\"");
    for (const auto& [profile, consumes] : d.profiles)
      if (!d.counters.contains(consumes))
        complain(*profiles_line, "profile `" + profile + "' takes more than the device has in `counters'");
    if (d.mode == Device::Mode::kTemplate && d.profiles.empty()) complain(line, "a device in mode template needs `profiles'");
    if (d.mode == Device::Mode::kCounters && d.counters.empty()) complain(line, "a device in mode counters needs `counters'");
    if (count == 0) return add(d, line);
    for (std::int64_t i = 0; i < count; ++i) {
      Device one = d;
      one.id = DeviceId(d.id.str().find("{}") == std::string::npos ? d.id.str() + std::to_string(i) : with_index(d.id.str(), i));
      for (std::string& path : one.nodes) path = with_index(path, i);
      for (auto& [name, value] : one.attributes) value = with_index(value, i);
      one.pci = with_index(one.pci, i);
      add(one, line);
    }
  }

  void mode(const toml::node& node, Device::Mode& out) {
    const auto words = text(node, "`mode'");
    if (!words) return;
    const auto it = std::find_if(kModes.begin(), kModes.end(), [&](const auto& m) { return m.first == *words; });
    if (it != kModes.end()) {
      out = it->second;
      return;
    }
    std::vector<std::string> known;
    for (const auto& [name, value] : kModes) known.push_back(name);
    complain(line_of(node),
             "`mode' is `" + *words + "', expected exclusive, counters, template or time-sliced" + did_you_mean(*words, known));
  }

  void add(const Device& d, std::uint32_t line) {
    const std::string where = file_ + ":" + std::to_string(line);
    const auto [it, fresh] = seen_.emplace(d.id.str(), where);
    if (!fresh && !hooks::mutant("declare.duplicates_allowed"))
      return complain(line, "device `" + d.id.str() + "' is declared already at " + it->second);
    if (report.inventory.devices.size() >= kDeclaredDevicesMax)
      return complain(line, "more than " + std::to_string(kDeclaredDevicesMax) + " devices are declared");
    report.sources["devices/" + d.id.str()] = where;
    report.inventory.devices.push_back(d);
  }

  std::string file_;
  std::map<std::string, std::string> seen_;
};

}  // namespace

Result<ProbeReport> parse_declarations(const std::vector<DeclarationText>& texts) {
  Reader reader;
  for (const DeclarationText& one : texts) reader.read(one);
  if (!reader.complaints.empty()) {
    std::string all;
    for (std::size_t i = 0; i < reader.complaints.size() && i < kComplaintsMax; ++i)
      all += (i == 0 ? "" : "\n") + reader.complaints[i];
    if (reader.complaints.size() > kComplaintsMax)
      all += "\nand " + std::to_string(reader.complaints.size() - kComplaintsMax) + " more";
    return Error(Code::kInvalid, all);
  }
  auto& devices = reader.report.inventory.devices;
  std::sort(devices.begin(), devices.end(), [](const Device& a, const Device& b) { return a.id < b.id; });
  return std::move(reader.report);
}

Result<ProbeReport> run_declared(const ProbeInput& input) {
  const std::string place = input.option("declare");
  std::vector<std::string> files;
  struct stat st;
  if (stat(place.c_str(), &st) != 0) return errno_error("agent.declare " + place);
  if (S_ISDIR(st.st_mode)) {
    DIR* directory = opendir(place.c_str());
    if (directory == nullptr) return errno_error("agent.declare " + place);
    while (const dirent* entry = readdir(directory)) {
      const std::string name = entry->d_name;
      if (name.front() != '.' && ends_with(name, ".toml")) files.push_back(place + "/" + name);
    }
    closedir(directory);
    std::sort(files.begin(), files.end());
    if (files.size() > kDeclarationFilesMax)
      return Error(Code::kLimit, place + " has more than " + std::to_string(kDeclarationFilesMax) + " declarations");
  } else {
    files.push_back(place);
  }
  std::vector<DeclarationText> texts;
  for (const std::string& file : files) texts.push_back({file, BOURSE_TRY(read_file(file, kConfigBytesMax))});
  ProbeReport report = BOURSE_TRY(parse_declarations(texts));
  for (Device& device : report.inventory.devices)
    for (const std::string& node : device.nodes)
      if (node.find('*') == std::string::npos && access(input.path(node).c_str(), F_OK) != 0) {
        device.healthy = false;
        device.attributes["unhealthy"] = node + " is not there";
      }
  return report;
}

}  // namespace bourse
