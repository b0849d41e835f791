// What users are told by mail: of which moments, in which words, and the program that sends it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "frameworks/batch/mailer.h"
#include "tests/batch/house.h"

namespace bourse::batch::test {
namespace {

using Strings = std::vector<std::string>;

// sbatch(1), --mail-type, of Slurm 22.05.
TEST(MailTypes, AreSlurmsWordsInAnyCase) {
  const auto set = [](const char* text) { return *parse_mail_types(text); };
  EXPECT_EQ(set(""), 0);
  EXPECT_EQ(set("NONE"), 0);
  EXPECT_TRUE(wants(set("begin,End"), MailOn::kBegin) && wants(set("begin,End"), MailOn::kEnd));
  EXPECT_EQ(set("ALL"), set("BEGIN,END,FAIL,INVALID_DEPEND,REQUEUE,STAGE_OUT"));
  EXPECT_TRUE(wants(set("TIME_LIMIT_90"), MailOn::kTimeLimit90));
  EXPECT_FALSE(wants(set("TIME_LIMIT_90"), MailOn::kTimeLimit));
  const auto wrong = parse_mail_types("BEGIN,ENDD");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().text().find("'ENDD' is no --mail-type; did you mean END?"), std::string::npos) << wrong.error().text();
}

TEST(MailTypes, AnAddressIsNoCommandAndNoFile) {
  for (const char* good : {"", "ann", "ann@example.org", "a.b+c@x-y.example,d_e@example.org"})
    EXPECT_TRUE(check_mail_address(good)) << good;
  for (const char* bad : {"|sh", "/etc/passwd", "-f", "a b", "a\nBcc: x@example.org", "a;b", "\"x\"@y", "~x"})
    EXPECT_FALSE(check_mail_address(bad)) << bad;
}

BatchOptions with_mail() {
  BatchOptions o = House::defaults();
  o.mail = true;
  return o;
}

struct BatchMail : ::testing::Test {
  House house{with_mail()};
  BatchMail() {
    house.add_agent("h1", 4);
    house.start();
  }
  static JobSpec job(const std::string& types, std::int64_t minutes = 10) {
    JobSpec s = House::job("relax");
    s.time_limit = seconds(minutes * 60);
    s.mail_type = types;
    return s;
  }
  Strings subjects() {
    Strings out;
    for (const Mail& mail : house.mails) out.push_back(mail.subject);
    house.mails.clear();
    return out;
  }
};

TEST_F(BatchMail, TellsWhatWasAskedForAndNothingElse) {
  house.submit(job(""));
  house.submit(job("BEGIN"));
  house.submit(job("END"));
  house.submit(job("FAIL"));
  house.pass(seconds(30));
  EXPECT_EQ(subjects(), Strings{"Bourse Job_id=2 Name=relax Began, Queued time 00:00:00"});
  for (const char* task : {"1.0.1", "2.0.1", "3.0.1", "4.0.1"}) house.end(task, 0, seconds(30));
  EXPECT_EQ(subjects(), Strings{"Bourse Job_id=3 Name=relax Ended, Run time 00:00:30, COMPLETED, ExitCode 0"});
}

// job_completion_logger() of Slurm: what failed is told as failed to who asked for FAIL, else as ended to who asked for END.
TEST_F(BatchMail, WhatFailedIsToldOnceAsFailed) {
  house.submit(job("END,FAIL"));
  house.submit(job("END"));
  JobSpec slurm = job("ALL");
  slurm.slurm_names = true;
  house.submit(slurm);
  subjects();
  house.pass(seconds(90));
  house.end("1.0.1", 3, seconds(90));
  house.end("2.0.1", TaskState::kSignaled, 11);
  house.end("3.0.1", TaskState::kOutOfMemory, 9);
  EXPECT_EQ(subjects(), (Strings{"Bourse Job_id=1 Name=relax Failed, Run time 00:01:30, FAILED, ExitCode 3",
                                 "Bourse Job_id=2 Name=relax Ended, Run time 00:01:30, FAILED, ExitCode 0:11",
                                 "Slurm Job_id=3 Name=relax Failed, Run time 00:01:30, OUT_OF_MEMORY, ExitCode 0:9"}));
}

TEST_F(BatchMail, AnEndIsToldOnlyWhenItIsOnRecord) {
  house.submit(job("END"));
  house.disk_slow = true;
  house.end("1.0.1");
  EXPECT_TRUE(house.mails.empty());
  house.release_disk();
  EXPECT_EQ(house.mails.size(), 1U);
  EXPECT_EQ(house.mails[0].to, "ann");
  EXPECT_NE(house.mails[0].body.find("1 ended COMPLETED: exit code 0"), std::string::npos) << house.mails[0].body;
}

TEST_F(BatchMail, TheTimeLimitIsToldByPartsAndWhenItIsReached) {
  JobSpec s = job("TIME_LIMIT_50,TIME_LIMIT_90,TIME_LIMIT,FAIL", 100);
  s.mail_user = "boss@example.org";
  house.submit(s);
  house.pass(seconds(49 * 60));
  EXPECT_EQ(subjects(), Strings{});
  house.pass(seconds(2 * 60));
  ASSERT_EQ(house.mails.size(), 1U);
  EXPECT_EQ(house.mails[0].to, "boss@example.org");
  EXPECT_EQ(subjects(), Strings{"Bourse Job_id=1 Name=relax Reached 50% of time limit"});
  house.pass(seconds(38 * 60));
  EXPECT_EQ(subjects(), Strings{});
  house.pass(seconds(2 * 60));
  EXPECT_EQ(subjects(), Strings{"Bourse Job_id=1 Name=relax Reached 90% of time limit"});
  house.end("1.0.1", TaskState::kTimeLimit, 15);
  const Strings last = subjects();
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(last[0], "Bourse Job_id=1 Name=relax Reached time limit");
  EXPECT_NE(last[1].find("TIMEOUT"), std::string::npos) << last[1];
}

TEST_F(BatchMail, OfOneThatEndedBeforeNothingMoreIsTold) {
  house.submit(job("TIME_LIMIT_50"));
  house.end("1.0.1");
  house.pass(seconds(3600));
  EXPECT_EQ(subjects(), Strings{});
}

TEST_F(BatchMail, AnArrayIsToldOfAsAWholeUnlessEachTaskIsAskedFor) {
  JobSpec s = job("BEGIN,END,FAIL");
  s.array = "1-3";
  house.submit(s);
  for (const char* task : {"1.1.1", "1.2.1"}) house.end(task);
  house.end("1.3.1", 1);
  EXPECT_EQ(subjects(), (Strings{"Bourse Array Summary Job_id=1_* Name=relax Began, Queued time 00:00:00",
                                 "Bourse Array Summary Job_id=1_* Name=relax Failed, Mixed, 1 of 3 tasks failed"}));
  s.mail_type = "END,ARRAY_TASKS";
  const JobId id = house.submit(s);
  const std::string n = std::to_string(id.value);
  for (const char* index : {"1", "2", "3"}) house.end(n + "." + index + ".1");
  const Strings each = subjects();
  ASSERT_EQ(each.size(), 3U);
  EXPECT_EQ(each[1].substr(0, each[1].find(" Ended")), "Bourse Job_id=" + n + "_2 Name=relax");
}

TEST_F(BatchMail, ARequeueIsTold) {
  JobSpec s = job("REQUEUE");
  s.requeue = true;
  house.submit(s);
  house.end("1.0.1", TaskState::kLost);
  EXPECT_EQ(subjects(), Strings{"Bourse Job_id=1 Name=relax Requeued"});
}

TEST_F(BatchMail, WhatBeganInAFormerLifeIsNotToldAgain) {
  house.submit(job("BEGIN,TIME_LIMIT_90"));
  EXPECT_EQ(subjects().size(), 1U);
  house.restart();
  EXPECT_EQ(subjects(), Strings{});
  house.pass(seconds(600));
  EXPECT_EQ(subjects(), Strings{"Bourse Job_id=1 Name=relax Reached 90% of time limit"});
}

TEST_F(BatchMail, AJobsNameCannotWriteHeadersNorCommands) {
  JobSpec s = job("END");
  s.name = "x\nBcc: all@example.org\n~!touch /tmp/y";
  house.submit(s);
  house.end("1.0.1");
  ASSERT_EQ(house.mails.size(), 1U);
  EXPECT_EQ(house.mails[0].subject.find('\n'), std::string::npos);
  EXPECT_EQ(("\n" + house.mails[0].body).find("\n~"), std::string::npos);
  EXPECT_EQ(message_of(house.mails[0]).find("\nBcc"), std::string::npos);
}

TEST_F(BatchMail, WhereNobodySendsItTheUserIsTold) {
  House none;
  none.add_agent("h1", 1);
  none.start();
  none.submit(job("END"));
  EXPECT_EQ(none.refusal, "mail will not be sent: there is no mail program here (batch.mail_program)");
  EXPECT_NE(none.submit(job("END")), JobId());
  none.end("1.0.1");
  EXPECT_TRUE(none.mails.empty());
  EXPECT_EQ(house.submit(job("ENDE")), JobId());
}

// --- the program ---------------------------------------------------------------------------------------------------------

struct MailerTest : ::testing::Test {
  std::filesystem::path dir;
  Reactor reactor;
  MailerTest() {
    std::string name = std::filesystem::temp_directory_path() / "bourse-mail-XXXXXX";
    dir = mkdtemp(name.data());
  }
  ~MailerTest() override { std::filesystem::remove_all(dir); }
  std::string program(const std::string& name, const std::string& text) {
    const auto path = dir / name;
    std::ofstream(path) << "#!/bin/sh\ncd " << dir.string() << "\n" << text;
    chmod(path.c_str(), 0755);
    return path;
  }
  std::string read(const std::string& name) {
    std::ifstream in(dir / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::size_t files(const std::string& prefix) {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir))
      if (entry.path().filename().string().starts_with(prefix)) ++count;
    return count;
  }
  template <class F>
  bool until(F done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      reactor.turn(milliseconds(20));
    }
    return true;
  }
};

