#include "common/core/ids.h"

#include <algorithm>

namespace bourse {

namespace {
constexpr std::size_t kNameBytesMax = 128;

bool name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '/' ||
         c == '+' || c == '@' || c == ':' || c == '-';
}
}  // namespace

std::string to_text(const SliceId& id) { return id.framework.value + '#' + std::to_string(id.number); }

std::string to_text(const TaskKey& key) { return key.framework.value + '/' + key.task.value; }

bool valid_name(const std::string& text) {
  if (text.empty() || text.size() > kNameBytesMax || text.front() == '.' || text.front() == '/') return false;
  // No part that starts with a dot either: names become paths, and "a/../../etc" must not leave its directory.
  return std::all_of(text.begin(), text.end(), name_character) && text.find("/.") == std::string::npos;
}

}  // namespace bourse
