// What frameworks, readers and operators may look at and ask.
#include "common/wire/bodies.h"

namespace bourse::wire {

using State = AgentFacts::State;
static_assert(same(fb::AgentState::Up, State::kUp) && same(fb::AgentState::Unreachable, State::kUnreachable) &&
              same(fb::AgentState::Draining, State::kDraining) && same(fb::AgentState::Cordoned, State::kCordoned) &&
              same(fb::AgentState::Removed, State::kRemoved) && same(fb::AgentState::MAX, State::kRemoved));

static Offset<fb::ReservedPart> write(Builder& b, const AgentFacts::Reserved& part) {
  const auto name = put(b, part.name);
  const auto role = put(b, part.role);
  return fb::CreateReservedPart(b, name, role, part.start.count(), part.end.count(), part.named, part.whole);
}

static bool read(In& in, const fb::ReservedPart& table, AgentFacts::Reserved& part) {
  part.named = table.named();
  part.whole = table.whole();
  return in.name(table.name(), part.name, "name") && in.name(table.role(), part.role, "role") &&
         in.duration(table.start_us(), part.start, "start") && in.duration(table.end_us(), part.end, "end");
}

static Offset<fb::AgentFacts> write(Builder& b, const AgentFacts& facts) {
  const auto agent = put(b, facts.agent);
  const auto total = put_resources(b, facts.total);
  const auto labels = put_map(b, facts.labels);
  const auto reserved = put_list(b, facts.reserved);
  return fb::CreateAgentFacts(b, agent, static_cast<fb::AgentState>(facts.state), total, labels, facts.incarnation.value,
                              facts.degraded, facts.closes.count(), facts.reopens.count(), reserved);
}

static bool read(In& in, const fb::AgentFacts& table, AgentFacts& facts) {
  facts.incarnation = Incarnation(table.incarnation());
  facts.degraded = table.degraded();
  return in.name(table.agent(), facts.agent, "agent") && in.enumerator(table.state(), facts.state, "state") &&
         read_part(in, table.total(), facts.total, "total") && in.map(table.labels(), facts.labels, "labels") &&
         in.duration(table.closes_us(), facts.closes, "closes") && in.duration(table.reopens_us(), facts.reopens, "reopens") &&
         read_list(in, table.reserved(), facts.reserved, "reserved");
}

static Offset<fb::ExplainCount> write(Builder& b, const ExplainReply::Count& count) {
  const auto reason = put(b, count.reason);
  return fb::CreateExplainCount(b, reason, count.agents);
}

static bool read(In& in, const fb::ExplainCount& table, ExplainReply::Count& count) {
  count.agents = table.agents();
  return in.text(table.reason(), count.reason, "reason");
}

static Offset<fb::StatusRow> write(Builder& b, const StatusReply::Row& row) {
  const auto name = put(b, row.name);
  const auto fields = put_pairs(b, row.fields);
  return fb::CreateStatusRow(b, name, fields);
}

static bool read(In& in, const fb::StatusRow& table, StatusReply::Row& row) {
  return in.text(table.name(), row.name, "name") && in.pairs(table.fields(), row.fields, "fields");
}

Offset<fb::AgentsUpdate> write(Builder& b, const AgentsUpdate& body) {
  const auto agents = put_list(b, body.agents);
  return fb::CreateAgentsUpdate(b, body.version.value, body.snapshot, body.more, agents);
}

bool read(In& in, const fb::AgentsUpdate& table, AgentsUpdate& body) {
  body.version = Version(table.version());
  body.snapshot = table.snapshot();
  body.more = table.more();
  return read_list(in, table.agents(), body.agents, "agents");
}

Offset<fb::ExplainQuery> write(Builder& b, const ExplainQuery& body) {
  const auto framework = put(b, body.framework);
  return fb::CreateExplainQuery(b, body.tag, framework, body.line);
}

bool read(In& in, const fb::ExplainQuery& table, ExplainQuery& body) {
  body.tag = table.tag();
  body.line = table.line();
  return in.optional_name(table.framework(), body.framework, "framework");  // empty: the framework that asks
}

Offset<fb::ExplainReply> write(Builder& b, const ExplainReply& body) {
  const auto counts = put_list(b, body.counts);
  const auto nearest = put(b, body.nearest);
  const auto last_offer = put(b, body.last_offer);
  const auto last_decline = put(b, body.last_decline);
  const auto rank = put(b, body.rank);
  const auto failing = put_list(b, body.failing);
  const auto asks = put(b, body.asks);
  const auto quota = put(b, body.quota);
  const auto estimate = put(b, body.estimate);
  return fb::CreateExplainReply(b, body.tag, static_cast<fb::Code>(body.code), body.agents, counts, nearest, last_offer,
                                last_decline, rank, failing, asks, quota, estimate, body.wanted, body.offered, body.unmet);
}

bool read(In& in, const fb::ExplainReply& table, ExplainReply& body) {
  body.tag = table.tag();
  body.agents = table.agents();
  body.wanted = table.wanted();
  body.offered = table.offered();
  body.unmet = table.unmet();
  return in.enumerator(table.code(), body.code, "code") && read_list(in, table.counts(), body.counts, "counts") &&
         in.text(table.nearest(), body.nearest, "nearest") && in.text(table.last_offer(), body.last_offer, "last_offer") &&
         in.text(table.last_decline(), body.last_decline, "last_decline") && in.text(table.rank(), body.rank, "rank") &&
         read_list(in, table.failing(), body.failing, "failing") && in.text(table.asks(), body.asks, "asks") &&
         in.text(table.quota(), body.quota, "quota") && in.text(table.estimate(), body.estimate, "estimate");
}

Offset<fb::StatusQuery> write(Builder& b, const StatusQuery& body) {
  const auto what = put(b, body.what);
  const auto after = put(b, body.after);
  return fb::CreateStatusQuery(b, body.tag, what, after, body.limit);
}

bool read(In& in, const fb::StatusQuery& table, StatusQuery& body) {
  body.tag = table.tag();
  body.limit = table.limit();
  return in.text(table.what(), body.what, "what") && in.text(table.after(), body.after, "after");
}

Offset<fb::StatusReply> write(Builder& b, const StatusReply& body) {
  const auto reason = put(b, body.reason);
  const auto rows = put_list(b, body.rows);
  return fb::CreateStatusReply(b, body.tag, static_cast<fb::Code>(body.code), reason, rows, body.more);
}

bool read(In& in, const fb::StatusReply& table, StatusReply& body) {
  body.tag = table.tag();
  body.more = table.more();
  return in.enumerator(table.code(), body.code, "code") && in.text(table.reason(), body.reason, "reason") &&
         read_list(in, table.rows(), body.rows, "rows");
}

Offset<fb::OperatorAction> write(Builder& b, const OperatorAction& body) {
  const auto action = put(b, body.action);
  const auto target = put(b, body.target);
  const auto reason = put(b, body.reason);
  const auto parameters = put_pairs(b, body.parameters);
  return fb::CreateOperatorAction(b, body.tag, action, target, reason, parameters);
}

bool read(In& in, const fb::OperatorAction& table, OperatorAction& body) {
  body.tag = table.tag();
  return in.text(table.action(), body.action, "action") && in.text(table.target(), body.target, "target") &&
         in.text(table.reason(), body.reason, "reason") && in.pairs(table.parameters(), body.parameters, "parameters");
}

Offset<fb::OperatorReply> write(Builder& b, const OperatorReply& body) {
  const auto reason = put(b, body.reason);
  return fb::CreateOperatorReply(b, body.tag, static_cast<fb::Code>(body.code), reason);
}

bool read(In& in, const fb::OperatorReply& table, OperatorReply& body) {
  body.tag = table.tag();
  return in.enumerator(table.code(), body.code, "code") && in.text(table.reason(), body.reason, "reason");
}

Offset<fb::Watch> write(Builder& b, const Watch& body) {
  const auto what = put_texts(b, body.what);
  const auto after = put(b, body.after);
  return fb::CreateWatch(b, body.tag, what, body.credit, after);
}

bool read(In& in, const fb::Watch& table, Watch& body) {
  body.tag = table.tag();
  body.credit = table.credit();
  return in.texts(table.what(), body.what, "what") && in.text(table.after(), body.after, "after");
}

Offset<fb::WatchAck> write(Builder& b, const WatchAck& body) { return fb::CreateWatchAck(b, body.tag, body.through.value); }

bool read(In& /*in*/, const fb::WatchAck& table, WatchAck& body) {
  body.tag = table.tag();
  body.through = Sequence(table.through());
  return true;
}

Offset<fb::ViewUpdate> write(Builder& b, const ViewUpdate& body) {
  const auto what = put(b, body.what);
  const auto rows = put_list(b, body.rows);
  const auto removed = put_texts(b, body.removed);
  const auto reason = put(b, body.reason);
  return fb::CreateViewUpdate(b, body.tag, body.sequence.value, what, body.snapshot, body.more, rows, removed,
                              static_cast<fb::Code>(body.code), reason);
}

bool read(In& in, const fb::ViewUpdate& table, ViewUpdate& body) {
  body.tag = table.tag();
  body.sequence = Sequence(table.sequence());
  body.snapshot = table.snapshot();
  body.more = table.more();
  return in.text(table.what(), body.what, "what") && read_list(in, table.rows(), body.rows, "rows") &&
         in.texts(table.removed(), body.removed, "removed") && in.enumerator(table.code(), body.code, "code") &&
         in.text(table.reason(), body.reason, "reason");
}

Offset<fb::ReloadConfig> write(Builder& b, const ReloadConfig& body) { return fb::CreateReloadConfig(b, body.tag); }

bool read(In& /*in*/, const fb::ReloadConfig& table, ReloadConfig& body) {
  body.tag = table.tag();
  return true;
}

Offset<fb::ConfigReloaded> write(Builder& b, const ConfigReloaded& body) {
  const auto text = put(b, body.text);
  return fb::CreateConfigReloaded(b, body.tag, static_cast<fb::Code>(body.code), text);
}

bool read(In& in, const fb::ConfigReloaded& table, ConfigReloaded& body) {
  body.tag = table.tag();
  return in.enumerator(table.code(), body.code, "code") && in.text(table.text(), body.text, "text");
}

}  // namespace bourse::wire
