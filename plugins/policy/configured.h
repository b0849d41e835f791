// The policy that a program's configuration names: loaded, tried, watched, and read again at a reload. For main programs; does I/O.
//
// A plugin in which the former life of the program ended is on a list and not loaded again (watch.h); the program then goes on with the
// fall-back. Anything else that is wrong with the policy is an error with file and line.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/world/config.h"
#include "plugins/policy/loader.h"
#include "plugins/policy/watch.h"

namespace bourse::policy {

class Configured {
 public:
  struct Options {
    std::string program, section;                   // "bourse-master", "master": its keys policy and policy_budget
    std::string fallback;                           // a built-in one
    std::string state;                              // directory
    std::function<Result<>(const Choice&)> usable;  // null: all are
  };
  static Result<std::unique_ptr<Configured>> open(Options options, const Config& config);

  // What this configuration names. An error changes nothing.
  Result<Choice> read(const Config& config);
  // Candidates that run beside it: the specs of a list in the section, each read as the policy is. An error names its place.
  Result<std::vector<Choice>> read_list(const Config& config, std::string_view key);
  // It is in force from here on. What the actor is to be told by a Reload, "policy=SPEC"; none: nothing has changed. A plugin's file may
  // be another one under the same name, so it is taken over even where the words are the same.
  std::optional<std::string> take(const Choice& choice);

  [[nodiscard]] const Choice& choice() const { return choice_; }  // as it was at the start
  [[nodiscard]] const Catalog& catalog() const { return loader_.catalog(); }
  [[nodiscard]] Guard* guard() { return watch_.get(); }

 private:
  explicit Configured(Options options) : options_(std::move(options)), loader_(options_.program, options_.state + "/plugins") {}

  Result<Choice> one(const Config& config, std::string_view key, const std::string& spec);

  Options options_;
  Loader loader_;
  std::unique_ptr<Watch> watch_;
  Choice choice_;
  std::string in_force_;
};

}  // namespace bourse::policy
