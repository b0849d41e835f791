#include "frameworks/batch/amount.h"

namespace bourse::batch {
namespace {

bool only_cpus_and_mem(const Resources& r) {
  return r.disk.value == 0 && r.ports.empty() && r.others.empty() && r.numa.empty() && r.devices.empty();
}

}  // namespace

Amount::Amount(Resources resources) : cpus_(resources.cpus.value), mem_(resources.mem.value) {
  if (!only_cpus_and_mem(resources)) rest_ = std::make_unique<Resources>(std::move(resources));
}

Resources Amount::resources() const {
  if (rest_) return *rest_;
  Resources out;
  out.cpus = cpus(), out.mem = mem();
  return out;
}

Result<> Amount::add_any(const Amount& other) {
  if (!rest_ && !other.rest_) {
    const std::int64_t cpus = BOURSE_TRY(checked_add(cpus_, other.cpus_));
    mem_ = BOURSE_TRY(checked_add(mem_, other.mem_));
    cpus_ = cpus;
    return {};
  }
  Resources sum = resources();
  BOURSE_TRY(sum.add(other.rest_ ? *other.rest_ : other.resources()));
  *this = Amount(std::move(sum));
  return {};
}

Result<> Amount::subtract_any(const Amount& other) {
  if (!rest_ && !other.rest_) {
    const std::int64_t cpus = BOURSE_TRY(checked_subtract(cpus_, other.cpus_));
    mem_ = BOURSE_TRY(checked_subtract(mem_, other.mem_));
    cpus_ = cpus;
    return {};
  }
  Resources rest = resources();
  BOURSE_TRY(rest.subtract(other.rest_ ? *other.rest_ : other.resources()));
  *this = Amount(std::move(rest));
  return {};
}

bool Amount::operator==(const Amount& other) const {
  if (cpus_ != other.cpus_ || mem_ != other.mem_ || !rest_ != !other.rest_) return false;
  return !rest_ || *rest_ == *other.rest_;
}

bool fits(const Shape& shape, const Amount& free, const Amount& total, const Labels& labels) {
  if (shape.cpus > free.cpus() || shape.mem > free.mem()) return false;
  if (is_plain(shape)) return true;
  if (free.rest() != nullptr && total.rest() != nullptr) return fits(shape, *free.rest(), *total.rest(), labels) == Misfit::kNone;
  return fits(shape, free.resources(), total.resources(), labels) == Misfit::kNone;
}

Result<Amount> carve(const Shape& shape, const Amount& free, const Amount& total, const Labels& labels) {
  if (free.rest() == nullptr && is_plain(shape) && shape.cpus.value >= 0 && shape.mem.value >= 0) {
    if (shape.cpus > free.cpus() || shape.mem > free.mem()) return Error(Code::kBusy, "it does not fit");
    return Amount(shape.cpus, shape.mem);
  }
  return Amount(BOURSE_TRY(carve(shape, free.resources(), total.resources(), labels)));
}

}  // namespace bourse::batch
