// The store with real SQLite: what was told is on the disk, also when the writer is killed between commits or the log is torn.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "frameworks/batch/history.h"
#include "frameworks/batch/records.h"
#include "frameworks/batch/sql.h"
#include "frameworks/batch/store.h"

namespace bourse::batch {
namespace {

struct StoreTest : ::testing::Test {
  std::string dir = [] {
    std::string t = (std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") + std::string("/bourse-store-XXXXXX");
    return std::string(mkdtemp(t.data()));
  }();
  std::string path = dir + "/queue.db";
  ~StoreTest() override { std::filesystem::remove_all(dir); }

  static std::string submit(std::uint64_t id, std::uint64_t ids = 1, const std::string& key = {}) {
    JobSpec spec;
    spec.name = "n" + std::to_string(id), spec.user = "ann", spec.uid = 1000;
    return encode(Record(SubmitRecord{JobId(id), ids, key, seconds(5), encode_spec(spec), "sha256:s", "sha256:e"}));
  }
  static std::string end(std::uint64_t id, JobState state = JobState::kCompleted, const std::string& user = "ann") {
    JobInfo info;
    info.id = JobId(id), info.user = user, info.name = "n" + std::to_string(id), info.uid = 1000, info.state = state,
    info.full = true;
    info.started = seconds(static_cast<std::int64_t>(id)), info.ended = seconds(static_cast<std::int64_t>(id) + 1);
    return encode(Record(EndRecord{JobId(id), 0, 0, state, true, id, encode_info(info)}));
  }
  template <class R>
  static std::vector<R> of(const std::vector<std::string>& records) {
    std::vector<R> out;
    for (const auto& bytes : records)
      if (auto r = decode_record(bytes); r && std::holds_alternative<R>(*r)) out.push_back(std::get<R>(*r));
    return out;
  }
  std::vector<std::string> load() {
    std::vector<std::string> records;
    auto store = Store::open(path, records);
    EXPECT_TRUE(store) << store.error().text();
    return records;
  }
};

TEST_F(StoreTest, GivesBackWhatHasNotEndedAndHowTheRestEnded) {
  std::vector<std::string> none;
  {
    auto store = Store::open(path, none);
    ASSERT_TRUE(store) << store.error().text();
    ASSERT_TRUE(
        (*store)->append_now({encode(Record(BlobRecord{"sha256:s", "#!/bin/sh\n"})), encode(Record(BlobRecord{"sha256:e", "A=1"})),
                              submit(1, 1, "k1"), submit(2), submit(3, 11), encode(Record(HintRecord{JobId(2), 0, 1, "h1", "9"})),
                              encode(Record(ChangeRecord{JobId(2), true, false}))}));
    ASSERT_TRUE((*store)->append_now({end(1)}));
    JobInfo part;
    part.id = JobId(4), part.array = JobId(3), part.indexes = "1";
    ASSERT_TRUE((*store)->append_now({encode(Record(EndRecord{JobId(3), 0, 2, JobState::kFailed, false, 4, encode_info(part)}))}));
    ASSERT_TRUE((*store)->append_now({encode(Record(AttemptRecord{JobId(3), 5, 2, 1, false}))}));
  }
  const auto records = load();
  const auto submits = of<SubmitRecord>(records);
  ASSERT_EQ(submits.size(), 2u);
  EXPECT_EQ(submits[0].id, JobId(2));
  EXPECT_EQ(of<BlobRecord>(records).size(), 2u);
  EXPECT_EQ(of<HintRecord>(records).at(0).slices, "9");
  EXPECT_TRUE(of<ChangeRecord>(records).at(0).held);
  EXPECT_EQ(of<EndRecord>(records).at(0).last, 2u);
  EXPECT_EQ(of<AttemptRecord>(records).at(0).attempt, 2u);
  const auto outcomes = of<OutcomeRecord>(records);
  ASSERT_EQ(outcomes.size(), 1u);  // job 1; the array is still alive
  EXPECT_EQ(outcomes[0].key, "k1");
  EXPECT_EQ(of<CounterRecord>(records).at(0).next, JobId(14));
}

TEST_F(StoreTest, IsForOneProcess) {
  std::vector<std::string> records;
  auto first = Store::open(path, records);
  ASSERT_TRUE(first);
  auto second = Store::open(path, records);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kBusy);
}

TEST_F(StoreTest, CommitsManyAppendsTogetherAndTellsInOrder) {
  std::vector<std::string> none;
  auto store = Store::open(path, none);
  ASSERT_TRUE(store);
  Reactor reactor;
  std::vector<int> told;
  constexpr int kMany = 500;
  for (int i = 0; i < kMany; ++i)
    (*store)->append(reactor, {{Safety::kPower, submit(static_cast<std::uint64_t>(i) + 1)}},
                     [&told, i, &reactor](const Result<>& r) {
                       EXPECT_TRUE(r);
                       told.push_back(i);
                       if (told.size() == kMany) reactor.stop();
                     });
  reactor.run();
  ASSERT_EQ(told.size(), static_cast<std::size_t>(kMany));
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_LT((*store)->commits(), 200u);
  EXPECT_EQ((*store)->records_written(), static_cast<std::uint64_t>(kMany));
}

// A child appends and says through a pipe what it was told is safe; it is killed at some moment. All it said must be there.
TEST_F(StoreTest, KeepsAllItToldWhenItsProcessIsKilled) {
  for (int round = 0; round < 5; ++round) {
    std::filesystem::remove_all(dir);
    int fds[2];
    ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) {
      std::vector<std::string> none;
      auto store = Store::open(path, none);
      if (!store) _exit(1);
      for (std::uint64_t id = 1;; ++id) {
        if (!(*store)->append_now({submit(id)})) _exit(1);
        if (write(fds[1], &id, sizeof id) != sizeof id) _exit(1);
      }
    }
    close(fds[1]);
    std::uint64_t last = 0, id = 0;
    while (last < static_cast<std::uint64_t>(20 + round * 13) && read(fds[0], &id, sizeof id) == sizeof id) last = id;
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    while (read(fds[0], &id, sizeof id) == static_cast<ssize_t>(sizeof id)) last = id;  // told before it died
    close(fds[0]);
    ASSERT_GT(last, 0u);
    const auto submits = of<SubmitRecord>(load());
    ASSERT_GE(submits.size(), last);
    for (std::uint64_t i = 0; i < last; ++i) ASSERT_EQ(submits[i].id, JobId(i + 1));
  }
}

// A commit that makes the log longer has two things to flush, the data and the inode.
TEST_F(StoreTest, HasTheSpaceOfItsLogBeforehandAndKeepsToIt) {
  std::vector<std::string> none;
  auto store = Store::open(path, none);
  ASSERT_TRUE(store);
  const auto size = std::filesystem::file_size(path + "-wal");
  struct statvfs disk {};
  ASSERT_EQ(statvfs(dir.c_str(), &disk), 0);
  if (disk.f_bavail * disk.f_frsize > (1ULL << 30)) { EXPECT_GT(size, 16'000'000u); }
  for (std::uint64_t id = 1; id <= 300; ++id) ASSERT_TRUE((*store)->append_now({submit(id)}));
  EXPECT_EQ(std::filesystem::file_size(path + "-wal"), size);
}

// Garbage at the end of the write-ahead log, as a torn write leaves it: what was committed before stays.
TEST_F(StoreTest, SurvivesATornTailOfItsLog) {
  std::string saved;
  {
    std::vector<std::string> none;
    auto store = Store::open(path, none);
    ASSERT_TRUE(store);
    for (std::uint64_t id = 1; id <= 20; ++id) ASSERT_TRUE((*store)->append_now({submit(id)}));
    // As it is on the disk at this moment; the orderly close would empty the log.
    std::filesystem::create_directories(dir + "/copy");
    std::filesystem::copy(path, dir + "/copy/queue.db");
    std::filesystem::copy(path + "-wal", dir + "/copy/queue.db-wal");
  }
  path = dir + "/copy/queue.db";
  std::string log(std::filesystem::file_size(path + "-wal"), '\0');
  const int fd = ::open((path + "-wal").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(pread(fd, log.data(), log.size(), 0), static_cast<ssize_t>(log.size()));
  const auto last = static_cast<off_t>(log.find_last_not_of('\0'));  // behind it are zeros, or the end of the file
  ASSERT_GT(last, 4096);
  const std::string junk(3000, '\x5a');
  ASSERT_EQ(pwrite(fd, junk.data(), junk.size(), last + 1), static_cast<ssize_t>(junk.size()));
  close(fd);
  EXPECT_EQ(of<SubmitRecord>(load()).size(), 20u);
}

TEST_F(StoreTest, RefusesAFileThatIsNoDatabase) {
  FILE* f = fopen(path.c_str(), "w");
  for (int i = 0; i < 1000; ++i) fputs("this is not a database\n", f);
  fclose(f);
  std::vector<std::string> records;
  auto store = Store::open(path, records);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), Code::kCorrupt) << store.error().text();
}

