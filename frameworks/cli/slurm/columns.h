// Formats of Slurm's listing commands: "%.18i %j", "jobid:12,name" (-O), "JobID%20,State" (sacct).
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace bourse::cli {

template <class Row>
struct SlurmField {
  char letter;              // 0: none
  std::string_view name;    // of -O and sacct, compared without case
  std::string_view header;  // as Slurm prints it
  int width;                // sacct's own; negative: to the left
  std::function<std::string(const Row&)> text;
};

struct SlurmColumn {
  std::size_t field = 0;
  std::size_t width = 0;  // 0: as it is
  bool right = false;
  bool fit = false;           // as wide as its widest cell
  std::string before, after;  // literal text
};

struct SlurmNames {
  std::vector<char> letters;
  std::vector<std::string_view> names;
  std::vector<int> widths;
};
template <class Row>
SlurmNames names_of(const std::vector<SlurmField<Row>>& fields) {
  SlurmNames names;
  for (const auto& f : fields) names.letters.push_back(f.letter), names.names.push_back(f.name), names.widths.push_back(f.width);
  return names;
}

// kInvalid names the word that is no field.
Result<std::vector<SlurmColumn>> percent_columns(std::string_view format, const SlurmNames& names);
Result<std::vector<SlurmColumn>> named_columns(std::string_view list, const SlurmNames& names,
                                               std::size_t default_width);                       // name[:width]
Result<std::vector<SlurmColumn>> sacct_columns(std::string_view list, const SlurmNames& names);  // name[%[-]width]

// One line, cells cut to their widths. `delimiter` not empty: cells as they are, with it between them and, `last_too`, behind the last.
struct SlurmStyle {
  std::string delimiter;
  bool last_too = false;
  bool mark_cut = false;  // sacct shows a cut cell by a plus sign at its end
};
std::string slurm_line(const std::vector<SlurmColumn>& columns, const std::vector<std::string>& cells,
                       const SlurmStyle& style = {});

template <class Row>
void print_slurm(const std::vector<SlurmField<Row>>& fields, std::vector<SlurmColumn> columns, const std::vector<Row>& rows,
                 bool header, const SlurmStyle& style, const std::function<void(const std::string&)>& put) {
  std::vector<std::vector<std::string>> lines;
  if (header) {
    lines.emplace_back();
    for (const SlurmColumn& c : columns) lines.back().emplace_back(fields[c.field].header);
  }
  for (const Row& row : rows) {
    lines.emplace_back();
    for (const SlurmColumn& c : columns) lines.back().push_back(fields[c.field].text(row));
  }
  for (std::size_t i = 0; i < columns.size(); ++i)
    for (const auto& line : lines)
      if (columns[i].fit) columns[i].width = std::max(columns[i].width, line[i].size());
  for (const auto& line : lines) put(slurm_line(columns, line, style));
}

}  // namespace bourse::cli
