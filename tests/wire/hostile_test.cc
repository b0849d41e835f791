// What a peer may send that our encoder never would, each refused with a code and the field's name.
#include <gtest/gtest.h>

#include <chrono>

#include "bourse_generated.h"
#include "common/core/hooks.h"
#include "common/wire/wire.h"
#include "tests/wire/samples.h"

namespace bourse::test {
namespace {

using Fbb = flatbuffers::FlatBufferBuilder;

std::string bytes_of(const Fbb& b) { return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()}; }

// A message around a body that was made by hand.
template <class T>
std::string envelope(Fbb& b, flatbuffers::Offset<T> body, std::uint32_t version = 1,
                     fb::Body type = fb::BodyTraits<T>::enum_value) {
  fb::FinishMessageBuffer(b, fb::CreateMessage(b, version, 1, 1, 0, type, body.Union()));
  return bytes_of(b);
}

void expect_refused(const std::string& bytes, Code code, const std::string& says) {
  const auto decoded = wire::decode(bytes);
  ASSERT_FALSE(decoded) << "accepted; expected: " << says;
  EXPECT_EQ(decoded.error().code(), code) << decoded.error().text();
  EXPECT_NE(decoded.error().text().find(says), std::string::npos) << decoded.error().text();
}

void expect_refused(Body body, Code code, const std::string& says) {
  expect_refused(wire::encode({Epoch(1), Incarnation(1), "", std::move(body)}), code, says);
}

const AgentId kAgent{"a"};
const FrameworkId kFramework{"f"};
const SliceId kSlice{kFramework, 1};
const TaskId kTask{"t"};

Offer offer_of(Resources resources = {}) {
  Offer offer;
  offer.agent = kAgent;
  offer.resources = std::move(resources);
  return offer;
}

StatusUpdate status_of(const TaskId& task) {
  StatusUpdate update{kAgent, kFramework, {}, {}, kSlice, {}};
  update.status.task = task;
  return update;
}

// --- envelope --------------------------------------------------------------------------------------------------------

TEST(Envelope, WhatIsNotAMessageIsCorrupt) {
  expect_refused(std::string(), Code::kCorrupt, "too few");
  expect_refused(std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), Code::kCorrupt, "not the bytes of one");
  expect_refused(std::string(1000, '\0'), Code::kCorrupt, "not the bytes of one");
  expect_refused(std::string("\xff\xff\xff\xff"
                             "BRSE",
                             8) +
                     std::string(64, '\xff'),
                 Code::kCorrupt, "damaged");
  expect_refused(wire::encode_task(sample_task()), Code::kCorrupt, "BRSE");
}

TEST(Envelope, ANewerVersionIsNamedAsSuch) {
  Fbb b;
  expect_refused(envelope(b, fb::CreateGoodbye(b), 2), Code::kVersion, "version 2");
  Fbb c;
  expect_refused(envelope(c, fb::CreateGoodbye(c), 0), Code::kCorrupt, "message.version");
}

TEST(Envelope, AnUnknownKindOfBodyIsAVersionMatter) {
  Fbb b;
  expect_refused(envelope(b, fb::CreateGoodbye(b), 1, static_cast<fb::Body>(200)), Code::kVersion, "kind 200");
}

TEST(Envelope, AMissingBodyIsCorrupt) {
  Fbb b;
  fb::FinishMessageBuffer(b, fb::CreateMessage(b, 1));
  expect_refused(bytes_of(b), Code::kCorrupt, "message.body");
  Fbb c;
  fb::MessageBuilder m(c);
  m.add_version(1);
  m.add_body_type(fb::Body::Launch);
  fb::FinishMessageBuffer(c, m.Finish());
  expect_refused(bytes_of(c), Code::kCorrupt, "Launch: the body is missing");
}

