#include "master/view.h"

#include <algorithm>
#include <utility>

#include "master/house.h"
#include "master/status.h"

namespace bourse::house {

namespace {

ViewUpdate update_of(std::string what) {
  ViewUpdate update;
  update.what = std::move(what);
  return update;
}

// There can be many of them: told last, so that who asks for another table does not wait for these.
bool is_many(std::string_view what) { return what == "offers" || what == "slices"; }

void whole_now(House& h, bool many) {
  for (const std::string_view what : kViewTables) {
    if (is_many(what) != many) continue;
    ViewUpdate end = update_of(std::string(what));
    end.snapshot = true;
    h.out->views.push_back(std::move(end));
  }
}

void put(House& h, ViewUpdate update) {
  if (!update.rows.empty() || !update.removed.empty()) h.out->views.push_back(std::move(update));
}

}  // namespace

void ViewTable::watched(House& h, const Watched& event) {
  if (event.on && !on_) fill(h);
  if (!event.on && on_) {
    on_ = filling_ = false;
    h.ledger.viewed.watch(false);
    h.lent.viewed.watch(false);
    frameworks_.watch(false);
    agent_names_.clear(), framework_names_.clear(), lines_.clear(), roles_.clear();
    offers_ = {}, slices_ = {};
    if (armed_) h.out->disarm(TimerKey{kViewTimer, 0, {}});
    armed_ = false;
  }
  if (!on_) return;
  flush_ = std::max(flush_, event.flush);
  due(h);
}

// Everything counts as changed.
void ViewTable::fill(House& h) {
  on_ = filling_ = true;
  h.ledger.viewed.watch(true);
  h.lent.viewed.watch(true);
  frameworks_.watch(true);
  agent_names_.clear(), framework_names_.clear(), lines_.clear(), roles_.clear();
  offers_ = {}, slices_ = {};
  offers_filled_ = 0, slices_filled_ = "";
  events_through_ = 0;
  roles_dirty_ = true;
  roles_at_ = Duration{0};
  for (const auto& [id, ix] : h.agents.by_name()) h.ledger.viewed.add(ix);
  for (const auto& [id, ix] : h.frameworks.by_name()) frameworks_.add(ix);
  for (const std::string_view what : kViewTables) {
    ViewUpdate begin = update_of(std::string(what));
    begin.snapshot = begin.more = true;
    h.out->views.push_back(std::move(begin));
  }
}

void ViewTable::settled(House& h) {
  if (!on_ || armed_) return;
  armed_ = true;
  h.out->arm(TimerKey{kViewTimer, 0, {}}, kEvery);
}

void ViewTable::due(House& h) {
  armed_ = false;
  if (!on_) return;
  if (!filling_ && flush_ == 0 && !offers_filled_ && !slices_filled_) sweep(h);
  const bool whole = round(h, flush_ != 0 || filling_);
  if (whole && filling_) {
    filling_ = false;
    whole_now(h, false);
  }
  if (whole && flush_ != 0) {
    ViewUpdate mark;
    mark.sequence = Sequence(std::exchange(flush_, 0));
    h.out->views.push_back(std::move(mark));
  }
  bool many_left = offers_filled_ || slices_filled_;
  if (whole && many_left) {
    std::size_t room = kRowsPerStep / 2;
    offers(h, room);
    slices(h, room);
    many_left = room == 0;
    if (!many_left) whole_now(h, true);
    if (many_left && !offers_filled_ && !slices_filled_) offers_filled_ = UINT64_MAX;  // the last of them are not told yet
  }
  if (whole && !many_left) return;
  armed_ = true;
  h.out->arm(TimerKey{kViewTimer, 0, {}}, kSoon);
}

// True when nothing is left to tell. `now`: somebody waits, so what is looked at less often is looked at too.
bool ViewTable::round(House& h, bool now) {
  std::size_t room = kRowsPerStep;
  agents(h, room);
  if (!frameworks_.empty()) roles_dirty_ = true;
  frameworks(h, room);
  if (!offers_filled_ && !slices_filled_) offers(h, room), slices(h, room);
  events(h, room);
  if (room > 0 && (now || (roles_dirty_ && h.now.mono - roles_at_ >= kRolesEvery))) roles(h);
  if (room == 0) return false;
  ViewUpdate cluster = update_of("cluster");
  cluster.rows = cluster_view(h);
  put(h, std::move(cluster));
  return true;
}

void ViewTable::agents(House& h, std::size_t& room) {
  ViewUpdate out = update_of("agents");
  AgentIx ix = 0;
  while (h.lent.viewed.take(ix)) h.ledger.viewed.add(ix);  // one row shows both accounts
  while (room > 0 && h.ledger.viewed.take(ix)) {
    --room;
    if (ix >= agent_names_.size()) agent_names_.resize(ix + std::size_t{1});
    std::string& told = agent_names_[ix];
    if (h.agents.at(ix).removed) {
      if (!told.empty()) out.removed.push_back(std::exchange(told, {}));
      continue;
    }
    out.rows.push_back(agent_view(h, ix));
    told = out.rows.back().name;
  }
  put(h, std::move(out));
}

void ViewTable::frameworks(House& h, std::size_t& room) {
  ViewUpdate out = update_of("frameworks"), lines = update_of("demand");
  FrameworkIx ix = 0;
  while (room > 0 && frameworks_.take(ix)) {
    --room;
    if (ix >= framework_names_.size()) framework_names_.resize(ix + std::size_t{1}), lines_.resize(ix + std::size_t{1});
    std::string& told = framework_names_[ix];
    const FrameworkRow& row = h.frameworks.at(ix);
    // A row of the table may be another framework's meanwhile.
    if (!told.empty() && (row.removed || row.id.str() != told)) {
      out.removed.push_back(std::exchange(told, {}));
      for (const std::string& line : std::exchange(lines_[ix], {})) lines.removed.push_back(line);
    }
    if (row.removed) continue;
    out.rows.push_back(framework_view(h, ix));
    told = out.rows.back().name;
    std::set<std::string> now;
    for (StatusReply::Row& line : demand_view(h, ix)) {
      now.insert(line.name);
      lines.rows.push_back(std::move(line));
    }
    for (const std::string& line : lines_[ix])
      if (!now.contains(line)) lines.removed.push_back(line);
    room -= std::min(room, now.size());
    lines_[ix] = std::move(now);
  }
  put(h, std::move(out));
  put(h, std::move(lines));
}

// All that there are count as changed, a few at a time.
void ViewTable::offers(House& h, std::size_t& room) {
  ViewUpdate out = update_of("offers");
  for (std::size_t n = 0; n < room && offers_filled_; ++n) {
    const auto next = h.offers.open.upper_bound(*offers_filled_);
    offers_filled_.reset();
    if (next == h.offers.open.end()) break;
    offers_.dirty.insert(next->first);
    offers_filled_ = next->first;
  }
  while (room > 0 && !offers_.dirty.empty()) {
    const std::uint64_t id = *offers_.dirty.begin();
    offers_.dirty.erase(offers_.dirty.begin());
    --room;
    if (const auto found = h.offers.open.find(id); found != h.offers.open.end()) {
      offers_.told.insert(id);
      out.rows.push_back(offer_view(h, found->second));
    } else if (offers_.told.erase(id) != 0) {
      out.removed.push_back(std::to_string(id));
    }
  }
  put(h, std::move(out));
}

void ViewTable::slices(House& h, std::size_t& room) {
  ViewUpdate out = update_of("slices");
  if (room > 0 && slices_filled_) {
    const std::vector<SliceId> some = slices_after(h, *slices_filled_, room);
    slices_.dirty.insert(some.begin(), some.end());
    slices_filled_ = some.size() == room ? std::optional(to_text(some.back())) : std::nullopt;
  }
  while (room > 0 && !slices_.dirty.empty()) {
    const SliceId id = *slices_.dirty.begin();
    slices_.dirty.erase(slices_.dirty.begin());
    --room;
    if (auto row = slice_view(h, id)) {
      slices_.told.insert(id);
      out.rows.push_back(*std::move(row));
    } else if (slices_.told.erase(id) != 0) {
      out.removed.push_back(to_text(id));
    }
  }
  put(h, std::move(out));
}

void ViewTable::roles(House& h) {
  roles_dirty_ = false;
  roles_at_ = h.now.mono;
  ViewUpdate out = update_of("roles");
  std::map<std::string, StatusReply::Row> now;
  for (StatusReply::Row& row : roles_view(h)) {
    const auto told = roles_.find(row.name);
    if (told == roles_.end() || told->second != row) out.rows.push_back(row);
    std::string name = row.name;
    now.emplace(std::move(name), std::move(row));
  }
  for (const auto& [name, row] : roles_)
    if (!now.contains(name)) out.removed.push_back(name);
  roles_ = std::move(now);
  put(h, std::move(out));
}

void ViewTable::events(House& h, std::size_t& room) {
  ViewUpdate out = update_of("events");
  const auto& rows = h.events.rows();
  if (rows.empty()) return;
  std::size_t at = 0;
  if (events_through_ >= rows.front().number) at = static_cast<std::size_t>(events_through_ + 1 - rows.front().number);
  for (; room > 0 && at < rows.size(); ++at, --room) {
    out.rows.push_back(event_view(rows[at]));
    events_through_ = rows[at].number;
  }
  put(h, std::move(out));
}

void ViewTable::sweep(House& h) {
  for (std::size_t i = 0; i < kSweep && i < h.agents.rows(); ++i) {
    if (sweep_agent_ >= h.agents.rows()) sweep_agent_ = 0;
    h.ledger.viewed.add(sweep_agent_++);
  }
  for (std::size_t i = 0; i < kSweep && i < h.frameworks.rows(); ++i) {
    if (sweep_framework_ >= h.frameworks.rows()) sweep_framework_ = 0;
    frameworks_.add(sweep_framework_++);
  }
  offers_.look_again(sweep_offer_);
  slices_.look_again(sweep_slice_);
  roles_dirty_ = true;
}

}  // namespace bourse::house
