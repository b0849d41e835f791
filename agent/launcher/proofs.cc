#include "agent/launcher/proofs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "common/core/plain_path.h"

namespace bourse::launcher {
namespace {

// Of the variables that the system sets for each task, these name a program that an MPI library runs as the user.
constexpr std::array<std::string_view, 4> kPrograms = {
    "OMPI_MCA_plm_rsh_agent=", "PRTE_MCA_plm_ssh_agent=", "HYDRA_LAUNCHER_EXEC=", "I_MPI_HYDRA_BOOTSTRAP_EXEC="};

// A plain name is looked for in the job's own PATH, which is its user's word.
Result<> check_programs(const std::vector<std::string>& env) {
  for (const std::string& word : env) {
    const auto named = std::find_if(kPrograms.begin(), kPrograms.end(), [&](std::string_view p) { return word.starts_with(p); });
    if (named == kPrograms.end()) continue;
    const std::string path = word.substr(named->size());
    if (path.find('/') == std::string::npos && path.find(' ') == std::string::npos) continue;
    struct stat st {};
    if (stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == 0 || st.st_uid == geteuid()) &&
        (st.st_mode & 022U) == 0)
      continue;
    return Error(Code::kDenied, "the task names " + path + " in " + std::string(named->substr(0, named->size() - 1)) +
                                    ", which is not a program of this host's administrator");
  }
  return {};
}

// Batch puts Slurm's commands in front of the user's PATH. Only this host's own are taken for that: any other directory there would let
// whoever has batch's connection run programs of his as the user. True: it was there.
bool take_off_commands(std::vector<std::string>& env, const std::string& commands) {
  const std::string front = "PATH=" + commands + ":";
  const auto path = std::ranges::find_if(env, [&](const std::string& word) { return word.starts_with(front); });
  if (commands.empty() || path == env.end()) return false;
  *path = "PATH=" + path->substr(front.size());
  return true;
}

}  // namespace

Result<> Proofs::refresh() {
  struct stat st {};
  std::string seen = "absent";
  if (stat(file_.c_str(), &st) == 0)
    seen = std::to_string(st.st_ino) + "/" + std::to_string(st.st_size) + "/" + std::to_string(st.st_mtim.tv_sec) + "." +
           std::to_string(st.st_mtim.tv_nsec) + "/" + std::to_string(st.st_ctim.tv_nsec);
  if (seen != seen_) {
    seen_ = seen;
    auto read = identity::read_policy(file_);
    complaint_ = read ? "" : read.error().text();
    if (read) {
      policy_ = *std::move(read);
      known_.clear();
    } else {
      std::fprintf(stderr, "bourse-launcher: %s; %s\n", complaint_.c_str(),
                   policy_ ? "going on as before" : "no task is started until it is mended");
    }
  }
  if (!policy_) return Error(Code::kDenied, "this host's rules for users cannot be read: " + complaint_);
  return {};
}

Result<> Proofs::check(const Start& start, Duration wall_now) {
  if (file_.empty()) return {};
  BOURSE_TRY(refresh());
  if (policy_->proof == identity::Proof::kNone) return {};
  identity::Work work = identity::work_of(start.spec);
  work.env.resize(work.env.size() - start.own_variables);
  for (std::string& word : work.argv)
    if (word.starts_with(artifacts_) && word.compare(artifacts_.size(), 7, "sha256-") == 0)
      word = "sha256:" + word.substr(artifacts_.size() + 7);
  BOURSE_TRY(check_programs(work.env));
  const auto proven = identity::check(*policy_, work, start.spec.credential, wall_now, known_);
  if (proven || !take_off_commands(work.env, commands_)) return proven;
  auto without = identity::check(*policy_, work, start.spec.credential, wall_now, known_);
  // A user without a PATH was given the plain one, too.
  if (!without && std::erase(work.env, "PATH=" + std::string(kPlainPath)) != 0)
    without = identity::check(*policy_, work, start.spec.credential, wall_now, known_);
  return without;
}

void Proofs::settle_environment(Start& start) {
  auto& env = start.spec.env;
  const auto own = env.end() - start.own_variables;
  env.erase(own - start.replaced, own);
  start.replaced = 0;
}

}  // namespace bourse::launcher
