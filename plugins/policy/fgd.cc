// fgd: fragmentation gradient descent for devices that are shared (Weng et al., USENIX ATC 2023).
//
// Which unit goes where is decided by what it does to the room for the usual units. The usual ones are the classes of equal asks among
// those that came within `window`, the most frequent first until they are `cover` of all; p_k is the frequency of class k among them.
// F(n, k) of agent n is the idle part of its devices that class k cannot use: all of it where k does not fit on n or asks for no
// device of that kind, else what is idle on devices too full for k. F(n) = sum of p_k F(n, k), in thousandths of a device.
// A unit goes where F falls most: score = floor(100 / (1 + exp(-(F before - F after) / 1000))) / 100, and on the device, for an ask
// of one part of one device, for which it falls most.
//
// Ties are by rule: equal scores, the host's order of candidates (batch: lowest index); equal devices, the lowest. steps=0 does not round
// scores, and is another policy: the rounding makes many ties, and the tie rule then packs.
// What is idle of a device is the fullest of its counters, in thousandths; a class that asks for counters fits where each suffices.
// GPUs, NPUs (compute and control apart), FPGA regions and virtual functions are all counters to it.
// While nothing is known of what usually comes, it is binpack with rule=best. What was counted goes over a reload and a restart.
//
// Parameters: window=24h, cover=0.95, steps=100. O(candidates x devices x classes).
#include <deque>
#include <map>

#include "common/core/fmath.h"
#include "plugins/policy/builtin.h"
#include "plugins/policy/fit.h"

namespace bourse::policy {

namespace {

constexpr std::size_t kArrivalsMax = 200'000;  // remembered
constexpr std::size_t kClassesMax = 256;       // that count
constexpr std::int64_t kDevice = 1000;

struct Class {
  Vector ask;
  std::vector<DeviceWish> devices;
  auto key() const {
    std::string text;
    for (const std::int64_t a : ask) text += std::to_string(a) + " ";
    for (const DeviceWish& w : devices) {
      text += "d" + std::to_string(w.kind) + "*" + std::to_string(w.count) + (w.whole ? "w" : "p");
      for (const std::int64_t l : w.least) text += " " + std::to_string(l);
    }
    return text;
  }
};

class Fgd final : public Base {
 public:
  using Base::Base;

  void configure(Params& params) override {
    window_ = params.duration("window", std::chrono::hours(24)).count();
    cover_ = params.milli("cover", 950, 1, 1000);
    steps_ = static_cast<double>(params.integer("steps", 100, 0, 1'000'000));
  }

  void agent_changed(std::uint32_t h) override {
    spec_.see(book.agents()[h].total);
    if (h >= before_.size()) before_.resize(std::size_t{h} + 1, -1);
    before_[h] = -1;
  }

  // A claimant that is new, or asks for something else than before, or begins with another job, is an arrival.
  void claimant_told(std::uint32_t h) override {
    const Claimant& c = book.of(h);
    if (c.units == 0) return;
    if (h >= seen_.size()) seen_.resize(std::size_t{h} + 1);
    const Class asked{c.ask, c.devices};
    const std::string key = asked.key();
    std::string mark = key + "@" + std::to_string(c.order);
    if (seen_[h] == mark) return;
    seen_[h] = std::move(mark);
    arrived(key, asked, c.submitted_us);
  }
  void claimant_removed(std::uint32_t h) override {
    if (h < seen_.size()) seen_[h].clear();
  }

  void score(const Placement& what, const std::uint32_t* agents, std::uint32_t count, bourse_score* scores) override {
    settle_classes();
    for (std::uint32_t i = 0; i < count; ++i) {
      const Agent& agent = book.agents()[agents[i]];
      if (usual_.empty()) {
        scores[i].score = in_steps(best_fit(what.ask, agent.free, spec_, {}), steps_);
        continue;
      }
      double& before = before_[agents[i]];
      if (before < 0) before = fragmentation(agent.free, agent.devices);
      const Best best = best_of(what, agent, before);
      scores[i].score = in_steps(1 / (1 + fmath::exp(-best.gain / 1000)), steps_);
      scores[i].device = best.device;
    }
  }

