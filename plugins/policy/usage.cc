#include "plugins/policy/usage.h"

namespace bourse {

namespace {

constexpr std::int64_t kWholeDevice = 1000;

std::int64_t permille(bool whole, const Counters& counters) {
  const std::int64_t compute = whole ? 0 : counters.get("compute");
  return compute > 0 ? compute : kWholeDevice;
}

}  // namespace

void Usage::add(const Usage& other) {
  cpus += other.cpus;
  mem += other.mem;
  if (!other.devices.empty()) BOURSE_ASSERT(devices.add(other.devices), "device usage overflows");
  if (!other.counters.empty()) BOURSE_ASSERT(counters.add(other.counters), "counter usage overflows");
  if (!other.others.empty()) BOURSE_ASSERT(others.add(other.others), "usage of a declared kind overflows");
}

void Usage::subtract(const Usage& other) {
  BOURSE_ASSERT(cpus >= other.cpus && mem >= other.mem, "usage would fall below zero");
  cpus -= other.cpus;
  mem -= other.mem;
  if (!other.devices.empty()) BOURSE_ASSERT(devices.subtract(other.devices), "device usage would fall below zero");
  if (!other.counters.empty()) BOURSE_ASSERT(counters.subtract(other.counters), "counter usage would fall below zero");
  if (!other.others.empty()) BOURSE_ASSERT(others.subtract(other.others), "usage of a declared kind would fall below zero");
}

Usage usage_of(const Resources& amount) {
  Usage usage{.cpus = amount.cpus.value, .mem = amount.mem.value, .devices = {}};
  for (const DeviceShare& share : amount.devices) {
    usage.devices.set(share.kind, usage.devices.get(share.kind) + permille(share.whole, share.counters));
    for (const auto& [name, count] : share.counters.items()) {
      const std::string key = share.kind + ":" + name;
      usage.counters.set(key, usage.counters.get(key) + count);
    }
  }
  usage.others = amount.others;
  return usage;
}

Usage usage_of(const Shape& shape) {
  Usage usage{.cpus = shape.cpus.value, .mem = shape.mem.value, .devices = {}};
  for (const DeviceAsk& ask : shape.devices) {
    usage.devices.set(ask.kind, usage.devices.get(ask.kind) + std::int64_t{ask.count} * permille(ask.whole, ask.counters));
    for (const auto& [name, count] : ask.counters.items()) {
      const std::string key = ask.kind + ":" + name;
      usage.counters.set(key, usage.counters.get(key) + std::int64_t{ask.count} * count);
    }
  }
  usage.others = shape.others;
  return usage;
}

}  // namespace bourse
