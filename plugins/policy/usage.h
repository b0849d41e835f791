// What a claimant uses or a cluster has, by kind: milli-cores, bytes, and per device kind permille of devices (a whole device
// is 1000; a share is its "compute" counter, or 1000 where it has none, since what a share leaves cannot be told from here). Beside
// that, for limits only, what is had of the devices' counters ("npu/ascend:npu.compute") and of kinds that a site declared.
#pragma once

#include <cstdint>

#include "common/core/resources.h"

namespace bourse {

struct Usage {
  std::int64_t cpus = 0, mem = 0;
  Counters devices;
  Counters counters = {};  // "KIND:COUNTER" in the counter's own unit
  Counters others = {};    // declared kinds
  void add(const Usage& other);
  void subtract(const Usage& other);  // must be contained: a bug else
  bool operator==(const Usage&) const = default;
};
Usage usage_of(const Resources& amount);
// One unit of a shape. A kind that ends in '/' stands as it was asked for.
Usage usage_of(const Shape& shape);

}  // namespace bourse
