#include "master/front.h"

#include <unistd.h>

#include <utility>

#include "common/wire/wire.h"
#include "common/world/config_changes.h"
#include "common/world/log.h"
#include "master/settings.h"

namespace bourse {
namespace {

constexpr std::uint32_t kFramesPerSecond = 100'000;
constexpr std::int64_t kBytesPerSecond = 64LL * 1024 * 1024;

bool is_hello(const Message& message) {
  return std::holds_alternative<AgentHello>(message.body) || std::holds_alternative<FrameworkHello>(message.body) ||
         std::holds_alternative<ReaderHello>(message.body);
}

std::string place_of(const Frame& frame) {
  if (frame.uid >= 0) return "uid " + std::to_string(frame.uid) + ", pid " + std::to_string(frame.pid);
  return frame.address;
}

}  // namespace

SocketLimits MasterFront::limits() {
  SocketLimits limits;
  limits.frames_per_second = kFramesPerSecond;
  limits.bytes_per_second = kBytesPerSecond;
  return limits;
}

namespace {
// Masters know each other by the key that all of them hold.
Result<Keyring> keyring_of(const std::string& directory) {
  Keyring keyring = BOURSE_TRY(Keyring::read(directory));
  if (const std::string own = directory + "/master"; access(own.c_str(), F_OK) == 0)
    keyring.allow(BOURSE_TRY(read_public_key(own)), "master:master");
  return keyring;
}
}  // namespace

Result<std::optional<KeyPair>> MasterFront::read_keys() {
  const std::string directory = program_.keys_directory(program_.config());
  if (access((directory + "/master").c_str(), F_OK) != 0) return std::optional<KeyPair>();
  std::optional<KeyPair> keys = BOURSE_TRY(read_key_file(directory + "/master"));
  context_.set_keyring(BOURSE_TRY(keyring_of(directory)));
  directory_ = directory;
  return keys;
}

Result<std::unique_ptr<Readers>> MasterFront::open_readers(const std::string& beside, const std::optional<KeyPair>& keys,
                                                           Readers::Wanted wanted) {
  Readers::Options options;
  options.endpoint = program_.config().text("master", "readers");
  if (options.endpoint.empty())
    options.endpoint = beside.starts_with("tcp://") ? beside.substr(0, beside.rfind(':')) + ":*" : beside + ".readers";
  options.keys = keys;
  if (keys) options.keyring = BOURSE_TRY(keyring_of(directory_));
  options.heartbeat = program_.config().duration("master", "heartbeat");
  options.peer_timeout = program_.config().duration("master", "peer_timeout");
  auto readers = Readers::open(std::move(options), std::move(wanted));
  if (!readers) return std::move(readers).error().add("readers");
  return readers;
}

void MasterFront::serve(Listener& listener, Driver& driver, policy::Configured& policy, Readers& readers) {
  readers_ = &readers;
  listener_ = &listener;
  driver_ = &driver;
  policy_ = &policy;
  listener.on_frame([this](const Frame& frame) { on_frame(frame); });
  listener.on_lost([this](PeerId peer, const std::string& why) { driver_->post(PeerLost{peer, why}); });
}

void MasterFront::on_frame(const Frame& frame) {
  auto message = wire::decode(frame.bytes);
  if (message) {
    const bool hello = is_hello(*message);
    Received received{frame.peer, frame.identity, *std::move(message)};
    if (hello) received.from = place_of(frame), received.roles = frame.roles;
    driver_->post(std::move(received));
    return;
  }
  ++wire_errors_;
  const bool cut = listener_->strike(frame.peer);
  const Duration now = real_time().mono;
  if (complained_.size() >= kComplainersMax) complained_.clear();
  const auto [last, first] = complained_.emplace(frame.peer, now);
  if (!first && !cut && now - last->second < std::chrono::minutes(1)) return;
  last->second = now;
  log_event(LogLevel::kWarn, "frame_refused",
            {{"peer", std::to_string(frame.peer.value)},
             {"identity", frame.identity},
             {"from", place_of(frame)},
             {"bytes", std::to_string(frame.bytes.size())},
             {"errors_so_far", std::to_string(wire_errors_)},
             {"reason", message.error().text()},
             {"then", cut ? "it is not listened to for " + format_duration(kCutPause) : "ignoring it"}});
  if (message.error().code() != Code::kVersion || cut) return;
  Message refused;
  refused.body = Refused{Code::kVersion, message.error().text()};
  listener_->send(frame.peer, wire::encode(refused));
}

// The whole file, the policy and every key, before anything is changed.
Result<std::string> MasterFront::read_again() {
  Config config = BOURSE_TRY(program_.read_again());
  const policy::Choice choice = BOURSE_TRY(policy_->read(config));
  const std::string directory = program_.keys_directory(config);
  std::optional<Keyring> keyring;
  if (!directory_.empty()) keyring = BOURSE_TRY(keyring_of(directory));
  const ConfigChanges changes = config_changes(program_.config(), config, {"cluster", "master", "log"}, live_master_keys());
  if (keyring) {
    readers_->set_keyring(*keyring);
    context_.set_keyring(*std::move(keyring));
    listener_->recheck_keys();
    directory_ = directory;
  }
  MasterOptions options;
  take_config(config, options);
  driver_->post(Reload{live_text(options)});
  if (auto change = policy_->take(choice)) driver_->post(Reload{*std::move(change)});
  if (taken) taken(config);
  program_.take(std::move(config));
  log_changes(changes, program_.config_path());
  return to_text(changes, "bourse-master");
}

void MasterFront::reload(std::uint64_t tag) {
  const Result<std::string> done = read_again();
  if (done)
    log_event(LogLevel::kInfo, "reloaded", {{"keys", directory_}});
  else
    log_event(LogLevel::kError, "reload_refused", {{"reason", done.error().text()}, {"then", "going on as before"}});
  if (tag == 0) return;
  driver_->post(done ? ReloadDone{tag, Code::kOk, *done} : ReloadDone{tag, done.error().code(), done.error().text()});
}

}  // namespace bourse
