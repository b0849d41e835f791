// Traces in, schedules out. Right schedules come from the definitions of FCFS and EASY, worked by hand on ten processors, and
// from the workload archive's own numbers.
#include <gtest/gtest.h>

#include <zlib.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/sim/swf.h"
#include "common/sim/whatif.h"
#include "frameworks/batch/wire_replay.h"

namespace bourse::sim {
namespace {

std::string line(const std::string& five) {  // "number submit run processors time_asked"
  std::istringstream in(five);
  std::string n, s, r, p, t;
  in >> n >> s >> r >> p >> t;
  return n + " " + s + " -1 " + r + " " + p + " -1 -1 " + p + " " + t + " -1 1 1 1 -1 -1 -1 -1 -1\n";
}

TEST(Swf, ReadsCommentsColumnsAndUnknownValues) {
  const auto trace = parse_swf(
      "; Version: 2.2\n;MaxProcs: 240\n; Note: a: b\n\n  1 0 308434 31405 30 31405 -1 30 37980 -1 1 1 1 -1 -1 1 -1 -1\r\n"
      "12 342343 5 553 40 552.21 -1 40 43200 -1 1 4 1 -1 -1 1 -1 -1",
      "x.swf");
  ASSERT_TRUE(trace) << trace.error().text();
  EXPECT_EQ(trace->header.at("MaxProcs"), "240");
  EXPECT_EQ(trace->header.at("Note"), "a: b");
  ASSERT_EQ(trace->jobs.size(), 2u);
  EXPECT_EQ(trace->jobs[0].run, 31405);
  EXPECT_EQ(trace->jobs[0].memory, -1);
  EXPECT_EQ(trace->jobs[1].cpu, 552);
  EXPECT_EQ(trace->jobs[1].time_asked, 43200);
  EXPECT_EQ(trace->jobs[1].user, 4);
  EXPECT_EQ(parse_swf("", "x")->jobs.size(), 0u);
}

TEST(Swf, BadInputIsRefusedWithItsPlace) {
  const std::string good = line("1 0 100 6 100");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {good + "2 1 x 5\n", "t.swf:2:5:"},
      {"1 2 3\n", "t.swf:1:6:"},
      {good + line("2 -5 100 6 100"), "t.swf:2:3: submit time -5 is negative"},
      {line("1 10 100 6 100") + line("2 9 100 6 100"), "t.swf:2:1: job 2 was submitted before"},
      {line("1 0 99000000000 6 100"), "t.swf:1:8: run time 99000000000 is more than"},
      {"1 0 -1 5 5 5 5 5 5 5 1 1 1 1 1 1 1 1 9\n", "t.swf:1:38:"},
      {"1 0 -1 99999999999999999999 5 5 5 5 5 5 1 1 1 1 1 1 1 1\n", "t.swf:1:8:"},
      {"1,0,-1\n", "t.swf:1:1:"},
  };
  for (const auto& [text, place] : cases) {
    const auto trace = parse_swf(text, "t.swf");
    ASSERT_FALSE(trace) << text;
    EXPECT_EQ(trace.error().text().substr(0, place.size()), place) << trace.error().text();
  }
}

TEST(Swf, PlainAndCompressedFilesAreTheSameAndATornOneIsRefused) {
  std::string dir = (std::filesystem::temp_directory_path() / "bourse-swf-XXXXXX").string();
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  const std::string text = line("1 0 100 6 100") + line("2 1 50 8 50");
  std::ofstream(dir + "/plain.swf") << text;
  gzFile packed = gzopen((dir + "/packed.swf.gz").c_str(), "wb");
  gzwrite(packed, text.data(), static_cast<unsigned>(text.size()));
  gzclose(packed);
  const auto plain = read_swf(dir + "/plain.swf"), compressed = read_swf(dir + "/packed.swf.gz");
  ASSERT_TRUE(plain && compressed);
  EXPECT_EQ(plain->jobs.size(), 2u);
  EXPECT_EQ(compressed->jobs.size(), 2u);
  EXPECT_EQ(read_swf(dir + "/plain.swf", 1)->jobs.size(), 1u);
  std::filesystem::resize_file(dir + "/packed.swf.gz", std::filesystem::file_size(dir + "/packed.swf.gz") - 12);
  EXPECT_FALSE(read_swf(dir + "/packed.swf.gz"));
  EXPECT_EQ(read_swf(dir + "/absent.swf").error().code(), Code::kNotFound);
  std::ofstream(dir + "/long.swf") << std::string(1'000'000, ';');
  EXPECT_FALSE(read_swf(dir + "/long.swf"));
  std::filesystem::remove_all(dir);
}

TEST(WhatIf, JobsAreCutAtTheirRequestAndEmptyOnesLeftOut) {
  const auto trace = *parse_swf(line("1 10 100 6 50") + line("2 11 0 6 50") + line("3 12 7 0 50") + line("4 20 7 1 -1"), "t");
  const auto user = jobs_of(trace, Estimates::kUser), exact = jobs_of(trace, Estimates::kExact);
  ASSERT_EQ(user.size(), 2u);
  EXPECT_EQ(user[0].submit, seconds(0));
  EXPECT_EQ(user[0].run, seconds(50));
  EXPECT_EQ(user[1].submit, seconds(10));
  EXPECT_EQ(user[1].limit, seconds(7));
  EXPECT_EQ(exact[0].limit, seconds(50));
}

TEST(WhatIf, SummaryFollowsItsDefinitions) {
  std::vector<TraceJob> jobs(2);
  jobs[0] = {1, seconds(0), seconds(100), seconds(100), 6, 1, 0, 0, seconds(0), seconds(100)};
  jobs[1] = {2, seconds(10), seconds(2), seconds(5), 8, 1, 0, 0, seconds(100), seconds(102)};
  const Report r = summarise(jobs, 10);
  EXPECT_DOUBLE_EQ(r.mean_wait_s, 45);
  EXPECT_DOUBLE_EQ(r.p95_wait_s, 90);
  EXPECT_DOUBLE_EQ(r.max_wait_s, 90);
  EXPECT_DOUBLE_EQ(r.mean_bsld, (1 + 9.2) / 2);  // (90 + 2) / 10
  EXPECT_DOUBLE_EQ(r.makespan_s, 102);
  EXPECT_DOUBLE_EQ(r.utilisation, 616.0 / 1020);
}

// Starts in seconds, to the nearest one: what the house itself takes is milliseconds. On one node of ten a count of processors
// decides, as in the definitions.
const batch::SimulatedNodes kOneOfTen{1, 10}, kTenOfOne{10, 1};
std::vector<long> starts(const std::string& workload, bool backfill, std::uint64_t* hash = nullptr,
                         const batch::SimulatedNodes& nodes = kOneOfTen) {
  auto jobs = jobs_of(*parse_swf(workload, "w"), Estimates::kUser);
  batch::SimulateOptions options;
  options.nodes = {nodes};
  options.backfill = backfill ? batch::Backfill::kEasy : batch::Backfill::kNone;
  const auto report = batch::simulate(jobs, options);
  EXPECT_TRUE(report) << report.error().text();
  if (hash != nullptr) *hash = report->schedule_hash;
  std::vector<long> out;
  for (const TraceJob& job : jobs) out.push_back(std::lround(static_cast<double>(job.start.count()) / 1e6));
  return out;
}

const std::string kFirst = line("1 0 100 6 100") + line("2 1 50 8 50") + line("3 2 10 10 10") + line("4 3 200 2 200");
const std::string kSecond =
    line("1 0 100 6 100") + line("2 1 50 8 50") + line("3 2 90 3 90") + line("4 3 200 2 200") + line("5 4 95 2 95");
const std::string kEarly =
    line("1 0 40 6 100") + line("2 1 50 8 50") + line("3 2 10 10 10") + line("4 3 200 2 200") + line("5 4 30 4 35");

TEST(Simulate, FirstComeFirstServedWithoutBackfill) {
  EXPECT_EQ(starts(kFirst, false), (std::vector<long>{0, 100, 150, 160}));
  EXPECT_EQ(starts(kSecond, false), (std::vector<long>{0, 100, 150, 150, 150}));
  EXPECT_EQ(starts(kEarly, false), (std::vector<long>{0, 40, 90, 100, 100}));
}

TEST(Simulate, EasyBackfillAsDefined) {
  EXPECT_EQ(starts(kFirst, true), (std::vector<long>{0, 100, 203, 3}));  // the last uses what the reservation leaves over
  EXPECT_EQ(starts(kSecond, true), (std::vector<long>{0, 100, 2, 92, 150}));
  EXPECT_EQ(starts(kEarly, true), (std::vector<long>{0, 40, 203, 3, 90}));
}

TEST(Simulate, TheSameSeedGivesTheSameSchedule) {
  std::uint64_t first = 0, second = 0;
  starts(kSecond, true, &first);
  starts(kSecond, true, &second);
  EXPECT_EQ(first, second);
}

TEST(Simulate, ManyNodesCarryWhatOneDoes) {
  auto jobs = jobs_of(*parse_swf(kSecond, "w"), Estimates::kUser);
  batch::SimulateOptions options;
  options.nodes = {{10, 1}};
  options.backfill = batch::Backfill::kNone;
  const auto report = batch::simulate(jobs, options);
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->jobs, 5u);
  EXPECT_NEAR(report->max_wait_s, 148, 1);
}

