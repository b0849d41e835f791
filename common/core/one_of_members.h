// The members of OneOf that are compiled once per set. Included by the .cc that instantiates one, by nothing else.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "common/core/one_of.h"

namespace bourse {

template <class Set>
OneOf<Set>::OneOf() noexcept = default;
template <class Set>
OneOf<Set>::OneOf(const OneOf& other) = default;
template <class Set>
OneOf<Set>::OneOf(OneOf&& other) noexcept = default;
// Assignment ends one life and begins another, so that no member's own assignment is compiled.
template <class Set>
OneOf<Set>& OneOf<Set>::operator=(const OneOf& other) {
  if (this != &other) *this = OneOf(other);
  return *this;
}
template <class Set>
OneOf<Set>& OneOf<Set>::operator=(OneOf&& other) noexcept {
  static_assert(std::is_nothrow_move_constructible_v<Variant>);
  if (this == &other) return *this;
  std::destroy_at(this);
  return *std::construct_at(this, std::move(other));
}
template <class Set>
OneOf<Set>::~OneOf() = default;

}  // namespace bourse