TEST_F(MailerTest, TheProgramGetsSubjectAddressAndText) {
  Mailer mailer(reactor, program("mail", "printf '%s\\n' \"$@\" >args; cat >text; echo \"$SLURM_JOB_ID\" >env; mv env done\n"));
  mailer.add({"ann@example.org", "a subject; with $(words)", "line 1\nline 2\n", {"SLURM_JOB_ID=7"}});
  ASSERT_TRUE(until([&] { return files("done") == 1; }));
  EXPECT_EQ(read("args"), "-s\na subject; with $(words)\nann@example.org\n");
  EXPECT_EQ(read("text"), "line 1\nline 2\n");
  EXPECT_EQ(read("done"), "7\n");
}

TEST_F(MailerTest, SendmailGetsAWholeMessage) {
  Mailer mailer(reactor, program("sendmail", "echo \"$@\" >args; cat >text; mv args done\n"));
  mailer.add({"ann", "s", "body\n", {}});
  ASSERT_TRUE(until([&] { return files("done") == 1; }));
  EXPECT_EQ(read("done"), "-i -t\n");
  EXPECT_TRUE(read("text").starts_with("To: ann\nSubject: s\n")) << read("text");
  EXPECT_TRUE(read("text").ends_with("\n\nbody\n"));
}

