// The jobs of a trace, as a simulation takes them in and fills in when they ran.
//
// 72 bytes a job; what they ask for is kept once for all that ask alike. Owned by the caller.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/core/time.h"
#include "common/core/units.h"
#include "common/sim/swf.h"

namespace bourse::sim {

// What a scheduler plans with: the run time, what the user asked for, or the mean of the last two run times of the same user (Tsafrir,
// Etsion and Feitelson 2007). The limit at which a job is ended is always what the user asked for.
enum class Estimates : std::uint8_t { kExact, kUser, kLast2 };

// What a job asks for. Zero: not said.
struct TraceShape {
  std::uint32_t tasks = 1;     // processors
  std::uint32_t nodes = 0;     // 0: as few as hold them
  std::int64_t cpu_milli = 0;  // on each node, in place of a processor for each task
  std::int64_t mem = 0;        // bytes on each node
  std::int64_t mem_per_task = 0;
  std::uint32_t gpus = 0;         // on each node
  std::uint32_t gpus_in_all = 0;  // of the job, on as few nodes as have them
  std::uint32_t gpu_milli = 0;    // permille of each of them; 0: whole ones
  std::string gpu_models;         // "V100|T4": any of them
  std::string where;              // constraint on labels, as in parse_constraints()
  auto operator<=>(const TraceShape&) const = default;
};

struct TraceJob {
  std::int64_t number = 0;
  Duration submit{0};         // since the first job's
  Duration run{0}, limit{0};  // it ends at the earlier of the two
  std::uint32_t processors = 1;
  std::int32_t user = -1;
  std::uint32_t shape = 0;  // index into Workload.shapes
  std::uint8_t reason = 0;  // why it waited: see sim::Wait
  // Filled in by a run. Negative: it did not happen.
  Duration start{-1}, end{-1};
};

// Why a job did not start when it was submitted; of several, the last.
enum class Wait : std::uint8_t { kNone, kRoom, kOrder, kReserved };
std::string_view text_of(Wait wait);

struct Workload {
  std::vector<TraceJob> jobs;
  std::vector<TraceShape> shapes;
  std::map<std::string, std::string> header;  // of an SWF file
  std::map<std::int32_t, std::string> users;  // where the trace has names
  std::uint64_t left_out = 0;                 // had no submit time, no run time or no processors
  std::string left_out_why;                   // of the first that is odd: where, and what is wrong with it
  bool gpus = false;                          // some job asks for one

  std::uint32_t shape_of(const TraceShape& shape);  // its index
  Duration origin{0};                               // what was taken off each submit time, so that the first is 0
  void rebase();

 private:
  std::map<TraceShape, std::uint32_t> index_;
};

struct ReadOptions {
  std::size_t jobs_max = 0;  // 0: all
  Estimates estimates = Estimates::kUser;
  bool memory = false;  // SWF: asked memory counts
};

// Jobs without submit time, run time or processors are left out, as is usual with these logs. The run time is cut at the requested time; where
// none was requested the run time stands for it. Processors are those allocated, else those requested.
Result<Workload> workload_of_swf(Lines& lines, const ReadOptions& options);
std::vector<TraceJob> jobs_of(const SwfTrace& trace, Estimates estimates);

}  // namespace bourse::sim