// The same start times where each processor is a node of its own and jobs are gangs: offers, holds and commits on the way.
TEST(Simulate, OneCoreNodesBackfillAsOneNodeOfAllCoresDoes) {
  for (const std::string* workload : {&kFirst, &kSecond, &kEarly}) {
    EXPECT_EQ(starts(*workload, true, nullptr, kTenOfOne), starts(*workload, true)) << *workload;
    EXPECT_EQ(starts(*workload, false, nullptr, kTenOfOne), starts(*workload, false)) << *workload;
  }
}

// 100 s in which nothing can be started, and 100,000 s of the same: waiting costs no events.
TEST(Simulate, WaitingForTheHeadWithoutBackfillCostsNothing) {
  const auto events = [](const char* run) {
    const std::string r = run;
    auto jobs =
        jobs_of(*parse_swf(line("1 0 " + r + " 60 " + r) + line("2 1 50 80 50") + line("3 2 10 10 10"), "w"), Estimates::kUser);
    batch::SimulateOptions options;
    options.nodes = {{1, 100}};
    options.backfill = batch::Backfill::kNone;
    return batch::simulate(jobs, options)->events;
  };
  EXPECT_LT(events("100000"), events("100") + 20'000);  // the client looks around every 10 s
}

TEST(Simulate, AJobThatNoNodeCanCarryIsRefusedAndCounted) {
  auto jobs = jobs_of(*parse_swf(line("1 0 10 11 10") + line("2 1 10 1 10"), "w"), Estimates::kUser);
  batch::SimulateOptions options;
  options.nodes = {{1, 10}};
  const auto report = batch::simulate(jobs, options);
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->refused, 1u);
  EXPECT_EQ(report->jobs, 1u);
  EXPECT_FALSE(report->first_refusal.empty());
}

TEST(Simulate, NodesAreWrittenAsCountByCores) {
  const auto nodes = batch::parse_simulated_nodes("20x80,48x12");
  ASSERT_TRUE(nodes);
  EXPECT_EQ(nodes->at(1).count, 48u);
  EXPECT_EQ(nodes->at(1).cores, 12u);
  for (const char* bad : {"", "240", "0x1", "1x0", "x", "1x1,", "99999999x1", "-1x1", "60000x1,60000x1"}) {
    EXPECT_FALSE(batch::parse_simulated_nodes(bad)) << bad;
  }
}

}  // namespace
}  // namespace bourse::sim
