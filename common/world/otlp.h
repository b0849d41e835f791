// Spans as OTLP/JSON: the body of a POST to an OpenTelemetry collector's /v1/traces.
//
// After opentelemetry-proto's trace/v1 and the JSON rules of the OTLP specification: ids in hexadecimal, times in nanoseconds and other
// 64-bit integers as strings, enumerations as numbers. Text that is not UTF-8 is mended, since a collector refuses the whole of it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/core/span.h"

namespace bourse {

using TraceResource = std::vector<std::pair<std::string, std::string>>;  // who tells: "service.name", "host.name", ...

std::string otlp_json(const TraceResource& resource, const std::vector<Span>& spans);

// What a collector answered: how many spans it would not have, and why. None where that is not said, or not in JSON.
std::pair<std::int64_t, std::string> otlp_rejected(std::string_view body);

}  // namespace bourse