TEST(Envelope, AFieldThatALaterVersionAddsIsIgnored) {  // rule 5 of the schema, from the older side
  Fbb b;
  const auto start = b.StartTable();
  b.AddElement<std::uint8_t>(4, 1, 0);                      // Goodbye.forever
  b.AddElement<std::uint64_t>(4 + 2 * 9, 0x0123456789, 0);  // a tenth field, which this version has not
  const flatbuffers::Offset<fb::Goodbye> body(b.EndTable(start));
  const auto decoded = wire::decode(envelope(b, body));
  ASSERT_TRUE(decoded) << decoded.error().text();
  EXPECT_TRUE(std::get<Goodbye>(decoded->body).forever);
}

TEST(Envelope, AnOlderPeerWithoutLaterFieldsMeansTheirDefaults) {
  Fbb b;
  const auto decoded = wire::decode(envelope(b, fb::CreateDemand(b)));
  ASSERT_TRUE(decoded) << decoded.error().text();
  EXPECT_TRUE(std::get<Demand>(decoded->body) == Demand{});
}

// --- limits ----------------------------------------------------------------------------------------------------------

TEST(Limits, AMessageOverTheLimitIsNotEvenLookedAt) {
  expect_refused(std::string(wire::kMessageBytesMax + 1, 'x'), Code::kLimit, "8388609 bytes");
  expect_refused(Launch{kAgent, kSlice, kTask, std::string(wire::kMessageBytesMax, 'x')}, Code::kLimit, "it may have 8388608");
}

TEST(Limits, TextsAndLists) {
  expect_refused(Refused{Code::kBusy, std::string(wire::kTextBytesMax + 1, 'x')}, Code::kLimit, "Refused.reason: 65537 bytes");
  const auto longest = wire::decode(wire::encode({Epoch(1), Incarnation(1), "", Refused{Code::kBusy, std::string(65536, 'x')}}));
  EXPECT_TRUE(longest);
  InventoryUpdate update;
  update.inventory.notes = {"fine", std::string(wire::kTextBytesMax + 1, 'x')};
  expect_refused(update, Code::kLimit, "InventoryUpdate.inventory.notes[1]: 65537 bytes");
  expect_refused(Reconcile{kAgent, kFramework, std::vector<TaskId>(wire::kListMax + 1, kTask)}, Code::kLimit,
                 "Reconcile.tasks: 200001 elements");
  EXPECT_TRUE(
      wire::decode(wire::encode({Epoch(1), {}, "", Reconcile{kAgent, kFramework, std::vector<TaskId>(wire::kListMax, kTask)}})));
  Welcome welcome;
  welcome.masters.assign(kMastersMax + 1, "tcp://m:7400");
  expect_refused(welcome, Code::kLimit, "Welcome.masters: 65 elements; it may have 64");
  welcome.masters.pop_back();
  EXPECT_TRUE(wire::decode(wire::encode({Epoch(1), {}, "", welcome})));
  SliceUp up{kAgent, {}};
  up.spec.id = kSlice;
  up.spec.cpuset.resize(wire::kListMax + 1);
  expect_refused(up, Code::kLimit, "SliceUp.spec.cpuset: 200001 elements");
  expect_refused(OffersEnded{std::vector<OffersEnded::Item>(wire::kListMax + 1)}, Code::kLimit,
                 "OffersEnded.items: 200001 elements");
}

TopologyNode tower(std::size_t levels) {
  TopologyNode node{"pu", 0, "", 0, {}, {}};
  for (std::size_t i = 1; i < levels; ++i) {
    TopologyNode above{"group", 0, "", 0, {}, {}};
    above.children.push_back(std::move(node));
    node = std::move(above);
  }
  return node;
}

TEST(Limits, TopologyDepth) {
  InventoryUpdate update;
  update.inventory.topology = tower(wire::kTopologyDepthMax);
  EXPECT_TRUE(wire::decode(wire::encode({Epoch(1), {}, "", update})));
  update.inventory.topology = tower(wire::kTopologyDepthMax + 1);
  expect_refused(update, Code::kLimit, "16 levels deep");
  update.inventory.topology = tower(1000);
  expect_refused(update, Code::kCorrupt, "damaged");
}

