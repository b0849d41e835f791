// Devices that are shared in different ways: what fits, what is charged, what is rounded. Templates are those of the Ascend 910B2 and
// the NVIDIA A100-40GB, from the vendors' tables.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/core/resources.h"
#include "common/core/rng.h"

namespace bourse {
namespace {

Counters counters(std::initializer_list<std::pair<const char*, std::int64_t>> items) {
  Counters out;
  for (const auto& [name, amount] : items) out.set(name, amount);
  return out;
}

DeviceShare whole(const std::string& id, const std::string& kind, Counters all, DeviceMode sharing) {
  DeviceShare share;
  share.device = DeviceId(id);
  share.kind = kind;
  share.generation = Generation(1);
  share.whole = true;
  share.counters = std::move(all);
  share.traits.sharing = sharing;
  return share;
}

DeviceShare ascend(const std::string& id = "npu-0") {
  DeviceShare npu =
      whole(id, "npu/ascend", counters({{"npu.compute", 24}, {"npu.control", 6}, {"mem", 65536}}), DeviceMode::kTemplate);
  npu.traits.profiles = {{"vir03_1c_8g", counters({{"npu.compute", 3}, {"npu.control", 1}, {"mem", 8192}})},
                         {"vir06_1c_16g", counters({{"npu.compute", 6}, {"npu.control", 1}, {"mem", 16384}})},
                         {"vir12_3c_32g", counters({{"npu.compute", 12}, {"npu.control", 3}, {"mem", 32768}})}};
  npu.traits.attributes = {{"type", "910B2"}};
  return npu;
}

// Compute slices and memory slices of an A100-SXM4-40GB, as `nvidia-smi mig -lgip` lists its profiles.
DeviceShare mig() {
  DeviceShare gpu = whole("GPU-1", "gpu/nvidia", counters({{"sm", 7}, {"slices", 8}}), DeviceMode::kTemplate);
  gpu.traits.profiles = {{"1g.5gb", counters({{"sm", 1}, {"slices", 1}})},
                         {"2g.10gb", counters({{"sm", 2}, {"slices", 2}})},
                         {"3g.20gb", counters({{"sm", 3}, {"slices", 4}})},
                         {"4g.20gb", counters({{"sm", 4}, {"slices", 4}})},
                         {"7g.40gb", counters({{"sm", 7}, {"slices", 8}})}};
  return gpu;
}

Resources host(std::vector<DeviceShare> devices) {
  Resources r;
  r.cpus = MilliCpus{64000};
  r.mem = Bytes{64LL << 30};
  r.devices = std::move(devices);
  return r;
}

Shape part(const std::string& kind, Counters least, const std::string& profile = {}) {
  Shape s;
  s.devices = {{kind, 1, false, profile, std::move(least), {}}};
  return s;
}

TEST(Template, AnAskIsRoundedUpToTheSmallestAndChargedSo) {
  const Resources total = host({ascend()});
  const Shape ask = part("npu/ascend", counters({{"npu.compute", 4}, {"npu.control", 1}, {"mem", 5120}}));
  const auto got = carve(ask, without_traits(total), total, {});
  ASSERT_TRUE(got) << got.error().text();
  ASSERT_EQ(got->devices.size(), 1u);
  EXPECT_EQ(got->devices[0].profile, "vir06_1c_16g");
  EXPECT_EQ(got->devices[0].counters, counters({{"npu.compute", 6}, {"npu.control", 1}, {"mem", 16384}}));
  EXPECT_FALSE(got->devices[0].whole);
  EXPECT_EQ(got->devices[0].traits, DeviceTraits{});
  EXPECT_EQ(rounding_text(ask, *got), "device npu-0: vir06_1c_16g has mem 16384 for 5120, npu.compute 6 for 4");
  EXPECT_EQ(rounding_text(part("npu/ascend", got->devices[0].counters), *got), "");
}

TEST(Template, ComputeAndControlAreAskedForApart) {
  const Resources total = host({ascend()});
  const auto control = carve(part("npu/ascend", counters({{"npu.control", 2}})), without_traits(total), total, {});
  ASSERT_TRUE(control);
  EXPECT_EQ(control->devices[0].profile, "vir12_3c_32g");
  const auto compute = carve(part("npu/ascend", counters({{"npu.compute", 1}})), without_traits(total), total, {});
  ASSERT_TRUE(compute);
  EXPECT_EQ(compute->devices[0].profile, "vir03_1c_8g");
  EXPECT_EQ(fits(part("npu/ascend", counters({{"npu.compute", 13}})), without_traits(total), total, {}), Misfit::kDevices);
  EXPECT_EQ(fits(part("npu/ascend", {}, "vir16"), without_traits(total), total, {}), Misfit::kDevices);
  EXPECT_EQ(carve(part("npu/ascend", {}, "vir06_1c_16g"), without_traits(total), total, {})->devices[0].counters.get("mem"), 16384);
}

TEST(Template, GeometryStrandsWhatItStrands) {
  const Resources total = host({mig()});
  Resources free = without_traits(total);
  for (int i = 0; i < 2; ++i) {
    const auto got = carve(part("gpu/", {}, "3g.20gb"), free, total, {});
    ASSERT_TRUE(got);
    ASSERT_TRUE(free.subtract(*got));
  }
  // Two 3g.20gb take all eight memory slices: one compute slice of seven is left and of no use.
  EXPECT_EQ(free.devices.at(0).counters, counters({{"sm", 1}}));
  EXPECT_EQ(fits(part("gpu/", {}, "1g.5gb"), free, total, {}), Misfit::kDevices);
  EXPECT_EQ(count_fits(part("gpu/", {}, "1g.5gb"), without_traits(total), total, {}, 100), 7u);
}

TEST(Exclusive, NoPartOfIt) {
  const Resources total = host({whole("GPU-1", "gpu/x", counters({{"mem", 40960}}), DeviceMode::kExclusive)});
  const Resources free = without_traits(total);
  EXPECT_EQ(fits(part("gpu/x", counters({{"mem", 1024}})), free, total, {}), Misfit::kDevices);
  Shape all;
  all.devices = {{"gpu/x", 1, true, {}, counters({{"mem", 40000}}), {}}};
  EXPECT_EQ(fits(all, free, total, {}), Misfit::kNone);
  all.devices[0].counters.set("mem", 41000);
  EXPECT_EQ(fits(all, free, total, {}), Misfit::kDevices);
}

TEST(Traits, AttributesCanBeAskedFor) {
  DeviceShare a100 = whole("GPU-1", "gpu/nvidia", {}, DeviceMode::kExclusive),
              v100 = whole("GPU-2", "gpu/nvidia", {}, DeviceMode::kExclusive);
  a100.traits.attributes = {{"type", "a100"}};
  v100.traits.attributes = {{"type", "v100"}};
  const Resources total = host({a100, v100});
  Shape s;
  s.devices = {{"gpu/", 1, true, {}, {}, {{"type", Constraint::Op::kIn, {"V100", "v100"}}}}};
  const auto got = carve(s, without_traits(total), total, {});
  ASSERT_TRUE(got);
  EXPECT_EQ(got->devices.at(0).device.str(), "GPU-2");
  s.devices[0].count = 2;
  EXPECT_EQ(fits(s, without_traits(total), total, {}), Misfit::kDevices);
  s.devices[0].attributes[0].values = {"h100"};
  s.devices[0].count = 1;
  EXPECT_EQ(fits(s, without_traits(total), total, {}), Misfit::kDevices);
}

TEST(Traits, TheWholeHostIsFreeWhateverIsKnownOfItsDevices) {
  const Resources total = host({ascend()});
  Shape s;
  s.whole_host = true;
  const auto got = carve(s, without_traits(total), total, {});
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, without_traits(total));
}

TEST(Traits, TheTextReadsBack) {
  DeviceShare npu = ascend();
  npu.counters.set("is.odd", 3);
  npu.counters.set("sharing", 4);
  const Resources total = host({mig(), npu, whole("z", "gpu/x", {}, DeviceMode::kTimeSliced)});
  const auto back = parse_resources(to_text(total));
  ASSERT_TRUE(back) << back.error().text() << " " << to_text(total);
  EXPECT_EQ(*back, total) << to_text(total) << "\n" << to_text(*back);
  EXPECT_FALSE(parse_resources("dev=a{kind=b,sharing=nobody}"));
  EXPECT_FALSE(parse_resources("dev=a{kind=b,can=p}"));
}

// The profile that is charged has what was asked and is free, and no other such profile is smaller in every counter. And grants and
// releases in any order keep the books: nothing goes below zero, and all is as it was when all is back.
TEST(Template, RandomAsksAndReleasesKeepTheBooks) {
  Rng rng(7);
  for (int run = 0; run < 300; ++run) {
    DeviceShare npu = whole("d", "x", counters({{"a", rng.between(4, 24)}, {"b", rng.between(1, 8)}, {"c", rng.between(10, 100)}}),
                            DeviceMode::kTemplate);
    for (std::uint64_t p = 0, n = 1 + rng.below(6); p < n; ++p) {
      Counters& profile = npu.traits.profiles["p" + std::to_string(p)];
      for (const auto& [name, amount] : npu.counters.items()) profile.set(name, rng.between(1, amount));
    }
    const Resources total = host({npu});
    Resources free = without_traits(total);
    std::vector<Resources> granted;
    for (int step = 0; step < 60; ++step) {
      if (!granted.empty() && rng.chance(400)) {
        const std::size_t which = rng.below(granted.size());
        ASSERT_TRUE(free.add(granted[which]));
        granted.erase(granted.begin() + static_cast<std::ptrdiff_t>(which));
        continue;
      }
      const Shape ask = part("x", counters({{"a", rng.between(0, 6)}, {"b", rng.between(0, 2)}, {"c", rng.between(1, 30)}}));
      std::vector<std::pair<std::string, Counters>> able;  // by brute force
      for (const auto& profile : npu.traits.profiles)
        if (!free.devices.empty() && profile.second.contains(ask.devices[0].counters) &&
            free.devices[0].counters.contains(profile.second))
          able.push_back(profile);
      const auto got = carve(ask, free, total, {});
      ASSERT_EQ(bool(got), !able.empty());
      if (!got) continue;
      const DeviceShare& share = got->devices.at(0);
      const auto chosen = std::find_if(able.begin(), able.end(), [&](const auto& p) { return p.first == share.profile; });
      ASSERT_NE(chosen, able.end());
      EXPECT_EQ(chosen->second, share.counters);
      for (const auto& other : able)
        EXPECT_FALSE(chosen->second.contains(other.second) && chosen->second != other.second) << other.first << " is smaller";
      ASSERT_TRUE(free.subtract(*got));
      granted.push_back(*got);
    }
    for (const Resources& one : granted) ASSERT_TRUE(free.add(one));
    EXPECT_TRUE(free.contains(total) && total.contains(free));
  }
}

}  // namespace
}  // namespace bourse