  // "count kind-independent text of the class" a line: what was counted, without when.
  [[nodiscard]] std::string save() const override {
    std::string out;
    for (const auto& [key, c] : counts_) {
      out += std::to_string(c.count) + " " + std::to_string(c.asked.ask.size());
      for (const std::int64_t a : c.asked.ask) out += " " + std::to_string(a);
      out += " " + std::to_string(c.asked.devices.size());
      for (const DeviceWish& w : c.asked.devices) {
        out += " " + std::to_string(w.kind) + " " + std::to_string(w.count) + (w.whole ? " 1 " : " 0 ") +
               std::to_string(w.least.size());
        for (const std::int64_t l : w.least) out += " " + std::to_string(l);
      }
      out += "\n";
    }
    return out;
  }
  bool load(std::string_view state) override {
    const char* at = state.data();
    const char* end = at + state.size();
    bool good = true;
    const auto number = [&](std::int64_t most) -> std::int64_t {
      std::int64_t value = 0;
      bool any = false;
      while (at < end && *at == ' ') ++at;
      for (; at < end && *at >= '0' && *at <= '9' && value <= most; ++at, any = true) value = value * 10 + (*at - '0');
      good = good && any && value <= most;
      return good ? value : 0;
    };
    std::map<std::string, Count> counts;
    while (good && at < end) {
      Count c;
      c.count = static_cast<std::uint64_t>(number(INT32_MAX));
      for (std::int64_t n = number(BOURSE_KINDS_MAX); good && n > 0; --n) c.asked.ask.push_back(number(INT64_MAX / 16));
      for (std::int64_t n = number(64); good && n > 0; --n) {
        DeviceWish& w = c.asked.devices.emplace_back();
        w.kind = static_cast<std::uint32_t>(number(BOURSE_KINDS_MAX));
        w.count = static_cast<std::uint32_t>(number(INT32_MAX));
        w.whole = number(1) == 1;
        for (std::int64_t m = number(BOURSE_COUNTERS_MAX); good && m > 0; --m) w.least.push_back(number(INT64_MAX / 16));
      }
      good = good && at < end && *at++ == '\n';
      const std::string key = c.asked.key();
      if (good) counts.emplace(key, std::move(c));
    }
    if (!good) return false;
    counts_ = std::move(counts);
    changes_ = SIZE_MAX / 2;
    return true;
  }

 private:
  struct Count {
    Class asked;
    std::uint64_t count = 0;
  };
  struct Usual {
    Class asked;
    double share = 0;
  };
  struct Best {
    double gain = 0;
    std::uint32_t device = kNone;
  };

  void arrived(const std::string& key, const Class& asked, std::int64_t when) {
    Count& c = counts_[key];
    if (c.count++ == 0) c.asked = asked;
    arrivals_.emplace_back(when, key);
    ++changes_;
    while (arrivals_.size() > kArrivalsMax || (window_ > 0 && arrivals_.front().first < when - window_)) {
      const auto old = counts_.find(arrivals_.front().second);
      if (old != counts_.end() && --old->second.count == 0) counts_.erase(old);
      arrivals_.pop_front();
    }
  }

  // Anew when what arrived since is a sixteenth of what is counted, so that it costs nothing per arrival.
  void settle_classes() {
    std::uint64_t all = 0;
    if (changes_ == 0) return;
    for (const auto& [key, c] : counts_) all += c.count;
    if (!usual_.empty() && changes_ < std::max<std::size_t>(64, all / 16)) return;
    changes_ = 0;
    std::vector<const std::pair<const std::string, Count>*> order;
    for (const auto& entry : counts_) order.push_back(&entry);
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->second.count > b->second.count; });
    usual_.clear();
    std::uint64_t covered = 0;
    for (const auto* entry : order) {
      if (covered * 1000 >= all * static_cast<std::uint64_t>(cover_) || usual_.size() >= kClassesMax) break;
      covered += entry->second.count;
      usual_.push_back({entry->second.asked, static_cast<double>(entry->second.count)});
    }
    for (Usual& u : usual_) u.share /= static_cast<double>(covered);
    std::fill(before_.begin(), before_.end(), -1);
  }

  // Thousandths of the device that nobody has, by its fullest counter.
  static std::int64_t idle(const Device& d) {
    if (d.total.empty()) return d.whole ? kDevice : 0;
    std::int64_t least = kDevice;
    for (std::size_t c = 0; c < d.total.size(); ++c)
      if (d.total[c] > 0) least = std::min(least, d.free[c] * kDevice / d.total[c]);
    return least;
  }
  static bool could(const DeviceWish& wish, const Device& d) {
    if (wish.whole) return d.whole;
    bool any = false;
    for (std::size_t c = 0; c < wish.least.size(); ++c) {
      if (wish.least[c] > at(d.free, c)) return false;
      any = any || wish.least[c] > 0;
    }
    return any ? true : idle(d) > 0;
  }

