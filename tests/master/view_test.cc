// What readers are told of the master: all of it, only what changed, and nothing while nobody reads.
#include <gtest/gtest.h>

#include "master/reader_store.h"
#include "master/status.h"
#include "master/view.h"
#include "tests/master/rig.h"

namespace bourse::test {
namespace {

constexpr std::uint64_t kR = 31;

struct Watcher : Rig {
  std::map<std::string, ReaderTable> tables;
  std::uint64_t flush = 0, flushed = 0;
  std::size_t rows = 0;

  Watcher() {
    for (const std::string_view what : house::kViewTables) tables.emplace(std::string(what), ReaderTable(what == "events"));
    say(kR, ReaderHello{kProtocolVersion, "eve"});
    sent.clear();
  }
  void take_views() {
    for (const ViewUpdate& update : std::exchange(views, {})) {
      rows += update.rows.size();
      if (update.what.empty())
        flushed = std::max(flushed, update.sequence.value);
      else
        tables.at(update.what).apply(update);
    }
  }
  // What a reader does that wants to know now.
  void look() {
    step(Watched{true, ++flush});
    take_views();
    const auto many = [this] { return !tables.at("offers").ready() || !tables.at("slices").ready(); };
    for (int i = 0; i < 1000 && (flushed < flush || many()); ++i) run(milliseconds(5)), take_views();
  }
  std::vector<StatusReply::Row> page(const std::string& what) {
    std::vector<StatusReply::Row> out;
    std::string after;
    for (bool more = true; more;) {
      say(kR, StatusQuery{1, what, after, 0});
      StatusReply reply = take<StatusReply>(kR).at(0);
      more = reply.more;
      for (auto& row : reply.rows) out.push_back(std::move(row));
      if (!out.empty()) after = out.back().name;
    }
    return out;
  }
  void expect_same(const std::string& what) {
    auto told = tables.at(what).page("", 1'000'000).rows, is = page(what);
    const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
    std::sort(told.begin(), told.end(), by_name), std::sort(is.begin(), is.end(), by_name);
    ASSERT_EQ(told.size(), is.size()) << what;
    const auto text = [](const StatusReply::Row& row) {
      std::string out = row.name;
      for (const auto& [name, value] : row.fields)
        if (!name.starts_with("expires_")) out += " " + name + "=" + value;  // when, or in how long
      return out;
    };
    for (std::size_t i = 0; i < is.size(); ++i) ASSERT_EQ(text(told[i]), text(is[i])) << what;
  }
};

TEST(View, NothingIsToldWhileNobodyReads) {
  Watcher h;
  h.agent(1, "h1", amount(8, 16));
  h.framework(2, "f");
  h.demand(2, {line(1, shape(1, 1), 100)});
  h.run(seconds(20));
  EXPECT_TRUE(h.views.empty());
  h.look();
  h.expect_same("agents");
  h.step(Watched{false, 0});
  h.views.clear();
  h.agent(3, "h2", amount(8, 16));
  h.run(seconds(20));
  EXPECT_TRUE(h.views.empty()) << "and again when the last has gone";
}

// The tables that a reader builds up of changes are those that the master shows when it is asked, whatever happens.
TEST(View, WhatChangesAddUpToIsWhatIs) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    Watcher h;
    std::map<std::uint64_t, std::vector<Offer>> offers;
    std::map<std::uint64_t, std::uint64_t> sequences;
    std::uint64_t slice = 0, life = 1;
    const auto agent_name = [&] { return "h" + std::to_string(rng.below(6)); };
    for (int i = 0; i < 120; ++i) {
      const std::uint64_t f = 100 + rng.below(3);
      const std::string name = "f" + std::to_string(f);
      switch (rng.below(10)) {
        case 0:
          h.agent(200 + rng.below(6), agent_name(), amount(static_cast<std::int64_t>(1 + rng.below(16)), 16), ++life);
          break;
        case 1:
          h.framework(f, name, ++life);
          sequences[f] = 0;
          break;
        case 2:
          h.demand(f, {line(1, shape(1, 1), static_cast<std::uint32_t>(rng.below(9))), line(2, shape(64, 1), 3)}, sequences[f]);
          break;
        case 3:
          h.pass();
          for (std::uint64_t p = 100; p < 103; ++p) offers[p] = h.offers(p);
          break;
        case 4:
          if (!offers[f].empty()) h.say(f, Rig::accept(++sequences[f], offers[f].front(), ++slice, shape(1, 1)));
          offers[f].clear();
          break;
        case 5:
          h.say(kR, OperatorAction{1, rng.chance(500) ? "cordon" : "uncordon", agent_name(), "why"});
          break;
        case 6:
          h.say(kR, OperatorAction{1, "set-role", "role-" + name, "", {{"weight", std::to_string(1 + rng.below(9))}}});
          break;
        case 7:
          h.run(seconds(static_cast<std::int64_t>(rng.below(15))));
          break;
        case 8:
          h.say(kR, OperatorAction{1, "remove-agent", agent_name(), "gone"});
          break;
        default:
          if (rng.chance(300)) h.say(f, Goodbye{rng.chance(500)});
      }
      h.take_views();
      if (!rng.chance(400)) continue;
      h.say(kR, ReaderHello{kProtocolVersion, "eve"});
      h.sent.clear();
      h.look();
      for (const char* what : {"agents", "frameworks", "offers", "slices", "demand", "roles", "events"}) {
        h.expect_same(what);
        if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << i;
      }
    }
  }
}

