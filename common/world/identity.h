// Who a task may run as, and the proof of it: a credential that binds a uid to a digest of what is to run. See "User identity".
//
// A user's credential is made by MUNGE where the job is submitted; where there is no MUNGE the batch framework signs with a key of its
// own (Ed25519). It travels in TaskSpec.credential, and the launcher checks it by itself, so that whoever speaks in the master's or a
// framework's name can neither run something else as that user nor anything as another. MUNGE's library is loaded when it is first
// needed. Blocking; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"
#include "common/core/task.h"

namespace bourse::identity {

constexpr std::size_t kCredentialBytesMax = 16 * 1024;
constexpr std::string_view kSigningKeyName = "batch.sign";  // of the batch framework, in the key directory
constexpr Duration kClockSkew = seconds(300);               // that two hosts' clocks may differ by, as for MUNGE

// What is to run, as submit, batch and launcher all can tell it. Not in it: where output goes, limits and times, and variables that the
// system sets for each task by itself (is_system_variable).
struct Work {
  std::uint32_t uid = 0, gid = 0;
  TaskKind kind = TaskKind::kProcess;
  std::vector<std::string> argv;  // a script by its digest: "sha256:HEX"
  std::vector<std::string> env;   // in any order
  std::string directory, image;
  std::vector<std::string> mounts;
};
std::string digest_of(const Work& work);  // 64 hex digits
// Of a task as a framework launches it: "{artifact:NAME}" stands for the artifact's digest.
Work work_of(const TaskSpec& spec);
// "SLURM_JOB_ID": set by the system for each task; the user's own of that name count for nothing.
[[nodiscard]] bool is_system_variable(std::string_view name);

// What a credential says.
struct Claim {
  std::uint32_t uid = 0, gid = 0;
  std::string digest, nonce;
  Duration made{0};  // wall time
};

// --- MUNGE. `socket` "": munged's usual one. kUnsupported: no library here; kIo: no munged; kDenied: not authentic.
Result<std::string> munge_credential(std::string_view digest, std::string_view nonce, const std::string& socket);
// Expired and replayed ones are authentic too: how old is too old is the caller's to say.
Result<Claim> check_munge(const std::string& credential, const std::string& socket);

// --- Signatures: "sig1:KEY:UID:GID:MADE:DIGEST:NONCE:SIGNATURE", all hex but the numbers and the nonce.
struct SigningKey {
  std::string secret, public_key;  // 32 bytes each, as 64 hex digits
};
SigningKey make_signing_key();
Result<SigningKey> read_signing_key(const std::string& path);                // kDenied where others can read it
Result<> write_signing_key(const std::string& path, const SigningKey& key);  // path (0600) and path + ".pub"; kExists
Result<std::string> sign(const Claim& claim, const SigningKey& key);
Result<Claim> check_signature(const std::string& credential, const std::vector<std::string>& public_keys);

[[nodiscard]] bool is_signature(std::string_view credential);

// --- What a launcher asks for.
enum class Proof : std::uint8_t {
  kNone,       // who speaks to the agent is believed: peers are known by their keys
  kMunge,      // a credential of MUNGE's
  kSignature,  // one of a framework whose key is named
  kAny,        // either
};
struct Policy {
  Proof proof = Proof::kNone;
  std::string munge_socket;
  std::vector<std::string> signers;  // public keys
  Duration max_job_age = std::chrono::hours(24 * 30);
  bool root_jobs = true;  // whether a task may run as uid 0, with proof
};
// A file of "name = value" lines; it must belong to root (or to us) and nobody else may write it. kDenied, kInvalid with file:line.
Result<Policy> read_policy(const std::string& path);

// What credentials say that were looked at, so that an array's is asked about once.
class KnownClaims {
 public:
  static constexpr std::size_t kMost = 256;  // beyond, all are forgotten
  [[nodiscard]] const Claim* find(const std::string& credential) const;
  const Claim& keep(const std::string& credential, Claim claim);
  void clear() { claims_.clear(); }

 private:
  std::map<std::string, Claim> claims_;
};

// kDenied with a sentence for the job's owner: this work may not be run as its uid. `now` is wall time.
Result<> check(const Policy& policy, const Work& work, const std::string& credential, Duration now, KnownClaims& known);

}  // namespace bourse::identity
