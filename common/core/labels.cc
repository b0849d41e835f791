#include "common/core/labels.h"

#include <algorithm>

#include "common/core/hostlist.h"

namespace bourse {

namespace {

constexpr std::size_t kConstraintsMax = 256;
constexpr std::size_t kLabelBytesMax = 255;

bool word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '/' ||
         c == '+' || c == '@' || c == ':' || c == '-';
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

Error bad(std::string_view text, std::string_view why) {
  constexpr std::size_t kShown = 64;
  return Error(Code::kInvalid, "constraint \"" + std::string(text.substr(0, kShown)) + "\": " + std::string(why));
}

bool word(std::string_view s) {
  return !s.empty() && s.size() <= kLabelBytesMax && std::all_of(s.begin(), s.end(), word_character);
}

Result<std::vector<std::string>> parse_values(std::string_view term, const std::string& label, std::string_view list) {
  std::vector<std::string> values;
  if (label == "host") {
    values = BOURSE_TRY(expand_hosts(list));
  } else {
    while (true) {
      const std::size_t comma = list.find(',');
      const std::string_view one = trim(list.substr(0, comma));
      if (!word(one)) return bad(term, "values are words, as in zone in (a,b)");
      if (values.size() == kHostsMax) return Error(Code::kLimit, "constraint has too many values");
      values.emplace_back(one);
      if (comma == std::string_view::npos) break;
      list.remove_prefix(comma + 1);
    }
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

Result<Constraint> parse_term(std::string_view term) {
  if (term.empty()) return bad(term, "a term is missing beside '&'");
  if (term.find('|') != std::string_view::npos) return bad(term, "alternatives with '|' are not known; use LABEL in (a,b)");
  Constraint c;
  std::string_view rest = term;
  const bool negated = rest.front() == '!';
  if (negated) rest = trim(rest.substr(1));
  std::size_t end = 0;
  while (end < rest.size() && word_character(rest[end])) ++end;
  if (!word(rest.substr(0, end))) return bad(term, "it must start with the name of a label");
  c.label = std::string(rest.substr(0, end));
  const bool spaced = end < rest.size() && (rest[end] == ' ' || rest[end] == '\t');
  rest = trim(rest.substr(end));
  if (rest.empty()) {
    c.op = negated ? Constraint::Op::kAbsent : Constraint::Op::kPresent;
    return c;
  }
  if (negated) return bad(term, "'!' stands before a bare label; write LABEL!=VALUE or LABEL notin (a,b)");

  std::string_view list;
  const auto parenthesised = [&](std::string_view after) {
    after = trim(after);
    if (after.size() < 2 || after.front() != '(' || after.back() != ')') return false;
    list = trim(after.substr(1, after.size() - 2));
    return true;
  };
  if (rest.substr(0, 2) == "!=") {
    c.op = Constraint::Op::kNotIn;
    list = trim(rest.substr(2));
  } else if (rest.front() == '=') {
    c.op = Constraint::Op::kIn;
    list = trim(rest.substr(rest.substr(0, 2) == "==" ? 2 : 1));
  } else if (spaced && rest.substr(0, 5) == "notin" && parenthesised(rest.substr(5))) {
    c.op = Constraint::Op::kNotIn;
  } else if (spaced && rest.substr(0, 2) == "in" && parenthesised(rest.substr(2))) {
    c.op = Constraint::Op::kIn;
  } else {
    return bad(term, "write LABEL, !LABEL, LABEL=VALUE, LABEL!=VALUE, LABEL in (a,b) or LABEL notin (a,b)");
  }
  if (list.empty()) return bad(term, "a value is missing");
  c.values = BOURSE_TRY(parse_values(term, c.label, list));
  return c;
}

}  // namespace

bool satisfies(const Labels& labels, const Constraint& constraint) {
  const auto at = labels.find(constraint.label);
  const bool present = at != labels.end();
  const auto listed = [&] { return present && std::binary_search(constraint.values.begin(), constraint.values.end(), at->second); };
  switch (constraint.op) {
    case Constraint::Op::kIn:
      return listed();
    case Constraint::Op::kNotIn:
      return !listed();
    case Constraint::Op::kPresent:
      return present;
    case Constraint::Op::kAbsent:
      return !present;
  }
  return false;
}

bool satisfies(const Labels& labels, const std::vector<Constraint>& constraints) {
  return std::all_of(constraints.begin(), constraints.end(), [&](const Constraint& c) { return satisfies(labels, c); });
}

Result<std::vector<Constraint>> parse_constraints(std::string_view text) {
  std::vector<Constraint> out;
  if (trim(text).empty()) return out;
  while (true) {
    const std::size_t amp = text.find('&');
    if (out.size() == kConstraintsMax) {
      return Error(Code::kLimit, "more than " + std::to_string(kConstraintsMax) + " constraints");
    }
    out.push_back(BOURSE_TRY(parse_term(trim(text.substr(0, amp)))));
    if (amp == std::string_view::npos) return out;
    text.remove_prefix(amp + 1);
  }
}

std::string to_text(const std::vector<Constraint>& constraints) {
  std::string out;
  for (const Constraint& c : constraints) {
    if (!out.empty()) out += '&';
    if (c.op == Constraint::Op::kAbsent) out += '!';
    out += c.label;
    if (c.op == Constraint::Op::kPresent || c.op == Constraint::Op::kAbsent) continue;
    std::string list;
    if (c.label == "host") {
      list = compress_hosts(c.values);
    } else {
      for (const std::string& v : c.values) list += (list.empty() ? "" : ",") + v;
    }
    if (c.values.size() == 1) {
      out += (c.op == Constraint::Op::kIn ? "=" : "!=") + list;
    } else {
      out += (c.op == Constraint::Op::kIn ? " in (" : " notin (") + list + ")";
    }
  }
  return out;
}

}  // namespace bourse
