#include "plugins/policy/learner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/core/fmath.h"
#include "common/core/hooks.h"
#include "common/core/units.h"
#include "plugins/policy/builtin.h"

namespace bourse::policy {

namespace {

constexpr double kMicro = 1e6;
constexpr double kSpreadFrom = 0.7, kSpreadGap = 0.1;  // of the logarithm of limits
constexpr std::int64_t kEarly = 4;                     // a window ends after such a part of it where another sort of jobs comes
constexpr double kUsedLeast = 0.002;                   // of a limit
constexpr double kFadeCame = 0.02, kFadeSort = 0.05, kFadeEnded = 0.02, kFadeOwn = 0.1;
constexpr std::string_view kForJobs = "fifo+sjf+saf+wfp3+unicep+drf+hybrid-0.5",
                           kForFrameworks = "drf+hybrid-0.75+hybrid-0.5+hybrid-0.25";

struct Named {
  std::string_view name;
  Arm::Order order;
};
constexpr Named kOrders[] = {
    {"fifo", Arm::Order::kFifoOrder}, {"sjf", Arm::Order::kSjfOrder},   {"saf", Arm::Order::kSafOrder},
    {"f1", Arm::Order::kF1Order},     {"wfp3", Arm::Order::kWfp3Order}, {"unicep", Arm::Order::kUnicepOrder},
    {"xf", Arm::Order::kXfOrder},     {"drf", Arm::Order::kDrfOrder},   {"hybrid", Arm::Order::kHybridOrder}};

}  // namespace

Learner::Learner(const bourse_host* host) : Base(host) {
  random_ = static_cast<const bourse_random_1*>(host->get(host, BOURSE_RANDOM_1));
  log_ = static_cast<const bourse_log_1*>(host->get(host, BOURSE_LOG_1));
}
Learner::~Learner() { drop(); }

double Learner::uniform() {
  return random_ == nullptr ? 0 : static_cast<double>(random_->next(host()) >> 11) / 9007199254740992.0;  // 2^53
}
void Learner::say(const std::string& text) const {
  if (log_ != nullptr) log_->write(host(), BOURSE_LOG_INFO, text.c_str());
}

void Learner::configure(Params& params) {
  const std::string_view name = host()->name == nullptr ? "" : host()->name;
  std::string arms = params.text("arms", name == "bourse-master" ? kForFrameworks : kForJobs);
  const std::string guard = params.text("guard", "20h");
  window_us_ = params.duration("window", std::chrono::hours(6)).count();
  if (window_us_ < 1'000'000) params.refuse("window", std::to_string(window_us_) + "us", "expected at least 1s");
  by_slowdown_ = params.choice("goal", "completion", {"completion", "slowdown"}) == "slowdown";
  frozen_ = !params.flag("learn", true);
  const auto guard_time = guard == "off" || guard == "0" ? Result<Duration>(Duration(0)) : parse_duration(guard, seconds(1), false);
  if (!guard_time) params.refuse("guard", guard, "expected off or a time such as 20h");
  guard_us_ = guard_time ? guard_time->count() : 0;

  for (std::string_view rest = arms; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find('+'));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const std::string_view order = word.substr(0, word.find('-'));
    const auto known = std::find_if(std::begin(kOrders), std::end(kOrders), [&](const Named& n) { return n.name == order; });
    if (known == std::end(kOrders)) {
      params.refuse("arms", std::string(word), "expected fifo, sjf, saf, f1, wfp3, unicep, xf, drf or hybrid-WEIGHT, joined by +");
      break;
    }
    Arm arm{known->order, 500};
    std::string spec(order);
    if (order.size() < word.size() || known->order == Arm::Order::kHybridOrder) {
      const std::string text = order.size() < word.size() ? std::string(word.substr(order.size() + 1)) : "0.5";
      const bourse_param param{sizeof param, "weight", text.c_str()};
      Params one(&param, 1);
      arm.weight = static_cast<std::int32_t>(one.milli("weight", 500, 0, 1000));
      if (!one.complaint().empty() || known->order != Arm::Order::kHybridOrder) {
        params.refuse("arms", std::string(word), "only hybrid takes a weight, from 0 to 1");
        break;
      }
    }
    arms_.push_back(arm);
    names_.emplace_back(word);
  }
  if (arms_.empty() || arms_.size() > kArmsMax) params.refuse("arms", arms, "expected 1 to " + std::to_string(kArmsMax));
  configure_more(params);
  if (params.complaint().empty()) use(0);
}

