#include "master/reload.h"

#include <utility>

#include "master/house.h"

namespace bourse::house {

void begin_reload(House& h, Operation operation) {
  ReloadTable& table = h.reloads;
  while (!table.rows.empty() && h.now.mono - table.rows.begin()->second.asked >= ReloadTable::kGiveUp) {
    conclude(h, table.rows.begin()->second.operation, Code::kTimeout, "it did not answer");
    table.rows.erase(table.rows.begin());
  }
  if (!operation.action.parameters.empty())
    return conclude(h, operation, Code::kInvalid, "reload takes no '" + operation.action.parameters.front().first + "'");
  if (table.rows.size() >= ReloadTable::kReloadsMax)
    return conclude(h, operation, Code::kBusy, "too many are under way; try again");
  ReloadTable::Row row{std::move(operation), 0, false, h.now.mono};
  const std::string& target = row.operation.action.target;
  const std::uint64_t tag = table.last + 1;
  if (target.empty()) {
    row.own = true;
    h.out->reload = tag;
  } else {
    if (h.agents.find(AgentId(target), &row.agent) == nullptr)
      return conclude(h, row.operation, Code::kNotFound, "there is no agent '" + target + "'");
    const PeerId way = h.agents.at(row.agent).way();
    if (way.value == 0) return conclude(h, row.operation, Code::kGone, "agent '" + target + "' is not connected");
    h.send(way, ReloadConfig{tag});
  }
  table.last = tag;
  table.rows.emplace(tag, std::move(row));
}

void reload_done(House& h, const ReloadDone& done) {
  const auto node = h.reloads.rows.extract(done.tag);
  if (!node.empty()) conclude(h, node.mapped().operation, done.code, done.text);
}

void on_config_reloaded(House& h, const Session& from, const Message& message) {
  const auto& body = std::get<ConfigReloaded>(message.body);
  const auto found = h.reloads.rows.find(body.tag);
  if (found == h.reloads.rows.end() || found->second.own || found->second.agent != from.row) return;
  const Operation operation = std::move(found->second.operation);
  h.reloads.rows.erase(found);
  conclude(h, operation, body.code, body.text);
}

}  // namespace bourse::house
