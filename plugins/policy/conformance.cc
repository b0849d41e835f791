#include "plugins/policy/conformance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "plugins/policy/builtin.h"

namespace bourse::policy {

namespace {

constexpr std::uint32_t kAccounts = 6, kClaimants = 40, kAgents = 12, kBig = 10'000, kManyAgents = 1'000;
constexpr std::uint8_t kJunk = 0xA5;

// Structs as a later host would fill them: with more behind what this ABI knows.
template <class T>
struct Grown {
  T now;
  std::uint8_t later[24];
  explicit Grown(const T& value) : now(value) {
    now.size = sizeof(Grown);
    std::memset(later, kJunk, sizeof later);
  }
};

// A random cluster that changes step by step, told through a Host; what was asked and answered goes into a hash.
class Snapshots {
 public:
  Snapshots(Host& host, std::uint64_t seed) : host_(host), rng_(seed) {
    host_.total(total());
    for (std::uint32_t a = 0; a < kAccounts; ++a)
      host_.account({.handle = a, .parent = a < 2 ? kNone : a / 2, .weight = weight(), .name = "account" + std::to_string(a)});
  }

  // "" or what was wrong.
  std::string step() {
    now_ += Duration(static_cast<std::int64_t>(rng_.below(60'000'000)));
    for (std::uint64_t i = rng_.below(4) + 1; i > 0; --i) change();
    if (!host_.fault().empty()) return host_.fault();
    const std::uint32_t agent = rng_.below(2) == 0 ? kNone : any(present_agents_);
    std::vector<std::uint32_t> walk, ranked;
    host_.begin(now_, agent);
    while (const auto next = host_.next()) walk.push_back(next->claimant);
    for (std::uint32_t h = 0; h < kClaimants; ++h)
      if (wants_[h]) ranked.push_back(h);
    // In any order it is given, the answer is the same.
    if (rng_.below(2) == 0) std::reverse(ranked.begin(), ranked.end());
    host_.rank(now_, agent, ranked);
    if (!host_.fault().empty()) return host_.fault();
    if (ranked.size() != walk.size() || ranked != walk)
      return "a walk and rank() give different orders of " + std::to_string(ranked.size()) + " claimants";
    for (const std::uint32_t h : walk) mix(h);
    if (host_.scores() && !present_agents_.empty()) {
      const Shape shape = ask();
      const auto& scores = host_.score(walk.empty() ? kNone : walk.front(), shape, present_agents_);
      if (!host_.fault().empty()) return host_.fault();
      for (const bourse_score& s : scores) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, &s.score, sizeof bits);
        mix(bits);
        mix(s.device);
      }
    }
    if (!walk.empty() && rng_.below(3) == 0)
      host_.feedback({.event = BOURSE_ENDED,
                      .claimant = walk.front(),
                      .now = now_,
                      .wait = seconds(5),
                      .run = seconds(60),
                      .limit = seconds(90),
                      .units = 1});
    return host_.fault();
  }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  void mix(std::uint64_t value) { hash_ = (hash_ ^ value) * 1099511628211ULL; }
  std::uint32_t weight() { return static_cast<std::uint32_t>(rng_.below(5) + 1) * 500; }
  static std::uint32_t any(const std::vector<std::uint32_t>& of) { return of.empty() ? kNone : of[0]; }
  Usage total() {
    Usage all{.cpus = 1'000'000, .mem = std::int64_t{1} << 42, .devices = {}};
    if (devices_) all.devices.set("gpu/any", 48'000);
    return all;
  }
  Usage some() {
    Usage u{.cpus = static_cast<std::int64_t>(rng_.below(100'000)),
            .mem = static_cast<std::int64_t>(rng_.below(1ULL << 38)),
            .devices = {}};
    if (devices_ && rng_.below(3) == 0) u.devices.set("gpu/any", static_cast<std::int64_t>(rng_.below(4000)));
    return u;
  }
  Shape ask() {
    Shape s;
    s.cpus = MilliCpus(static_cast<std::int64_t>(rng_.below(16) + 1) * 500);
    s.mem = Bytes(static_cast<std::int64_t>(rng_.below(64)) << 30);
    if (devices_ && rng_.below(3) == 0) {
      DeviceAsk d;
      d.kind = rng_.below(2) == 0 ? "gpu/any" : "gpu/";
      d.count = static_cast<std::uint32_t>(rng_.below(3)) + 1;
      d.whole = d.count > 1;
      if (!d.whole) d.counters.set("compute", static_cast<std::int64_t>(rng_.below(999)) + 1);
      s.devices.push_back(d);
    }
    return s;
  }
  void tell_agent(std::uint32_t h) {
    Resources total, free;
    total.cpus = MilliCpus(64'000);
    total.mem = Bytes(std::int64_t{256} << 30);
    free.cpus = MilliCpus(static_cast<std::int64_t>(rng_.below(64'001)));
    free.mem = Bytes(static_cast<std::int64_t>(rng_.below(257)) << 30);
    for (int i = 0; devices_ && i < static_cast<int>(h % 5); ++i) {
      DeviceShare d;
      d.device = DeviceId("GPU-" + std::to_string(i));
      d.kind = "gpu/any";
      d.whole = true;
      d.counters.set("compute", 1000);
      d.counters.set("mem", 40'000);
      total.devices.push_back(d);
      const std::uint64_t how = rng_.below(3);
      if (how == 0) continue;
      if (how == 1) {
        d.whole = false;
        d.counters.set("compute", static_cast<std::int64_t>(rng_.below(999)) + 1);
      }
      free.devices.push_back(d);
    }
    host_.agent(h, "agent" + std::to_string(h), total, free);
  }
  void change() {
    if (steps_++ == 200) {
      devices_ = true;  // kinds come later, as they do
      host_.total(total());
    }
    const auto h = static_cast<std::uint32_t>(rng_.below(kClaimants));
    switch (rng_.below(8)) {
      case 0:
      case 1:
      case 2: {
        const Shape shape = ask();
        const Usage used = some();
        const std::uint64_t units = rng_.below(4) == 0 ? 0 : rng_.below(9) + 1;
        host_.claimant({.handle = h,
                        .account = rng_.below(5) == 0 ? kNone : static_cast<std::uint32_t>(rng_.below(kAccounts)),
                        .weight = weight(),
                        .gang = static_cast<std::uint32_t>(rng_.below(4)) + 1,
                        .priority = static_cast<std::int64_t>(rng_.below(3)) - 1,
                        .order = ++order_ / 2,  // pairs with equal numbers: only names and handles are left
                        .units = units,
                        .name = rng_.below(3) == 0 ? "" : "c" + std::to_string(rng_.below(5)),
                        .submitted = now_ - Duration(static_cast<std::int64_t>(rng_.below(100'000'000'000))),
                        .limit = rng_.below(9) == 0 ? kNoLimit : Duration(static_cast<std::int64_t>(rng_.below(90'000'000'000))),
                        .used = &used,
                        .shape = &shape});
        there_[h] = true;
        wants_[h] = units > 0;
        break;
      }
      case 3:
        if (there_[h]) host_.claimant_used(h, some());
        break;
      case 4:
        if (there_[h]) {
          const std::uint64_t units = rng_.below(3);
          host_.claimant_units(h, units);
          wants_[h] = units > 0;
        }
        break;
      case 5:
        if (there_[h]) host_.claimant_removed(h);
        there_[h] = wants_[h] = false;
        break;
      case 6:
        host_.account_used(static_cast<std::uint32_t>(rng_.below(kAccounts)), some());
        break;
      default: {
        const auto agent = static_cast<std::uint32_t>(rng_.below(kAgents));
        const auto at = std::find(present_agents_.begin(), present_agents_.end(), agent);
        if (at != present_agents_.end() && rng_.below(4) == 0) {
          host_.agent_removed(agent);
          present_agents_.erase(at);
          break;
        }
        tell_agent(agent);
        if (at == present_agents_.end()) present_agents_.push_back(agent);
        break;
      }
    }
  }

  Host& host_;
  Rng rng_;
  Duration now_ = std::chrono::hours(24 * 365);
  bool devices_ = false;
  std::uint64_t steps_ = 0, order_ = 0, hash_ = 14695981039346656037ULL;
  std::array<bool, kClaimants> there_{}, wants_{};
  std::vector<std::uint32_t> present_agents_;
};

class Checker {
 public:
  Checker(const Choice& choice, const Conformance& how) : choice_(choice), how_(how), t_(*choice.table) {}

  bool run() {
    check("interface: every function that must be there is there", [&] { return complete(); });
    if (!passed_) return false;
    check("create: takes its parameters", [&] { return creates(); });
    if (!passed_) return false;
    check("create: refuses a parameter that it does not know, with a sentence", [&] { return refuses(); });
    check("objects: two are independent, and go in any order", [&] { return independent(); });
    check("empty: no claimants, no kinds beyond cpus and mem, no totals", [&] { return empty(); });
    check("handles: are used again after they were removed", [&] { return reused(); });
    check("structs: longer ones, as a later host hands over", [&] { return grown(); });
    check("snapshots: " + std::to_string(how_.snapshots) + " random ones", [&] { return snapshots(how_.seed); });
    check("determinism: the same calls, the same answers", [&] { return deterministic(); });
    check("state: save and load", [&] { return state(); });
    if (how_.guard != nullptr)
      check("time: " + std::to_string(kBig) + " claimants, " + std::to_string(kManyAgents) + " agents", [&] { return in_time(); });
    return passed_;
  }

 private:
  template <class F>
  void check(const std::string& name, const F& body) {
    how_.begins(name);
    const std::string why = body();
    how_.ends(name, why);
    passed_ = passed_ && why.empty();
  }

  Result<std::unique_ptr<Host>> make(std::uint64_t seed = 1) const {
    HostOptions options;
    options.name = "bourse";
    options.seed = seed;
    options.budget = how_.budget;
    options.guard = how_.guard;
    Choice strict = choice_;
    strict.built_in = false;  // believe nothing
    return Host::make(strict, std::move(options));
  }

  std::string complete() {
    const auto good = check_table(t_);
    return good ? "" : good.error().text();
  }
  std::string creates() {
    auto host = make();
    return host ? "" : host.error().text();
  }
  std::string refuses() {
    Choice odd = choice_;
    odd.spec.params["no-such-parameter"] = "1";
    auto host = Host::make(odd, {});
    if (host) return "create() took the parameter `no-such-parameter': a mistyped one would go unnoticed";
    if (host.error().text().ends_with("failed with -1")) return "create() refused, but wrote no sentence into `error'";
    return "";
  }
  std::string independent() {
    auto a = make(), b = make();
    (*a)->claimant({.handle = 0, .units = 1, .name = "one"});
    (*b)->begin(seconds(1));
    if ((*b)->next()) return "a claimant of one object is known to another";
    a->reset();
    (*b)->claimant({.handle = 3, .units = 1, .name = "other"});
    (*b)->begin(seconds(1));
    const auto next = (*b)->next();
    if (!next || next->claimant != 3) return "an object does not work after another was destroyed";
    return (*b)->fault();
  }
  std::string empty() {
    auto host = make();
    Host& h = **host;
    h.begin(Duration{0});
    if (h.next()) return "next() gives a claimant where there is none";
    if (h.next()) return "next() gives a claimant after the end";
    std::vector<std::uint32_t> none;
    h.rank(Duration{0}, kNone, none);
    h.total(Usage{});
    const Usage used{.cpus = 5, .mem = 5, .devices = {}};
    h.claimant({.handle = 0, .units = 1, .name = "x", .used = &used});
    h.claimant({.handle = 1, .units = 0, .name = "y"});
    h.begin(Duration{0});
    const auto next = h.next();
    if (!next || next->claimant != 0) return h.fault().empty() ? "the only one that wants something is not given" : h.fault();
    if (h.next()) return "one that wants nothing is given";
    h.begin(Duration{0});
    h.begin(Duration{-5});  // the clock stepped back
    h.claimant_removed(0);
    if (h.next()) return "a claimant is given that was removed in the middle of the walk";
    return h.fault();
  }
  std::string reused() {
    auto host = make();
    Host& h = **host;
    for (int round = 0; round < 50; ++round) {
      h.account({.handle = 0, .name = "a" + std::to_string(round)});
      h.claimant({.handle = 0, .account = 0, .order = 1, .units = 1, .name = "n" + std::to_string(round)});
      h.claimant({.handle = 1, .account = 0, .order = 2, .units = 1, .name = "m" + std::to_string(round)});
      Resources r;
      r.cpus = MilliCpus(1000 * (round + 1));
      r.mem = Bytes(1 << 30);
      h.agent(0, "g" + std::to_string(round), r, r);
      std::vector<std::uint32_t> both = {1, 0};
      h.rank(seconds(round), kNone, both);
      h.claimant_removed(0);
      h.begin(seconds(round));
      const auto next = h.next();
      if (!next || next->claimant != 1) return h.fault().empty() ? "after a removal the other one is not given" : h.fault();
      h.claimant_removed(1);
      h.agent_removed(0);
      h.account_removed(0);
    }
    return h.fault();
  }

  // Straight to the interface: a host of a later minor version fills longer structs.
  std::string grown() {
    bourse_policy* p = nullptr;
    char error[200] = "";
    std::vector<std::string> words;
    std::vector<Grown<bourse_param>> params;
    for (const auto& [key, value] : choice_.spec.params) params.emplace_back(bourse_param{0, key.c_str(), value.c_str()});
    const bourse_host host{sizeof(bourse_host),
                           BOURSE_PLUGIN_ABI_MAJOR,
                           BOURSE_PLUGIN_ABI_MINOR,
                           "check",
                           "1",
                           nullptr,
                           [](const bourse_host*, const char*) -> const void* { return nullptr; }};
    if (t_.create(&host, params.empty() ? nullptr : &params[0].now, static_cast<std::uint32_t>(params.size()), &p, error,
                  sizeof error) != 0)
      return std::string("create() fails with longer parameters, or without the host's interfaces: ") + error;
    const char* counters[] = {"compute", "mem"};
    const std::array kinds = {Grown(bourse_kind{0, "cpus", 0, nullptr}), Grown(bourse_kind{0, "mem", 0, nullptr}),
                              Grown(bourse_kind{0, "gpu/any", 2, counters})};
    t_.kinds(p, &kinds[0].now, 3);
    const std::int64_t total[] = {8000, 1 << 30, 2000}, ask[] = {1000, 1 << 20, 500}, none[] = {0, 0, 0}, whole[] = {1000, 100},
                       part[] = {500, 50};
    t_.total(p, total, 3);
    const Grown account(bourse_account{0, 0, kNone, 1000, "a", 3, none});
    t_.account(p, &account.now);
    const std::array devices = {Grown(bourse_device{0, 2, 1, 2, whole, whole}), Grown(bourse_device{0, 2, 0, 2, whole, part})};
    const Grown agent(bourse_agent{0, 0, "g", 3, total, total, 2, &devices[0].now});
    if (t_.agent != nullptr) t_.agent(p, &agent.now);
    const std::array wishes = {Grown(bourse_device_ask{0, 2, 1, 0, 2, part}), Grown(bourse_device_ask{0, 2, 1, 1, 2, none})};
    for (std::uint32_t h = 0; h < 3; ++h) {
      const Grown claimant(bourse_claimant{0, h, 0, 1000, 0, h, "", 0, BOURSE_UNLIMITED, 1, 1, 3, ask, none, 2, &wishes[0].now});
      t_.claimant(p, &claimant.now);
    }
    std::string why;
    if (t_.rank != nullptr) {
      std::uint32_t order[] = {2, 0, 1};
      t_.rank(p, 5, kNone, order, 3);
      std::array sorted = {order[0], order[1], order[2]};
      std::sort(sorted.begin(), sorted.end());
      if (sorted != std::array<std::uint32_t, 3>{0, 1, 2}) why = "rank() loses claimants";
    }
    if (t_.score != nullptr) {
      const Grown what(bourse_placement{0, 1, 3, ask, 1, &wishes[0].now});
      const std::uint32_t on[] = {0};
      bourse_score score{0, kNone};
      t_.score(p, &what.now, on, 1, &score);
      if (!(score.score >= 0 && score.score <= 1) && score.score != BOURSE_UNFIT) why = "a score of " + std::to_string(score.score);
      if (score.device != kNone && score.device > 1) why = "device " + std::to_string(score.device) + " of 2";
    }
    t_.destroy(p);
    return why;
  }

  std::string snapshots(std::uint64_t seed) {
    auto host = make(seed);
    Snapshots run(**host, seed);
    for (std::uint32_t i = 0; i < how_.snapshots; ++i)
      if (const std::string why = run.step(); !why.empty())
        return "snapshot " + std::to_string(i) + " of seed " + std::to_string(seed) + ": " + why;
    hash_ = run.hash();
    return "";
  }
  std::string deterministic() {
    const std::uint64_t before = hash_;
    if (const std::string why = snapshots(how_.seed); !why.empty()) return why;
    return hash_ == before ? "" : "the same snapshots gave other answers";
  }

  std::string state() {
    if (t_.save == nullptr) return "";
    auto host = make();
    Snapshots run(**host, how_.seed);
    for (std::uint32_t i = 0; i < std::min(how_.snapshots, 500U); ++i) run.step();
    const std::string saved = (*host)->save();
    if (!(*host)->fault().empty()) return (*host)->fault();
    if (saved != (*host)->save()) return "save() twice in a row gives different states";
    auto next = make();
    if (!saved.empty() && !(*next)->load(saved)) return "load() refuses what save() gave";
    Rng rng(how_.seed);
    for (int i = 0; i < 200; ++i) {  // what is not a state must not hurt
      std::string junk = saved.empty() ? choice_.spec.name + "\n" : saved;
      const std::size_t head = choice_.spec.name.size() + 1;
      if (i % 2 == 0) junk.resize(head + rng.below(junk.size() - head + 1));
      if (junk.size() > head) junk[head + rng.below(junk.size() - head)] = static_cast<char>(rng.below(256));
      auto victim = make();
      (void)(*victim)->load(junk);
      (*victim)->claimant({.handle = 0, .units = 1, .name = "x"});
      (*victim)->begin(seconds(1));
      if (!(*victim)->next()) return "after a damaged state was loaded it gives nobody";
      if (!(*victim)->fault().empty()) return (*victim)->fault();
    }
    return "";
  }

  std::string in_time() {
    auto host = make();
    Host& h = **host;
    Rng rng(how_.seed);
    Resources r;
    r.cpus = MilliCpus(64'000);
    r.mem = Bytes(std::int64_t{256} << 30);
    for (std::uint32_t a = 0; a < kManyAgents; ++a) h.agent(a, "agent" + std::to_string(a), r, r);
    Shape shape;
    shape.cpus = MilliCpus(1000);
    std::vector<std::uint32_t> all, agents;
    for (std::uint32_t i = 0; i < kBig; ++i) {
      h.claimant({.handle = i,
                  .order = i,
                  .units = 1,
                  .submitted = seconds(static_cast<std::int64_t>(rng.below(100'000))),
                  .limit = seconds(static_cast<std::int64_t>(rng.below(100'000))),
                  .shape = &shape});
      all.push_back(i);
    }
    for (std::uint32_t a = 0; a < kManyAgents; ++a) agents.push_back(a);
    for (int i = 0; i < 3 && h.fault().empty(); ++i) {
      h.rank(seconds(200'000), kNone, all);
      h.begin(seconds(200'000));
      while (h.next() && h.fault().empty()) {}
      if (h.scores()) h.score(0, shape, agents);
    }
    return h.fault();
  }

  const Choice& choice_;
  const Conformance& how_;
  const bourse_policy_1& t_;
  bool passed_ = true;
  std::uint64_t hash_ = 0;
};

}  // namespace

bool check_policy(const Choice& choice, const Conformance& how) { return Checker(choice, how).run(); }

}  // namespace bourse::policy
