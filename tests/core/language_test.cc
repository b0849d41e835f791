// The little languages: sizes, durations, cpus, host lists, index sets, constraints. What the forms mean comes from the man
// pages of the tools that users know them from (srun(1): --time, --mem; scontrol(1): show hostnames).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/core/hostlist.h"
#include "common/core/labels.h"
#include "common/core/rng.h"
#include "common/core/units.h"

namespace bourse {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using Texts = std::vector<std::string>;

template <class T>
std::string refusal(const Result<T>& r) {
  return r ? "accepted" : r.error().text();
}

// --- sizes ---------------------------------------------------------------------------------------------------------

TEST(Size, FormsThatUsersWriteMeanPowersOf1024) {
  const std::vector<std::pair<std::string, std::int64_t>> cases = {
      {"4GiB", 4LL << 30},   {"4G", 4LL << 30},
      {"4g", 4LL << 30},     {"64Gb", 64LL << 30},
      {"1gb", 1LL << 30},    {"10g", 10LL << 30},
      {"512M", 512LL << 20}, {"1.5GiB", 3LL << 29},
      {"1.5G", 3LL << 29},   {"2K", 2048},
      {"3T", 3LL << 40},     {"1P", 1LL << 50},
      {"1000B", 1000},       {"0", 0},
      {"0.5K", 512},         {"8388608T", -1},
      {"7P", 7LL << 50},
  };
  for (const auto& [text, bytes] : cases) {
    const auto parsed = parse_size(text);
    if (bytes < 0) {
      EXPECT_FALSE(parsed) << text;
    } else {
      ASSERT_TRUE(parsed) << text;
      EXPECT_EQ(parsed->value, bytes) << text;
    }
  }
}

TEST(Size, ABareNumberTakesTheUnitOfItsPlace) {
  EXPECT_EQ(parse_size("1000", kMiB)->value, 1000LL << 20);  // --mem=1000 is megabytes
  EXPECT_EQ(parse_size("1000")->value, 1000);
}

TEST(Size, AnythingElseIsRefusedAndQuoted) {
  for (const char* text : {"", "G", "-1G", "+1", "4 GiB", "4GiBx", "4Gx", "1..5G", "1.G", "0x10", "4GG", "1e3",
                           "9223372036854775808", "99999999999999999999999", "9007199254740992K"}) {
    const auto parsed = parse_size(text);
    EXPECT_FALSE(parsed) << text;
    if (!parsed) { EXPECT_EQ(parsed.error().code(), Code::kInvalid); }
  }
  EXPECT_NE(refusal(parse_size("4 apples")).find("\"4 apples\""), std::string::npos);
  EXPECT_LT(refusal(parse_size(std::string(100'000, 'x'))).size(), 300u);
}

TEST(Size, FormatIsExactAndParsesBack) {
  EXPECT_EQ(format_size(Bytes{4LL << 30}), "4GiB");
  EXPECT_EQ(format_size(Bytes{3LL << 29}), "1536MiB");
  EXPECT_EQ(format_size(Bytes{1000}), "1000B");
  EXPECT_EQ(format_size(Bytes{0}), "0B");
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    const Bytes b{static_cast<std::int64_t>(rng.next() >> rng.between(1, 63)) & ~((std::int64_t{1} << rng.between(0, 62)) - 1)};
    const auto back = parse_size(format_size(b));
    ASSERT_TRUE(back) << format_size(b);
    ASSERT_EQ(*back, b);
  }
}

// --- durations -----------------------------------------------------------------------------------------------------

TEST(DurationText, UnitsAndClockFormsAreUnderstood) {
  const std::vector<std::pair<std::string, Duration>> cases = {
      {"90s", seconds(90)},
      {"10ms", milliseconds(10)},
      {"250us", microseconds(250)},
      {"5m", minutes(5)},
      {"2h", hours(2)},
      {"7d", hours(168)},
      {"1h30m", minutes(90)},
      {"1.5h", minutes(90)},
      {"0.25s", milliseconds(250)},
      {"2d1ms", hours(48) + milliseconds(1)},
      {"10:00", minutes(10)},
      {"1:00:00", hours(1)},
      {"100:00:00", hours(100)},
      {"1-0", hours(24)},
      {"1-2", hours(26)},
      {"0-01:00:00", hours(1)},
      {"1-2:3", hours(26) + minutes(3)},
      {"0-00:04:00", minutes(4)},
      {"00:90:00", minutes(90)},
      {"1-02:03:04", hours(26) + minutes(3) + seconds(4)},
      {"45", seconds(45)},
      {"0", seconds(0)},
  };
  for (const auto& [text, duration] : cases) {
    const auto parsed = parse_duration(text);
    ASSERT_TRUE(parsed) << refusal(parsed);
    EXPECT_EQ(*parsed, duration) << text;
  }
}

TEST(DurationText, SlurmsTimeLimitIsInMinutesAndMayBeUnlimited) {
  EXPECT_EQ(*parse_duration("10", minutes(1), true), minutes(10));
  EXPECT_EQ(*parse_duration("UNLIMITED", minutes(1), true), kNoLimit);
  EXPECT_EQ(*parse_duration("infinite", minutes(1), true), kNoLimit);
  EXPECT_FALSE(parse_duration("unlimited"));
}

TEST(DurationText, AnythingElseIsRefused) {
  for (const char* text : {"",
                           "s",
                           "-5",
                           "5x",
                           "30m1h",
                           "5m5m",
                           "1:",
                           ":1",
                           "1:2:3:4",
                           "1-",
                           "-1",
                           "1-2-3",
                           "1:2-3",
                           "1-2:3:4:5",
                           "1h30",
                           "5 s",
                           "1:0.5",
                           "9999999999",
                           "99999999999999999999",
                           "300000000d",
                           "1000000000:00:00",
                           "9223372036854775807us"}) {
    if (std::string(text) == "9999999999") continue;  // seconds: 317 years, fits
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(DurationText, FormatIsExactAndParsesBack) {
  EXPECT_EQ(format_duration(minutes(90)), "1h30m");
  EXPECT_EQ(format_duration(microseconds(250)), "250us");
  EXPECT_EQ(format_duration(seconds(0)), "0s");
  EXPECT_EQ(format_duration(kNoLimit), "unlimited");
  Rng rng(2);
  for (int i = 0; i < 20'000; ++i) {
    const Duration d{static_cast<std::int64_t>(rng.next() >> rng.between(2, 63))};
    const auto back = parse_duration(format_duration(d));
    ASSERT_TRUE(back) << format_duration(d);
    ASSERT_EQ(*back, d);
  }
}

TEST(DurationText, ClockIsAsTheQueueShowsIt) {
  EXPECT_EQ(format_clock(seconds(303)), "5:03");
  EXPECT_EQ(format_clock(seconds(3)), "0:03");
  EXPECT_EQ(format_clock(hours(1) + minutes(2) + seconds(3)), "1:02:03");
  EXPECT_EQ(format_clock(hours(24 * 3 + 1) + minutes(2) + seconds(3)), "3-01:02:03");
  EXPECT_EQ(format_clock(kNoLimit), "unlimited");
}

TEST(Cpus, CountThousandthsExactly) {
  EXPECT_EQ(parse_cpus("2")->value, 2000);
  EXPECT_EQ(parse_cpus("0.5")->value, 500);
  EXPECT_EQ(parse_cpus("1500m")->value, 1500);
  EXPECT_EQ(parse_cpus("0.125")->value, 125);
  for (const char* text : {"", "m", "-1", "2x", "0.0001", "1.5m", "9223372036854775807", "2 "})
    EXPECT_FALSE(parse_cpus(text)) << text;
  EXPECT_EQ(format_cpus(MilliCpus{2000}), "2");
  EXPECT_EQ(format_cpus(MilliCpus{500}), "0.5");
  EXPECT_EQ(format_cpus(MilliCpus{1250}), "1.25");
  for (std::int64_t v = 0; v < 5000; ++v) ASSERT_EQ(parse_cpus(format_cpus(MilliCpus{v}))->value, v);
}

// --- host lists ----------------------------------------------------------------------------------------------------

TEST(HostList, ExpandsAsScontrolShowHostnamesDoes) {
  const std::vector<std::pair<std::string, Texts>> cases = {
      {"h1", {"h1"}},
      {"login", {"login"}},
      {"h[1-4,7]", {"h1", "h2", "h3", "h4", "h7"}},
      {"r[1-2]n[01-03],login", {"r1n01", "r1n02", "r1n03", "r2n01", "r2n02", "r2n03", "login"}},
      {"n[08-11]", {"n08", "n09", "n10", "n11"}},
      {"n[8-11]", {"n8", "n9", "n10", "n11"}},
      {"n[098-101]", {"n098", "n099", "n100", "n101"}},
      {"cnode[212,213]", {"cnode212", "cnode213"}},
      {"a,b,a", {"a", "b", "a"}},
      {"n[3,1]", {"n3", "n1"}},
      {"x[1-2]-ib", {"x1-ib", "x2-ib"}},
      {" a , b ", {"a", "b"}},
      {"n[0]", {"n0"}},
      {"n[000-001]", {"n000", "n001"}},
      {"host.example.org", {"host.example.org"}},
  };
  for (const auto& [text, hosts] : cases) {
    const auto expanded = expand_hosts(text);
    ASSERT_TRUE(expanded) << refusal(expanded);
    EXPECT_EQ(*expanded, hosts) << text;
  }
}

TEST(HostList, BrokenOrEndlessListsAreRefused) {
  for (const char* text : {"",
                           " ",
                           "a,",
                           ",a",
                           "a,,b",
                           "h[1-4",
                           "h1-4]",
                           "h[]",
                           "h[4-1]",
                           "h[a-b]",
                           "h[1-]",
                           "h[-1]",
                           "h[[1]]",
                           "h[1],]",
                           "a b",
                           "h[1-2,]",
                           "h[99999999999999999999]",
                           "h\n",
                           "h;rm",
                           "h*"}) {
    const auto r = expand_hosts(text);
    EXPECT_FALSE(r) << text;
    if (!r) { EXPECT_EQ(r.error().code(), Code::kInvalid) << text; }
  }
  for (const char* text : {"h[1-1000001]", "h[0-999999999999]", "a[1-10000]b[1-10000]", "h[1-999999],i[1-2]",
                           "a[1-9]b[1-9]c[1-9]d[1-9]e[1-9]f[1-9]g[1-9]"}) {
    const auto r = expand_hosts(text);
    EXPECT_FALSE(r) << text;
    if (!r) { EXPECT_EQ(r.error().code(), Code::kLimit) << text; }
  }
  EXPECT_FALSE(expand_hosts(std::string(300, 'h') + "[1-1000000]"));
  EXPECT_EQ(expand_hosts("h[1-1000000]")->size(), kHostsMax);
}

TEST(HostList, CompressesToWhatExpandsBack) {
  EXPECT_EQ(compress_hosts({"h1", "h2", "h3", "h4", "h7"}), "h[1-4,7]");
  EXPECT_EQ(compress_hosts({"login"}), "login");
  EXPECT_EQ(compress_hosts({"h7"}), "h7");
  EXPECT_EQ(compress_hosts({}), "");
  EXPECT_EQ(compress_hosts({"n08", "n09", "n10"}), "n[08-10]");
  EXPECT_EQ(compress_hosts({"n9", "n10"}), "n[9-10]");
  EXPECT_EQ(compress_hosts({"n9", "n010"}), "n[9,010]");
  EXPECT_EQ(compress_hosts({"a1", "b1", "a2", "a1"}), "a[1-2],b1");
  EXPECT_EQ(compress_hosts({"r1n01", "r1n02", "r2n01"}), "r1n[01-02],r2n01");
  EXPECT_EQ(compress_hosts({"x1-ib", "x2-ib"}), "x[1-2]-ib");
  EXPECT_EQ(compress_hosts({"n3", "n1", "n2"}), "n[3,1-2]");
}

TEST(HostList, RandomSetsSurviveTheRoundTrip) {
  Rng rng(3);
  for (int round = 0; round < 500; ++round) {
    Texts hosts;
    std::set<std::string> unique;
    for (auto n = rng.between(1, 40); n > 0; --n) {
      std::string name = rng.chance(300) ? "r" + std::to_string(rng.below(3)) + "n" : "node";
      const std::string digits = std::to_string(rng.below(120));
      if (rng.chance(300)) name += std::string(digits.size() < 3 ? 3 - digits.size() : 0, '0');
      if (!rng.chance(100)) name += digits;
      if (rng.chance(100)) name += "-ib";
      if (unique.insert(name).second) hosts.push_back(name);
    }
    const auto back = expand_hosts(compress_hosts(hosts));
    ASSERT_TRUE(back) << compress_hosts(hosts);
    ASSERT_EQ(std::set<std::string>(back->begin(), back->end()), unique) << compress_hosts(hosts);
    ASSERT_EQ(back->size(), unique.size());
  }
}

TEST(HostList, OneGroupKeepsItsOrder) {
  Rng rng(4);
  for (int round = 0; round < 200; ++round) {
    Texts hosts;
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t n = rng.below(30);
      if (seen.insert(n).second) hosts.push_back("h" + std::to_string(n));
    }
    ASSERT_EQ(*expand_hosts(compress_hosts(hosts)), hosts);
  }
}

// --- index sets ----------------------------------------------------------------------------------------------------

TEST(IndexSetText, ArraySpecificationsAreUnderstood) {
  const auto set = *IndexSet::parse("1,4-20:2");
  EXPECT_EQ(set.size(), 10u);
  EXPECT_TRUE(set.contains(1) && set.contains(4) && set.contains(20));
  EXPECT_FALSE(set.contains(5) || set.contains(2) || set.contains(0) || set.contains(22));
  EXPECT_EQ(set.min(), 1u);
  EXPECT_EQ(set.max(), 20u);
  EXPECT_EQ(set.at(0), 1u);
  EXPECT_EQ(set.at(9), 20u);
  EXPECT_EQ(IndexSet::parse("0-15:4")->step(), 4u);
  EXPECT_EQ(IndexSet::parse("0-15:4")->max(), 12u);
  EXPECT_EQ(IndexSet::parse("1-3,2-6,7")->text(), "1-7");
  EXPECT_EQ(IndexSet::parse("7,5")->text(), "5,7");
  EXPECT_EQ(IndexSet::parse("1-9:2,2-8:2")->text(), "1-9");
  EXPECT_EQ(IndexSet::parse("5-5:3")->text(), "5");
  EXPECT_EQ(IndexSet().size(), 0u);
}

TEST(IndexSetText, ABillionIndexesCostNothing) {
  const auto set = IndexSet::parse("1-1000000000");
  ASSERT_TRUE(set);
  EXPECT_EQ(set->size(), 1'000'000'000u);
  EXPECT_EQ(set->at(999'999'999), 1'000'000'000u);
  EXPECT_EQ(set->ranges().size(), 1u);
}

TEST(IndexSetText, BrokenOnesAreRefused) {
  for (const char* text :
       {"", ",", "1,", "SRR1,SRR2", "1-", "-3", "5-3", "1-5:0", "1-5:", "5:2", "1-5:2:3", "9999999999999999999", "1..5", "0x1"}) {
    EXPECT_FALSE(IndexSet::parse(text)) << text;
  }
  const auto wide = IndexSet::parse("1-100000000:3,1-100000000:2");
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().code(), Code::kLimit);
}

TEST(IndexSetText, RandomListsAreTheSetThatBruteForceSays) {
  Rng rng(5);
  for (int round = 0; round < 1000; ++round) {
    std::string text;
    std::set<std::uint64_t> members;
    for (auto n = rng.between(1, 6); n > 0; --n) {
      const std::uint64_t first = rng.below(60), last = first + rng.below(40), step = 1 + rng.below(5);
      text += (text.empty() ? "" : ",") + std::to_string(first);
      if (rng.chance(300)) {
        members.insert(first);
        continue;
      }
      text += "-" + std::to_string(last) + (step > 1 ? ":" + std::to_string(step) : "");
      for (std::uint64_t i = first; i <= last; i += step) members.insert(i);
    }
    const auto set = IndexSet::parse(text);
    ASSERT_TRUE(set) << text;
    ASSERT_EQ(set->size(), members.size()) << text;
    std::uint64_t rank = 0;
    for (const std::uint64_t m : members) ASSERT_EQ(set->at(rank++), m) << text;
    for (std::uint64_t i = 0; i < 110; ++i) ASSERT_EQ(set->contains(i), members.contains(i)) << text << " " << i;
    const auto back = IndexSet::parse(set->text());
    ASSERT_TRUE(back);
    ASSERT_EQ(back->ranges(), set->ranges()) << text << " -> " << set->text();
  }
}

// --- constraints ---------------------------------------------------------------------------------------------------

TEST(Constraints, EachFormSelectsTheRightAgents) {
  const Labels labels = {{"zone", "a"}, {"rack", "r2"}, {"host", "h3"}, {"arch", "x86_64"}, {"gpu", ""}};
  const std::vector<std::pair<std::string, bool>> cases = {
      {"zone in (a,b)", true},
      {"zone in (b)", false},
      {"zone=a", true},
      {"zone==a", true},
      {"zone!=a", false},
      {"rack!=r1", true},
      {"host notin (h[1-4])", false},
      {"host in (h[1-4])", true},
      {"host=h[1-4,7]", true},
      {"gpu", true},
      {"!gpu", false},
      {"fpga", false},
      {"!fpga", true},
      {"fpga!=x", true},
      {"fpga notin (x)", true},
      {"fpga=x", false},
      {"gpu&zone=a", true},
      {"gpu & !fpga", true},
      {"gpu&zone=b", false},
      {"", true},
      {"arch=x86_64&zone in ( a , b )&rack", true},
  };
  for (const auto& [text, expected] : cases) {
    const auto parsed = parse_constraints(text);
    ASSERT_TRUE(parsed) << refusal(parsed);
    EXPECT_EQ(satisfies(labels, *parsed), expected) << text;
    const auto back = parse_constraints(to_text(*parsed));
    ASSERT_TRUE(back) << to_text(*parsed);
    EXPECT_EQ(*back, *parsed) << text << " -> " << to_text(*parsed);
  }
}

TEST(Constraints, BrokenOnesAreRefusedWithTheForms) {
  for (const char* text :
       {"&",  "a&", "&a",         "a&&&b",         "zone in",        "zone in a", "zone in ()", "zone=", "!zone=a", "!",
        "=a", "a|", "zone in (a", "zone in (a b)", "host in (h[1-)", "zone ~",    "zone=a,b c", "(a",    "a)",      "()"}) {
    EXPECT_FALSE(parse_constraints(text)) << text;
  }
  EXPECT_NE(refusal(parse_constraints("zone in a")).find("in (a,b)"), std::string::npos);
  std::string many = "l0";
  for (int i = 1; i < 1000; ++i) many += "&l" + std::to_string(i);
  EXPECT_EQ(parse_constraints(many).error().code(), Code::kLimit);
}

TEST(Hosts, AreOrderedByTheirNumbers) {
  std::vector<std::string> hosts = {"h10", "h2", "r2n1", "h1", "r1n10", "r1n9", "h01", "login"};
  std::ranges::sort(hosts, host_before);
  EXPECT_EQ(hosts, (std::vector<std::string>{"h01", "h1", "h2", "h10", "login", "r1n9", "r1n10", "r2n1"}));
  for (const std::string& a : hosts)
    for (const std::string& b : hosts) EXPECT_EQ(host_before(a, b) && host_before(b, a), false);
}

TEST(Units, HoursAsSlurmAndMomentsAsDateWriteThem) {
  EXPECT_EQ(format_hours(seconds(65)), "00:01:05");
  EXPECT_EQ(format_hours(seconds(3 * 86'400 + 3'600)), "3-01:00:00");
  EXPECT_EQ(format_hours(seconds(-5)), "00:00:00");
  EXPECT_EQ(format_utc(seconds(1'796'112'000)), "2026-12-01T08:00:00Z");  // date -u -d @1796112000
}

}  // namespace
}  // namespace bourse
