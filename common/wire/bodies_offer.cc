// Demand, offers and their answers.
#include "common/wire/bodies.h"

namespace bourse::wire {

static_assert(same(fb::OfferEnd::Expired, OfferEnd::kExpired) && same(fb::OfferEnd::Rescinded, OfferEnd::kRescinded) &&
              same(fb::OfferEnd::AgentLost, OfferEnd::kAgentLost) && same(fb::OfferEnd::DemandGone, OfferEnd::kDemandGone) &&
              same(fb::OfferEnd::MAX, OfferEnd::kDemandGone));
static_assert(same(fb::DeclineReason::NoWork, DeclineReason::kNoWork) &&
              same(fb::DeclineReason::TooSmall, DeclineReason::kTooSmall) &&
              same(fb::DeclineReason::Labels, DeclineReason::kLabels) &&
              same(fb::DeclineReason::Locality, DeclineReason::kLocality) &&
              same(fb::DeclineReason::Reserved, DeclineReason::kReserved) && same(fb::DeclineReason::Full, DeclineReason::kFull) &&
              same(fb::DeclineReason::Other, DeclineReason::kOther) && same(fb::DeclineReason::MAX, DeclineReason::kOther));

static Offset<fb::DemandLine> write(Builder& b, const DemandLine& line) {
  const auto shape = write(b, line.shape);
  const auto reservation = put(b, line.reservation);
  return fb::CreateDemandLine(b, line.id, shape, line.count, line.gang_min, line.priority, line.lasts.count(), reservation);
}

static bool read(In& in, const fb::DemandLine& table, DemandLine& line) {
  line.id = table.id();
  line.count = table.count();
  line.gang_min = table.gang_min();
  line.priority = table.priority();
  return read_part(in, table.shape(), line.shape, "shape") && in.duration(table.lasts_us(), line.lasts, "lasts") &&
         in.optional_name(table.reservation(), line.reservation, "reservation");
}

static Offset<fb::Offer> write(Builder& b, const Offer& offer) {
  const auto agent = put(b, offer.agent);
  const auto resources = put_resources(b, offer.resources);
  const auto total = put_resources(b, offer.agent_total);
  const auto labels = put_map(b, offer.labels);
  const auto reserved = put(b, offer.reserved);
  return fb::CreateOffer(b, offer.id.value, offer.generation.value, agent, resources, total, labels, offer.ttl.count(), offer.line,
                         offer.reservation.value, offer.revocable, reserved, offer.lasts.count());
}

static bool read(In& in, const fb::Offer& table, Offer& offer) {
  offer.id = OfferId(table.id());
  offer.generation = Generation(table.generation());
  offer.line = table.line();
  offer.reservation = GangId(table.reservation());
  offer.revocable = table.revocable();
  return in.name(table.agent(), offer.agent, "agent") && read_part(in, table.resources(), offer.resources, "resources") &&
         read_part(in, table.agent_total(), offer.agent_total, "agent_total") && in.map(table.labels(), offer.labels, "labels") &&
         in.duration(table.ttl_us(), offer.ttl, "ttl") && in.optional_name(table.reserved(), offer.reserved, "reserved") &&
         in.duration(table.lasts_us(), offer.lasts, "lasts");
}

static Offset<fb::OfferEnded> write(Builder& b, const OffersEnded::Item& item) {
  return fb::CreateOfferEnded(b, item.offer.value, static_cast<fb::OfferEnd>(item.end));
}

static bool read(In& in, const fb::OfferEnded& table, OffersEnded::Item& item) {
  item.offer = OfferId(table.offer());
  return in.enumerator(table.end(), item.end, "end");
}

static Offset<fb::AcceptSlice> write(Builder& b, const Accept::Slice& slice) {
  const auto shape = write(b, slice.shape);
  return fb::CreateAcceptSlice(b, slice.number, shape, slice.expiry.count(), slice.line);
}

static bool read(In& in, const fb::AcceptSlice& table, Accept::Slice& slice) {
  slice.number = table.number();
  slice.line = table.line();
  return read_part(in, table.shape(), slice.shape, "shape") && in.duration(table.expiry_us(), slice.expiry, "expiry");
}

static Offset<fb::AcceptItem> write(Builder& b, const Accept::Item& item) {
  const auto slices = put_list(b, item.slices);
  return fb::CreateAcceptItem(b, item.offer.value, item.generation.value, slices, item.keep_rest);
}

static bool read(In& in, const fb::AcceptItem& table, Accept::Item& item) {
  item.offer = OfferId(table.offer());
  item.generation = Generation(table.generation());
  item.keep_rest = table.keep_rest();
  return read_list(in, table.slices(), item.slices, "slices");
}

static Offset<fb::AcceptAnswer> write(Builder& b, const AcceptReply::Item& item) {
  const auto reason = put(b, item.reason);
  return fb::CreateAcceptAnswer(b, item.offer.value, static_cast<fb::Code>(item.code), reason);
}

static bool read(In& in, const fb::AcceptAnswer& table, AcceptReply::Item& item) {
  item.offer = OfferId(table.offer());
  return in.enumerator(table.code(), item.code, "code") && in.text(table.reason(), item.reason, "reason");
}

static Offset<fb::DeclineItem> write(Builder& b, const Decline::Item& item) {
  const auto text = put(b, item.text);
  return fb::CreateDeclineItem(b, item.offer.value, static_cast<fb::DeclineReason>(item.reason), text, item.hold_off.count());
}

static bool read(In& in, const fb::DeclineItem& table, Decline::Item& item) {
  item.offer = OfferId(table.offer());
  return in.enumerator(table.reason(), item.reason, "reason") && in.text(table.text(), item.text, "text") &&
         in.duration(table.hold_off_us(), item.hold_off, "hold_off");
}

Offset<fb::Demand> write(Builder& b, const Demand& body) {
  const auto lines = put_list(b, body.lines);
  return fb::CreateDemand(b, body.version.value, body.last_accept.value, body.wildcard, lines);
}

bool read(In& in, const fb::Demand& table, Demand& body) {
  body.version = Version(table.version());
  body.last_accept = Sequence(table.last_accept());
  body.wildcard = table.wildcard();
  return read_list(in, table.lines(), body.lines, "lines");
}

Offset<fb::Offers> write(Builder& b, const Offers& body) {
  const auto offers = put_list(b, body.offers);
  return fb::CreateOffers(b, offers);
}

bool read(In& in, const fb::Offers& table, Offers& body) { return read_list(in, table.offers(), body.offers, "offers"); }

Offset<fb::OffersEnded> write(Builder& b, const OffersEnded& body) {
  const auto items = put_list(b, body.items);
  return fb::CreateOffersEnded(b, items);
}

bool read(In& in, const fb::OffersEnded& table, OffersEnded& body) { return read_list(in, table.items(), body.items, "items"); }

Offset<fb::Accept> write(Builder& b, const Accept& body) {
  const auto items = put_list(b, body.items);
  return fb::CreateAccept(b, body.sequence.value, body.all_or_nothing, body.gang.value, items);
}

bool read(In& in, const fb::Accept& table, Accept& body) {
  body.sequence = Sequence(table.sequence());
  body.all_or_nothing = table.all_or_nothing();
  body.gang = GangId(table.gang());
  return read_list(in, table.items(), body.items, "items");
}

Offset<fb::AcceptReply> write(Builder& b, const AcceptReply& body) {
  const auto items = put_list(b, body.items);
  return fb::CreateAcceptReply(b, body.sequence.value, items);
}

bool read(In& in, const fb::AcceptReply& table, AcceptReply& body) {
  body.sequence = Sequence(table.sequence());
  return read_list(in, table.items(), body.items, "items");
}

Offset<fb::Decline> write(Builder& b, const Decline& body) {
  const auto items = put_list(b, body.items);
  return fb::CreateDecline(b, items);
}

bool read(In& in, const fb::Decline& table, Decline& body) { return read_list(in, table.items(), body.items, "items"); }

}  // namespace bourse::wire
