#include "common/core/span.h"

namespace bourse {
namespace {

constexpr std::size_t kTextBytes = 55;  // of version 00

std::uint64_t mix(std::uint64_t x) {  // the finaliser of splitmix64: every bit of x reaches every bit of the result
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t h = mix(seed + 0x9e3779b97f4a7c15ULL);
  for (const char c : text) h = mix((h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL);
  return h == 0 ? 1 : h;  // an id of zeros is none
}

// Lower case only, as the standard wants it.
std::optional<std::uint64_t> hex(std::string_view digits) {
  std::uint64_t value = 0;
  for (const char c : digits) {
    if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) return std::nullopt;
    value = value << 4 | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return value;
}

std::string to_hex(std::uint64_t value) {
  std::string out(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) out[i] = "0123456789abcdef"[value & 15];
  return out;
}

}  // namespace

std::optional<TraceContext> parse_traceparent(std::string_view text) {
  if (text.size() < kTextBytes || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  const auto version = hex(text.substr(0, 2)), high = hex(text.substr(3, 16)), low = hex(text.substr(19, 16)),
             span = hex(text.substr(36, 16)), flags = hex(text.substr(53, 2));
  if (!version || *version == 0xff || !high || !low || !span || !flags) return std::nullopt;
  // Only a later version may say more.
  if (text.size() > kTextBytes && (*version == 0 || text[kTextBytes] != '-')) return std::nullopt;
  const TraceContext context{*high, *low, *span, (*flags & 1) != 0};
  return context ? std::optional(context) : std::nullopt;
}

std::string to_traceparent(const TraceContext& context) {
  return "00-" + trace_id_text(context) + "-" + span_id_text(context.span) + (context.sampled ? "-01" : "-00");
}

std::string trace_id_text(const TraceContext& context) { return to_hex(context.trace_high) + to_hex(context.trace_low); }
std::string span_id_text(std::uint64_t span) { return to_hex(span); }

TraceContext new_trace(std::string_view what) { return {hash(what, 1), hash(what, 2), hash(what, 3), true}; }

TraceContext span_of(const TraceContext& trace, std::string_view what) {
  TraceContext out = trace;
  out.span = hash(what, mix(trace.trace_high) ^ trace.trace_low);
  return out;
}

bool is_sampled(const TraceContext& trace, std::uint32_t permille) { return mix(trace.trace_low) % 1000 < permille; }

}  // namespace bourse
