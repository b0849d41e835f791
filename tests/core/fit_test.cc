// Fitting and carving: what carve gives is in what was free, and fits and count_fits agree with it.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <new>

#include "common/core/resources.h"

namespace {
std::size_t allocations = 0;
}
void* operator new(std::size_t n) {
  ++allocations;
  if (void* p = std::malloc(n)) return p;
  std::abort();
}
void* operator new(std::size_t n, const std::nothrow_t& /*tag*/) noexcept { return operator new(n); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace bourse {
namespace {

Resources amount(const char* text) {
  auto r = parse_resources(text);
  BOURSE_ASSERT(r, text);
  return *r;
}

Shape shape_of(const char* cpus, const char* mem) {
  Shape s;
  s.cpus = *parse_cpus(cpus);
  s.mem = *parse_size(mem);
  return s;
}

DeviceAsk ask(const char* kind, std::uint32_t count = 1) {
  DeviceAsk a;
  a.kind = kind;
  a.count = count;
  return a;
}

Resources random_host() {
  Resources r;
  const int nodes = *rc::gen::inRange(0, 4);
  if (nodes == 0) {
    r.cpus.value = *rc::gen::inRange<std::int64_t>(0, 9) * 500;
    r.mem.value = *rc::gen::inRange<std::int64_t>(0, 20);
  }
  for (int i = 0; i < nodes; ++i) {
    const NumaAmount n{static_cast<std::uint32_t>(2 * i), MilliCpus{*rc::gen::inRange<std::int64_t>(0, 9) * 500},
                       Bytes{*rc::gen::inRange<std::int64_t>(0, 20)}};
    if (n.cpus.value == 0 && n.mem.value == 0) continue;
    r.cpus.value += n.cpus.value;
    r.mem.value += n.mem.value;
    r.numa.push_back(n);
  }
  r.disk.value = *rc::gen::inRange<std::int64_t>(0, 20);
  if (*rc::gen::arbitrary<bool>()) r.ports = *Ports::parse("8080,31000-31009");
  if (*rc::gen::arbitrary<bool>()) r.others.set("licence", *rc::gen::inRange<std::int64_t>(1, 9));
  for (int i = 0; i < *rc::gen::inRange(0, 5); ++i) {
    DeviceShare d;
    d.device = DeviceId("d" + std::to_string(i));
    d.kind = *rc::gen::arbitrary<bool>() ? "gpu/nvidia" : "gpu/amd";
    d.whole = true;
    if (*rc::gen::arbitrary<bool>()) d.counters.set("mem", *rc::gen::inRange<std::int64_t>(1, 10));
    r.devices.push_back(d);
  }
  return r;
}

Shape random_shape() {
  Shape s;
  s.cpus.value = *rc::gen::inRange<std::int64_t>(0, 5) * 500;
  s.mem.value = *rc::gen::inRange<std::int64_t>(0, 8);
  if (*rc::gen::inRange(0, 3) == 0) s.disk.value = *rc::gen::inRange<std::int64_t>(0, 8);
  if (*rc::gen::inRange(0, 3) == 0) s.ports = *rc::gen::inRange<std::uint32_t>(0, 4);
  if (*rc::gen::inRange(0, 3) == 0) s.others.set("licence", *rc::gen::inRange<std::int64_t>(0, 3));
  s.same_numa = *rc::gen::arbitrary<bool>();
  s.whole_host = *rc::gen::inRange(0, 6) == 0;
  if (*rc::gen::arbitrary<bool>()) {
    DeviceAsk a = ask(*rc::gen::element("gpu/", "gpu/amd", "gpu/nvidia"), *rc::gen::inRange<std::uint32_t>(0, 3));
    if (*rc::gen::arbitrary<bool>()) {
      a.whole = false;
      a.counters.set("mem", *rc::gen::inRange<std::int64_t>(1, 4));
    }
    s.devices.push_back(a);
  }
  return s;
}

TEST(Carve, TakesWhatIsFreeAndGivesItBackExactly) {
  EXPECT_TRUE(rc::check([] {
    const Resources total = random_host();
    Resources free = total;
    for (int i = 0; i < 4; ++i) {
      const Shape shape = random_shape();
      const Misfit misfit = fits(shape, free, total, {});
      const Resources before = free;
      const auto part = carve(shape, free, total, {});
      RC_ASSERT(free == before);
      RC_ASSERT(!!part == (misfit == Misfit::kNone));
      if (!part) continue;
      RC_ASSERT(!!part->check());
      RC_ASSERT(free.contains(*part));
      RC_ASSERT(part->cpus >= shape.cpus);
      RC_ASSERT(part->mem >= shape.mem);
      RC_ASSERT(part->disk >= shape.disk);
      RC_ASSERT(part->ports.size() >= shape.ports);
      RC_ASSERT(part->others.contains(shape.others));
      if (!shape.whole_host) {
        RC_ASSERT(part->cpus == shape.cpus);
        RC_ASSERT(part->mem == shape.mem);
        if (shape.same_numa) RC_ASSERT(part->numa.size() <= 1u);
      }
      RC_ASSERT(!!free.subtract(*part));
      RC_ASSERT(!!free.check());
      Resources again = free;
      RC_ASSERT(!!again.add(*part));
      RC_ASSERT(again == before);
    }
  }));
}

TEST(CountFits, AgreesWithCarvingAgainAndAgain) {
  EXPECT_TRUE(rc::check([] {
    const Resources total = random_host();
    Resources free = total;
    if (const auto first = carve(random_shape(), free, total, {})) RC_ASSERT(!!free.subtract(*first));
    const Shape shape = random_shape();
    const std::uint32_t limit = *rc::gen::inRange<std::uint32_t>(0, 12);
    std::uint32_t carved = 0;
    Resources left = free;
    while (carved < limit) {
      const auto part = carve(shape, left, total, {});
      if (!part) break;
      RC_ASSERT(!!left.subtract(*part));
      ++carved;
    }
    RC_ASSERT(count_fits(shape, free, total, {}, limit) == carved);
  }));
}

TEST(Fits, NamesTheFirstThingThatIsMissing) {
  const Resources total = amount(
      "cpus=4;mem=8GiB;disk=10GiB;ports=80-89;licence=2;numa=0:cpus=2,mem=4GiB;numa=1:cpus=2,mem=4GiB;dev=g{kind=gpu/amd,whole}");
  const Labels labels = {{"zone", "a"}};
  Shape s = shape_of("1", "1GiB");
  EXPECT_EQ(fits(s, total, total, labels), Misfit::kNone);
  s.whole_host = true;
  Resources busy = total;
  ASSERT_TRUE(busy.subtract(amount("cpus=1;numa=0:cpus=1")));
  EXPECT_EQ(fits(s, busy, total, labels), Misfit::kBusyHost);
  s.same_numa = true;
  s.cpus = *parse_cpus("3");
  EXPECT_EQ(fits(s, total, total, labels), Misfit::kNuma);
  s.devices = {ask("gpu/nvidia")};
  EXPECT_EQ(fits(s, total, total, labels), Misfit::kDevices);
  s.others.set("licence", 3);
  EXPECT_EQ(fits(s, total, total, labels), Misfit::kOther);
  s.ports = 11;
  EXPECT_EQ(fits(s, total, total, labels), Misfit::kPorts);
  s.disk = *parse_size("11GiB");
  EXPECT_EQ(fits(s, total, total, labels), Misfit::kDisk);
  s.mem = *parse_size("9GiB");
  EXPECT_EQ(fits(s, total, total, labels), Misfit::kMem);
  s.cpus = *parse_cpus("5");
  EXPECT_EQ(fits(s, total, total, labels), Misfit::kCpus);
  s.constraints = *parse_constraints("zone=b");
  EXPECT_EQ(fits(s, total, total, labels), Misfit::kLabels);
}

TEST(Carve, PrefersTheNodeWithTheLeastFreeThatFitsElseTheFewestNodes) {
  const Resources free = amount("cpus=9;mem=12GiB;numa=0:cpus=4,mem=4GiB;numa=1:cpus=2,mem=4GiB;numa=2:cpus=3,mem=4GiB");
  EXPECT_EQ(to_text(*carve(shape_of("2", "1GiB"), free, free, {})), "cpus=2;mem=1GiB;numa=1:cpus=2,mem=1GiB");
  EXPECT_EQ(to_text(*carve(shape_of("3", "1GiB"), free, free, {})), "cpus=3;mem=1GiB;numa=2:cpus=3,mem=1GiB");
  EXPECT_EQ(to_text(*carve(shape_of("6", "2GiB"), free, free, {})), "cpus=6;mem=2GiB;numa=0:cpus=4,mem=2GiB;numa=2:cpus=2");
}

TEST(Carve, AnyGpuDoesNotTakeTheOnlyOneOfAKind) {
  const Resources free = amount("dev=a{kind=gpu/nvidia,whole};dev=b{kind=gpu/amd,whole}");
  Shape s;
  s.devices = {ask("gpu/"), ask("gpu/nvidia")};
  const auto part = carve(s, free, free, {});
  ASSERT_TRUE(part);
  EXPECT_EQ(*part, free);
  s.devices = {ask("gpu/", 3)};
  EXPECT_EQ(fits(s, free, free, {}), Misfit::kDevices);
  s.devices = {ask("gpu/", 4'000'000'000)};
  EXPECT_EQ(fits(s, free, free, {}), Misfit::kDevices);
}

TEST(Carve, PartsOfADeviceKeepItFromBeingTakenWhole) {
  const Resources total = amount("dev=a{kind=gpu/nvidia,gen=2,whole,compute=1000,mem=80}");
  Shape part, whole;
  part.devices = {ask("gpu/nvidia")};
  part.devices[0].whole = false;
  part.devices[0].counters.set("mem", 30);
  whole.devices = {ask("gpu/nvidia")};
  EXPECT_EQ(count_fits(part, total, total, {}, 9), 2u);
  EXPECT_EQ(count_fits(whole, total, total, {}, 9), 1u);
  Resources free = total;
  ASSERT_TRUE(free.subtract(*carve(part, free, total, {})));
  EXPECT_EQ(fits(whole, free, total, {}), Misfit::kDevices);
  EXPECT_EQ(fits(part, free, total, {}), Misfit::kNone);
}

TEST(Fits, CommonShapesNeedNoMemory) {
  const Resources total = amount("cpus=64;mem=256GiB;ports=31000-32000;numa=0:cpus=32,mem=128GiB;numa=1:cpus=32,mem=128GiB");
  const Labels labels = {{"host", "h1"}};
  Shape s = shape_of("2", "4GiB");
  std::uint64_t sum = 0;
  const std::size_t before = allocations;
  for (int i = 0; i < 1000; ++i) {
    s.cpus.value = 1000 + i;
    sum += static_cast<std::uint64_t>(fits(s, total, total, labels)) + count_fits(s, total, total, labels, 1000);
  }
  EXPECT_EQ(allocations, before);
  EXPECT_GT(sum, 0u);
}

}  // namespace
}  // namespace bourse
