// From what a user asked for to what is asked of each node: slices, tasks on each, cores and memory. Pure.
//
// A job without --nodes goes to as few nodes as its tasks need, going by the largest agent that is known. Every node gets the same
// shape (the largest share); tasks are spread in blocks, so the last node may run fewer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/core/messages.h"
#include "frameworks/batch/job.h"
#include "frameworks/batch/planner.h"
#include "frameworks/batch/protocol.h"
#include "plugins/policy/host.h"

namespace bourse::batch {

struct BatchOptions {
  std::string cluster = "bourse";
  std::string framework = "batch";
  std::string role = "batch";
  bool mail = false;  // there is a program to send it
  Duration default_time_limit = seconds(24 * 3600);
  Duration max_time_limit = kNoLimit;
  Bytes default_mem_per_cpu;  // 0: not limited
  Duration slice_idle = seconds(2);
  Duration launch_ahead = milliseconds(100);  // work that is sent to a slice behind what runs in it; 0: none. See batch_ahead.cc
  Duration kill_grace = seconds(30);
  Duration recovery_wait = seconds(120);  // for agents that do not answer, after a restart
  std::uint32_t requeue_max = 3;          // times that a lost or preempted job is queued again by itself; 0: never
  std::uint64_t script_bytes_max = kScriptBytesMax;
  std::uint32_t attempts_max = 20;  // then the job is held
  Backfill backfill = Backfill::kEasy;
  std::uint32_t backfill_depth = 100;  // jobs looked at past the first that waits
  // The order of the queue. main.cc has checked that the policy takes its parameters, and that it gives an order.
  policy::Choice policy = policy::built_in("fifo");
  const policy::Catalog* policies = nullptr;  // where a reload looks for another; null: only those built in
  std::string shadow_policy;                  // candidates beside it, a line each: see shadow.h
  Duration shadow_every = seconds(300);       // that often they are looked at
  std::string policy_learnt;                  // what it begins with where the store has nothing of it
  policy::Guard* policy_guard = nullptr;      // null: nothing watches the time it takes
  Duration policy_budget = milliseconds(50);
  std::uint64_t pending_max = 1'000'000;  // jobs; an array counts once
  std::string step_agent = "bourse-rsh";  // what mpirun is given in place of ssh: one word, as Hydra wants it
  std::string slurm_commands;             // directory with srun, squeue and the like, for the front of a job's PATH; "": none
};

struct Layout {
  Need need;
  std::uint32_t tasks = 1, tasks_per_node = 1, cpus_per_task = 1;
  bool depends_on_agents = false;  // the number of nodes was chosen by what agents there are
  std::string reservation;         // that it runs in; "": none is named
  std::string key;                 // equal keys: a slice of one serves the other
};

// `largest_cpus`: of any agent; 0: none known.
Result<Layout> lay_out(const JobSpec& spec, const BatchOptions& options, MilliCpus largest_cpus);
// Everything about a submitted specification that can be judged without agents: kInvalid with a sentence.
Result<> check_spec(const JobSpec& spec, const BatchOptions& options);
Duration time_limit_of(const JobSpec& spec, const BatchOptions& options);

// Could these agents ever run it? kOk, or why not: "no agent has 512 cores; the largest, h2, has 2".
Result<> check_possible(const Layout& layout, const std::map<AgentId, AgentFacts>& agents);

// Tasks on each node: 5 over 2 nodes is 3, 2.
std::vector<std::uint32_t> spread_tasks(std::uint32_t tasks, std::uint32_t nodes);
std::string compress_counts(const std::vector<std::uint32_t>& counts);  // "3,2", "4(x3)"

}  // namespace bourse::batch