TEST_F(StoreTest, ReadsTheHistoryInPagesNewestFirstAndByFilter) {
  std::vector<std::string> none;
  auto store = Store::open(path, none);
  ASSERT_TRUE(store);
  std::vector<std::string> records;
  for (std::uint64_t id = 1; id <= 25; ++id) {
    records.push_back(submit(id));
    records.push_back(end(id, id % 5 == 0 ? JobState::kFailed : JobState::kCompleted, id % 2 == 0 ? "ann" : "bob"));
  }
  ASSERT_TRUE((*store)->append_now(records));
  Reactor reactor;
  auto history = History::open(path, reactor);
  ASSERT_TRUE(history) << history.error().text();
  HistoryRequest q;
  q.limit = 10;
  std::vector<std::uint64_t> ids;
  do {
    const auto page = (*history)->answer(q);
    ASSERT_EQ(page.code, Code::kOk) << page.reason;
    for (const JobInfo& row : page.rows) ids.push_back(row.id.value);
    q.after = page.next;
  } while (q.after != 0);
  ASSERT_EQ(ids.size(), 25u);
  EXPECT_EQ(ids.front(), 25u);
  EXPECT_EQ(ids.back(), 1u);
  q = {};
  q.filter.states = {JobState::kFailed};
  EXPECT_EQ((*history)->answer(q).rows.size(), 5u);
  q.filter.users = {"ann"};
  EXPECT_EQ((*history)->answer(q).rows.size(), 2u);
  q = {};
  q.filter.from = seconds(20), q.filter.to = seconds(22);
  EXPECT_EQ((*history)->answer(q).rows.size(), 4u);  // 19 ended at 20, 20, 21, 22 began by 22
  q = {};
  q.filter.names = {"x' OR 1=1 --"};
  EXPECT_TRUE((*history)->answer(q).rows.empty());
  EXPECT_EQ((*history)->answer(JobRequest{{JobId(7), {}}, false}).rows.at(0).user, "bob");
  EXPECT_EQ((*history)->answer(JobRequest{{JobId(99), {}}, false}).code, Code::kNotFound);
}

