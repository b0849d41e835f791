// A probe's answer as bytes, from the helper to whoever started it. The other end may be damaged by a vendor's driver: nothing of
// it is believed before it has been checked.
#include <cstring>

#include "agent/probes/probe.h"
#include "common/wire/wire.h"

namespace bourse {
namespace {

constexpr std::string_view kMark = "BRPR\1";
constexpr std::size_t kSourcesMax = 10'000;

void put_number(std::string& to, std::uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) to.push_back(static_cast<char>(number >> shift));
}
void put_text(std::string& to, std::string_view text) {
  put_number(to, static_cast<std::uint32_t>(text.size()));
  to += text;
}

struct Reader {
  std::string_view left;
  bool ok = true;
  std::uint32_t number() {
    if (left.size() < 4) return ok = false, 0;
    std::uint32_t n = 0;
    for (std::size_t i = 0; i < 4; ++i) n |= std::uint32_t{static_cast<std::uint8_t>(left[i])} << (8 * i);
    left.remove_prefix(4);
    return n;
  }
  std::string text() {
    const std::uint32_t size = number();
    if (!ok || size > left.size()) return ok = false, std::string();
    std::string out(left.substr(0, size));
    left.remove_prefix(size);
    return out;
  }
};

}  // namespace

std::string encode_report(const Result<ProbeReport>& report) {
  std::string out(kMark);
  put_number(out, report ? 0U : static_cast<std::uint32_t>(report.error().code()));
  if (!report) {
    put_text(out, report.error().text());
    return out;
  }
  put_text(out, wire::encode_inventory(report->inventory));
  put_number(out, static_cast<std::uint32_t>(report->sources.size()));
  for (const auto& [fact, source] : report->sources) {
    put_text(out, fact);
    put_text(out, source);
  }
  return out;
}

Result<ProbeReport> decode_report(std::string_view bytes) {
  const Error corrupt(Code::kCorrupt, "the helper's answer is not a report (" + std::to_string(bytes.size()) + " bytes)");
  if (bytes.substr(0, kMark.size()) != kMark) return corrupt;
  Reader in{bytes.substr(kMark.size())};
  const std::uint32_t code = in.number();
  if (code > static_cast<std::uint32_t>(Code::kUnsupported)) return corrupt;
  if (code != 0) {
    const std::string text = in.text();
    if (!in.ok || !in.left.empty()) return corrupt;
    return Error(static_cast<Code>(code), text);
  }
  ProbeReport report;
  const std::string inventory = in.text();
  const std::uint32_t sources = in.number();
  if (!in.ok || sources > kSourcesMax) return corrupt;
  for (std::uint32_t i = 0; i < sources && in.ok; ++i) {
    std::string fact = in.text();
    report.sources[std::move(fact)] = in.text();
  }
  if (!in.ok || !in.left.empty()) return corrupt;
  report.inventory = BOURSE_TRY(wire::decode_inventory(inventory));
  return report;
}

}  // namespace bourse
