// binpack, fgd and hybrid: values worked out by hand from the definitions, and bounds that must hold for anything.
#include <algorithm>
#include <cmath>
#include <set>

#include "common/core/rng.h"
#include "tests/policy/rig.h"

namespace bourse::test {
namespace {

Resources room(std::int64_t cores, std::int64_t gib) {
  Resources r;
  r.cpus = MilliCpus(cores * 1000);
  r.mem = Bytes(gib << 30);
  return r;
}
Shape ask(std::int64_t cores, std::int64_t gib) {
  Shape s;
  s.cpus = MilliCpus(cores * 1000);
  s.mem = Bytes(gib << 30);
  return s;
}
std::vector<double> scores(PolicyRig& rig, const Shape& shape, const std::vector<std::uint32_t>& agents) {
  std::vector<double> out;
  for (const bourse_score& s : rig.host->score(policy::kNone, shape, agents)) out.push_back(s.score);
  return out;
}

// Three agents of 16 cores and 64 GiB; free: all, half of both, 2 cores and 60 GiB.
void three(PolicyRig& rig) {
  rig.host->total(amounts(48'000, std::int64_t{192} << 30));
  rig.host->agent(0, "empty", room(16, 64), room(16, 64));
  rig.host->agent(1, "half", room(16, 64), room(8, 32));
  rig.host->agent(2, "skewed", room(16, 64), room(2, 60));
}

TEST(Binpack, BestFitIsOneMinusTheMeanOfWhatIsLeft) {
  PolicyRig rig("binpack");
  three(rig);
  // 2 cores, 8 GiB: left (14,56), (6,24), (0,52) of (16,64): x = .875, .375, (0 + .8125) / 2.
  const auto s = scores(rig, ask(2, 8), {0, 1, 2});
  EXPECT_DOUBLE_EQ(s[0], 1 - 0.875);
  EXPECT_DOUBLE_EQ(s[1], 1 - 0.375);
  EXPECT_DOUBLE_EQ(s[2], 1 - 0.40625);
  PolicyRig worst("binpack:rule=worst");
  three(worst);
  EXPECT_DOUBLE_EQ(scores(worst, ask(2, 8), {0})[0], 0.875);
  PolicyRig cores("binpack:mem=0");
  three(cores);
  EXPECT_DOUBLE_EQ(scores(cores, ask(2, 8), {2})[0], 1);
  PolicyRig steps("binpack:steps=100");
  three(steps);
  EXPECT_DOUBLE_EQ(scores(steps, ask(2, 8), {2})[0], 0.59);
}

TEST(Binpack, TheTwoDotProductsHaveOppositeSigns) {
  PolicyRig most("binpack:rule=dot-max"), least("binpack:rule=dot-min");
  three(most);
  three(least);
  // (2/16)(16/16) and (8/64)(64/64): mean .125; half: .0625; skewed: (.125 * .125 + .125 * .9375) / 2 = .06640625.
  EXPECT_EQ(scores(most, ask(2, 8), {0, 1, 2}), (std::vector<double>{0.125, 0.0625, 0.06640625}));
  EXPECT_EQ(scores(least, ask(2, 8), {0, 1, 2}), (std::vector<double>{0.875, 0.9375, 0.93359375}));
}

Resources with_gpus(std::vector<std::int64_t> permille, bool total) {
  Resources r = room(64, 256);
  for (std::size_t i = 0; i < permille.size(); ++i) {
    if (permille[i] == 0 && !total) continue;
    DeviceShare d;
    d.device = DeviceId("GPU-" + std::to_string(i));
    d.kind = "gpu/x";
    d.whole = total || permille[i] == 1000;
    d.counters.set("compute", total ? 1000 : permille[i]);
    r.devices.push_back(d);
  }
  return r;
}
Shape gpu(std::uint32_t count, std::int64_t permille) {
  Shape s = ask(1, 1);
  DeviceAsk d;
  d.kind = "gpu/x";
  d.count = count;
  d.whole = permille == 1000;
  if (!d.whole) d.counters.set("compute", permille);
  s.devices.push_back(d);
  return s;
}
void wants(PolicyRig& rig, std::uint32_t handle, const Shape& shape) {
  rig.host->claimant({.handle = handle, .order = handle, .units = 1, .shape = &shape});
}

TEST(Fgd, PlacesWhereFragmentationFallsMost) {
  PolicyRig rig("fgd");
  // Usual: half a device and a whole one, each as often.
  wants(rig, 0, gpu(1, 500));
  wants(rig, 1, gpu(1, 1000));
  rig.host->agent(0, "a", with_gpus({1000, 1000}, true), with_gpus({1000, 500}, false));
  rig.host->agent(1, "b", with_gpus({1000, 1000}, true), with_gpus({1000, 1000}, false));
  // Agent a. Before: for the whole-device class, 500 idle are lost: F = 250. Half a device on the half one: F = 0, a gain of 250,
  // 1 / (1 + exp(-.25)) = .562. On the free one: nothing whole is left, F = .5 * 1000: a loss.
  // Agent b. Before 0; after, 500 are lost to the whole-device class: -250, 1 / (1 + exp(.25)) = .437.
  const auto& s = rig.host->score(policy::kNone, gpu(1, 500), {0, 1});
  EXPECT_DOUBLE_EQ(s[0].score, 0.56);
  EXPECT_EQ(s[0].device, 1U);
  EXPECT_DOUBLE_EQ(s[1].score, 0.43);
  EXPECT_EQ(s[1].device, 0U) << "equal devices: the lowest";
  // A whole device: on a, F after = 1 * (.5 * 0 + .5 * 500): unchanged, .5; the same on b: 0 before and after.
  const auto& w = rig.host->score(policy::kNone, gpu(1, 1000), {0, 1});
  EXPECT_DOUBLE_EQ(w[0].score, 0.5);
  EXPECT_DOUBLE_EQ(w[1].score, 0.5);
  PolicyRig exact("fgd:steps=0");
  wants(exact, 0, gpu(1, 500));
  wants(exact, 1, gpu(1, 1000));
  exact.host->agent(0, "a", with_gpus({1000, 1000}, true), with_gpus({1000, 500}, false));
  EXPECT_NEAR(exact.host->score(policy::kNone, gpu(1, 500), {0})[0].score, 1 / (1 + std::exp(-0.25)), 1e-15);
}

TEST(Fgd, SparesDevicesFromThoseWhoNeedNone) {
  PolicyRig rig("fgd");
  wants(rig, 0, gpu(1, 1000));
  rig.host->agent(0, "gpus", with_gpus({1000}, true), with_gpus({1000}, false));
  rig.host->agent(1, "none", room(64, 256), room(64, 256));
  // 64 cores on the agent with the device: no whole-device task could run there any more, 1000 idle are lost.
  const auto s = scores(rig, ask(64, 1), {0, 1});
  EXPECT_DOUBLE_EQ(s[0], 0.26);  // floor(100 / (1 + e)) / 100
  EXPECT_DOUBLE_EQ(s[1], 0.5);
}

TEST(Fgd, KnowsNothingAtFirstAndKeepsWhatItCounted) {
  PolicyRig rig("fgd"), best("binpack:steps=100");
  for (PolicyRig* r : {&rig, &best}) three(*r);
  EXPECT_EQ(scores(rig, ask(2, 8), {0, 1, 2}), scores(best, ask(2, 8), {0, 1, 2}));
  wants(rig, 0, gpu(1, 500));
  wants(rig, 1, gpu(1, 1000));
  rig.host->agent(0, "a", with_gpus({1000, 1000}, true), with_gpus({1000, 500}, false));
  const double learned = scores(rig, gpu(1, 500), {0})[0];
  const std::string saved = rig.host->save();
  EXPECT_NE(saved, "");
  PolicyRig next("fgd");
  next.host->agent(0, "a", with_gpus({1000, 1000}, true), with_gpus({1000, 500}, false));
  ASSERT_TRUE(next.host->load(saved));
  EXPECT_DOUBLE_EQ(scores(next, gpu(1, 500), {0})[0], learned);
  EXPECT_FALSE(next.host->load("fgd\n1 x"));
  EXPECT_FALSE(next.host->load("drf\nwhatever"));
  // The same through a swap, as a reload does it.
  ASSERT_TRUE(rig.host->swap(*rig.catalog.find("fgd:window=48h")));
  EXPECT_DOUBLE_EQ(scores(rig, gpu(1, 500), {0})[0], learned);
}

TEST(Hybrid, WeightOneIsFairnessAndWeightZeroIsPacking) {
  for (const std::string form : {"weighted", "stages"}) {
    for (const std::string weight : {"0", "1"}) {
      PolicyRig rig("hybrid:weight=" + weight + ",form=" + form);
      rig.host->total(amounts(32'000, std::int64_t{128} << 30));
      rig.host->agent(0, "a", room(16, 64), room(4, 16));
      rig.host->agent(1, "b", room(16, 64), room(16, 64));
      const Shape big = ask(4, 16), small = ask(1, 1);
      const Usage rich = amounts(8000, 0);
      rig.host->claimant({.handle = 0, .units = 1, .name = "rich", .used = &rich, .shape = &big});
      rig.host->claimant({.handle = 1, .units = 1, .name = "poor", .shape = &small});
      rig.host->begin(Duration{0}, 0);
      EXPECT_EQ(rig.host->next()->claimant, weight == "1" ? 1U : 0U) << form;
    }
  }
}

// The bound that the two-stage form is for: who goes first has one of the ceil((1 - weight) n) least shares.
TEST(Hybrid, InStagesTheFirstIsAlwaysAmongTheLeastShares) {
  Rng rng(3);
  for (int round = 0; round < 300; ++round) {
    const auto weight = static_cast<std::int64_t>(rng.below(101));
    PolicyRig rig("hybrid:form=stages,weight=" + std::string(weight == 100 ? "1"
                                                             : weight < 10 ? "0.0" + std::to_string(weight)
                                                                           : "0." + std::to_string(weight)));
    rig.host->total(amounts(100'000, 100'000));
    rig.host->agent(0, "a", room(64, 64), room(static_cast<std::int64_t>(rng.below(65)), static_cast<std::int64_t>(rng.below(65))));
    const std::uint32_t n = static_cast<std::uint32_t>(rng.below(12)) + 1;
    std::vector<double> shares;
    for (std::uint32_t i = 0; i < n; ++i) {
      const Usage used = amounts(static_cast<std::int64_t>(rng.below(50'000)), static_cast<std::int64_t>(rng.below(50'000)));
      const Shape shape = ask(static_cast<std::int64_t>(rng.below(32)) + 1, static_cast<std::int64_t>(rng.below(32)));
      rig.host->claimant({.handle = i, .units = 1, .name = "c" + std::to_string(i), .used = &used, .shape = &shape});
      shares.push_back(static_cast<double>(std::max(used.cpus, used.mem)) / 100'000);
    }
    rig.host->begin(Duration{0}, 0);
    const double first = shares[rig.host->next()->claimant];
    const auto poorer = std::count_if(shares.begin(), shares.end(), [&](double s) { return s < first; });
    const auto k = std::max<std::int64_t>(1, (static_cast<std::int64_t>(n) * (100 - weight) + 99) / 100);
    EXPECT_LT(poorer, k) << "round " << round << ", weight " << weight << ", n " << n;
  }
}

}  // namespace
}  // namespace bourse::test