// --- the arm in force ----------------------------------------------------------------------------------------------------
void Learner::drop() {
  if (arm_policy_ != nullptr) arm_table_->destroy(arm_policy_);
  arm_policy_ = nullptr;
}

void Learner::use(std::uint32_t arm) {
  if (arm_policy_ != nullptr && arm == arm_) return;
  drop();
  arm_ = arm;
  const Arm& what = arms_[arm];
  std::string key, value;
  const bool fair = what.order == Arm::Order::kDrfOrder || what.order == Arm::Order::kHybridOrder;
  if (what.order == Arm::Order::kHybridOrder) {
    key = "weight", value = fmt::format("{}.{:03}", what.weight / 1000, what.weight % 1000);
  } else if (!fair && what.order != Arm::Order::kFifoOrder) {
    key = "guard", value = guard_us_ == 0 ? "off" : fmt::format("{}s", guard_us_ / 1'000'000);
  }
  const auto named = std::find_if(std::begin(kOrders), std::end(kOrders), [&](const Named& n) { return n.order == what.order; });
  arm_table_ = find_builtin(named->name);
  const bourse_param param{sizeof param, key.c_str(), value.c_str()};
  char error[200] = "";
  const int rc = arm_table_->create(host(), key.empty() ? nullptr : &param, key.empty() ? 0 : 1, &arm_policy_, error, sizeof error);
  BOURSE_ASSERT(rc == 0 && arm_policy_ != nullptr, names_[arm] + ": " + error);
  book.tell(*arm_table_, arm_policy_);
}

void Learner::rank(std::int64_t now, std::uint32_t agent, std::uint32_t* claimants, std::uint32_t count) {
  arm_table_->rank(arm_policy_, now, agent, claimants, count);
}

void Learner::begin(std::int64_t now, std::uint32_t agent) {
  now_ = std::max(now_, now);
  const auto changed = [this](const Window& w) { return skew() != w.situation.sort() && now_ - w.from >= window_us_ / kEarly; };
  if (!begun_ || now_ >= past_.back().to || changed(past_.back())) roll(now_);
  if (arm_table_->begin != nullptr) return arm_table_->begin(arm_policy_, now, agent);
  // An arm that only ranks: the walk is its ranking, and then once more those that were told of since.
  walk_.clear();
  for (std::uint32_t h = 0; h < book.claimants().size(); ++h)
    if (book.wants(h)) walk_.push_back(h);
  arm_table_->rank(arm_policy_, now, agent, walk_.data(), static_cast<std::uint32_t>(walk_.size()));
  walk_at_ = 0, walk_agent_ = agent;
  again_.clear();
}

int Learner::next(std::uint32_t* claimant) {
  if (arm_table_->next != nullptr) return arm_table_->next(arm_policy_, claimant);
  while (true) {
    for (; walk_at_ < walk_.size(); ++walk_at_) {
      if (!book.wants(walk_[walk_at_])) continue;
      *claimant = walk_[walk_at_++];
      if (given_.size() <= *claimant) given_.resize(std::size_t{*claimant} + 1, 0);
      given_[*claimant] = 1;
      return BOURSE_NEXT;
    }
    for (const std::uint32_t h : walk_)
      if (h < given_.size()) given_[h] = 0;
    if (again_.empty()) return BOURSE_NEXT_END;
    walk_ = std::exchange(again_, {});
    std::erase_if(walk_, [this](std::uint32_t h) { return !book.wants(h); });
    arm_table_->rank(arm_policy_, now_, walk_agent_, walk_.data(), static_cast<std::uint32_t>(walk_.size()));
    walk_at_ = 0;
  }
}

