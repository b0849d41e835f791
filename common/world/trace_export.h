// Sends spans to an OpenTelemetry collector by OTLP/HTTP (POST of JSON to .../v1/traces), from a thread of its own.
//
// Owned by main, add() on the reactor's thread. A collector can be slow, refuse, hang or be gone: that costs spans, which are counted,
// and nothing else. Spans gather for kTraceGather or until a request is full; what the collector cannot take now (429, 502, 503, 504,
// no connection, no answer in time) is sent again after a growing, jittered pause, or the one that its Retry-After asks for, until
// kTraceGiveUp. Memory is bounded by kTraceSpansWaiting and kTraceBytesWaiting; past that new spans are dropped.
//
// libcurl is loaded when an exporter is opened: programs that do not trace do without it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/core/result.h"
#include "common/core/span.h"
#include "common/core/time.h"
#include "common/world/config.h"
#include "common/world/otlp.h"

namespace bourse {

constexpr std::size_t kTraceSpansWaiting = 16'384, kTraceBytesWaiting = 16 * 1024 * 1024;
constexpr std::size_t kTraceSpansRequest = 512;  // in one request
constexpr std::size_t kTraceTextBytes = 512;     // of one text in a span; the rest is cut off
constexpr std::size_t kTraceAttributes = 32;     // of one span
constexpr Duration kTraceGather = seconds(1);    // that the first span of a request waits for others
constexpr Duration kTraceTimeout = seconds(10);  // for one request
constexpr Duration kTraceGiveUp = seconds(300);  // on one request, however often it was tried
constexpr Duration kTracePauseFirst = seconds(1), kTracePauseMax = seconds(30);
constexpr Duration kTraceRetryAfterMax = seconds(300);  // a longer Retry-After counts as this
constexpr Duration kTraceLastWords = seconds(2);        // at the end of the process, for what still waits

struct TraceOptions {
  std::string url;                                           // of .../v1/traces
  std::vector<std::pair<std::string, std::string>> headers;  // besides Content-Type
  TraceResource resource;
  std::uint32_t sample_permille = 1000;  // of the traces that begin here; for the actor
  std::string tasks_endpoint;            // what a task is told in OTEL_EXPORTER_OTLP_ENDPOINT: the base, without /v1/traces
  // Shorter in tests.
  Duration gather = kTraceGather, timeout = kTraceTimeout, give_up = kTraceGiveUp;
  Duration pause_first = kTracePauseFirst, pause_max = kTracePauseMax, last_words = kTraceLastWords;
};

// [trace] of the configuration, and where that names no collector the variables that all OpenTelemetry programs know:
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _TIMEOUT, OTEL_RESOURCE_ATTRIBUTES, OTEL_SDK_DISABLED.
// None: nobody wants traces. kInvalid: what is there is no URL.
Result<std::optional<TraceOptions>> trace_options(const Config& config, std::string_view service,
                                                  const std::function<const char*(const char*)>& variable);
Result<std::optional<TraceOptions>> trace_options(const Config& config, std::string_view service);  // this process's variables

// How long to wait by a Retry-After header ("120", or an HTTP date), seen at `now_wall`; none where it is neither.
std::optional<Duration> retry_after(std::string_view value, Duration now_wall);

class TraceExporter {
 public:
  struct Counters {
    std::uint64_t spans = 0, sent = 0, waiting = 0;  // added, taken by the collector, not sent yet
    std::uint64_t dropped_full = 0;                  // there was no room
    std::uint64_t dropped_refused = 0;               // the collector will never take them
    std::uint64_t dropped_late = 0;                  // given up on
    std::uint64_t requests = 0, failures = 0;        // tries, and those that failed
  };

  // kUnsupported: there is no libcurl here.
  static Result<std::unique_ptr<TraceExporter>> open(TraceOptions options);
  ~TraceExporter();  // gives what waits kTraceLastWords
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;
  void add(std::vector<Span> spans);
  [[nodiscard]] Counters counters() const;

 private:
  struct Impl;
  explicit TraceExporter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace bourse
