// Integer quantities, each in its smallest unit. No floating point in accounts.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/core/result.h"
#include "common/core/time.h"

namespace bourse {

template <class Tag>
struct Quantity {
  std::int64_t value = 0;
  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t v) : value(v) {}
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr bool operator==(const Quantity&) const = default;
};

using MilliCpus = Quantity<struct MilliCpusTag>;  // 1000 = one core (one hardware thread where SMT is scheduled by thread)
using Bytes = Quantity<struct BytesTag>;

constexpr Bytes kKiB{1024}, kMiB{1024 * 1024}, kGiB{1024LL * 1024 * 1024};

// Sum and difference that refuse to overflow or to go below zero (kLimit).
Result<std::int64_t> checked_add(std::int64_t a, std::int64_t b);
Result<std::int64_t> checked_subtract(std::int64_t a, std::int64_t b);
Result<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b);

// The little languages, one parser each, used by configuration, command lines, wire text and man pages alike.
//
// Sizes: "4GiB", "4G", "4g", "512M", "1.5GiB", "64Gb"; K M G T P with optional i and/or b/B are powers of 1024; a bare
// number is multiplied by `bare_unit`. Negative, overflowing or trailing text is kInvalid.
Result<Bytes> parse_size(std::string_view text, Bytes bare_unit = Bytes{1});
std::string format_size(Bytes bytes);  // exact and shortest: "4GiB", "1536MiB", "1000B"; parse_size reads it back

// Durations: "90s", "10ms", "250us", "5m", "2h", "7d", "1h30m", and clock forms "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM",
// "D-HH:MM:SS"; a bare number is multiplied by `bare_unit` (Slurm's --time: minutes). "unlimited" and "infinite" are
// kNoLimit where `allow_unlimited`.
constexpr Duration kNoLimit = Duration::max();
Result<Duration> parse_duration(std::string_view text, Duration bare_unit = seconds(1), bool allow_unlimited = false);
std::string format_duration(Duration d);              // exact: "1h30m", "250us"; parse_duration reads it back
std::string format_clock(Duration d);                 // for tables: "5:03", "1:02:03", "3-01:02:03"
std::string format_hours(Duration d);                 // always with hours, as Slurm has it: "00:05:03", "3-01:02:03"
std::string format_utc(Duration wall);                // "2026-12-01T08:00:00Z"
Result<MilliCpus> parse_cpus(std::string_view text);  // "2", "0.5", "1500m"
std::string format_cpus(MilliCpus cpus);              // "2", "0.5"

}  // namespace bourse
