#include "master/sessions.h"

#include <string_view>
#include <utility>

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

bool SessionTable::may_log(PeerId peer, Duration now) {
  if (logged_.size() >= kStrangersMax) logged_.clear();
  const auto [it, fresh] = logged_.emplace(peer.value, now);
  if (fresh) return true;
  if (now - it->second < std::chrono::minutes(1)) return false;
  it->second = now;
  return true;
}

bool covers(const std::string& identity, std::string_view kind, std::string_view name) {
  const std::string_view text = identity;
  if (text.size() <= kind.size() + 1 || text.substr(0, kind.size()) != kind || text[kind.size()] != ':') return false;
  const std::string_view rest = text.substr(kind.size() + 1);
  return rest == name || rest == "*";
}

}  // namespace bourse::house
