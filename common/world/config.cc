#include "common/world/config.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <set>

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_IMPLEMENTATION  // here and nowhere else
#include <toml++/toml.h>

#include "common/world/files.h"

namespace bourse {
namespace {

std::string id_of(std::string_view section, std::string_view key) {
  std::string id(section);
  id += '.';
  return id += key;
}

const ConfigKey* find_key(std::string_view section, std::string_view key) {
  for (const ConfigKey& k : config_keys())
    if (k.section == section && k.key == key) return &k;
  return nullptr;
}

std::vector<std::string> sections() {
  std::vector<std::string> names;
  for (const ConfigKey& k : config_keys())
    if (names.empty() || names.back() != k.section) names.emplace_back(k.section);
  return names;
}

std::vector<std::string> keys_of(std::string_view section) {
  std::vector<std::string> names;
  for (const ConfigKey& k : config_keys())
    if (k.section == section) names.emplace_back(k.key);
  return names;
}

std::string suggest(std::string_view word, const std::vector<std::string>& known, std::string_view before, std::string_view after) {
  const std::string near = nearest_word(word, known);
  if (near.empty()) return "";
  return "; did you mean " + std::string(before) + near + std::string(after) + "?";
}

std::string_view type_text(ConfigType type) {
  switch (type) {
    case ConfigType::kText:
      return "a text in quotes";
    case ConfigType::kInteger:
      return "a whole number";
    case ConfigType::kFlag:
      return "true or false";
    case ConfigType::kSize:
      return "a size such as \"4GiB\"";
    case ConfigType::kDuration:
      return "a duration such as \"90s\" or \"1h30m\"";
    case ConfigType::kList:
      return "a list of texts";
    case ConfigType::kTable:
      return "a table of texts";
  }
  return "";
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto comma = text.find(',');
    if (comma != 0) parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return parts;
}

std::string in_words(const ConfigKey& key, std::int64_t value) {
  if (key.type == ConfigType::kSize) return format_size(Bytes{value});
  if (key.type == ConfigType::kDuration) return format_duration(Duration{value});
  return std::to_string(value);
}

// A scalar's normal form (sizes in bytes, durations in microseconds), or the complaint about it.
Result<std::string> normalise(const ConfigKey& key, const std::string& text) {
  const auto bad = [&](const std::string& why) { return Error(Code::kInvalid, "`" + std::string(key.key) + "' " + why); };
  std::int64_t value = 0;
  switch (key.type) {
    case ConfigType::kText: {
      if (text.find('\0') != std::string::npos) return bad("has a NUL in it");
      if (key.choices.empty()) return text;
      std::vector<std::string> choices;
      for (std::string_view rest = key.choices;;) {
        const auto bar = rest.find('|');
        choices.emplace_back(rest.substr(0, bar));
        if (bar == std::string_view::npos) break;
        rest.remove_prefix(bar + 1);
      }
      if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
      std::string all;
      for (const auto& choice : choices) all += (all.empty() ? "" : choice == choices.back() ? " or " : ", ") + choice;
      return bad("is `" + text + "', expected " + all + suggest(text, choices, "`", "'"));
    }
    case ConfigType::kFlag:
      if (text == "true" || text == "false") return text;
      return bad("is `" + text + "', expected true or false");
    case ConfigType::kInteger: {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size()) return bad("is `" + text + "', expected a whole number");
      break;
    }
    case ConfigType::kSize: {
      const auto size = parse_size(text);
      if (!size) return bad("is `" + text + "', expected a size such as \"4GiB\" (" + size.error().text() + ")");
      value = size->value;
      break;
    }
    case ConfigType::kDuration: {
      const auto duration = parse_duration(text, seconds(1), key.max == INT64_MAX);
      if (!duration)
        return bad("is `" + text + "', expected a duration such as \"90s\" or \"1h30m\" (" + duration.error().text() + ")");
      value = duration->count();
      break;
    }
    case ConfigType::kList:
    case ConfigType::kTable:
      BOURSE_ASSERT(false, "normalise of a list");
  }
  if (value < key.min) return bad("is " + in_words(key, value) + ", the least is " + in_words(key, key.min));
  if (value > key.max) return bad("is " + in_words(key, value) + ", the most is " + in_words(key, key.max));
  return std::to_string(value);
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\u%04x", static_cast<unsigned>(c));
      out += hex;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// Collects values and complaints of one file and its overrides.
struct Reader {
  std::map<std::string, std::string> scalars, places;
  std::map<std::string, std::vector<std::string>> lists;
  std::map<std::string, std::map<std::string, std::string>> tables;
  std::vector<std::pair<std::uint32_t, std::string>> complaints;  // line, text; 0: no line
  std::string file;

  void complain(std::uint32_t line, const std::string& text) { complaints.emplace_back(line, text); }