TEST(View, ACostGoesWithWhatChangesNotWithTheClustersSize) {
  const auto rows_for_ten_changes = [](int agents) {
    Watcher h;
    for (int i = 0; i < agents; ++i) h.agent(1000 + static_cast<std::uint64_t>(i), "h" + std::to_string(i), amount(8, 16));
    h.look();
    h.rows = 0;
    for (int i = 0; i < 10; ++i) {
      h.say(kR, OperatorAction{1, "cordon", "h1", "why"});
      h.look();
    }
    return h.rows;
  };
  const std::size_t few = rows_for_ten_changes(50), many = rows_for_ten_changes(400);
  EXPECT_LE(many, few + few / 5) << "ten changes in 50 and in 400 agents";
}

TEST(View, NoStepTellsMoreThanItsShare) {
  Watcher h;
  for (int i = 0; i < 700; ++i) h.agent(1000 + static_cast<std::uint64_t>(i), "h" + std::to_string(i), amount(8, 16));
  h.step(Watched{true, 1});
  std::size_t most = 0, steps = 0;
  while (!h.tables.at("agents").ready() && ++steps < 1000) {
    std::size_t rows = 0;
    for (const ViewUpdate& update : h.views) rows += update.rows.size();
    most = std::max(most, rows);
    h.take_views();
    h.run(milliseconds(2));
  }
  EXPECT_TRUE(h.tables.at("agents").ready());
  EXPECT_EQ(h.tables.at("agents").size(), 700U);
  EXPECT_LE(most, 2 * house::ViewTable::kRowsPerStep + 10);
}

