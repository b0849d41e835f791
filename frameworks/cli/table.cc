#include "frameworks/cli/table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "common/world/config.h"

namespace bourse::cli {
namespace {

Result<std::size_t> by_name(std::string_view name, const std::vector<FieldName>& fields) {
  std::vector<std::string> known;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return i;
    known.emplace_back(fields[i].name);
  }
  const std::string near = nearest_word(name, known);
  return Error(Code::kInvalid,
               fmt::format("there is no field `{}'{}", name, near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

std::string_view colour_of(std::string_view state) {
  if (state == "R" || state == "RUNNING" || state == "up" || state == "connected") return "\033[32m";
  if (state == "PD" || state == "PENDING") return "\033[33m";
  if (state == "F" || state == "FAILED" || state == "TO" || state == "TIMEOUT" || state == "OOM" || state == "OUT_OF_MEMORY" ||
      state == "NF" || state == "NODE_FAIL" || state == "down" || state == "unreachable")
    return "\033[31m";
  return "";
}

// Columns a terminal shows for UTF-8 text: code points, which is right for what names are made of here.
std::size_t shown(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

Result<std::vector<Column>> parse_format(std::string_view format, const std::vector<FieldName>& fields) {
  std::vector<Column> columns;
  if (format.find('%') == std::string_view::npos) {
    while (!format.empty()) {
      const std::size_t comma = format.find(',');
      Column column;
      column.field = BOURSE_TRY(by_name(format.substr(0, comma), fields));
      column.before = columns.empty() ? "" : "  ";
      columns.push_back(std::move(column));
      format = comma == std::string_view::npos ? std::string_view() : format.substr(comma + 1);
    }
    if (columns.empty()) return Error(Code::kInvalid, "the format is empty");
    return columns;
  }
  std::string literal;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      literal += format[i];
      continue;
    }
    ++i;
    if (i < format.size() && format[i] == '%') {
      literal += '%';
      continue;
    }
    Column column;
    if (i < format.size() && format[i] == '.') {
      column.right = true;
      ++i;
    }
    while (i < format.size() && std::isdigit(static_cast<unsigned char>(format[i])) != 0 && column.width < 10'000)
      column.width = column.width * 10 + static_cast<std::size_t>(format[i++] - '0');
    column.truncate = column.width > 0;
    if (i >= format.size()) return Error(Code::kInvalid, "the format ends after %");
    const auto found = std::ranges::find_if(fields, [&](const FieldName& f) { return f.letter != 0 && f.letter == format[i]; });
    if (found == fields.end()) return Error(Code::kInvalid, fmt::format("there is no field %{}", format[i]));
    column.field = static_cast<std::size_t>(found - fields.begin());
    column.before = std::exchange(literal, "");
    columns.push_back(std::move(column));
  }
  if (columns.empty()) return Error(Code::kInvalid, "the format names no field");
  columns.back().after = literal;
  return columns;
}

std::string render(const std::vector<Column>& columns, const std::vector<std::string>& headers,
                   const std::vector<std::vector<std::string>>& rows, bool colour, std::size_t colour_column) {
  std::vector<std::size_t> widths(columns.size());
  const bool free_form = std::ranges::all_of(columns, [](const Column& c) { return c.width == 0; });
  for (std::size_t c = 0; c < columns.size(); ++c) {
    widths[c] = columns[c].width;
    if (!free_form) continue;
    if (!headers.empty()) widths[c] = shown(headers[c]);
    for (const auto& row : rows) widths[c] = std::max(widths[c], shown(row[c]));
  }
  std::string out;
  const auto put = [&](const std::vector<std::string>& row, bool body) {
    std::string line;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      std::string cell = row[c];
      if (columns[c].truncate && shown(cell) > columns[c].width) cell.resize(columns[c].width);
      const std::size_t pad = widths[c] > shown(cell) ? widths[c] - shown(cell) : 0;
      const std::string_view paint = colour && body && c == colour_column ? colour_of(row[c]) : "";
      line += columns[c].before;
      if (columns[c].right) line.append(pad, ' ');
      line += paint.empty() ? cell : fmt::format("{}{}\033[0m", paint, cell);
      if (!columns[c].right) line.append(pad, ' ');
      line += columns[c].after;
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  };
  if (!headers.empty()) put(headers, false);
  for (const auto& row : rows) put(row, true);
  return out;
}

bool want_colour() {
  static const bool want = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  return want;
}

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        else
          out += c;
    }
  }
  return out + "\"";
}

std::string json_object(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string out = "{";
  for (const auto& [name, value] : members) out += fmt::format("{}{}: {}", out.size() == 1 ? "" : ", ", json_quote(name), value);
  return out + "}";
}

}  // namespace bourse::cli
