// The planner against worked examples of EASY that were computed by two other programs (a reference simulator and Batsim's rule), and
// arrays, dependencies, names and the environment against Slurm's documented meaning.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/core/rng.h"
#include "frameworks/batch/arrays.h"
#include "frameworks/batch/environment.h"
#include "frameworks/batch/planner.h"

namespace bourse::batch {
namespace {

constexpr std::size_t kDeep = 1000;

struct Work {
  std::int64_t submit, run, procs, request;
};

// Runs a workload on one machine of ten processors. Start times in order of the jobs.
std::vector<std::int64_t> simulate(const std::vector<Work>& jobs, Backfill backfill) {
  Planner planner;
  Resources total;
  total.cpus = MilliCpus(10'000);
  planner.add_node(total, {}, total);
  std::vector<Need> needs(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) needs[i].shape.cpus = MilliCpus(jobs[i].procs * 1000);
  std::vector<std::int64_t> start(jobs.size(), -1);
  std::multimap<std::int64_t, std::size_t> ends;
  std::vector<std::size_t> queue;
  std::size_t next = 0;
  while (next < jobs.size() || !ends.empty()) {
    std::int64_t t = next < jobs.size() ? jobs[next].submit : INT64_MAX;
    if (!ends.empty()) t = std::min(t, ends.begin()->first);
    while (!ends.empty() && ends.begin()->first == t) {  // completions, then arrivals, then one pass
      planner.end_run(ends.begin()->second);
      ends.erase(ends.begin());
    }
    while (next < jobs.size() && jobs[next].submit == t) queue.push_back(next++);
    std::vector<Planner::Candidate> candidates;
    for (std::size_t i : queue) candidates.push_back({i, &needs[i], seconds(jobs[i].request)});
    for (const auto& s : planner.pass(seconds(t), candidates, {backfill, kDeep, {}})) {
      start[s.job] = t;
      ends.emplace(t + jobs[s.job].run, s.job);
      queue.erase(std::find(queue.begin(), queue.end(), s.job));
    }
  }
  return start;
}

using Starts = std::vector<std::int64_t>;

TEST(Planner, StartsTheWorkedExamplesWhenTheReferenceDoes) {
  const std::vector<Work> w1{{0, 100, 6, 100}, {1, 50, 8, 50}, {2, 10, 10, 10}, {3, 200, 2, 200}};
  EXPECT_EQ(simulate(w1, Backfill::kNone), (Starts{0, 100, 150, 160}));
  EXPECT_EQ(simulate(w1, Backfill::kEasy), (Starts{0, 100, 203, 3}));
  EXPECT_EQ(simulate(w1, Backfill::kEasyCount), (Starts{0, 100, 203, 3}));
  EXPECT_EQ(simulate(w1, Backfill::kConservative), (Starts{0, 100, 150, 160}));
  const std::vector<Work> w2{{0, 100, 6, 100}, {1, 50, 8, 50}, {2, 90, 3, 90}, {3, 200, 2, 200}, {4, 95, 2, 95}};
  EXPECT_EQ(simulate(w2, Backfill::kNone), (Starts{0, 100, 150, 150, 150}));
  EXPECT_EQ(simulate(w2, Backfill::kEasy), (Starts{0, 100, 2, 92, 150}));
  EXPECT_EQ(simulate(w2, Backfill::kEasyCount), (Starts{0, 100, 2, 92, 150}));
  EXPECT_EQ(simulate(w2, Backfill::kConservative), (Starts{0, 100, 2, 92, 150}));
  const std::vector<Work> w3{{0, 40, 6, 100}, {1, 50, 8, 50}, {2, 10, 10, 10}, {3, 200, 2, 200}, {4, 30, 4, 35}};
  EXPECT_EQ(simulate(w3, Backfill::kNone), (Starts{0, 40, 90, 100, 100}));
  EXPECT_EQ(simulate(w3, Backfill::kEasy), (Starts{0, 40, 203, 3, 90}));
  EXPECT_EQ(simulate(w3, Backfill::kEasyCount), (Starts{0, 40, 203, 3, 90}));
  EXPECT_EQ(simulate(w3, Backfill::kConservative), (Starts{0, 40, 90, 100, 4}));
}

TEST(Planner, CountsARunBeyondItsLimitAsEndingJustAfterNow) {
  Planner planner;
  Resources two;
  two.cpus = MilliCpus(2000);
  const auto node = planner.add_node(two, {}, {});
  planner.start(1, seconds(10), {{node, two}});
  Need head;
  head.shape.cpus = MilliCpus(2000);
  const auto r = planner.reserve(head, seconds(50));
  EXPECT_EQ(r.at, seconds(50) + microseconds(1));
  EXPECT_EQ(r.nodes, std::vector<Planner::Node>{node});
}

TEST(Planner, NeverPromisesWhatHasNoLimit) {
  Planner planner;
  Resources two;
  two.cpus = MilliCpus(2000);
  const auto node = planner.add_node(two, {}, {});
  planner.start(1, kNoLimit, {{node, two}});
  Need head;
  head.shape.cpus = MilliCpus(1000);
  EXPECT_EQ(planner.reserve(head, seconds(0)).at, kNoLimit);
}

// --- arrays --------------------------------------------------------------------------------------------------------

// Against a plain set of ranks: random starts, ends and returns.
TEST(Arrays, AgreeWithAPlainSet) {
  std::uint64_t seed = 12345;
  auto random = [&](std::uint64_t n) { return seed = seed * 6364136223846793005ULL + 1442695040888963407ULL, (seed >> 33) % n; };
  for (int round = 0; round < 200; ++round) {
    const auto spec = parse_array("3-40:3,50%7");
    ArrayState array(*spec);
    ASSERT_EQ(array.size(), 14u);
    std::set<std::uint64_t> waiting, running, ended;
    for (std::uint64_t r = 0; r < array.size(); ++r) waiting.insert(r);
    for (int i = 0; i < 60; ++i) {
      const auto what = random(4);
      if (what < 2) {
        const auto next = array.next();
        ASSERT_EQ(next.has_value(), !waiting.empty() && running.size() < 7);
        if (next) {
          ASSERT_TRUE(waiting.contains(*next));
          array.started(*next), waiting.erase(*next), running.insert(*next);
        }
      } else if (what == 2 && !running.empty()) {
        const auto r = *std::next(running.begin(), static_cast<std::ptrdiff_t>(random(running.size())));
        array.back(r), running.erase(r), waiting.insert(r);
      } else {
        const auto a = random(array.size()), b = std::min(a + random(3), array.size() - 1);
        array.ended(a, b, random(2) == 0);
        for (auto r = a; r <= b; ++r) waiting.erase(r), running.erase(r), ended.insert(r);
      }
      ASSERT_EQ(array.waiting(), waiting.size());
      ASSERT_EQ(array.ended().size(), ended.size());
      std::set<std::uint64_t> listed;
      for (auto [a, b] : array.waiting_ranges(100))
        for (auto r = a; r <= b; ++r) ASSERT_TRUE(listed.insert(r).second);
      ASSERT_EQ(listed, waiting);
    }
  }
}

TEST(Arrays, WriteTheirRestAsTheUserWroteIt) {
  ArrayState array(*parse_array("1-9:2,20%2"));
  EXPECT_EQ(array.waiting_text(), "1-9:2,20%2");
  array.started(0);
  EXPECT_EQ(array.waiting_text(), "3-9:2,20%2");
  EXPECT_EQ(array.rank(20), 5u);
  EXPECT_EQ(array.rank(2), std::nullopt);
}

// --- words ---------------------------------------------------------------------------------------------------------

TEST(JobWords, ReadDependenciesAndWriteThemBack) {
  for (const char* text :
       {"afterok:12", "afterany:1,afterok:2", "after:14+5", "singleton", "afterok:13_4", "afterok:1?afterany:2", "aftercorr:7"}) {
    auto d = parse_dependencies(text);
    ASSERT_TRUE(d) << text;
    EXPECT_EQ(to_text(*d), text);
  }
  EXPECT_EQ(parse_dependencies("afterok:1:2:3")->items.size(), 3u);
  EXPECT_EQ(to_text(*parse_dependencies("afterok:1:2,afterany:3")), "afterok:1,afterok:2,afterany:3");
  for (const char* bad : {"afterok", "afterok:", "whenever:3", "afterok:x", "afterok:1,?afterok:2", "afterok:1+5", "singleton:4",
                          "afterok:1:", "afterok:0"})
    EXPECT_FALSE(parse_dependencies(bad)) << bad;
}

TEST(JobWords, ReadArraysSelectorsAndStates) {
  EXPECT_EQ(parse_array("1,4-20:2%5")->max_running, 5u);
  EXPECT_EQ(parse_array("1,4-20:2%5")->indexes.size(), 10u);
  for (const char* bad : {"%5", "1-", "a", "1%0", "1%x", "5-1"}) EXPECT_FALSE(parse_array(bad)) << bad;
  EXPECT_EQ(to_text(*parse_selector("123_4")), "123_4");
  EXPECT_EQ(to_text(*parse_selector("123_[1-3,7]")), "123_[1-3,7]");
  EXPECT_EQ(to_text(*parse_selector("123")), "123");
  for (const char* bad : {"", "x", "0", "12_", "12_[", "_3", "12_x"}) EXPECT_FALSE(parse_selector(bad)) << bad;
  EXPECT_EQ(*parse_state("pd"), JobState::kPending);
  EXPECT_EQ(*parse_state("Canceled"), JobState::kCancelled);
  EXPECT_FALSE(parse_state("ZZ"));
}

TEST(OutputNames, FollowTheFilenamePatternsOfSbatch) {
  JobSpec spec;
  spec.name = "sim", spec.user = "ann", spec.directory = "/w";
  Placement p;
  p.id = JobId(128), p.hosts = {"n07.site"};
  EXPECT_EQ(output_names(spec, p).out, "/w/job-128.out");
  for (const auto& [pattern, want] : std::vector<std::pair<std::string, std::string>>{{"job%J.out", "job128.out"},
                                                                                      {"job%4j.out", "job0128.out"},
                                                                                      {"%x-%u-%N", "sim-ann-n07"},
                                                                                      {"100%%", "100%"},
                                                                                      {"a%", "a%"},
                                                                                      {"%q%t", "%q0"},
                                                                                      {"%12j", "0000000128"}})
    EXPECT_EQ(expand_pattern(pattern, spec, p), want) << pattern;
  p.array = JobId(120), p.index = 7;
  EXPECT_EQ(output_names(spec, p).out, "/w/job-120_7.out");
  EXPECT_EQ(expand_pattern("%A_%3a", spec, p), "120_007");
  spec.stdout_path = "/abs/o", spec.stderr_path = "/abs/o";
  EXPECT_EQ(output_names(spec, p).error, "");
}

TEST(Environment, NamesWhatScriptsAskFor) {
  JobSpec spec;
  spec.name = "sim", spec.user = "ann", spec.uid = 1000, spec.submit_dir = "/w", spec.tasks = 5, spec.nodes_min = 2,
  spec.cpus_per_task = 2;
  spec.env = {"HOME=/home/ann", "SLURM_JOB_ID=9", "SLURM_ARRAY_TASK_ID=3", "SLURM_RESTART_COUNT=4"};
  const auto layout = lay_out(spec, BatchOptions{}, MilliCpus(64'000));
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->need.nodes, 2u);
  EXPECT_EQ(layout->need.shape.cpus, MilliCpus(6000));
  Placement p;
  p.id = JobId(10), p.hosts = {"h1", "h2"}, p.cpus_per_node = layout->need.shape.cpus;
  const auto env = job_environment(spec, {}, *layout, p, BatchOptions{});
  auto value = [&](const std::string& name) {
    std::string out = "(unset)";
    int count = 0;
    for (const auto& word : env)
      if (word.starts_with(name + "=")) out = word.substr(name.size() + 1), ++count;
    EXPECT_LE(count, 1) << name;
    return out;
  };
  for (const auto& [name, want] : std::vector<std::pair<std::string, std::string>>{{"SLURM_JOB_ID", "10"},
                                                                                   {"SLURM_JOBID", "10"},
                                                                                   {"SUBMIT_JOB_ID", "10"},
                                                                                   {"SLURM_JOB_NODELIST", "h[1-2]"},
                                                                                   {"SLURM_NNODES", "2"},
                                                                                   {"SLURM_JOB_NUM_NODES", "2"},
                                                                                   {"SLURM_NTASKS", "5"},
                                                                                   {"SLURM_TASKS_PER_NODE", "3,2"},
                                                                                   {"SLURM_CPUS_PER_TASK", "2"},
                                                                                   {"SLURM_CPUS_ON_NODE", "6"},
                                                                                   {"SLURM_JOB_CPUS_PER_NODE", "6(x2)"},
                                                                                   {"SUBMIT_DIR", "/w"},
                                                                                   {"SLURM_SUBMIT_DIR", "/w"},
                                                                                   {"SLURM_PROCID", "0"},
                                                                                   {"SLURM_NODEID", "0"},
                                                                                   {"SLURM_LOCALID", "0"},
                                                                                   {"HOME", "/home/ann"},
                                                                                   {"SLURM_ARRAY_TASK_ID", "(unset)"},
                                                                                   {"SLURM_RESTART_COUNT", "(unset)"},
                                                                                   {"OMPI_MCA_plm_rsh_agent", "bourse-rsh"},
                                                                                   {"HYDRA_LAUNCHER", "ssh"},
                                                                                   {"HYDRA_LAUNCHER_EXEC", "bourse-rsh"}})
    EXPECT_EQ(value(name), want) << name;
}

TEST(Layout, SpreadsTasksOverAsFewNodesAsHoldThem) {
  auto nodes = [](std::uint32_t tasks, std::uint32_t per_task, std::int64_t largest) {
    JobSpec s;
    s.tasks = tasks, s.cpus_per_task = per_task;
    const auto l = lay_out(s, BatchOptions{}, MilliCpus(largest * 1000));
    return l ? l->need.nodes : 0;
  };
  EXPECT_EQ(nodes(8, 1, 8), 1u);
  EXPECT_EQ(nodes(9, 1, 8), 2u);
  EXPECT_EQ(nodes(4, 4, 8), 2u);
  JobSpec listed;
  listed.node_list = "h[1-3]";
  EXPECT_EQ(lay_out(listed, BatchOptions{}, MilliCpus(8000))->need.nodes, 3u);
  JobSpec bad;
  bad.tasks = 9, bad.nodes_min = 2, bad.tasks_per_node = 4;
  EXPECT_FALSE(lay_out(bad, BatchOptions{}, MilliCpus(8000)));
}

// Reservations for everybody, on a profile that may have few slices: it keeps to them, and everybody still starts, none on what is taken.
TEST(Planner, AProfileThatIsFullIsCoarserAndGivesNothingTwice) {
  constexpr std::size_t kNodes = 8, kJobs = 600;
  Planner planner;
  Resources total;
  total.cpus = MilliCpus(4000);
  for (std::size_t n = 0; n < kNodes; ++n) planner.add_node(total, {}, total);
  planner.bound_profile(64 * kNodes);
  std::vector<Need> needs;
  std::vector<Planner::Candidate> queue;
  Rng rng(5);
  for (std::size_t j = 0; j < kJobs; ++j) {
    Need need;
    need.shape.cpus = MilliCpus(1000 * rng.between(1, 4));
    need.nodes = static_cast<std::uint32_t>(rng.between(1, 3));
    needs.push_back(need);
  }
  std::vector<Duration> limits;
  for (std::size_t j = 0; j < kJobs; ++j) limits.push_back(milliseconds(rng.between(1000, 900'000)));
  for (std::size_t j = 0; j < kJobs; ++j) queue.push_back({j, &needs[j], limits[j]});
  std::map<Duration, std::vector<std::uint64_t>> ends;
  Duration now{0};
  std::size_t started = 0, most = 0;
  while (started < kJobs) {
    for (const Planner::Start& start : planner.pass(now, queue, {Backfill::kConservative})) {
      ++started;  // pass() asserts that what it takes is free
      ends[now + limits[start.job] / 2].push_back(start.job);
    }
    most = std::max(most, planner.profile_slices());
    std::vector<Planner::Candidate> left;
    for (const Planner::Candidate& c : queue)
      if (!c.started) left.push_back(c);
    if (left.empty()) break;
    Duration next = ends.empty() ? kNoLimit : ends.begin()->first;
    next = std::min(next, std::max(planner.next_promise(), now + microseconds(1)));
    ASSERT_NE(next, kNoLimit);
    now = next;
    for (; !ends.empty() && ends.begin()->first <= now; ends.erase(ends.begin()))
      for (const std::uint64_t job : ends.begin()->second) planner.end_run(job);
    queue = std::move(left);
  }
  EXPECT_EQ(started, kJobs);
  EXPECT_LT(most, 4U * 64) << "of more than a thousand ends";
}

}  // namespace
}  // namespace bourse::batch
