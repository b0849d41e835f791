// Mail about jobs: what the actor knows of when it is due. What is lost with this process is not sent again.
#include <algorithm>
#include <array>

#include "frameworks/batch/batch.h"

namespace bourse::batch {
namespace {

constexpr std::array<std::pair<MailOn, std::int64_t>, 3> kParts{
    {{MailOn::kTimeLimit50, 50}, {MailOn::kTimeLimit80, 80}, {MailOn::kTimeLimit90, 90}}};

}  // namespace

bool Batch::mails(const Job& job, MailOn on) const { return options_.mail && wants(job.spec->mail, on); }

void Batch::mail(const Job& job, MailOn on, const JobInfo& info, const std::string& reason, std::uint64_t tasks,
                 std::uint64_t failed) {
  const JobSpec& spec = jobs_.full_spec(job);
  out_->mails.push_back(
      make_mail(on, {&info, spec.mail_user.empty() ? spec.user : spec.mail_user, reason, spec.slurm_names, tasks, failed}));
}

// It runs. Of an array, as a whole, its first task.
void Batch::mail_begin(Job& job, const Run& run) {
  if (!mails(job, MailOn::kBegin)) return;
  const bool each = !job.array || wants(job.spec->mail, MailOn::kArrayTasks);
  if (!each && job.mail_begun) return;
  job.mail_begun = true;
  mail(job, MailOn::kBegin, run_info(job, run, true), {}, each ? 0 : job.array->size(), 0);
}

// From here on its time limit is known; what of it has passed already was told, or nobody was there to tell.
void Batch::mail_parts(const Job& job, std::uint64_t number, const Run& run) {
  if (run.limit == kNoLimit || run.started_mono.count() == 0) return;
  for (const auto& [on, percent] : kParts) {
    if (!mails(job, on)) continue;
    const Duration at = run.started_mono + run.limit / 100 * percent;
    if (at > now_.mono) mail_times_.emplace(at, number, on);
  }
  arm_mail();
}

void Batch::arm_mail() {
  if (mail_times_.empty()) return;
  out_->arm({kMailTimes, 0, {}}, std::max(std::get<0>(*mail_times_.begin()) - now_.mono, Duration{0}));
}

void Batch::mail_due() {
  while (!mail_times_.empty() && std::get<0>(*mail_times_.begin()) <= now_.mono) {
    const auto [at, number, on] = *mail_times_.begin();
    mail_times_.erase(mail_times_.begin());
    const auto it = runs_.find(number);
    if (it == runs_.end() || it->second.started_mono + it->second.limit < at) continue;  // ended, or started anew
    const Job& job = *jobs_.find(it->second.job);
    mail(job, on, run_info(job, it->second, true));
  }
  arm_mail();
}

// What ended, when that is on record.
void Batch::mail_end(const Job& job, const Ended& note) {
  if (!options_.mail || job.spec->mail == 0) return;
  const JobInfo& info = note.info;
  if (info.reason == Reason::kDependencyNeverSatisfied && mails(job, MailOn::kInvalidDepend))
    mail(job, MailOn::kInvalidDepend, info);
  if (info.state == JobState::kTimeout && mails(job, MailOn::kTimeLimit)) mail(job, MailOn::kTimeLimit, info);
  std::uint64_t tasks = 0, failed = 0;
  bool good = info.state == JobState::kCompleted || info.state == JobState::kCancelled;
  if (job.array && !wants(job.spec->mail, MailOn::kArrayTasks)) {
    if (!note.whole) return;
    tasks = job.array->size();
    failed = job.array->failed().size();
    good = failed == 0;
  }
  // As Slurm has it: what failed is told as failed to who wants to know that, else as ended.
  if (!good && mails(job, MailOn::kFail)) return mail(job, MailOn::kFail, info, {}, tasks, failed);
  if (mails(job, MailOn::kEnd)) mail(job, MailOn::kEnd, info, {}, tasks, failed);
}

}  // namespace bourse::batch
