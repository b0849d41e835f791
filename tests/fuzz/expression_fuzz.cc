// Any text is refused, or is an expression whose normal text means the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/core/labels.h"
#include "common/core/placement.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bourse;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto parsed = parse_constraints(text)) {
    const auto again = parse_constraints(to_text(*parsed));
    if (!again || !(*again == *parsed)) std::abort();
    (void)satisfies({{"zone", "a"}, {"host", "h1"}}, *parsed);
  }
  if (const auto parsed = parse_placements(text)) {
    const auto again = parse_placements(to_text(*parsed));
    if (!again || !(*again == *parsed)) std::abort();
  }
  return 0;
}
