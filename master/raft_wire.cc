#include "master/raft_wire.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/core/ids.h"

namespace bourse {

namespace {

constexpr std::uint8_t kVersion = 1, kPing = 100;

void* allocated(std::size_t size) {
  void* memory = raft_malloc(size == 0 ? 1 : size);
  BOURSE_ASSERT(memory != nullptr, "out of memory");
  return memory;
}

RaftWriter begun(const RaftHeader& header, std::uint8_t kind) {
  RaftWriter out;
  out.byte('R').byte(kVersion).byte(kind).number(header.cluster).text(header.name).text(header.address);
  out.number(header.stamp).number(header.echo);
  return out;
}

std::string_view view(const raft_buffer& buffer) { return {static_cast<const char*>(buffer.base), buffer.len}; }

void put(RaftWriter& out, const raft_append_entries& m) {
  out.number(m.term).number(m.prev_log_index).number(m.prev_log_term).number(m.leader_commit).number(m.n_entries);
  for (unsigned i = 0; i < m.n_entries; ++i) {
    const raft_entry& e = m.entries[i];
    out.number(e.term).byte(static_cast<std::uint8_t>(e.type)).text(view(e.buf));
  }
}

// All entries' data in one allocation, which libraft frees when the last of them has gone.
void get(RaftReader& in, raft_append_entries& m) {
  m.term = in.number();
  m.prev_log_index = in.number();
  m.prev_log_term = in.number();
  m.leader_commit = in.number();
  const std::uint64_t n = in.count(13);
  std::vector<RaftEntry> entries;
  std::size_t bytes = 0;
  for (std::uint64_t i = 0; i < n && !in.torn(); ++i) {
    RaftEntry& e = entries.emplace_back();
    e.term = in.number();
    e.type = in.byte();
    e.data = in.text();
    bytes += e.data.size();
  }
  m.entries = nullptr;
  m.n_entries = 0;
  if (in.torn() || entries.empty()) return;
  m.n_entries = static_cast<unsigned>(entries.size());
  m.entries = static_cast<raft_entry*>(allocated(entries.size() * sizeof(raft_entry)));
  char* batch = static_cast<char*>(allocated(bytes));
  char* at = batch;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    raft_entry& e = m.entries[i];
    e = {};
    e.term = entries[i].term;
    e.type = entries[i].type;
    std::memcpy(at, entries[i].data.data(), entries[i].data.size());
    e.buf.base = at;
    e.buf.len = entries[i].data.size();
    e.batch = batch;
    at += entries[i].data.size();
  }
}

void put(RaftWriter& out, const raft_append_entries_result& m) { out.number(m.term).number(m.rejected).number(m.last_log_index); }
void get(RaftReader& in, raft_append_entries_result& m) {
  m.term = in.number();
  m.rejected = in.number();
  m.last_log_index = in.number();
}

void put(RaftWriter& out, const raft_request_vote& m) {
  out.number(m.term).number(m.candidate_id).number(m.last_log_index).number(m.last_log_term);
  out.byte(static_cast<std::uint8_t>((m.disrupt_leader ? 1 : 0) | (m.pre_vote ? 2 : 0)));
}
void get(RaftReader& in, raft_request_vote& m) {
  m.term = in.number();
  m.candidate_id = in.number();
  m.last_log_index = in.number();
  m.last_log_term = in.number();
  const std::uint8_t flags = in.byte();
  m.disrupt_leader = (flags & 1) != 0;
  m.pre_vote = (flags & 2) != 0;
}

void put(RaftWriter& out, const raft_request_vote_result& m) {
  out.number(m.term).byte(m.vote_granted ? 1 : 0).byte(static_cast<std::uint8_t>(m.pre_vote));
}
void get(RaftReader& in, raft_request_vote_result& m) {
  m.term = in.number();
  m.vote_granted = in.byte() == 1;
  const std::uint8_t pre = in.byte();
  m.pre_vote = pre == raft_tribool_true ? raft_tribool_true : pre == raft_tribool_false ? raft_tribool_false : raft_tribool_unknown;
}

void put(RaftWriter& out, const raft_install_snapshot& m) {
  out.number(m.term).number(m.last_index).number(m.last_term).number(m.conf_index).servers(servers_of(m.conf)).text(view(m.data));
}
Result<> get(RaftReader& in, raft_install_snapshot& m) {
  m.term = in.number();
  m.last_index = in.number();
  m.last_term = in.number();
  m.conf_index = in.number();
  const std::vector<RaftServer> servers = in.servers();
  const std::string data = in.text();
  if (in.torn()) return {};
  if (servers.empty() || servers.size() > kRaftServersMax || m.last_index == 0 || m.last_term == 0)
    return Error(Code::kInvalid, "a snapshot without masters or index");
  fill_configuration(servers, m.conf);
  m.data.base = allocated(data.size());
  m.data.len = data.size();
  std::memcpy(m.data.base, data.data(), data.size());
  return {};
}

void put(RaftWriter& out, const raft_timeout_now& m) { out.number(m.term).number(m.last_log_index).number(m.last_log_term); }
void get(RaftReader& in, raft_timeout_now& m) {
  m.term = in.number();
  m.last_log_index = in.number();
  m.last_log_term = in.number();
}

}  // namespace

