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

#include "common/core/expression.h"
#include "common/core/result.h"

namespace bourse {

using Labels = std::map<std::string, std::string>;

// One requirement. A demand's constraints are a conjunction of these; total, with cost bounded as expression.h says. What is about
// one label only has a form of its own, which is as old as the protocol; everything else is an expression.
struct Constraint {
  enum class Op : std::uint8_t {
    kIn,       // the label's value is one of `values`
    kNotIn,    // it is none of them; an absent label satisfies this
    kPresent,  // the label exists
    kAbsent,
    kMatches,  // the expression values[0], in normal form with hosts listed, holds; `label` is kAnyLabel. See make_constraint()
  };
  static constexpr std::string_view kAnyLabel = "*";
  std::string label;
  Op op = Op::kIn;
  std::vector<std::string> values;    // sorted
  std::vector<Term> expression = {};  // kMatches: what values[0] says, ready for use
  bool operator==(const Constraint&) const = default;
};

// From its parts as they come from elsewhere: sorts the values, and checks and reads an expression (kInvalid, kLimit).
Result<Constraint> make_constraint(std::string label, Constraint::Op op, std::vector<std::string> values);

// Of labels alone: nothing else is known, so numbers are 0.
[[nodiscard]] bool satisfies(const Labels& labels, const Constraint& constraint);
[[nodiscard]] bool satisfies(const Labels& labels, const std::vector<Constraint>& constraints);
[[nodiscard]] bool satisfies(const Subject& subject, const Constraint& constraint);
[[nodiscard]] bool satisfies(const Subject& subject, const std::vector<Constraint>& constraints);

// The constraint language, bourse-constraint(7): "zone in (a,b)", "host notin (h[1-4])", "gpu", "!gpu", "arch=x86_64", "cuda>=11.8",
// "agent.mem >= 64GiB", "a&(b|c)". Slurm's -C "a&b" and "a|b" mean what they mean there. What '&' joins becomes one constraint each.
Result<std::vector<Constraint>> parse_constraints(std::string_view text);
std::string to_text(const std::vector<Constraint>& constraints);  // parse_constraints reads it back
std::string to_text(const Constraint& constraint);

}  // namespace bourse
