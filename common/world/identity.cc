#include "common/world/identity.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>

#include "common/core/hooks.h"
#include "common/core/units.h"
#include "common/world/digest.h"
#include "common/world/files.h"

namespace bourse::identity {
namespace {

constexpr std::size_t kKeyBytes = 32, kSignatureBytes = 64, kPolicyBytesMax = 64 * 1024, kKeyFileMax = 4096;
constexpr std::string_view kSignatureHead = "sig1:";

// Sets these for each task by itself: the batch framework, the agent, and what MPI libraries take from them.
constexpr std::array<std::string_view, 10> kSystemPrefixes = {"SLURM_",       "SLURMD_",        "SUBMIT_",
                                                              "BOURSE_",      "OTEL_",          "OMPI_MCA_plm",
                                                              "PRTE_MCA_plm", "HYDRA_LAUNCHER", "I_MPI_HYDRA_BOOTSTRAP",
                                                              "TRACEPARENT"};

// Each part with its length, so that no two lists of parts have one text.
void put(std::string& out, std::string_view part) {
  out += std::to_string(part.size());
  out += ':';
  out += part;
  out += ',';
}
void put(std::string& out, const std::vector<std::string>& parts) {
  put(out, std::to_string(parts.size()));
  for (const std::string& part : parts) put(out, part);
}

std::string to_hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    out.push_back("0123456789abcdef"[static_cast<unsigned char>(c) >> 4]);
    out.push_back("0123456789abcdef"[static_cast<unsigned char>(c) & 15]);
  }
  return out;
}

// "" where it is not `bytes` bytes in hex.
std::string from_hex(std::string_view text, std::size_t bytes) {
  if (text.size() != 2 * bytes || text.find_first_not_of("0123456789abcdef") != std::string_view::npos) return {};
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    unsigned value = 0;
    std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    out.push_back(static_cast<char>(value));
  }
  return out;
}

template <class Number>
bool number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t at = text.find(by);
    out.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;
const unsigned char* bytes_of(const std::string& text) { return reinterpret_cast<const unsigned char*>(text.data()); }

std::string signed_text(const Claim& claim) {
  return "bourse task identity 1\n" + std::to_string(claim.uid) + ":" + std::to_string(claim.gid) + ":" +
         std::to_string(claim.made.count()) + ":" + claim.digest + ":" + claim.nonce;
}

bool is_digest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Nobody but its owner, who is root or we ourselves, can have written it.
Result<> check_owner(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return errno_error(path);
  if (st.st_uid != 0 && st.st_uid != geteuid())
    return Error(Code::kDenied, path + " belongs to uid " + std::to_string(st.st_uid) + ": chown root it");
  if ((st.st_mode & 022U) != 0) return Error(Code::kDenied, path + " can be written by others than its owner: chmod go-w it");
  return {};
}

}  // namespace

bool is_system_variable(std::string_view name) {
  return std::any_of(kSystemPrefixes.begin(), kSystemPrefixes.end(), [&](std::string_view p) { return name.starts_with(p); });
}

std::string digest_of(const Work& work) {
  std::vector<std::string> env;
  for (const std::string& word : work.env)
    if (!is_system_variable(std::string_view(word).substr(0, word.find('=')))) env.push_back(word);
  std::sort(env.begin(), env.end());
  std::string text;
  put(text, "bourse work 1");
  put(text, std::to_string(work.uid));
  put(text, std::to_string(work.gid));
  put(text, std::to_string(static_cast<int>(work.kind)));
  put(text, work.argv);
  put(text, env);
  put(text, work.directory);
  put(text, work.image);
  put(text, work.mounts);
  return sha256_hex(text);
}

Work work_of(const TaskSpec& spec) {
  Work work{spec.uid, spec.gid, spec.kind, spec.argv, spec.env, spec.directory, spec.image, spec.mounts};
  for (const Artifact& artifact : spec.artifacts)
    for (std::string& word : work.argv)
      if (word == "{artifact:" + artifact.name + "}") word = artifact.digest;
  return work;
}

// --- signatures --------------------------------------------------------------------------------------------------------

