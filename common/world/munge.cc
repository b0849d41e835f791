// MUNGE behind identity.h: libmunge, loaded when it is first asked for, so that hosts without it run everything else.
#include <dlfcn.h>
#include <munge.h>

#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "common/core/hooks.h"
#include "common/world/identity.h"

namespace bourse::identity {
namespace {

constexpr const char* kLibrary = "libmunge.so.2";
constexpr std::string_view kHead = "bourse-job-1 ";  // of the payload: "bourse-job-1 DIGEST NONCE"

struct Library {
  decltype(&::munge_encode) encode = nullptr;
  decltype(&::munge_decode) decode = nullptr;
  decltype(&::munge_ctx_create) ctx_create = nullptr;
  decltype(&::munge_ctx_destroy) ctx_destroy = nullptr;
  decltype(&::munge_ctx_get) ctx_get = nullptr;
  decltype(&::munge_ctx_set) ctx_set = nullptr;
  decltype(&::munge_ctx_strerror) ctx_error = nullptr;
  decltype(&::munge_strerror) error = nullptr;
  std::string missing;
};

template <class Function>
bool take(void* handle, const char* name, Function& out) {
  out = reinterpret_cast<Function>(dlsym(handle, name));
  return out != nullptr;
}

const Library& library() {
  static const Library loaded = [] {
    Library out;
    void* handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // stays for the life of the process
    const bool good = handle != nullptr && take(handle, "munge_encode", out.encode) && take(handle, "munge_decode", out.decode) &&
                      take(handle, "munge_ctx_create", out.ctx_create) && take(handle, "munge_ctx_destroy", out.ctx_destroy) &&
                      take(handle, "munge_ctx_get", out.ctx_get) && take(handle, "munge_ctx_set", out.ctx_set) &&
                      take(handle, "munge_ctx_strerror", out.ctx_error) && take(handle, "munge_strerror", out.error);
    if (!good) out.missing = std::string("MUNGE is not installed here (") + kLibrary + "); apt-get install munge";
    return out;
  }();
  return loaded;
}

struct ContextEnd {
  void operator()(munge_ctx* ctx) const { library().ctx_destroy(ctx); }
};
using ContextPtr = std::unique_ptr<munge_ctx, ContextEnd>;
struct Freed {
  void operator()(void* memory) const { std::free(memory); }  // NOLINT: libmunge's, by malloc
};

Result<ContextPtr> make_context(const std::string& socket) {
  if (!library().missing.empty()) return Error(Code::kUnsupported, library().missing);
  ContextPtr ctx(library().ctx_create());
  if (!ctx) return Error(Code::kIo, "MUNGE: out of memory");
  if (!socket.empty() && library().ctx_set(ctx.get(), MUNGE_OPT_SOCKET, socket.c_str()) != EMUNGE_SUCCESS)
    return Error(Code::kInvalid, "MUNGE: not a socket's path: " + socket);
  return ctx;
}

Error failure(munge_ctx_t ctx, munge_err_t code) {
  const char* more = library().ctx_error(ctx);
  const std::string text = std::string("MUNGE: ") + (more != nullptr ? more : library().error(code));
  return code == EMUNGE_SOCKET ? Error(Code::kIo, text + "; is munged running?") : Error(Code::kDenied, text);
}

}  // namespace

Result<std::string> munge_credential(std::string_view digest, std::string_view nonce, const std::string& socket) {
  ContextPtr ctx = BOURSE_TRY(make_context(socket));
  const std::string payload = std::string(kHead) + std::string(digest) + " " + std::string(nonce);
  char* made = nullptr;
  const munge_err_t code = library().encode(&made, ctx.get(), payload.data(), static_cast<int>(payload.size()));
  const std::unique_ptr<char, Freed> owned(made);
  if (code != EMUNGE_SUCCESS) return failure(ctx.get(), code);
  return std::string(made);
}

Result<Claim> check_munge(const std::string& credential, const std::string& socket) {
  if (credential.size() > kCredentialBytesMax || credential.find('\0') != std::string::npos)
    return Error(Code::kDenied, "MUNGE: not a credential");
  ContextPtr ctx = BOURSE_TRY(make_context(socket));
  void* payload = nullptr;
  int size = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  const munge_err_t code = library().decode(credential.c_str(), ctx.get(), &payload, &size, &uid, &gid);
  const std::unique_ptr<void, Freed> owned(payload);
  // Authentic, only not fresh any more, or seen before: it goes with each task of a job, on each host.
  const bool authentic = code == EMUNGE_SUCCESS || code == EMUNGE_CRED_EXPIRED || code == EMUNGE_CRED_REPLAYED;
  if (!authentic) return failure(ctx.get(), code);
  const std::string_view text(static_cast<const char*>(payload), payload == nullptr ? 0 : static_cast<std::size_t>(size));
  if (!text.starts_with(kHead)) return Error(Code::kDenied, "the MUNGE credential was made for something else");
  const std::string_view rest = text.substr(kHead.size());
  Claim claim;
  claim.uid = uid;
  claim.gid = gid;
  claim.digest = rest.substr(0, rest.find(' '));
  if (const auto blank = rest.find(' '); blank != std::string_view::npos) claim.nonce = rest.substr(blank + 1);
  time_t made = 0;
  if (library().ctx_get(ctx.get(), MUNGE_OPT_ENCODE_TIME, &made) != EMUNGE_SUCCESS)
    return Error(Code::kDenied, "MUNGE: no time in the credential");
  claim.made = std::chrono::seconds(made);
  return claim;
}

}  // namespace bourse::identity
