// Of which moments in a job's life its user is told by mail (--mail-type), and in which words. Pure.
//
// The words of the subjects are Slurm's, because people's filters know them: "Slurm Job_id=12 Name=relax Ended, Run time 00:03:07,
// COMPLETED, ExitCode 0", with "Bourse" in place of "Slurm" unless the job came through a Slurm front.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/action.h"
#include "common/core/result.h"
#include "frameworks/batch/job.h"

namespace bourse::batch {

enum class MailOn : std::uint16_t {
  kBegin = 1,
  kEnd = 2,
  kFail = 4,
  kRequeue = 8,
  kInvalidDepend = 16,
  kTimeLimit = 32,
  kTimeLimit90 = 64,
  kTimeLimit80 = 128,
  kTimeLimit50 = 256,
  kArrayTasks = 512,  // of each task of an array; else an array is told of as a whole
};
using MailSet = std::uint16_t;
[[nodiscard]] constexpr bool wants(MailSet set, MailOn on) { return (set & static_cast<MailSet>(on)) != 0; }

constexpr std::size_t kMailAddressMax = 254;  // RFC 5321
constexpr std::size_t kMailNameMax = 64;      // of a job's name, in a subject

// "BEGIN,END", "all", "none", any case; "": none.
Result<MailSet> parse_mail_types(std::string_view text);
std::string_view mail_word(MailOn on);  // "TIME_LIMIT_90"
// What a header or an argument can bear: one line, and nothing that a terminal would act on.
std::string plain_text(std::string_view text, std::size_t most);
// One address or login, or several with commas between; what a mail program might take for a command or a file is refused.
Result<> check_mail_address(std::string_view address);

// About one job, array task or, with `tasks` > 0, a whole array of so many tasks of which `failed` did not end well.
struct MailAbout {
  const JobInfo* info = nullptr;
  std::string to;
  std::string reason;  // requeue: why
  bool slurm = false;
  std::uint64_t tasks = 0, failed = 0;
};
Mail make_mail(MailOn on, const MailAbout& about);

}  // namespace bourse::batch