// --- what is seen -----------------------------------------------------------------------------------------------------------
void Learner::claimant_changed(std::uint32_t h) {
  if (h < given_.size() && given_[h] == 1) given_[h] = 0, again_.push_back(h);
}

void Learner::claimant_told(std::uint32_t h) {
  const Claimant& c = book.of(h);
  if (c.limit_us == BOURSE_UNLIMITED || c.limit_us <= 0) return;
  width_.see(static_cast<double>(c.gang) * static_cast<double>(at(c.ask, BOURSE_KIND_CPUS)), kFadeCame);
  const double limit = fmath::log(static_cast<double>(c.limit_us) / kMicro);
  limit_.see(limit, kFadeSort);
  limit2_.see(limit * limit, kFadeSort);
  const double cpus = static_cast<double>(at(book.all(), BOURSE_KIND_CPUS)),
               mem = static_cast<double>(at(book.all(), BOURSE_KIND_MEM));
  const bool more_mem =
      mem > 0 && static_cast<double>(at(c.ask, BOURSE_KIND_MEM)) * cpus > static_cast<double>(at(c.ask, BOURSE_KIND_CPUS)) * mem;
  memory_.see(more_mem ? 1 : 0, kFadeCame);
  spread_ = spread() > (spread_ ? kSpreadFrom - kSpreadGap : kSpreadFrom + kSpreadGap);
}

void Learner::account_removed(std::uint32_t handle) {
  used_by_.erase(used_by_.lower_bound({handle + 1, INT64_MIN}), used_by_.upper_bound({handle + 1, INT64_MAX}));
}

void Learner::feedback(const bourse_feedback& f) {
  if (f.event != BOURSE_STARTED && f.event != BOURSE_ENDED) return;
  Seen seen;
  const std::int64_t milli = f.kinds > BOURSE_KIND_CPUS ? f.ask[BOURSE_KIND_CPUS] : 0;
  seen.milli = milli * static_cast<std::int64_t>(std::max<std::uint64_t>(f.units, 1));
  seen.limit = f.limit_us;
  seen.account = f.account == kNone ? 0 : f.account + 1;
  seen.start = f.event == BOURSE_STARTED ? f.now_us : f.now_us - f.run_us;
  seen.submit = seen.start - f.wait_us;
  if (f.event == BOURSE_STARTED) {
    if (running_.size() < kSeenMax) running_.emplace(seen.key(), seen);
    return;
  }
  if (const auto it = running_.find(seen.key()); it != running_.end()) running_.erase(it);
  seen.run = f.run_us;
  if (f.limit_us > 0 && f.limit_us != BOURSE_UNLIMITED) {
    const double used = std::min(1.0, static_cast<double>(f.run_us) / static_cast<double>(f.limit_us));
    used_.see(used, kFadeEnded);
    if (used_by_.size() + 2 > kHabitsMax) used_by_.clear();
    for (const std::int64_t limit : {std::int64_t{0}, f.limit_us}) used_by_[{seen.account, limit}].see(used, kFadeOwn);
  }
  ModelCost cost;
  cost.add(f.wait_us, f.run_us);
  for (Window& window : past_) {
    if (seen.start < window.from || seen.start >= window.to) continue;
    window.log_slowdown += cost.log_slowdown;
    ++window.ended;
  }
  finished_.push_back(seen);
  if (finished_.size() > kSeenMax) finished_.pop_front();
}

double Learner::spread() const { return limit2_.any ? fmath::sqrt(std::max(0.0, limit2_.value - limit_.value * limit_.value)) : 0; }

