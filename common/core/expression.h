// The constraint language, bourse-constraint(7): which agents (or devices) will do, as an expression over their labels (or
// attributes) and what they have in total.
//
//   gpu & zone in (a,b) & !(rack = r2 | rack = r3)        agent.mem >= 64GiB        cuda >= 11.8        host ~ "n1*"
//
// Total: every expression is true or false of every subject. What a subject lacks satisfies only `!=`, `notin`, `!~` and `!NAME`.
// Bounded: a text has at most kExpressionBytesMax bytes, kTermsMax comparisons and kNestingMax parentheses inside each other; an
// evaluation looks at each comparison at most once, and one costs at most (bytes of the value) x (bytes of the pattern).
// The text form is normal: to_text() of what was parsed parses to the same, and equal expressions have equal text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace bourse {

constexpr std::size_t kExpressionBytesMax = 64 * 1024;
constexpr std::size_t kTermsMax = 256;
constexpr std::size_t kNestingMax = 32;
constexpr std::size_t kWordBytesMax = 255;  // of a label's name, a value, a pattern

// A comparison, or what joins some.
struct Term {
  enum class Op : std::uint8_t {
    kIn,       // is one of `values`
    kNotIn,    // is none of them, or absent
    kPresent,  // a number is present when it is not 0
    kAbsent,
    kLess,  // texts by version_order()
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kLike,  // a pattern of the whole text: '*' is any run, '?' any one byte
    kNotLike,
    kAnd,  // of `parts`, two or more
    kOr,
    kNot,  // of one
  };
  enum class Of : std::uint8_t { kText, kCpus, kMem, kDisk, kPorts, kNuma, kCount, kCounter };

  Op op = Op::kPresent;
  Of of = Of::kText;
  std::string name = {};                   // of the label or attribute, kind or counter
  std::vector<std::string> values = {};    // sorted, for kText
  std::vector<std::int64_t> numbers = {};  // sorted, for the others; cpus in 1/1000, mem and disk in bytes
  std::vector<Term> parts = {};
  bool operator==(const Term&) const = default;
};

// What an expression is about.
class Subject {
 public:
  virtual ~Subject() = default;
  [[nodiscard]] virtual const std::string* text(const std::string& name) const = 0;  // null: it has none of that name
  [[nodiscard]] virtual std::int64_t number(Term::Of of, const std::string& name) const = 0;
};

Result<Term> parse_expression(std::string_view text);
// `steps`, where given, grows by the comparisons and pattern bytes that were looked at.
[[nodiscard]] bool holds(const Term& term, const Subject& subject, std::uint64_t* steps = nullptr);
// kListed writes hosts one by one, so that reading it needs no more memory than the text; kShort writes h[1-4].
enum class Hosts : std::uint8_t { kShort, kListed };
std::string to_text(const Term& term, Hosts hosts = Hosts::kShort);

// "9" < "10", "5.4" < "5.10", "1.0~rc1" < "1.0" < "1.0a": the order of Debian's version numbers, which is that of numbers for whole
// ones. Below 0: a before b.
[[nodiscard]] int version_order(std::string_view a, std::string_view b);
// The pattern's bytes against the whole text; time at most the product of their lengths.
[[nodiscard]] bool like(std::string_view text, std::string_view pattern, std::uint64_t* steps = nullptr);

// For who writes expressions: "zone", or quoted where it is no plain word.
std::string quoted_word(std::string_view word);

}  // namespace bourse
