// Configuration and log lines.
#include "common/world/config.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>

#include "common/world/files.h"
#include "common/world/log.h"
#include "tests/world/support.h"

namespace bourse {
namespace {

std::string complaint(std::string_view toml, const std::vector<std::string>& overrides = {}) {
  const auto config = Config::parse(toml, "b.conf", overrides);
  return config ? "none" : config.error().text();
}

TEST(Config, DefaultsHoldWhereNothingIsSaid) {
  const auto config = Config::read("", {});
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->duration("master", "offer_ttl"), seconds(10));
  EXPECT_EQ(config->duration("master", "failover_timeout"), std::chrono::hours(24 * 7));
  EXPECT_EQ(config->size("batch", "submit_max_bytes"), Bytes{4 * 1024 * 1024});
  EXPECT_EQ(config->duration("batch", "max_time_limit"), kNoLimit);
  EXPECT_EQ(config->integer("batch", "requeue_max"), 3);
  EXPECT_TRUE(config->flag("batch", "slice_reuse"));
  EXPECT_EQ(config->text("agent", "isolation"), "auto");
  EXPECT_TRUE(config->table("agent", "labels").empty());
  EXPECT_TRUE(config->list("batch", "listen").empty());
}

TEST(Config, ReadsEveryTypeInEveryForm) {
  const auto config =
      Config::parse(R"(
[cluster]
masters = ["tcp://h1:7400", "tcp://h2:7400"]
[master]
offer_ttl = 90               # seconds
heartbeat = "250ms"
[agent]
reserve_mem = "1.5GiB"
reserve_cpus = 2
labels = { rack = "r1", "site.room" = "north 4" }
[batch]
listen = "ipc:///run/b.sock"
slice_reuse = false
submit_max_bytes = 65536
max_time_limit = "3-12"
)",
                    "b.conf", {"log.level=debug", "batch.listen=ipc:///a,tcp://127.0.0.1:1", "agent.labels=zone=z1,rack=r2"});
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->list("cluster", "masters"), (std::vector<std::string>{"tcp://h1:7400", "tcp://h2:7400"}));
  EXPECT_EQ(config->duration("master", "offer_ttl"), seconds(90));
  EXPECT_EQ(config->duration("master", "heartbeat"), milliseconds(250));
  EXPECT_EQ(config->size("agent", "reserve_mem").value, 1536LL * 1024 * 1024);
  EXPECT_EQ(config->integer("agent", "reserve_cpus"), 2);
  EXPECT_FALSE(config->flag("batch", "slice_reuse"));
  EXPECT_EQ(config->size("batch", "submit_max_bytes"), Bytes{65536});
  EXPECT_EQ(config->duration("batch", "max_time_limit"), std::chrono::hours(84));
  EXPECT_EQ(config->text("log", "level"), "debug");
  EXPECT_EQ(config->list("batch", "listen"), (std::vector<std::string>{"ipc:///a", "tcp://127.0.0.1:1"}));
  EXPECT_EQ(config->table("agent", "labels"), (std::map<std::string, std::string>{{"rack", "r2"}, {"zone", "z1"}}));
}

TEST(Config, AnUnknownKeyNamesItsLineAndTheNearestKnownOne) {
  EXPECT_EQ(complaint("[master]\noffer_tll = \"5s\"\n"),
            "b.conf:2: unknown key `offer_tll' in [master]; did you mean `offer_ttl'?");
  EXPECT_EQ(complaint("# hello\n\n[mastr]\n"), "b.conf:3: unknown section [mastr]; did you mean [master]?");
  EXPECT_EQ(complaint("[agent]\nxylophone = 1\n"), "b.conf:2: unknown key `xylophone' in [agent]");
  EXPECT_EQ(complaint("name = \"x\"\n"), "b.conf:1: key `name' stands outside of a section");
}

TEST(Config, WrongTypesRangesAndChoicesAreNamedWithTheirLine) {
  EXPECT_EQ(complaint("[agent]\nid = 7\n"), "b.conf:2: `id' in [agent] must be a text in quotes");
  EXPECT_EQ(complaint("[agent]\nreserve_cpus = -1\n"), "b.conf:2: `reserve_cpus' is -1, the least is 0, in [agent]");
  EXPECT_EQ(complaint("[batch]\nsubmit_max_bytes = \"1GiB\"\n"),
            "b.conf:2: `submit_max_bytes' is 1GiB, the most is 64MiB, in [batch]");
  EXPECT_EQ(complaint("[batch]\nbackfill = \"eazy\"\n"),
            "b.conf:2: `backfill' is `eazy', expected none, easy, easy-count or conservative; did you mean `easy'?, in [batch]");
  EXPECT_TRUE(complaint("[master]\n\noffer_ttl = \"soon\"\n").starts_with("b.conf:3: `offer_ttl' is `soon', expected a duration"));
  EXPECT_TRUE(complaint("[agent]\nlabels = { rack = 4 }\n").starts_with("b.conf:2: `labels' in [agent] must be a table of texts"));
  EXPECT_TRUE(complaint("[master]\nheartbeat = \"unlimited\"\n").starts_with("b.conf:2: `heartbeat'"));
}

