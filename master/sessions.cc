#include "master/sessions.h"

#include <string_view>
#include <utility>

#include "common/core/hooks.h"
#include "common/core/role.h"

namespace bourse::house {

Session* SessionTable::find(PeerId peer) {
  const auto found = sessions_.find(peer.value);
  return found == sessions_.end() ? nullptr : &found->second;
}

Session* SessionTable::open(Session session, Duration timeout) {
  const std::uint64_t peer = session.peer.value;
  if (sessions_.size() >= kSessionsMax && !sessions_.contains(peer)) return nullptr;
  const auto [it, fresh] = sessions_.insert_or_assign(peer, std::move(session));
  if (fresh) deadlines.push(it->second.heard + timeout, peer);
  return &it->second;
}

PeerId SessionTable::next_silent(Duration now, Duration timeout) {
  std::uint64_t peer = 0;
  while (deadlines.pop_due(now, peer)) {
    const auto found = sessions_.find(peer);
    if (found == sessions_.end()) continue;
    const Duration due = found->second.heard + timeout;
    deadlines.push(due > now ? due : now + timeout, peer);
    if (due <= now) return PeerId(peer);
  }
  return PeerId(0);
}

bool SessionTable::once(std::map<std::uint64_t, Duration>& last, PeerId peer, Duration now, Duration every) {
  if (last.size() >= kStrangersMax) last.clear();
  const auto [it, fresh] = last.emplace(peer.value, now);
  if (fresh) return true;
  if (now - it->second < every) return false;
  it->second = now;
  return true;
}

bool SessionTable::may_log(PeerId peer, Duration now) { return once(logged_, peer, now, std::chrono::minutes(1)); }
bool SessionTable::may_answer(PeerId peer, Duration now) { return once(answered_, peer, now, kAnswerEvery); }

bool covers_role(std::string_view roles, std::string_view role) {
  if (roles.empty() || hooks::mutant("master.any_role")) return true;
  for (;;) {
    const std::string_view one = roles.substr(0, roles.find(','));
    if (in_tree(role, one)) return true;
    if (one.size() == roles.size()) return false;
    roles.remove_prefix(one.size() + 1);
  }
}

bool covers(const std::string& identity, std::string_view kind, std::string_view name) {
  const std::string_view text = identity;
  if (text.size() <= kind.size() + 1 || text.substr(0, kind.size()) != kind || text[kind.size()] != ':') return false;
  const std::string_view rest = text.substr(kind.size() + 1);
  return rest == name || rest == "*";
}

}  // namespace bourse::house
