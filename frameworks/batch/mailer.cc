#include "frameworks/batch/mailer.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "common/core/hooks.h"
#include "common/world/files.h"
#include "common/world/log.h"
#include "common/world/spawn.h"

namespace bourse::batch {
namespace {

constexpr std::size_t kBodyMax = 32 * 1024;  // less than a pipe holds, so that writing it never waits

bool is_sendmail(const std::string& program) { return program.substr(program.rfind('/') + 1) == "sendmail"; }

}  // namespace

std::string find_mail_program(const std::string& setting) {
  if (setting == "none") return "";
  if (!setting.empty()) return access(setting.c_str(), X_OK) == 0 ? setting : "";
  for (const char* path : {"/usr/bin/mail", "/bin/mail", "/usr/sbin/sendmail", "/usr/lib/sendmail"})
    if (access(path, X_OK) == 0) return path;
  return "";
}

std::string message_of(const Mail& mail) {
  return "To: " + mail.to + "\nSubject: " + mail.subject +
         "\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\nAuto-Submitted: "
         "auto-generated\n\n" +
         mail.body;
}

Mailer::Mailer(Reactor& reactor, std::string program, Duration limit)
    : reactor_(reactor), program_(std::move(program)), limit_(limit) {}

Mailer::~Mailer() {
  for (auto& [pid, running] : running_) {
    reactor_.cancel(running.timer);
    reactor_.unwatch(running.watch);
    kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

void Mailer::add(Mail mail) {
  if (program_.empty()) return;
  if (waiting_.size() >= kWaitingMax && !hooks::mutant("mailer.unbounded")) {
    ++dropped_;
    return warn(mail.to, std::to_string(kWaitingMax) + " wait to be sent already");
  }
  waiting_.push_back(std::move(mail));
  next();
}

void Mailer::next() {
  while (!waiting_.empty() && (running_.size() < kRunningMax || hooks::mutant("mailer.all_at_once"))) {
    const Mail mail = std::move(waiting_.front());
    waiting_.pop_front();
    start(mail);
  }
}

void Mailer::start(const Mail& mail) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return warn(mail.to, std::string("pipe: ") + std::strerror(errno));
  const std::string body = (is_sendmail(program_) ? message_of(mail) : mail.body).substr(0, kBodyMax);
  const bool written = write(ends[1], body.data(), body.size()) == static_cast<ssize_t>(body.size());
  close(ends[1]);
  SpawnOptions options;
  options.argv = is_sendmail(program_) ? std::vector<std::string>{program_, "-i", "-t"}
                                       : std::vector<std::string>{program_, "-s", mail.subject, mail.to};
  options.env = mail.env;
  options.directory = "/";
  options.stdin_path = "";
  options.stdout_path = options.stderr_path = "/dev/null";
  options.own_session = true;
  options.pass = {{ends[0], 0}};
  const Result<pid_t> pid = written ? spawn(options) : Result<pid_t>(Error(Code::kIo, "the text could not be written"));
  close(ends[0]);
  if (!pid) return warn(mail.to, pid.error().text());
  Running& running = running_[*pid];
  running.to = mail.to;
  running.watch = reactor_.on_exit(*pid, [this, pid = *pid](int status) { ended(pid, status); });
  running.timer = reactor_.after(limit_, [this, pid = *pid] {
    running_.at(pid).late = true;
    running_.at(pid).timer = 0;
    kill(-pid, SIGKILL);
  });
}

void Mailer::ended(pid_t pid, int wait_status) {
  auto node = running_.extract(pid);
  if (node.empty()) return;
  if (node.mapped().timer != 0) reactor_.cancel(node.mapped().timer);
  if (node.mapped().late)
    warn(node.mapped().to, program_ + " did not end in time");
  else if (WIFSIGNALED(wait_status))
    warn(node.mapped().to, program_ + " was ended by signal " + std::to_string(WTERMSIG(wait_status)));
  else if (wait_status != -1 && WEXITSTATUS(wait_status) != 0)
    warn(node.mapped().to, program_ + " exited with " + std::to_string(WEXITSTATUS(wait_status)));
  next();
}

// One line a minute: where one fails, many do.
void Mailer::warn(const std::string& to, const std::string& reason) {
  ++faults_;
  const Duration now = real_time().mono;
  if (now - warned_ < kWarnEvery && warned_ != -kNoLimit) return;
  warned_ = now;
  log_event(LogLevel::kWarn, "mail_not_sent",
            {{"to", to}, {"reason", reason}, {"failed", std::to_string(faults_)}, {"dropped", std::to_string(dropped_)}});
}

}  // namespace bourse::batch
