// Metrics, snapshot, history: functions of a view.
#include "frameworks/console/metrics.h"

#include <gtest/gtest.h>

#include "frameworks/console/history.h"
#include "frameworks/console/page.h"
#include "frameworks/console/snapshot.h"

namespace bourse::console {
namespace {

Row agent_row(const std::string& name, const std::string& state, const std::string& cpus, const std::string& free) {
  return {name,
          {{"state", state},
           {"cpus_total", cpus},
           {"cpus_free", free},
           {"mem_total", "8GiB"},
           {"mem_free", "1536MiB"},
           {"devices", "2"},
           {"unhealthy", "gpu0,gpu3"},
           {"slices", "3"},
           {"labels", "rack=r1,ssd"}}};
}

View view_of_two() {
  View view;
  view.number = 1;
  view.taken = {seconds(100), seconds(1'700'000'000)};
  view.cluster = "lab";
  view.leader = {"leader", {{"endpoint", "tcp://127.0.0.1:7400"}, {"slices", "5"}, {"offers", "1"}, {"launches", "7"}}};
  view.agents = {agent_view(agent_row("h1", "up", "4", "2.5")), agent_view(agent_row("h2", "unreachable", "4", "4"))};
  view.frameworks = {framework_view({"batch",
                                     {{"role", "org/batch"},
                                      {"state", "connected"},
                                      {"cpus_used", "1.5"},
                                      {"mem_used", "1GiB"},
                                      {"slices", "5"},
                                      {"offers", "1"},
                                      {"unmet", "12"},
                                      {"clock_ms", "-250"}}})};
  view.roles = {
      role_view({"org", {{"weight", "3"}, {"cpus_used", "1.5"}, {"mem_used", "1GiB"}, {"frameworks", "1"}, {"waiting", "1"}}})};
  view.totals = totals_of(view);
  return view;
}

Health healthy() {
  Health health;
  health.connected = true;
  health.interval = seconds(5);
  health.age = seconds(2);
  return health;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, AreTheNumbersOfTheView) {
  const std::string text = metrics_text(view_of_two(), JobsView{}, healthy(), 10);
  for (const char* line :
       {"bourse_agents{state=\"up\"} 1", "bourse_agents{state=\"unreachable\"} 1", "bourse_agents{state=\"drained\"} 0",
        "bourse_cpus 8",
        // What an agent has that is not up cannot be had.
        "bourse_cpus_free 2.5", "bourse_cpus_used 1.5", "bourse_memory_bytes 17179869184", "bourse_memory_free_bytes 1610612736",
        "bourse_devices{health=\"good\"} 4", "bourse_devices{health=\"bad\"} 4", "bourse_slices 5",
        "bourse_master_launches_total 7", "bourse_framework_unmet_units{framework=\"batch\",role=\"org/batch\"} 12",
        "bourse_role_weight{role=\"org\"} 3", "bourse_agent_cpus_free{agent=\"h1\"} 2.5", "bourse_agent_up{agent=\"h2\"} 0",
        "bourse_console_data_age_seconds 2", "bourse_framework_clock_offset_seconds{framework=\"batch\",role=\"org/batch\"} -0.25"})
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
}

// After https://prometheus.io/docs/instrumenting/exposition_formats/: in a label's value \ " and the line end are escaped.
TEST(Metrics, LabelsAreEscaped) {
  View view = view_of_two();
  view.cluster = "a\"b\\c\nd\xff";
  const std::string text = metrics_text(view, JobsView{}, healthy(), 10);
  EXPECT_TRUE(has_line(text, "bourse_master_info{cluster=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\",endpoint=\"tcp://127.0.0.1:7400\"} 1"))
      << text;
}

TEST(Metrics, CountersEndInTotalAndNothingElseDoes) {
  const std::string text = metrics_text(view_of_two(), JobsView{}, healthy(), 10);
  std::size_t counters = 0, gauges = 0;
  for (std::size_t at = 0; (at = text.find("# TYPE ", at)) != std::string::npos; ++at) {
    const std::string line = text.substr(at + 7, text.find('\n', at) - at - 7), name = line.substr(0, line.find(' '));
    const bool counter = line.ends_with(" counter");
    EXPECT_TRUE(counter || line.ends_with(" gauge")) << line;
    EXPECT_EQ(counter, name.ends_with("_total")) << line;
    ++(counter ? counters : gauges);
    EXPECT_EQ(text.find("# TYPE " + name + " ", at + 1), std::string::npos) << name << " is there twice";
  }
  EXPECT_GE(counters, 10U);
  EXPECT_GE(gauges, 30U);
}

TEST(Metrics, OldDataIsNotMeasured) {
  Health health = healthy();
  health.connected = false;
  health.age = seconds(24);
  EXPECT_TRUE(has_line(metrics_text(view_of_two(), JobsView{}, health, 10), "bourse_slices 5"))
      << "three looks and ten seconds are not over";
  health.age = seconds(26);
  const std::string text = metrics_text(view_of_two(), JobsView{}, health, 10);
  EXPECT_EQ(text.find("bourse_slices"), std::string::npos);
  EXPECT_EQ(text.find("bourse_agent"), std::string::npos);
  EXPECT_TRUE(has_line(text, "bourse_master_up 0"));
  EXPECT_TRUE(has_line(text, "bourse_console_data_age_seconds 26"));
}

TEST(Metrics, JobsAreThereWhereTheFrameworkCouldBeAsked) {
  JobsView jobs;
  jobs.pending = 5, jobs.held = 2, jobs.running = 3;
  jobs.by_reason = {{"Priority", 3}, {"JobHeldUser", 2}};
  EXPECT_EQ(metrics_text(view_of_two(), jobs, healthy(), 10).find("bourse_batch"), std::string::npos);
  jobs.known = true;
  const std::string text = metrics_text(view_of_two(), jobs, healthy(), 10);
  EXPECT_TRUE(has_line(text, "bourse_batch_jobs{state=\"pending\"} 3")) << "held ones are held, not pending";
  EXPECT_TRUE(has_line(text, "bourse_batch_jobs{state=\"held\"} 2"));
  EXPECT_TRUE(has_line(text, "bourse_batch_jobs_waiting{reason=\"Priority\"} 3"));
}

TEST(Metrics, BeforeTheFirstLookThereIsOnlyTheConsole) {
  Health health;
  health.interval = seconds(5);
  const std::string text = metrics_text(View{}, JobsView{}, health, 10);
  EXPECT_TRUE(has_line(text, "bourse_master_up 0"));
  EXPECT_EQ(text.find("age"), std::string::npos);
  EXPECT_EQ(text.find("bourse_cpus"), std::string::npos);
}

TEST(Metrics, OfManyAgentsThereAreOnlySums) {
  const std::string text = metrics_text(view_of_two(), JobsView{}, healthy(), 1);
  EXPECT_EQ(text.find("bourse_agent_"), std::string::npos);
  EXPECT_TRUE(has_line(text, "bourse_cpus 8"));
}

TEST(Metrics, DecimalsAreExact) {
  MetricsText m;
  m.gauge("x", "h");
  for (const std::int64_t value : {0LL, 5LL, 50LL, 1500LL, -500LL, 12'000LL, 9'007'199'254'740'993LL}) m.sample_decimal(value, 3);
  EXPECT_EQ(m.take(), "# HELP x h\n# TYPE x gauge\nx 0\nx 0.005\nx 0.05\nx 1.5\nx -0.5\nx 12\nx 9007199254740.993\n");
}

// Sequences from the tables of RFC 3629 and Unicode 15, 3.9: overlong forms, surrogates, what is beyond U+10FFFF, cut ones.
TEST(Text, WhatIsNoUtf8IsReplaced) {
  EXPECT_EQ(clean_utf8("h\xc3\xa4 \xe2\x82\xac \xf0\x9f\x8c\x8d"), "h\xc3\xa4 \xe2\x82\xac \xf0\x9f\x8c\x8d");
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(clean_utf8("\xc0\xaf"), r + r);
  EXPECT_EQ(clean_utf8("\xed\xa0\x80"), r + r + r);
  EXPECT_EQ(clean_utf8("\xf4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(clean_utf8("\xe2\x82"), r + r);
}

TEST(Snapshot, HasTheNumbersAndTheLabels) {
  History history(seconds(720));
  history.add(view_of_two(), JobsView{});
  const std::string json = snapshot_json(view_of_two(), JobsView{}, healthy(), history);
  for (const char* part :
       {"\"version\": 1,", "\"connected\": true", "\"age_seconds\": 2.000", "\"memory_free_bytes\": 1610612736",
        "\"labels\": {\"rack\": \"r1\", \"ssd\": \"\"}", "\"unmet\": 12", "\"time\": [1700000000]", "\"cpus_used\": [1.5]"})
    EXPECT_NE(json.find(part), std::string::npos) << part << "\n" << json;
}

TEST(Snapshot, SaysWhatIsInsideAnAgent) {
  View view = view_of_two();
  Row row = agent_row("h1", "up", "8", "3.5");
  row.fields.emplace_back("nodes", "0 3.5/4 1536MiB/4GiB;1 0/4 0B/4GiB");
  row.fields.emplace_back("device_list", "gpu/nvidia GPU-1 0 good part;fpga x - ill unavailable");
  view.agents = {agent_view(row)};
  const std::string json = snapshot_json(view, JobsView{}, healthy(), History(seconds(720)));
  for (const char* part :
       {R"({"node": "0", "cpus_free": 3.5, "cpus": 4, "memory_free_bytes": 1610612736, "memory_bytes": 4294967296})",
        R"({"node": "1", "cpus_free": 0, "cpus": 4, "memory_free_bytes": 0, "memory_bytes": 4294967296})",
        R"({"kind": "gpu/nvidia", "id": "GPU-1", "node": "0", "healthy": true, "use": "part"})",
        R"({"kind": "fpga", "id": "x", "node": null, "healthy": false, "use": "unavailable"})"})
    EXPECT_NE(json.find(part), std::string::npos) << part << "\n" << json;
  // A master of another version, or none that is well: nothing worse than nothing.
  for (const char* text : {"", ";", "0", "0 a/b c/d", " / /;/"}) {
    row.fields[row.fields.size() - 2].second = text;
    row.fields.back().second = text;
    view.agents = {agent_view(row)};
    EXPECT_NE(snapshot_json(view, JobsView{}, healthy(), History(seconds(720))).find("\"nodes\": ["), std::string::npos);
  }
}

TEST(Snapshot, ShowsJobsWhateverTheirNames) {
  JobsView jobs;
  jobs.known = true;
  JobView job;
  job.id = "12_3", job.name = "</script>\"\xff", job.user = "ada", job.state = "RUNNING", job.hosts = "h1";
  job.cpus = MilliCpus(1500), job.submitted = seconds(1'700'000'000), job.elapsed = milliseconds(2500), job.time_limit = kNoLimit;
  jobs.jobs = {job};
  const std::string json = snapshot_json(view_of_two(), jobs, healthy(), History(seconds(720)));
  for (const char* part : {"\"id\": \"12_3\", \"name\": \"</script>\\\"\xef\xbf\xbd\", \"user\": \"ada\", \"state\": \"RUNNING\"",
                           R"("cpus": 1.5)", R"("submitted": 1700000000.000, "started": null, "ended": null)",
                           R"("elapsed_seconds": 2.500)", R"("time_limit_seconds": null)"})
    EXPECT_NE(json.find(part), std::string::npos) << part << "\n" << json;
}

TEST(Snapshot, BeforeTheFirstLookSaysSo) {
  const std::string json = snapshot_json(View{}, JobsView{}, Health{}, History(seconds(720)));
  EXPECT_NE(json.find("\"number\": 0"), std::string::npos);
  EXPECT_NE(json.find("\"age_seconds\": null"), std::string::npos);
  EXPECT_EQ(json.find("\"agents\""), std::string::npos);
}

TEST(History, IsBoundedAndKeepsTheLastOfASlot) {
  History history(seconds(7200));  // 720 points of 10 s
  View view = view_of_two();
  for (int i = 0; i < 3000; ++i) {
    view.taken.wall = seconds(1'000'000 + 5 * i);
    view.totals.slices = static_cast<std::uint64_t>(i);
    history.add(view, JobsView{});
  }
  ASSERT_EQ(history.points().size(), 720U);
  EXPECT_EQ(history.points().back().slices, 2999U);
  EXPECT_EQ(history.points().back().at, 1'014'990);
  EXPECT_EQ(history.points().front().at, 1'014'990 - 719 * 10);
  EXPECT_EQ(history.points()[718].slices, 2997U);
}

TEST(History, AGapIsAGapAndAClockThatIsSetBackBeginsAnew) {
  History history(seconds(7200));
  View view = view_of_two();
  view.taken.wall = seconds(10'000);
  history.add(view, JobsView{});
  view.taken.wall = seconds(10'600);
  history.add(view, JobsView{});
  EXPECT_EQ(history.points().size(), 2U);
  view.taken.wall = seconds(500);
  history.add(view, JobsView{});
  ASSERT_EQ(history.points().size(), 1U);
  EXPECT_EQ(history.points()[0].at, 500);
}

// The hash of the empty script is well known: sha256 of nothing in base64.
TEST(Page, PolicyNamesWhatIsWrittenInThePage) {
  EXPECT_NE(
      page_policy("<script></script>").find("script-src 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; style-src 'none'"),
      std::string::npos);
  const std::string policy = page_policy(page_html());
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(policy.find("script-src 'none'"), std::string::npos);
}

}  // namespace
}  // namespace bourse::console