Situation Learner::look() const {
  Situation s;
  double waiting = 0;
  for (std::uint32_t h = 0; h < book.claimants().size(); ++h)
    if (book.wants(h)) waiting += static_cast<double>(book.of(h).units) * static_cast<double>(at(book.of(h).ask, BOURSE_KIND_CPUS));
  const double all = std::max(1.0, static_cast<double>(processors()));
  s.backlog = waiting / all;
  s.width = width_.value / all;
  s.spread = spread();
  s.load = s.backlog <= 0 ? 0 : s.backlog < 0.5 ? 1 : s.backlog < 2 ? 2 : 3;
  s.mix = s.width < 0.03 ? 0 : s.width < 0.12 ? 1 : 2;
  s.skew = skew();
  return s;
}

Learner::Work Learner::work_of(const Window& window) const {
  Work work;
  work.horizon = std::min(now_, window.to + static_cast<std::int64_t>(kHorizonWindows) * window_us_);
  work.begin = window.from;
  const std::int64_t known =
      window.from - static_cast<std::int64_t>(kBeforeWindows) * window_us_;  // what ended before is forgotten
  for (auto before = sorts_.rbegin(); before != sorts_.rend() && before->second == window.situation.sort(); ++before)
    work.begin = std::max(before->first, known);
  const std::int64_t longest = window_us_ * 1000;
  // How long a job will run that has not ended: as much of its limit as those of the same account with the same limit used, else
  // as all of the account did, else as all did.
  const auto guess = [&](std::int64_t limit, std::uint32_t account) {
    auto own = used_by_.find({account, limit});
    if (own == used_by_.end()) own = used_by_.find({account, 0});
    const double used = own != used_by_.end() ? own->second.value : used_.any ? used_.value : 1;
    return static_cast<std::int64_t>(static_cast<double>(std::min(limit, longest)) * std::clamp(used, kUsedLeast, 1.0));
  };
  std::vector<Seen> all;  // with runs, known or guessed; those that wait start never
  for (const Seen& seen : finished_) all.push_back(seen);
  for (const auto& [key, seen] : running_) {
    all.push_back(seen);
    all.back().run = std::max(now_ - seen.start + 1, guess(seen.limit, seen.account));
  }
  for (std::uint32_t h = 0; h < book.claimants().size(); ++h) {
    if (!book.wants(h)) continue;
    const Claimant& c = book.of(h);
    const std::uint32_t account = c.account == kNone ? 0 : c.account + 1;
    const Seen seen{c.submitted_us > 0 ? c.submitted_us : now_,
                    INT64_MAX,
                    std::min(c.limit_us, longest),
                    at(c.ask, BOURSE_KIND_CPUS) * c.gang,
                    guess(c.limit_us, account),
                    account};
    for (std::uint64_t i = 0; i < std::max<std::uint64_t>(c.units / c.gang, 1) && all.size() < kSeenMax; ++i) all.push_back(seen);
  }
  std::erase_if(all,
                [&](const Seen& s) { return s.submit >= window.to || (s.start != INT64_MAX && s.start + s.run <= work.begin); });
  std::sort(all.begin(), all.end(), [](const Seen& a, const Seen& b) {
    return std::tuple(a.submit, a.key(), a.run, a.account) < std::tuple(b.submit, b.key(), b.run, b.account);
  });
  // Too many: less of what was before, then less of the window.
  if (all.size() > kModelJobsMax) {
    const std::size_t of_window =
        static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const Seen& s) { return s.submit >= window.from; }));
    const std::size_t over = std::min(all.size() - kModelJobsMax, all.size() - of_window);
    work.begin = over < all.size() ? std::min(all[over].submit, window.from) : window.from;
    std::erase_if(all,
                  [&](const Seen& s) { return s.submit < work.begin && s.start + s.run <= work.begin && s.start != INT64_MAX; });
    if (all.size() > 2 * kModelJobsMax) all.resize(2 * kModelJobsMax);
  }
  for (const Seen& s : all) {
    const std::int64_t limit = s.limit == BOURSE_UNLIMITED ? s.run : s.limit;
    work.jobs.push_back({s.submit, limit, s.run, s.milli, s.account, s.start < work.begin ? s.start : -1});
    if (s.submit >= window.from) work.real.add(std::min(s.start, work.horizon) - s.submit, s.run);
  }
  return work;
}

