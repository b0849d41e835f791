#include "plugins/policy/catalog.h"

#include "plugins/policy/builtin.h"
#include "plugins/policy/host.h"

namespace bourse::policy {

Choice built_in(std::string_view name) {
  const bourse_policy_1* table = find_builtin(name);
  BOURSE_ASSERT(table != nullptr, std::string(name));
  return {{std::string(name), {}}, table, true, ""};
}

Result<Choice> Catalog::find(const Spec& spec) const {
  if (const bourse_policy_1* table = find_builtin(spec.name)) return Choice{spec, table, true, ""};
  if (const auto found = loaded_.find(spec.name); found != loaded_.end())
    return Choice{spec, found->second.table, false, found->second.digest};
  if (spec.is_path()) return Error(Code::kNotFound, "policy " + spec.name + " is not loaded");
  std::string names;
  for (const Builtin& builtin : builtins()) names.append(names.empty() ? "" : ", ").append(builtin.name);
  return Error(Code::kNotFound,
               "there is no policy `" + spec.name + "'; there are " + names + ", and paths of plugins with a / in them");
}

Result<Choice> Catalog::find(std::string_view spec_text) const { return find(BOURSE_TRY(parse(spec_text))); }

void Catalog::add(const std::string& path, const bourse_policy_1* table, const std::string& digest) {
  loaded_[path] = {table, digest};
}

std::optional<Result<Choice>> reloaded(std::string_view text, const Catalog* catalog) {
  constexpr std::string_view kKey = "policy=";
  if (!text.starts_with(kKey)) return std::nullopt;
  return catalog == nullptr ? Catalog().find(text.substr(kKey.size())) : catalog->find(text.substr(kKey.size()));
}

Result<> check_table(const bourse_policy_1& t) {
  const auto lacks = [](const std::string& name) { return Error(Code::kInvalid, "its policy interface lacks " + name + "()"); };
  if (t.create == nullptr) return lacks("create");
  if (t.destroy == nullptr) return lacks("destroy");
  if (t.kinds == nullptr) return lacks("kinds");
  if (t.total == nullptr) return lacks("total");
  if (t.account == nullptr) return lacks("account");
  if (t.account_used == nullptr) return lacks("account_used");
  if (t.account_removed == nullptr) return lacks("account_removed");
  if (t.claimant == nullptr) return lacks("claimant");
  if (t.claimant_used == nullptr) return lacks("claimant_used");
  if (t.claimant_units == nullptr) return lacks("claimant_units");
  if (t.claimant_removed == nullptr) return lacks("claimant_removed");
  if ((t.agent == nullptr) != (t.agent_removed == nullptr)) return lacks(t.agent == nullptr ? "agent" : "agent_removed");
  if ((t.begin == nullptr) != (t.next == nullptr)) return lacks(t.begin == nullptr ? "begin" : "next");
  if ((t.save == nullptr) != (t.load == nullptr)) return lacks(t.save == nullptr ? "save" : "load");
  if (t.begin != nullptr && t.rank == nullptr) return lacks("rank");
  if (t.rank == nullptr && t.score == nullptr) return lacks("rank");
  if ((t.wants & BOURSE_WANTS_AGENTS) != 0 && t.agent == nullptr) return lacks("agent");
  return {};
}

Result<> check_params(const Choice& choice) {
  auto made = Host::make(choice, {});
  if (!made) return std::move(made).error();
  return {};
}

}  // namespace bourse::policy