// --- memory ----------------------------------------------------------------------------------------------------------

RaftMessage::RaftMessage(RaftMessage&& other) noexcept : value(other.value), held_(std::exchange(other.held_, false)) {}
RaftMessage& RaftMessage::operator=(RaftMessage&& other) noexcept {
  std::swap(value, other.value);
  std::swap(held_, other.held_);
  return *this;
}
RaftMessage::~RaftMessage() {
  if (!held_) return;
  if (value.type == RAFT_IO_APPEND_ENTRIES && value.append_entries.entries != nullptr) {
    raft_free(value.append_entries.entries[0].batch);
    raft_free(value.append_entries.entries);
  }
  if (value.type == RAFT_IO_INSTALL_SNAPSHOT) {
    raft_configuration_close(&value.install_snapshot.conf);
    raft_free(value.install_snapshot.data.base);
  }
}

// --- messages --------------------------------------------------------------------------------------------------------

std::string encode_ping(const RaftHeader& header, const RaftPing& ping) {
  RaftWriter out = begun(header, kPing);
  out.number(ping.sequence).byte(static_cast<std::uint8_t>((ping.answer ? 1 : 0) | (ping.pristine ? 2 : 0)));
  out.number(static_cast<std::uint64_t>(ping.wall.count())).text(ping.endpoint);
  return out.take();
}

std::string encode_raft(const RaftHeader& header, const raft_message& raft) {
  RaftWriter out = begun(header, static_cast<std::uint8_t>(raft.type));
  switch (raft.type) {
    case RAFT_IO_APPEND_ENTRIES:
      put(out, raft.append_entries);
      break;
    case RAFT_IO_APPEND_ENTRIES_RESULT:
      put(out, raft.append_entries_result);
      break;
    case RAFT_IO_REQUEST_VOTE:
      put(out, raft.request_vote);
      break;
    case RAFT_IO_REQUEST_VOTE_RESULT:
      put(out, raft.request_vote_result);
      break;
    case RAFT_IO_INSTALL_SNAPSHOT:
      put(out, raft.install_snapshot);
      break;
    case RAFT_IO_TIMEOUT_NOW:
      put(out, raft.timeout_now);
      break;
    default:
      BOURSE_ASSERT(false, "libraft sends a message of type " + std::to_string(raft.type));
  }
  out.number(header.promise);
  return out.take();
}

