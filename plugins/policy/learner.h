// What qlearn and bandit have in common: arms, one of which is in force and ranks and places; windows of time; what was seen in
// each; a state that outlives the process.
//
// An arm is a policy of its own (an order of jobs, or the hybrid with a weight), made and told everything when it comes into force, so
// that a change of arm costs as much as a reload. It changes only between two walks. What is learnt depends on calls alone: same calls,
// same seed, same decisions. Each decision is a line in the host's log.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "plugins/policy/base.h"
#include "plugins/policy/model.h"

namespace bourse::policy {

// What the queue looks like, in few words: what a learner makes its choice by.
struct Situation {
  static constexpr std::uint32_t kLoads = 4, kMixes = 3, kSkews = 4, kAll = kLoads * kMixes * kSkews;
  std::uint32_t load = 0;  // work that waits, in machines: none, up to a half, up to two, more
  std::uint32_t mix = 0;   // of the jobs that wait or came in lately, the processors of the mean one: few, some, many
  std::uint32_t skew =
      0;  // their limits: nearly one and the same, or spread; + 2: they ask for more of the memory than of the cores
  double backlog = 0, width = 0, spread = 0;  // the numbers behind them
  [[nodiscard]] std::uint32_t index() const { return (load * kMixes + mix) * kSkews + skew; }
  [[nodiscard]] std::uint32_t sort() const { return skew; }  // of the jobs that come
};

class Learner : public Base {
 public:
  static constexpr std::size_t kArmsMax = 16;
  static constexpr std::uint32_t kStateVersion = 1;
  static constexpr std::size_t kModelJobsMax = 3'000;  // of one window, in the model: those that came first
  static constexpr std::size_t kSeenMax = 100'000;     // jobs that are remembered; beyond, those that ended first are forgotten
  static constexpr std::size_t kHabitsMax = 50'000;    // accounts, and limits that they ask for; beyond, all are forgotten
  static constexpr std::size_t kHorizonWindows = 3;    // a window is judged by what came of it in so many windows
  static constexpr std::size_t kBeforeWindows = 16;    // and with as many before it, as long as the same sort of jobs came

  explicit Learner(const bourse_host* host);
  ~Learner() override;

  void configure(Params& params) override;
  void rank(std::int64_t now, std::uint32_t agent, std::uint32_t* claimants, std::uint32_t count) override;
  void begin(std::int64_t now, std::uint32_t agent) override;
  int next(std::uint32_t* claimant) override;
  void feedback(const bourse_feedback& f) override;
  void claimant_changed(std::uint32_t handle) override;
  void claimant_told(std::uint32_t handle) override;
  void account_removed(std::uint32_t handle) override;
  [[nodiscard]] std::string save() const override;
  bool load(std::string_view saved) override;

  // The arm in force, told what this was told: see table_of_learner().
  [[nodiscard]] const bourse_policy_1& table() const { return *arm_table_; }
  [[nodiscard]] bourse_policy* inner() const { return arm_policy_; }

 protected:
  struct Window {
    std::uint64_t number = 0;
    std::int64_t from = 0, to = 0;
    std::uint32_t arm = 0;
    Situation situation;
    // Of the jobs that started in it and have ended.
    double log_slowdown = 0;
    std::uint64_t ended = 0;
  };
  // What there was to do in a window and in the windows before it, as it is known when it is judged. An arm is judged by what those who
  // came in during the window would have cost had it been in force all that time: a change shows its effect only slowly. It goes back
  // no further than the same sort of jobs came: what an arm would have left behind of others says nothing about it with these.
  struct Work {
    std::vector<ModelJob> jobs;
    ModelCost real;  // what those of the window have cost until the horizon
    std::int64_t begin = 0, horizon = 0;
  };

  virtual void configure_more(Params& params) = 0;
  // Which arm for the window that begins. `why`: a word for the log.
  virtual std::uint32_t choose(const Situation& situation, std::string& why) = 0;
  // A window lies so far back that its jobs have mostly ended.
  virtual void judge(const Window& window, const Work& work) = 0;
  [[nodiscard]] virtual std::string save_more() const = 0;
  virtual bool load_more(std::string_view text) = 0;

  [[nodiscard]] std::int64_t processors() const { return at(book.all(), BOURSE_KIND_CPUS); }
  [[nodiscard]] double uniform();  // [0, 1)
  void say(const std::string& text) const;
  // Finite numbers between white space; none: something else is there.
  static std::optional<std::vector<double>> numbers_of(std::string_view text);

  std::vector<Arm> arms_;
  std::vector<std::string> names_;
  std::int64_t window_us_ = 0, guard_us_ = 0;
  bool frozen_ = false;  // what was learnt is used, and nothing is learnt
  bool by_slowdown_ = false;
  std::uint32_t arm_ = 0;
  std::uint64_t windows_ = 0;  // that have begun, in all lives

