#include "master/raft.h"

#include <algorithm>
#include <functional>

#include "common/core/hooks.h"
#include "common/core/units.h"
#include "master/raft_impl.h"

namespace bourse {

// --- time --------------------------------------------------------------------------------------------------------------

unsigned Raft::Impl::election_ms() const { return static_cast<unsigned>(std::max<std::int64_t>(election().count() / 1000, 100)); }

// A follower may cut its promise short only when that is over. libraft draws its timeout anew with the next election only.
void Raft::Impl::set_lease(Duration lease) {
  const Duration before = promised;
  options.lease = lease;
  if (!running) return;
  if (election() >= before) return set_timeouts();
  after(before, [this] { set_timeouts(); });
}

void Raft::Impl::set_timeouts() {
  promised = election();
  if (!running) return;
  raft_set_election_timeout(&r, election_ms());
  raft_set_heartbeat_timeout(&r, heartbeat_ms());
  if (raft_state(&r) == RAFT_FOLLOWER)
    r.follower_state.randomized_election_timeout =
        static_cast<unsigned>(io.random(&io, static_cast<int>(election_ms()), 2 * static_cast<int>(election_ms())));
}

void Raft::Impl::after(Duration delay, std::function<void()> call) {
  ports.after(delay, [weak = self, call = std::move(call)] {
    if (*weak != nullptr && !(*weak)->ended) (*weak)->enter(call);
  });
}

void Raft::Impl::settle() {
  while (!ended) {
    if (!later.empty()) {
      const auto call = std::move(later.front());
      later.pop_front();
      call();
      continue;
    }
    look();
    if (!later.empty()) continue;
    if (outbox.empty()) return;
    const auto tell = std::move(outbox.front());
    outbox.pop_front();
    tell();
  }
}

void Raft::Impl::tell(Event event) {
  outbox.push_back([this, event = std::move(event)] { ports.post(event); });
}

void Raft::Impl::fatal(const std::string& why) {
  if (ended) return;
  ended = true;
  ports.fatal(why);
}

void Raft::Impl::complain(const std::string& about, LogLevel level, std::string_view event, LogFields fields) {
  const auto [at, first] = complained.emplace(about, mono());
  if (!first && mono() - at->second < std::chrono::minutes(1)) return;
  at->second = mono();
  if (complained.size() > 2 * kRaftServersMax) complained.clear();
  ports.log(level, event, fields);
}

// --- the state machine -------------------------------------------------------------------------------------------------

int Raft::Impl::applied(std::string_view bytes) {
  const std::uint64_t index = r.last_applied + 1;
  auto records = unpack_records(bytes);
  if (!records) {
    fatal("entry " + std::to_string(index) + ": " + records.error().text());
    return RAFT_CORRUPT;
  }
  machine.apply(index, *records);
  const auto waiting = proposals.find(index);
  if (waiting != proposals.end() && waiting->second->done) return 0;  // told by its callback, which is next
  tell(Committed{index, *std::move(records)});
  return 0;
}

int Raft::Impl::restored(raft_buffer* buffer) {
  std::string data(view(*buffer));
  raft_free(buffer->base);
  if (auto done = machine.restore(data); !done) {
    fatal("the registry's snapshot: " + done.error().text());
    return 0;  // libraft would free the buffer again
  }
  tell(Restored{std::move(data)});
  return 0;
}

void Raft::Impl::propose(const std::vector<std::string>& records, Proposed done) {
  if (!leading || !running || lame) {
    outbox.push_back([done = std::move(done)] { done(Error(Code::kGone, "this master does not lead any more")); });
    return;
  }
  auto* proposal = new Proposal;
  proposal->impl = this;
  proposal->done = std::move(done);
  proposal->request.data = proposal;
  raft_buffer buffer = copied(pack_records(records));
  const int rc = raft_apply(&r, &proposal->request, &buffer, 1, [](struct raft_apply* request, int status, void*) {
    std::unique_ptr<Proposal> over(static_cast<Proposal*>(request->data));
    over->impl->proposed(request->index, *over, status);
  });
  if (rc == 0) {
    proposals[proposal->request.index] = proposal;
    return;
  }
  raft_free(buffer.base);
  outbox.push_back([rc, refused = std::shared_ptr<Proposal>(proposal)] {
    refused->done(Error(rc == RAFT_NOTLEADER ? Code::kBusy : Code::kIo,
                        rc == RAFT_NOTLEADER ? "leadership is being handed over" : "the log could not be written"));
  });
}

void Raft::Impl::proposed(std::uint64_t index, Proposal& over, int status) {
  const auto at = proposals.find(index);
  if (at != proposals.end() && at->second == &over) proposals.erase(at);
  if (!over.done) return;
  outbox.push_back([done = std::move(over.done), index, status] {
    if (status == 0) return done(index);
    done(Error(Code::kGone, "this master lost its leadership before the record was committed"));
  });
}

// --- leadership --------------------------------------------------------------------------------------------------------

bool Raft::Impl::voter(std::string_view name) const {
  for (unsigned i = 0; i < r.configuration.n; ++i) {
    const raft_server& s = r.configuration.servers[i];
    if (s.role == RAFT_VOTER && raft_server_of(s.address != nullptr ? s.address : "", s.role).name == name) return true;
  }
  return false;
}

void Raft::Impl::count_lease() {
  std::vector<Duration> untils;
  for (unsigned i = 0; i < r.configuration.n; ++i) {
    const raft_server& s = r.configuration.servers[i];
    if (s.role != RAFT_VOTER) continue;
    if (s.id == r.id) {
      untils.push_back(Duration::max());
      continue;
    }
    Duration until = kNever;
    if (const auto at = peers.find(raft_server_of(s.address != nullptr ? s.address : "", s.role).name); at != peers.end()) {
      const Peer& peer = at->second;
      const Duration promise = peer.promise > Duration(0) ? std::min(peer.promise, election()) : election();
      until = peer.contact + promise - promise / kDriftPart;
    }
    untils.push_back(until);
  }
  if (untils.empty()) return;
  std::sort(untils.begin(), untils.end(), std::greater<>());
  lease_until = untils[untils.size() / 2];
}

bool Raft::Impl::lease_holds() const {
  if (hooks::mutant("raft.no_lease")) return true;
  if (yielded_term == r.current_term && !hooks::mutant("raft.leads_on_when_it_yields")) return false;
  return mono() < lease_until;
}

void Raft::Impl::step_down() {
  leading = false;
  leader_hint(hint_name, hint_endpoint);
  hinted = true;
  tell(NotLeader{hint_name, hint_endpoint});
  for (auto& [index, proposal] : std::exchange(proposals, {})) {
    outbox.push_back([done = std::exchange(proposal->done, nullptr)] {
      done(Error(Code::kGone, "this master lost its leadership before the record was committed"));
    });
  }
  if (change) end_change(Code::kGone, "this master lost its leadership; bourse master list shows what came of it");
}

void Raft::Impl::leader_hint(std::string& name, std::string& endpoint) {
  raft_id id = 0;
  const char* address = nullptr;
  name.clear();
  endpoint.clear();
  if (running && raft_state(&r) == RAFT_FOLLOWER) raft_leader(&r, &id, &address);
  if (id == 0 || address == nullptr) return;
  name = raft_server_of(address, 0).name;
  if (const auto peer = peers.find(name); peer != peers.end()) endpoint = peer->second.endpoint;
}

void Raft::Impl::look() {
  if (ended) return;
  if (running && !restarting && (lame || raft_state(&r) == RAFT_UNAVAILABLE)) {
    if (leading) step_down();
    complain("unavailable", LogLevel::kWarn, "raft_restarts",
             {{"reason", *raft_errmsg(&r) != 0 ? raft_errmsg(&r) : "a write was refused"}});
    restart(kRestartAfter);
  }
  if (group_differs()) restart(Duration(0));
  const bool elected = running && !lame && raft_state(&r) == RAFT_LEADER;
  if (leading && (!elected || r.current_term != leading_term || !lease_holds())) step_down();
  if (!elected) {
    leading_term = 0;
    held.clear();
  } else if (r.current_term != leading_term) {
    leading_term = r.current_term;
    // Who voted may vote again at once: only an answer to what a leader says is a promise.
    for (auto& [name, peer] : peers) peer.contact = hooks::mutant("raft.vote_is_a_promise") ? mono() : kNever;
    count_lease();
  }
  if (elected && !leading && !restarting && lease_holds()) {
    leading = true;
    hinted = false;
    disk_refuses = false;  // it may have room by now: the record of this leadership shows
    tell(Leader{});
  }
  if (elected) release_held();
  if (leading && disk_refuses) hand_over();  // another may have room
  if (!leading) {
    std::string name, endpoint;
    leader_hint(name, endpoint);
    if (!hinted || name != hint_name || endpoint != hint_endpoint) {
      hinted = true;
      hint_name = name;
      hint_endpoint = endpoint;
      tell(NotLeader{name, endpoint});
    }
  }
  if (auto now = running ? servers_of(r.configuration) : known; now != known) {
    known = std::move(now);
    for (const RaftServer& s : known) {
      if (s.name == log.name) continue;
      Peer& peer = peer_of(s.name);
      if (peer.server.address.empty()) peer.server.address = s.address;
    }
    count_lease();
    arm();
    facts();
  }
}

Raft::Raft(Options options, Ports& ports, Machine& machine) : impl_(std::make_unique<Impl>(std::move(options), ports, machine)) {}
Raft::~Raft() {
  impl_->ended = true;
  for (auto& [index, proposal] : impl_->proposals) proposal->done = nullptr;
  impl_->leading = false;
  impl_->shut();
  *impl_->self = nullptr;
}

Result<> Raft::start(const std::string& snapshot, const std::vector<std::string>& records) {
  return impl_->start(snapshot, records);
}
void Raft::abandon() { impl_->ended = true; }
void Raft::propose(const std::vector<std::string>& records, Proposed done) {
  if (impl_->ended) return;
  impl_->enter([&] { impl_->propose(records, std::move(done)); });
}
void Raft::received(std::string_view bytes) {
  if (impl_->ended) return;
  impl_->enter([&] { impl_->received(bytes); });
}
void Raft::change(const ChangeMember& member) {
  if (impl_->ended) return;
  impl_->enter([&] { impl_->begin_change(member, false); });
}
void Raft::hand_over() {
  if (impl_->ended) return;
  impl_->enter([&] { impl_->hand_over(); });
}
void Raft::set_lease(Duration lease) {
  if (impl_->ended) return;
  impl_->enter([&] { impl_->set_lease(lease); });
}
void Raft::set_endpoint(std::string endpoint) { impl_->options.endpoint = std::move(endpoint); }
bool Raft::may_lead() {
  if (!impl_->leading || impl_->ended) return false;
  if (impl_->lease_holds()) return true;
  impl_->enter([] {});
  return false;
}
bool Raft::holds_lease() const { return impl_->leading && !impl_->ended && impl_->lease_holds(); }
bool Raft::leads() const { return impl_->leading; }
bool Raft::handing_over() const { return impl_->transfer != nullptr && !impl_->ended; }
bool Raft::alone() const {
  return impl_->running && impl_->options.peers.size() < 2 && impl_->r.configuration.n == 1 && impl_->voter(impl_->log.name);
}
std::uint64_t Raft::term() const { return impl_->running ? impl_->r.current_term : 0; }
std::uint64_t Raft::applied() const { return impl_->running ? impl_->r.last_applied : 0; }
const RaftLog& Raft::log() const { return impl_->log; }
std::vector<RaftServer> Raft::servers() const {
  return impl_->running ? servers_of(impl_->r.configuration) : std::vector<RaftServer>{};
}

}  // namespace bourse
