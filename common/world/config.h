// The one configuration file, bourse.conf(5): TOML, read whole, refused whole, every complaint with file:line.
//
// Each program declares the keys it knows with type, default and range; an unknown section or key of its own section is an
// error that names the nearest known one. Values may be overridden by "section.key=value" (bourse up --set, environment).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"
#include "common/core/units.h"

namespace bourse {

enum class ConfigType { kText, kInteger, kFlag, kSize, kDuration, kList, kTable };  // kList: of text; kTable: of text

struct ConfigKey {
  std::string_view section, key;
  ConfigType type;
  std::string_view default_text;          // as one would write it, without quotes
  std::string_view help;                  // one sentence; bourse.conf(5) is checked against it
  std::int64_t min = 0, max = INT64_MAX;  // kInteger as is, kSize in bytes, kDuration in microseconds (max: "unlimited" too)
  std::string_view choices = {};          // kText: "a|b|c"; empty: anything
};

// Every complaint about a file is in the one error's text, a line each (the first kComplaintsMax).
constexpr std::size_t kComplaintsMax = 50;
constexpr std::size_t kConfigBytesMax = 1024 * 1024;

// Every key of every program: common/world/config_keys.cc, one table. Man page and validation come from it.
const std::vector<ConfigKey>& config_keys();

class Config {
 public:
  static Result<Config> read(const std::string& path, const std::vector<std::string>& overrides);  // path empty: defaults
  static Result<Config> parse(std::string_view toml, const std::string& file_name, const std::vector<std::string>& overrides);

  // The key must be in config_keys() with that type: anything else is a bug, not an error.
  [[nodiscard]] std::string text(std::string_view section, std::string_view key) const;
  [[nodiscard]] std::int64_t integer(std::string_view section, std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view section, std::string_view key) const;
  [[nodiscard]] Bytes size(std::string_view section, std::string_view key) const;
  [[nodiscard]] Duration duration(std::string_view section, std::string_view key) const;
  [[nodiscard]] std::vector<std::string> list(std::string_view section, std::string_view key) const;
  [[nodiscard]] std::map<std::string, std::string> table(std::string_view section, std::string_view key) const;
  // "FILE:LINE: " of a key that the file states, "" of one that it does not: for complaints about what a value means.
  [[nodiscard]] std::string place(std::string_view section, std::string_view key) const;
  [[nodiscard]] std::string dump() const;  // effective values as TOML, sorted

 private:
  std::map<std::string, std::string> places_;   // "section.key" -> "FILE:LINE: "
  std::map<std::string, std::string> scalars_;  // "section.key" -> normalised text
  std::map<std::string, std::vector<std::string>> lists_;
  std::map<std::string, std::map<std::string, std::string>> tables_;
};

// Where things are. BOURSE_DIR names a cluster's directory (bourse up): DIR/bourse.conf, DIR/keys, DIR/run, DIR/state, DIR/log.
// Without it: /etc/bourse/bourse.conf, /etc/bourse/keys, /run/bourse, /var/lib/bourse, /var/log/bourse; but where there is no
// /etc/bourse/bourse.conf and there is a ~/.bourse/bourse.conf (a plain `bourse up`), DIR is ~/.bourse.
struct Places {
  std::string config, keys, run, state, log;
  static Places find();
};

// "nearest known" for complaints: smallest edit distance, at most a third of the word; "" where nothing is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace bourse