  void defaults() {
    for (const ConfigKey& key : config_keys()) {
      const std::string id = id_of(key.section, key.key);
      if (key.type == ConfigType::kList) {
        lists[id] = split(key.default_text);
      } else if (key.type == ConfigType::kTable) {
        tables[id] = {};
      } else {
        const auto value = normalise(key, std::string(key.default_text));
        BOURSE_ASSERT(bool(value), "default of " + id + ": " + value.error().text());
        scalars[id] = *value;
      }
    }
  }

  void scalar(std::uint32_t line, const ConfigKey& key, const std::string& text) {
    auto value = normalise(key, text);
    if (!value) return complain(line, value.error().text() + ", in [" + std::string(key.section) + "]");
    scalars[id_of(key.section, key.key)] = *value;
  }

  void wrong_type(std::uint32_t line, const ConfigKey& key) {
    complain(line,
             "`" + std::string(key.key) + "' in [" + std::string(key.section) + "] must be " + std::string(type_text(key.type)));
  }

  void value(const ConfigKey& key, const toml::node& node) {
    const std::uint32_t line = node.source().begin.line;
    places[id_of(key.section, key.key)] = file + ":" + std::to_string(line) + ": ";
    switch (key.type) {
      case ConfigType::kText:
        if (!node.is_string()) return wrong_type(line, key);
        return scalar(line, key, **node.as_string());
      case ConfigType::kFlag:
        if (!node.is_boolean()) return wrong_type(line, key);
        return scalar(line, key, **node.as_boolean() ? "true" : "false");
      case ConfigType::kInteger:
        if (!node.is_integer()) return wrong_type(line, key);
        return scalar(line, key, std::to_string(**node.as_integer()));
      case ConfigType::kSize:
      case ConfigType::kDuration:
        if (node.is_integer()) return scalar(line, key, std::to_string(**node.as_integer()));
        if (!node.is_string()) return wrong_type(line, key);
        return scalar(line, key, **node.as_string());
      case ConfigType::kList: {
        std::vector<std::string> items;
        if (node.is_string()) {
          items.push_back(**node.as_string());
        } else if (const toml::array* array = node.as_array()) {
          for (const toml::node& item : *array) {
            if (!item.is_string()) return wrong_type(item.source().begin.line, key);
            items.push_back(**item.as_string());
          }
        } else {
          return wrong_type(line, key);
        }
        lists[id_of(key.section, key.key)] = std::move(items);
        return;
      }
      case ConfigType::kTable: {
        const toml::table* table = node.as_table();
        if (table == nullptr) return wrong_type(line, key);
        std::map<std::string, std::string> items;
        for (const auto& [name, item] : *table) {
          if (!item.is_string()) return wrong_type(item.source().begin.line, key);
          items[std::string(name.str())] = **item.as_string();
        }
        tables[id_of(key.section, key.key)] = std::move(items);
        return;
      }
    }
  }

  void section(const std::string& name, const toml::table& table) {
    const auto known = sections();
    if (std::find(known.begin(), known.end(), name) == known.end())
      return complain(table.source().begin.line, "unknown section [" + name + "]" + suggest(name, known, "[", "]"));
    for (const auto& [key_name, node] : table) {
      const std::string key(key_name.str());
      if (const ConfigKey* found = find_key(name, key)) {
        value(*found, node);
        continue;
      }
      complain(key_name.source().begin.line, "unknown key `" + key + "' in [" + name + "]" + suggest(key, keys_of(name), "`", "'"));
    }
  }

  void override_with(const std::string& text) {
    const auto equals = text.find('=');
    const auto dot = text.find('.');
    const std::string what = "setting `" + text + "': ";
    if (equals == std::string::npos || dot == std::string::npos || dot > equals)
      return complain(0, what + "expected section.key=value");
    const std::string section_name = text.substr(0, dot), key_name = text.substr(dot + 1, equals - dot - 1);
    const std::string content = text.substr(equals + 1);
    const auto known = sections();
    if (std::find(known.begin(), known.end(), section_name) == known.end())
      return complain(0, what + "unknown section [" + section_name + "]" + suggest(section_name, known, "[", "]"));
    const ConfigKey* key = find_key(section_name, key_name);
    if (key == nullptr)
      return complain(0, what + "unknown key `" + key_name + "' in [" + section_name + "]" +
                             suggest(key_name, keys_of(section_name), "`", "'"));
    const std::string id = id_of(section_name, key_name);
    places.erase(id);
    if (key->type == ConfigType::kList) {
      lists[id] = split(content);
    } else if (key->type == ConfigType::kTable) {
      std::map<std::string, std::string> items;
      for (const std::string& item : split(content)) {
        const auto mark = item.find('=');
        if (mark == std::string::npos || mark == 0) return complain(0, what + "expected name=value,name=value");
        items[item.substr(0, mark)] = item.substr(mark + 1);
      }
      tables[id] = std::move(items);
    } else {
      scalar(0, *key, content);
    }
  }

