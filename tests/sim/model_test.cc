// The models themselves: virtual time, network, disk. What ZeroMQ and disks promise, and no more.
#include <gtest/gtest.h>

#include "common/sim/disk.h"
#include "common/sim/network.h"
#include "common/sim/queue.h"

namespace bourse::sim {
namespace {

void drain(EventQueue& queue) {
  while (queue.run_one()) {}
}

TEST(VirtualTime, CallsComeInOrderAndACancelledOneDoesNot) {
  EventQueue queue;
  std::string order;
  queue.after(seconds(2), [&] { order += "c"; });
  queue.after(seconds(1), [&] { order += "a"; });
  const auto handle = queue.after(seconds(1), [&] { order += "x"; });
  queue.after(seconds(1), [&] {
    order += "b";
    queue.after(Duration(0), [&] { order += "B"; });
  });
  queue.cancel(handle);
  queue.cancel(handle);  // harmless
  drain(queue);
  EXPECT_EQ(order, "abBc");
  EXPECT_EQ(queue.now(), seconds(2));
}

TEST(VirtualTime, AHandleOfACallThatHappenedCancelsNothingElse) {
  EventQueue queue;
  int calls = 0;
  const auto first = queue.after(seconds(1), [&] { ++calls; });
  drain(queue);
  queue.after(seconds(1), [&] { ++calls; });  // takes the same slot
  queue.cancel(first);
  drain(queue);
  EXPECT_EQ(calls, 2);
}

struct Wire {
  explicit Wire(NetworkOptions options = {}) : network(queue, Rng(1), options, hooks()) {}
  Network::Hooks hooks() {
    Network::Hooks h;
    h.server_up = [this](Network::ServerIx) { return up; };
    h.to_server = [this](Network::ServerIx, PeerId peer, std::string identity, Message message) {
      peers.push_back(peer);
      identities.push_back(identity);
      at_server.push_back(std::get<Goodbye>(message.body).forever ? 1 : static_cast<int>(message.incarnation.value));
    };
    h.server_lost_peer = [this](Network::ServerIx, PeerId) { ++told; };
    h.to_client = [this](Network::ClientIx, Message message) { at_client.push_back(static_cast<int>(message.incarnation.value)); };
    h.client_lost_server = [this](Network::ClientIx) { ++told; };
    h.violation = [](std::string text) { ADD_FAILURE() << text; };
    return h;
  }
  static Message numbered(std::uint64_t n) {
    Message m;
    m.incarnation = Incarnation(n);
    m.body = Goodbye{};
    return m;
  }
  EventQueue queue;
  bool up = true;
  std::vector<PeerId> peers;
  std::vector<std::string> identities;
  std::vector<int> at_server, at_client;
  int told = 0;
  Network network;
};

TEST(NetworkModel, OnePairIsFirstInFirstOutWhateverTheDelays) {
  NetworkOptions options;
  options.slow_permille = 300;
  Wire wire(options);
  wire.network.client_up(3, "agent:h1");
  std::vector<int> sent;
  for (int i = 0; i < 500; ++i) {
    sent.push_back(i);
    wire.queue.after(milliseconds(i), [&wire, i] { wire.network.send_up(3, Wire::numbered(static_cast<std::uint64_t>(i))); });
  }
  drain(wire.queue);
  EXPECT_EQ(wire.at_server, sent);
  EXPECT_EQ(wire.identities.front(), "agent:h1");
  for (int i = 0; i < 500; ++i) wire.network.send_down(wire.peers.front(), Wire::numbered(static_cast<std::uint64_t>(i)));
  drain(wire.queue);
  EXPECT_EQ(wire.at_client, sent);
}

TEST(NetworkModel, WhatIsQueuedWhileTheServerIsDownReachesItsSuccessorUnderAnotherPeerId) {
  Wire wire;
  wire.network.client_up(3, "agent:h1");
  wire.network.send_up(3, Wire::numbered(1));
  drain(wire.queue);
  wire.up = false;
  wire.network.server_down();
  wire.network.send_up(3, Wire::numbered(2));
  drain(wire.queue);
  EXPECT_EQ(wire.at_server, std::vector<int>{1});
  wire.up = true;
  wire.network.server_up();
  drain(wire.queue);
  EXPECT_EQ(wire.at_server, (std::vector<int>{1, 2}));
  EXPECT_NE(wire.peers[0], wire.peers[1]);
  wire.network.send_down(wire.peers[0], Wire::numbered(9));  // the old name leads nowhere
  drain(wire.queue);
  EXPECT_TRUE(wire.at_client.empty());
}

TEST(NetworkModel, AResetLosesWhatIsUnderWayAndAFullQueueLosesTheRestSilently) {
  NetworkOptions options;
  options.high_water_mark = 5;
  options.full_is_noticed = false;
  options.peer_lost_permille = 0;
  Wire wire(options);
  wire.network.client_up(3, "");
  wire.network.send_up(3, Wire::numbered(1));
  drain(wire.queue);
  wire.network.send_up(3, Wire::numbered(2));
  wire.network.reset(3);
  drain(wire.queue);
  EXPECT_EQ(wire.at_server, std::vector<int>{1});
  wire.network.block(3, true, false);
  for (std::uint64_t i = 10; i < 30; ++i) wire.network.send_up(3, Wire::numbered(i));
  drain(wire.queue);
  wire.network.block(3, false, false);
  drain(wire.queue);
  EXPECT_EQ(wire.at_server, (std::vector<int>{1, 10, 11, 12, 13, 14}));
  EXPECT_EQ(wire.told, 0);
}

Append power(std::string record) { return {Safety::kPower, std::move(record)}; }
Append process(std::string record) { return {Safety::kProcess, std::move(record)}; }

TEST(DiskModel, AFlushedRecordSurvivesPowerLossAndAnUnflushedOneMayNot) {
  bool lost = false, kept = false;
  for (std::uint64_t seed = 1; seed < 50; ++seed) {
    EventQueue queue;
    Disk disk(queue, Rng(seed), {});
    bool safe = false;
    disk.append({power("a")}, {}, [&](const Result<>& r) { safe = !!r; });
    EXPECT_FALSE(safe);
    while (queue.run_one()) {}
    EXPECT_TRUE(safe);
    bool at_once = false;
    disk.append({process("b")}, {}, [&](const Result<>& r) { at_once = !!r; });
    EXPECT_TRUE(at_once);
    EXPECT_EQ(disk.load(Incarnation(2)).records.size(), 2u);  // a kill of the process loses nothing
    disk.power_loss();
    const auto records = disk.load(Incarnation(2)).records;
    ASSERT_GE(records.size(), 1u);
    EXPECT_EQ(records[0], "a");
    (records.size() == 2 ? kept : lost) = true;
  }
  EXPECT_TRUE(lost && kept);
}

TEST(DiskModel, ASnapshotReplacesRecordsAndAFullDiskRefusesWhole) {
  EventQueue queue;
  Disk disk(queue, Rng(1), {});
  disk.append({power("a"), power("b")}, {}, [](const Result<>&) {});
  disk.append({power("c")}, "snap", [](const Result<>&) {});
  disk.append({power("d")}, {}, [](const Result<>&) {});
  while (queue.run_one()) {}
  const Started started = disk.load(Incarnation(3));
  EXPECT_EQ(started.snapshot, "snap");
  EXPECT_EQ(started.records, std::vector<std::string>{"d"});
  disk.set_full(true);
  std::string refusal;
  disk.append({power("e"), power("f")}, {}, [&](const Result<>& r) { refusal = r ? "" : r.error().text(); });
  while (queue.run_one()) {}
  EXPECT_NE(refusal.find("No space left"), std::string::npos);
  EXPECT_EQ(disk.load(Incarnation(4)).records, std::vector<std::string>{"d"});
}

}  // namespace
}  // namespace bourse::sim
