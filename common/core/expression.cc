#include "common/core/expression.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "common/core/hooks.h"
#include "common/core/hostlist.h"
#include "common/core/units.h"

namespace bourse {

namespace {

using Op = Term::Op;
using Of = Term::Of;

bool word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '/' ||
         c == '+' || c == '@' || c == ':' || c == '-';
}
bool space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

constexpr std::array<std::string_view, 5> kKeywords = {"and", "or", "not", "in", "notin"};
constexpr std::string_view kCountPrefix = "count.", kCounterPrefix = "counter.", kAgentPrefix = "agent.";
constexpr std::array<std::pair<std::string_view, Of>, 5> kAgentFacts = {std::pair{"agent.cpus", Of::kCpus},
                                                                        {"agent.mem", Of::kMem},
                                                                        {"agent.disk", Of::kDisk},
                                                                        {"agent.ports", Of::kPorts},
                                                                        {"agent.numa", Of::kNuma}};

bool reserved(std::string_view name) {
  return name.substr(0, kAgentPrefix.size()) == kAgentPrefix || name.substr(0, kCountPrefix.size()) == kCountPrefix ||
         name.substr(0, kCounterPrefix.size()) == kCounterPrefix;
}

constexpr std::array<std::pair<Op, Op>, 6> kOpposites = {std::pair{Op::kIn, Op::kNotIn}, {Op::kNotIn, Op::kIn},
                                                         {Op::kPresent, Op::kAbsent},    {Op::kAbsent, Op::kPresent},
                                                         {Op::kLike, Op::kNotLike},      {Op::kNotLike, Op::kLike}};

// In normal form: no double negation, and none before what has an opposite.
Term negated(Term term) {
  if (term.op == Op::kNot) {
    Term inside = std::move(term.parts.front());
    return inside;
  }
  for (const auto& [op, opposite] : kOpposites)
    if (term.op == op) return term.op = opposite, term;
  Term out;
  out.op = Op::kNot;
  out.parts.push_back(std::move(term));
  return out;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Term> parse() {
    if (text_.size() > kExpressionBytesMax)
      return Error(Code::kLimit, "a constraint has at most " + std::to_string(kExpressionBytesMax) + " bytes");
    Term out = BOURSE_TRY(joined(Op::kOr));
    skip();
    if (at_ < text_.size()) return bad(text_[at_] == ')' ? "')' without a '('" : "'&', '|' or the end is expected here");
    return out;
  }

 private:
  void skip() {
    while (at_ < text_.size() && space(text_[at_])) ++at_;
  }
  bool take(std::string_view what) {
    if (text_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }
  // A keyword is a word of its own.
  bool keyword(std::string_view what) {
    if (text_.substr(at_, what.size()) != what) return false;
    const std::size_t end = at_ + what.size();
    if (end < text_.size() && word_character(text_[end])) return false;
    at_ = end;
    return true;
  }
  [[nodiscard]] Error bad(std::string_view why) const {
    constexpr std::size_t kShown = 64;
    std::string shown(text_.substr(0, kShown));
    if (text_.size() > kShown) shown += "...";
    return Error(Code::kInvalid, "constraint \"" + shown + "\", column " + std::to_string(at_ + 1) + ": " + std::string(why));
  }

  Result<Term> joined(Op op) {
    std::vector<Term> parts;
    do {
      Term part = BOURSE_TRY(op == Op::kOr ? joined(Op::kAnd) : factor());
      if (part.op == op) {
        for (Term& inside : part.parts) parts.push_back(std::move(inside));
      } else {
        parts.push_back(std::move(part));
      }
      skip();
    } while (op == Op::kOr ? take("||") || take("|") || keyword("or") : take("&&") || take("&") || keyword("and"));
    if (parts.size() == 1) return std::move(parts.front());
    Term out;
    out.op = op;
    out.parts = std::move(parts);
    return out;
  }

  Result<Term> factor() {
    skip();
    if (at_ == text_.size()) return bad("a label or '(' is missing here");
    if (text_[at_] == '[')
      return bad("Slurm's brackets are not known: for one value on all hosts use --pack LABEL, for alternatives (a|b)");
    if (++depth_ > kNestingMax)
      return Error(Code::kLimit, "constraint has more than " + std::to_string(kNestingMax) + " '(' or '!' inside each other");
    Result<Term> out = nested();
    --depth_;
    return out;
  }

  Result<Term> nested() {
    if (take("(")) {
      Term out = BOURSE_TRY(joined(Op::kOr));
      skip();
      if (!take(")")) return bad("')' is missing here");
      return out;
    }
    if (keyword("not")) return negated(BOURSE_TRY(factor()));
    if (take("!")) {
      skip();
      const std::size_t from = at_;
      const bool simple = at_ < text_.size() && text_[at_] != '(' && text_[at_] != '!';
      Term out = BOURSE_TRY(factor());
      if (simple && out.op != Op::kPresent)
        return at_ = from, bad("'!' stands before a bare label or '('; write LABEL!=VALUE, LABEL notin (a,b) or not LABEL=VALUE");
      return negated(std::move(out));
    }
    return comparison();
  }

  Result<std::string> quoted() {
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      out += text_[at_++];
      if (out.size() > kWordBytesMax) return bad("a word has at most " + std::to_string(kWordBytesMax) + " bytes");
    }
    if (!take("\"")) return bad("'\"' is missing here");
    return out;
  }

  Result<std::string> word(bool pattern, std::string_view missing) {
    if (take("\"")) return quoted();
    const std::size_t from = at_;
    while (at_ < text_.size() && (word_character(text_[at_]) || (pattern && (text_[at_] == '*' || text_[at_] == '?')))) ++at_;
    if (at_ == from) return bad(missing);
    if (at_ - from > kWordBytesMax) return bad("a word has at most " + std::to_string(kWordBytesMax) + " bytes");
    return std::string(text_.substr(from, at_ - from));
  }

  Result<> name(Term& term) {
    const bool plain = text_[at_] != '"';
    const std::size_t from = at_;
    std::string name = BOURSE_TRY(word(false, "the name of a label is expected here"));
    if (name.empty()) return bad("a label's name is not empty");
    if (plain && std::find(kKeywords.begin(), kKeywords.end(), name) != kKeywords.end())
      return at_ = from, bad("a label of the name '" + name + "' is written \"" + name + "\"");
    term.name = std::move(name);
    if (!plain || !reserved(term.name)) return {};
    for (const auto& [fact, of] : kAgentFacts)
      if (term.name == fact) return term.of = of, Result<>{};
    if (term.name.substr(0, kAgentPrefix.size()) == kAgentPrefix)
      return at_ = from, bad("an agent has agent.cpus, agent.mem, agent.disk, agent.ports and agent.numa; a label of that name is "
                             "written in quotes");
    term.of = term.name.substr(0, kCountPrefix.size()) == kCountPrefix ? Of::kCount : Of::kCounter;
    term.name.erase(0, term.of == Of::kCount ? kCountPrefix.size() : kCounterPrefix.size());
    if (term.name.empty()) return at_ = from, bad("count. and counter. are followed by a name: count.gpu/nvidia, counter.mem");
    return {};
  }

  Result<std::int64_t> number(const Term& term, std::string_view text) const {
    if (term.of == Of::kCpus) return BOURSE_TRY(parse_cpus(text)).value;
    if (term.of == Of::kMem || term.of == Of::kDisk) return BOURSE_TRY(parse_size(text)).value;
    std::int64_t out = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (failure != std::errc{} || end != text.data() + text.size() || out < 0) return bad("a whole number is expected here");
    return out;
  }

  Result<> value(Term& term, bool pattern) {
    skip();
    const std::size_t from = at_;
    std::string text = BOURSE_TRY(word(pattern, "a value is expected here; one with other signs is written in \"quotes\""));
    if (term.of == Of::kText) return term.values.push_back(std::move(text)), Result<>{};
    auto parsed = number(term, text);
    if (!parsed) return at_ = from, bad(parsed.error().text());
    term.numbers.push_back(*parsed);
    return {};
  }

  // A host list ends where a word would, outside its brackets; in parentheses it ends with them.
  Result<> hosts(Term& term, bool parenthesised) {
    skip();
    const std::size_t from = at_;
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '[') ++depth;
      if (c == ']') --depth;
      if (depth <= 0 && (c == ')' || (!parenthesised && (c == '&' || c == '|' || space(c))))) break;
    }
    std::string list(text_.substr(from, at_ - from));
    if (parenthesised) std::erase_if(list, space);
    auto names = list.empty() ? Result<std::vector<std::string>>(bad("a host is expected here")) : expand_hosts(list);
    if (!names) return at_ = from, names.error().code() == Code::kLimit ? names.error() : bad(names.error().text());
    term.values = *std::move(names);
    return {};
  }

  Result<> values(Term& term, bool parenthesised) {
    skip();
    if (term.of == Of::kText && term.name == "host" && text_.substr(at_, 1) != "\"") {
      BOURSE_TRY(hosts(term, parenthesised));
    } else {
      do {
        BOURSE_TRY(value(term, false));
        if (parenthesised) skip();
      } while (take(","));
    }
    std::sort(term.values.begin(), term.values.end());
    term.values.erase(std::unique(term.values.begin(), term.values.end()), term.values.end());
    std::sort(term.numbers.begin(), term.numbers.end());
    term.numbers.erase(std::unique(term.numbers.begin(), term.numbers.end()), term.numbers.end());
    return {};
  }

  Result<Term> listed(Term term, Op op) {
    term.op = op;
    skip();
    if (!take("(")) return bad("'(' is expected here, as in zone in (a,b)");
    BOURSE_TRY(values(term, true));
    skip();
    if (!take(")")) return bad("',' or ')' is expected here");
    return term;
  }

  Result<Term> comparison() {
    if (++terms_ > kTermsMax)
      return Error(Code::kLimit, "more than " + std::to_string(kTermsMax) + " constraints in one expression");
    Term term;
    BOURSE_TRY(name(term));
    skip();
    const std::size_t from = at_;
    if (keyword("not")) {
      skip();
      if (keyword("in")) return listed(std::move(term), Op::kNotIn);
      return at_ = from, bad("write LABEL not in (a,b)");
    }
    if (keyword("notin")) return listed(std::move(term), Op::kNotIn);
    if (keyword("in")) return listed(std::move(term), Op::kIn);
    constexpr std::array<std::pair<std::string_view, Op>, 9> kSigns = {
        std::pair{"!=", Op::kNotIn}, {"!~", Op::kNotLike}, {"==", Op::kIn},           {"=", Op::kIn},     {"~", Op::kLike},
        {"<=", Op::kLessEqual},      {"<", Op::kLess},     {">=", Op::kGreaterEqual}, {">", Op::kGreater}};
    for (const auto& [sign, op] : kSigns) {
      if (!take(sign)) continue;
      term.op = op;
      if (op == Op::kIn || op == Op::kNotIn) {
        BOURSE_TRY(values(term, false));
        return term;
      }
      const bool pattern = op == Op::kLike || op == Op::kNotLike;
      if (pattern && term.of != Of::kText) return at_ = from, bad("'~' compares texts, and this is a number");
      BOURSE_TRY(value(term, pattern));
      return term;
    }
    return term;  // bare: it must be there
  }

  std::string_view text_;
  std::size_t at_ = 0, depth_ = 0, terms_ = 0;
};

