// The record log against torn tails, damage, a full disk, kill -9 and a second process.
#include "common/world/log_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "common/core/hooks.h"
#include "common/world/digest.h"
#include "common/world/files.h"
#include "tests/world/support.h"

namespace bourse {
namespace {

using test::in_child;
using test::run_until;
using test::TempDir;

std::string bytes_of(const std::string& path) { return *read_file(path, SIZE_MAX); }

struct LogFileTest : testing::Test {
  TempDir dir;
  std::string path = dir / "state/log";
  Reactor reactor;

  std::unique_ptr<LogFile> open(LogFile::Content& content) {
    auto log = LogFile::open(path, content);
    EXPECT_TRUE(log) << log.error().text();
    return log ? std::move(*log) : nullptr;
  }
};

// RFC 3720 B.4.
TEST(Crc32c, MatchesTheVectorsOfRfc3720) {
  std::string up, down;
  for (int i = 0; i < 32; ++i) up.push_back(static_cast<char>(i));
  for (int i = 31; i >= 0; --i) down.push_back(static_cast<char>(i));
  std::string read10(48, '\0');  // an iSCSI SCSI Read (10) command PDU
  const unsigned char set[][2] = {{0, 0x01}, {1, 0xc0}, {16, 0x14}, {22, 0x04}, {27, 0x14}, {31, 0x18}, {32, 0x28}, {40, 0x02}};
  for (const auto& [at, value] : set) read10[at] = static_cast<char>(value);
  const std::pair<std::string, std::uint32_t> vectors[] = {{std::string(32, '\0'), 0x8a9136aaU},
                                                           {std::string(32, '\xff'), 0x62a8ab43U},
                                                           {up, 0x46dd794eU},
                                                           {down, 0x113fdb5cU},
                                                           {read10, 0xd9963a56U},
                                                           {"123456789", 0xe3069283U}};
  for (const auto& [bytes, sum] : vectors) {
    EXPECT_EQ(crc32c(bytes), sum);
    EXPECT_EQ(crc32c_by_table(bytes), sum);
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) EXPECT_EQ(crc32c(bytes.substr(cut), crc32c(bytes.substr(0, cut))), sum);
  }
}

// FIPS 180-2 appendix B.
TEST(Digest, MatchesTheVectorsOfFips180) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_F(LogFileTest, RecordsComeBackInOrderAfterReopening) {
  const std::vector<std::string> records = {"one", "", std::string("\0\1\2", 3), std::string(100'000, 'x')};
  LogFile::Content content;
  {
    auto log = open(content);
    EXPECT_TRUE(content.records.empty());
    ASSERT_TRUE(log->append_now(Safety::kPower, {records[0], records[1]}));
    ASSERT_TRUE(log->append_now(Safety::kProcess, {records[2], records[3]}));
    EXPECT_EQ(log->bytes(), bytes_of(path).size());
  }
  auto log = open(content);
  EXPECT_EQ(content.records, records);
  EXPECT_EQ(content.torn_bytes, 0U);
  struct stat st {};
  ASSERT_EQ(stat((dir / "state").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700U);
}

TEST_F(LogFileTest, ATailTornAtAnyByteLosesOnlyTheRecordThatWasTorn) {
  LogFile::Content content;
  std::vector<std::uint64_t> ends;
  {
    auto log = open(content);
    ends.push_back(log->bytes());
    for (const char* record : {"first", "second record", "third, the last one"}) {
      ASSERT_TRUE(log->append_now(Safety::kProcess, {record}));
      ends.push_back(log->bytes());
    }
  }
  const std::string whole = bytes_of(path);
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    ASSERT_TRUE(write_file(path, whole.substr(0, size), 0600));
    std::size_t kept = 0;
    while (kept + 1 < ends.size() && ends[kept + 1] <= size) ++kept;
    {
      auto log = LogFile::open(path, content);
      ASSERT_TRUE(log) << "cut at " << size << ": " << log.error().text();
      EXPECT_EQ(content.records.size(), kept) << "cut at " << size;
      EXPECT_EQ(content.torn_bytes, size < 16 ? size : size - ends[kept]) << "cut at " << size;
      ASSERT_TRUE((*log)->append_now(Safety::kProcess, {"new"}));
    }
    auto log = LogFile::open(path, content);  // and what is written after the cut is whole
    ASSERT_TRUE(log);
    ASSERT_EQ(content.records.size(), kept + 1);
    EXPECT_EQ(content.records.back(), "new");
    EXPECT_EQ(content.torn_bytes, 0U);
  }
}

TEST_F(LogFileTest, AFlippedByteBeforeValidRecordsIsCorruptAndInTheLastIsATornTail) {
  LogFile::Content content;
  std::uint64_t last = 0;
  {
    auto log = open(content);
    ASSERT_TRUE(log->append_now(Safety::kProcess, {"first", "second"}));
    last = log->bytes();
    ASSERT_TRUE(log->append_now(Safety::kProcess, {"third"}));
  }
  const std::string whole = bytes_of(path);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    ASSERT_TRUE(write_file(path, damaged, 0600));
    const auto log = LogFile::open(path, content);
    if (at < last) {
      ASSERT_FALSE(log) << "byte " << at;
      EXPECT_EQ(log.error().code(), Code::kCorrupt) << "byte " << at;
      EXPECT_NE(log.error().text().find(path), std::string::npos);
      EXPECT_EQ(bytes_of(path), damaged) << "a file that is refused is left as it is";
    } else {
      ASSERT_TRUE(log) << "byte " << at;
      EXPECT_EQ(content.records.size(), 2U);
      EXPECT_EQ(content.torn_bytes, whole.size() - last);
    }
  }
}

TEST_F(LogFileTest, AFileThatIsNoLogIsNotTouched) {
  ASSERT_TRUE(make_directories(dir / "state"));
  const std::string letter = "Dear diary, this is not a log of Bourse.\n";
  ASSERT_TRUE(write_file(path, letter));
  LogFile::Content content;
  const auto log = LogFile::open(path, content);
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().code(), Code::kCorrupt);
  EXPECT_EQ(bytes_of(path), letter);
}

TEST_F(LogFileTest, ASecondProcessIsToldThatItIsBusy) {
  LogFile::Content content;
  auto log = open(content);
  EXPECT_EQ(in_child([&] {
              LogFile::Content mine;
              const auto second = LogFile::open(path, mine);
              return !second && second.error().code() == Code::kBusy ? 0 : 1;
            }),
            0);
  ASSERT_TRUE(log->compact("state"));  // the new file is held too
  const auto second = LogFile::open(path, content);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kBusy);
}

