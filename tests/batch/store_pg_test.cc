// The store in PostgreSQL: what it is told it gives back, and who has been taken over from writes nothing. tests/cluster/standby.test runs
// these with a database of its own, named by BOURSE_TEST_POSTGRESQL; without one there is nothing to test with.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "frameworks/batch/claim.h"
#include "frameworks/batch/history.h"
#include "frameworks/batch/records.h"
#include "frameworks/batch/sql.h"
#include "frameworks/batch/store.h"

namespace bourse::batch {
namespace {

struct PgStore : ::testing::Test {
  std::string uri = std::getenv("BOURSE_TEST_POSTGRESQL") ? std::getenv("BOURSE_TEST_POSTGRESQL") : "";
  void SetUp() override {
    if (uri.empty()) GTEST_SKIP() << "BOURSE_TEST_POSTGRESQL names no database";
    Database db;
    ASSERT_TRUE(db.open(uri, 0));
    ASSERT_TRUE(db.run("DROP TABLE IF EXISTS meta, blob, live, task, history, learnt"));
  }
  static std::string submit(std::uint64_t id, std::uint64_t ids = 1, const std::string& key = {}) {
    JobSpec spec;
    spec.name = "n" + std::to_string(id), spec.user = "ann", spec.uid = 1000;
    return encode(Record(SubmitRecord{JobId(id), ids, key, seconds(5), encode_spec(spec), "sha256:s", "sha256:e"}));
  }
  static std::string end(std::uint64_t job, std::uint64_t number, bool whole, const std::string& user) {
    JobInfo info;
    info.id = JobId(number), info.user = user, info.name = "x\xff\n", info.uid = 1000, info.state = JobState::kFailed;
    info.full = true, info.script_digest = "sha256:s";
    info.started = seconds(7), info.ended = seconds(8);
    const std::uint64_t rank = number == job ? 0 : number - job - 1;
    return encode(Record(EndRecord{JobId(job), rank, rank, JobState::kFailed, whole, number, encode_info(info)}));
  }
  static std::vector<std::string> some() {
    return {encode(Record(BlobRecord{"sha256:s", std::string("#!/bin/sh\n\0\xff'\\x", 16)})),
            encode(Record(BlobRecord{"sha256:e", "A=1"})),
            submit(1, 1, "k1"),
            submit(2, 4),
            submit(6),
            encode(Record(AttemptRecord{JobId(2), 1, 3, 2, false})),
            encode(Record(HintRecord{JobId(6), 0, 1, "h1", "7"})),
            encode(Record(HintRecord{JobId(6), 0, 1, "h2", "8"})),
            encode(Record(ChangeRecord{JobId(6), true, false})),
            end(2, 3, false, "ann"),
            end(1, 1, true, "b'ob"),
            encode(Record(LearntRecord{"p", "one"})),
            encode(Record(LearntRecord{"p", "two"}))};
  }
  static std::multiset<std::string> set_of(const std::vector<std::string>& records) { return {records.begin(), records.end()}; }
  std::uint64_t take(const std::string& owner) {
    auto claim = Claim::open(uri, owner, seconds(10));
    EXPECT_TRUE(claim) << claim.error().text();
    const auto taken = (*claim)->try_take();
    EXPECT_TRUE(taken && *taken);
    return (*claim)->token();
  }
};

// SQLite's is the older one: the same records give the same present and the same history.
TEST_F(PgStore, GivesBackWhatTheFileWouldGiveBack) {
  std::string dir = std::filesystem::temp_directory_path() / "bourse-pg-XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  const std::uint64_t token = take("a");
  std::vector<std::string> none, from_file, from_database;
  for (const std::string& where : {dir + "/queue.db", uri}) {
    auto store = Store::open(where, none, token);
    ASSERT_TRUE(store) << store.error().text();
    ASSERT_TRUE((*store)->append_now(some()));
    ASSERT_TRUE((*store)->append_now(some())) << "again changes nothing";
  }
  ASSERT_TRUE(Store::open(dir + "/queue.db", from_file));
  ASSERT_TRUE(Store::open(uri, from_database, token));
  EXPECT_EQ(set_of(from_file), set_of(from_database));
  EXPECT_GT(from_file.size(), 8U);
  Reactor reactor;
  auto file = History::open(dir + "/queue.db", reactor), database = History::open(uri, reactor);
  ASSERT_TRUE(file && database);
  HistoryRequest all, bob;
  bob.filter.users = {"b'ob"}, bob.filter.states = {JobState::kFailed}, bob.full = true;
  for (const HistoryRequest& request : {all, bob}) EXPECT_TRUE((*file)->answer(request) == (*database)->answer(request));
  EXPECT_EQ((*database)->answer(bob).rows.size(), 1U);
  const JobRequest one{{JobId(1), {}}, true};
  EXPECT_TRUE((*file)->answer(one) == (*database)->answer(one));
  EXPECT_EQ((*database)->answer(one).rows.at(0).script.size(), 16U);
  std::filesystem::remove_all(dir);
}

TEST_F(PgStore, WhoWasTakenOverFromWritesNothing) {
  const std::uint64_t first = take("a");
  std::vector<std::string> records;
  auto old = Store::open(uri, records, first);
  ASSERT_TRUE(old);
  ASSERT_TRUE((*old)->append_now({submit(1)}));
  const std::uint64_t second = take("a");  // the same place, in its next life
  EXPECT_GT(second, first);
  const auto refused = (*old)->append_now({submit(2)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kGone) << refused.error().text();
  auto now = Store::open(uri, records, second);
  ASSERT_TRUE(now);
  std::size_t jobs = 0;
  for (const std::string& bytes : records)
    if (auto record = decode_record(bytes); record && std::holds_alternative<SubmitRecord>(*record)) ++jobs;
  EXPECT_EQ(jobs, 1U);
  EXPECT_FALSE(Store::open(uri, records, first)) << "nor does it begin again with what it had";
}

TEST_F(PgStore, AnotherPlaceWaitsForTheBeatToStop) {
  take("a");
  auto other = Claim::open(uri, "b", milliseconds(300));
  ASSERT_TRUE(other);
  auto taken = (*other)->try_take();
  ASSERT_TRUE(taken);
  EXPECT_FALSE(*taken) << "it has only just looked";
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!*taken && std::chrono::steady_clock::now() < until) taken = (*other)->try_take();
  EXPECT_TRUE(*taken);
}

}  // namespace
}  // namespace bourse::batch