  [[nodiscard]] bool runs(const Class& k, const Vector& free, const std::vector<Device>& devices) const {
    for (std::size_t r = 0; r < 2; ++r)
      if (at(k.ask, r) > at(free, r)) return false;
    for (const DeviceWish& wish : k.devices) {
      std::uint32_t have = 0;
      for (const Device& d : devices)
        if (book.means(wish.kind, d.kind) && could(wish, d)) ++have;
      if (have < wish.count) return false;
    }
    return true;
  }

  [[nodiscard]] double fragmentation(const Vector& free, const std::vector<Device>& devices) const {
    if (devices.empty()) return 0;
    double sum = 0;
    for (const Usual& u : usual_) {
      const bool can = !u.asked.devices.empty() && runs(u.asked, free, devices);
      std::int64_t lost = 0;
      for (const Device& d : devices) {
        bool usable = false;
        for (const DeviceWish& wish : u.asked.devices) usable = usable || (can && book.means(wish.kind, d.kind) && could(wish, d));
        if (!usable) lost += idle(d);
      }
      sum += u.share * static_cast<double>(lost);
    }
    return sum;
  }

  static void take_part(Device& d, const DeviceWish& wish) {
    d.whole = false;
    for (std::size_t c = 0; c < d.free.size(); ++c) d.free[c] -= wish.whole ? d.free[c] : std::min(d.free[c], at(wish.least, c));
  }

  // Takes what the wishes from the second on, or all, would take: lowest devices first.
  void take_rest(const std::vector<DeviceWish>& wishes, std::size_t from, std::vector<Device>& devices) const {
    for (std::size_t w = from; w < wishes.size(); ++w) {
      std::uint32_t left = wishes[w].count;
      for (Device& d : devices) {
        if (left == 0) break;
        if (!book.means(wishes[w].kind, d.kind) || !could(wishes[w], d)) continue;
        take_part(d, wishes[w]);
        --left;
      }
    }
  }

  [[nodiscard]] Best best_of(const Placement& what, const Agent& agent, double before) {
    Vector rest = agent.free;
    for (std::size_t r = 0; r < rest.size() && r < what.ask.size(); ++r) rest[r] -= std::min(rest[r], what.ask[r]);
    const bool one_part = !what.devices.empty() && !what.devices[0].whole && what.devices[0].count == 1;
    if (!one_part) {
      devices_ = agent.devices;
      take_rest(what.devices, 0, devices_);
      return {before - fragmentation(rest, devices_), kNone};
    }
    Best best{-1e300, kNone};
    for (std::uint32_t i = 0; i < agent.devices.size(); ++i) {
      const Device& d = agent.devices[i];
      if (!book.means(what.devices[0].kind, d.kind) || !could(what.devices[0], d)) continue;
      // A device like an earlier one is no better.
      bool twin = false;
      for (std::uint32_t j = 0; j < i && !twin; ++j) {
        const Device& e = agent.devices[j];
        twin = e.kind == d.kind && e.whole == d.whole && e.free == d.free && e.total == d.total;
      }
      if (twin) continue;
      devices_ = agent.devices;
      take_part(devices_[i], what.devices[0]);
      take_rest(what.devices, 1, devices_);
      const double gain = before - fragmentation(rest, devices_);
      if (gain > best.gain) best = {gain, i};
    }
    return best.device == kNone ? Best{0, kNone} : best;
  }

  std::int64_t window_ = 0, cover_ = 950;
  double steps_ = 100;
  MaxSpec spec_;
  std::map<std::string, Count> counts_;
  std::deque<std::pair<std::int64_t, std::string>> arrivals_;
  std::size_t changes_ = 0;
  std::vector<Usual> usual_;
  std::vector<double> before_;     // by agent; negative: not computed
  std::vector<std::string> seen_;  // by claimant
  std::vector<Device> devices_;
};

}  // namespace

const bourse_policy_1 kFgd = table_of<Fgd>({.scores = true, .learns = true, .wants = BOURSE_WANTS_AGENTS});

}  // namespace bourse::policy
