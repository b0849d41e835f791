#include "frameworks/cli/slurm/columns.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <cstdlib>

namespace bourse::cli {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

Result<std::size_t> find_name(std::string_view word, const SlurmNames& names) {
  const auto same = [&](std::string_view name) {
    return name.size() == word.size() && strncasecmp(name.data(), word.data(), name.size()) == 0;
  };
  const auto it = std::ranges::find_if(names.names, same);
  if (it == names.names.end()) return Error(Code::kInvalid, fmt::format("Invalid field requested: \"{}\"", word));
  return static_cast<std::size_t>(it - names.names.begin());
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> words(1);
  for (const char c : list) {
    if (c == ',')
      words.emplace_back();
    else if (c != ' ')
      words.back() += c;
  }
  std::erase_if(words, [](const std::string& word) { return word.empty(); });
  return words;
}

}  // namespace

Result<std::vector<SlurmColumn>> percent_columns(std::string_view format, const SlurmNames& names) {
  std::vector<SlurmColumn> columns;
  std::string literal;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      literal += format[i];
      continue;
    }
    SlurmColumn column;
    std::size_t at = i + 1;
    if (format[at] == '#') column.fit = true, ++at;
    if (at < format.size() && format[at] == '.') column.right = true, ++at;
    while (at < format.size() && digit(format[at]))
      column.width = std::min<std::size_t>(column.width * 10 + static_cast<std::size_t>(format[at++] - '0'), 10'000);
    if (at == format.size() || format[at] == '%') {
      literal += '%';
      i = at;
      continue;
    }
    const auto it = std::ranges::find(names.letters, format[at]);
    if (it == names.letters.end()) return Error(Code::kInvalid, fmt::format("Invalid job format specification: {}", format[at]));
    column.field = static_cast<std::size_t>(it - names.letters.begin());
    column.before = std::move(literal);
    literal.clear();
    columns.push_back(std::move(column));
    i = at;
  }
  if (columns.empty()) return Error(Code::kInvalid, fmt::format("the format `{}' has no field", format));
  columns.back().after = std::move(literal);
  return columns;
}

Result<std::vector<SlurmColumn>> named_columns(std::string_view list, const SlurmNames& names, std::size_t default_width) {
  std::vector<SlurmColumn> columns;
  for (const std::string& word : split(list)) {
    const std::size_t colon = word.find(':');
    SlurmColumn column;
    column.field = BOURSE_TRY(find_name(std::string_view(word).substr(0, colon), names));
    column.width = default_width;
    if (colon != std::string::npos) {
      std::size_t at = colon + 1;
      if (at < word.size() && word[at] == '.') column.right = true, ++at;
      if (at < word.size() && digit(word[at])) column.width = static_cast<std::size_t>(std::atoi(word.c_str() + at));
    }
    columns.push_back(column);
  }
  if (columns.empty()) return Error(Code::kInvalid, "the format has no field");
  return columns;
}

Result<std::vector<SlurmColumn>> sacct_columns(std::string_view list, const SlurmNames& names) {
  std::vector<SlurmColumn> columns;
  for (const std::string& word : split(list)) {
    const std::size_t percent = word.find('%');
    SlurmColumn column;
    column.field = BOURSE_TRY(find_name(std::string_view(word).substr(0, percent), names));
    int width = names.widths[column.field];
    if (percent != std::string::npos) width = std::atoi(word.c_str() + percent + 1);
    column.right = width > 0;
    column.width = static_cast<std::size_t>(std::clamp(width < 0 ? -width : width, 0, 10'000));
    columns.push_back(column);
  }
  if (columns.empty()) return Error(Code::kInvalid, "the format has no field");
  return columns;
}

std::string slurm_line(const std::vector<SlurmColumn>& columns, const std::vector<std::string>& cells, const SlurmStyle& style) {
  std::string line;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const SlurmColumn& column = columns[i];
    std::string cell = cells[i];
    if (!style.delimiter.empty()) {
      line += cell;
      if (style.last_too || i + 1 < columns.size()) line += style.delimiter;
      continue;
    }
    if (column.width != 0 && cell.size() > column.width) {
      cell.resize(column.width);
      if (style.mark_cut) cell.back() = '+';
    }
    const std::string blanks(column.width > cell.size() ? column.width - cell.size() : 0, ' ');
    line += column.before + (column.right ? blanks + cell : cell + blanks) + column.after;
    if (style.mark_cut) line += ' ';
  }
  return line;
}

}  // namespace bourse::cli
