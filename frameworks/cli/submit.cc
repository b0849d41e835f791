// submit(1): a job script or command becomes a durable job.
#include <fmt/format.h>

#include <algorithm>

#include "frameworks/cli/batch_client.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/credential.h"
#include "frameworks/cli/job_text.h"
#include "frameworks/cli/submit_options.h"
#include "frameworks/cli/submitter.h"

namespace bourse::cli {
namespace {

constexpr int kExitRefused = 1;       // the job was refused
constexpr int kExitUsage = 2;         // an option, directive or script is wrong
constexpr int kExitUnreachable = 3;   // no answer
constexpr int kExitUsageSlurm = 255;  // what Slurm's sbatch says for an option

constexpr int kTimeoutsMax = 3;                       // of the answer to a submit; then it is asked for again under the same key
constexpr Duration kWaitPatience = seconds(10 * 60);  // --wait: until the framework is back; a host may have to start for that

bool is_loss(Code code) { return code == Code::kTimeout || code == Code::kIo; }

int say(const std::string& program, const Error& error, int status) {
  fmt::print(stderr, "{}: {}\n", program, error.text());
  return status;
}

// Exit status of the job as a shell would show it: its code, or 128 + signal.
int status_of(const std::string& program, const batch::JobInfo& job) {
  if (job.state != batch::JobState::kCompleted)
    fmt::print(stderr, "{}: job {} ended {}{}\n", program, batch::display_id(job), batch::state_name(job.state), ending_text(job));
  if (job.exit_signal != 0) return 128 + job.exit_signal;
  if (job.exit_code != 0) return job.exit_code;
  return job.state == batch::JobState::kCompleted ? 0 : 1;
}

// Of a job that had ended before we began, or began again, to watch it: of an array its worst.
int past_status(BatchClient& client, const std::string& program, batch::JobId id) {
  auto past = call<batch::JobReply>(client, batch::JobRequest{batch::JobSelector{id, ""}, false});
  if (!past) return say(program, past.error(), kExitUnreachable);
  if (past->code != Code::kOk || past->rows.empty()) return say(program, Error(past->code, past->reason), kExitRefused);
  const auto bad = [](const batch::JobInfo& row) { return row.state != batch::JobState::kCompleted; };
  const auto worst = std::ranges::find_if(past->rows, bad);
  return status_of(program, worst == past->rows.end() ? past->rows.front() : *worst);
}

int wait_for(BatchClient& client, const std::string& program, batch::JobId id) {
  client.set_patience(kWaitPatience);
  client.send(batch::WatchRequest{{batch::JobSelector{id, ""}}});
  while (true) {
    auto reply = client.next(kNoLimit);
    if (!reply) {  // the framework restarts; the job does not care
      if (reply.error().code() == Code::kGone)
        if (auto back = client.reconnect(); !back)
          return say(program, std::move(back).error().add("the job goes on"), kExitUnreachable);
      if (reply.error().code() != Code::kGone) return say(program, reply.error(), kExitUnreachable);
      client.send(batch::WatchRequest{{batch::JobSelector{id, ""}}});
      continue;
    }
    if (const auto* refused = std::get_if<batch::RequestRefused>(&reply->body))
      return say(program, Error(refused->code, refused->reason), kExitUnreachable);
    const auto* changed = std::get_if<batch::JobChanged>(&reply->body);
    if (changed == nullptr) continue;
    if (changed->code == Code::kNotFound) return past_status(client, program, id);
    if (changed->code != Code::kOk) return say(program, Error(changed->code, changed->reason), kExitRefused);
    if (changed->last) return status_of(program, changed->job);
  }
}

}  // namespace

int submit_main(int argc, char** argv) {
  const std::string called = argv[0];
  const std::string program = called.substr(called.rfind('/') == std::string::npos ? 0 : called.rfind('/') + 1);
  const bool slurm = program == "sbatch";
  const std::vector<std::string> words(argv + 1, argv + argc);
  const int usage_status = slurm ? kExitUsageSlurm : kExitUsage;
  if (auto parsed = parse_options(submit_table(), words, "command line", true, "exec")) {
    for (const Setting& s : parsed->settings) {
      if (s.name == "help") {
        fmt::print(
            "Usage: {0} [OPTIONS] SCRIPT [ARGUMENT...]\n       {0} [OPTIONS] --wrap=COMMAND\n       {0} [OPTIONS] --exec PROGRAM "
            "[ARGUMENT...]\n\n"
            "Options may also stand in the script, in lines that begin with #SUBMIT or #SBATCH. See submit(1).\n\n{1}",
            program, usage(submit_table()));
        return 0;
      }
      if (s.name == "version") {
        fmt::print("{} (Bourse) {}\n", program, BOURSE_VERSION);
        return 0;
      }
    }
  }
  auto submission = read_submission(words, this_process(), batch::kScriptBytesMax, slurm ? "slurm-%j.out" : "job-%j.out");
  if (!submission)
    return say(program, submission.error(),
               submission.error().text().starts_with("command line") ? usage_status
               : slurm                                               ? 1
                                                                     : kExitUsage);
  submission->job.slurm_names = slurm;
  if (submission->verbose)
    for (const std::string& line : submission->ignored) fmt::print(stderr, "{}: {}\n", program, line);

  auto client = BatchClient::open(submission->cluster_dir);
  if (!client) return say(program, client.error(), kExitUnreachable);
  batch::SubmitRequest request;
  request.test_only = submission->test_only;
  request.items.push_back({submission_key(), submission->job});
  // The same key each time: if it was accepted and only the answer was lost, the same job's id comes back.
  auto reply = call<batch::SubmitReply>(**client, request);
  for (int again = 0; !reply && reply.error().code() == Code::kTimeout && again < kTimeoutsMax; ++again) {
    fmt::print(stderr, "{}: {}; asking again\n", program, reply.error().text());
    reply = call<batch::SubmitReply>(**client, request);
  }
  if (!reply) return say(program, reply.error(), is_loss(reply.error().code()) ? kExitUnreachable : kExitRefused);
  // One more time, with what the cluster asks for: the key is the same, and part of it.
  if (reply->items.size() == 1 && wants_credential(reply->items[0].code, reply->items[0].reason)) {
    batch::RequestBody proven = request;
    if (auto added = add_credential(proven); !added) return say(program, added.error(), kExitRefused);
    reply = call<batch::SubmitReply>(**client, std::move(proven));
    if (!reply) return say(program, reply.error(), is_loss(reply.error().code()) ? kExitUnreachable : kExitRefused);
  }
  if (reply->items.size() != 1) return say(program, Error(Code::kCorrupt, "the answer names no job"), kExitUnreachable);
  const batch::SubmitReply::Item& item = reply->items[0];
  if (item.code != Code::kOk) return say(program, Error(item.code, item.reason), kExitRefused);
  if (submission->test_only) {
    fmt::print(stderr, "{}: the job could run{}{}\n", program, item.reason.empty() ? "" : "; ", item.reason);
    return 0;
  }
  if (submission->parsable)
    fmt::print("{}\n", item.id.value);
  else if (!submission->quiet)
    fmt::print("Submitted batch job {}\n", item.id.value);
  if (!item.reason.empty() && !submission->quiet) fmt::print(stderr, "{}: {}\n", program, item.reason);
  std::fflush(stdout);
  return submission->wait ? wait_for(**client, program, item.id) : 0;
}

}  // namespace bourse::cli