TEST(Limits, TheTextOfALongPathNamesTheField) {
  Demand demand{Version(1), {}, false, std::vector<DemandLine>(4)};
  demand.lines[3].shape.devices = {{"gpu/", 1, true, "", {}, {{"model", Constraint::Op::kIn, {"b", "a"}}}}};
  expect_refused(demand, Code::kCorrupt, "Demand.lines[3].shape.devices[0].attributes[0].values[1]: values are not in order");
}

// --- parts that share a place ------------------------------------------------------------------------------------------

double seconds_of(const std::string& bytes) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(wire::decode(bytes));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Sharing, ATopologyOfSharedChildrenDoesNotUnfold) {
  Fbb b;  // 16 levels of two references each to one child: 300 bytes that claim 65,535 nodes
  auto node = fb::CreateTopologyNode(b);
  for (int i = 1; i < 16; ++i) {
    const std::vector<flatbuffers::Offset<fb::TopologyNode>> twice = {node, node};
    node = fb::CreateTopologyNode(b, 0, 0, 0, 0, 0, b.CreateVector(twice));
  }
  const auto inventory = fb::CreateInventory(b, 1, node);
  expect_refused(envelope(b, fb::CreateInventoryUpdate(b, inventory)), Code::kCorrupt, "overlap");
}

TEST(Sharing, WideSharingIsCutByTheVerifier) {
  Fbb b;  // three levels of a thousand references to one child: 10^9 nodes
  auto node = fb::CreateTopologyNode(b);
  for (int i = 0; i < 3; ++i) {
    const std::vector<flatbuffers::Offset<fb::TopologyNode>> many(1000, node);
    node = fb::CreateTopologyNode(b, 0, 0, 0, 0, 0, b.CreateVector(many));
  }
  const auto inventory = fb::CreateInventory(b, 1, node);
  const std::string bytes = envelope(b, fb::CreateInventoryUpdate(b, inventory));
  expect_refused(bytes, Code::kCorrupt, "more parts");
  EXPECT_LT(seconds_of(bytes), 2.0);
}

