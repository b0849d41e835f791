#include "frameworks/batch/mail.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/core/units.h"
#include "frameworks/batch/ending.h"

namespace bourse::batch {
namespace {

std::string exit_of(const JobInfo& info) {
  return info.exit_signal != 0 ? fmt::format(", ExitCode {}:{}", info.exit_code, info.exit_signal)
                               : fmt::format(", ExitCode {}", info.exit_code);
}

std::string event_of(MailOn on, const MailAbout& about) {
  const JobInfo& i = *about.info;
  switch (on) {
    case MailOn::kBegin:
      return "Began, Queued time " + format_hours(i.started - (i.eligible.count() > 0 ? i.eligible : i.submitted));
    case MailOn::kEnd:
    case MailOn::kFail: {
      const std::string word = on == MailOn::kEnd ? "Ended" : "Failed";
      if (about.tasks > 0)
        return fmt::format("{}, {}", word,
                           about.failed == 0             ? "COMPLETED"
                           : about.failed == about.tasks ? "FAILED"
                                                         : fmt::format("Mixed, {} of {} tasks failed", about.failed, about.tasks));
      const std::string ran = i.started.count() > 0 ? ", Run time " + format_hours(i.elapsed) : "";
      return word + ran + ", " + std::string(state_name(i.state)) + exit_of(i);
    }
    case MailOn::kRequeue:
      return "Requeued";
    case MailOn::kInvalidDepend:
      return "Invalid dependency";
    case MailOn::kTimeLimit:
      return "Reached time limit";
    case MailOn::kTimeLimit90:
      return "Reached 90% of time limit";
    case MailOn::kTimeLimit80:
      return "Reached 80% of time limit";
    case MailOn::kTimeLimit50:
      return "Reached 50% of time limit";
    case MailOn::kArrayTasks:
      break;
  }
  return "";
}

}  // namespace

Mail make_mail(MailOn on, const MailAbout& about) {
  const JobInfo& i = *about.info;
  const std::string array = std::to_string((i.array.value != 0 ? i.array : i.id).value) + "_*";
  const std::string id = about.tasks > 0 ? array : plain_text(display_id(i), kMailNameMax), name = plain_text(i.name, kMailNameMax);
  const std::string event = event_of(on, about);
  Mail mail;
  mail.to = about.to;
  mail.subject = fmt::format("{} {}Job_id={} Name={} {}", about.slurm ? "Slurm" : "Bourse", about.tasks > 0 ? "Array Summary " : "",
                             id, name, event);
  // No line begins with what a user wrote: some mail programs take commands from lines that begin with a tilde.
  const auto line = [&](std::string_view what, std::string_view value) {
    if (!value.empty()) mail.body += fmt::format("{:<10} {}\n", what, plain_text(value, 1000));
  };
  line("job", id);
  line("name", name);
  line("event", event);
  line("user", i.user);
  line("nodes", i.node_list);
  if (i.submitted.count() != 0) line("submitted", format_utc(i.submitted));
  if (i.started.count() != 0) line("started", format_utc(i.started));
  if (i.ended.count() != 0) line("ended", format_utc(i.ended));
  line("limit", i.time_limit == kNoLimit ? "none" : format_duration(i.time_limit));
  if (i.ended.count() == 0)
    line("output", i.stdout_path);
  else if (about.tasks == 0)
    for (const std::string& told : how_it_ended(i)) line("how", told);
  line("reason", about.reason);
  for (const char* prefix : {"BOURSE_", "SLURM_"}) {
    const std::string p(prefix);
    mail.env.push_back(p + "JOB_ID=" + std::to_string(i.id.value));
    mail.env.push_back(p + "JOB_NAME=" + name);
    mail.env.push_back(p + "JOB_USER=" + plain_text(i.user, kMailNameMax));
    mail.env.push_back(p + "JOB_STATE=" + std::string(state_name(i.state)));
    mail.env.push_back(p + "JOB_MAIL_TYPE=" + std::string(mail_word(on)));
  }
  return mail;
}

}  // namespace bourse::batch
