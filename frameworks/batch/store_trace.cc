#include "frameworks/batch/store_trace.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "frameworks/batch/job.h"
#include "frameworks/batch/protocol.h"
#include "frameworks/batch/sql.h"

namespace bourse::batch {

bool is_store(const std::string& path) {
  constexpr std::string_view kMagic = "SQLite format 3";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  std::array<char, kMagic.size()> head{};
  return file && std::fread(head.data(), 1, head.size(), file.get()) == head.size() &&
         std::string_view(head.data(), head.size()) == kMagic;
}

Result<sim::Workload> workload_of_store(const std::string& path, const sim::ReadOptions& options) {
  Database db;
  if (auto opened = db.open(path, SQLITE_OPEN_READWRITE); !opened) return std::move(opened).error().add(path);
  BOURSE_TRY(db.run("PRAGMA query_only=1"));
  Statement select;
  if (auto ok = select.prepare(db, "SELECT info FROM history WHERE started>0 ORDER BY id"); !ok)
    return std::move(ok).error().add(path + " is no store of bourse-batch");
  sim::Workload out;
  std::map<std::string, std::int32_t> users;
  while (select.step()) {
    auto info = decode_info(select.bytes(0));
    if (!info) return std::move(info).error().add(path);
    if (out.jobs.size() == sim::kSwfJobsMax)
      return Error(Code::kLimit, path + ": more than " + std::to_string(sim::kSwfJobsMax) + " jobs");
    sim::TraceJob job;
    job.number = static_cast<std::int64_t>(info->id.value);
    job.submit = std::max(info->submitted, info->eligible);
    job.run = info->elapsed;
    if (job.run.count() <= 0 || job.submit.count() <= 0 || info->cpus.value <= 0) {
      ++out.left_out;
      continue;
    }
    const bool limited = info->time_limit.count() > 0 && info->time_limit != kNoLimit;
    if (limited) job.run = std::min(job.run, info->time_limit);
    job.limit = limited && options.estimates != sim::Estimates::kExact ? info->time_limit : job.run;
    const std::int64_t nodes = std::max(info->nodes, 1u);
    sim::TraceShape shape;
    shape.nodes = static_cast<std::uint32_t>(nodes);
    shape.cpu_milli = info->cpus.value / nodes;
    shape.tasks = static_cast<std::uint32_t>(std::max<std::int64_t>(info->cpus.value / 1000, 1));
    shape.mem = std::max<std::int64_t>(info->mem.value, 0);
    job.processors = shape.tasks;
    job.user = users.try_emplace(info->user, static_cast<std::int32_t>(users.size())).first->second;
    out.users.try_emplace(job.user, info->user);
    job.shape = out.shape_of(shape);
    out.jobs.push_back(job);
  }
  if (select.failed()) return db.error("read " + path);
  std::stable_sort(out.jobs.begin(), out.jobs.end(),
                   [](const sim::TraceJob& a, const sim::TraceJob& b) { return a.submit < b.submit; });
  if (options.jobs_max != 0 && out.jobs.size() > options.jobs_max) out.jobs.resize(options.jobs_max);
  out.rebase();
  return out;
}

}  // namespace bourse::batch
