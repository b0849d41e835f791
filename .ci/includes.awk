# Every .cc includes what it uses of the precompiled headers, by itself or through our own headers. The compiler cannot tell,
# as it reads the precompiled ones first; a build with PCH=no, or of another library, would.   awk -f includes.awk FILE...
BEGIN {
  use["algorithm"] = "std::(sort|stable_sort|find_if|find_if_not|min_element|max_element|any_of|all_of|none_of|count_if|lower_bound|" \
                     "upper_bound|clamp|reverse|transform|remove_if|unique|partial_sort|rotate|equal_range|binary_search|nth_element)[(]|" \
                     "std::ranges::"
  use["array"] = "std::array<"
  use["charconv"] = "std::(from|to)_chars[(]"
  use["chrono"] = "std::chrono::"
  use["cmath"] = "std::(sqrt|pow|isnan|isfinite|floor|ceil|exp|log|log2|fabs|lround|llround)[(]"
  use["cstring"] = "std::(strlen|memcpy|memset|memcmp|memmove|strerror|strcmp|strncmp|strchr)[(]"
  use["deque"] = "std::deque<"
  use["filesystem"] = "std::filesystem"
  use["fstream"] = "std::[io]?fstream"
  use["functional"] = "std::function<"
  use["limits"] = "std::numeric_limits<"
  use["map"] = "std::(multi)?map<"
  use["memory"] = "std::(unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared)<"
  use["optional"] = "std::(optional<|nullopt)"
  use["set"] = "std::(multi)?set<"
  use["sstream"] = "std::[io]?stringstream"
  use["string"] = "std::(string[^_a-z]|to_string[(]|getline[(])"
  use["string_view"] = "std::string_view"
  use["tuple"] = "std::(tuple<|tie[(]|make_tuple[(])"
  use["unordered_map"] = "std::unordered_map<"
  use["variant"] = "std::(variant<|visit[(]|get_if<|holds_alternative<|monostate)"
  use["vector"] = "std::vector<"
  use["fmt/format.h"] = "fmt::(format|print|format_to|join)[(]"
  use["gtest/gtest.h"] = "^TEST(_F|_P)?[(]"
}
FNR == 1 { seen[FILENAME] = 1 }
/^#include </ { split($2, part, /[<>]/); has[FILENAME, part[2]] = 1; next }
/^#include "/ { split($2, part, /"/); ours[FILENAME] = ours[FILENAME] " " part[2]; next }
FILENAME ~ /\.cc$/ {
  sub(/\/\/.*/, "")
  if (/std::|fmt::|^TEST/)
    for (header in use)
      if (!((FILENAME, header) in used) && $0 ~ use[header]) used[FILENAME, header] = FNR
}
# Does the file, or one of ours that it includes, include the header?
function reaches(file, header, visited, list, n, i, path) {
  if ((file, header) in has) return 1
  if ((file, header) in visited) return 0
  visited[file, header] = 1
  n = split(ours[file], list, " ")
  for (i = 1; i <= n; i++) {
    path = list[i]
    if (!(path in seen)) { path = file; sub(/[^\/]*$/, "", path); path = path list[i] }
    if (!(path in seen)) path = "frameworks/api/include/" list[i]
    if (!(path in seen)) path = "plugins/include/" list[i]
    if ((path in seen) && reaches(path, header, visited)) return 1
  }
  return 0
}
END {
  for (key in used) {
    split(key, part, SUBSEP)
    split("", visited)
    if (!reaches(part[1], part[2], visited)) print part[1] ":" used[key] ": uses <" part[2] "> and does not include it"
  }
}