// A window ends, another begins.
void Learner::roll(std::int64_t now) {
  if (begun_ && !frozen_ && !hooks::mutant("policy.learns_nothing")) {
    while (past_.size() > kHorizonWindows && processors() > 0) {
      judge(past_.front(), work_of(past_.front()));
      sorts_.emplace_back(past_.front().from, past_.front().situation.sort());
      if (sorts_.size() > kBeforeWindows) sorts_.pop_front();
      past_.pop_front();
    }
  }
  while (past_.size() > kHorizonWindows) past_.pop_front();
  if (!past_.empty()) {
    const std::int64_t oldest = past_.front().from - static_cast<std::int64_t>(kBeforeWindows) * window_us_;
    std::erase_if(finished_, [&](const Seen& seen) { return seen.start + seen.run <= oldest; });
  }
  const Situation situation = look();
  std::string why;
  const std::uint32_t arm = choose(situation, why);
  Window window;
  window.number = ++windows_;
  // Where nobody waited for a while the former window ended late; where others came, early.
  if (begun_) {
    past_.back().to = now;
    // What came in it is known only now.
    past_.back().situation.mix = situation.mix, past_.back().situation.skew = situation.skew;
  }
  window.from = now, window.to = now + window_us_;
  window.arm = arm, window.situation = situation;
  begun_ = true;
  past_.push_back(window);
  say(fmt::format("window {}: arm {} ({}); load {} ({:.2f} machines wait), mix {} ({:.3f} of the machine), skew {} ({:.2f})",
                  window.number, names_[arm], why, situation.load, situation.backlog, situation.mix, situation.width,
                  situation.skew, situation.spread));
  use(arm);
}

std::optional<std::vector<double>> Learner::numbers_of(std::string_view text) {
  std::vector<double> out;
  while (true) {
    const std::size_t begin = text.find_first_not_of(" \n");
    if (begin == std::string_view::npos) return out;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    double value = 0;
    const auto [at, failure] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (failure != std::errc{} || at != word.data() + word.size() || !(value > -1e300 && value < 1e300)) return std::nullopt;
    out.push_back(value);
    text.remove_prefix(word.size());
  }
}

// --- state ------------------------------------------------------------------------------------------------------------------
std::string Learner::save() const {
  if (windows_ == 0) return {};
  std::string arms;
  for (const std::string& name : names_) arms += (arms.empty() ? "" : "+") + name;
  return fmt::format("{} {} {} {}\n{}", kStateVersion, windows_, arm_, arms, save_more());
}

bool Learner::load(std::string_view saved) {
  const std::size_t end = saved.find('\n');
  if (end == std::string_view::npos) return false;
  std::string arms;
  for (const std::string& name : names_) arms += (arms.empty() ? "" : "+") + name;
  std::vector<std::string_view> words;
  for (std::string_view rest = saved.substr(0, end); !rest.empty();) {
    words.push_back(rest.substr(0, rest.find(' ')));
    rest.remove_prefix(std::min(rest.size(), words.back().size() + 1));
  }
  const auto number = [](std::string_view text, std::uint64_t& out) {
    const auto [at, failure] = std::from_chars(text.data(), text.data() + text.size(), out);
    return failure == std::errc{} && at == text.data() + text.size();
  };
  std::uint64_t version = 0, windows = 0, arm = 0;
  if (words.size() != 4 || !number(words[0], version) || !number(words[1], windows) || !number(words[2], arm)) return false;
  // What was learnt of other arms says nothing about these.
  if (version != kStateVersion || words[3] != arms || arm >= arms_.size()) return false;
  if (!load_more(saved.substr(end + 1))) return false;
  windows_ = windows;
  use(static_cast<std::uint32_t>(arm));
  return true;
}

}  // namespace bourse::policy
