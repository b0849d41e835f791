#include "frameworks/cli/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/world/config.h"

namespace bourse::cli {
namespace {

const OptionDef* canonical(const std::vector<OptionDef>& table, const OptionDef* def) {
  if (def->alias_of.empty()) return def;
  for (const OptionDef& other : table)
    if (other.name == def->alias_of) return &other;
  return def;
}

Result<const OptionDef*> find_long(const std::vector<OptionDef>& table, std::string_view name, const std::string& origin) {
  std::vector<const OptionDef*> prefixed;
  for (const OptionDef& def : table) {
    if (def.name == name) return &def;
    if (def.name.starts_with(name)) {
      const OptionDef* target = canonical(table, &def);
      const bool seen = std::ranges::any_of(prefixed, [&](const OptionDef* p) { return canonical(table, p) == target; });
      if (!seen) prefixed.push_back(&def);
    }
  }
  if (prefixed.size() == 1 && name.size() >= 2) return prefixed.front();
  if (prefixed.size() > 1) {
    std::string choices;
    for (const OptionDef* def : prefixed) choices += fmt::format("{}--{}", choices.empty() ? "" : ", ", def->name);
    return Error(Code::kInvalid, fmt::format("{}: option --{} is ambiguous: {}", origin, name, choices));
  }
  std::vector<std::string> known;
  for (const OptionDef& def : table) known.emplace_back(def.name);
  const std::string near = nearest_word(name, known);
  return Error(Code::kInvalid, near.empty() ? fmt::format("{}: unknown option --{}", origin, name)
                                            : fmt::format("{}: unknown option --{}; did you mean --{}?", origin, name, near));
}

Result<const OptionDef*> find_short(const std::vector<OptionDef>& table, char letter, const std::string& origin) {
  for (const OptionDef& def : table)
    if (def.letter == letter) return &def;
  return Error(Code::kInvalid, fmt::format("{}: unknown option -{}", origin, letter));
}

class Parser {
 public:
  Parser(const std::vector<OptionDef>& table, const std::vector<std::string>& words, const std::string& origin)
      : table_(table), words_(words), origin_(origin) {}

  Result<Parsed> run(bool allow_operands, std::string_view stop_after) {
    while (at_ < words_.size()) {
      const std::string& word = words_[at_];
      if (word == "--") {
        ++at_;
        break;
      }
      if (word.size() < 2 || word[0] != '-') break;
      BOURSE_TRY(word[1] == '-' ? take_long(std::string_view(word).substr(2)) : take_short(std::string_view(word).substr(1)));
      if (!stop_after.empty() && out_.settings.back().name == stop_after) break;
    }
    if (at_ < words_.size() && !allow_operands)
      return Error(Code::kInvalid, fmt::format("{}: `{}' is not an option", origin_, words_[at_]));
    out_.operands.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
    return std::move(out_);
  }

 private:
  Result<> take_long(std::string_view word) {
    ++at_;
    const std::size_t equals = word.find('=');
    const OptionDef* def = BOURSE_TRY(find_long(table_, word.substr(0, equals), origin_));
    if (equals != std::string_view::npos) {
      if (def->arg == OptionDef::Arg::kNone)
        return Error(Code::kInvalid, fmt::format("{}: option --{} takes no value", origin_, def->name));
      return set(def, std::string(word.substr(equals + 1)));
    }
    if (def->arg != OptionDef::Arg::kRequired) return set(def, "");
    return take_next(def, fmt::format("--{}", def->name));
  }

  Result<> take_short(std::string_view letters) {
    ++at_;
    while (!letters.empty()) {
      const OptionDef* def = BOURSE_TRY(find_short(table_, letters[0], origin_));
      letters.remove_prefix(1);
      if (def->arg == OptionDef::Arg::kNone) {
        BOURSE_TRY(set(def, ""));
        continue;
      }
      if (letters.starts_with('=')) letters.remove_prefix(1);
      if (!letters.empty()) return set(def, std::string(letters));
      if (def->arg == OptionDef::Arg::kOptional) return set(def, "");
      return take_next(def, fmt::format("-{}", def->letter));
    }
    return {};
  }

  Result<> take_next(const OptionDef* def, const std::string& spelled) {
    if (at_ >= words_.size()) return Error(Code::kInvalid, fmt::format("{}: option {} needs a value", origin_, spelled));
    return set(def, words_[at_++]);
  }

  Result<> set(const OptionDef* def, std::string value) {
    out_.settings.push_back({std::string(canonical(table_, def)->name), std::move(value), origin_});
    return {};
  }

  const std::vector<OptionDef>& table_;
  const std::vector<std::string>& words_;
  const std::string& origin_;
  std::size_t at_ = 0;
  Parsed out_;
};

}  // namespace

Result<Parsed> parse_options(const std::vector<OptionDef>& table, const std::vector<std::string>& words, const std::string& origin,
                             bool allow_operands, std::string_view stop_after) {
  return Parser(table, words, origin).run(allow_operands, stop_after);
}

Result<std::vector<std::string>> split_words(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else if (c == '#' && !in_word) {
      break;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0) return Error(Code::kInvalid, fmt::format("missing closing {}", quote));
  if (in_word) words.push_back(std::move(word));
  return words;
}

std::string usage(const std::vector<OptionDef>& table) {
  std::string out;
  for (const OptionDef& def : table) {
    if (!def.alias_of.empty()) continue;
    std::string left = def.letter != 0 ? fmt::format("  -{}, --{}", def.letter, def.name) : fmt::format("      --{}", def.name);
    if (def.arg == OptionDef::Arg::kRequired) left += fmt::format("={}", def.value);
    if (def.arg == OptionDef::Arg::kOptional) left += fmt::format("[={}]", def.value);
    out += fmt::format("{:<34} {}{}\n", left, def.help,
                       def.note.empty() ? "" : fmt::format("{}({})", def.help.empty() ? "" : " ", def.note));
  }
  return out;
}

}  // namespace bourse::cli