// --- text ------------------------------------------------------------------------------------------------------------

std::string in_quotes(std::string_view word) {
  std::string out = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string name_text(const Term& term) {
  for (const auto& [fact, of] : kAgentFacts)
    if (term.of == of) return std::string(fact);
  if (term.of == Of::kCount) return std::string(kCountPrefix) + term.name;
  if (term.of == Of::kCounter) return std::string(kCounterPrefix) + term.name;
  return quoted_word(term.name);
}

std::string number_text(const Term& term, std::int64_t number) {
  if (term.of == Of::kCpus) return format_cpus(MilliCpus(number));
  if (term.of == Of::kMem || term.of == Of::kDisk) return format_size(Bytes(number));
  return std::to_string(number);
}

std::string list_text(const Term& term, Hosts hosts) {
  const auto plain = [](const std::string& value) { return quoted_word(value) == value; };
  const bool host_list = term.of == Of::kText && term.name == "host" && std::all_of(term.values.begin(), term.values.end(), plain);
  if (host_list && hosts == Hosts::kShort) {
    std::vector<std::string> sorted = term.values;
    std::stable_sort(sorted.begin(), sorted.end(), host_before);
    return compress_hosts(sorted);
  }
  std::string out;
  const auto add = [&](const std::string& one) { out += (out.empty() ? "" : ",") + one; };
  for (const std::string& value : term.values) add(term.name == "host" && !host_list ? in_quotes(value) : quoted_word(value));
  for (const std::int64_t value : term.numbers) add(number_text(term, value));
  return out;
}

std::string pattern_text(const std::string& pattern) {
  const bool plain = !pattern.empty() &&
                     std::all_of(pattern.begin(), pattern.end(), [](char c) { return word_character(c) || c == '*' || c == '?'; });
  return plain ? pattern : in_quotes(pattern);
}

void write(const Term& term, Hosts hosts, std::string& out) {
  const std::size_t size = term.values.size() + term.numbers.size();
  switch (term.op) {
    case Op::kAnd:
    case Op::kOr:
      for (std::size_t i = 0; i < term.parts.size(); ++i) {
        if (i > 0) out += term.op == Op::kAnd ? '&' : '|';
        const bool parentheses = term.op == Op::kAnd && term.parts[i].op == Op::kOr;
        if (parentheses) out += '(';
        write(term.parts[i], hosts, out);
        if (parentheses) out += ')';
      }
      return;
    case Op::kNot:
      out += "!(";
      write(term.parts.front(), hosts, out);
      out += ')';
      return;
    case Op::kPresent:
    case Op::kAbsent:
      out += (term.op == Op::kAbsent ? "!" : "") + name_text(term);
      return;
    case Op::kIn:
    case Op::kNotIn:
      out += name_text(term);
      if (size == 1) {
        out += (term.op == Op::kIn ? "=" : "!=") + list_text(term, hosts);
      } else {
        out += (term.op == Op::kIn ? " in (" : " notin (") + list_text(term, hosts) + ")";
      }
      return;
    case Op::kLike:
    case Op::kNotLike:
      out += name_text(term) + (term.op == Op::kLike ? "~" : "!~") + pattern_text(term.values.front());
      return;
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual:
      out += name_text(term);
      out += term.op == Op::kLess ? "<" : term.op == Op::kLessEqual ? "<=" : term.op == Op::kGreater ? ">" : ">=";
      out += term.of == Of::kText ? quoted_word(term.values.front()) : number_text(term, term.numbers.front());
      return;
  }
}

bool ordered(Op op, int order) {
  if (op == Op::kLess) return order < 0;
  if (op == Op::kLessEqual) return order <= 0;
  return op == Op::kGreater ? order > 0 : order >= 0;
}

bool compare(const Term& term, const Subject& subject, std::uint64_t* steps) {
  const auto one_of = [](const auto& list, const auto& value) { return std::binary_search(list.begin(), list.end(), value); };
  if (term.of != Of::kText) {
    const std::int64_t number = subject.number(term.of, term.name);
    if (term.op == Op::kPresent || term.op == Op::kAbsent) return (number != 0) == (term.op == Op::kPresent);
    if (term.op == Op::kIn || term.op == Op::kNotIn) return one_of(term.numbers, number) == (term.op == Op::kIn);
    const std::int64_t other = term.numbers.front();
    return ordered(term.op, number < other ? -1 : number > other ? 1 : 0);
  }
  const std::string* text = subject.text(term.name);
  switch (term.op) {
    case Op::kPresent:
      return text != nullptr;
    case Op::kAbsent:
      return text == nullptr;
    case Op::kIn:
      return text != nullptr && one_of(term.values, *text);
    case Op::kNotIn:
      return text == nullptr || !one_of(term.values, *text);
    case Op::kLike:
      return text != nullptr && like(*text, term.values.front(), steps);
    case Op::kNotLike:
      return text == nullptr || !like(*text, term.values.front(), steps);
    default:
      if (hooks::mutant("core.versions_as_text")) return text != nullptr && ordered(term.op, text->compare(term.values.front()));
      return text != nullptr && ordered(term.op, version_order(*text, term.values.front()));
  }
}

}  // namespace