TEST_F(LogFileTest, CompactionReplacesTheRecordsByTheSnapshot) {
  LogFile::Content content;
  {
    auto log = open(content);
    ASSERT_TRUE(log->append_now(Safety::kPower, std::vector<std::string>(1000, "a record")));
    const auto before = log->bytes();
    ASSERT_TRUE(log->compact("all of it"));
    EXPECT_LT(log->bytes(), before);
    ASSERT_TRUE(log->append_now(Safety::kPower, {"later"}));
  }
  auto log = open(content);
  EXPECT_EQ(content.snapshot, "all of it");
  EXPECT_EQ(content.records, std::vector<std::string>{"later"});
  EXPECT_NE(access((path + ".new").c_str(), F_OK), 0);
}

TEST_F(LogFileTest, ADeathWithinCompactionLeavesTheOldOrTheNewNeverLess) {
  for (const char* point : {"log_file.before_rename", "log_file.after_rename"}) {
    SCOPED_TRACE(point);
    LogFile::Content content;
    ASSERT_TRUE(open(content)->compact("nothing yet"));
    EXPECT_EQ(in_child([&] {
                LogFile::Content mine;
                auto log = LogFile::open(path, mine);
                if (!log || !(*log)->append_now(Safety::kPower, {"one", "two"})) return 1;
                hooks::init(point, nullptr);
                (void)(*log)->compact("one and two");
                return 2;
              }),
              1000 + SIGKILL);
    auto log = open(content);
    ASSERT_NE(log, nullptr);
    if (content.snapshot == "one and two") {
      EXPECT_TRUE(content.records.empty());
    } else {
      EXPECT_EQ(content.snapshot, "nothing yet");
      EXPECT_EQ(content.records, (std::vector<std::string>{"one", "two"}));
    }
    EXPECT_NE(access((path + ".new").c_str(), F_OK), 0);
  }
}

