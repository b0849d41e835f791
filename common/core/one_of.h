// OneOf: a std::variant whose copies, moves and end are compiled once, in one .cc, and not again in every file that has one.
//
// The sets of messages, events and actions have dozens of large members: as plain variants they were half of a build's time.
// It is used as a variant in every way: std::get, get_if, holds_alternative and visit take it. A header writes
//   struct Bodies { using Variant = std::variant<Welcome, Refused, ...>; };
//   using Body = OneOf<Bodies>;
// and one .cc, after including common/core/one_of_members.h and inside namespace bourse,
//   template struct OneOf<Bodies>;
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

namespace bourse {

template <class T, class Variant>
inline constexpr bool kIsMember = false;
template <class T, class... Types>
inline constexpr bool kIsMember<T, std::variant<Types...>> = (std::same_as<T, Types> || ...);

template <class Set>
struct OneOf final : Set::Variant {
  using Variant = typename Set::Variant;
  static constexpr std::size_t kCount = std::variant_size_v<Variant>;
  template <std::size_t I>
  using Member = std::variant_alternative_t<I, Variant>;

  OneOf() noexcept;
  OneOf(const OneOf& other);
  OneOf(OneOf&& other) noexcept;
  OneOf& operator=(const OneOf& other);
  OneOf& operator=(OneOf&& other) noexcept;
  ~OneOf();

  template <class T>
  requires kIsMember<std::remove_cvref_t<T>, Variant> OneOf(T&& value)  // NOLINT: implicit on purpose, as a variant's
      : Variant(std::in_place_type<std::remove_cvref_t<T>>, std::forward<T>(value)) {}
};

}  // namespace bourse
