// Whom a peer of the masters asks next: common/core/master_search.h.
#include "common/core/master_search.h"

#include <gtest/gtest.h>

#include <set>

namespace bourse {
namespace {

Refused stands_by(const std::string& leader = "") { return {Code::kBusy, "does not lead", true, leader}; }

TEST(MasterSearch, ARoundOfAllMastersIsQuickAndOnlyThenTheWaitsDouble) {
  MasterSearch search("agent h1", 3);
  search.start(Incarnation(4));
  std::vector<Duration> waits;
  for (int i = 0; i < 30; ++i) {
    const auto next = search.silent();
    EXPECT_TRUE(next.reconnect) << "a master that gave no answer is left";
    EXPECT_TRUE(next.leader.empty());
    EXPECT_FALSE(next.knock);
    waits.push_back(next.wait);
  }
  EXPECT_LE(waits[0], MasterSearch::kSpread);
  EXPECT_LE(waits[1], MasterSearch::kSpread);
  for (std::size_t i = 2; i < waits.size(); ++i) {
    const auto doublings = (i + 1) / 3 - 1;
    const Duration base = std::min<Duration>(milliseconds(100 << doublings), MasterSearch::kBackOffMax);
    EXPECT_GE(waits[i], base / 2) << i;
    EXPECT_LE(waits[i], base) << i;
  }
}

TEST(MasterSearch, TheNamedLeaderIsAskedAtOnceAndLessOftenIfItIsNotThere) {
  MasterSearch search("agent h1", 3);
  auto next = search.elsewhere(stands_by("tcp://m2:7400"));
  EXPECT_EQ(next.leader, "tcp://m2:7400");
  EXPECT_TRUE(next.reconnect);
  EXPECT_FALSE(next.knock) << "it wants a hello";
  EXPECT_LE(next.wait, MasterSearch::kSpread);
  Duration before{0};
  for (int i = 1; i < 8; ++i) {  // it does not answer, and whoever is asked names it again
    (void)search.silent();
    next = search.elsewhere(stands_by("tcp://m2:7400"));
    EXPECT_EQ(next.leader, "tcp://m2:7400");
    const Duration base = std::min<Duration>(milliseconds(100 << (i - 1)), MasterSearch::kBackOffMax);
    EXPECT_GE(next.wait, base / 2) << i;
    EXPECT_LE(next.wait, base) << i;
  }
  next = search.elsewhere(stands_by("tcp://m3:7400"));  // another has been elected
  EXPECT_EQ(next.leader, "tcp://m3:7400");
  EXPECT_LE(next.wait, MasterSearch::kSpread);
}

TEST(MasterSearch, WhileNobodyLeadsMastersAreAskedCheaplyInTurn) {
  MasterSearch search("framework batch", 3);
  std::vector<Duration> waits;
  std::vector<bool> moves;
  for (int i = 0; i < 9; ++i) {
    const auto next = search.elsewhere(stands_by());
    EXPECT_TRUE(next.knock);
    EXPECT_TRUE(next.leader.empty());
    waits.push_back(next.wait);
    moves.push_back(next.reconnect);
  }
  EXPECT_EQ(moves, (std::vector<bool>{false, false, true, false, false, true, false, false, true}));
  for (std::size_t i = 0; i < waits.size(); ++i) {
    EXPECT_GE(waits[i], milliseconds(500)) << i;
    EXPECT_LE(waits[i], milliseconds(700)) << i;
  }
}

TEST(MasterSearch, AnAnswerOfAnyMasterEndsTheDoublingOfWaits) {
  MasterSearch search("agent h1", 2);
  for (int i = 0; i < 20; ++i) (void)search.silent();
  (void)search.elsewhere(stands_by());
  EXPECT_LE(search.silent().wait, MasterSearch::kSpread);
  for (int i = 0; i < 20; ++i) (void)search.silent();
  search.found();
  EXPECT_LE(search.silent().wait, MasterSearch::kSpread);
  EXPECT_EQ(search.attempt(), 1U);
}

TEST(MasterSearch, TheOnlyMasterIsNeverLeftForKnocking) {
  MasterSearch search("agent h1", 1);
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(search.elsewhere(stands_by()).reconnect);
}

// Ten thousand peers of a leader that died must not come to the next in one moment: each tenth of the spread gets its share.
TEST(MasterSearch, PeersAreSpread) {
  constexpr int kPeers = 10'000;
  std::vector<int> tenths(10);
  for (int i = 0; i < kPeers; ++i) {
    MasterSearch search("agent h" + std::to_string(i), 3);
    search.start(Incarnation(1'700'000'000));
    const Duration wait = search.silent().wait;
    ++tenths[static_cast<std::size_t>(std::min<Duration::rep>(wait * 10 / MasterSearch::kSpread, 9))];
  }
  // Of a fair draw, each tenth has 1000 with a standard deviation of 30.
  for (const int n : tenths) {
    EXPECT_GT(n, 1000 - 5 * 30);
    EXPECT_LT(n, 1000 + 5 * 30);
  }
}

}  // namespace
}  // namespace bourse
