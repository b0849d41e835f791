#include "frameworks/cli/slurm/held_job.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>

#include "common/world/reactor.h"
#include "frameworks/cli/batch_client.h"
#include "frameworks/cli/step_run.h"
#include "frameworks/cli/submitter.h"

namespace bourse::cli {
namespace {

constexpr Duration kLook = milliseconds(200);       // how often an interruption is looked for
constexpr Duration kSilentFor = milliseconds(500);  // before it is said that the job waits
constexpr Duration kLastWords = seconds(2);

volatile std::sig_atomic_t g_interrupted = 0;

// SIGINT, SIGTERM and SIGHUP set a flag while this lives.
class Interruptible {
 public:
  Interruptible() {
    g_interrupted = 0;
    struct sigaction action {};
    action.sa_handler = [](int signal) { g_interrupted = signal; };
    for (std::size_t i = 0; i < 3; ++i) sigaction(kSignals[i], &action, &before_[i]);
  }
  ~Interruptible() {
    for (std::size_t i = 0; i < 3; ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[3]{};
};

Result<batch::JobInfo> look_up(BatchClient& client, batch::JobId id) {
  auto reply = BOURSE_TRY(call<batch::JobReply>(client, batch::JobRequest{{id, ""}, false}));
  if (reply.code != Code::kOk) return Error(reply.code, reply.reason);
  if (reply.rows.empty()) return Error(Code::kNotFound, fmt::format("there is no job {}", id.value));
  return std::move(reply.rows.front());
}

void cancel(BatchClient& client, batch::JobId id, const std::string& reason) {
  batch::CancelRequest request;
  request.jobs = {{id, ""}};
  request.reason = reason;
  (void)call<batch::ChangeReply>(client, request);
}

}  // namespace

Result<std::unique_ptr<HeldJob>> HeldJob::start(StepDesk& desk, const Wish& wish) {
  std::unique_ptr<HeldJob> job(new HeldJob(desk));
  auto [io, guest] = desk.invite([j = job.get()](StepWord word, std::string_view) {
    if (word == StepWord::kEnd) j->heard_ = true;
  });
  desk.admit();
  job->guest_ = guest;
  io.hold = true;
  std::vector<std::string> words = wish.words;
  words.insert(words.end(), {"--output=/dev/null", "--export=ALL", "--no-requeue", "--exec"});
  for (std::string& word : relay_command()) words.push_back(std::move(word));
  auto submission = BOURSE_TRY(read_submission(words, this_process(), batch::kScriptBytesMax, "slurm-%j.out"));
  submission.job.slurm_names = true;
  submission.job.env.push_back(fmt::format("{}={}", kStepIoVariable, to_text(io)));

  auto client = BOURSE_TRY(BatchClient::open(wish.dir));
  const Interruptible interruptible;
  batch::SubmitRequest request;
  request.items.push_back({submission_key(), submission.job});
  auto reply = BOURSE_TRY(call<batch::SubmitReply>(*client, request));
  if (reply.items.size() != 1) return Error(Code::kCorrupt, "the answer names no job");
  if (reply.items[0].code != Code::kOk) return Error(reply.items[0].code, reply.items[0].reason);
  const batch::JobId id = reply.items[0].id;
  client->send(batch::WatchRequest{{{id, ""}}});
  const Duration begun = real_time().mono;
  bool said = false;
  while (true) {
    auto next = client->next(kLook);
    const Duration waited = real_time().mono - begun;
    if (g_interrupted != 0 || waited > wish.patience) {
      cancel(*client, id, g_interrupted != 0 ? wish.program + " was interrupted" : wish.program + " did not want to wait longer");
      return g_interrupted != 0 ? Error(Code::kGone, fmt::format("interrupted; job {} is cancelled", id.value))
                                : Error(Code::kTimeout, fmt::format("job {} did not start within {} and is cancelled", id.value,
                                                                    format_duration(wish.patience)));
    }
    if (!next) {
      if (next.error().code() == Code::kGone) {  // the framework restarts; the job is in its queue
        BOURSE_TRY(client->reconnect());
        client->send(batch::WatchRequest{{{id, ""}}});
      } else if (next.error().code() != Code::kTimeout) {
        return std::move(next).error();
      }
      if (!wish.quiet && !said && waited > kSilentFor) {
        fmt::print(stderr, "{}: job {} queued and waiting for resources\n", wish.program, id.value);
        said = true;
      }
      continue;
    }
    const auto* changed = std::get_if<batch::JobChanged>(&next->body);
    if (changed == nullptr || changed->asked.job != id) continue;
    if (changed->job.state == batch::JobState::kRunning) break;
    if (changed->last || changed->code != Code::kOk) {
      auto info = BOURSE_TRY(look_up(*client, id));
      return Error(Code::kGone, fmt::format("job {} ended {} before it could be used{}", id.value, batch::state_name(info.state),
                                            info.reason_text.empty() ? "" : ": " + info.reason_text));
    }
  }
  job->info_ = BOURSE_TRY(look_up(*client, id));
  if (said) fmt::print(stderr, "{}: job {} has been allocated resources\n", wish.program, id.value);
  return job;
}

void HeldJob::end(int status) {
  desk_.say(guest_, step_frame(StepWord::kBye, std::to_string(status)));
  const Duration until = real_time().mono + kLastWords;
  while (!heard_ && real_time().mono < until)
    if (!desk_.reactor().turn(milliseconds(100))) break;
}

}  // namespace bourse::cli
