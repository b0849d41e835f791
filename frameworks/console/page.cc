#include "frameworks/console/page.h"

#include <cstdint>

#include "common/world/digest.h"

namespace bourse::console {
namespace {

constexpr std::string_view kPage =
#include "console_page.inc"
    ;

std::string base64_of_hex(std::string_view hex) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : hex) {
    bits = bits << 4 | static_cast<std::uint32_t>(kHex.find(c));
    held += 4;
    if (held < 6) continue;
    held -= 6;
    out += kDigits[bits >> held & 63];
    bits &= (1U << held) - 1;
  }
  if (held > 0) out += kDigits[bits << (6 - held) & 63];
  while (out.size() % 4 != 0) out += '=';
  return out;
}

// " 'sha256-...'" for each element of that name. The page is our own: its tags are written plainly.
std::string hashes(std::string_view html, const std::string& element) {
  const std::string open = "<" + element + ">", close = "</" + element + ">";
  std::string out;
  for (std::size_t at = html.find(open); at != std::string_view::npos; at = html.find(open, at)) {
    at += open.size();
    const std::size_t end = html.find(close, at);
    if (end == std::string_view::npos) break;
    out += " 'sha256-" + base64_of_hex(sha256_hex(html.substr(at, end - at))) + "'";
    at = end;
  }
  return out.empty() ? " 'none'" : out;
}

}  // namespace

std::string_view page_html() { return kPage; }

std::string page_policy(std::string_view html) {
  return "default-src 'none'; script-src" + hashes(html, "script") + "; style-src" + hashes(html, "style") +
         "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
}

}  // namespace bourse::console
