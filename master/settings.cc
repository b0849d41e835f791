#include "master/settings.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace bourse {
namespace {

constexpr std::string_view kHead = "settings\n";

struct Field {
  std::string_view key;
  Duration MasterOptions::*value;
};
// Peers are told heartbeat and peer_timeout (and what of them is left by the lease) in their Welcome, and a policy its budget when it is made: these wait for the next start.
constexpr std::array kFields = {
    Field{"offer_ttl", &MasterOptions::offer_ttl},       Field{"failover_timeout", &MasterOptions::failover_timeout},
    Field{"coalesce", &MasterOptions::coalesce},         Field{"gang_hold", &MasterOptions::gang_hold},
    Field{"revoke_grace", &MasterOptions::revoke_grace}, Field{"leader_lease", &MasterOptions::leader_lease}};

}  // namespace

void take_config(const Config& config, MasterOptions& options) {
  options.cluster_name = config.text("cluster", "name");
  options.heartbeat = config.duration("master", "heartbeat");
  options.peer_timeout = config.duration("master", "peer_timeout");
  options.policy_budget = config.duration("master", "policy_budget");
  for (const Field& field : kFields) options.*field.value = config.duration("master", field.key);
}

const std::vector<std::string_view>& live_master_keys() {
  static const std::vector<std::string_view> keys = {
      "master.offer_ttl", "master.failover_timeout", "master.coalesce", "master.gang_hold", "master.revoke_grace",
      "master.policy",    "master.leader_lease",     "cluster.keys",    "log.level"};
  return keys;
}

std::string live_text(const MasterOptions& options) {
  std::string out(kHead);
  for (const Field& field : kFields) out += std::string(field.key) + "=" + std::to_string((options.*field.value).count()) + "\n";
  return out;
}

bool is_live_text(std::string_view text) { return text.starts_with(kHead); }

Result<> take_live(std::string_view text, MasterOptions& options) {
  MasterOptions next = options;
  text.remove_prefix(std::min(text.size(), kHead.size()));
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = std::min(line.find('='), line.size());
    const auto field =
        std::find_if(kFields.begin(), kFields.end(), [&](const Field& f) { return f.key == line.substr(0, equals); });
    const std::string_view value = line.substr(std::min(equals + 1, line.size()));
    std::int64_t number = 0;
    const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (field == kFields.end() || failure != std::errc() || end != value.data() + value.size() || number < 0)
      return Error(Code::kCorrupt, "'" + std::string(line) + "' is no setting that can change while the master runs");
    next.*field->value = Duration(number);
  }
  options = std::move(next);
  return {};
}

}  // namespace bourse
