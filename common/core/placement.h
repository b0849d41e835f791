// Where the slices of a group belong, seen from where they and others already are: a demand's rules beside its constraints.
//
// A group is a set of a framework's slices that belong together ("web", "job-17"): Shape.group names it. A rule is about the
// domains that a label makes of the agents: those of one `zone`, one `rack`, each `host` by itself, or any other label; an agent
// without the label is in no domain, and no required rule places anything there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/ids.h"
#include "common/core/result.h"

namespace bourse {

constexpr std::size_t kPlacementsMax = 8;  // rules of one shape

struct Placement {
  enum class Kind : std::uint8_t {
    kSpread,        // over the domains: the fullest has at most max_skew more of the group than the emptiest that could take one
    kPack,          // into one domain; preferred: into as few as will do
    kAffinity,      // into a domain where there is a slice of `framework`#`group`
    kAntiAffinity,  // into one where there is none
  };
  Kind kind = Kind::kSpread;
  std::string level;           // the label
  std::uint32_t max_skew = 1;  // kSpread
  bool required = true;        // else a preference: the next best will do
  // kAffinity and kAntiAffinity: whose slices. No framework: this one. No group: with a framework all that it has, without one the
  // shape's own group.
  FrameworkId framework = {};
  std::string group = {};
  bool operator==(const Placement&) const = default;
};

// "spread zone", "spread zone:2", "prefer pack rack", "affinity host of store#db", "anti-affinity host", "anti-affinity rack of #web";
// several are joined by ';'. The normal text parses back.
Result<std::vector<Placement>> parse_placements(std::string_view text);
std::string to_text(const Placement& placement);
std::string to_text(const std::vector<Placement>& placements);
[[nodiscard]] Result<> check(const Placement& placement);  // kInvalid: a level or name that is none, a skew of 0

}  // namespace bourse
