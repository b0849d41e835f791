// libraft's view of files and messages, and its life.

#include "common/core/hooks.h"
#include "common/core/units.h"
#include "master/raft_impl.h"

namespace bourse {

// --- the libraft instance ----------------------------------------------------------------------------------------------

void Raft::Impl::wire_io() {
  io = {};
  io.version = 1;
  io.impl = this;
  io.init = [](raft_io*, raft_id, const char*) { return 0; };
  io.close = [](raft_io* i, raft_io_close_cb done) { of(i).close(done); };
  io.load = [](raft_io* i, raft_term* term, raft_id* vote, raft_snapshot** snapshot, raft_index* start, raft_entry** entries,
               size_t* n) { return of(i).load(term, vote, snapshot, start, entries, n); };
  io.start = [](raft_io* i, unsigned, raft_io_tick_cb tick_cb, raft_io_recv_cb recv_cb) {
    of(i).on_tick = tick_cb;
    of(i).on_recv = recv_cb;
    return 0;
  };
  io.bootstrap = [](raft_io*, const raft_configuration*) { return RAFT_INVALID; };  // begin() does it
  io.recover = [](raft_io*, const raft_configuration*) { return RAFT_INVALID; };
  io.set_term = [](raft_io* i, raft_term term) { return of(i).vote(term, 0); };
  io.set_vote = [](raft_io* i, raft_id id) { return of(i).vote(of(i).log.term, id); };
  io.send = [](raft_io* i, raft_io_send* request, const raft_message* message, raft_io_send_cb done) {
    return of(i).send(request, *message, done);
  };
  io.append = [](raft_io* i, raft_io_append* request, const raft_entry* entries, unsigned n, raft_io_append_cb done) {
    return of(i).append(request, entries, n, done);
  };
  io.truncate = [](raft_io* i, raft_index from) { return of(i).cut(from) ? 0 : RAFT_IOERR; };
  io.snapshot_put = [](raft_io* i, unsigned trailing, raft_io_snapshot_put* request, const raft_snapshot* snapshot,
                       raft_io_snapshot_put_cb done) { return of(i).put(trailing, request, *snapshot, done); };
  io.snapshot_get = [](raft_io* i, raft_io_snapshot_get* request, raft_io_snapshot_get_cb done) {
    return of(i).get(request, done);
  };
  io.time = [](raft_io* i) { return static_cast<raft_time>(of(i).mono().count() / 1000); };
  // Between the timeout and half as much more, where libraft allows twice: two candidates at once are rare enough with three.
  io.random = [](raft_io* i, int min, int max) {
    const std::uint64_t span = static_cast<std::uint64_t>(max - min) / 2 + 1;
    return min + static_cast<int>(of(i).ports.random() % span);
  };
  fsm = {};
  fsm.version = 1;
  fsm.data = this;
  fsm.apply = [](raft_fsm* f, const raft_buffer* buffer, void** result) {
    *result = nullptr;
    return of(f).applied(view(*buffer));
  };
  fsm.snapshot = [](raft_fsm* f, raft_buffer** bufs, unsigned* n) {
    *bufs = static_cast<raft_buffer*>(raft_malloc(sizeof(raft_buffer)));
    BOURSE_ASSERT(*bufs != nullptr, "out of memory");
    **bufs = copied(of(f).machine.snapshot());
    *n = 1;
    return 0;
  };
  fsm.restore = [](raft_fsm* f, raft_buffer* buffer) { return of(f).restored(buffer); };
}

Result<> Raft::Impl::open() {
  ++life;
  r = {};
  wire_io();
  address_text = raft_text_of({0, log.name, options.address, 0});
  if (const int rc = raft_init(&r, &io, &fsm, raft_id_of(log.name), address_text.c_str()); rc != 0)
    return Error(Code::kIo, "libraft: " + text_of(rc));
  raft_set_pre_vote(&r, true);
  raft_set_election_timeout(&r, election_ms());
  raft_set_heartbeat_timeout(&r, heartbeat_ms());
  raft_set_snapshot_threshold(&r, static_cast<unsigned>(options.snapshot_every));
  raft_set_snapshot_trailing(&r, static_cast<unsigned>(options.trailing));
  raft_set_install_snapshot_timeout(&r, static_cast<unsigned>(kSnapshotWithin.count() / 1000));
  raft_set_max_catch_up_round_duration(&r, static_cast<unsigned>((kMemberWithin - seconds(1)).count() / 1000));
  promised = std::max(promised, election());
  if (!log.pristine()) mute_until = mono() + promised;
  yielded_term = verified = 0;
  lame = false;
  logged_stale = true;
  running = true;
  closed = false;
  stored_term = log.entries.empty() ? log.snapshot.term : log.entries.back().term;
  if (const int rc = raft_start(&r); rc != 0) {
    const std::string why = *raft_errmsg(&r) != 0 ? raft_errmsg(&r) : text_of(rc);
    shut();
    return Error(Code::kIo, "libraft: " + why);
  }
  return {};
}

void Raft::Impl::shut() {
  if (!running) return;
  if (leading) step_down();
  raft_close(&r, [](raft* instance) { static_cast<Impl*>(instance->io->impl)->closed = true; });
  BOURSE_ASSERT(closed, "libraft did not close");
  running = false;
  ++life;
  held.clear();
}

void Raft::Impl::close(raft_io_close_cb done) {
  for (const auto& [request, callback] : std::exchange(appends, {})) callback(request, 0);  // its state is: not available
  while (!later.empty()) {
    const auto call = std::move(later.front());
    later.pop_front();
    call();
  }
  done(&io);
}

void Raft::Impl::restart(Duration in) {
  if (restarting) return;
  restarting = true;
  if (in == Duration(0)) return reopen();
  after(in, [this] { reopen(); });
}

// What libraft reads it takes for stored.
void Raft::Impl::reopen() {
  shut();
  restarting = false;
  if (auto synced = ports.sync(); !synced) return fatal(synced.error().text());
  if (auto opened = open(); !opened) {
    complain("open", LogLevel::kError, "raft_start_failed", {{"reason", opened.error().text()}, {"then", "retrying"}});
    restart(kRestartAfter);
  }
  arm();
}

bool Raft::Impl::group_differs() {
  if (!running || restarting || lame || !appends.empty() || !later.empty()) return false;
  if (logged_stale) logged = configuration_at(log, log.last()).servers;
  logged_stale = false;
  return servers_of(r.configuration) != logged && !hooks::mutant("raft.old_group");
}

// --- raft_io: files ----------------------------------------------------------------------------------------------------

int Raft::Impl::load(raft_term* term, raft_id* vote_of, raft_snapshot** snapshot, raft_index* start, raft_entry** entries,
                     size_t* n) {
  *term = log.term;
  *vote_of = log.vote;
  *snapshot = nullptr;
  *entries = nullptr;
  *n = log.entries.size();
  *start = log.first;
  if (log.snapshot.index != 0) *snapshot = copy_of_snapshot();
  if (log.entries.empty()) return 0;
  std::size_t bytes = 0;
  for (const RaftEntry& e : log.entries) bytes += e.data.size();
  char* batch = static_cast<char*>(raft_malloc(bytes + 1));
  *entries = static_cast<raft_entry*>(raft_malloc(log.entries.size() * sizeof(raft_entry)));
  BOURSE_ASSERT(batch != nullptr && *entries != nullptr, "out of memory");
  char* at = batch;
  raft_entry* out = *entries;
  for (const RaftEntry& e : log.entries) {
    std::memcpy(at, e.data.data(), e.data.size());
    *out++ = {e.term, e.type, {at, e.data.size()}, batch};
    at += e.data.size();
  }
  return 0;
}

raft_snapshot* Raft::Impl::copy_of_snapshot() {
  auto* out = zeroed<raft_snapshot>();
  out->index = log.snapshot.index;
  out->term = log.snapshot.term;
  out->configuration_index = log.snapshot.configuration_index;
  fill_configuration(log.snapshot.configuration, out->configuration);
  out->bufs = zeroed<raft_buffer>();
  *out->bufs = copied(log.snapshot.data);
  out->n_bufs = 1;
  return out;
}

// Refused in the midst of an election that another leader has asked for, libraft frees what it never had.
int Raft::Impl::vote(std::uint64_t term, std::uint64_t id) {
  if (lame) return 0;
  if (!hooks::mutant("raft.vote_not_stored")) {
    if (auto written = ports.write_through(RaftLog::term_record(term, id)); !written) {
      lame = true;
      static_cast<void>(refused_write(written.error()));
      return 0;
    }
  }
  hooks::crash_point("raft.after_vote");
  log.term = term;
  log.vote = id;
  return 0;
}

int Raft::Impl::refused_write(const Error& error) {
  disk_refuses = true;
  complain("write", LogLevel::kError, "registry_write_failed",
           {{"reason", error.text()}, {"hint", "free space on the registry's file system; retrying"}});
  return RAFT_IOERR;
}

int Raft::Impl::append(raft_io_append* request, const raft_entry* entries, unsigned n, raft_io_append_cb done) {
  if (lame) {
    appends.emplace_back(request, done);  // answered by close()
    return 0;
  }
  std::vector<RaftEntry> list;
  std::vector<std::string> records;
  std::uint64_t index = log.last();
  for (unsigned i = 0; i < n; ++i) {
    list.push_back({entries[i].term, static_cast<std::uint8_t>(entries[i].type), std::string(view(entries[i].buf))});
    records.push_back(RaftLog::entry_record(++index, list.back()));
  }
  // Refused before anybody hears of the entries: libraft sends them to the others only after this.
  if (auto written = ports.write(records); !written) {
    const int refused = refused_write(written.error());
    if (!changing || hooks::mutant("raft.refuses_changes")) return refused;
    lame = true;  // libraft would free the configuration that it goes on using
    appends.emplace_back(request, done);
    return 0;
  }
  disk_refuses = false;
  const std::uint64_t term = list.empty() ? 0 : list.back().term;
  for (RaftEntry& entry : list) {
    logged_stale = logged_stale || entry.type == RAFT_CHANGE;
    log.append(log.last() + 1, std::move(entry));
  }
  appends.emplace_back(request, done);
  if (hooks::mutant("raft.no_flush")) {
    later.push_back([this, term] { flushed(term); });
    return 0;
  }
  ports.flush([weak = self, term, begun = life] {
    if (*weak == nullptr || (*weak)->life != begun || (*weak)->ended) return;
    (*weak)->enter([&] { (*weak)->flushed(term); });
  });
  return 0;
}

void Raft::Impl::flushed(std::uint64_t term) {
  hooks::crash_point("raft.after_flush");
  if (appends.empty()) return;
  const auto [request, done] = appends.front();
  appends.pop_front();
  stored_term = std::max(stored_term, term);
  done(request, 0);
}

bool Raft::Impl::cut(std::uint64_t from) {
  if (lame) return true;
  logged_stale = true;
  if (auto written = ports.write({RaftLog::cut_record(from)}); !written) {
    refused_write(written.error());
    return false;
  }
  log.cut(from);
  return true;
}

int Raft::Impl::put(unsigned trailing, raft_io_snapshot_put* request, const raft_snapshot& snapshot, raft_io_snapshot_put_cb done) {
  if (lame) {
    later.push_back([request, done] { done(request, RAFT_IOERR); });
    return 0;
  }
  RaftLog next = log;
  RaftSnapshot taken;
  taken.index = snapshot.index;
  taken.term = snapshot.term;
  taken.configuration_index = snapshot.configuration_index;
  taken.configuration = servers_of(snapshot.configuration);
  for (unsigned i = 0; i < snapshot.n_bufs; ++i) taken.data += view(snapshot.bufs[i]);
  if (trailing != 0) {  // of its own, libraft takes the group in force, which may not be committed
    RaftConfigurationAt group = configuration_at(log, snapshot.index);
    taken.configuration_index = group.index;
    taken.configuration = std::move(group.servers);
  }
  next.snapshot_taken(std::move(taken), trailing);
  const auto written = ports.compact(next.whole());
  if (!written) {
    refused_write(written.error());
    if (trailing == 0) return RAFT_IOERR;
  } else {
    log = std::move(next);
    logged_stale = true;
  }
  later.push_back([request, done, rc = written ? 0 : RAFT_IOERR] { done(request, rc); });
  return 0;
}

int Raft::Impl::get(raft_io_snapshot_get* request, raft_io_snapshot_get_cb done) {
  later.push_back([this, request, done] { done(request, copy_of_snapshot(), 0); });
  return 0;
}

// --- raft_io: messages -------------------------------------------------------------------------------------------------

RaftHeader Raft::Impl::header(const std::string& to) const {
  const auto peer = peers.find(to);
  return {log.cluster,
          log.name,
          options.address,
          static_cast<std::uint64_t>(mono().count()),
          peer == peers.end() ? 0 : peer->second.stamp,
          static_cast<std::uint64_t>(std::min(promised, election()).count())};
}

// libraft answers with the end of its log, though that may be left from another leader, and the leader takes it for its own.
raft_message Raft::Impl::honest(const raft_message& message) const {
  raft_message out = message;
  if (message.type == RAFT_IO_APPEND_ENTRIES_RESULT && message.append_entries_result.rejected == 0 &&
      !hooks::mutant("raft.answers_unverified")) {
    raft_index& last = out.append_entries_result.last_log_index;
    last = std::min<raft_index>(last, verified_term == message.append_entries_result.term ? verified : 0);
  }
  return out;
}

void Raft::Impl::verify(const raft_message& message) {
  const auto up_to = [this](std::uint64_t term, std::uint64_t index) {
    if (term != verified_term) verified = 0;
    verified_term = term;
    verified = std::max(verified, index);
  };
  if (message.type == RAFT_IO_INSTALL_SNAPSHOT && message.install_snapshot.term >= r.current_term)
    up_to(message.install_snapshot.term, message.install_snapshot.last_index);
  if (message.type != RAFT_IO_APPEND_ENTRIES || message.append_entries.term < r.current_term) return;
  const raft_append_entries& m = message.append_entries;
  const RaftEntry* before = log.at(m.prev_log_index);
  const bool same = m.prev_log_index == 0 || (before != nullptr && before->term == m.prev_log_term) ||
                    (before == nullptr && m.prev_log_index == log.snapshot.index && m.prev_log_term == log.snapshot.term);
  up_to(m.term, same ? m.prev_log_index + m.n_entries : 0);
}

int Raft::Impl::send(raft_io_send* request, const raft_message& message, raft_io_send_cb done) {
  // Null: libraft found no server for the id of a configuration that was taken back; there is nobody to send to.
  RaftServer to = raft_server_of(message.server_address != nullptr ? message.server_address : "", 0);
  to.id = message.server_id;
  const auto known_peer = peers.find(to.name);
  if (known_peer != peers.end() && !known_peer->second.server.address.empty()) to.address = known_peer->second.server.address;
  if (message.type == RAFT_IO_TIMEOUT_NOW) yields();
  if (!to.address.empty() && !lame) ports.send(to, encode_raft(header(to.name), honest(message)));
  if (done != nullptr) later.push_back([request, done] { done(request, 0); });
  return 0;
}

// What is asked for cannot be taken back: it may arrive late. Where nobody takes over, libraft follows when it begins anew.
void Raft::Impl::yields() {
  yielded_term = r.current_term;
  after(election() / 4, [this, term = r.current_term] {
    if (running && !restarting && raft_state(&r) == RAFT_LEADER && r.current_term == term) restart(Duration(0));
  });
}

void Raft::Impl::received(std::string_view bytes) {
  auto decoded = decode_raft(bytes);
  if (!decoded) {
    complain("decode", LogLevel::kWarn, "peer_message_refused", {{"reason", decoded.error().text()}});
    return;
  }
  RaftEnvelope& envelope = *decoded;
  if (envelope.name == log.name) {
    complain(envelope.name, LogLevel::kError, "master_name_twice",
             {{"name", envelope.name}, {"address", envelope.address}, {"hint", "every master needs a master.id of its own"}});
    return;
  }
  if (const auto* ping = std::get_if<RaftPing>(&envelope.body)) return pinged(envelope, *ping);
  RaftMessage& message = std::get<RaftMessage>(envelope.body);
  if (envelope.cluster == 0) return;
  if (log.cluster == 0) {
    // The leader of a cluster that this master is to join; from now on it belongs there.
    const bool leader = message.value.type == RAFT_IO_APPEND_ENTRIES || message.value.type == RAFT_IO_INSTALL_SNAPSHOT;
    if (!leader || !ports.write_through(RaftLog::cluster_record(envelope.cluster))) return;
    log.cluster = envelope.cluster;
    ports.log(LogLevel::kInfo, "cluster_joined", {{"of", envelope.name}, {"address", envelope.address}});
  }
  if (envelope.cluster != log.cluster) {
    complain("cluster " + envelope.name, LogLevel::kError, "master_of_another_cluster",
             {{"name", envelope.name}, {"address", envelope.address}, {"then", "ignoring it"}});
    return;
  }
  if (!running || lame) return;
  Peer& peer = peer_of(envelope.name);
  if (!envelope.address.empty()) peer.server.address = envelope.address;
  answered(peer, envelope, message.value);
  const bool leader = (message.value.type == RAFT_IO_APPEND_ENTRIES && message.value.append_entries.term >= r.current_term) ||
                      (message.value.type == RAFT_IO_INSTALL_SNAPSHOT && message.value.install_snapshot.term >= r.current_term);
  deliver(raft_text_of({0, envelope.name, envelope.address, 0}), leader ? envelope.stamp : 0, std::move(message));
}

void Raft::Impl::answered(Peer& peer, const RaftHeader& from, const raft_message& message) {
  if (message.type != RAFT_IO_APPEND_ENTRIES_RESULT || raft_state(&r) != RAFT_LEADER) return;
  if (message.append_entries_result.term != r.current_term || from.echo > static_cast<std::uint64_t>(mono().count())) return;
  peer.contact = std::max(peer.contact, Duration(static_cast<std::int64_t>(from.echo)));
  peer.promise = Duration(static_cast<std::int64_t>(std::min<std::uint64_t>(from.promise, 1ULL << 50U)));
  count_lease();
}

bool Raft::Impl::vote_may_be_given(raft_request_vote& request) const {
  // A transfer goes from one term to the next. A candidate that does not win goes on in the name of who leads no more.
  request.disrupt_leader = request.disrupt_leader && request.term == log.term + 1;
  if (!request.disrupt_leader && mono() < mute_until && !hooks::mutant("raft.votes_at_once")) return false;
  // libraft gives its successor a second vote in a term.
  return request.pre_vote || request.term != log.term || log.vote == 0 || log.vote == request.candidate_id ||
         hooks::mutant("raft.votes_twice");
}

void Raft::Impl::deliver(const std::string& from, std::uint64_t stamp, RaftMessage message) {
  message.value.server_id = raft_id_of(raft_server_of(from, 0).name);
  const bool result = message.value.type == RAFT_IO_APPEND_ENTRIES_RESULT;
  if (result && raft_state(&r) == RAFT_LEADER && stored_term != r.current_term && !hooks::mutant("raft.commits_old_terms")) {
    if (held.size() < kHeldMax) held.push_back(std::move(message));  // a result has no memory but this, and no use for an address
    return;
  }
  if (message.value.type == RAFT_IO_REQUEST_VOTE && !vote_may_be_given(message.value.request_vote)) return;
  if (message.value.type == RAFT_IO_APPEND_ENTRIES && !make_way(message.value.append_entries)) return;
  verify(message.value);
  if (stamp != 0) peer_of(raft_server_of(from, 0).name).stamp = stamp;
  message.value.server_address = from.c_str();
  message.taken();
  if (message.value.type != RAFT_IO_REQUEST_VOTE) return on_recv(&io, &message.value);
  // Whoever asks may have made a voter of us and died before it said so. libraft has only those vote that know of it; the dissertation
  // (4.2.2) has every server vote, since the candidate counts those that it knows as voters.
  int* const role = own_role();
  if (role == nullptr || *role == RAFT_VOTER || hooks::mutant("raft.spare_never_votes")) return on_recv(&io, &message.value);
  // Nor does it ever forget a leader that is silent.
  if (raft_state(&r) == RAFT_FOLLOWER && io.time(&io) - r.election_timer_start >= r.follower_state.randomized_election_timeout)
    r.follower_state.current_leader.id = 0;
  const std::uint64_t here = life;
  const int before = std::exchange(*role, RAFT_VOTER);
  on_recv(&io, &message.value);
  if (running && life == here) *role = before;
}

int* Raft::Impl::own_role() {
  for (unsigned i = 0; i < r.configuration.n; ++i)
    if (r.configuration.servers[i].id == r.id) return &r.configuration.servers[i].role;
  return nullptr;
}

bool Raft::Impl::make_way(const raft_append_entries& m) {
  if (m.term < r.current_term) return true;
  for (unsigned i = 0; i < m.n_entries; ++i) {
    const std::uint64_t index = m.prev_log_index + 1 + i;
    const RaftEntry* ours = log.at(index);
    if (ours == nullptr) return true;
    if (ours->term == m.entries[i].term) continue;
    if (index <= r.commit_index) return true;  // libraft will have its say
    bool change_goes = false;
    for (std::uint64_t at = index; at <= log.last(); ++at) change_goes = change_goes || log.at(at)->type == RAFT_CHANGE;
    if (!change_goes || hooks::mutant("raft.keeps_void_change")) return true;
    if (!cut(index)) return false;
    restart(Duration(0));
    return running;
  }
  return true;
}

void Raft::Impl::release_held() {
  if (held.empty() || stored_term != r.current_term || raft_state(&r) != RAFT_LEADER) return;
  for (RaftMessage& message : std::exchange(held, {})) {
    message.value.server_address = "";
    message.taken();
    on_recv(&io, &message.value);
    if (!running) return;
  }
}

}  // namespace bourse
