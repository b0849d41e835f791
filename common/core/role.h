// Names of roles form a tree: "a" is above "a/b", and not above "ab".
#pragma once

#include <string_view>

#include "common/core/ids.h"

namespace bourse {

// Is it `above`, or below it?
inline bool in_tree(std::string_view role, std::string_view above) {
  return role.starts_with(above) && (role.size() == above.size() || role[above.size()] == '/');
}
inline bool in_tree(const RoleName& role, const RoleName& above) {
  return in_tree(std::string_view(role.str()), std::string_view(above.str()));
}

}  // namespace bourse