TEST(Sharing, OneLongTextInAThousandPlacesDoesNotFillMemory) {
  Fbb b;
  const auto text = b.CreateString(std::string(60'000, 'x'));
  const auto row = fb::CreateStatusRow(b, text);
  const std::vector<flatbuffers::Offset<fb::StatusRow>> rows(100'000, row);  // 6 GB of text
  const std::string bytes = envelope(b, fb::CreateStatusReply(b, 1, fb::Code::Ok, 0, b.CreateVector(rows)));
  expect_refused(bytes, Code::kCorrupt, "overlap");
  EXPECT_LT(seconds_of(bytes), 2.0);
}

TEST(Sharing, OneListOfTextsInManyPlacesCostsTheVerifierNothing) {
  Fbb b;
  const std::vector<std::uint32_t> lengths(200'000, 0);
  const auto texts = fb::CreateTexts(b, b.CreateVector(lengths));
  const auto row = fb::CreateStatusRow(b, 0, texts);
  const std::vector<flatbuffers::Offset<fb::StatusRow>> rows(190'000, row);  // 38 billion texts
  const std::string bytes = envelope(b, fb::CreateStatusReply(b, 1, fb::Code::Ok, 0, b.CreateVector(rows)));
  expect_refused(bytes, Code::kCorrupt, "overlap");
  EXPECT_LT(seconds_of(bytes), 2.0);
}

// --- values ----------------------------------------------------------------------------------------------------------

TEST(Values, NamesAreChecked) {
  for (const char* bad : {"", "../etc", "/abs", "a b", "a\nb", ".hidden", "a;rm"}) {
    expect_refused(Launch{AgentId(bad), kSlice, kTask, ""}, Code::kCorrupt, "Launch.agent");
    expect_refused(Launch{kAgent, {FrameworkId(bad), 1}, kTask, ""}, Code::kCorrupt, "Launch.slice.framework");
    expect_refused(Launch{kAgent, kSlice, TaskId(bad), ""}, Code::kCorrupt, "Launch.task");
    expect_refused(StatusAck{kAgent, FrameworkId(bad), {}, {}}, Code::kCorrupt, "StatusAck.framework");
    expect_refused(Reconcile{kAgent, kFramework, {kTask, TaskId(bad)}}, Code::kCorrupt, "Reconcile.tasks[1]");
    expect_refused(status_of(TaskId(bad)), Code::kCorrupt, "StatusUpdate.status.task");
    expect_refused(FrameworkHello{1, FrameworkId(bad), RoleName("r"), {}, {}, {}, false}, Code::kCorrupt,
                   "FrameworkHello.framework");
  }
  expect_refused(AgentHello{}, Code::kCorrupt, "AgentHello.agent: is missing");
  expect_refused(AgentHello{1, AgentId(std::string(129, 'x')), {}, {}, "", {}, {}, false}, Code::kCorrupt, "AgentHello.agent");
  expect_refused(FrameworkHello{1, kFramework, RoleName("../r"), {}, {}, {}, false}, Code::kCorrupt, "FrameworkHello.role");
  Resources r;
  r.devices = {{DeviceId("a b"), "gpu", {}, true, "", {}}};
  expect_refused(Offers{{offer_of(r)}}, Code::kCorrupt, "Offers.offers[0].resources.devices[0].device");
}

TEST(Values, AmountsAndDurationsAreNotBelowZero) {
  Demand demand{Version(1), {}, false, std::vector<DemandLine>(1)};
  demand.lines[0].shape.cpus = MilliCpus(-5);
  expect_refused(demand, Code::kCorrupt, "Demand.lines[0].shape.cpus: -5 is below zero");
  Offer offer = offer_of();
  offer.resources.mem = Bytes(-1);
  expect_refused(Offers{{offer}}, Code::kCorrupt, "Offers.offers[0].resources.mem");
  offer.resources.mem = Bytes(0);
  offer.resources.disk = Bytes(-1);
  expect_refused(Offers{{offer}}, Code::kCorrupt, "Offers.offers[0].resources.disk");
  offer = offer_of();
  offer.ttl = Duration(-1);
  expect_refused(Offers{{offer}}, Code::kCorrupt, "Offers.offers[0].ttl");
  expect_refused(Heartbeat{Duration(-1)}, Code::kCorrupt, "Heartbeat.wall");
  expect_refused(ReleaseSlices{{kSlice}, Duration(-1)}, Code::kCorrupt, "ReleaseSlices.grace");
  StatusUpdate update = status_of(kTask);
  update.status.mem_peak = Bytes(-1);
  expect_refused(update, Code::kCorrupt, "StatusUpdate.status.mem_peak");
  expect_refused(Kill{kAgent, kFramework, kTask, 65, false, {}, false}, Code::kCorrupt, "Kill.signal");
  expect_refused(Kill{kAgent, kFramework, kTask, -9, false, {}, false}, Code::kCorrupt, "Kill.signal");
}

TEST(Values, UnknownEnumeratorsAreRefused) {
  Fbb b;
  expect_refused(envelope(b, fb::CreateRefused(b, static_cast<fb::Code>(13))), Code::kCorrupt, "Refused.code: 13");
  Fbb c;
  const std::vector<flatbuffers::Offset<fb::OfferEnded>> ends = {fb::CreateOfferEnded(c, 1, static_cast<fb::OfferEnd>(4))};
  expect_refused(envelope(c, fb::CreateOffersEnded(c, c.CreateVector(ends))), Code::kCorrupt, "OffersEnded.items[0].end: 4");
  Fbb d;
  const auto status = fb::CreateTaskStatus(d, d.CreateString("t"), static_cast<fb::TaskState>(255));
  const auto agent = d.CreateString("a");
  expect_refused(envelope(d, fb::CreateStatusUpdate(d, agent, agent, 1, 1, 0, status)), Code::kCorrupt,
                 "StatusUpdate.status.state: 255");
}

TEST(Values, MissingPartsAreNamed) {
  Fbb b;
  expect_refused(envelope(b, fb::CreateSliceUp(b, b.CreateString("a"))), Code::kCorrupt, "SliceUp.spec: is missing");
  Fbb c;
  expect_refused(envelope(c, fb::CreateLaunch(c, c.CreateString("a"))), Code::kCorrupt, "Launch.slice: is missing");
}

TEST(Values, ATextWithAZeroByteIsRefused) {
  expect_refused(Refused{Code::kBusy, std::string("a\0b", 3)}, Code::kCorrupt, "Refused.reason: has a zero byte");
  TaskSpec spec;
  spec.argv = {"/bin/sh", std::string("-c\0", 3)};
  const auto decoded = wire::decode_task(wire::encode_task(spec));
  ASSERT_FALSE(decoded);
  EXPECT_NE(decoded.error().text().find("argv[1]: has a zero byte"), std::string::npos) << decoded.error().text();
}

TEST(Values, OrderedListsMustBeInOrder) {
  Offer offer = offer_of();
  offer.resources.devices = {{DeviceId("b"), "gpu", {}, true, "", {}}, {DeviceId("a"), "gpu", {}, true, "", {}}};
  expect_refused(Offers{{offer}}, Code::kCorrupt, "devices: are not in order");
  offer.resources.devices = {{DeviceId("b"), "gpu", {}, true, "", {}}, {DeviceId("b"), "gpu", {}, true, "", {}}};
  expect_refused(Offers{{offer}}, Code::kCorrupt, "devices: are not in order");
  offer.resources = {};
  offer.resources.numa = {{1, MilliCpus(0), Bytes(0)}, {0, MilliCpus(0), Bytes(0)}};
  expect_refused(Offers{{offer}}, Code::kCorrupt, "numa: nodes are not in order");
}

TEST(Values, NumaNodesAddUpToTheTotal) {
  Offer offer = offer_of();
  offer.resources.cpus = MilliCpus(3000);
  offer.resources.numa = {{0, MilliCpus(1000), Bytes(0)}, {1, MilliCpus(1000), Bytes(0)}};
  expect_refused(Offers{{offer}}, Code::kCorrupt, "cpus of the nodes do not add up");
  offer.resources.numa = {{0, MilliCpus(INT64_MAX), Bytes(0)}, {1, MilliCpus(INT64_MAX), Bytes(0)}};
  expect_refused(Offers{{offer}}, Code::kCorrupt, "numa: amounts overflow");
}

flatbuffers::Offset<fb::Texts> texts(Fbb& b, const std::vector<std::uint32_t>& lengths, const std::string& bytes) {
  return fb::CreateTexts(b, b.CreateVector(lengths),
                         b.CreateVector(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
}

std::string labelled(Fbb& b, flatbuffers::Offset<fb::Texts> labels) {
  return envelope(b, fb::CreateInventoryUpdate(b, fb::CreateInventory(b, 1, 0, 0, 0, labels)));
}

TEST(Values, PackedTextsMustAddUp) {
  Fbb b;
  expect_refused(labelled(b, texts(b, {1, 2}, "ab")), Code::kCorrupt, "labels[1]: is longer than its bytes");
  Fbb c;
  expect_refused(labelled(c, texts(c, {1, 1}, "abc")), Code::kCorrupt, "labels: has bytes that belong to no text");
  Fbb d;
  expect_refused(labelled(d, texts(d, {1, 1, 1}, "abc")), Code::kCorrupt, "labels: the last key has no value");
  Fbb e;
  expect_refused(labelled(e, texts(e, {1, 1, 1, 1}, "bxax")), Code::kCorrupt, "labels[2]: keys are not in order");
  Fbb f;
  expect_refused(labelled(f, texts(f, {0xffffffff, 3}, "ab")), Code::kCorrupt, "labels[0]: is longer than its bytes");
  Fbb g;
  expect_refused(labelled(g, texts(g, {1, 1, 1, 1}, "axay")), Code::kCorrupt, "labels[2]: keys are not in order");
}

std::string with_others(Fbb& b, const std::vector<std::uint32_t>& lengths, const std::string& names,
                        const std::vector<std::int64_t>& amounts) {
  const auto counters = fb::CreateCounters(b, texts(b, lengths, names), b.CreateVector(amounts));
  const auto resources = fb::CreateResources(b, 0, 0, 0, 0, counters);
  return envelope(b, fb::CreateInventoryUpdate(b, fb::CreateInventory(b, 1, 0, 0, resources)));
}

TEST(Values, CountersArePairsInOrderAndAboveZero) {
  Fbb b, c, d, e, f;
  expect_refused(with_others(b, {1, 1}, "ba", {1, 1}), Code::kCorrupt, "others.names[1]: names are not in order");
  expect_refused(with_others(c, {1}, "a", {0}), Code::kCorrupt, "others.names[0]: 0 is not above zero");
  expect_refused(with_others(d, {1, 1}, "ab", {1}), Code::kCorrupt, "others.names[1]: has no amount");
  expect_refused(with_others(e, {1}, "a", {1, 2}), Code::kCorrupt, "others: has amounts without names");
  expect_refused(with_others(f, {1}, " ", {1}), Code::kCorrupt, "others.names[0]: is not a name");
}

std::string with_ports(Fbb& b, const std::vector<fb::PortRange>& ranges) {
  const auto resources = fb::CreateResources(b, 0, 0, 0, b.CreateVectorOfStructs(ranges));
  return envelope(b, fb::CreateInventoryUpdate(b, fb::CreateInventory(b, 1, 0, 0, resources)));
}

TEST(Values, PortRangesAreSortedDisjointAndApart) {
  Fbb b, c, d, e, f;
  expect_refused(with_ports(b, {{10, 9}}), Code::kCorrupt, "ports");
  expect_refused(with_ports(c, {{10, 20}, {15, 30}}), Code::kCorrupt, "ports");
  expect_refused(with_ports(d, {{10, 20}, {21, 30}}), Code::kCorrupt, "ports");
  expect_refused(with_ports(e, {{10, 20}, {1, 2}}), Code::kCorrupt, "ports");
  const auto decoded = wire::decode(with_ports(f, {{10, 20}, {22, 22}, {60000, 65535}}));
  ASSERT_TRUE(decoded) << decoded.error().text();
  EXPECT_EQ(std::get<InventoryUpdate>(decoded->body).inventory.total.ports.text(), "10-20,22,60000-65535");
}

TEST(Values, TaskSpecificationsAreChecked) {
  TaskSpec spec;
  spec.umask = 010000;
  auto decoded = wire::decode_task(wire::encode_task(spec));
  ASSERT_FALSE(decoded);
  EXPECT_NE(decoded.error().text().find("task specification.umask"), std::string::npos) << decoded.error().text();
  EXPECT_FALSE(wire::decode_task(wire::encode_slice(sample_slice()))) << "another root's bytes";
  EXPECT_FALSE(wire::decode_slice(wire::encode_task(sample_task())));
  spec = {};
  spec.warn_signal = 99;
  EXPECT_FALSE(wire::decode_task(wire::encode_task(spec)));
  spec = {};
  spec.credential = std::string(wire::kTextBytesMax + 1, 'x');
  decoded = wire::decode_task(wire::encode_task(spec));
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code(), Code::kLimit);
}

// The checks above are what refuses: without one of them, what it is about gets through.
TEST(Values, EachCheckIsWhatRefuses) {
  const auto accepted_without = [](const char* check, Body body) {
    const std::string bytes = wire::encode({Epoch(1), Incarnation(1), "", std::move(body)});
    EXPECT_FALSE(wire::decode(bytes)) << check;
    hooks::set_mutants(check);
    EXPECT_TRUE(wire::decode(bytes)) << check;
    hooks::set_mutants("");
  };
  accepted_without("wire.names_unchecked", Launch{AgentId("../etc"), kSlice, kTask, ""});
  accepted_without("wire.amounts_unchecked", Heartbeat{Duration(-1)});
  accepted_without("wire.size_unchecked", Launch{kAgent, kSlice, kTask, std::string(wire::kMessageBytesMax, 'x')});
}

}  // namespace
}  // namespace bourse::test
