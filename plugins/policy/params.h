// "name[:key=value,...]": how a policy and its parameters are written in bourse.conf, on command lines and in reports; and
// the reader with which a policy takes its own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bourse/plugin.h"
#include "common/core/result.h"
#include "common/core/time.h"

namespace bourse::policy {

struct Spec {
  std::string name;  // of a built-in policy, or the path of a plugin: it has a '/' in it
  std::map<std::string, std::string> params;
  [[nodiscard]] bool is_path() const { return name.find('/') != std::string::npos; }
  [[nodiscard]] std::string text() const;  // parameters sorted: equal specs have equal texts
  bool operator==(const Spec&) const = default;
};
// kInvalid: an empty name, a key without value or twice, more than BOURSE_PARAMS_MAX.
Result<Spec> parse(std::string_view text);

// Takes the values that a policy knows; what is left at the end is an error. The first complaint is kept.
class Params {
 public:
  Params(const bourse_param* params, std::uint32_t count);
  std::int64_t integer(std::string_view key, std::int64_t otherwise, std::int64_t min, std::int64_t max);
  // "0.25" in thousandths: a weight, a share. At most three digits after the point.
  std::int64_t milli(std::string_view key, std::int64_t otherwise, std::int64_t min, std::int64_t max);
  Duration duration(std::string_view key, Duration otherwise);  // "20h"; "0" or "off" is 0
  bool flag(std::string_view key, bool otherwise);
  std::string choice(std::string_view key, std::string_view otherwise, const std::vector<std::string_view>& choices);
  std::string text(std::string_view key, std::string_view otherwise);
  void refuse(std::string_view key, const std::string& value, const std::string& why);  // a complaint of the policy's own
  // After all were taken. "" is fine.
  [[nodiscard]] std::string complaint() const;

 private:
  const std::string* take(std::string_view key);
  void complain(std::string_view key, const std::string& why);

  std::map<std::string, std::string, std::less<>> left_;
  std::string taken_, complaint_;
  std::vector<std::string> known_;
};

}  // namespace bourse::policy