SigningKey make_signing_key() {
  Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), EVP_PKEY_free);
  std::array<unsigned char, kKeyBytes> secret{}, open{};
  std::size_t n = secret.size(), m = open.size();
  const bool good = key && EVP_PKEY_get_raw_private_key(key.get(), secret.data(), &n) == 1 &&
                    EVP_PKEY_get_raw_public_key(key.get(), open.data(), &m) == 1;
  BOURSE_ASSERT(good, "libcrypto makes no Ed25519 key");
  return {to_hex({reinterpret_cast<const char*>(secret.data()), n}), to_hex({reinterpret_cast<const char*>(open.data()), m})};
}

Result<SigningKey> read_signing_key(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return errno_error("signing key " + path);
  if ((st.st_mode & 077U) != 0)
    return Error(Code::kDenied, "signing key " + path + " can be read by others than its owner: chmod 600 it");
  const std::string text = BOURSE_TRY(read_file(path, kKeyFileMax));
  SigningKey key;
  key.secret = text.substr(0, text.find('\n'));
  const std::string raw = from_hex(key.secret, kKeyBytes);
  if (raw.empty()) return Error(Code::kInvalid, path + ":1: expected a key of 64 hex digits, as bourse key sign makes it");
  Key parsed(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes_of(raw), raw.size()), EVP_PKEY_free);
  std::array<unsigned char, kKeyBytes> open{};
  std::size_t m = open.size();
  if (!parsed || EVP_PKEY_get_raw_public_key(parsed.get(), open.data(), &m) != 1)
    return Error(Code::kInvalid, path + ": libcrypto takes no such key");
  key.public_key = to_hex({reinterpret_cast<const char*>(open.data()), m});
  return key;
}

Result<> write_signing_key(const std::string& path, const SigningKey& key) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EEXIST) return Error(Code::kExists, path + " exists already; remove it first if it is to be replaced");
  if (fd < 0) return errno_error("create " + path);
  const bool good = write_all(fd, key.secret + "\n") && fsync(fd) == 0;
  Error error = errno_error("write " + path);
  ::close(fd);
  if (!good) {
    unlink(path.c_str());
    return error;
  }
  return write_file(path + ".pub", key.public_key + "\n", 0644);
}

bool is_signature(std::string_view credential) { return credential.starts_with(kSignatureHead); }

Result<std::string> sign(const Claim& claim, const SigningKey& key) {
  const std::string raw = from_hex(key.secret, kKeyBytes), text = signed_text(claim);
  Key secret(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes_of(raw), raw.size()), EVP_PKEY_free);
  Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::array<unsigned char, kSignatureBytes> signature{};
  std::size_t n = signature.size();
  if (!secret || !context || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, secret.get()) != 1 ||
      EVP_DigestSign(context.get(), signature.data(), &n, bytes_of(text), text.size()) != 1)
    return Error(Code::kInvalid, "libcrypto does not sign with this key");
  return std::string(kSignatureHead) + key.public_key + ":" + std::to_string(claim.uid) + ":" + std::to_string(claim.gid) + ":" +
         std::to_string(claim.made.count()) + ":" + claim.digest + ":" + claim.nonce + ":" +
         to_hex({reinterpret_cast<const char*>(signature.data()), n});
}

Result<Claim> check_signature(const std::string& credential, const std::vector<std::string>& public_keys) {
  if (credential.size() > kCredentialBytesMax || !is_signature(credential))
    return Error(Code::kDenied, "this is no signature of ours");
  const auto parts = split(credential, ':');
  Claim claim;
  std::int64_t made = 0;
  if (parts.size() != 8 || !number(parts[2], claim.uid) || !number(parts[3], claim.gid) || !number(parts[4], made) ||
      !is_digest(parts[5]))
    return Error(Code::kDenied, "the signature is damaged");
  claim.made = Duration(made);
  claim.digest = parts[5];
  claim.nonce = parts[6];
  if (std::find(public_keys.begin(), public_keys.end(), parts[1]) == public_keys.end())
    return Error(Code::kDenied, "it is signed with a key that this host does not know");
  const std::string raw = from_hex(parts[1], kKeyBytes), signature = from_hex(parts[7], kSignatureBytes), text = signed_text(claim);
  Key key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_of(raw), raw.size()), EVP_PKEY_free);
  Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  const bool good = key && context && !signature.empty() &&
                    EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
                    EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(text), text.size()) == 1;
  if (!good) return Error(Code::kDenied, "the signature is not of this task");
  return claim;
}

// --- the launcher's policy ---------------------------------------------------------------------------------------------

