// What a gang is offered: slices on several agents, so of each gang at most one slice of an agent, where there are agents enough.
#include <numeric>

#include "rig.h"

namespace bourse::test {
namespace {

constexpr std::uint64_t kF = 100;

// Whole cores offered to line 1, by agent, after agents with so many cores have come and one pass has been made.
std::map<std::string, std::int64_t> offered(const std::vector<std::int64_t>& agents, std::uint32_t count, std::uint32_t gang_min) {
  Rig rig;
  rig.framework(kF, "f");
  for (std::size_t i = 0; i < agents.size(); ++i) rig.agent(i + 1, "h" + std::to_string(i + 1), amount(agents[i], 64));
  rig.demand(kF, {line(1, shape(1, 1), count, gang_min)});
  rig.pass();
  std::map<std::string, std::int64_t> cores;
  for (const Offers& message : rig.take<Offers>(kF))
    for (const Offer& offer : message.offers) cores[offer.agent.str()] += offer.resources.cpus.value / 1000;
  return cores;
}

std::int64_t sum(const std::map<std::string, std::int64_t>& cores) {
  return std::accumulate(cores.begin(), cores.end(), std::int64_t{0}, [](std::int64_t s, const auto& c) { return s + c.second; });
}

TEST(GangOffers, OneGangTakesOneSliceOfEachAgentThoughOneAgentHasRoomForAll) {
  EXPECT_EQ(offered({8, 8}, 2, 2), (std::map<std::string, std::int64_t>{{"h1", 1}, {"h2", 1}}));
}

TEST(GangOffers, TwoGangsTakeTwoSlicesOfEachAgent) {
  EXPECT_EQ(offered({8, 8}, 4, 2), (std::map<std::string, std::int64_t>{{"h1", 2}, {"h2", 2}}));
}

TEST(GangOffers, SlicesShareAnAgentWhereThereAreFewerAgentsThanSlices) {
  EXPECT_EQ(offered({8}, 2, 2), (std::map<std::string, std::int64_t>{{"h1", 2}}));
}

TEST(GangOffers, ALineThatIsNoGangPacks) { EXPECT_EQ(offered({8, 8}, 2, 0).size(), 1U); }

// By brute force: G gangs of M on agents with C cores each can have at most min(C, G) of an agent, and what is offered is the
// least of what they want and the sum of that; less than one gang is kept for it, not more than its share.
TEST(GangOffers, NoAgentGivesMoreThanItHasOrThanThereAreGangs) {
  Rng rng(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int64_t> agents(2 + rng.below(4));
    for (std::int64_t& cores : agents) cores = 1 + static_cast<std::int64_t>(rng.below(6));
    const auto members = static_cast<std::uint32_t>(2 + rng.below(agents.size() - 1));
    const auto gangs = static_cast<std::uint32_t>(1 + rng.below(4));
    const auto cores = offered(agents, members * gangs, members);
    std::int64_t most = 0;
    for (std::size_t i = 0; i < agents.size(); ++i) {
      const std::int64_t room = std::min<std::int64_t>(agents[i], gangs);
      const auto found = cores.find("h" + std::to_string(i + 1));
      if (found != cores.end()) { EXPECT_LE(found->second, room) << "round " << round; }
      most += room;
    }
    EXPECT_EQ(sum(cores), std::min<std::int64_t>(most, members * gangs)) << "round " << round;
  }
}

}  // namespace
}  // namespace bourse::test