TEST_F(LogFileTest, KillNineLosesNoRecordThatWasWritten) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    LogFile::Content mine;
    auto log = LogFile::open(path, mine);
    for (std::uint32_t i = 0; log; ++i) {
      if (!(*log)->append_now(Safety::kProcess, {std::to_string(i)})) _exit(1);
      if (!write_all(pipe_fds[1], {reinterpret_cast<const char*>(&i), sizeof i})) _exit(1);
    }
    _exit(2);
  }
  close(pipe_fds[1]);
  std::uint32_t acknowledged = 0;
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(read(pipe_fds[0], &acknowledged, 4), 4);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  std::uint32_t more = 0;
  while (read(pipe_fds[0], &more, 4) == 4) acknowledged = more;
  close(pipe_fds[0]);
  LogFile::Content content;
  auto log = open(content);
  ASSERT_GT(content.records.size(), acknowledged);
  for (std::size_t i = 0; i < content.records.size(); ++i) EXPECT_EQ(content.records[i], std::to_string(i));
}

TEST_F(LogFileTest, AppendsWhileAFlushIsUnderWayShareTheNextOne) {
  LogFile::Content content;
  auto log = open(content);
  const auto before = log->flushes();
  std::vector<int> answered;
  constexpr int kAppends = 500;
  for (int i = 0; i < kAppends; ++i)
    log->append(reactor, Safety::kPower, {std::to_string(i)}, [&, i](const Result<>& result) {
      EXPECT_TRUE(result);
      answered.push_back(i);
    });
  EXPECT_TRUE(answered.empty()) << "answered on the loop, not within append";
  ASSERT_TRUE(run_until(reactor, [&] { return answered.size() == kAppends; }));
  for (int i = 0; i < kAppends; ++i) EXPECT_EQ(answered[static_cast<std::size_t>(i)], i);
  const auto flushes = log->flushes() - before;
  EXPECT_GE(flushes, 1U);
  EXPECT_LT(flushes, kAppends / 2);
}

TEST_F(LogFileTest, AProcessAppendIsAnsweredAtOnceAndFlushesNothing) {
  LogFile::Content content;
  auto log = open(content);
  const auto before = log->flushes();
  bool answered = false;
  log->append(reactor, Safety::kProcess, {"x"}, [&](const Result<>& result) { answered = bool(result); });
  EXPECT_TRUE(answered);
  EXPECT_EQ(log->flushes(), before);
}

// What a full disk must look like, wherever it comes from: `make_room` ends it.
int full_disk(const std::string& path, const std::function<void()>& make_room) {
  LogFile::Content content;
  auto opened = LogFile::open(path, content);
  if (!opened) return 10;
  auto log = std::move(*opened);
  if (!log->append_now(Safety::kPower, {"before"})) return 11;
  const std::string big(9000, 'b');
  int kept = 0;
  while (kept < 1000 && log->append_now(Safety::kPower, {big})) ++kept;
  if (kept == 1000) return 12;
  Reactor reactor;
  std::string reason;
  log->append(reactor, Safety::kPower, {big}, [&](const Result<>& r) { reason = r ? "none" : r.error().text(); });
  if (!run_until(reactor, [&] { return !reason.empty(); }) || reason == "none") return 13;
  make_room();
  if (!log->append_now(Safety::kPower, {"after"})) return 14;
  log.reset();
  if (!LogFile::open(path, content) || content.torn_bytes != 0) return 15;
  if (content.records.size() != static_cast<std::size_t>(kept) + 2) return 16;
  return content.records.front() == "before" && content.records.back() == "after" ? 0 : 17;
}

TEST_F(LogFileTest, AFileSizeLimitFailsTheAppendAndLeavesNoHalfRecord) {
  EXPECT_EQ(in_child([&] {
              (void)std::signal(SIGXFSZ, SIG_IGN);
              const rlimit small{50'000, RLIM_INFINITY}, large{RLIM_INFINITY, RLIM_INFINITY};
              setrlimit(RLIMIT_FSIZE, &small);
              return full_disk(path, [&] { setrlimit(RLIMIT_FSIZE, &large); });
            }),
            0);
}

TEST_F(LogFileTest, AFullDiskFailsTheAppendAndLeavesNoHalfRecord) {
  if (getuid() != 0) GTEST_SKIP() << "needs root for a file system of its own";
  ASSERT_TRUE(make_directories(dir / "disk"));
  EXPECT_EQ(in_child([&] {
              if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 20;
              if (mount("tmpfs", (dir / "disk").c_str(), "tmpfs", 0, "size=64k") != 0) return 21;
              if (!write_file(dir / "disk/ballast", std::string(16'384, 'x'))) return 22;
              return full_disk(dir / "disk/log", [&] { unlink((dir / "disk/ballast").c_str()); });
            }),
            0);
}

}  // namespace
}  // namespace bourse
