// The master's part of traces: how long an offer was open until it was taken, and how long the slice took from then on.
//
// Owned by the house, and idle unless it is to trace (MasterOptions::trace). It looks on: at accepts that come with a trace context, and at
// what becomes of their slices; nothing depends on it. What it remembers is bounded, and lost with the leadership.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/core/ids.h"
#include "common/core/inventory.h"
#include "common/core/messages.h"
#include "common/core/span.h"

namespace bourse::house {

struct House;
struct OfferRow;

class MasterTracer {
 public:
  static constexpr std::size_t kTracedMax = 20'000;  // slices that are being made; what comes beyond is not traced

  // `offer` is about to become `slices`, by an accept with this context.
  void taken(House& house, const std::string& trace, const OfferRow& offer, const std::vector<SliceSpec>& slices);
  void slice_up(House& house, const SliceId& slice) { over(house, slice, {}); }
  void slice_ended(House& house, const SliceId& slice, const std::string& reason) {
    over(house, slice, reason.empty() ? "it was given up" : reason);
  }

 private:
  struct Traced {
    TraceContext context;
    Duration came{0};  // wall
    std::string agent;
  };
  void over(House& house, const SliceId& slice, const std::string& failure);

  std::map<SliceId, Traced> slices_;
};

}  // namespace bourse::house
