// What is free on a node, or what a run holds there: cpus and memory as two numbers, and everything else behind them where there is
// any. A value; a simulated cluster of plain nodes plans with nothing but the two.
//
// Equal to Resources in meaning: add and subtract are inverse, never go below zero, and leave their operand alone when they refuse.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "common/core/resources.h"

namespace bourse::batch {

class Amount {
 public:
  Amount() = default;
  Amount(Resources resources);  // NOLINT(google-explicit-constructor): the same thing in another form
  Amount(MilliCpus cpus, Bytes mem) : cpus_(cpus.value), mem_(mem.value) {}
  Amount(const Amount& other)
      : cpus_(other.cpus_), mem_(other.mem_), rest_(other.rest_ ? std::make_unique<Resources>(*other.rest_) : nullptr) {}
  Amount& operator=(const Amount& other) {
    if (this == &other) return *this;
    cpus_ = other.cpus_, mem_ = other.mem_;
    if (other.rest_)
      rest_ = std::make_unique<Resources>(*other.rest_);
    else if (rest_)
      rest_.reset();
    return *this;
  }
  Amount(Amount&&) noexcept = default;
  Amount& operator=(Amount&&) noexcept = default;
  ~Amount() = default;

  [[nodiscard]] MilliCpus cpus() const { return MilliCpus(cpus_); }
  [[nodiscard]] Bytes mem() const { return Bytes(mem_); }
  [[nodiscard]] const Resources* rest() const { return rest_.get(); }  // null: cpus and mem are all there is
  [[nodiscard]] Resources resources() const;

  Result<> add(const Amount& other) {
    std::int64_t cpus = 0, mem = 0;
    if (rest_ || other.rest_ || __builtin_add_overflow(cpus_, other.cpus_, &cpus) || __builtin_add_overflow(mem_, other.mem_, &mem))
      return add_any(other);
    cpus_ = cpus, mem_ = mem;
    return {};
  }
  Result<> subtract(const Amount& other) {
    if (rest_ || other.rest_ || other.cpus_ < 0 || other.mem_ < 0 || other.cpus_ > cpus_ || other.mem_ > mem_)
      return subtract_any(other);
    cpus_ -= other.cpus_, mem_ -= other.mem_;
    return {};
  }
  bool operator==(const Amount& other) const;

 private:
  Result<> add_any(const Amount& other);
  Result<> subtract_any(const Amount& other);

  std::int64_t cpus_ = 0, mem_ = 0;
  std::unique_ptr<Resources> rest_;  // cpus and mem in it are the same as beside it
};

// Cpus and memory only, anywhere: what fits is two comparisons.
inline bool is_plain(const Shape& shape) {
  return shape.constraints.empty() && shape.devices.empty() && shape.disk.value == 0 && shape.ports == 0 && !shape.whole_host &&
         !shape.same_numa && shape.others.empty();
}

// fits() and carve() of common/core/resources.h.
[[nodiscard]] bool fits(const Shape& shape, const Amount& free, const Amount& total, const Labels& labels);
Result<Amount> carve(const Shape& shape, const Amount& free, const Amount& total, const Labels& labels);

}  // namespace bourse::batch
