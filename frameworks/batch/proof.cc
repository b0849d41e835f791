#include "frameworks/batch/proof.h"

#include <utility>

#include "common/core/hooks.h"
#include "common/world/digest.h"
#include "common/world/log.h"

namespace bourse::batch {

identity::Work work_of(const JobSpec& spec, std::uint32_t uid, std::uint32_t gid) {
  identity::Work work{uid, gid, TaskKind::kProcess, {}, spec.env, spec.directory, {}, spec.container_mounts};
  if (!spec.script.empty()) work.argv.push_back("sha256:" + sha256_hex(spec.script));
  work.argv.insert(work.argv.end(), spec.args.begin(), spec.args.end());
  if (!spec.vm.empty()) work.kind = TaskKind::kMicroVm, work.image = spec.vm;
  if (!spec.container.empty()) work.kind = TaskKind::kContainer, work.image = spec.container;
  return work;
}

identity::Work work_of(const StepRequest& step, std::uint32_t uid, std::uint32_t gid) {
  return {uid, gid, TaskKind::kProcess, step.argv, step.env, step.directory, {}, {}};
}

Result<ProofGate> ProofGate::open(const Config& config, const std::string& key_directory) {
  ProofGate gate;
  const std::string mode = config.text("batch", "identity");
  gate.mode_ = mode == "munge" ? Mode::kMunge : mode == "signed" ? Mode::kSigned : Mode::kLocal;
  gate.munge_socket_ = config.text("cluster", "munge_socket");
  if (gate.mode_ == Mode::kSigned) {
    std::string path = config.text("batch", "signing_key");
    if (path.empty()) path = key_directory + "/" + std::string(identity::kSigningKeyName);
    auto key = identity::read_signing_key(path);
    if (!key) return std::move(key).error().add(config.place("batch", "identity") + "batch.identity is signed");
    gate.key_ = *std::move(key);
  }
  return gate;
}

Result<> ProofGate::judge_one(const std::string& credential, const std::string& nonce, std::int64_t& uid, std::int64_t& gid,
                              Duration wall_now, const MakeWork& make) const {
  if (credential.empty()) return Error(Code::kDenied, std::string(kCredentialNeeded));
  const identity::Claim claim = BOURSE_TRY(identity::check_munge(credential, munge_socket_));
  if (uid >= 0 && static_cast<std::uint32_t>(uid) != claim.uid && uid != 0)
    return Error(Code::kDenied,
                 "the credential is of uid " + std::to_string(claim.uid) + ", the connection of uid " + std::to_string(uid));
  const Duration age = wall_now - claim.made;
  if (age > kFresh || age < -kFresh)
    return Error(Code::kDenied, "the credential is " + std::string(age > kFresh ? "too old" : "of the future") +
                                    "; compare the clocks of this host and the other");
  // The nonce is the request's own key: whoever overhears it and sends it again gets the same job, not another one.
  if (claim.nonce != nonce && !hooks::mutant("batch.any_nonce"))
    return Error(Code::kDenied, "the credential was made for another request");
  if (claim.digest != identity::digest_of(make(claim.uid, claim.gid)))
    return Error(Code::kDenied, "the credential is not for what is asked to be run, or for another user or group");
  uid = claim.uid;
  gid = claim.gid;
  return {};
}

std::optional<ReplyBody> ProofGate::judge(const RequestBody& body, std::int64_t& uid, std::int64_t& gid, Duration wall_now) const {
  if (mode_ != Mode::kMunge) return std::nullopt;
  if (const auto* submit = std::get_if<SubmitRequest>(&body)) {
    SubmitReply refusal;
    bool refused = false;
    for (const SubmitRequest::Item& item : submit->items) {
      SubmitReply::Item out;
      const JobSpec& spec = item.spec;
      const auto make = [&spec](std::uint32_t u, std::uint32_t g) {
        return work_of(spec, spec.uid >= 0 ? static_cast<std::uint32_t>(spec.uid) : u,
                       spec.gid >= 0 ? static_cast<std::uint32_t>(spec.gid) : g);
      };
      if (auto good = judge_one(spec.credential, item.key, uid, gid, wall_now, make); !good) {
        refused = true;
        out.code = good.error().code();
        out.reason = good.error().text();
      } else {
        out.code = Code::kBusy;
        out.reason = "another job of this request was refused";
      }
      refusal.items.push_back(std::move(out));
    }
    if (refused) return ReplyBody(std::move(refusal));
  }
  if (const auto* step = std::get_if<StepRequest>(&body)) {
    const auto make = [step](std::uint32_t u, std::uint32_t g) { return work_of(*step, u, g); };
    if (auto good = judge_one(step->credential, step->key, uid, gid, wall_now, make); !good) {
      StepReply refusal;
      refusal.code = good.error().code();
      refusal.reason = good.error().text();
      return ReplyBody(std::move(refusal));
    }
  }
  return std::nullopt;
}

std::string ProofGate::prove(const TaskSpec& spec, Duration wall_now) {
  if (mode_ != Mode::kSigned) return {};
  const std::string digest = identity::digest_of(identity::work_of(spec));
  const bool same =
      digest == last_digest_ && spec.uid == last_uid_ && spec.gid == last_gid_ && wall_now - last_made_ < kSignatureLife;
  if (same) return last_signature_;
  auto made = identity::sign({spec.uid, spec.gid, digest, "-", wall_now}, key_);
  if (!made) {
    log_event(LogLevel::kError, "task_not_signed", {{"reason", made.error().text()}, {"then", "its host will refuse it"}});
    return {};
  }
  last_digest_ = digest;
  last_uid_ = spec.uid;
  last_gid_ = spec.gid;
  last_made_ = wall_now;
  return last_signature_ = *std::move(made);
}

}  // namespace bourse::batch