TEST(View, WhoAsksForAgentsDoesNotWaitForSlices) {
  Watcher h;
  h.agent(1, "h1", amount(2'000, 2'000));
  h.framework(2, "f");
  h.demand(2, {line(1, shape(1, 1), 2'000)});
  h.pass();
  const std::vector<Offer> offers = h.offers(2);
  ASSERT_FALSE(offers.empty());
  std::vector<Accept::Slice> slices;
  for (std::uint64_t i = 1; i <= 1'500; ++i) slices.push_back({i, shape(1, 1), Duration(0), 1});
  Accept accept;
  accept.sequence = Sequence(1);
  accept.items.push_back({offers.front().id, offers.front().generation, slices, false});
  h.say(2, accept);
  h.step(Watched{true, 1});
  h.take_views();
  for (int i = 0; i < 1'000 && h.flushed < 1; ++i) h.run(milliseconds(2)), h.take_views();
  EXPECT_TRUE(h.tables.at("agents").ready());
  EXPECT_FALSE(h.tables.at("slices").ready());
  for (int i = 0; i < 1'000 && !h.tables.at("slices").ready(); ++i) h.run(milliseconds(2)), h.take_views();
  EXPECT_EQ(h.tables.at("slices").size(), 1'500U);
  h.expect_same("slices");
  h.expect_same("agents");
}

// --- the tables themselves

ViewUpdate rows(std::vector<StatusReply::Row> changed, std::vector<std::string> removed = {}) {
  ViewUpdate update;
  update.what = "agents";
  update.rows = std::move(changed);
  update.removed = std::move(removed);
  return update;
}

TEST(ReaderTable, PiecesFollowEachOtherWithoutGap) {
  ReaderTable table;
  for (int i = 0; i < 100; ++i) table.apply(rows({{"h" + std::to_string(i), {{"n", "0"}}}}));
  std::map<std::string, std::string> seen;
  std::uint64_t at = 0;
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    if (round < 150) {
      const std::string name = "h" + std::to_string(rng.below(120));
      if (rng.chance(300))
        table.apply(rows({}, {name}));
      else
        table.apply(rows({{name, {{"n", std::to_string(round)}}}}));
    }
    const ReaderTable::Piece piece = table.after(at, 7);
    ASSERT_FALSE(piece.lost);
    for (const auto& row : piece.rows) seen[row.name] = row.fields.at(0).second;
    for (const std::string& name : piece.removed) seen.erase(name);
    at = piece.through;
  }
  ASSERT_EQ(at, table.version());
  std::map<std::string, std::string> is;
  for (const auto& row : table.page("", 1000).rows) is[row.name] = row.fields.at(0).second;
  EXPECT_EQ(seen, is);
}

TEST(ReaderTable, ANameThatGoesAndComesBackIsThere) {
  ReaderTable table;
  table.apply(rows({{"a", {{"n", "1"}}}}));
  const std::uint64_t at = table.version();
  table.apply(rows({{"a", {{"n", "2"}}}}, {"a"}));  // in one update
  EXPECT_EQ(table.size(), 1U);
  const ReaderTable::Piece piece = table.after(at, 10);
  ASSERT_EQ(piece.rows.size(), 1U);
  EXPECT_EQ(piece.rows[0].fields.at(0).second, "2");
  EXPECT_TRUE(piece.removed.empty());
}

TEST(ReaderTable, WhoLagsBehindTooFarIsToldSo) {
  ReaderTable table;
  table.apply(rows({{"a", {}}}));
  const std::uint64_t old = table.version();
  for (std::size_t i = 0; i < ReaderTable::kRemovedMax + 5; ++i) {
    const std::string name = "x" + std::to_string(i);
    table.apply(rows({{name, {}}}));
    table.apply(rows({}, {name}));
  }
  EXPECT_TRUE(table.after(old, 10).lost);
  EXPECT_FALSE(table.after(0, 10).lost) << "who begins has missed nothing";
}

TEST(ReaderTable, OldEventsGoAndNumbersAreInOrder) {
  ReaderTable table(true);
  for (std::size_t i = 1; i <= ReaderTable::kEventsMax + 50; ++i) table.apply(rows({{std::to_string(i), {{"event", "x"}}}}));
  EXPECT_EQ(table.size(), ReaderTable::kEventsMax);
  const auto page = table.page("9999", 3).rows;
  ASSERT_EQ(page.size(), 3U);
  EXPECT_EQ(page[0].name, "10000");
  EXPECT_EQ(page[1].name, "10001");
  const auto piece = table.after(table.version_of_event("10049"), 10);
  ASSERT_EQ(piece.rows.size(), 1U);
  EXPECT_EQ(piece.rows[0].name, "10050");
}

}  // namespace
}  // namespace bourse::test
