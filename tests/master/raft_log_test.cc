// What a master keeps of the replicated log, and what masters say to each other: as bytes.
#include <gtest/gtest.h>

#include <cstring>

#include "common/core/rng.h"
#include "master/raft_wire.h"
#include "master/raft_world.h"
#include "master/registry.h"

namespace bourse::test {
namespace {

std::string some_text(Rng& rng) {
  std::string text;
  for (std::uint64_t n = rng.below(40); n > 0; --n) text.push_back(static_cast<char>(rng.below(256)));
  return text;
}

RaftLog some_log(Rng& rng) {
  RaftLog log;
  log.name = "m" + std::to_string(rng.below(9));
  log.cluster = rng.next();
  log.term = rng.below(1000);
  log.vote = rng.next();
  log.snapshot = {rng.below(100) + 1, rng.below(9) + 1, 1, {{raft_id_of("m1"), "m1", "tcp://h:1", 1}}, some_text(rng)};
  log.first = log.snapshot.index + 1;
  for (std::uint64_t n = rng.below(20); n > 0; --n)
    log.append(log.last() + 1, {log.term, static_cast<std::uint8_t>(1 + rng.below(3)), some_text(rng)});
  return log;
}

void expect_same(const RaftLog& a, const RaftLog& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.cluster, b.cluster);
  EXPECT_EQ(a.term, b.term);
  EXPECT_EQ(a.vote, b.vote);
  EXPECT_EQ(a.snapshot, b.snapshot);
  EXPECT_EQ(a.first, b.first);
  EXPECT_EQ(a.entries, b.entries);
}

TEST(RaftLog, WhatIsReadIsWhatWasWritten) {
  Rng rng(4);
  for (int i = 0; i < 200; ++i) {
    const RaftLog log = some_log(rng);
    RaftLog read;
    ASSERT_TRUE(read.load(log.whole(), {}));
    expect_same(read, log);
  }
}

TEST(RaftLog, RecordsComeToWhatWasDone) {
  Rng rng(5);
  for (int i = 0; i < 200; ++i) {
    RaftLog log = some_log(rng);
    const std::string begun = log.whole();
    std::vector<std::string> records;
    for (int step = 0; step < 30; ++step) {
      if (rng.chance(600)) {
        RaftEntry entry{log.term, 1, some_text(rng)};
        records.push_back(RaftLog::entry_record(log.last() + 1, entry));
        log.append(log.last() + 1, std::move(entry));
      } else if (rng.chance(500)) {
        const std::uint64_t from = log.first + rng.below(log.entries.size() + 1);
        records.push_back(RaftLog::cut_record(from));
        log.cut(from);
      } else {
        ++log.term;
        log.vote = rng.next();
        records.push_back(RaftLog::term_record(log.term, log.vote));
      }
    }
    RaftLog read;
    ASSERT_TRUE(read.load(begun, records));
    expect_same(read, log);
  }
}

TEST(RaftLog, ASnapshotKeepsTheEntriesBehindItAndSomeBeforeIt) {
  RaftLog log;
  for (std::uint64_t i = 1; i <= 50; ++i) log.append(i, {1, 1, std::to_string(i)});
  log.snapshot_taken({40, 1, 1, {}, "s"}, 10);
  EXPECT_EQ(log.first, 31U);
  EXPECT_EQ(log.last(), 50U);
  EXPECT_EQ(log.at(31)->data, "31");
  EXPECT_EQ(log.at(30), nullptr);
  log.snapshot_taken({90, 2, 1, {}, "t"}, 0);  // of a leader far ahead
  EXPECT_EQ(log.first, 91U);
  EXPECT_EQ(log.last(), 90U);
}

TEST(RaftLog, WhatIsCutShortOrOutOfPlaceIsRefused) {
  Rng rng(6);
  const RaftLog log = some_log(rng);
  const std::string whole = log.whole();
  for (std::size_t n = 1; n < whole.size(); ++n) {
    RaftLog read;
    EXPECT_FALSE(read.load(whole.substr(0, n), {})) << n;
  }
  RaftLog read;
  auto gap = read.load(whole, {RaftLog::entry_record(log.last() + 2, {1, 1, "x"})});
  ASSERT_FALSE(gap);
  EXPECT_EQ(gap.error().code(), Code::kCorrupt);
  auto newer = read.load("\x09 of the future", {});
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code(), Code::kVersion);
  EXPECT_FALSE(read.load(whole, {"\x7f"}));
}

