#include "frameworks/cli/step_desk.h"

#include <charconv>

namespace bourse::cli {
namespace {

constexpr std::string_view kGuestPrefix = "step:";

}  // namespace

Result<std::unique_ptr<StepDesk>> StepDesk::open(bool loopback) {
  std::unique_ptr<StepDesk> desk(new StepDesk());
  desk->keys_ = make_key_pair();
  desk->context_.set_keyring(desk->keyring_);
  BOURSE_TRY(desk->listener_.bind(loopback ? "tcp://127.0.0.1:*" : "tcp://0.0.0.0:*", &desk->keys_));
  const std::string bound = desk->listener_.endpoint();
  const std::string port = bound.substr(bound.rfind(':'));
  for (const std::string& address : loopback ? std::vector<std::string>{"127.0.0.1"} : own_addresses())
    desk->endpoints_.push_back("tcp://" + address + port);
  desk->listener_.on_frame([d = desk.get()](const Frame& frame) { d->take(frame); });
  desk->beat();
  return desk;
}

std::pair<StepIo, std::size_t> StepDesk::invite(Heard heard) {
  const std::size_t number = guests_.size();
  guests_.push_back({std::move(heard), {}, {}});
  StepIo io;
  io.endpoints = endpoints_;
  io.boot = boot_id();
  io.server_key = keys_.public_key;
  io.keys = make_key_pair();
  keyring_.allow(io.keys.public_key, std::string(kGuestPrefix) + std::to_string(number));
  return {std::move(io), number};
}

void StepDesk::admit() { context_.set_keyring(keyring_); }

void StepDesk::say(std::size_t guest, std::string frame) {
  Guest& to = guests_[guest];
  if (to.peer == PeerId{})
    to.kept.push_back(std::move(frame));
  else
    (void)listener_.send(to.peer, std::move(frame));
}

void StepDesk::take(const Frame& frame) {
  std::size_t number = 0;
  const std::string_view identity = frame.identity;
  if (!identity.starts_with(kGuestPrefix) || frame.bytes.empty()) return;
  const std::string_view digits = identity.substr(kGuestPrefix.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (number >= guests_.size()) return;
  Guest& guest = guests_[number];
  const auto word = static_cast<StepWord>(frame.bytes[0]);
  if (word == StepWord::kHello) {
    guest.peer = frame.peer;
    (void)listener_.send(guest.peer, step_frame(StepWord::kGo));
    for (std::string& kept : std::exchange(guest.kept, {})) (void)listener_.send(guest.peer, std::move(kept));
  }
  guest.heard(word, frame.bytes.substr(1));
}

void StepDesk::beat() {
  reactor_.after(kStepBeat, [this] {
    beat_all();
    beat();
  });
}

void StepDesk::beat_all() {
  for (const Guest& guest : guests_)
    if (guest.peer != PeerId{}) (void)listener_.send(guest.peer, step_frame(StepWord::kBeat));
}

}  // namespace bourse::cli
