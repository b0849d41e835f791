// A span, as OpenTelemetry has it: a piece of work with its beginning and end, and its place in a trace (W3C Trace Context, level 1).
//
// Plain values. Actors make them (Actions::span); where they go is the driver's: common/world/trace_export.h sends them, the simulator
// and programs without a collector drop them. An actor that is not told to trace makes none. Ids come from what they are about and not
// from chance, so a restarted process, and the simulator, make the same ones again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/core/time.h"

namespace bourse {

// What travels as `traceparent`: which trace, which span of it, and whether anybody wants to keep it.
struct TraceContext {
  std::uint64_t trace_high = 0, trace_low = 0;  // both 0: none
  std::uint64_t span = 0;
  bool sampled = false;
  [[nodiscard]] explicit operator bool() const { return (trace_high | trace_low) != 0 && span != 0; }
  bool operator==(const TraceContext&) const = default;
};

// "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01". None for what the standard calls invalid; a later version is read as this one.
std::optional<TraceContext> parse_traceparent(std::string_view text);
std::string to_traceparent(const TraceContext& context);

std::string trace_id_text(const TraceContext& context);  // 32 hexadecimal digits
std::string span_id_text(std::uint64_t span);            // 16

// A new trace about `what`, which should name it in the whole world: cluster, framework, job, moment. Its span is its first one.
TraceContext new_trace(std::string_view what);
// The span of this trace that is about `what`: another one for each text, the same one each time.
TraceContext span_of(const TraceContext& trace, std::string_view what);
// Whether a trace that began here is among the `permille` that are kept.
bool is_sampled(const TraceContext& trace, std::uint32_t permille);

struct Span {
  enum class Kind : std::uint8_t { kInternal = 1, kServer, kClient, kProducer, kConsumer };  // numbers of the protocol
  using Value = std::variant<std::string, std::int64_t>;

  TraceContext context;
  std::uint64_t parent = 0;  // 0: it is the first of its trace
  std::string name;
  Kind kind = Kind::kInternal;
  Duration start{0}, end{0};  // wall time
  bool failed = false;
  std::string message = {};  // why it failed
  std::vector<std::pair<std::string, Value>> attributes = {};
};

}  // namespace bourse
