// Open key/value pairs on agents, and the constraints that demands put on them.
//
// `region`, `zone` and `rack` are known levels of topology; the rest is free. Every agent also carries the label `host`
// (its id) and `arch` (as uname -m says), set by the agent itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace bourse {

using Labels = std::map<std::string, std::string>;

// One requirement on one label. A demand's constraints are a conjunction of these; total, with cost linear in their number.
struct Constraint {
  enum class Op : std::uint8_t {
    kIn,       // the label's value is one of `values`
    kNotIn,    // it is none of them; an absent label satisfies this
    kPresent,  // the label exists
    kAbsent,
  };
  std::string label;
  Op op = Op::kIn;
  std::vector<std::string> values;  // sorted
  bool operator==(const Constraint&) const = default;
};

[[nodiscard]] bool satisfies(const Labels& labels, const Constraint& constraint);
[[nodiscard]] bool satisfies(const Labels& labels, const std::vector<Constraint>& constraints);

// "zone in (a,b)", "host notin (h[1-4])", "gpu", "!gpu", "arch=x86_64", "rack!=r2"; joined by '&'. Values of `host` are
// host lists. Slurm's -C "a&b" is therefore a conjunction of present labels.
Result<std::vector<Constraint>> parse_constraints(std::string_view text);
std::string to_text(const std::vector<Constraint>& constraints);  // parse_constraints reads it back

}  // namespace bourse