std::string quoted_word(std::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), word_character) && !reserved(word) &&
                     std::find(kKeywords.begin(), kKeywords.end(), word) == kKeywords.end();
  return plain ? std::string(word) : in_quotes(word);
}

Result<Term> parse_expression(std::string_view text) { return Parser(text).parse(); }

bool holds(const Term& term, const Subject& subject, std::uint64_t* steps) {
  const auto part = [&](const Term& t) { return holds(t, subject, steps); };
  if (steps != nullptr) ++*steps;
  switch (term.op) {
    case Op::kAnd:
      return std::all_of(term.parts.begin(), term.parts.end(), part);
    case Op::kOr:
      return std::any_of(term.parts.begin(), term.parts.end(), part);
    case Op::kNot:
      return !part(term.parts.front());
    default:
      return compare(term, subject, steps);
  }
}

std::string to_text(const Term& term, Hosts hosts) {
  std::string out;
  write(term, hosts, out);
  return out;
}

int version_order(std::string_view a, std::string_view b) {
  // A byte outside of numbers: '~' before the end, the end (or a number) before letters, letters before the rest.
  const auto rank = [](std::string_view s, std::size_t i) {
    constexpr int kRest = 256;
    if (i >= s.size() || digit(s[i])) return 0;
    if (s[i] == '~') return -1;
    const int byte = static_cast<unsigned char>(s[i]);
    return letter(s[i]) ? byte : byte + kRest;
  };
  const auto number = [](std::string_view s, std::size_t& i) {  // without leading zeros
    while (i < s.size() && s[i] == '0') ++i;
    const std::size_t from = i;
    while (i < s.size() && digit(s[i])) ++i;
    return s.substr(from, i - from);
  };
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    while ((i < a.size() && !digit(a[i])) || (j < b.size() && !digit(b[j]))) {
      const int x = rank(a, i), y = rank(b, j);
      if (x != y) return x < y ? -1 : 1;
      ++i, ++j;
    }
    const std::string_view x = number(a, i), y = number(b, j);
    if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
    if (const int order = x.compare(y); order != 0) return order < 0 ? -1 : 1;
  }
  return 0;
}

bool like(std::string_view text, std::string_view pattern, std::uint64_t* steps) {
  std::size_t t = 0, p = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (steps != nullptr) ++*steps;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace bourse
