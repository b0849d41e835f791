// Hands mail to the site's mail program (batch.mail_program), and never waits for it.
//
// Owned by bourse-batch; on the reactor's thread. A few at a time, each with a time limit; so many wait, and what is beyond is dropped and
// said once a minute. The program is called as Slurm calls its MailProg, `PROGRAM -s SUBJECT ADDRESS`, with the text on its
// standard input; one named sendmail gets a whole message (`sendmail -i -t`). No shell is involved. It runs as this process's user.
#pragma once

#include <deque>
#include <map>
#include <string>

#include "common/core/action.h"
#include "common/world/reactor.h"

namespace bourse::batch {

class Mailer {
 public:
  static constexpr std::size_t kWaitingMax = 1000, kRunningMax = 4;
  static constexpr Duration kTimeLimit = seconds(60), kWarnEvery = seconds(60);

  Mailer(Reactor& reactor, std::string program, Duration limit = kTimeLimit);
  ~Mailer();  // what waits is dropped; those that run are killed
  void add(Mail mail);
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Running {
    Reactor::WatchId watch = 0;
    Reactor::TimerId timer = 0;
    std::string to;
    bool late = false;
  };
  void next();
  void start(const Mail& mail);
  void ended(pid_t pid, int wait_status);
  void warn(const std::string& to, const std::string& reason);

  Reactor& reactor_;
  const std::string program_;
  const Duration limit_;
  std::deque<Mail> waiting_;
  std::map<pid_t, Running> running_;
  std::uint64_t dropped_ = 0, faults_ = 0;
  Duration warned_{-kNoLimit};
};

// What batch.mail_program says: the path of a program; "" is mail, else sendmail, where they usually are; "none" is nobody. Empty
// where there is none.
std::string find_mail_program(const std::string& setting);
// The whole message, with its headers, for one that is called as sendmail.
std::string message_of(const Mail& mail);

}  // namespace bourse::batch