 private:
  struct Seen {  // a job that has started
    std::int64_t submit = 0, start = 0, limit = 0, milli = 0;
    std::int64_t run = -1;  // negative: it runs
    std::uint32_t account = 0;
    [[nodiscard]] auto key() const { return std::tuple(submit, start, milli, limit); }
  };
  void use(std::uint32_t arm);
  void drop();
  void roll(std::int64_t now);
  [[nodiscard]] double spread() const;
  [[nodiscard]] std::uint32_t skew() const { return (spread_ ? 1U : 0U) + (memory_.value > 0.5 ? 2U : 0U); }
  [[nodiscard]] Situation look() const;
  [[nodiscard]] Work work_of(const Window& window) const;

  const bourse_policy_1* arm_table_ = nullptr;
  bourse_policy* arm_policy_ = nullptr;
  const bourse_random_1* random_ = nullptr;
  const bourse_log_1* log_ = nullptr;
  bool begun_ = false;
  // The walk, where the arm only ranks.
  std::vector<std::uint32_t> walk_, again_;
  std::vector<std::uint8_t> given_;
  std::size_t walk_at_ = 0;
  std::uint32_t walk_agent_ = kNone;
  std::int64_t now_ = 0;
  std::deque<Window> past_;                                   // that are not judged yet; the last is the one that runs
  std::deque<std::pair<std::int64_t, std::uint32_t>> sorts_;  // of windows that were judged: since when, which sort of jobs
  std::deque<Seen> finished_;                                 // that ended after the oldest window began which is not judged yet
  std::multimap<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, Seen> running_;
  // Means that fade with each job that comes: its processors, the logarithm of its limit and that squared, whether it asks for
  // relatively more memory than cores; and with each that ends: how much of its limit it used.
  struct Fading {
    double value = 0;
    bool any = false;
    void see(double x, double share) { value = any ? value + share * (x - value) : x, any = true; }
  };
  Fading width_, limit_, limit2_, memory_, used_;
  bool spread_ = false;  // limits are; changes only where they clearly are or are not
  // The same of each account's jobs, by its handle + 1 (without one: 0), and of those of them that asked for the same limit.
  std::map<std::pair<std::uint32_t, std::int64_t>, Fading> used_by_;  // limit 0: of any
};

namespace detail {
inline Learner& of(bourse_policy* p) { return static_cast<Learner&>(base(p)); }
}  // namespace detail

// The C interface of a Learner: every delta goes to the arm in force, too.
template <class P>
bourse_policy_1 table_of_learner() {
  using namespace detail;  // NOLINT: its functions are what this table is made of
  bourse_policy_1 t = table_of<P>({.ranks = true,
                                   .walks = true,
                                   .scores = true,
                                   .learns = true,
                                   .wants = BOURSE_WANTS_AGENTS | BOURSE_WANTS_USED | BOURSE_WANTS_FEEDBACK});
  static const bourse_policy_1 own = t;
  t.kinds = [](bourse_policy* p, const bourse_kind* kinds, std::uint32_t count) {
    own.kinds(p, kinds, count);
    of(p).table().kinds(of(p).inner(), kinds, count);
  };
  t.total = [](bourse_policy* p, const std::int64_t* total, std::uint32_t kinds) {
    own.total(p, total, kinds);
    of(p).table().total(of(p).inner(), total, kinds);
  };
  t.account = [](bourse_policy* p, const bourse_account* a) {
    own.account(p, a);
    of(p).table().account(of(p).inner(), a);
  };
  t.account_used = [](bourse_policy* p, std::uint32_t h, const std::int64_t* used, std::uint32_t kinds) {
    own.account_used(p, h, used, kinds);
    of(p).table().account_used(of(p).inner(), h, used, kinds);
  };
  t.account_removed = [](bourse_policy* p, std::uint32_t h) {
    own.account_removed(p, h);
    of(p).table().account_removed(of(p).inner(), h);
  };
  t.claimant = [](bourse_policy* p, const bourse_claimant* c) {
    own.claimant(p, c);
    of(p).table().claimant(of(p).inner(), c);
  };
  t.claimant_used = [](bourse_policy* p, std::uint32_t h, const std::int64_t* used, std::uint32_t kinds) {
    own.claimant_used(p, h, used, kinds);
    of(p).table().claimant_used(of(p).inner(), h, used, kinds);
  };
  t.claimant_units = [](bourse_policy* p, std::uint32_t h, std::uint64_t units) {
    own.claimant_units(p, h, units);
    of(p).table().claimant_units(of(p).inner(), h, units);
  };
  t.claimant_removed = [](bourse_policy* p, std::uint32_t h) {
    own.claimant_removed(p, h);
    of(p).table().claimant_removed(of(p).inner(), h);
  };
  t.agent = [](bourse_policy* p, const bourse_agent* a) {
    own.agent(p, a);
    if (of(p).table().agent != nullptr) of(p).table().agent(of(p).inner(), a);
  };
  t.agent_removed = [](bourse_policy* p, std::uint32_t h) {
    own.agent_removed(p, h);
    if (of(p).table().agent_removed != nullptr) of(p).table().agent_removed(of(p).inner(), h);
  };
  t.score = [](bourse_policy* p, const bourse_placement* what, const std::uint32_t* agents, std::uint32_t count,
               bourse_score* scores) {
    if (of(p).table().score != nullptr) of(p).table().score(of(p).inner(), what, agents, count, scores);
  };
  return t;
}

}  // namespace bourse::policy