TEST_F(StoreTest, SaysThatTheHistoryCannotBeReadAndNotThatThereIsNoSuchJob) {
  std::vector<std::string> none;
  {
    auto store = Store::open(path, none);
    ASSERT_TRUE(store) << store.error().text();
    ASSERT_TRUE((*store)->append_now(
        {encode(Record(BlobRecord{"sha256:s", "#!/bin/sh\n"})), encode(Record(BlobRecord{"sha256:e", "A=1"})), submit(1), end(1)}));
  }
  Reactor reactor;
  auto history = History::open(path, reactor);
  ASSERT_TRUE(history) << history.error().text();
  ASSERT_EQ((*history)->answer(JobRequest{{JobId(1), ""}, false}).rows.size(), 1U);
  EXPECT_EQ((*history)->answer(JobRequest{{JobId(2), ""}, false}).code, Code::kNotFound);
  {
    Database db;
    ASSERT_TRUE(db.open(path, SQLITE_OPEN_READWRITE));
    ASSERT_TRUE(db.run("UPDATE history SET info = x'ff' WHERE id = 1"));
  }
  const JobReply broken = (*history)->answer(JobRequest{{JobId(1), ""}, false});
  EXPECT_TRUE(broken.code != Code::kOk && broken.code != Code::kNotFound) << static_cast<int>(broken.code);
  EXPECT_NE(broken.reason, "");
}

