#include "common/core/messages.h"

#include <array>

#include "common/core/one_of_members.h"

namespace bourse {

std::string_view decline_text(DeclineReason reason) {
  switch (reason) {
    case DeclineReason::kNoWork:
      return "no work";
    case DeclineReason::kTooSmall:
      return "too small";
    case DeclineReason::kLabels:
      return "labels";
    case DeclineReason::kLocality:
      return "locality";
    case DeclineReason::kReserved:
      return "reserved";
    case DeclineReason::kFull:
      return "full";
    case DeclineReason::kOther:
      return "other";
  }
  return "unknown";
}

namespace {
constexpr std::array<std::string_view, 41> kBodyNames = {
    "AgentHello",    "FrameworkHello", "ReaderHello",  "Welcome",      "Refused",      "Heartbeat",      "InventoryUpdate",
    "Goodbye",       "Demand",         "Offers",       "OffersEnded",  "Accept",       "AcceptReply",    "Decline",
    "CarveSlices",   "CommitGang",     "AbortGang",    "GangHeld",     "SliceUp",      "SliceGone",      "ReleaseSlices",
    "SliceRevoking", "Launch",         "Kill",         "StatusUpdate", "StatusAck",    "Reconcile",      "DeclareLost",
    "LaunchRefused", "AgentsUpdate",   "ExplainQuery", "ExplainReply", "StatusQuery",  "StatusReply",    "OperatorAction",
    "OperatorReply", "Watch",          "WatchAck",     "ViewUpdate",   "ReloadConfig", "ConfigReloaded",
};
// In the order of Body. The two ends and some in between pin that order down.
static_assert(kBodyNames.size() == Body::kCount);
template <std::size_t I, class T>
constexpr bool kIs = std::is_same_v<Body::Member<I>, T>;
static_assert(kIs<0, AgentHello> && kIs<7, Goodbye> && kIs<14, CarveSlices> && kIs<21, SliceRevoking> && kIs<24, StatusUpdate> &&
              kIs<28, LaunchRefused> && kIs<35, OperatorReply> && kIs<40, ConfigReloaded>);
}  // namespace

std::string_view body_name(const Body& body) { return body.valueless_by_exception() ? "none" : kBodyNames[body.index()]; }

template struct OneOf<Bodies>;

}  // namespace bourse