// The registry of a master of before replication is taken over; a program of that time refuses ours rather than begin anew.
TEST(RaftLog, TheFormerRegistryIsToldFromOursByBoth) {
  house::LogRegistry registry;
  Actions out;
  out.ticket = 1;
  registry.lead("c", out);
  registry.put_agent(AgentId("h1"), out);
  registry.durable(1);
  std::vector<std::string> records;
  for (const Append& a : out.appends) records.push_back(a.record);
  EXPECT_TRUE(RaftLog::takes_over("", records));
  EXPECT_TRUE(RaftLog::takes_over(registry.snapshot(), {}));
  RaftLog ours;
  ours.name = "m1";
  EXPECT_FALSE(RaftLog::takes_over(ours.whole(), {RaftLog::term_record(1, 0)}));
  EXPECT_FALSE(RaftLog::takes_over("", {}));
  house::LogRegistry old;
  const auto refused = old.replay(ours.whole(), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kVersion);
}

// --- messages ----------------------------------------------------------------------------------------------------------

RaftHeader header() { return {77, "m2", "tcp://10.0.0.2:7401", 123456, 99, 4'000'000}; }

// Without its last number it is one of a master that did not have that yet.
void expect_cut_short(const std::string& bytes) {
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_EQ(static_cast<bool>(decode_raft(std::string_view(bytes).substr(0, n))), n + 8 == bytes.size()) << n;
  EXPECT_EQ(decode_raft(std::string_view(bytes).substr(0, bytes.size() - 8))->promise, 0U);
}

TEST(RaftWire, EntriesArriveAsTheyLeft) {
  std::string first = "first", second("sec\0nd", 6);
  raft_entry entries[2] = {};
  entries[0].term = 3;
  entries[0].type = RAFT_COMMAND;
  entries[0].buf = {first.data(), first.size()};
  entries[1].term = 4;
  entries[1].type = RAFT_CHANGE;
  entries[1].buf = {second.data(), second.size()};
  raft_message message{};
  message.type = RAFT_IO_APPEND_ENTRIES;
  message.append_entries = {9, 11, 3, 10, entries, 2};
  const std::string bytes = encode_raft(header(), message);
  auto back = decode_raft(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->cluster, 77U);
  EXPECT_EQ(back->name, "m2");
  EXPECT_EQ(back->address, "tcp://10.0.0.2:7401");
  EXPECT_EQ(back->stamp, 123456U);
  EXPECT_EQ(back->echo, 99U);
  EXPECT_EQ(back->promise, 4'000'000U);
  const raft_append_entries& m = std::get<RaftMessage>(back->body).value.append_entries;
  EXPECT_EQ(m.term, 9U);
  EXPECT_EQ(m.prev_log_index, 11U);
  EXPECT_EQ(m.prev_log_term, 3U);
  EXPECT_EQ(m.leader_commit, 10U);
  ASSERT_EQ(m.n_entries, 2U);
  EXPECT_EQ(m.entries[1].term, 4U);
  EXPECT_EQ(m.entries[1].type, RAFT_CHANGE);
  EXPECT_EQ(std::string(static_cast<const char*>(m.entries[1].buf.base), m.entries[1].buf.len), second);
  expect_cut_short(bytes);
}

TEST(RaftWire, ASnapshotBringsItsConfiguration) {
  raft_message message{};
  message.type = RAFT_IO_INSTALL_SNAPSHOT;
  raft_install_snapshot& s = message.install_snapshot;
  s.term = 5;
  s.last_index = 100;
  s.last_term = 4;
  s.conf_index = 2;
  fill_configuration({{raft_id_of("m1"), "m1", "tcp://a:1", RAFT_VOTER}, {raft_id_of("m2"), "m2", "tcp://b:2", RAFT_SPARE}},
                     s.conf);
  std::string data = "registry";
  s.data = {data.data(), data.size()};
  const std::string bytes = encode_raft(header(), message);
  const auto servers = servers_of(s.conf);
  raft_configuration_close(&s.conf);
  auto back = decode_raft(bytes);
  ASSERT_TRUE(back);
  const raft_install_snapshot& r = std::get<RaftMessage>(back->body).value.install_snapshot;
  EXPECT_EQ(servers_of(r.conf), servers);
  EXPECT_EQ(servers[1].address, "tcp://b:2");
  EXPECT_EQ(std::string(static_cast<const char*>(r.data.base), r.data.len), data);
  EXPECT_EQ(r.conf_index, 2U);
  expect_cut_short(bytes);
}