TEST(Config, AllComplaintsOfAFileComeTogetherInTheOrderOfTheirLines) {
  EXPECT_EQ(complaint("[master]\nzzzzzzzz = 1\n[agent]\nid = 7\n[log]\nlevel = \"loud\"\n", {"nonsense", "agent.idd=x"}),
            "setting `nonsense': expected section.key=value\n"
            "setting `agent.idd=x': unknown key `idd' in [agent]; did you mean `id'?\n"
            "b.conf:2: unknown key `zzzzzzzz' in [master]\n"
            "b.conf:4: `id' in [agent] must be a text in quotes\n"
            "b.conf:6: `level' is `loud', expected debug, info, warn or error, in [log]");
}

TEST(Config, ThousandsOfComplaintsAreBounded) {
  std::string toml = "[agent]\n";
  for (int i = 0; i < 5000; ++i) toml += "k" + std::to_string(i) + " = 1\n";
  const std::string text = complaint(toml);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<std::ptrdiff_t>(kComplaintsMax));
  EXPECT_TRUE(text.ends_with("and 4950 more"));
  EXPECT_EQ(Config::parse(std::string(2'000'000, '#'), "b.conf", {}).error().code(), Code::kLimit);
}

TEST(Config, BrokenTomlNamesItsLine) {
  EXPECT_TRUE(complaint("[master]\noffer_ttl = \"5s\n").starts_with("b.conf:2: "));
  EXPECT_TRUE(complaint("[master]\n[master]\n").starts_with("b.conf:2: "));
  EXPECT_TRUE(complaint(std::string("\xff\xfe\0x", 4)).starts_with("b.conf:1: "));
}

TEST(Config, WhatIsDumpedReadsBackTheSame) {
  const auto first = Config::parse(
      "[agent]\nlabels = { a = \"x \\\" \\\\ y\" }\n[batch]\nmax_time_limit = \"2h\"\n[cluster]\nname = \"n\\tm\"\n", "b.conf", {});
  ASSERT_TRUE(first) << first.error().text();
  const auto second = Config::parse(first->dump(), "dump", {});
  ASSERT_TRUE(second) << second.error().text() << first->dump();
  EXPECT_EQ(first->dump(), second->dump());
  EXPECT_EQ(second->table("agent", "labels").at("a"), "x \" \\ y");
  EXPECT_EQ(second->text("cluster", "name"), "n\tm");
  EXPECT_EQ(second->duration("batch", "max_time_limit"), std::chrono::hours(2));
}

TEST(Config, EveryKeyHasOneSentenceOfHelp) {
  std::set<std::string> seen;
  for (const ConfigKey& key : config_keys()) {
    EXPECT_TRUE(seen.insert(std::string(key.section) + "." + std::string(key.key)).second) << key.key;
    ASSERT_FALSE(key.help.empty()) << key.key;
    EXPECT_EQ(key.help.back(), '.') << key.key;
    EXPECT_TRUE(std::isupper(static_cast<unsigned char>(key.help.front())) || key.help.starts_with("hwloc")) << key.key;
  }
}

TEST(Config, AFileThatIsNotThereIsNotFound) { EXPECT_EQ(Config::read("/no/such/file", {}).error().code(), Code::kNotFound); }

TEST(Config, PlacesFollowTheDirectoryOfTheCluster) {
  setenv("BOURSE_DIR", "/x/y", 1);  // NOLINT(concurrency-mt-unsafe)
  const Places places = Places::find();
  EXPECT_EQ(places.config, "/x/y/bourse.conf");
  EXPECT_EQ(places.run, "/x/y/run");
  unsetenv("BOURSE_DIR");  // NOLINT(concurrency-mt-unsafe)
}

TEST(NearestWord, IsTheOneWithTheFewestChangesAndNothingWhereAllAreFar) {
  const std::vector<std::string> known = {"submit", "queue", "cancel", "history"};
  EXPECT_EQ(nearest_word("sumbit", known), "submit");
  EXPECT_EQ(nearest_word("cancle", known), "cancel");
  EXPECT_EQ(nearest_word("que", known), "");
  EXPECT_EQ(nearest_word("quue", known), "queue");
  EXPECT_EQ(nearest_word("zebra", known), "");
  EXPECT_EQ(nearest_word("", known), "");
}

TEST(Log, ALineIsOneEventWithQuotedValuesWhereNeeded) {
  EXPECT_EQ(log_text(LogLevel::kWarn, "probe_failed", {{"probe", "libvirt"}, {"reason", "no \"such\"\nthing"}, {"empty", ""}}),
            "level=warn event=probe_failed probe=libvirt reason=\"no \\\"such\\\"\\nthing\" empty=\"\"");
  EXPECT_EQ(log_text(LogLevel::kInfo, "x", {{"a", "k=v"}, {"b", std::string("\x01", 1)}}),
            "level=info event=x a=\"k=v\" b=\"\\x01\"");
}

TEST(Log, LinesBelowTheLevelAreNotWrittenAndOthersAreStamped) {
  log_init("bourse-test", LogLevel::kWarn);
  testing::internal::CaptureStderr();
  log_event(LogLevel::kInfo, "quiet", {});
  log_line("level=debug event=quiet");
  log_line("level=error event=loud\nnot=another_line");
  log_event(LogLevel::kWarn, "heard", {{"n", "1"}});
  const std::string text = testing::internal::GetCapturedStderr();
  log_init("bourse", LogLevel::kInfo);
  std::string shape = text;  // every digit as 9
  for (char& c : shape)
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) c = '9';
  const std::string stamp = "9999-99-99T99:99:99.999999Z ";
  EXPECT_EQ(shape, stamp + "level=error prog=bourse-test event=loud not=another_line\n" + stamp +
                       "level=warn prog=bourse-test event=heard n=9\n");
}

}  // namespace
}  // namespace bourse
