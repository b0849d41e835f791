#include "plugins/policy/host.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/core/fmath.h"
#include "common/core/hooks.h"
#include "common/world/log.h"
#include "plugins/policy/builtin.h"

namespace bourse::policy {

namespace {

constexpr std::size_t kLineMax = 1000, kErrorMax = 1000;
constexpr std::int64_t kWholeDevice = 1000;

std::uint32_t length(const Vector& v) { return static_cast<std::uint32_t>(v.size()); }

}  // namespace

// --- what a policy sees of its host ----------------------------------------------------------------------------------
struct Host::Instance {
  Instance(const Choice& c, const HostOptions& options)
      : choice(c), name(options.name), log(options.log), rng(Rng(options.seed).fork("policy " + c.spec.name)) {
    host = {sizeof(bourse_host), BOURSE_PLUGIN_ABI_MAJOR, BOURSE_PLUGIN_ABI_MINOR, name.c_str(), BOURSE_VERSION, this, get};
  }
  ~Instance() {
    if (policy != nullptr && !abandoned) choice.table->destroy(policy);
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  static Instance& of(const bourse_host* h) { return *static_cast<Instance*>(h->context); }
  static std::uint64_t random(const bourse_host* h) {
    ++of(h).calls;
    return of(h).rng.next();
  }
  static void write(const bourse_host* h, int level, const char* text) {
    Instance& me = of(h);
    ++me.calls;
    // Those of ours are believed, and their calls are not told apart.
    if ((!me.choice.built_in && ++me.lines > kHostLinesMax) || !me.log || text == nullptr) return;
    const LogLevel levels[] = {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError};
    me.log(log_text(levels[std::clamp(level, 0, 3)], "policy_says",
                    {{"policy", me.choice.spec.name}, {"text", std::string(text, strnlen(text, kLineMax))}}));
  }
  static const void* get(const bourse_host*, const char* id) {
    static const bourse_random_1 kRandom{sizeof(bourse_random_1), random};
    static const bourse_log_1 kLog{sizeof(bourse_log_1), write};
    static const bourse_math_1 kMath{sizeof(bourse_math_1), fmath::exp, fmath::log, fmath::pow, fmath::sqrt};
    if (id == nullptr) return nullptr;
    if (std::strcmp(id, BOURSE_RANDOM_1) == 0) return &kRandom;
    if (std::strcmp(id, BOURSE_LOG_1) == 0) return &kLog;
    if (std::strcmp(id, BOURSE_MATH_1) == 0) return &kMath;
    return nullptr;
  }

  Choice choice;
  std::string name;
  std::function<void(std::string)> log;
  Rng rng;
  bourse_host host{};
  bourse_policy* policy = nullptr;
  std::uint64_t calls = 0, lines = 0;  // of the call at hand
  bool abandoned = false;              // misbehaved: never called again, not even to be destroyed
};

Result<std::unique_ptr<Host::Instance>> Host::create(const Choice& choice, const HostOptions& options) {
  BOURSE_TRY(check_table(*choice.table));
  auto made = std::make_unique<Instance>(choice, options);
  std::vector<bourse_param> params;
  for (const auto& [key, value] : choice.spec.params) params.push_back({sizeof(bourse_param), key.c_str(), value.c_str()});
  char error[kErrorMax] = "";
  const bool guarded = !choice.built_in && options.guard != nullptr;
  if (guarded) options.guard->enter(choice);
  const int rc = choice.table->create(&made->host, params.empty() ? nullptr : params.data(),
                                      static_cast<std::uint32_t>(params.size()), &made->policy, error, sizeof error);
  if (guarded) options.guard->leave();
  error[sizeof error - 1] = 0;
  if (rc == 0 && made->policy != nullptr) return made;
  made->policy = nullptr;
  const std::string why = error[0] != 0 ? error : rc == 0 ? "create() gave nothing" : "create() failed with " + std::to_string(rc);
  return Error(Code::kInvalid, "policy " + choice.spec.text() + ": " + why);
}

Result<std::unique_ptr<Host>> Host::make(const Choice& choice, HostOptions options) {
  std::unique_ptr<Host> host(new Host(std::move(options), choice));
  host->policy_ = BOURSE_TRY(create(choice, host->options_));
  host->table_ = choice.table;
  if (host->table_->rank == nullptr)
    host->order_ =
        BOURSE_TRY(create({{host->options_.fallback, {}}, find_builtin(host->options_.fallback), true, ""}, host->options_));
  host->kind_of("cpus");
  host->kind_of("mem");
  host->tell_kinds();
  return host;
}

Host::Host(HostOptions options, Choice choice) : options_(std::move(options)), choice_(std::move(choice)) {
  BOURSE_ASSERT(find_builtin(options_.fallback) != nullptr, options_.fallback);
}
Host::~Host() = default;

std::string Host::in_force() const { return fault_.empty() ? choice_.spec.text() : options_.fallback; }

// --- around every call -------------------------------------------------------------------------------------------------
// `call` gets the instance; it is made for the one that ranks too, where that is another.
template <class Call>
void Host::call(const Call& call) {
  if (policy_->choice.built_in) {
    call(*policy_);
  } else {
    entered();
    call(*policy_);
    left();
  }
  if (order_ != nullptr) call(*order_);
  if (!broken_.empty()) fall_back();
}

void Host::entered() {
  policy_->calls = policy_->lines = 0;
  if (options_.guard == nullptr) return;
  options_.guard->enter(policy_->choice);
  entered_at_ = options_.guard->wall_ns();
}

void Host::left() {
  if (policy_->calls > kHostCallsMax && !hooks::mutant("policy.endless_host_calls"))
    broke("called back " + std::to_string(policy_->calls) + " times in one call");
  if (options_.guard == nullptr) return;
  const std::int64_t now = options_.guard->wall_ns();
  options_.guard->leave();
  spent_ += now - entered_at_;
  // Wall time says when to look; only the thread's own time counts, since the machine may have been busy with others.
  const std::int64_t budget = std::chrono::nanoseconds(options_.budget).count();
  if (spent_ <= budget || hooks::mutant("policy.no_budget")) return;
  const std::int64_t cpu = options_.guard->cpu_ns() - cpu_at_;
  if (cpu > budget || spent_ > 10 * budget)
    broke("took " + format_duration(Duration(spent_ / 1000)) + ", the budget is " + format_duration(options_.budget));
}

void Host::broke(const std::string& why) {
  if (broken_.empty()) broken_ = why;
}

// Everything that was told is told again to the fall-back, which answers from here on.
void Host::fall_back() {
  fault_ = std::exchange(broken_, {});
  policy_->abandoned = true;
  static auto* abandoned = new std::vector<std::unique_ptr<Instance>>();  // its code may still use its own memory
  abandoned->push_back(std::move(policy_));
  order_.reset();
  auto made = create({{options_.fallback, {}}, find_builtin(options_.fallback), true, ""}, options_);
  BOURSE_ASSERT(bool(made), options_.fallback);
  policy_ = *std::move(made);
  table_ = policy_->choice.table;
  book_.tell(*table_, policy_->policy);
  if (options_.log)
    options_.log(log_text(LogLevel::kError, "policy_failed",
                          {{"policy", choice_.spec.text()},
                           {"reason", fault_},
                           {"then", "going on with " + options_.fallback + " until the next reload"}}));
}

// --- kinds ----------------------------------------------------------------------------------------------------------------
std::uint32_t Host::kind_of(const std::string& name) {
  if (const auto found = kind_index_.find(name); found != kind_index_.end()) return found->second;
  if (kinds_.size() >= BOURSE_KINDS_MAX) {
    if (!std::exchange(kinds_full_, true) && options_.log)
      options_.log(
          log_text(LogLevel::kWarn, "policy_kinds_full",
                   {{"kind", name}, {"limit", std::to_string(BOURSE_KINDS_MAX)}, {"then", "ignoring it in shares and scores"}}));
    return kNone;
  }
  const auto index = static_cast<std::uint32_t>(kinds_.size());
  kinds_.push_back({name, {}});
  kind_index_.emplace(name, index);
  return index;
}

bool Host::learn_counters(std::uint32_t kind, const Counters& counters) {
  bool more = false;
  std::vector<std::string>& names = kinds_[kind].counters;
  for (const auto& [name, amount] : counters.items()) {
    if (names.size() >= BOURSE_COUNTERS_MAX || std::find(names.begin(), names.end(), name) != names.end()) continue;
    names.push_back(name);
    more = true;
  }
  return more;
}

void Host::learn_kinds(const Usage& usage) {
  const std::size_t before = kinds_.size();
  for (const auto& [name, amount] : usage.devices.items()) kind_of(name);
  if (kinds_.size() != before) tell_kinds();
}

void Host::tell_kinds() {
  const auto& told = told_.kinds(kinds_);
  book_.kinds(told.data(), static_cast<std::uint32_t>(told.size()));
  call([&](Instance& i) { i.choice.table->kinds(i.policy, told.data(), static_cast<std::uint32_t>(told.size())); });
}

const Vector& Host::vector_of(const Usage* usage) {
  if (usage != nullptr && !usage->devices.empty()) learn_kinds(*usage);
  scratch_.assign(kinds_.size(), 0);
  if (usage == nullptr) return scratch_;
  scratch_[BOURSE_KIND_CPUS] = usage->cpus;
  scratch_[BOURSE_KIND_MEM] = usage->mem;
  for (const auto& [name, amount] : usage->devices.items())
    if (const std::uint32_t kind = kind_of(name); kind != kNone) scratch_[kind] = amount;
  return scratch_;
}

const std::vector<DeviceWish>& Host::wishes_of(const Shape* shape) {
  wishes_.clear();
  if (shape == nullptr) return wishes_;
  bool more = false;
  for (const DeviceAsk& ask : shape->devices) {
    const std::size_t before = kinds_.size();
    const std::uint32_t kind = kind_of(ask.kind);
    if (kind == kNone) continue;
    more = more || kinds_.size() != before;
    more = learn_counters(kind, ask.counters) || more;
    DeviceWish& wish = wishes_.emplace_back();
    wish.kind = kind;
    wish.count = ask.count;
    wish.whole = ask.whole;
    for (const std::string& name : kinds_[kind].counters) wish.least.push_back(ask.counters.get(name));
  }
  if (more) tell_kinds();
  return wishes_;
}

// --- deltas ----------------------------------------------------------------------------------------------------------------
void Host::total(const Usage& total) {
  const Vector& v = vector_of(&total);
  book_.total(v.data(), length(v));
  call([&](Instance& i) { i.choice.table->total(i.policy, v.data(), length(v)); });
}

void Host::account(const AccountFacts& a) {
  const std::string name(a.name);
  const Vector& v = vector_of(a.used);
  const bourse_account told{sizeof told, a.handle, a.parent, a.weight, name.c_str(), length(v), v.data()};
  book_.account(told);
  call([&](Instance& i) { i.choice.table->account(i.policy, &told); });
}

void Host::account_used(std::uint32_t handle, const Usage& used) {
  const Vector& v = vector_of(&used);
  book_.account_used(handle, v.data(), length(v));
  ++deltas_;
  call([&](Instance& i) { i.choice.table->account_used(i.policy, handle, v.data(), length(v)); });
}

void Host::account_removed(std::uint32_t handle) {
  book_.account_removed(handle);
  call([&](Instance& i) { i.choice.table->account_removed(i.policy, handle); });
}

void Host::claimant(const ClaimantFacts& c) {
  BOURSE_ASSERT(c.handle < BOURSE_HANDLES_MAX && c.weight > 0 && c.gang > 0, std::string(c.name));
  const std::string name(c.name);
  const auto& wishes = wishes_of(c.shape);
  if (c.shape != nullptr) {
    const Usage ask = usage_of(*c.shape);
    scratch_ask_ = vector_of(&ask);
  } else {
    scratch_ask_.assign(kinds_.size(), 0);
  }
  const Vector& used = vector_of(c.used);
  scratch_ask_.resize(used.size(), 0);
  const auto& asks = told_.asks(wishes);
  const bourse_claimant told{.size = sizeof told,
                             .handle = c.handle,
                             .account = c.account,
                             .weight = c.weight,
                             .priority = c.priority,
                             .order = c.order,
                             .name = name.c_str(),
                             .submitted_us = c.submitted.count(),
                             .limit_us = c.limit == kNoLimit ? BOURSE_UNLIMITED : static_cast<std::int64_t>(c.limit.count()),
                             .units = c.units,
                             .gang = c.gang,
                             .kinds = length(used),
                             .ask = scratch_ask_.data(),
                             .used = used.data(),
                             .device_asks = static_cast<std::uint32_t>(asks.size()),
                             .devices = asks.empty() ? nullptr : asks.data()};
  count_wants(c.handle, c.units > 0);
  book_.claimant(told);
  ++deltas_;
  touch(c.handle);
  call([&](Instance& i) { i.choice.table->claimant(i.policy, &told); });
}

// In a walk made from rank(): given, and something of it has changed since.
void Host::touch(std::uint32_t handle) {
  if (handle >= touched_mark_.size() || touched_mark_[handle] != 1) return;
  touched_mark_[handle] = 2;
  touched_.push_back(handle);
}

void Host::count_wants(std::uint32_t handle, bool wants) {
  const bool did = book_.wants(handle);
  if (did != wants) wants ? ++wanting_ : --wanting_;
}

void Host::claimant_used(std::uint32_t handle, const Usage& used) {
  const Vector& v = vector_of(&used);
  book_.claimant_used(handle, v.data(), length(v));
  ++deltas_;
  touch(handle);
  call([&](Instance& i) { i.choice.table->claimant_used(i.policy, handle, v.data(), length(v)); });
}

void Host::claimant_units(std::uint32_t handle, std::uint64_t units) {
  if (book_.of(handle).units == units) return;
  count_wants(handle, units > 0);
  book_.claimant_units(handle, units);
  ++deltas_;
  call([&](Instance& i) { i.choice.table->claimant_units(i.policy, handle, units); });
}

void Host::claimant_removed(std::uint32_t handle) {
  count_wants(handle, false);
  book_.claimant_removed(handle);
  call([&](Instance& i) { i.choice.table->claimant_removed(i.policy, handle); });
}

void Host::agent(std::uint32_t handle, std::string_view name, const Resources& total, const Resources& free) {
  bool more = false;
  for (const DeviceShare& share : total.devices) {
    const std::size_t before = kinds_.size();
    const std::uint32_t kind = kind_of(share.kind);
    if (kind != kNone) more = learn_counters(kind, share.counters) || kinds_.size() != before || more;
  }
  if (more) tell_kinds();
  const Usage all = usage_of(total), rest = usage_of(free);
  scratch_total_ = vector_of(&all);
  scratch_free_ = vector_of(&rest);
  scratch_free_.resize(scratch_total_.size(), 0);

  std::vector<bourse_device> devices;
  device_vectors_.clear();
  device_vectors_.reserve(2 * total.devices.size());  // no move: pointers into it are handed out
  auto at = free.devices.begin();
  for (const DeviceShare& whole : total.devices) {
    const std::uint32_t kind = kind_of(whole.kind);
    if (kind == kNone || devices.size() >= BOURSE_DEVICES_MAX) continue;
    while (at != free.devices.end() && at->device < whole.device) ++at;
    const bool any = at != free.devices.end() && at->device == whole.device;
    Vector &has = device_vectors_.emplace_back(), &left = device_vectors_.emplace_back();
    for (const std::string& counter : kinds_[kind].counters) {
      has.push_back(whole.counters.get(counter));
      left.push_back(any ? at->counters.get(counter) : 0);
    }
    const bool untouched = any && at->whole && at->counters == whole.counters;
    devices.push_back({sizeof(bourse_device), kind, untouched ? 1U : 0U, length(has), has.data(), left.data()});
  }
  const std::string full_name(name);
  const bourse_agent told{.size = sizeof told,
                          .handle = handle,
                          .name = full_name.c_str(),
                          .kinds = length(scratch_total_),
                          .total = scratch_total_.data(),
                          .free = scratch_free_.data(),
                          .devices = static_cast<std::uint32_t>(devices.size()),
                          .device = devices.empty() ? nullptr : devices.data()};
  book_.agent(told);
  call([&](Instance& i) {
    if (i.choice.table->agent != nullptr) i.choice.table->agent(i.policy, &told);
  });
}

void Host::agent_removed(std::uint32_t handle) {
  if (!book_.has_agent(handle)) return;
  book_.agent_removed(handle);
  call([&](Instance& i) {
    if (i.choice.table->agent_removed != nullptr) i.choice.table->agent_removed(i.policy, handle);
  });
}

// --- ranking ---------------------------------------------------------------------------------------------------------------
void Host::begin(Duration now, std::uint32_t agent) {
  now_ = now;
  agent_ = agent;
  spent_ = 0;
  Instance& ranks = order_ != nullptr ? *order_ : *policy_;
  if (!ranks.choice.built_in) {
    if (options_.guard != nullptr) cpu_at_ = options_.guard->cpu_ns();
    for (const std::uint32_t h : given_list_) given_[h] = 0;
    given_list_.clear();
  }
  if (ranks.choice.table->begin == nullptr) {
    walk_.clear();
    for (std::uint32_t h = 0; h < book_.claimants().size(); ++h)
      if (book_.wants(h)) walk_.push_back(h);
    touched_.clear();
    touched_mark_.assign(book_.claimants().size(), 0);
    return walk_by_rank();
  }
  touched_mark_.clear();
  if (ranks.choice.built_in) return ranks.choice.table->begin(ranks.policy, now.count(), agent);
  entered();
  ranks.choice.table->begin(ranks.policy, now.count(), agent);
  left();
  if (!broken_.empty()) {
    fall_back();
    begin(now, agent);
  }
}

void Host::walk_by_rank() {
  walk_at_ = 0;
  rank(now_, agent_, walk_);
}

std::optional<Host::Next> Host::next() {
  std::uint32_t claimant = kNone;
  Instance& ranks = order_ != nullptr ? *order_ : *policy_;
  if (ranks.choice.table->begin == nullptr) {
    // The order of rank(), and then once more those that got something since they were given.
    while (true) {
      while (walk_at_ < walk_.size()) {
        const std::uint32_t h = walk_[walk_at_++];
        if (!book_.wants(h)) continue;
        if (h < touched_mark_.size()) touched_mark_[h] = 1;
        return Next{h, false};
      }
      if (touched_.empty()) return std::nullopt;
      walk_ = std::exchange(touched_, {});
      for (const std::uint32_t h : walk_) touched_mark_[h] = 0;
      std::erase_if(walk_, [&](std::uint32_t h) { return !book_.wants(h); });
      walk_by_rank();
    }
  }
  if (ranks.choice.built_in) {
    const int answer = ranks.choice.table->next(ranks.policy, &claimant);
    if (answer == BOURSE_NEXT_END) return std::nullopt;
    return Next{claimant, answer == BOURSE_NEXT_RESERVE};
  }
  entered();
  const int answer = ranks.choice.table->next(ranks.policy, &claimant);
  left();
  if (broken_.empty() && answer != BOURSE_NEXT_END) {
    if (answer != BOURSE_NEXT && answer != BOURSE_NEXT_RESERVE) {
      broke("next() answered " + std::to_string(answer));
    } else if (!book_.wants(claimant) && !hooks::mutant("policy.any_claimant")) {
      broke("next() gave claimant " + std::to_string(claimant) + ", which does not exist or wants nothing");
    } else {
      if (given_.size() <= claimant) given_.resize(std::size_t{claimant} + 1, 0);
      if (given_[claimant] == 0) given_list_.push_back(claimant);
      if (given_[claimant] == deltas_ + 1 && !hooks::mutant("policy.endless_walk"))
        broke("next() gave claimant " + std::to_string(claimant) + " twice though nothing had changed");
      given_[claimant] = deltas_ + 1;
    }
  }
  if (!broken_.empty()) {
    fall_back();
    begin(now_, agent_);
    return next();
  }
  if (answer == BOURSE_NEXT_END) return std::nullopt;
  return Next{claimant, answer == BOURSE_NEXT_RESERVE};
}

void Host::rank(Duration now, std::uint32_t agent, std::vector<std::uint32_t>& claimants) {
  Instance& ranks = order_ != nullptr ? *order_ : *policy_;
  const auto count = static_cast<std::uint32_t>(claimants.size());
  if (ranks.choice.built_in) return ranks.choice.table->rank(ranks.policy, now.count(), agent, claimants.data(), count);
  checked_ = claimants;
  spent_ = 0;
  if (options_.guard != nullptr) cpu_at_ = options_.guard->cpu_ns();
  entered();
  ranks.choice.table->rank(ranks.policy, now.count(), agent, claimants.data(), count);
  left();
  if (broken_.empty() && !hooks::mutant("policy.rank_loses")) {
    std::vector<std::uint32_t> before = checked_, after = claimants;
    std::sort(before.begin(), before.end());
    std::sort(after.begin(), after.end());
    if (before != after) broke("rank() gave other claimants than it was given");
  }
  if (broken_.empty()) return;
  claimants = checked_;
  fall_back();
  rank(now, agent, claimants);
}

std::uint32_t Host::position(Duration now, std::uint32_t claimant) {
  if (!book_.wants(claimant)) return 0;
  std::vector<std::uint32_t> all;
  for (std::uint32_t h = 0; h < book_.claimants().size(); ++h)
    if (book_.wants(h)) all.push_back(h);
  rank(now, kNone, all);
  return 1 + static_cast<std::uint32_t>(std::find(all.begin(), all.end(), claimant) - all.begin());
}

// --- placement, feedback ---------------------------------------------------------------------------------------------------
const std::vector<bourse_score>& Host::score(std::uint32_t claimant, const Shape& shape, const std::vector<std::uint32_t>& agents) {
  scores_.clear();
  if (table_->score == nullptr) return scores_;
  const auto& wishes = wishes_of(&shape);
  const Usage ask = usage_of(shape);
  const Vector& v = vector_of(&ask);
  const auto& asks = told_.asks(wishes);
  const bourse_placement what{.size = sizeof what,
                              .claimant = claimant,
                              .kinds = length(v),
                              .ask = v.data(),
                              .device_asks = static_cast<std::uint32_t>(asks.size()),
                              .devices = asks.empty() ? nullptr : asks.data()};
  scores_.assign(agents.size(), {0, BOURSE_NONE});
  if (policy_->choice.built_in) {
    table_->score(policy_->policy, &what, agents.data(), static_cast<std::uint32_t>(agents.size()), scores_.data());
    return scores_;
  }
  spent_ = 0;
  if (options_.guard != nullptr) cpu_at_ = options_.guard->cpu_ns();
  entered();
  table_->score(policy_->policy, &what, agents.data(), static_cast<std::uint32_t>(agents.size()), scores_.data());
  left();
  for (std::size_t i = 0; i < scores_.size() && broken_.empty() && !hooks::mutant("policy.any_score"); ++i) {
    const double score = scores_[i].score;
    if (!(score >= 0 && score <= 1) && score != BOURSE_UNFIT) {
      broke("score() gave " + (std::isnan(score) ? std::string("NaN") : std::to_string(score)) + ", expected 0 to 1");
    } else if (scores_[i].device != kNone && scores_[i].device >= book_.agents()[agents[i]].devices.size()) {
      broke("score() chose device " + std::to_string(scores_[i].device) + " of an agent that has " +
            std::to_string(book_.agents()[agents[i]].devices.size()));
    }
  }
  if (broken_.empty()) return scores_;
  fall_back();
  scores_.clear();
  return scores_;
}

void Host::feedback(const Feedback& f) {
  if (!wants_feedback()) return;
  Usage ask;
  if (f.shape != nullptr) ask = usage_of(*f.shape);
  const Vector& v = vector_of(&ask);
  const bourse_feedback told{.size = sizeof told,
                             .event = f.event,
                             .claimant = f.claimant,
                             .account = f.account,
                             .now_us = f.now.count(),
                             .units = f.units,
                             .wait_us = f.wait.count(),
                             .run_us = f.run.count(),
                             .limit_us = f.limit.count(),
                             .kinds = length(v),
                             .ask = v.data()};
  call([&](Instance& i) {
    if (i.choice.table->feedback != nullptr) i.choice.table->feedback(i.policy, &told);
  });
}

// --- another policy, another life --------------------------------------------------------------------------------------------
Result<> Host::swap(const Choice& choice) {
  auto next = BOURSE_TRY(create(choice, options_));
  std::unique_ptr<Instance> order;
  if (choice.table->rank == nullptr)
    order = BOURSE_TRY(create({{options_.fallback, {}}, find_builtin(options_.fallback), true, ""}, options_));
  const std::string learned = fault_.empty() ? save() : "";
  policy_ = std::move(next);
  order_ = std::move(order);
  table_ = choice.table;
  choice_ = choice;
  fault_.clear();
  if (!learned.empty() && !hooks::mutant("policy.forgets_at_reload")) load(learned);
  call([&](Instance& i) { book_.tell(*i.choice.table, i.policy); });
  return {};
}

std::string Host::save() {
  if (table_->save == nullptr || !fault_.empty()) return "";
  std::string state;
  const auto saved = [&](std::uint64_t capacity) {
    std::int64_t bytes = 0;
    if (!policy_->choice.built_in) entered();
    bytes = table_->save(policy_->policy, state.data(), capacity);
    if (!policy_->choice.built_in) left();
    return bytes;
  };
  spent_ = 0;
  const std::int64_t bytes = saved(0);
  if (bytes < 0 || bytes > static_cast<std::int64_t>(BOURSE_STATE_MAX)) {
    broke("save() says that it has " + std::to_string(bytes) + " bytes");
  } else if (bytes > 0 && broken_.empty()) {
    state.resize(static_cast<std::size_t>(bytes));
    if (saved(state.size()) != bytes) broke("save() does not give the bytes that it said it has");
  }
  if (!broken_.empty()) {
    fall_back();
    return "";
  }
  return bytes == 0 ? "" : choice_.spec.name + "\n" + state;
}

bool Host::load(std::string_view saved) {
  const std::size_t end = saved.find('\n');
  if (table_->load == nullptr || end == std::string_view::npos || saved.substr(0, end) != choice_.spec.name) return false;
  saved.remove_prefix(end + 1);
  int rc = 0;
  if (!policy_->choice.built_in) entered();
  rc = table_->load(policy_->policy, saved.data(), saved.size());
  if (!policy_->choice.built_in) left();
  if (!broken_.empty()) fall_back();
  return rc == 0;
}

}  // namespace bourse::policy