TEST_F(MailerTest, OneThatHangsDelaysOnlySomeAndIsEnded) {
  const std::string path = program("mail", "case $2 in hang*) touch hung.$2; exec sleep 600;; esac; touch sent.$2\n");
  Mailer mailer(reactor, path, milliseconds(1500));
  for (int i = 0; i < 5; ++i) mailer.add({"ann", "hang" + std::to_string(i), "", {}});
  mailer.add({"ann", "ok", "", {}});
  EXPECT_EQ(mailer.waiting(), 2U) << "no more than four run at a time";
  ASSERT_TRUE(until([&] { return files("sent.ok") == 1; }));
  EXPECT_EQ(files("hung."), 5U);
}

TEST_F(MailerTest, WhatIsTooMuchIsDropped) {
  Mailer mailer(reactor, program("mail", "exec sleep 600\n"));
  for (std::size_t i = 0; i < Mailer::kWaitingMax + 100; ++i) mailer.add({"ann", "s", "", {}});
  EXPECT_EQ(mailer.waiting(), Mailer::kWaitingMax);
}

TEST_F(MailerTest, AProgramThatIsNotThereIsNoProgram) {
  EXPECT_EQ(find_mail_program("none"), "");
  EXPECT_EQ(find_mail_program((dir / "no").string()), "");
  const std::string path = program("mine", "");
  EXPECT_EQ(find_mail_program(path), path);
  std::filesystem::remove(path);
  Mailer mailer(reactor, path);  // gone since
  mailer.add({"ann", "s", "", {}});
  EXPECT_EQ(mailer.waiting(), 0U);
}

}  // namespace
}  // namespace bourse::batch::test
