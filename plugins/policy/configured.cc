#include "plugins/policy/configured.h"

#include <utility>

#include "common/world/log.h"

namespace bourse::policy {

Result<std::unique_ptr<Configured>> Configured::open(Options options, const Config& config) {
  std::unique_ptr<Configured> made(new Configured(std::move(options)));
  const Options& o = made->options_;
  made->watch_ = BOURSE_TRY(Watch::open(o.state, o.program));
  if (!made->watch_->crashed().empty()) {
    log_event(LogLevel::kError, "policy_quarantined",
              {{"policy", made->watch_->crashed()},
               {"reason", "the former life of this " + o.section + " ended inside of it"},
               {"then", "going on with " + o.fallback + "; see " + o.state + "/policy.quarantine"}});
  }
  if (auto choice = made->read(config); choice) {
    made->choice_ = *std::move(choice);
  } else if (choice.error().code() == Code::kDenied) {
    log_event(LogLevel::kError, "policy_refused", {{"reason", choice.error().text()}, {"then", "going on with " + o.fallback}});
    made->choice_ = built_in(o.fallback);
  } else {
    return std::move(choice).error();
  }
  made->in_force_ = made->choice_.spec.text();
  return made;
}

Result<Choice> Configured::read(const Config& config) { return one(config, "policy", config.text(options_.section, "policy")); }

Result<Choice> Configured::one(const Config& config, std::string_view key, const std::string& spec) {
  const auto refused = [&](Error error) {
    return std::move(error).add(config.place(options_.section, key) + "[" + options_.section + "] " + std::string(key));
  };
  auto choice = loader_.take(spec);
  if (!choice) return refused(std::move(choice).error());
  if (auto allowed = watch_->allowed(*choice); !allowed) return refused(std::move(allowed).error());
  if (options_.usable)
    if (auto usable = options_.usable(*choice); !usable) return refused(std::move(usable).error());
  return choice;
}

Result<std::vector<Choice>> Configured::read_list(const Config& config, std::string_view key) {
  std::vector<Choice> out;
  for (const std::string& spec : config.list(options_.section, key)) out.push_back(BOURSE_TRY(one(config, key, spec)));
  return out;
}

std::optional<std::string> Configured::take(const Choice& choice) {
  std::string spec = choice.spec.text();
  if (spec == in_force_ && choice.built_in) return std::nullopt;
  in_force_ = std::move(spec);
  return "policy=" + in_force_;
}

}  // namespace bourse::policy