Result<Policy> read_policy(const std::string& path) {
  BOURSE_TRY(check_owner(path));
  const std::string text = BOURSE_TRY(read_file(path, kPolicyBytesMax));
  Policy policy;
  int line_number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++line_number;
    const auto trim = [](std::string_view s) {
      while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
      while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r')) s.remove_suffix(1);
      return s;
    };
    line = trim(line);
    if (line.empty() || line.front() == '#') continue;
    const auto bad = [&](const std::string& why) {
      return Error(Code::kInvalid, path + ":" + std::to_string(line_number) + ": " + why);
    };
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) return bad("expected NAME = VALUE");
    const std::string_view name = trim(line.substr(0, equals)), value = trim(line.substr(equals + 1));
    if (name == "identity") {
      constexpr std::array<std::string_view, 4> kWords = {"none", "munge", "signature", "any"};
      const auto found = std::find(kWords.begin(), kWords.end(), value);
      if (found == kWords.end()) return bad("identity is `" + std::string(value) + "', expected none, munge, signature or any");
      policy.proof = static_cast<Proof>(found - kWords.begin());
    } else if (name == "munge_socket") {
      policy.munge_socket = value;
    } else if (name == "signer") {
      if (from_hex(value, kKeyBytes).empty()) return bad("signer is not a public key of 64 hex digits");
      policy.signers.emplace_back(value);
    } else if (name == "max_job_age") {
      const auto age = parse_duration(value, seconds(1), false);
      if (!age || age->count() <= 0) return bad("max_job_age is `" + std::string(value) + "', expected a duration such as 30d");
      policy.max_job_age = *age;
    } else if (name == "root_jobs") {
      if (value != "yes" && value != "no") return bad("root_jobs is `" + std::string(value) + "', expected yes or no");
      policy.root_jobs = value == "yes";
    } else {
      return bad("unknown name `" + std::string(name) + "'; known are identity, munge_socket, signer, max_job_age and root_jobs");
    }
  }
  if ((policy.proof == Proof::kSignature) && policy.signers.empty())
    return Error(Code::kInvalid, path + ": identity is signature and no signer is named, so no task could be started");
  return policy;
}

const Claim* KnownClaims::find(const std::string& credential) const {
  const auto found = claims_.find(credential);
  return found == claims_.end() ? nullptr : &found->second;
}

const Claim& KnownClaims::keep(const std::string& credential, Claim claim) {
  if (claims_.size() >= kMost) claims_.clear();
  return claims_.insert_or_assign(credential, std::move(claim)).first->second;
}

Result<> check(const Policy& policy, const Work& work, const std::string& credential, Duration now, KnownClaims& known) {
  if (policy.proof == Proof::kNone || hooks::mutant("launcher.believes_anybody")) return {};
  const auto denied = [&](const std::string& why) {
    return Error(Code::kDenied, "may not run as uid " + std::to_string(work.uid) + " here: " + why);
  };
  if (work.uid == 0 && !policy.root_jobs) return denied("tasks of root are not allowed (root_jobs)");
  if (credential.empty()) return denied("the task brings no credential of its user");
  if (credential.size() > kCredentialBytesMax) return denied("its credential is too long");
  const bool signature = is_signature(credential);
  if (signature && policy.proof == Proof::kMunge) return denied("a MUNGE credential is asked for, not a signature");
  if (!signature && policy.proof == Proof::kSignature) return denied("the signature of a framework is asked for");
  const Claim* claim = known.find(credential);
  if (claim == nullptr) {
    auto checked = signature ? check_signature(credential, policy.signers) : check_munge(credential, policy.munge_socket);
    if (!checked) return denied(checked.error().text());
    claim = &known.keep(credential, *std::move(checked));
  }
  if (claim->uid != work.uid || claim->gid != work.gid)
    return denied("its credential is of uid " + std::to_string(claim->uid) + " and gid " + std::to_string(claim->gid));
  if (claim->digest != digest_of(work) && !hooks::mutant("launcher.any_work"))
    return denied("its credential is for something else than this program, its arguments and its environment");
  if (now - claim->made > policy.max_job_age)
    return denied("its credential is older than " + format_duration(policy.max_job_age) + " (max_job_age); submit the job again");
  if (claim->made - now > kClockSkew) return denied("its credential is of the future; compare the clocks of the hosts");
  return {};
}

}  // namespace bourse::identity
