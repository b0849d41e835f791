// The text form of amounts and shapes.
#include <algorithm>
#include <array>
#include <charconv>

#include "common/core/resources.h"

namespace bourse {

namespace {

constexpr std::string_view kIs = "is.";  // in front of an attribute's name
constexpr std::array<std::pair<std::string_view, DeviceMode>, 3> kSharing = {
    std::pair{"exclusive", DeviceMode::kExclusive}, {"template", DeviceMode::kTemplate}, {"time-sliced", DeviceMode::kTimeSliced}};

// A site's kind or counter whose name is one of ours is written with a dot in front; no valid name starts with one.
constexpr std::array<std::string_view, 6> kAmountWords = {"cpus", "mem", "disk", "ports", "numa", "dev"};
constexpr std::array<std::string_view, 6> kDeviceWords = {"kind", "gen", "whole", "profile", "sharing", "can"};

template <class Words>
std::string escaped(const Words& words, const std::string& name) {
  const bool ours = std::find(words.begin(), words.end(), name) != words.end() || name.compare(0, kIs.size(), kIs) == 0;
  return ours ? "." + name : name;
}

void item(std::string& out, char separator, std::string_view key, std::string_view value) {
  if (!out.empty()) out += separator;
  out += key;
  if (!value.empty()) {
    out += '=';
    out += value;
  }
}

Error bad(std::string_view text, std::string_view why) {
  constexpr std::size_t kShown = 64;
  return Error(Code::kInvalid, "resources \"" + std::string(text.substr(0, kShown)) + "\": " + std::string(why));
}

Result<std::int64_t> whole_number(std::string_view text, std::string_view all) {
  std::int64_t v = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (failure != std::errc{} || end != text.data() + text.size() || v < 0) return bad(all, "a whole number is expected after '='");
  return v;
}

struct Pair {
  std::string_view key, value;
};

// Takes "key=value" up to `separator` outside braces off the front.
Pair take_pair(std::string_view& rest, char separator) {
  std::size_t end = 0;
  int depth = 0;
  for (; end < rest.size(); ++end) {
    if (rest[end] == '{') ++depth;
    if (rest[end] == '}') --depth;
    if (rest[end] == separator && depth <= 0) break;
  }
  const std::string_view whole = rest.substr(0, end);
  rest.remove_prefix(std::min(rest.size(), end + 1));
  const std::size_t equals = whole.find('=');
  if (equals == std::string_view::npos) return {whole, {}};
  return {whole.substr(0, equals), whole.substr(equals + 1)};
}

Result<> parse_counter(Counters& counters, Pair pair, std::string_view text) {
  std::string name(pair.key.substr(!pair.key.empty() && pair.key.front() == '.' ? 1 : 0));
  if (!valid_name(name)) return bad(text, "\"" + name + "\" is not the name of a kind");
  if (counters.get(name) != 0) return bad(text, "\"" + name + "\" is there twice");
  counters.set(name, BOURSE_TRY(whole_number(pair.value, text)));
  return {};
}

Result<NumaAmount> parse_numa(std::string_view value, std::string_view text) {
  NumaAmount n;
  const std::size_t colon = value.find(':');
  if (colon == std::string_view::npos) return bad(text, "a NUMA node is written numa=0:cpus=2,mem=4GiB");
  const std::int64_t node = BOURSE_TRY(whole_number(value.substr(0, colon), text));
  if (node > UINT32_MAX) return bad(text, "NUMA node number too large");
  n.node = static_cast<std::uint32_t>(node);
  std::string_view rest = value.substr(colon + 1);
  while (!rest.empty()) {
    const Pair pair = take_pair(rest, ',');
    if (pair.key == "cpus") {
      n.cpus = BOURSE_TRY(parse_cpus(pair.value));
    } else if (pair.key == "mem") {
      n.mem = BOURSE_TRY(parse_size(pair.value));
    } else {
      return bad(text, "a NUMA node has cpus and mem only");
    }
  }
  return n;
}

// "vir02{npu.compute=2,mem=2184}"
Result<> parse_profile(std::map<std::string, Counters>& profiles, std::string_view value, std::string_view text) {
  const std::size_t brace = value.find('{');
  std::string name(value.substr(0, brace));
  if (brace == std::string_view::npos || value.back() != '}' || !valid_name(name))
    return bad(text, "a profile is written can=NAME{mem=1}");
  Counters& counters = profiles[std::move(name)];
  std::string_view rest = value.substr(brace + 1, value.size() - brace - 2);
  while (!rest.empty()) BOURSE_TRY(parse_counter(counters, take_pair(rest, ','), text));
  return {};
}

Result<DeviceShare> parse_device(std::string_view value, std::string_view text) {
  DeviceShare d;
  const std::size_t brace = value.find('{');
  if (brace == std::string_view::npos || value.back() != '}') return bad(text, "a device is written dev=ID{kind=...,gen=1,whole}");
  d.device = DeviceId(std::string(value.substr(0, brace)));
  if (!valid_name(d.device.value)) return bad(text, "a device's id is a name");
  std::string_view rest = value.substr(brace + 1, value.size() - brace - 2);
  while (!rest.empty()) {
    const Pair pair = take_pair(rest, ',');
    if (pair.key == "kind") {
      d.kind = std::string(pair.value);
    } else if (pair.key == "gen") {
      d.generation = Generation(static_cast<std::uint64_t>(BOURSE_TRY(whole_number(pair.value, text))));
    } else if (pair.key == "whole") {
      d.whole = true;
    } else if (pair.key == "profile") {
      d.profile = std::string(pair.value);
    } else if (pair.key == "sharing") {
      const auto it = std::find_if(kSharing.begin(), kSharing.end(), [&](const auto& s) { return s.first == pair.value; });
      if (it == kSharing.end()) return bad(text, "sharing is exclusive, template or time-sliced");
      d.traits.sharing = it->second;
    } else if (pair.key == "can") {
      BOURSE_TRY(parse_profile(d.traits.profiles, pair.value, text));
    } else if (pair.key.substr(0, kIs.size()) == kIs) {
      d.traits.attributes[std::string(pair.key.substr(kIs.size()))] = std::string(pair.value);
    } else {
      BOURSE_TRY(parse_counter(d.counters, pair, text));
    }
  }
  if (!valid_name(d.kind)) return bad(text, "a device's kind is a name");
  if (!d.profile.empty() && !valid_name(d.profile)) return bad(text, "a device's profile is a name");
  return d;
}

}  // namespace

std::string to_text(const Resources& r) {
  std::string out;
  if (r.cpus.value != 0) item(out, ';', "cpus", format_cpus(r.cpus));
  if (r.mem.value != 0) item(out, ';', "mem", format_size(r.mem));
  if (r.disk.value != 0) item(out, ';', "disk", format_size(r.disk));
  if (!r.ports.empty()) item(out, ';', "ports", r.ports.text());
  for (const auto& [name, amount] : r.others.items()) item(out, ';', escaped(kAmountWords, name), std::to_string(amount));
  for (const NumaAmount& n : r.numa) {
    std::string parts;
    if (n.cpus.value != 0) item(parts, ',', "cpus", format_cpus(n.cpus));
    if (n.mem.value != 0) item(parts, ',', "mem", format_size(n.mem));
    item(out, ';', "numa", std::to_string(n.node) + ":" + parts);
  }
  for (const DeviceShare& d : r.devices) {
    std::string parts;
    item(parts, ',', "kind", d.kind);
    if (d.generation.value != 0) item(parts, ',', "gen", std::to_string(d.generation.value));
    if (d.whole) item(parts, ',', "whole", "");
    if (!d.profile.empty()) item(parts, ',', "profile", d.profile);
    for (const auto& [name, amount] : d.counters.items()) item(parts, ',', escaped(kDeviceWords, name), std::to_string(amount));
    for (const auto& [word, sharing] : kSharing)
      if (d.traits.sharing == sharing) item(parts, ',', "sharing", word);
    for (const auto& [name, consumes] : d.traits.profiles) {
      std::string amounts;
      for (const auto& [counter, amount] : consumes.items())
        item(amounts, ',', escaped(kDeviceWords, counter), std::to_string(amount));
      item(parts, ',', "can", name + "{" + amounts + "}");
    }
    for (const auto& [name, value] : d.traits.attributes) item(parts, ',', std::string(kIs) + name, value);
    item(out, ';', "dev", d.device.value + "{" + parts + "}");
  }
  return out;
}

Result<Resources> parse_resources(std::string_view text) {
  Resources r;
  std::string_view rest = text;
  while (!rest.empty()) {
    const Pair pair = take_pair(rest, ';');
    if (pair.value.empty()) return bad(text, "write KIND=AMOUNT;..., as in cpus=2;mem=4GiB");
    if (pair.key == "cpus") {
      r.cpus = BOURSE_TRY(parse_cpus(pair.value));
    } else if (pair.key == "mem") {
      r.mem = BOURSE_TRY(parse_size(pair.value));
    } else if (pair.key == "disk") {
      r.disk = BOURSE_TRY(parse_size(pair.value));
    } else if (pair.key == "ports") {
      r.ports = BOURSE_TRY(Ports::parse(pair.value));
    } else if (pair.key == "numa") {
      r.numa.push_back(BOURSE_TRY(parse_numa(pair.value, text)));
    } else if (pair.key == "dev") {
      r.devices.push_back(BOURSE_TRY(parse_device(pair.value, text)));
    } else {
      BOURSE_TRY(parse_counter(r.others, pair, text));
    }
  }
  std::sort(r.numa.begin(), r.numa.end(), [](const NumaAmount& a, const NumaAmount& b) { return a.node < b.node; });
  std::sort(r.devices.begin(), r.devices.end(), [](const DeviceShare& a, const DeviceShare& b) { return a.device < b.device; });
  if (auto sound = r.check(); !sound) return bad(text, sound.error().text());
  return r;
}

std::string to_text(const Shape& s) {
  std::string out;
  if (s.cpus.value != 0) item(out, ';', "cpus", format_cpus(s.cpus));
  if (s.mem.value != 0) item(out, ';', "mem", format_size(s.mem));
  if (s.disk.value != 0) item(out, ';', "disk", format_size(s.disk));
  if (s.ports != 0) item(out, ';', "ports", std::to_string(s.ports));
  if (s.whole_host) item(out, ';', "whole_host", "");
  if (s.same_numa) item(out, ';', "same_numa", "");
  for (const auto& [name, amount] : s.others.items()) item(out, ';', escaped(kAmountWords, name), std::to_string(amount));
  for (const DeviceAsk& d : s.devices) {
    std::string parts;
    if (d.whole) item(parts, ',', "whole", "");
    if (!d.profile.empty()) item(parts, ',', "profile", d.profile);
    for (const auto& [name, amount] : d.counters.items()) item(parts, ',', escaped(kDeviceWords, name), std::to_string(amount));
    if (!d.attributes.empty()) item(parts, ',', "if", to_text(d.attributes));
    item(out, ';', "dev", std::to_string(d.count) + "*" + d.kind + "{" + parts + "}");
  }
  if (!s.constraints.empty()) item(out, ';', "if", to_text(s.constraints));
  if (s.revocable) item(out, ';', "revocable", "");
  if (!s.group.empty()) item(out, ';', "group", s.group);
  if (!s.placement.empty()) item(out, ';', "place", to_text(s.placement));
  return out;
}

}  // namespace bourse
