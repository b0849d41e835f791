// Which policies there are: those that come with Bourse, and plugins under the path they were loaded from.
//
// main.cc fills it (loader.h), actors only look: so an actor that is told a policy's name by a reload loads nothing itself.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "bourse/plugin.h"
#include "common/core/result.h"
#include "plugins/policy/params.h"

namespace bourse::policy {

struct Choice {
  Spec spec;
  const bourse_policy_1* table = nullptr;
  bool built_in = true;
  std::string digest;  // of a plugin's file
};

// A policy that comes with Bourse, without parameters. It must be one: a bug else.
Choice built_in(std::string_view name);

class Catalog {
 public:
  // kNotFound: no policy of that name; the error lists those there are.
  [[nodiscard]] Result<Choice> find(const Spec& spec) const;
  [[nodiscard]] Result<Choice> find(std::string_view spec_text) const;
  // A plugin's interface under its path; replaces what was there, which stays valid for who has it.
  void add(const std::string& path, const bourse_policy_1* table, const std::string& digest);

 private:
  struct Loaded {
    const bourse_policy_1* table = nullptr;
    std::string digest;
  };
  std::map<std::string, Loaded> loaded_;
};

// What a reload tells an actor of its policy: "policy=SPEC". None: it speaks of something else. `catalog` null: only those built in.
std::optional<Result<Choice>> reloaded(std::string_view text, const Catalog* catalog);

// Every function that must be there is there. The error names the first that is not.
Result<> check_table(const bourse_policy_1& table);

// The plugin's policy interface would not take these parameters, or would: creates one and destroys it.
Result<> check_params(const Choice& choice);

}  // namespace bourse::policy