Result<RaftEnvelope> decode_raft(std::string_view bytes) {
  RaftReader in(bytes);
  RaftEnvelope out;
  if (in.byte() != 'R') return Error(Code::kInvalid, "not a message of a master");
  if (const std::uint8_t version = in.byte(); version != kVersion)
    return Error(Code::kVersion, "a message between masters of version " + std::to_string(version));
  const std::uint8_t kind = in.byte();
  out.cluster = in.number();
  out.name = in.text();
  out.address = in.text();
  out.stamp = in.number();
  out.echo = in.number();
  if (in.torn() || !valid_name(out.name) || out.address.find(' ') != std::string::npos)
    return Error(Code::kInvalid, "a message of a master without a name");
  if (kind == kPing) {
    RaftPing ping;
    ping.sequence = in.number();
    const std::uint8_t flags = in.byte();
    ping.answer = (flags & 1) != 0;
    ping.pristine = (flags & 2) != 0;
    ping.wall = Duration(static_cast<std::int64_t>(in.number()));
    ping.endpoint = in.text();
    if (in.torn()) return Error(Code::kCorrupt, "a ping is cut short");
    out.body = std::move(ping);
    return out;
  }
  RaftMessage message;
  message.value.type = kind;
  switch (kind) {
    case RAFT_IO_APPEND_ENTRIES:
      get(in, message.value.append_entries);
      break;
    case RAFT_IO_APPEND_ENTRIES_RESULT:
      get(in, message.value.append_entries_result);
      break;
    case RAFT_IO_REQUEST_VOTE:
      get(in, message.value.request_vote);
      break;
    case RAFT_IO_REQUEST_VOTE_RESULT:
      get(in, message.value.request_vote_result);
      break;
    case RAFT_IO_INSTALL_SNAPSHOT:
      BOURSE_TRY(get(in, message.value.install_snapshot));
      break;
    case RAFT_IO_TIMEOUT_NOW:
      get(in, message.value.timeout_now);
      break;
    default:
      return Error(Code::kInvalid, "a message between masters of kind " + std::to_string(kind));
  }
  if (in.torn()) return Error(Code::kCorrupt, "a message between masters is cut short");
  message.hold();
  if (!in.empty()) out.promise = in.number();
  if (in.torn()) return Error(Code::kCorrupt, "a message between masters is cut short");
  out.body = std::move(message);
  return out;
}

// --- configurations --------------------------------------------------------------------------------------------------

std::string raft_text_of(const RaftServer& server) { return server.name + " " + server.address; }

RaftServer raft_server_of(const std::string& text, int role) {
  const std::size_t blank = text.find(' ');
  RaftServer server;
  server.name = text.substr(0, blank);
  if (blank != std::string::npos) server.address = text.substr(blank + 1);
  server.id = raft_id_of(server.name);
  server.role = role;
  return server;
}

void fill_configuration(const std::vector<RaftServer>& servers, raft_configuration& out) {
  raft_configuration_init(&out);
  for (const RaftServer& s : servers) {
    // Twice the same id or address: the first counts. Nobody but a damaged or hostile peer makes such a list.
    static_cast<void>(raft_configuration_add(&out, s.id, raft_text_of(s).c_str(), s.role));
  }
}

std::vector<RaftServer> servers_of(const raft_configuration& configuration) {
  std::vector<RaftServer> out;
  for (unsigned i = 0; i < configuration.n; ++i) {
    const raft_server& s = configuration.servers[i];
    out.push_back(raft_server_of(s.address != nullptr ? s.address : "", s.role));
    out.back().id = s.id;
  }
  return out;
}

Result<std::vector<RaftServer>> decode_configuration(std::string_view bytes) {
  RaftReader in(bytes);
  std::vector<RaftServer> out;
  const std::uint8_t format = in.byte();
  std::uint64_t n = in.number();
  if (format != 1 || n > kRaftServersMax) return Error(Code::kCorrupt, "a list of masters that cannot be read");
  for (; n > 0 && !in.torn(); --n) {
    const std::uint64_t id = in.number();
    std::string text;
    for (std::uint8_t c = in.byte(); c != 0; c = in.byte()) text.push_back(static_cast<char>(c));
    out.push_back(raft_server_of(text, in.byte()));
    out.back().id = id;
  }
  if (in.torn()) return Error(Code::kCorrupt, "a list of masters is cut short");
  return out;
}

RaftConfigurationAt configuration_at(const RaftLog& log, std::uint64_t index) {
  for (std::uint64_t at = std::min(index, log.last()); at >= log.first && at > 0; --at) {
    const RaftEntry* entry = log.at(at);
    if (entry == nullptr || entry->type != RAFT_CHANGE) continue;
    if (auto servers = decode_configuration(entry->data)) return {at, *std::move(servers)};
  }
  return {log.snapshot.configuration_index, log.snapshot.configuration};
}

std::string pack_records(const std::vector<std::string>& records) {
  RaftWriter out;
  out.number(records.size());
  for (const std::string& record : records) out.text(record);
  return out.take();
}

Result<std::vector<std::string>> unpack_records(std::string_view bytes) {
  RaftReader in(bytes);
  std::vector<std::string> out;
  for (std::uint64_t n = in.count(4); n > 0; --n) out.push_back(in.text());
  if (in.torn()) return Error(Code::kCorrupt, "an entry of the replicated log is cut short");
  return out;
}

}  // namespace bourse
