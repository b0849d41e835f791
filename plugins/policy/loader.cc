#include "plugins/policy/loader.h"

namespace bourse::policy {

Result<Choice> Loader::take(const std::string& spec_text) {
  const Spec spec = BOURSE_TRY(parse(spec_text));
  Catalog next = catalog_;
  if (spec.is_path()) {
    auto plugin = BOURSE_TRY(Plugin::load(spec.name, "policy", host_));
    const auto* table = static_cast<const bourse_policy_1*>(BOURSE_TRY(plugin->get(BOURSE_POLICY_1, sizeof(bourse_policy_1))));
    if (auto whole = check_table(*table); !whole) return Error(Code::kInvalid, spec.name + ": " + whole.error().text());
    next.add(spec.name, table, plugin->digest());
    plugins_.push_back(std::move(plugin));
  }
  const Choice choice = BOURSE_TRY(next.find(spec));
  BOURSE_TRY(check_params(choice));
  catalog_ = std::move(next);
  return choice;
}

}  // namespace bourse::policy