TEST_F(StoreTest, PagesAHistoryDuringWhichTheClockWasSetBackWithoutLossOrRepeat) {
  std::vector<std::string> none;
  auto store = Store::open(path, none);
  ASSERT_TRUE(store);
  std::vector<std::string> records;
  for (std::uint64_t id = 1; id <= 40; ++id) {
    JobInfo info;
    info.id = JobId(id), info.full = true;
    // Half way the clock goes back an hour; several jobs end in the same second on both sides.
    info.started = info.ended =
        seconds(100'000) + seconds(static_cast<std::int64_t>(id / 4)) - (id > 20 ? seconds(3600) : seconds(0));
    records.push_back(submit(id));
    records.push_back(encode(Record(EndRecord{JobId(id), 0, 0, JobState::kCompleted, true, id, encode_info(info)})));
  }
  ASSERT_TRUE((*store)->append_now(records));
  Reactor reactor;
  auto history = History::open(path, reactor);
  ASSERT_TRUE(history);
  HistoryRequest q;
  q.limit = 7;
  std::vector<std::uint64_t> ids;
  Duration last = kNoLimit;
  do {
    const auto page = (*history)->answer(q);
    for (const JobInfo& row : page.rows) {
      EXPECT_LE(row.ended, last);
      last = row.ended;
      ids.push_back(row.id.value);
    }
    q.after = page.next;
  } while (q.after != 0);
  ASSERT_EQ(ids.size(), 40u);
  EXPECT_EQ(std::set<std::uint64_t>(ids.begin(), ids.end()).size(), 40u);
}

TEST_F(StoreTest, ForgetsOldEndsAFewAtATimeButNeverANumberOrAPartOfALiveArray) {
  std::vector<std::string> none;
  {
    auto store = Store::open(path, none);
    ASSERT_TRUE(store) << store.error().text();
    std::vector<std::string> records;
    for (std::uint64_t id = 1; id <= 1200; ++id) records.push_back(submit(id)), records.push_back(end(id));
    // 2000 is an array of two that goes on; its first task ended long ago. 3000 is the newest and old as well.
    records.push_back(submit(2000, 3));
    JobInfo part;
    part.id = JobId(2001), part.array = JobId(2000), part.indexes = "0", part.ended = seconds(1);
    records.push_back(encode(Record(EndRecord{JobId(2000), 0, 0, JobState::kCompleted, false, 2001, encode_info(part)})));
    records.push_back(submit(3000)), records.push_back(end(3000));
    ASSERT_TRUE((*store)->append_now(records));

    // Ends are at id + 1 seconds. Kept for good at first; then what ended before 1101.
    const Time now{seconds(50), seconds(2000)};
    EXPECT_EQ((*store)->prune_now(now)->jobs, 0u);
    (*store)->keep_history(seconds(899));
    std::vector<std::uint64_t> steps;
    for (auto pruned = (*store)->prune_now(now);; pruned = (*store)->prune_now(now)) {
      ASSERT_TRUE(pruned) << pruned.error().text();
      steps.push_back(pruned->jobs);
      if (!pruned->more) break;
    }
    EXPECT_EQ(steps, (std::vector<std::uint64_t>{500, 500, 99}));
    (*store)->keep_history(seconds(1));
    while ((*store)->prune_now({seconds(50), seconds(1'000'000)})->jobs > 0) {}
    Reactor reactor;
    auto history = History::open(path, reactor);
    ASSERT_TRUE(history);
    const auto left = (*history)->answer(HistoryRequest{});
    ASSERT_EQ(left.rows.size(), 1u);
    EXPECT_EQ(left.rows.front().id, JobId(2001));
  }
  const auto records = load();
  ASSERT_EQ(of<CounterRecord>(records).size(), 1u);
  EXPECT_EQ(of<CounterRecord>(records).front().next, JobId(3001));
  EXPECT_EQ(of<EndRecord>(records).size(), 1u);
}

TEST_F(StoreTest, DropsAScriptWhenNoJobLiveOrRememberedHasHadItForAWhile) {
  std::vector<std::string> none;
  auto store = Store::open(path, none);
  ASSERT_TRUE(store);
  JobInfo info;
  info.id = JobId(1), info.full = true, info.script_digest = "sha256:s", info.started = info.ended = seconds(10);
  ASSERT_TRUE((*store)->append_now(
      {encode(Record(BlobRecord{"sha256:s", "#!/bin/sh\n"})), encode(Record(BlobRecord{"sha256:e", "A=1"})), submit(1)}));
  auto dropped = [&](std::int64_t mono) {
    const auto pruned = (*store)->prune_now({seconds(mono), seconds(1000 + mono)});
    EXPECT_TRUE(pruned);
    return pruned ? pruned->blobs : 99;
  };
  EXPECT_EQ(dropped(1), 0u);
  EXPECT_EQ(dropped(10'000), 0u);  // its job lives
  ASSERT_TRUE((*store)->append_now({encode(Record(EndRecord{JobId(1), 0, 0, JobState::kCompleted, true, 1, encode_info(info)}))}));
  EXPECT_EQ(dropped(10'001), 0u);
  EXPECT_EQ(dropped(12'000), 0u);
  EXPECT_EQ(dropped(14'000), 1u);  // the environment; the script is in the history
  (*store)->keep_history(seconds(100));
  EXPECT_EQ(dropped(14'001), 0u);
  EXPECT_EQ(dropped(15'000), 0u);
  EXPECT_EQ(dropped(17'700), 1u);
}

// --- bytes ---------------------------------------------------------------------------------------------------------

std::vector<std::string> samples() {
  JobSpec spec;
  spec.name = "n", spec.script = "#!/bin/sh\n", spec.env = {"A=1", "B=2"}, spec.args = {"x"}, spec.array = "1-10%2",
  spec.priority = 3;
  spec.requeue = false, spec.constraints = *parse_constraints("zone in (a,b)&(ssd|agent.mem>=64GiB)");
  spec.placement = *parse_placements("spread zone; prefer pack rack"), spec.group = "job-7";
  DeviceAsk ask;
  ask.kind = "gpu/", ask.whole = false;
  ask.counters.set("mem", 1024);
  spec.devices_per_node = {ask};
  spec.rlimits = {{7, 100, 200}};
  JobFilter filter;
  filter.users = {"ann"}, filter.states = {JobState::kRunning}, filter.jobs = {{JobId(3), "1-3"}}, filter.from = seconds(3);
  std::vector<RequestBody> bodies{
      SubmitRequest{{{"key", spec}}, true},
      QueueRequest{filter, 7, 8, Order::kStart, true, true},
      JobRequest{{JobId(1), {}}, true},
      CancelRequest{{{JobId(1), "2"}}, filter, 10, true, "why"},
      ChangeRequest{Change::kRelease, {{JobId(1), {}}}, filter},
      HistoryRequest{filter, 1, 2, true},
      NodesRequest{"h1", 5},
      WhyRequest{{JobId(4), {}}},
      WatchRequest{{{JobId(4), {}}}},
      SummaryRequest{},
      StepRequest{{JobId(4), {}}, "h2", {"a", "b"}, {"E=1"}, "/d", "i", "o", "e", "k-1", MilliCpus(1500)}};
  std::vector<std::string> out;
  for (auto& body : bodies) {
    const ToolRequest request{kBatchProtocol, 42, body};
    out.push_back(encode(request));
    auto back = decode_request(out.back());
    EXPECT_TRUE(back) << back.error().text();
    if (!back) continue;
    EXPECT_EQ(*back, request) << "kind " << body.index();
  }
  return out;
}

TEST(BatchProtocol, RoundTripsEveryRequestAndAnswer) {
  samples();
  JobInfo info;
  info.id = JobId(9), info.array = JobId(3), info.indexes = "5", info.state = JobState::kTimeout, info.reason = Reason::kTimeLimit;
  info.exit_signal = 15, info.full = true, info.args = {"a"}, info.script = std::string("x\0y", 3), info.mem = Bytes(7);
  NodeInfo node{"h1", "idle", MilliCpus(1), MilliCpus(2), Bytes(3), Bytes(4), 5, "a=b", "gpu:1", true};
  SummaryReply summary;
  summary.cluster = "c", summary.pending = 4, summary.pending_by_reason = {{"Priority", 4}};
  for (const ReplyBody& body : std::vector<ReplyBody>{
           SubmitReply{{{JobId(3), Code::kDenied, "no", seconds(1)}}}, QueueReply{{info}, 9}, JobReply{Code::kGone, "r", {info}},
           ChangeReply{Code::kOk, "", {{{JobId(1), "2"}, Code::kGone, "x"}}, 8}, HistoryReply{{info}, 3, Code::kOk, ""},
           NodesReply{{node}, true}, WhyReply{Code::kOk, "", info, {"l"}, {{"cpus", 3}}, 3, 2},
           JobChanged{{JobId(1), {}}, info, Code::kOk, "", true}, summary, StepReply{Code::kIo, "x", 3, 9},
           RequestRefused{Code::kVersion, "old"}}) {
    const ToolReply reply{kBatchProtocol, 7, body};
    auto back = decode_reply(encode(reply));
    ASSERT_TRUE(back) << back.error().text();
    EXPECT_EQ(*back, reply) << "kind " << body.index();
  }
}

TEST(BatchProtocol, RefusesWhatIsTooLargeOrOfAnotherVersion) {
  ToolRequest request{2, 1, SummaryRequest{}};
  EXPECT_EQ(decode_request(encode(request)).error().code(), Code::kVersion);
  SubmitRequest many;
  many.items.resize(kSubmitItemsMax + 1);
  EXPECT_EQ(decode_request(encode(ToolRequest{1, 1, many})).error().code(), Code::kLimit);
  SubmitRequest big;
  big.items.resize(1);
  big.items[0].spec.script = std::string(kScriptBytesMax + 1, 'x');
  EXPECT_EQ(decode_request(encode(ToolRequest{1, 1, big})).error().code(), Code::kLimit);
  EXPECT_FALSE(decode_request(""));
  EXPECT_FALSE(decode_request(std::string(100, '\0')));
}

// Deterministic mutations: bytes changed, cut, doubled. Nothing may crash; what decodes must encode and decode to itself.
TEST(BatchProtocol, SurvivesMutatedBytes) {
  const auto seeds = samples();
  std::vector<std::string> record_seeds;
  for (const Record& r : std::vector<Record>{
           BlobRecord{"d", "b"}, SubmitRecord{JobId(1), 2, "k", seconds(1), "s", "d", "e"}, AttemptRecord{JobId(1), 2, 3, 4, true},
           HintRecord{JobId(1), 2, 3, "a", "1,2"}, EndRecord{JobId(1), 2, 3, JobState::kFailed, true, 4, "i"},
           ChangeRecord{JobId(1), true, true}, OutcomeRecord{JobId(1), true, "k", 5}, CounterRecord{JobId(8)}}) {
    record_seeds.push_back(encode(r));
    auto back = decode_record(record_seeds.back());
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, r);
  }
  std::uint64_t state = 99;
  auto random = [&](std::uint64_t n) { return state ^= state << 13, state ^= state >> 7, state ^= state << 17, state % n; };
  std::size_t decoded = 0;
  for (int i = 0; i < 100'000; ++i) {
    const bool record = i % 4 == 0;
    std::string bytes = record ? record_seeds[random(record_seeds.size())] : seeds[random(seeds.size())];
    for (auto n = 1 + random(4); n > 0 && !bytes.empty(); --n) {
      const auto at = random(bytes.size());
      switch (random(4)) {
        case 0:
          bytes[at] = static_cast<char>(random(256));
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random(8)));
          break;
        case 2:
          bytes.resize(at);
          break;
        default:
          bytes.insert(at, bytes.substr(at, random(8)));
          break;
      }
    }
    if (record) {
      decoded += static_cast<bool>(decode_record(bytes));
      continue;
    }
    if (auto request = decode_request(bytes); request) {
      ++decoded;
      auto again = decode_request(encode(*request));
      ASSERT_TRUE(again) << again.error().text();
      ASSERT_EQ(*again, *request);
    }
  }
  EXPECT_GT(decoded, 100u);
}

}  // namespace
}  // namespace bourse::batch