  [[nodiscard]] Error error() const {
    auto sorted = complaints;
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::string text;
    for (std::size_t i = 0; i < sorted.size() && i < kComplaintsMax; ++i) {
      if (!text.empty()) text += '\n';
      if (sorted[i].first != 0) text += file + ":" + std::to_string(sorted[i].first) + ": ";
      text += sorted[i].second;
    }
    if (sorted.size() > kComplaintsMax) text += "\nand " + std::to_string(sorted.size() - kComplaintsMax) + " more";
    return {Code::kInvalid, text};
  }
};

}  // namespace

Result<Config> Config::parse(std::string_view toml_text, const std::string& file_name, const std::vector<std::string>& overrides) {
  if (toml_text.size() > kConfigBytesMax)
    return Error(Code::kLimit, file_name + " has more than " + std::to_string(kConfigBytesMax) + " bytes");
  Reader reader;
  reader.file = file_name;
  reader.defaults();
  const toml::parse_result parsed = toml::parse(toml_text, file_name);
  if (!parsed) {
    reader.complain(parsed.error().source().begin.line, std::string(parsed.error().description()));
  } else {
    for (const auto& [name, node] : parsed.table()) {
      const std::string text(name.str());
      if (const toml::table* table = node.as_table())
        reader.section(text, *table);
      else
        reader.complain(name.source().begin.line,
                        "key `" + text + "' stands outside of a section" + suggest(text, sections(), "the section [", "]"));
    }
  }
  for (const std::string& text : overrides) reader.override_with(text);
  if (!reader.complaints.empty()) return reader.error();
  Config config;
  config.scalars_ = std::move(reader.scalars);
  config.places_ = std::move(reader.places);
  config.lists_ = std::move(reader.lists);
  config.tables_ = std::move(reader.tables);
  return config;
}

Result<Config> Config::read(const std::string& path, const std::vector<std::string>& overrides) {
  if (path.empty()) return parse("", "", overrides);
  const std::string content = BOURSE_TRY(read_file(path, kConfigBytesMax));
  return parse(content, path, overrides);
}

namespace {
template <class Map>
const auto& must_have(const Map& map, std::string_view section, std::string_view key, std::initializer_list<ConfigType> types) {
  const ConfigKey* known = find_key(section, key);
  BOURSE_ASSERT(known != nullptr && std::find(types.begin(), types.end(), known->type) != types.end(), id_of(section, key));
  return map.at(id_of(section, key));
}
std::int64_t number(const std::string& text) { return std::strtoll(text.c_str(), nullptr, 10); }
}  // namespace

std::string Config::text(std::string_view section, std::string_view key) const {
  return must_have(scalars_, section, key, {ConfigType::kText});
}
std::int64_t Config::integer(std::string_view section, std::string_view key) const {
  return number(must_have(scalars_, section, key, {ConfigType::kInteger}));
}
bool Config::flag(std::string_view section, std::string_view key) const {
  return must_have(scalars_, section, key, {ConfigType::kFlag}) == "true";
}
Bytes Config::size(std::string_view section, std::string_view key) const {
  return Bytes{number(must_have(scalars_, section, key, {ConfigType::kSize}))};
}
Duration Config::duration(std::string_view section, std::string_view key) const {
  return Duration{number(must_have(scalars_, section, key, {ConfigType::kDuration}))};
}
std::vector<std::string> Config::list(std::string_view section, std::string_view key) const {
  return must_have(lists_, section, key, {ConfigType::kList});
}
std::map<std::string, std::string> Config::table(std::string_view section, std::string_view key) const {
  return must_have(tables_, section, key, {ConfigType::kTable});
}

std::string Config::place(std::string_view section, std::string_view key) const {
  const auto found = places_.find(id_of(section, key));
  return found == places_.end() ? "" : found->second;
}

std::string Config::dump() const {
  std::string out;
  std::vector<std::string> names = sections();
  std::sort(names.begin(), names.end());
  for (const std::string& section : names) {
    out += (out.empty() ? "[" : "\n[") + section + "]\n";
    std::vector<std::string> keys = keys_of(section);
    std::sort(keys.begin(), keys.end());
    for (const std::string& name : keys) {
      const ConfigKey& key = *find_key(section, name);
      const std::string id = id_of(section, name);
      out += name + " = ";
      if (key.type == ConfigType::kList) {
        out += '[';
        for (const auto& item : lists_.at(id)) out += (out.back() == '[' ? "" : ", ") + in_quotes(item);
        out += ']';
      } else if (key.type == ConfigType::kTable) {
        out += '{';
        for (const auto& [label, item] : tables_.at(id))
          out += (out.back() == '{' ? " " : ", ") + in_quotes(label) + " = " + in_quotes(item);
        out += out.back() == '{' ? "}" : " }";
      } else {
        const std::string& text = scalars_.at(id);
        if (key.type == ConfigType::kText) out += in_quotes(text);
        if (key.type == ConfigType::kInteger || key.type == ConfigType::kFlag) out += text;
        if (key.type == ConfigType::kSize) out += in_quotes(format_size(Bytes{number(text)}));
        if (key.type == ConfigType::kDuration) {
          const Duration value{number(text)};
          out += in_quotes(value == kNoLimit ? "unlimited" : format_duration(value));
        }
      }
      out += '\n';
    }
  }
  return out;
}

}  // namespace bourse
