// The resource algebra, by properties: whatever the amounts, the laws hold and a failed operation changes nothing.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "common/core/resources.h"

namespace bourse {
namespace {

Counters make_counters(bool device) {
  Counters c;
  for (const char* name :
       device ? std::vector<const char*>{"mem", "compute", "kind", "vf"} : std::vector<const char*>{"licence/x", "mem", "burst"}) {
    if (*rc::gen::arbitrary<bool>()) c.set(name, *rc::gen::inRange<std::int64_t>(1, 1000));
  }
  return c;
}

// One generator for all: a canonical amount over few names, so that two of them overlap often. `low` sets which ports and
// whole devices it may have, so that two amounts of different halves can be added.
Resources make_amount(bool split, int half) {
  Resources r;
  if (split) {
    for (std::uint32_t node = 0; node < 3; ++node) {
      NumaAmount n{node, MilliCpus{*rc::gen::inRange<std::int64_t>(0, 5000)}, Bytes{*rc::gen::inRange<std::int64_t>(0, 1 << 20)}};
      if (*rc::gen::inRange(0, 3) == 0 || (n.cpus.value == 0 && n.mem.value == 0)) continue;
      r.cpus.value += n.cpus.value;
      r.mem.value += n.mem.value;
      r.numa.push_back(n);
    }
  } else {
    r.cpus.value = *rc::gen::inRange<std::int64_t>(0, 5000);
    r.mem.value = *rc::gen::inRange<std::int64_t>(0, 1 << 20);
  }
  r.disk.value = *rc::gen::inRange<std::int64_t>(0, 1 << 20);
  for (int i = 0; i < 4; ++i) {
    const auto first = static_cast<std::uint16_t>(1000 + 100 * (2 * i + half) + *rc::gen::inRange(0, 50));
    const auto last = static_cast<std::uint16_t>(first + *rc::gen::inRange(0, 49));
    if (*rc::gen::arbitrary<bool>()) RC_ASSERT(!!r.ports.add(*Ports::parse(std::to_string(first) + "-" + std::to_string(last))));
  }
  r.others = make_counters(false);
  for (int i = 0; i < 4; ++i) {
    DeviceShare d;
    d.device = DeviceId("GPU-" + std::to_string(i));
    d.kind = i < 2 ? "gpu/nvidia" : "npu/ascend";
    d.generation = Generation(static_cast<std::uint64_t>(i));
    d.counters = make_counters(true);
    d.whole = i % 2 == half && *rc::gen::arbitrary<bool>();
    if (d.whole || !d.counters.empty()) r.devices.push_back(d);
  }
  return r;
}

TEST(ResourceAlgebra, AdditionAndSubtractionAreInverseAndOrderDoesNotMatter) {
  EXPECT_TRUE(rc::check([] {
    const bool split = *rc::gen::arbitrary<bool>();
    const Resources a = make_amount(split, 0), b = make_amount(split, 1);
    Resources ab = a, ba = b;
    RC_ASSERT(!!ab.add(b));
    RC_ASSERT(!!ba.add(a));
    RC_ASSERT(ab == ba);
    RC_ASSERT(!!ab.check());
    RC_ASSERT(ab.contains(a));
    RC_ASSERT(ab.contains(b));
    RC_ASSERT(!!ab.subtract(b));
    RC_ASSERT(ab == a);
    RC_ASSERT(!!ab.subtract(a));
    RC_ASSERT(ab.empty());
    RC_ASSERT(ab == Resources{});
  }));
}

TEST(ResourceAlgebra, AdditionIsAssociative) {
  EXPECT_TRUE(rc::check([] {
    Resources a = make_amount(true, 0), b = make_amount(true, 1), c = make_amount(true, 0);
    c.ports = Ports{};
    std::erase_if(c.devices, [](const DeviceShare& d) { return d.whole; });
    Resources left = a, right = b;
    RC_ASSERT(!!left.add(b));
    RC_ASSERT(!!left.add(c));
    RC_ASSERT(!!right.add(c));
    RC_ASSERT(!!a.add(right));
    RC_ASSERT(a == left);
  }));
}

TEST(ResourceAlgebra, SubtractionNeverGoesBelowZeroAndFailsWithoutChange) {
  EXPECT_TRUE(rc::check([] {
    const bool split = *rc::gen::arbitrary<bool>();
    const Resources a = make_amount(split, 0), b = make_amount(*rc::gen::arbitrary<bool>(), 0);
    Resources rest = a;
    const bool done = !!rest.subtract(b);
    RC_ASSERT(done == a.contains(b));
    if (done) {
      RC_ASSERT(!!rest.check());
      RC_ASSERT(!!rest.add(b));
    }
    RC_ASSERT(rest == a);
  }));
}

TEST(ResourceAlgebra, TextRoundTripsAndEqualAmountsHaveEqualText) {
  EXPECT_TRUE(rc::check([] {
    const Resources a = make_amount(*rc::gen::arbitrary<bool>(), 0);
    const auto back = parse_resources(to_text(a));
    RC_ASSERT(!!back);
    RC_ASSERT(*back == a);
    RC_ASSERT(to_text(*back) == to_text(a));
  }));
}

TEST(ResourceAlgebra, OverflowIsRefusedInEveryKindAndLeavesTheOperand) {
  for (const char* text : {"cpus=9000000000000000", "mem=8191PiB", "disk=8191PiB", "burst=9223372036854775807",
                           "cpus=9000000000000000;numa=1:cpus=9000000000000000", "dev=g{kind=gpu,mem=9223372036854775807}"}) {
    const auto big = parse_resources(text);
    ASSERT_TRUE(big) << text;
    Resources sum = *big;
    if (sum.ports.empty()) sum.ports = *Ports::parse("80");  // something that could be half done
    const Resources before = sum;
    Resources other = *big;
    other.ports = *Ports::parse("81");
    const auto added = sum.add(other);
    ASSERT_FALSE(added) << text;
    EXPECT_EQ(added.error().code(), Code::kLimit) << text;
    EXPECT_EQ(sum, before) << text;
  }
}

TEST(ResourceAlgebra, WhatCannotBeComparedIsRefused) {
  Resources split = *parse_resources("cpus=2;numa=0:cpus=2"), plain = *parse_resources("cpus=2");
  EXPECT_EQ(split.add(plain).error().code(), Code::kInvalid);
  EXPECT_EQ(plain.subtract(split).error().code(), Code::kInvalid);
  EXPECT_FALSE(split.contains(plain));
  EXPECT_TRUE(split.add(*parse_resources("ports=80")));  // no cpus or mem: nothing to split
  EXPECT_TRUE(Resources{}.check());

  Resources device = *parse_resources("dev=g{kind=gpu/nvidia,gen=3,mem=10}");
  EXPECT_EQ(device.add(*parse_resources("dev=g{kind=gpu/nvidia,gen=4,mem=10}")).error().code(), Code::kInvalid);
  EXPECT_EQ(device.subtract(*parse_resources("dev=g{kind=gpu/amd,gen=3,mem=1}")).error().code(), Code::kInvalid);
  EXPECT_EQ(device, *parse_resources("dev=g{kind=gpu/nvidia,gen=3,mem=10}"));
}

TEST(ResourceAlgebra, AWholeDeviceIsThereOnceAndOnlyWhileNobodyHasAPart) {
  const Resources all = *parse_resources("dev=g{kind=gpu,gen=1,whole,mem=100}");
  Resources free = all;
  const Resources part = *parse_resources("dev=g{kind=gpu,gen=1,mem=30}");
  ASSERT_TRUE(free.subtract(part));
  EXPECT_FALSE(free.contains(all));
  EXPECT_FALSE(free.subtract(all));
  ASSERT_TRUE(free.add(part));
  EXPECT_EQ(free, all);
  ASSERT_TRUE(free.subtract(all));
  EXPECT_TRUE(free.empty());
  Resources twice = all;
  EXPECT_FALSE(twice.add(all));
}

TEST(ResourceText, BrokenTextIsRefused) {
  for (const char* text : {"cpus",
                           "cpus=",
                           "cpus=-1",
                           "cpus=2;numa=0:cpus=1",
                           "numa=0",
                           "numa=x:cpus=1",
                           "dev=g",
                           "dev=g{",
                           "dev=g{kind=gpu,gen=x}",
                           "dev={kind=gpu,whole}",
                           "dev=g{kind=gpu,whole};dev=g{kind=gpu,whole}",
                           "burst=x",
                           "burst=1;burst=2",
                           "ports=0",
                           "ports=70000",
                           "ports=9-8",
                           "mem=4GiBx",
                           "cpus=1;numa=0:cpus=1,disk=3",
                           "=3",
                           "a b=3",
                           "burst=99999999999999999999",
                           "dev=g{kind=gpu,mem=-1}"}) {
    EXPECT_FALSE(parse_resources(text)) << text;
  }
  EXPECT_EQ(*parse_resources(""), Resources{});
}

TEST(PortSet, TakesTheLowestAndKeepsRangesJoined) {
  Ports p = *Ports::parse("31000-31009,8080");
  EXPECT_EQ(p.text(), "8080,31000-31009");
  EXPECT_EQ(p.size(), 11u);
  EXPECT_EQ(p.take(3).text(), "8080,31000-31001");
  EXPECT_EQ(p.take(100), p);
  EXPECT_TRUE(p.take(0).empty());
  ASSERT_TRUE(p.subtract(*Ports::parse("31003-31005")));
  EXPECT_EQ(p.text(), "8080,31000-31002,31006-31009");
  EXPECT_FALSE(p.add(*Ports::parse("31002-31004")));
  ASSERT_TRUE(p.add(*Ports::parse("31003-31005")));
  EXPECT_EQ(p.text(), "8080,31000-31009");
  EXPECT_FALSE(p.subtract(*Ports::parse("31009-31010")));
  EXPECT_EQ(Ports::parse("1-65535")->size(), 65535u);
  EXPECT_EQ(Ports::parse("5,6,7-9,8-12")->text(), "5-12");
}

TEST(PortSet, AgreesWithBruteForce) {
  EXPECT_TRUE(rc::check([] {
    std::vector<bool> have(200), take(200);
    Ports a, b;
    for (int i = 1; i < 200; ++i) {
      const auto one = *Ports::parse(std::to_string(i));
      have[static_cast<std::size_t>(i)] = *rc::gen::inRange(0, 4) != 0;
      take[static_cast<std::size_t>(i)] = have[static_cast<std::size_t>(i)] && *rc::gen::inRange(0, 4) == 0;
      if (have[static_cast<std::size_t>(i)]) RC_ASSERT(!!a.add(one));
      if (take[static_cast<std::size_t>(i)]) RC_ASSERT(!!b.add(one));
    }
    const Ports before = a;
    RC_ASSERT(a.contains(b));
    RC_ASSERT(!!a.subtract(b));
    for (int i = 1; i < 200; ++i) {
      const auto at = static_cast<std::size_t>(i);
      RC_ASSERT(a.contains(*Ports::parse(std::to_string(i))) == (have[at] && !take[at]));
    }
    RC_ASSERT(!!a.add(b));
    RC_ASSERT(a == before);
  }));
}

}  // namespace
}  // namespace bourse
