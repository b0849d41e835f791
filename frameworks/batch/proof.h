// Whose a job is, proven to the hosts that run it. See "User identity" and common/world/identity.h.
//
// batch.identity = "local": the kernel says who is on the local socket, and hosts believe us. "munge": each submit and step brings a
// MUNGE credential for what it wants run, which is checked here and again by the launcher. "signed": we sign for the local socket's users
// with a key that the hosts know. Owned by main, on its thread, ahead of the actor; asks munged, which is quick.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/world/config.h"
#include "common/world/identity.h"
#include "frameworks/batch/protocol.h"

namespace bourse::batch {

// What a job or a step is to run, for its credential.
identity::Work work_of(const JobSpec& spec, std::uint32_t uid, std::uint32_t gid);
identity::Work work_of(const StepRequest& step, std::uint32_t uid, std::uint32_t gid);

class ProofGate {
 public:
  static constexpr Duration kFresh = seconds(300);                   // a credential that comes with a request is not older
  static constexpr Duration kSignatureLife = std::chrono::hours(1);  // one signature for equal tasks

  static Result<ProofGate> open(const Config& config, const std::string& key_directory);
  // A request's user by its credential; the uid and gid of the connection are replaced by what that proves. An answer where it is refused.
  std::optional<ReplyBody> judge(const RequestBody& body, std::int64_t& uid, std::int64_t& gid, Duration wall_now) const;
  [[nodiscard]] bool judges() const { return mode_ == Mode::kMunge; }
  // For a task without a credential; "" where none is needed.
  std::string prove(const TaskSpec& spec, Duration wall_now);
  [[nodiscard]] bool signs() const { return mode_ == Mode::kSigned; }

 private:
  enum class Mode : std::uint8_t { kLocal, kMunge, kSigned };
  using MakeWork = std::function<identity::Work(std::uint32_t uid, std::uint32_t gid)>;
  Result<> judge_one(const std::string& credential, const std::string& nonce, std::int64_t& uid, std::int64_t& gid,
                     Duration wall_now, const MakeWork& make) const;

  Mode mode_ = Mode::kLocal;
  std::string munge_socket_;
  identity::SigningKey key_;
  std::string last_digest_, last_signature_;
  std::uint32_t last_uid_ = 0, last_gid_ = 0;
  Duration last_made_{0};
};

}  // namespace bourse::batch
