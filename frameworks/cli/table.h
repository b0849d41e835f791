// Rows for people: aligned columns, coloured on a terminal, stable under a format; and the same rows as JSON.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace bourse::cli {

// A field of some kind of row. `letter` is its %-letter as Slurm's tools have it, where there is one.
template <class Row>
struct Field {
  std::string_view name;    // "state": what --format NAME,NAME and JSON call it
  char letter;              // 0: none
  std::string_view header;  // "ST"
  std::function<std::string(const Row&)> text;
  bool right = false;      // aligned to the right
  bool is_number = false;  // bare in JSON
};

// A column of a parsed format: "%.18i" or "id". width 0: as wide as its widest cell.
struct Column {
  std::size_t field = 0;
  std::size_t width = 0;
  bool right = false;
  bool truncate = false;
  std::string before;  // literal text in front of it
  std::string after;   // and behind the last one
};

struct FieldName {
  std::string_view name;
  char letter;
};
// "%.18i %.9P %j" (Slurm's form) or "id,name,state". kInvalid names the unknown field and the nearest.
Result<std::vector<Column>> parse_format(std::string_view format, const std::vector<FieldName>& fields);

// Cells by row; headers empty: none. Columns without width are as wide as needed. Trailing blanks are not printed.
std::string render(const std::vector<Column>& columns, const std::vector<std::string>& headers,
                   const std::vector<std::vector<std::string>>& rows, bool colour, std::size_t colour_column = SIZE_MAX);

bool want_colour();                             // stdout is a terminal, NO_COLOR is not set
std::string json_quote(std::string_view text);  // with the quotes
std::string json_object(const std::vector<std::pair<std::string, std::string>>& members);  // values are JSON already

template <class Row>
std::vector<FieldName> field_names(const std::vector<Field<Row>>& fields) {
  std::vector<FieldName> names;
  for (const auto& f : fields) names.push_back({f.name, f.letter});
  return names;
}

template <class Row>
std::string print_rows(const std::vector<Field<Row>>& fields, const std::vector<Column>& columns, const std::vector<Row>& rows,
                       bool header) {
  std::vector<std::string> headers;
  std::vector<std::vector<std::string>> cells;
  std::size_t colour_column = SIZE_MAX;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const Field<Row>& field = fields[columns[c].field];
    if (header) headers.emplace_back(field.header);
    if (field.name == "state" || field.name == "state_code") colour_column = c;
  }
  for (const Row& row : rows) {
    std::vector<std::string>& line = cells.emplace_back();
    for (const Column& column : columns) line.push_back(fields[column.field].text(row));
  }
  return render(columns, headers, cells, want_colour(), colour_column);
}

template <class Row>
std::string json_rows(const std::vector<Field<Row>>& fields, const std::vector<Row>& rows, std::string_view name) {
  std::string out = "{" + json_quote(name) + ": [";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::pair<std::string, std::string>> members;
    for (const auto& field : fields) {
      const std::string text = field.text(rows[i]);
      members.emplace_back(std::string(field.name), field.is_number ? (text.empty() ? "null" : text) : json_quote(text));
    }
    out += (i == 0 ? "\n  " : ",\n  ") + json_object(members);
  }
  return out + (rows.empty() ? "]}\n" : "\n]}\n");
}

}  // namespace bourse::cli
