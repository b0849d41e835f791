#include "common/world/program.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "common/core/hooks.h"
#include "common/world/driver.h"
#include "common/world/log.h"

namespace bourse {
namespace {

constexpr std::string_view kPrefix = "bourse-";

LogLevel log_level(const Config& config) {
  const std::string level = config.text("log", "level");
  return level == "debug"   ? LogLevel::kDebug
         : level == "warn"  ? LogLevel::kWarn
         : level == "error" ? LogLevel::kError
                            : LogLevel::kInfo;
}

}  // namespace

Program::Program(const std::string& name, const std::string& about, const std::string& ready)
    : name_(name), section_(name.substr(kPrefix.size())), options_(about, name) {
  options_.option("--config", config_option_, "Configuration file (default: of the cluster's directory, see bourse.conf(5))");
  options_.option("--set", overrides_, "section.key=value, over the configuration file").one_each();
  options_.option("--ready-fd", ready_fd_, "Descriptor on which a newline is written " + ready);
  options_.version(name + " " BOURSE_VERSION);
}

int Program::run(int argc, char** argv, const std::function<Result<>(Program&)>& body) {
  hooks::init(std::getenv("BOURSE_CRASH_AT"), std::getenv("BOURSE_MUTANT"));  // NOLINT(concurrency-mt-unsafe)
  if (const int status = options_.parse(argc, argv); status >= 0) return status;
  const auto done = [&]() -> Result<> {
    places_ = Places::find();
    take(BOURSE_TRY(read_again()));
    if (const std::string hooks = hooks::active(); !hooks.empty())
      log_event(LogLevel::kWarn, "test_hooks_active", {{"hooks", hooks}});
    return body(*this);
  }();
  if (done) return 0;
  std::fprintf(stderr, "%s: %s\n", name_.c_str(), done.error().text().c_str());
  return 1;
}

std::string Program::state_directory() const {
  std::string state = !state_option.empty() ? state_option : config_->text(section_, "state");
  return state.empty() ? places_.state + "/" + section_ : state;
}

std::string Program::keys_directory(const Config& config) const {
  std::string keys = config.text("cluster", "keys");
  return keys.empty() ? places_.keys : keys;
}

void Program::ready() const { announce_ready(ready_fd_); }

std::string Program::config_path() const {
  if (!config_option_.empty()) return config_option_;
  return access(places_.config.c_str(), F_OK) == 0 ? places_.config : std::string();
}

Result<Config> Program::read_again() const { return Config::read(config_path(), overrides_); }

void Program::take(Config config) {
  log_init(name_, log_level(config));
  config_ = std::move(config);
}

void Program::end_on_signals(Reactor& reactor) {
  reactor.on_signal(SIGTERM, [&reactor] { reactor.stop(); });
  reactor.on_signal(SIGINT, [&reactor] { reactor.stop(); });
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace bourse
