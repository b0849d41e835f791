#include "common/core/placement.h"

#include <array>
#include <charconv>
#include <utility>

namespace bourse {

namespace {

using Kind = Placement::Kind;
constexpr std::array<std::pair<std::string_view, Kind>, 4> kKinds = {std::pair{"spread", Kind::kSpread},
                                                                     {"pack", Kind::kPack},
                                                                     {"affinity", Kind::kAffinity},
                                                                     {"anti-affinity", Kind::kAntiAffinity}};

Error bad(std::string_view text, std::string_view why) {
  constexpr std::size_t kShown = 64;
  return Error(Code::kInvalid, "placement \"" + std::string(text.substr(0, kShown)) + "\": " + std::string(why));
}

std::string_view take_word(std::string_view& rest) {
  const std::size_t from = std::min(rest.find_first_not_of(" \t"), rest.size());
  rest.remove_prefix(from);
  const std::size_t end = std::min(rest.find_first_of(" \t"), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

Result<Placement> parse_one(std::string_view text) {
  Placement out;
  std::string_view rest = text;
  std::string_view word = take_word(rest);
  if (word == "prefer") out.required = false, word = take_word(rest);
  bool known = false;
  for (const auto& [name, kind] : kKinds)
    if (word == name) out.kind = kind, known = true;
  if (!known) return bad(text, "write spread, pack, affinity or anti-affinity and a label: spread zone");
  word = take_word(rest);
  if (const std::size_t colon = word.find(':'); out.kind == Kind::kSpread && colon != std::string_view::npos) {
    const std::string_view skew = word.substr(colon + 1);
    const auto [end, failure] = std::from_chars(skew.data(), skew.data() + skew.size(), out.max_skew);
    if (failure != std::errc{} || end != skew.data() + skew.size())
      return bad(text, "after ':' stands by how many slices the fullest may be ahead: spread zone:2");
    word = word.substr(0, colon);
  }
  out.level = std::string(word);
  if (word = take_word(rest); word == "of") {
    word = take_word(rest);
    const std::size_t hash = word.find('#');
    out.framework = FrameworkId(std::string(word.substr(0, hash)));
    if (hash != std::string_view::npos) out.group = std::string(word.substr(hash + 1));
    if (word.empty() || word.back() == '#') return bad(text, "after 'of' stands FRAMEWORK, FRAMEWORK#GROUP or #GROUP");
    word = take_word(rest);
  }
  if (!word.empty()) return bad(text, "\"" + std::string(word.substr(0, 64)) + "\" is too much");
  if (auto sound = check(out); !sound) return bad(text, sound.error().text());
  return out;
}

}  // namespace

Result<> check(const Placement& p) {
  if (!valid_name(p.level)) return Error(Code::kInvalid, "a label is missing: zone, rack, host or another");
  if (p.max_skew == 0) return Error(Code::kInvalid, "a spread's skew is 1 or more");
  const bool about = p.kind == Kind::kAffinity || p.kind == Kind::kAntiAffinity;
  if (!about && (!p.framework.value.empty() || !p.group.empty()))
    return Error(Code::kInvalid, "only affinity and anti-affinity are about other slices");
  if (!p.framework.value.empty() && !valid_name(p.framework.value))
    return Error(Code::kInvalid, "a framework's name is expected after 'of'");
  if (!p.group.empty() && !valid_name(p.group)) return Error(Code::kInvalid, "a group's name is expected after '#'");
  return {};
}

Result<std::vector<Placement>> parse_placements(std::string_view text) {
  std::vector<Placement> out;
  if (text.find_first_not_of(" \t") == std::string_view::npos) return out;
  while (true) {
    const std::size_t semicolon = text.find(';');
    if (out.size() == kPlacementsMax)
      return Error(Code::kLimit, "more than " + std::to_string(kPlacementsMax) + " placement rules");
    out.push_back(BOURSE_TRY(parse_one(text.substr(0, semicolon))));
    if (semicolon == std::string_view::npos) return out;
    text.remove_prefix(semicolon + 1);
  }
}

std::string to_text(const Placement& p) {
  std::string out = p.required ? "" : "prefer ";
  for (const auto& [name, kind] : kKinds)
    if (kind == p.kind) out += name;
  out += " " + p.level;
  if (p.kind == Kind::kSpread && p.max_skew != 1) out += ":" + std::to_string(p.max_skew);
  if (!p.framework.value.empty() || !p.group.empty()) out += " of " + p.framework.value + (p.group.empty() ? "" : "#" + p.group);
  return out;
}

std::string to_text(const std::vector<Placement>& placements) {
  std::string out;
  for (const Placement& placement : placements) out += (out.empty() ? "" : "; ") + to_text(placement);
  return out;
}

}  // namespace bourse
