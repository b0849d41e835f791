#include "common/core/labels.h"

#include <algorithm>

namespace bourse {

namespace {

class LabelSubject : public Subject {
 public:
  explicit LabelSubject(const Labels& labels) : labels_(labels) {}
  [[nodiscard]] const std::string* text(const std::string& name) const override {
    const auto at = labels_.find(name);
    return at == labels_.end() ? nullptr : &at->second;
  }
  [[nodiscard]] std::int64_t number(Term::Of, const std::string&) const override { return 0; }

 private:
  const Labels& labels_;
};

using Op = Constraint::Op;

constexpr std::pair<Term::Op, Op> kSimple[] = {
    {Term::Op::kIn, Op::kIn}, {Term::Op::kNotIn, Op::kNotIn}, {Term::Op::kPresent, Op::kPresent}, {Term::Op::kAbsent, Op::kAbsent}};

Result<Constraint> constraint_of(Term term) {
  Constraint out;
  if (term.of == Term::Of::kText) {
    for (const auto& [from, to] : kSimple) {
      if (term.op != from) continue;
      out.op = to;
      out.label = std::move(term.name);
      out.values = std::move(term.values);
      return out;
    }
  }
  out.op = Op::kMatches;
  out.label = Constraint::kAnyLabel;
  out.values.push_back(to_text(term, Hosts::kListed));
  if (out.values.front().size() > kExpressionBytesMax)
    return Error(Code::kLimit,
                 "a constraint with alternatives names too many hosts; constraints on hosts go into terms of their own, "
                 "joined by '&'");
  out.expression.push_back(std::move(term));
  return out;
}

Term term_of(const Constraint& constraint) {
  if (constraint.op == Op::kMatches) return constraint.expression.empty() ? Term{} : constraint.expression.front();
  Term out;
  for (const auto& [from, to] : kSimple)
    if (constraint.op == to) out.op = from;
  out.name = constraint.label;
  out.values = constraint.values;
  return out;
}

}  // namespace

Result<Constraint> make_constraint(std::string label, Op op, std::vector<std::string> values) {
  if (op != Op::kMatches) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return Constraint{std::move(label), op, std::move(values)};
  }
  if (values.size() != 1) return Error(Code::kInvalid, "a constraint that is an expression has one value, its text");
  Term term = BOURSE_TRY(parse_expression(values.front()));
  Constraint out = BOURSE_TRY(constraint_of(std::move(term)));
  if (out.op == Op::kMatches) return out;
  // A plain one in the form of an expression: it keeps that form, so that what was read is what was written.
  out.expression.push_back(term_of(out));
  out.values = {to_text(out.expression.front(), Hosts::kListed)};
  out.op = Op::kMatches;
  out.label = Constraint::kAnyLabel;
  return out;
}

bool satisfies(const Subject& subject, const Constraint& constraint) {
  if (constraint.op == Op::kMatches) return !constraint.expression.empty() && holds(constraint.expression.front(), subject);
  const std::string* text = subject.text(constraint.label);
  const auto listed = [&] {
    return text != nullptr && std::binary_search(constraint.values.begin(), constraint.values.end(), *text);
  };
  switch (constraint.op) {
    case Op::kIn:
      return listed();
    case Op::kNotIn:
      return !listed();
    case Op::kPresent:
      return text != nullptr;
    default:
      return text == nullptr;
  }
}

bool satisfies(const Subject& subject, const std::vector<Constraint>& constraints) {
  return std::all_of(constraints.begin(), constraints.end(), [&](const Constraint& c) { return satisfies(subject, c); });
}

bool satisfies(const Labels& labels, const Constraint& constraint) { return satisfies(LabelSubject(labels), constraint); }

bool satisfies(const Labels& labels, const std::vector<Constraint>& constraints) {
  return satisfies(LabelSubject(labels), constraints);
}

Result<std::vector<Constraint>> parse_constraints(std::string_view text) {
  std::vector<Constraint> out;
  if (text.find_first_not_of(" \t") == std::string_view::npos) return out;
  Term term = BOURSE_TRY(parse_expression(text));
  if (term.op != Term::Op::kAnd) {
    out.push_back(BOURSE_TRY(constraint_of(std::move(term))));
    return out;
  }
  for (Term& part : term.parts) out.push_back(BOURSE_TRY(constraint_of(std::move(part))));
  return out;
}

std::string to_text(const std::vector<Constraint>& constraints) {
  if (constraints.empty()) return {};
  if (constraints.size() == 1) return to_text(constraints.front());
  Term all;
  all.op = Term::Op::kAnd;
  for (const Constraint& constraint : constraints) all.parts.push_back(term_of(constraint));
  return to_text(all);
}

std::string to_text(const Constraint& constraint) { return to_text(term_of(constraint)); }

}  // namespace bourse