TEST(RaftWire, VotesAndPings) {
  raft_message message{};
  message.type = RAFT_IO_REQUEST_VOTE;
  message.request_vote = {7, 42, 100, 6, true, false};
  auto vote = decode_raft(encode_raft(header(), message));
  ASSERT_TRUE(vote);
  const raft_request_vote& v = std::get<RaftMessage>(vote->body).value.request_vote;
  EXPECT_TRUE(v.term == 7 && v.candidate_id == 42 && v.last_log_index == 100 && v.last_log_term == 6 && v.disrupt_leader &&
              !v.pre_vote);
  message = {};
  message.type = RAFT_IO_REQUEST_VOTE_RESULT;
  message.request_vote_result = {7, true, raft_tribool_true};
  auto result = decode_raft(encode_raft(header(), message));
  ASSERT_TRUE(result);
  EXPECT_EQ(std::get<RaftMessage>(result->body).value.request_vote_result.pre_vote, raft_tribool_true);
  const RaftPing ping{3, true, seconds(1'700'000'000), false, "tcp://m2:7400"};
  auto back = decode_raft(encode_ping(header(), ping));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::get<RaftPing>(back->body), ping);
}

TEST(RaftWire, NoiseIsRefused) {
  Rng rng(7);
  raft_message message{};
  message.type = RAFT_IO_APPEND_ENTRIES_RESULT;
  message.append_entries_result = {1, 2, 3};
  const std::string good = encode_raft(header(), message);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    for (std::uint64_t n = 1 + rng.below(4); n > 0; --n) bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    if (rng.chance(300)) bytes.resize(rng.below(bytes.size() + 1));
    static_cast<void>(decode_raft(bytes));  // refused or taken, but nothing else happens
  }
  EXPECT_FALSE(decode_raft("hello"));
  EXPECT_FALSE(decode_raft(""));
}

TEST(RaftWire, RecordsOfOneStepAreOneEntry) {
  const std::vector<std::string> records = {"a", "", std::string("\0b", 2)};
  EXPECT_EQ(*unpack_records(pack_records(records)), records);
  EXPECT_FALSE(unpack_records("\x05"));
  EXPECT_FALSE(unpack_records(std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8)));
}

// --- configuration -----------------------------------------------------------------------------------------------------

TEST(RaftWorld, APeerHasANameAndAnEndpointThatOthersReach) {
  const auto peer = parse_peer("m2=tcp://10.0.0.2:7401");
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->name, "m2");
  EXPECT_EQ(peer->address, "tcp://10.0.0.2:7401");
  for (const char* wrong : {"", "m2", "=tcp://h:1", "m2=h:1", "m2=tcp://h", "m2=tcp://*:7401", "m 2=tcp://h:1", "m2=tcp://h:"})
    EXPECT_FALSE(parse_peer(wrong)) << wrong;
}

TEST(RaftWorld, AnEndpointOfEveryAddressIsNamedByTheHostOfTheOther) {
  EXPECT_EQ(endpoint_for_others("tcp://10.0.0.1:7400", "tcp://m1:7401"), "tcp://10.0.0.1:7400");
  EXPECT_EQ(endpoint_for_others("tcp://0.0.0.0:7400", "tcp://m1:7401"), "tcp://m1:7400");
  EXPECT_EQ(endpoint_for_others("tcp://*:7400", "tcp://[fe80::1]:7401"), "tcp://[fe80::1]:7400");
  EXPECT_EQ(endpoint_for_others("tcp://*:7400", ""), "");
  EXPECT_EQ(endpoint_for_others("ipc:///run/m", ""), "ipc:///run/m");
}

}  // namespace
}  // namespace bourse::test
