// Slices and gangs come and go.
#include "common/wire/bodies.h"

namespace bourse::wire {

static_assert(same(fb::SliceEnd::Released, SliceEnd::kReleased) && same(fb::SliceEnd::Idle, SliceEnd::kIdle) &&
              same(fb::SliceEnd::Revoked, SliceEnd::kRevoked) && same(fb::SliceEnd::CarveFailed, SliceEnd::kCarveFailed) &&
              same(fb::SliceEnd::AgentLost, SliceEnd::kAgentLost) && same(fb::SliceEnd::HostReboot, SliceEnd::kHostReboot) &&
              same(fb::SliceEnd::Unknown, SliceEnd::kUnknown) && same(fb::SliceEnd::GangAborted, SliceEnd::kGangAborted) &&
              same(fb::SliceEnd::MAX, SliceEnd::kGangAborted));

Offset<fb::CarveSlices> write(Builder& b, const CarveSlices& body) {
  const auto slices = put_list(b, body.slices);
  return fb::CreateCarveSlices(b, slices, body.hold, body.hold_ttl.count());
}

bool read(In& in, const fb::CarveSlices& table, CarveSlices& body) {
  body.hold = table.hold();
  return read_list(in, table.slices(), body.slices, "slices") && in.duration(table.hold_ttl_us(), body.hold_ttl, "hold_ttl");
}

Offset<fb::CommitGang> write(Builder& b, const CommitGang& body) {
  const auto framework = put(b, body.framework);
  return fb::CreateCommitGang(b, framework, body.gang.value);
}

bool read(In& in, const fb::CommitGang& table, CommitGang& body) {
  body.gang = GangId(table.gang());
  return in.name(table.framework(), body.framework, "framework");
}

Offset<fb::AbortGang> write(Builder& b, const AbortGang& body) {
  const auto framework = put(b, body.framework);
  return fb::CreateAbortGang(b, framework, body.gang.value);
}

bool read(In& in, const fb::AbortGang& table, AbortGang& body) {
  body.gang = GangId(table.gang());
  return in.name(table.framework(), body.framework, "framework");
}

Offset<fb::GangHeld> write(Builder& b, const GangHeld& body) {
  const auto framework = put(b, body.framework);
  const auto reason = put(b, body.reason);
  return fb::CreateGangHeld(b, framework, body.gang.value, static_cast<fb::Code>(body.code), reason);
}

bool read(In& in, const fb::GangHeld& table, GangHeld& body) {
  body.gang = GangId(table.gang());
  return in.name(table.framework(), body.framework, "framework") && in.enumerator(table.code(), body.code, "code") &&
         in.text(table.reason(), body.reason, "reason");
}

Offset<fb::SliceUp> write(Builder& b, const SliceUp& body) {
  const auto agent = put(b, body.agent);
  const auto spec = write(b, body.spec);
  const auto unhealthy = put(b, body.unhealthy);
  return fb::CreateSliceUp(b, agent, spec, unhealthy);
}

bool read(In& in, const fb::SliceUp& table, SliceUp& body) {
  return in.name(table.agent(), body.agent, "agent") && read_must(in, table.spec(), body.spec, "spec") &&
         in.text(table.unhealthy(), body.unhealthy, "unhealthy");
}

Offset<fb::SliceGone> write(Builder& b, const SliceGone& body) {
  const auto agent = put(b, body.agent);
  const auto slice = write(b, body.slice);
  const auto reason = put(b, body.reason);
  return fb::CreateSliceGone(b, agent, slice, static_cast<fb::SliceEnd>(body.end), reason);
}

bool read(In& in, const fb::SliceGone& table, SliceGone& body) {
  return in.name(table.agent(), body.agent, "agent") && read_must(in, table.slice(), body.slice, "slice") &&
         in.enumerator(table.end(), body.end, "end") && in.text(table.reason(), body.reason, "reason");
}

Offset<fb::ReleaseSlices> write(Builder& b, const ReleaseSlices& body) {
  const auto slices = put_list(b, body.slices);
  const auto reason = put(b, body.reason);
  return fb::CreateReleaseSlices(b, slices, body.grace.count(), body.revoke, reason);
}

bool read(In& in, const fb::ReleaseSlices& table, ReleaseSlices& body) {
  body.revoke = table.revoke();
  return read_list(in, table.slices(), body.slices, "slices") && in.duration(table.grace_us(), body.grace, "grace") &&
         in.text(table.reason(), body.reason, "reason");
}

Offset<fb::SliceRevoking> write(Builder& b, const SliceRevoking& body) {
  const auto slice = write(b, body.slice);
  const auto reason = put(b, body.reason);
  return fb::CreateSliceRevoking(b, slice, body.grace.count(), reason);
}

bool read(In& in, const fb::SliceRevoking& table, SliceRevoking& body) {
  return read_must(in, table.slice(), body.slice, "slice") && in.duration(table.grace_us(), body.grace, "grace") &&
         in.text(table.reason(), body.reason, "reason");
}

}  // namespace bourse::wire
