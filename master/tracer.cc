#include "master/tracer.h"

#include <algorithm>
#include <utility>

#include "master/house.h"

namespace bourse::house {
namespace {

Span make(const TraceContext& over, std::string name, const std::string& about, Duration start, Duration end) {
  Span span;
  span.context = span_of(over, name + " " + about + " of " + span_id_text(over.span));
  span.parent = over.span;
  span.name = std::move(name);
  span.start = std::min(start, end), span.end = end;
  return span;
}

}  // namespace

void MasterTracer::taken(House& h, const std::string& trace, const OfferRow& offer, const std::vector<SliceSpec>& slices) {
  if (!h.options.trace || trace.empty()) return;
  const auto context = parse_traceparent(trace);
  if (!context || !context->sampled) return;
  const std::string agent = h.agents.at(offer.agent).id.str(), id = std::to_string(offer.id.value);
  Span span = make(*context, "master.offer", id, offer.made, h.now.wall);
  span.attributes = {
      {"bourse.agent", agent}, {"bourse.framework", h.frameworks.at(offer.framework).id.str()}, {"bourse.offer", id}};
  h.out->span(std::move(span));
  for (const SliceSpec& slice : slices)
    if (slices_.size() < kTracedMax) slices_.insert_or_assign(slice.id, Traced{*context, h.now.wall, agent});
}

void MasterTracer::over(House& h, const SliceId& slice, const std::string& failure) {
  const auto it = slices_.find(slice);
  if (it == slices_.end()) return;
  Span span = make(it->second.context, "master.accept", to_text(slice), it->second.came, h.now.wall);
  span.kind = Span::Kind::kServer;
  span.attributes = {{"bourse.agent", it->second.agent}, {"bourse.slice", to_text(slice)}};
  span.failed = !failure.empty(), span.message = failure;
  h.out->span(std::move(span));
  slices_.erase(it);
}

}  // namespace bourse::house
