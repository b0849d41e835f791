// Encoded messages of every released version, which must decode to the same values for ever.
//
// BOURSE_WRITE_CORPUS=1 writes files that are missing and never touches one that is there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "common/wire/wire.h"
#include "tests/wire/samples.h"

namespace bourse::test {
namespace {

const std::filesystem::path kCorpus = "tests/data/wire/v1";  // tests run in the root of the tree

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_if_missing(const std::filesystem::path& path, const std::string& bytes) {
  if (std::getenv("BOURSE_WRITE_CORPUS") == nullptr || std::filesystem::exists(path)) return;
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Corpus, MessagesOfVersionOneMeanWhatTheyMeant) {
  std::set<std::string> names = {"part-task",  "part-task-container", "part-task-in-turn", "part-task-priority",
                                 "part-slice", "part-slice-group",    "part-status",       "part-inventory"};
  for (const auto& [name, message] : samples()) {
    const auto path = kCorpus / (name + ".bin");
    write_if_missing(path, wire::encode(message));
    ASSERT_TRUE(std::filesystem::exists(path)) << path << ": BOURSE_WRITE_CORPUS=1 makes it";
    const auto decoded = wire::decode(read_file(path));
    ASSERT_TRUE(decoded) << path << ": " << decoded.error().text();
    EXPECT_TRUE(*decoded == message) << path;
    names.insert(name);
  }
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus)) {
    const bool tested = entry.path().extension() != ".bin" || names.count(entry.path().stem().string()) == 1;
    EXPECT_TRUE(tested) << entry.path() << " is not tested";
  }
}

TEST(Corpus, PartsOfVersionOneMeanWhatTheyMeant) {  // checkpoints on disk outlive an upgrade
  write_if_missing(kCorpus / "part-task.bin", wire::encode_task(sample_task()));
  write_if_missing(kCorpus / "part-task-container.bin", wire::encode_task(sample_container_task()));
  write_if_missing(kCorpus / "part-task-in-turn.bin", wire::encode_task(sample_in_turn_task()));
  write_if_missing(kCorpus / "part-task-priority.bin", wire::encode_task(sample_priority_task()));
  write_if_missing(kCorpus / "part-slice.bin", wire::encode_slice(sample_slice()));
  write_if_missing(kCorpus / "part-slice-group.bin", wire::encode_slice(sample_group_slice()));
  write_if_missing(kCorpus / "part-status.bin", wire::encode_status(sample_status()));
  write_if_missing(kCorpus / "part-inventory.bin", wire::encode_inventory(sample_inventory()));
  const auto task = wire::decode_task(read_file(kCorpus / "part-task.bin"));
  ASSERT_TRUE(task) << task.error().text();
  EXPECT_TRUE(*task == sample_task());
  const auto container = wire::decode_task(read_file(kCorpus / "part-task-container.bin"));
  ASSERT_TRUE(container) << container.error().text();
  EXPECT_TRUE(*container == sample_container_task());
  const auto in_turn = wire::decode_task(read_file(kCorpus / "part-task-in-turn.bin"));
  ASSERT_TRUE(in_turn) << in_turn.error().text();
  EXPECT_TRUE(*in_turn == sample_in_turn_task());
  const auto priority = wire::decode_task(read_file(kCorpus / "part-task-priority.bin"));
  ASSERT_TRUE(priority) << priority.error().text();
  EXPECT_TRUE(*priority == sample_priority_task());
  const auto slice = wire::decode_slice(read_file(kCorpus / "part-slice.bin"));
  ASSERT_TRUE(slice) << slice.error().text();
  EXPECT_TRUE(*slice == sample_slice());
  const auto grouped = wire::decode_slice(read_file(kCorpus / "part-slice-group.bin"));
  ASSERT_TRUE(grouped) << grouped.error().text();
  EXPECT_TRUE(*grouped == sample_group_slice());
  const auto status = wire::decode_status(read_file(kCorpus / "part-status.bin"));
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_TRUE(*status == sample_status());
  const auto inventory = wire::decode_inventory(read_file(kCorpus / "part-inventory.bin"));
  ASSERT_TRUE(inventory) << inventory.error().text();
  EXPECT_TRUE(*inventory == sample_inventory());
}

// by-hand/*.json was written by hand from the schema and encoded by flatc, a program that shares no code with ours:
//   flatc --binary -o tests/data/wire/v1/by-hand common/wire/bourse.fbs tests/data/wire/v1/by-hand/NAME.json
TEST(Corpus, WhatAnotherEncoderMadeIsUnderstood) {
  const auto launch = wire::decode(read_file(kCorpus / "by-hand" / "launch.bin"));
  ASSERT_TRUE(launch) << launch.error().text();
  EXPECT_TRUE(*launch == (Message{Epoch(3), Incarnation(1'700'000'000'000'000), "trace",
                                  Launch{AgentId("h1"), {FrameworkId("batch"), 42}, TaskId("7.0.1"), "hello"}}));
  const auto status = wire::decode(read_file(kCorpus / "by-hand" / "status.bin"));
  ASSERT_TRUE(status) << status.error().text();
  const TaskStatus ended{.task = TaskId("7.0.1"),
                         .state = TaskState::kSignaled,
                         .exit_code = 0,
                         .signal = 11,
                         .message = "segmentation fault",
                         .started = microseconds(1'700'000'000'000'001),
                         .ended = microseconds(1'700'000'000'500'000),
                         .cpu = microseconds(400),
                         .mem_peak = Bytes(1048576)};
  EXPECT_TRUE(
      *status ==
      (Message{Epoch(0), Incarnation(9), "",
               StatusUpdate{AgentId("h1"), FrameworkId("batch"), StreamId(5), Sequence(6), {FrameworkId("batch"), 42}, ended}}));
  const auto demand = wire::decode(read_file(kCorpus / "by-hand" / "demand.bin"));
  ASSERT_TRUE(demand) << demand.error().text();
  Shape shape;
  shape.cpus = MilliCpus(1500);
  shape.mem = Bytes(2147483648);
  shape.devices = {{"gpu/", 2, false, "", {}, {}}};
  shape.devices[0].counters.set("mem", 1024);
  shape.constraints = {{"zone", Constraint::Op::kNotIn, {"a", "bc"}}};
  EXPECT_TRUE(*demand == (Message{Epoch(3), Incarnation(9), "", Demand{Version(2), Sequence(1), false, {{8, shape, 5, 2, -1}}}}));
}

}  // namespace
}  // namespace bourse::test
