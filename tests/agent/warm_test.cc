// Pools of warm instances: sizes, budget, claims; and the rule of sizes against a fixed keep-alive, over recorded arrivals.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "agent/warm_pools.h"

namespace bourse {
namespace {

TaskSpec container(const std::string& image) {
  TaskSpec spec;
  spec.kind = TaskKind::kContainer;
  spec.image = image;
  spec.user = "ada";
  spec.directory = "/home/ada";
  return spec;
}

WarmState ready(std::vector<WarmState::Instance> instances) { return {std::move(instances), {}}; }

struct Pools : WarmPools {
  Duration now = seconds(1000);
  Pools() { configure({true, Bytes{64LL << 20}}); }
  std::string start(const std::string& image) { return claim(now, pool_name(container(image)), container(image)); }
  void pass(Duration d) {
    for (; d > Duration(0); d -= kTick) now += kTick, tick(now);
  }
  std::uint32_t count(const std::string& image) const {
    for (const KeepWarm::Pool& pool : wanted())
      if (pool.name == pool_name(container(image))) return pool.count;
    return 0;
  }
};

TEST(WarmPools, TheFirstTaskOfAnImageStartsColdAndTheNextWarm) {
  Pools pools;
  EXPECT_EQ(pools.start("a"), "");
  ASSERT_EQ(pools.count("a"), 1U);
  pools.state(pools.now, ready({{pool_name(container("a")), "place-1", Bytes{8LL << 20}}}));
  EXPECT_EQ(pools.start("a"), "place-1");
  EXPECT_EQ(pools.start("a"), "") << "each instance is had once";
  EXPECT_EQ(pools.WarmPools::figures().hits, 1);
  EXPECT_EQ(pools.WarmPools::figures().misses, 2);
}

TEST(WarmPools, TurnedOffTheyKeepNothing) {
  Pools pools;
  pools.configure({});
  EXPECT_EQ(pools.start("a"), "");
  EXPECT_TRUE(pools.wanted().empty());
}

TEST(WarmPools, OnlyTasksThatCanRunInEachOthersInstanceShareAPool) {
  const TaskSpec base = container("a");
  TaskSpec other = base;
  other.user = "ben";
  EXPECT_NE(pool_name(base), pool_name(other)) << "never two users";
  other = base, other.isolate = {"net"};
  EXPECT_NE(pool_name(base), pool_name(other));
  other = base, other.mounts = {"/data"};
  EXPECT_NE(pool_name(base), pool_name(other));
  other = base, other.argv = {"another", "program"}, other.env = {"A=1"};
  EXPECT_EQ(pool_name(base), pool_name(other)) << "what runs in it is said when it is claimed";
  other = base, other.kind = TaskKind::kProcess;
  EXPECT_EQ(pool_name(other), "");
}

TEST(WarmPools, AGuestIsForSlicesOfItsSizeAndIsToldItsTaskLater) {
  TaskSpec spec;
  spec.kind = TaskKind::kMicroVm;
  spec.image = "kernel=/boot/vmlinuz,initrd=/boot/initrd";
  spec.user = "ada";
  const WarmGuest guest{"qemu:///system", Bytes{512LL << 20}, 2};
  const std::string name = pool_name(spec, guest);
  ASSERT_NE(name, "");
  for (const WarmGuest& other : {WarmGuest{"qemu:///session", guest.mem, 2}, WarmGuest{guest.hypervisor, Bytes{513LL << 20}, 2},
                                 WarmGuest{guest.hypervisor, guest.mem, 1}})
    EXPECT_NE(pool_name(spec, other), name);
  TaskSpec other = spec;
  other.user = "ben";
  EXPECT_NE(pool_name(other, guest), name) << "never two users";
  other = spec, other.argv = {"another"}, other.env = {"A=1"}, other.directory = "/data";
  EXPECT_EQ(pool_name(other, guest), name) << "what runs in it is said when it is claimed";
  // What boots by itself is told its task by a disk that it has from the start.
  for (const char* image :
       {"/images/disk", "disk=/images/disk", "kernel=/k,disk=/images/root", "kernel=/k,initrd=/i,append=rdinit=/sbin/init"}) {
    other = spec, other.image = image;
    EXPECT_EQ(pool_name(other, guest), "") << image;
  }
  EXPECT_EQ(pool_name(spec, {"", guest.mem, 2}), "") << "its slice has no hypervisor: it is refused";

  Pools pools;
  pools.configure({true, kGiB});
  EXPECT_EQ(pools.claim(pools.now, name, spec, guest), "");
  ASSERT_EQ(pools.wanted().size(), 1U);
  const KeepWarm::Pool wanted = pools.wanted()[0];
  EXPECT_EQ(wanted.hypervisor, guest.hypervisor);
  EXPECT_EQ(wanted.mem, guest.mem);
  EXPECT_EQ(wanted.cpus, 2U);
  pools.state(pools.now, ready({{name, "place", Bytes{200LL << 20}}}));
  EXPECT_EQ(pools.claim(pools.now, name, spec, guest), "place");
  // A budget that holds no guest keeps none.
  pools.configure({true, Bytes{100LL << 20}});
  EXPECT_TRUE(pools.wanted().empty());
}

TEST(WarmPools, AnImageThatNobodyStartsAnyMoreIsDropped) {
  Pools pools;
  pools.start("a");
  EXPECT_EQ(pools.count("a"), 1U);
  pools.pass(seconds(600));
  EXPECT_EQ(pools.count("a"), 1U);
  pools.pass(seconds(400));
  EXPECT_EQ(pools.count("a"), 0U);
}

TEST(WarmPools, AnImageThatIsStartedOftenIsKeptLonger) {
  Pools pools;
  for (int i = 0; i < 8; ++i) pools.start("a");
  pools.pass(seconds(1000));
  EXPECT_GE(pools.count("a"), 1U);
}

TEST(WarmPools, AsManyAreKeptAsCameAtOneTimeOfLate) {
  Pools pools;
  pools.configure({true, kGiB});
  pools.start("a");
  pools.pass(seconds(60));
  EXPECT_EQ(pools.count("a"), 1U);
  pools.start("a"), pools.start("a"), pools.start("a");
  pools.pass(seconds(60));
  EXPECT_EQ(pools.count("a"), 3U) << "no rate says so: four claims in two minutes, and two seconds to make one";
  pools.pass(seconds(600));
  EXPECT_EQ(pools.count("a"), 2U);
  pools.pass(seconds(600));
  EXPECT_LE(pools.count("a"), 1U);
}

TEST(WarmPools, TheSizeFollowsWhatIsWantedAtOneTime) {
  Pools pools;
  const std::string name = pool_name(container("a"));
  pools.configure({true, Bytes{4LL << 30}});
  pools.start("a");
  pools.took(name, seconds(20));
  // Two a tick for long: 24 in the last two minutes, so 16 while four instances are made one after another (80 s). Steady: no more.
  for (int i = 0; i < 100; ++i) {
    pools.start("a"), pools.start("a");
    pools.pass(WarmPools::kTick);
  }
  EXPECT_NEAR(pools.size_of(name), 16, 2);
  // The same number in bursts of 12: more is kept ready.
  const std::uint32_t steady = pools.size_of(name);
  std::uint32_t most = 0;
  for (int i = 0; i < 60; ++i) {
    if (i % 6 == 0)
      for (int k = 0; k < 12; ++k) pools.start("a");
    most = std::max(most, pools.size_of(name));
    pools.pass(WarmPools::kTick);
  }
  EXPECT_GT(most, steady * 3 / 2);
}

TEST(WarmPools, BeyondTheBudgetTheOneClaimedLongestAgoGoesFirst) {
  Pools pools;
  pools.configure({true, Bytes{3 * WarmPools::kGuess.value}});
  for (const char* image : {"a", "b", "c", "d"}) {
    pools.now += seconds(1);
    pools.start(image);
  }
  EXPECT_EQ(pools.count("a"), 0U);
  EXPECT_EQ(pools.count("b") + pools.count("c") + pools.count("d"), 3U);
  pools.now += seconds(1);
  pools.start("a");
  EXPECT_EQ(pools.count("a"), 1U);
  EXPECT_EQ(pools.count("b"), 0U);
}

TEST(WarmPools, CountsWhatWentUnused) {
  Pools pools;
  pools.start("a");
  const std::string name = pool_name(container("a"));
  pools.state(pools.now, ready({{name, "p1", Bytes{8LL << 20}}}));
  pools.now += seconds(100);
  pools.state(pools.now, ready({}));
  EXPECT_EQ(pools.WarmPools::figures().waste_mib_seconds, 800);
  Counters out;
  pools.figures(out);
  EXPECT_EQ(out.get("warm.waste"), 800);
  EXPECT_EQ(out.get("warm.misses"), 1);
}

// --- against a fixed keep-alive ------------------------------------------------------------------------------------------------

struct Arrival {
  Duration at{0};
  std::string image;
};
struct Outcome {
  std::int64_t cold = 0;
  double mem = 0;  // instances that wait, on average
};

// What a fixed keep-alive does with instances that are had once. Each claim leaves one, as a container that is kept after its task: it is
// ready after `making`, and waits for `keep`; the one that has waited least is had first.
Outcome keep_each(const std::vector<Arrival>& arrivals, Duration making, Duration keep) {
  std::map<std::string, std::vector<Duration>> ready;  // by image, in order
  Outcome out;
  double waiting = 0;
  for (const Arrival& a : arrivals) {
    std::vector<Duration>& list = ready[a.image];
    waiting += static_cast<double>(keep.count() * std::erase_if(list, [&](Duration r) { return r + keep < a.at; }));
    const auto after = std::upper_bound(list.begin(), list.end(), a.at);
    if (after == list.begin()) {
      ++out.cold;
    } else {
      waiting += static_cast<double>((a.at - *std::prev(after)).count());
      list.erase(std::prev(after));
    }
    list.push_back(a.at + making);
  }
  const Duration end = arrivals.back().at;
  for (const auto& [image, list] : ready)
    for (const Duration r : list) waiting += static_cast<double>(std::max(std::min(end, r + keep) - r, Duration(0)).count());
  out.mem = waiting / static_cast<double>(end.count());
  return out;
}

// The same with never more than one of an image: after a claim another is made, and goes `keep` after the last.
Outcome keep_one(const std::vector<Arrival>& arrivals, Duration making, Duration keep) {
  std::map<std::string, std::vector<Duration>> by_image;
  for (const Arrival& a : arrivals) by_image[a.image].push_back(a.at);
  Outcome out;
  const Duration end = arrivals.back().at;
  double waiting = 0;
  for (const auto& [image, times] : by_image) {
    Duration instance{-1};
    for (std::size_t i = 0; i < times.size(); ++i) {
      const Duration t = times[i];
      if (i > 0 && t - times[i - 1] > keep && instance >= Duration(0)) {
        waiting += static_cast<double>(std::max(times[i - 1] + keep - instance, Duration(0)).count());
        instance = Duration(-1);
      }
      if (instance >= Duration(0) && instance <= t) {
        waiting += static_cast<double>((t - instance).count());
        instance = Duration(-1);
      } else {
        ++out.cold;
      }
      if (instance < Duration(0)) instance = t + making;
    }
    if (instance >= Duration(0))
      waiting += static_cast<double>(std::max(std::min(end, times.back() + keep) - instance, Duration(0)).count());
  }
  out.mem = waiting / static_cast<double>(end.count());
  return out;
}

// The pools themselves, with a host that makes what they want in `making`.
Outcome pooled(const std::vector<Arrival>& arrivals, Duration making) {
  struct Made {
    std::string place;
    Duration ready{0};
  };
  WarmPools pools;
  pools.configure({true, Bytes{1LL << 50}});
  std::map<std::string, std::vector<Made>> made;  // oldest first
  Outcome out;
  double waiting = 0;
  Duration last{0};
  std::uint64_t places = 0;
  const auto tell = [&](Duration now) {
    WarmState state;
    for (const auto& [name, list] : made)
      for (const Made& one : list)
        if (one.ready <= now) state.ready.push_back({name, one.place, Bytes{1}});
    pools.state(now, state);
  };
  const auto balance = [&](Duration now) {
    std::map<std::string, std::uint32_t> want;
    for (const KeepWarm::Pool& pool : pools.wanted()) want[pool.name] = pool.count;
    for (auto& [name, list] : made)
      while (list.size() > want[name]) list.pop_back();
    for (const auto& [name, count] : want)
      while (made[name].size() < count) made[name].push_back({std::to_string(++places), now + making});
    tell(now);
  };
  const auto pass = [&](Duration now) {
    for (const auto& [name, list] : made)
      for (const Made& one : list) waiting += static_cast<double>(std::max(now - std::max(one.ready, last), Duration(0)).count());
    last = now;
  };
  Duration tick{0};
  for (const Arrival& a : arrivals) {
    for (; tick + WarmPools::kTick <= a.at; tick += WarmPools::kTick) {
      pass(tick + WarmPools::kTick);
      pools.tick(tick + WarmPools::kTick);
      balance(tick + WarmPools::kTick);
    }
    pass(a.at);
    tell(a.at);
    const TaskSpec spec = container(a.image);
    const std::string name = pool_name(spec), place = pools.claim(a.at, name, spec);
    if (place.empty()) ++out.cold;
    std::erase_if(made[name], [&](const Made& one) { return one.place == place; });
    pools.took(name, making);
    balance(a.at);
  }
  out.mem = waiting / static_cast<double>(arrivals.back().at.count());
  return out;
}

using KeepAlive = Outcome (*)(const std::vector<Arrival>&, Duration, Duration);

// The shortest keep-alive that has as much memory as the pools have had: the best that it does with it. Where it never has as much, its
// best of all.
Outcome keep_alive_with(KeepAlive keep, const std::vector<Arrival>& arrivals, Duration making, double mem) {
  Duration low{0}, high = seconds(7 * 24 * 3600);
  while (high - low > seconds(1)) {
    const Duration middle = (low + high) / 2;
    (keep(arrivals, making, middle).mem >= mem ? high : low) = middle;
  }
  return keep(arrivals, making, high);
}

void compare(const std::string& what, const std::vector<Arrival>& arrivals, Duration making) {
  const Outcome ours = pooled(arrivals, making), each = keep_alive_with(keep_each, arrivals, making, ours.mem),
                one = keep_alive_with(keep_one, arrivals, making, ours.mem);
  std::printf(
      "%s: %zu starts, cold %lld with %.2f instances waiting; fixed keep-alive: cold %lld with %.2f; of one an image: %lld, %.2f\n",
      what.c_str(), arrivals.size(), static_cast<long long>(ours.cold), ours.mem, static_cast<long long>(each.cold), each.mem,
      static_cast<long long>(one.cold), one.mem);
  EXPECT_GE(each.mem, ours.mem) << "equal memory, or more for the other side";
  EXPECT_LT(ours.cold, each.cold);
  EXPECT_LT(ours.cold, one.cold);
}

TEST(WarmTrace, FunctionsStartColdLessOftenThanWithAFixedKeepAliveOfEqualMemory) {
  std::ifstream in("tests/data/traces/functions.csv");
  std::vector<Arrival> arrivals;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    const std::size_t first = line.find(','), second = line.find(',', first + 1);
    arrivals.push_back({Duration(static_cast<std::int64_t>(std::strtod(line.c_str(), nullptr) * 1e6)),
                        line.substr(first + 1, second - first - 1)});
  }
  ASSERT_EQ(arrivals.size(), 199U);
  compare("functions", arrivals, milliseconds(3200));  // the cold start of the paper that the requirement quotes
}

TEST(WarmTrace, GenerativeRequestsStartColdLessOftenThanWithAFixedKeepAliveOfEqualMemory) {
  const char* set = std::getenv("BOURSE_TRACES");
  const std::string file = std::string(set != nullptr ? set : "../shared/traces") + "/cloud/alibaba_genai_requests_2026.csv.gz";
  if (access(file.c_str(), R_OK) != 0) GTEST_SKIP() << "there is no " << file;
  // Seconds since the first, and the model. The date is of one month and the next: days are counted from its text.
  FILE* pipe = popen(("gzip -dc '" + file + "'").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::vector<Arrival> arrivals;
  char line[4096];
  (void)!std::fgets(line, sizeof line, pipe);
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    int month = 0, day = 0, hour = 0, minute = 0, second = 0;
    if (std::sscanf(line, "2024-%d-%d %d:%d:%d", &month, &day, &hour, &minute, &second) != 5) continue;
    std::vector<std::string> fields(1);
    for (const char* c = line; *c != '\0' && *c != '\n'; ++c) {
      if (*c == ',') {
        fields.emplace_back();
      } else {
        fields.back().push_back(*c);
      }
    }
    const std::int64_t days = (month == 12 ? 30 : 0) + day;
    arrivals.push_back({seconds(((days * 24 + hour) * 60 + minute) * 60 + second), fields.at(9)});
  }
  pclose(pipe);
  std::stable_sort(arrivals.begin(), arrivals.end(), [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
  ASSERT_EQ(arrivals.size(), 26'823U);
  const Duration first = arrivals.front().at;
  for (Arrival& a : arrivals) a.at -= first;
  arrivals.resize(8'000);                                 // a week
  compare("generative", arrivals, milliseconds(22'700));  // the median time in which a base model is loaded, of the same set
}

}  // namespace
}  // namespace bourse
