// bourse credential: for submit, bourse step and bourse rsh, which run it where a cluster asks for MUNGE credentials.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <string>

#include "common/world/config.h"
#include "common/world/identity.h"
#include "frameworks/batch/proof.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/complain.h"

namespace bourse::cli {
namespace {

const std::string kProgram = "bourse credential";

Result<std::string> credential_for(const std::string& bytes) {
  const batch::ToolRequest request = BOURSE_TRY(batch::decode_request(bytes));
  const auto uid = static_cast<std::uint32_t>(geteuid()), gid = static_cast<std::uint32_t>(getegid());
  identity::Work work;
  std::string nonce;
  if (const auto* submit = std::get_if<batch::SubmitRequest>(&request.body); submit != nullptr && submit->items.size() == 1) {
    const batch::JobSpec& spec = submit->items[0].spec;
    work = batch::work_of(spec, spec.uid >= 0 ? static_cast<std::uint32_t>(spec.uid) : uid,
                          spec.gid >= 0 ? static_cast<std::uint32_t>(spec.gid) : gid);
    nonce = submit->items[0].key;
  } else if (const auto* step = std::get_if<batch::StepRequest>(&request.body)) {
    work = batch::work_of(*step, uid, gid);
    nonce = step->key;
  } else {
    return Error(Code::kInvalid, "standard input is no request of submit's or step's");
  }
  if (work.uid != uid)
    return Error(Code::kDenied, "MUNGE can only say that you are uid " + std::to_string(uid) + ", so no job of uid " +
                                    std::to_string(work.uid) + " can be submitted by you on this cluster");
  std::string socket;
  const Places places = Places::find();
  if (access(places.config.c_str(), R_OK) == 0)
    socket = BOURSE_TRY(Config::read(places.config, {})).text("cluster", "munge_socket");
  return identity::munge_credential(identity::digest_of(work), nonce, socket);
}

}  // namespace

int credential_main(int argc, char**) {
  if (argc > 1) return complain(kProgram, Error(Code::kInvalid, "is run by submit and step, and takes no arguments"), 2);
  std::string bytes;
  std::array<char, 64 * 1024> buffer{};
  for (ssize_t n = 0; (n = read(STDIN_FILENO, buffer.data(), buffer.size())) > 0 && bytes.size() <= batch::kRequestBytesMax;)
    bytes.append(buffer.data(), static_cast<std::size_t>(n));
  const auto made = credential_for(bytes);
  if (!made) return complain(kProgram, made.error());
  fmt::print("{}\n", *made);
  return 0;
}

}  // namespace bourse::cli
