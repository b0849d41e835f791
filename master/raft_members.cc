// Who the masters are: pings, how a cluster begins, changes of the group.
#include <algorithm>

#include "common/core/hooks.h"
#include "common/core/units.h"
#include "master/raft_impl.h"

namespace bourse {

// --- the other masters -------------------------------------------------------------------------------------------------

Raft::Impl::Peer& Raft::Impl::peer_of(const std::string& name) {
  auto [at, fresh] = peers.try_emplace(name);
  if (fresh) {
    at->second.server.name = name;
    at->second.server.id = raft_id_of(name);
  }
  return at->second;
}

bool Raft::Impl::member(const std::string& name) const {
  return std::any_of(known.begin(), known.end(), [&](const RaftServer& s) { return s.name == name; });
}

bool Raft::Impl::expected(const std::string& name) const {
  return std::any_of(options.peers.begin(), options.peers.end(), [&](const RaftServer& s) { return s.name == name; }) ||
         (change && change->member.name == name);
}

void Raft::Impl::arm() {
  if (!ticking && running && r.configuration.n > 1) {
    ticking = true;
    after(milliseconds(heartbeat_ms()), [this] { tick(); });
  }
  if (!pinging && !peers.empty()) {
    pinging = true;
    after(Duration(0), [this] { ping(); });
  }
}

// A candidate that was not elected asks anew whether it would be. libraft has it begin one term after the other, and each deposes
// whoever leads, though its log be too short for it ever to be elected.
void Raft::Impl::asks_before_it_votes() {
  if (raft_state(&r) != RAFT_CANDIDATE || hooks::mutant("raft.bumps_terms")) return;
  auto& candidate = r.candidate_state;
  if (io.time(&io) - r.election_timer_start < candidate.randomized_election_timeout) return;
  candidate.in_pre_vote = true;
  candidate.disrupt_leader = false;
}

void Raft::Impl::tick() {
  ticking = false;
  if (running && !lame && r.configuration.n > 1) {
    asks_before_it_votes();
    on_tick(&io);
  }
  arm();
}

void Raft::Impl::ping() {
  pinging = false;
  for (auto at = peers.begin(); at != peers.end();) {
    if (!member(at->first) && !expected(at->first)) {
      at = peers.erase(at);
      continue;
    }
    Peer& peer = (at++)->second;
    if (peer.server.address.empty()) continue;
    peer.sequence = ++pings;
    peer.pinged = mono();
    ports.send(peer.server,
               encode_ping(header(peer.server.name), {peer.sequence, false, ports.now().wall, log.cluster == 0, options.endpoint}));
  }
  if (change && mono() > change->deadline) {
    end_change(Code::kTimeout, change->asked ? change->member.name + " has not caught up within " + format_duration(kMemberWithin) +
                                                   "; bourse master list shows whether it came to pass"
                                             : "no answer from " + change->member.raft +
                                                   ": is a bourse-master with master.raft there, with this cluster's key?");
  }
  seek();
  if (mono() - facts_at >= kFactsEvery) facts();
  if (peers.empty()) return;
  pinging = true;
  after(kPingEvery, [this] { ping(); });
}

void Raft::Impl::pinged(const RaftEnvelope& envelope, const RaftPing& ping) {
  const bool foreign = envelope.cluster != 0 && log.cluster != 0 && envelope.cluster != log.cluster;
  if (change && !change->asked && change->member.add && ping.answer && envelope.address == change->member.raft) {
    if (foreign) return end_change(Code::kDenied, "the master at " + envelope.address + " belongs to another cluster");
    if (envelope.name != change->member.name)
      return end_change(Code::kInvalid,
                        "the master at " + envelope.address + " is " + envelope.name + ", not " + change->member.name);
  }
  if (foreign) {
    complain("cluster " + envelope.name, LogLevel::kError, "master_of_another_cluster",
             {{"name", envelope.name}, {"address", envelope.address}, {"then", "ignoring it"}});
    return;
  }
  if (peers.size() >= kRaftServersMax && !peers.contains(envelope.name)) return;
  // Whoever pings may be one that we do not know yet: the leader that is about to take us in.
  if (!member(envelope.name) && !expected(envelope.name) && ping.answer) return;
  if (!ping.answer) {
    ports.send({raft_id_of(envelope.name), envelope.name, envelope.address, 0},
               encode_ping(header(envelope.name), {ping.sequence, true, ports.now().wall, log.cluster == 0, options.endpoint}));
    if (!member(envelope.name) && !expected(envelope.name)) return;
  }
  Peer& peer = peer_of(envelope.name);
  const bool back = peer.heard < Duration(0) || mono() - peer.heard > kHeardWithin;
  const bool moved = peer.endpoint != ping.endpoint;
  peer.heard = mono();
  peer.pristine = ping.pristine;
  peer.endpoint = ping.endpoint;
  if (!envelope.address.empty()) peer.server.address = envelope.address;
  if (ping.answer && ping.sequence == peer.sequence) {
    const Duration round = mono() - peer.pinged;
    peer.clock.add(round, ping.wall - (ports.now().wall - round / 2));
    if (change && !change->asked && change->member.name == envelope.name) ask_change();
  }
  arm();
  if (back || moved) facts();
  if (leading && !change && peer.pristine && !member(envelope.name) && expected(envelope.name) && own_entry_committed())
    begin_change({0, true, envelope.name, peer.server.address}, true);
}

void Raft::Impl::facts() {
  facts_at = mono();
  MastersChanged out;
  std::string leader = leading ? log.name : hint_name;
  for (const RaftServer& s : known) {
    MasterFacts& f = out.masters.emplace_back();
    f.name = s.name;
    f.raft = s.address;
    f.voter = s.role == RAFT_VOTER;
    f.leads = s.name == leader;
    f.self = s.name == log.name;
    if (f.self) {
      f.endpoint = options.endpoint;
      f.raft = options.address;
      f.heard = f.round = Duration(0);
      continue;
    }
    const auto at = peers.find(s.name);
    if (at == peers.end()) continue;
    const Peer& peer = at->second;
    f.endpoint = peer.endpoint;
    if (!peer.server.address.empty()) f.raft = peer.server.address;
    if (peer.heard >= Duration(0)) f.heard = mono() - peer.heard;
    if (const auto best = peer.clock.best()) {
      f.offset = best->offset;
      f.round = best->round;
    }
  }
  std::sort(out.masters.begin(), out.masters.end(), [](const MasterFacts& a, const MasterFacts& b) { return a.name < b.name; });
  tell(std::move(out));
}

// --- how a cluster begins ----------------------------------------------------------------------------------------------

void Raft::Impl::seek() {
  if (log.cluster != 0 || options.peers.empty() || options.peers.front().name != log.name) return;
  std::string missing, taken;
  for (const RaftServer& s : options.peers) {
    if (s.name == log.name) continue;
    const auto at = peers.find(s.name);
    if (at == peers.end() || at->second.heard < Duration(0) || mono() - at->second.heard > kHeardWithin) {
      missing += (missing.empty() ? "" : ", ") + s.name;
    } else if (!at->second.pristine) {
      taken = s.name;
    }
  }
  if (taken.empty() && missing.empty()) {
    if (auto begun = begin(0); !begun) complain("begin", LogLevel::kError, "cluster_not_begun", {{"reason", begun.error().text()}});
    return;
  }
  if (seek_logged >= Duration(0) && mono() - seek_logged < seconds(30)) return;
  seek_logged = mono();
  if (!taken.empty()) {
    ports.log(LogLevel::kInfo, "waiting_to_join",
              {{"of", taken}, {"hint", "a cluster exists: bourse master add " + log.name + " " + options.address}});
  } else {
    ports.log(LogLevel::kInfo, "waiting_for_masters", {{"missing", missing}, {"then", "a new cluster begins when all are there"}});
  }
}

Result<> Raft::Impl::begin(std::uint64_t index) {
  RaftLog next = log;
  next.cluster = ports.random() | 1;
  next.term = 1;
  next.vote = 0;
  next.snapshot = {std::max<std::uint64_t>(index, 1), 1, std::max<std::uint64_t>(index, 1), {}, machine.snapshot()};
  next.snapshot.configuration = {{raft_id_of(log.name), log.name, options.address, RAFT_VOTER}};
  next.first = next.snapshot.index + 1;
  BOURSE_TRY(ports.compact(next.whole()));
  log = std::move(next);
  ports.log(LogLevel::kInfo, "cluster_begun", {{"master", log.name}, {"index", std::to_string(log.snapshot.index)}});
  if (running) restart(Duration(0));
  return {};
}

Result<> Raft::Impl::start(const std::string& snapshot, const std::vector<std::string>& records) {
  std::uint64_t adopted = 0;
  const bool old = RaftLog::takes_over(snapshot, records);
  if (old) {
    adopted = BOURSE_TRY(machine.adopt(snapshot, records));
  } else {
    BOURSE_TRY(log.load(snapshot, records));
  }
  const bool fresh = log.name.empty();
  if (fresh) log.name = options.name.empty() ? options.default_name : options.name;
  if (!options.name.empty() && options.name != log.name)
    return Error(Code::kInvalid, "master.id is " + options.name + ", but the state directory is that of master " + log.name);
  for (const RaftServer& s : options.peers) {
    if (s.name == log.name) continue;
    peer_of(s.name).server.address = s.address;
  }
  if (old || (log.cluster == 0 && options.peers.empty())) {
    BOURSE_TRY(begin(adopted));
    if (old) ports.log(LogLevel::kInfo, "registry_taken_over", {{"records_so_far", std::to_string(adopted)}});
  } else if (fresh) {
    BOURSE_TRY(ports.compact(log.whole()));
  } else if (options.recover && !log.pristine()) {
    BOURSE_TRY(recover());
  } else if (sole_voter()) {
    BOURSE_TRY(ports.write_through(RaftLog::term_record(log.term + 1, 0)));
    ++log.term;
    log.vote = 0;
  }
  // What the process before had written libraft will take for stored. It may have ended because it could not be flushed, and a flush
  // that follows says nothing about that: only what is written anew is known to be there.
  if (!log.pristine() && !hooks::mutant("raft.starts_unflushed")) BOURSE_TRY(ports.compact(log.whole()));
  Result<> opened;
  enter([&] {
    opened = open();
    arm();
  });
  return opened;
}

// A configuration of ours alone behind all that is there, in a term of its own.
Result<> Raft::Impl::recover() {
  raft_configuration alone{};
  fill_configuration({{raft_id_of(log.name), log.name, options.address, RAFT_VOTER}}, alone);
  raft_buffer bytes{};
  const int rc = raft_configuration_encode(&alone, &bytes);
  raft_configuration_close(&alone);
  if (rc != 0) return Error(Code::kIo, "libraft: " + text_of(rc));
  RaftEntry entry{log.term + 1, RAFT_CHANGE, std::string(view(bytes))};
  raft_free(bytes.base);
  BOURSE_TRY(ports.write({RaftLog::entry_record(log.last() + 1, entry)}));
  BOURSE_TRY(ports.write_through(RaftLog::term_record(log.term + 1, 0)));
  ++log.term;
  log.vote = 0;
  log.append(log.last() + 1, std::move(entry));
  ports.log(LogLevel::kWarn, "recovered_alone",
            {{"index", std::to_string(log.last())}, {"hint", "the other masters must not come back with their old state"}});
  return {};
}

bool Raft::Impl::sole_voter() const {
  const std::vector<RaftServer> servers = configuration_at(log, log.last()).servers;
  return std::all_of(servers.begin(), servers.end(),
                     [&](const RaftServer& s) { return (s.role == RAFT_VOTER) == (s.name == log.name); }) &&
         !servers.empty();
}

// --- members -----------------------------------------------------------------------------------------------------------

bool Raft::Impl::own_entry_committed() const {
  const RaftEntry* entry = log.at(r.commit_index);
  return entry != nullptr ? entry->term == r.current_term
                          : log.snapshot.index == r.commit_index && log.snapshot.term == r.current_term;
}

void Raft::Impl::begin_change(const ChangeMember& member, bool internal) {
  const auto refuse = [&](Code code, const std::string& reason) { tell(MemberChanged{member.tag, code, reason}); };
  if (change) return refuse(Code::kBusy, "another change of the masters is under way (" + change->member.name + ")");
  if (!leading || !own_entry_committed()) return refuse(Code::kBusy, "this master does not lead");
  const auto at = std::find_if(known.begin(), known.end(), [&](const RaftServer& s) { return s.name == member.name; });
  if (member.add && at != known.end() && at->role == RAFT_VOTER) return refuse(Code::kExists, member.name + " is a master already");
  if (member.add && known.size() >= kRaftServersMax)
    return refuse(Code::kLimit, "a cluster has at most " + std::to_string(kRaftServersMax) + " masters");
  if (member.add && options.address.empty())
    return refuse(Code::kInvalid, "this master cannot be reached by others: set master.raft and restart it");
  if (!member.add && at == known.end()) return refuse(Code::kNotFound, "there is no master " + member.name);
  if (!member.add && at->role == RAFT_VOTER &&
      std::count_if(known.begin(), known.end(), [](const RaftServer& s) { return s.role == RAFT_VOTER; }) == 1)
    return refuse(Code::kInvalid, "the last master cannot be removed");
  if (!member.add && member.name == log.name) {     // it would lead a cluster that it is no part of
    after(kAnswerWithin, [this] { hand_over(); });  // who has handed over cannot say so
    return refuse(Code::kBusy, member.name + " leads; another takes over now: ask again");
  }
  change = std::make_unique<Change>();
  change->member = member;
  change->internal = internal;
  change->deadline = mono() + kMemberWithin;
  change->impl = this;
  if (!member.add) return ask_change();
  Peer& peer = peer_of(member.name);
  peer.server.address = member.raft;
  if (peer.heard >= Duration(0) && mono() - peer.heard < kHeardWithin) return ask_change();
  peer.sequence = ++pings;
  peer.pinged = mono();
  ports.send(peer.server,
             encode_ping(header(peer.server.name), {peer.sequence, false, ports.now().wall, log.cluster == 0, options.endpoint}));
  arm();
}

void Raft::Impl::ask_change() {
  change->asked = true;
  change->request.data = change.get();
  const raft_id id = raft_id_of(change->member.name);
  int rc = 0;
  changing = true;
  if (!change->member.add) {
    rc = raft_remove(&r, &change->request, id, change_over);
  } else if (member(change->member.name)) {
    rc = raft_assign(&r, &change->request, id, RAFT_VOTER, change_over);
  } else {
    const std::string text = raft_text_of({0, change->member.name, change->member.raft, 0});
    rc = raft_add(&r, &change->request, id, text.c_str(), [](raft_change* request, int status) {
      auto* over = static_cast<Change*>(request->data);
      Impl& im = *over->impl;
      im.later.push_back([&im, over, status] {
        if (im.change.get() != over) return im.forget_change(over);
        over->asked = false;
        if (status != 0) return im.end_change(Code::kGone, text_of(status));
        im.look();  // it is a member now
        if (im.change.get() == over) im.ask_change();
      });
    });
  }
  changing = false;
  if (rc != 0) {
    change->asked = false;
    end_change(Code::kBusy, "libraft: " + text_of(rc));
  }
}

void Raft::Impl::change_over(raft_change* request, int status) {
  auto* over = static_cast<Change*>(request->data);
  Impl& im = *over->impl;
  im.later.push_back([&im, over, status] {
    if (im.change.get() != over) return im.forget_change(over);
    over->asked = false;
    if (status == 0) return im.end_change(Code::kOk, "");
    im.end_change(status == RAFT_NOCONNECTION ? Code::kTimeout : Code::kGone,
                  status == RAFT_NOCONNECTION
                      ? over->member.name + " does not catch up; it stays without a vote until it is added again"
                      : text_of(status));
  });
}

void Raft::Impl::forget_change(const Change* over) {
  std::erase_if(changes_over, [over](const std::unique_ptr<Change>& each) { return each.get() == over; });
}

void Raft::Impl::end_change(Code code, const std::string& reason) {
  std::unique_ptr<Change> over = std::move(change);
  if (over->internal) {
    if (code == Code::kOk) ports.log(LogLevel::kInfo, "master_added", {{"name", over->member.name}, {"raft", over->member.raft}});
    if (code != Code::kOk)
      complain("add " + over->member.name, LogLevel::kWarn, "master_not_added",
               {{"name", over->member.name}, {"reason", reason}, {"then", "retrying"}});
  } else {
    tell(MemberChanged{over->member.tag, code, reason});
  }
  if (over->asked) changes_over.push_back(std::move(over));  // libraft may still call back
}

void Raft::Impl::hand_over() {
  if (!leading || transfer != nullptr || lame) return;
  std::vector<Duration> offsets{Duration(0)};
  for (const auto& [name, peer] : peers)
    if (const auto best = peer.clock.best(); best && voter(name)) offsets.push_back(best->offset);
  const Duration middle = median(offsets);
  const Peer* to = nullptr;
  Duration least{0};
  for (const auto& [name, peer] : peers) {
    if (!voter(name) || peer.heard < Duration(0) || mono() - peer.heard > kHeardWithin) continue;
    const auto best = peer.clock.best();
    const Duration off = best ? std::chrono::abs(best->offset - middle) : seconds(1);
    if (to == nullptr || off < least) to = &peer, least = off;
  }
  if (to == nullptr) return;
  transfer = zeroed<struct raft_transfer>();
  transfer->data = this;
  const int rc = raft_transfer(&r, transfer, to->server.id, [](struct raft_transfer* request) {
    auto* im = static_cast<Impl*>(request->data);
    im->later.push_back([im, request] {
      raft_free(request);
      if (im->transfer == request) im->transfer = nullptr;
    });
  });
  if (rc != 0) {
    raft_free(transfer);
    transfer = nullptr;
    return;
  }
  ports.log(LogLevel::kInfo, "leadership_handed_over", {{"to", to->server.name}});
}

}  // namespace bourse
