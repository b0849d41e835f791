#include "master/raft_world.h"

#include <sys/random.h>

#include <utility>

namespace bourse {

RaftWorld::RaftWorld(Reactor& reactor, Context& context, LogFile& log, Settings settings)
    : reactor_(reactor), context_(context), log_(log), settings_(std::move(settings)) {}

RaftWorld::~RaftWorld() {
  *alive_ = false;
  raft_.reset();
}

Result<> RaftWorld::listen() {
  if (!settings_.listen.empty()) {
    SocketLimits limits;
    limits.message_bytes_max = kMessageMax;
    limits.peers_max = kLinksMax;
    listener_ = std::make_unique<Listener>(context_, reactor_, limits);
    BOURSE_TRY(listener_->bind(settings_.listen, settings_.keys, /*allow_plain=*/true));
    listener_->on_frame([this](const Frame& frame) {
      if (settings_.keys != nullptr && !frame.identity.starts_with("master:")) return;
      if (raft_ != nullptr) raft_->received(frame.bytes);
    });
    if (settings_.raft.address.empty()) settings_.raft.address = endpoint_for_others(listener_->endpoint(), "");
    if (settings_.raft.address.empty())
      return Error(Code::kInvalid, "master.raft " + settings_.listen +
                                       " is every address of this host; name it in master.peers as NAME=tcp://HOST:PORT, too");
  }
  raft_ = std::make_unique<Raft>(settings_.raft, *this, machine_);
  return {};
}

Result<> RaftWorld::begin(Driver& driver, LogFile::Content content) {
  driver_ = &driver;
  return raft_->start(content.snapshot, content.records);
}

Time RaftWorld::now() { return real_time(); }

std::uint64_t RaftWorld::random() {
  std::uint64_t value = 0;
  BOURSE_ASSERT(getrandom(&value, sizeof value, 0) == sizeof value, "no randomness");
  return value;
}

Result<> RaftWorld::write(const std::vector<std::string>& records) { return log_.append_now(Safety::kProcess, records); }

void RaftWorld::flush(std::function<void()> done) {
  log_.append(reactor_, Safety::kPower, {}, [this, alive = alive_, done = std::move(done)](const Result<>& result) {
    if (!*alive) return;
    if (result) return done();
    fatal(result.error().text());
  });
}

Result<> RaftWorld::write_through(const std::string& record) {
  auto done = log_.append_now(Safety::kPower, {record});
  return done;
}

Result<> RaftWorld::compact(const std::string& snapshot) { return log_.compact(snapshot); }
Result<> RaftWorld::sync() { return log_.append_now(Safety::kPower, {}); }

void RaftWorld::fatal(const std::string& why) {
  if (!failure_.empty()) return;
  failure_ = why;
  log_event(LogLevel::kError, "registry_broken",
            {{"reason", why}, {"then", "ending, so that nothing is acknowledged that may be lost"}});
  reactor_.stop();
}

void RaftWorld::send(const RaftServer& to, std::string bytes) {
  auto at = links_.find(to.address);
  if (at == links_.end()) {
    if (links_.size() >= kLinksMax) {  // whoever has not been spoken to for longest
      auto oldest = links_.begin();
      for (auto it = links_.begin(); it != links_.end(); ++it)
        if (it->second.used < oldest->second.used) oldest = it;
      links_.erase(oldest);
    }
    SocketLimits limits;
    limits.message_bytes_max = kMessageMax;
    limits.high_water_mark = 1'000;
    auto connection = std::make_unique<Connection>(context_, reactor_, limits);
    const auto connected =
        connection->connect(to.address, settings_.keys, settings_.keys == nullptr ? "" : settings_.keys->public_key);
    if (!connected) {
      log_event(LogLevel::kWarn, "master_unreachable",
                {{"name", to.name}, {"address", to.address}, {"reason", connected.error().text()}, {"then", "retrying"}});
    }
    at = links_.emplace(to.address, Link{std::move(connection), {}}).first;
  }
  at->second.used = real_time().mono;
  at->second.connection->send(std::move(bytes));
}

void RaftWorld::after(Duration delay, std::function<void()> call) {
  reactor_.after(delay, [alive = alive_, call = std::move(call)] {
    if (*alive) call();
  });
}

void RaftWorld::post(Event event) { driver_->post(std::move(event)); }

void RaftWorld::log(LogLevel level, std::string_view event, LogFields fields) { log_event(level, event, fields); }

// --- texts -----------------------------------------------------------------------------------------------------------

Result<RaftServer> parse_peer(const std::string& text) {
  const std::size_t equals = text.find('=');
  RaftServer server;
  if (equals != std::string::npos) {
    server.name = text.substr(0, equals);
    server.address = text.substr(equals + 1);
  }
  const std::size_t colon = server.address.rfind(':');
  if (!valid_name(server.name) || !server.address.starts_with("tcp://") || colon <= 5 || colon + 1 == server.address.size() ||
      server.address.find_first_of(" *") != std::string::npos)
    return Error(Code::kInvalid, "master.peers: '" + text + "' is not NAME=tcp://HOST:PORT");
  server.id = raft_id_of(server.name);
  return server;
}

std::string endpoint_for_others(const std::string& listen, const std::string& reachable) {
  if (!listen.starts_with("tcp://")) return listen;
  const std::size_t colon = listen.rfind(':');
  const std::string host = listen.substr(6, colon - 6);
  if (host != "*" && host != "0.0.0.0" && host != "[::]" && host != "::") return listen;
  if (!reachable.starts_with("tcp://")) return {};
  return reachable.substr(0, reachable.rfind(':')) + listen.substr(colon);
}

}  // namespace bourse
