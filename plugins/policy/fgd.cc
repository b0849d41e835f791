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
// Parameters: window=24h, cover=0.95, steps=100, mem=false (true: classes are told apart by their memory, too). O(candidates), and
// O(devices x classes) for each agent that has changed since the same was asked for last.
#include <array>
#include <deque>
#include <map>

#include "common/core/fmath.h"
#include "plugins/policy/builtin.h"
#include "plugins/policy/fit.h"

namespace bourse::policy {

namespace {

constexpr std::size_t kArrivalsMax = 200'000;  // remembered
constexpr std::size_t kClassesMax = 256;       // that count
constexpr std::size_t kAsksMax = 64;           // whose scores are kept, 16 bytes an agent
constexpr std::size_t kWishesMax = 64;         // of devices, in one ask
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
    mem_ = params.flag("mem", false);
  }

  void agent_changed(std::uint32_t h) override {
    spec_.see(book.agents()[h].total);
    if (h >= changes_of_.size()) changes_of_.resize(std::size_t{h} + 1, 0);
    ++changes_of_[h];
  }

  // A claimant that is new, or asks for something else than before, or begins with another job, is an arrival.
  void claimant_told(std::uint32_t h) override {
    const Claimant& c = book.of(h);
    if (c.units == 0 || c.devices.size() > kWishesMax) return;
    if (h >= seen_.size()) seen_.resize(std::size_t{h} + 1);
    const Class asked{counted(c.ask), c.devices};
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
    std::vector<Known>* const known = usual_.empty() ? nullptr : &known_of(what);
    const std::vector<std::uint64_t> kinds = kinds_of(what.devices);
    for (std::uint32_t i = 0; i < count; ++i) {
      const Agent& agent = book.agents()[agents[i]];
      if (known == nullptr) {
        scores[i].score = in_steps(best_fit(what.ask, agent.free, spec_, {}), steps_);
        continue;
      }
      Known& it = (*known)[agents[i]];
      if (it.change != changes_of_[agents[i]]) {
        const Best best = best_of(what, kinds, agent);
        it = {changes_of_[agents[i]], best.device, in_steps(1 / (1 + fmath::exp(-best.gain / 1000)), steps_)};
      }
      scores[i].score = it.score;
      scores[i].device = it.device;
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
    std::vector<std::uint64_t> kinds;  // of its devices
  };
  struct Best {
    double gain = 0;
    std::uint32_t device = kNone;
  };
  struct Known {  // the score of an ask on an agent as it was after so many changes
    std::uint32_t change = 0, device = kNone;
    double score = 0;
  };

  // What was found out about this ask, by agent: only agents that have changed since are looked at again.
  std::vector<Known>& known_of(const Placement& what) {
    std::string key = Class{counted(what.ask), what.devices}.key();
    const auto found = known_.find(key);
    if (found == known_.end() && known_.size() >= kAsksMax) known_.clear();
    std::vector<Known>& known = found != known_.end() ? found->second : known_[std::move(key)];
    if (known.size() < changes_of_.size()) known.resize(changes_of_.size());
    return known;
  }

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
      const Class& asked = entry->second.asked;
      usual_.push_back({asked, static_cast<double>(entry->second.count), kinds_of(asked.devices)});
    }
    for (Usual& u : usual_) u.share /= static_cast<double>(covered);
    known_.clear();
  }

  // What makes classes: memory is looked at when something is placed, but does not tell asks apart, as in the paper; unless it is to.
  [[nodiscard]] Vector counted(Vector ask) const {
    if (!mem_ && ask.size() > BOURSE_KIND_MEM) ask[BOURSE_KIND_MEM] = 0;
    return ask;
  }

  // A device in as few bytes as the loops below need.
  struct Slot {
    const Device* device = nullptr;
    std::uint64_t kind = 0;  // its bit, as in Wish.kinds
    bool whole = true;
    std::int64_t idle = 0;  // thousandths that nobody has, by its fullest counter
    std::array<std::int64_t, BOURSE_COUNTERS_MAX> free{};
    void settle() {
      const Vector& total = device->total;
      idle = total.empty() && !whole ? 0 : kDevice;
      for (std::size_t c = 0; c < total.size(); ++c)
        if (total[c] > 0) idle = std::min(idle, free[c] * kDevice / total[c]);
    }
    void take(const DeviceWish& wish) {
      whole = false;
      for (std::size_t c = 0; c < device->free.size(); ++c) free[c] -= wish.whole ? free[c] : std::min(free[c], at(wish.least, c));
      settle();
    }
    [[nodiscard]] bool could(const DeviceWish& wish) const {
      if (wish.whole) return whole;
      bool any = false;
      for (std::size_t c = 0; c < wish.least.size(); ++c) {
        if (wish.least[c] > free[c]) return false;
        any = any || wish.least[c] > 0;
      }
      return any || idle > 0;
    }
  };
  void open(const Agent& agent) {
    slots_.clear();
    for (const Device& d : agent.devices) {
      Slot& slot = slots_.emplace_back();
      slot.device = &d, slot.kind = std::uint64_t{1} << d.kind, slot.whole = d.whole;
      for (std::size_t c = 0; c < d.free.size(); ++c) slot.free[c] = d.free[c];
      slot.settle();
    }
  }

  // The kinds that a wish means, a bit each.
  [[nodiscard]] std::vector<std::uint64_t> kinds_of(const std::vector<DeviceWish>& wishes) const {
    std::vector<std::uint64_t> out;
    for (const DeviceWish& wish : wishes) {
      std::uint64_t& bits = out.emplace_back(0);
      for (std::uint32_t kind = 0; kind < book.all_kinds().size(); ++kind)
        if (book.means(wish.kind, kind)) bits |= std::uint64_t{1} << kind;
    }
    return out;
  }

  // With the slots as they stand and `free` beside them. In thousandths of a device.
  [[nodiscard]] double fragmentation(const Vector& free) const {
    if (slots_.empty()) return 0;
    std::int64_t all = 0;
    for (const Slot& slot : slots_) all += slot.idle;
    double sum = 0;
    for (const Usual& u : usual_) {
      const std::vector<DeviceWish>& wishes = u.asked.devices;
      std::int64_t usable = 0;  // idle on devices that the class can use; none where all that it needs is not there
      bool can = !wishes.empty() && at(u.asked.ask, 0) <= at(free, 0) && at(u.asked.ask, 1) <= at(free, 1);
      std::uint32_t have[kWishesMax] = {};
      if (can) {
        for (const Slot& slot : slots_) {
          bool counts = false;
          for (std::size_t w = 0; w < wishes.size(); ++w) {
            if ((u.kinds[w] & slot.kind) == 0 || !slot.could(wishes[w])) continue;
            ++have[w], counts = true;
          }
          if (counts) usable += slot.idle;
        }
        for (std::size_t w = 0; w < wishes.size(); ++w) can = can && have[w] >= wishes[w].count;
      }
      sum += u.share * static_cast<double>(can ? all - usable : all);
    }
    return sum;
  }

  // Takes what the wishes from this one on would take: lowest devices first.
  void take_rest(const std::vector<DeviceWish>& wishes, const std::vector<std::uint64_t>& kinds, std::size_t from) {
    for (std::size_t w = from; w < wishes.size(); ++w) {
      std::uint32_t left = wishes[w].count;
      for (Slot& slot : slots_) {
        if (left == 0) break;
        if ((kinds[w] & slot.kind) == 0 || !slot.could(wishes[w])) continue;
        slot.take(wishes[w]);
        --left;
      }
    }
  }

  [[nodiscard]] Best best_of(const Placement& what, const std::vector<std::uint64_t>& kinds, const Agent& agent) {
    open(agent);
    const double before = fragmentation(agent.free);
    Vector& rest = rest_;
    rest = agent.free;
    for (std::size_t r = 0; r < rest.size() && r < what.ask.size(); ++r) rest[r] -= std::min(rest[r], what.ask[r]);
    const bool one_part = !what.devices.empty() && !what.devices[0].whole && what.devices[0].count == 1;
    if (!one_part) {
      take_rest(what.devices, kinds, 0);
      return {before - fragmentation(rest), kNone};
    }
    Best best{-1e300, kNone};
    for (std::uint32_t i = 0; i < agent.devices.size(); ++i) {
      const Device& d = agent.devices[i];
      if ((kinds[0] & slots_[i].kind) == 0 || !slots_[i].could(what.devices[0])) continue;
      // A device like an earlier one is no better.
      bool twin = false;
      for (std::uint32_t j = 0; j < i && !twin; ++j) {
        const Device& e = agent.devices[j];
        twin = e.kind == d.kind && e.whole == d.whole && e.free == d.free && e.total == d.total;
      }
      if (twin) continue;
      const Slot was = slots_[i];
      slots_[i].take(what.devices[0]);
      if (what.devices.size() > 1) take_rest(what.devices, kinds, 1);
      const double gain = before - fragmentation(rest);
      if (gain > best.gain) best = {gain, i};
      if (what.devices.size() > 1)
        open(agent);
      else
        slots_[i] = was;
    }
    return best.device == kNone ? Best{0, kNone} : best;
  }

  std::int64_t window_ = 0, cover_ = 950;
  double steps_ = 100;
  bool mem_ = false;
  MaxSpec spec_;
  std::map<std::string, Count> counts_;
  std::deque<std::pair<std::int64_t, std::string>> arrivals_;
  std::size_t changes_ = 0;
  std::vector<Usual> usual_;
  std::map<std::string, std::vector<Known>> known_;  // by ask; with the usual classes of now
  std::vector<std::uint32_t> changes_of_;            // by agent
  std::vector<std::string> seen_;                    // by claimant
  std::vector<Slot> slots_;                          // of the agent that is looked at
  Vector rest_;
};

}  // namespace

const bourse_policy_1 kFgd = table_of<Fgd>({.scores = true, .learns = true, .wants = BOURSE_WANTS_AGENTS});

}  // namespace bourse::policy
