#include "common/sim/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <optional>

namespace bourse::sim {
namespace {

constexpr std::int64_t kMost = INT64_C(1'000'000'000'000);  // of anything that is counted

class Table {
 public:
  explicit Table(Lines& lines) : lines_(lines) {}

  Result<> header() {
    std::string_view line;
    if (!BOURSE_TRY(lines_.next(line)))
      return Error(Code::kInvalid, lines_.name() + ": the file is empty; a line that names the columns was expected");
    if (line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
    BOURSE_TRY(cut(line));
    for (const Field& field : fields_) names_.emplace_back(field.text);
    return {};
  }
  // The next line that is not blank.
  Result<bool> next() {
    std::string_view line;
    while (BOURSE_TRY(lines_.next(line))) {
      if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
      BOURSE_TRY(cut(line));
      if (fields_.size() != names_.size())
        return lines_.bad(line.size() + 1, "the line has " + std::to_string(fields_.size()) + " fields, and the first one names " +
                                               std::to_string(names_.size()) + " columns");
      return true;
    }
    return false;
  }
  // The first of these names that is a column.
  [[nodiscard]] std::optional<std::size_t> column(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names)
      if (const auto at = std::find(names_.begin(), names_.end(), name); at != names_.end())
        return static_cast<std::size_t>(at - names_.begin());
    return std::nullopt;
  }
  [[nodiscard]] std::string_view text(std::optional<std::size_t> column) const {
    return column ? std::string_view(fields_[*column].text) : std::string_view{};
  }
  [[nodiscard]] Error bad(std::size_t column, const std::string& why) const {
    return lines_.bad(fields_[column].at, "\"" + fields_[column].text.substr(0, 32) + "\" (" + names_[column] + ") " + why);
  }
  // A whole number, not negative; decimals are cut. Absent or empty: `otherwise`.
  Result<std::int64_t> number(std::optional<std::size_t> column, std::int64_t otherwise, std::int64_t most = kMost) const {
    const std::string_view word = text(column);
    if (word.empty()) return otherwise;
    const Duration value = BOURSE_TRY(seconds_of(*column));
    const std::int64_t whole = value.count() / 1'000'000;
    if (whole < 0) return bad(*column, "is negative");
    if (whole > most) return bad(*column, "is more than " + std::to_string(most));
    return whole;
  }
  // Absent or empty: nothing.
  enum class Below : std::uint8_t { kRefused, kTold };
  Result<std::optional<Duration>> time(std::optional<std::size_t> column, Below below = Below::kRefused) const {
    const std::string_view word = text(column);
    if (word.empty()) return std::optional<Duration>{};
    const Duration value =
        word.find(':') != std::string_view::npos ? BOURSE_TRY(date_of(*column)) : BOURSE_TRY(seconds_of(*column));
    if (value.count() < 0 && below == Below::kRefused) return bad(*column, "is negative");
    return std::optional<Duration>(value);
  }
  [[nodiscard]] const Lines& lines() const { return lines_; }

 private:
  struct Field {
    std::string text;
    std::size_t at = 1;  // character of the line
  };

  Result<> cut(std::string_view line) {
    fields_.clear();
    for (std::size_t at = 0;; ++at) {
      Field field;
      field.at = at + 1;
      if (at < line.size() && line[at] == '"') {
        for (++at;; ++at) {
          if (at >= line.size()) return lines_.bad(field.at, "the quoted field does not end");
          if (line[at] == '"' && (at + 1 >= line.size() || line[at + 1] != '"')) break;
          if (line[at] == '"') ++at;
          field.text += line[at];
        }
        ++at;
        if (at < line.size() && line[at] != ',') return lines_.bad(at + 1, "a comma was expected after the quoted field");
      } else {
        const std::size_t end = std::min(line.find(',', at), line.size());
        field.text = std::string(line.substr(at, end - at));
        at = end;
      }
      fields_.push_back(std::move(field));
      if (fields_.size() > kCsvColumnsMax) return lines_.bad(at + 1, "more than " + std::to_string(kCsvColumnsMax) + " columns");
      if (at >= line.size()) return {};
    }
  }

  Result<Duration> seconds_of(std::size_t column) const {
    const std::string& word = fields_[column].text;
    const bool minus = word.starts_with("-");
    std::int64_t whole = 0, micros = 0;
    const char* const last = word.data() + word.size();
    auto [rest, failure] = std::from_chars(word.data() + (minus ? 1 : 0), last, whole);
    if (failure == std::errc{} && rest != last && *rest == '.') {
      std::int64_t unit = 100'000;
      for (++rest; rest != last && *rest >= '0' && *rest <= '9'; ++rest, unit /= 10) micros += unit * (*rest - '0');
    }
    if (failure != std::errc{} || rest != last || whole < 0) return bad(column, "is not a number");
    if (whole > kMost) return bad(column, "is more than " + std::to_string(kMost));
    const Duration value(whole * 1'000'000 + micros);
    return minus ? -value : value;
  }

  Result<Duration> date_of(std::size_t column) const {
    // YYYY-MM-DD HH:MM:SS, with a space or T.
    const std::string& w = fields_[column].text;
    const auto part = [&](std::size_t at, std::size_t size) {
      int value = -1;
      if (at + size > w.size()) return -1;
      const auto [end, failure] = std::from_chars(w.data() + at, w.data() + at + size, value);
      return failure == std::errc{} && end == w.data() + at + size ? value : -1;
    };
    const int year = part(0, 4), month = part(5, 2), day = part(8, 2), hour = part(11, 2), minute = part(14, 2),
              second = part(17, 2);
    const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(std::max(month, 0))),
                                           std::chrono::day(static_cast<unsigned>(std::max(day, 0)))};
    if (w.size() < 19 || w[4] != '-' || w[7] != '-' || (w[10] != ' ' && w[10] != 'T') || w[13] != ':' || w[16] != ':' || year < 0 ||
        !date.ok() || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60)
      return bad(column, "is not a time such as 2017-10-09 07:01:55");
    return std::chrono::duration_cast<Duration>(std::chrono::sys_days(date).time_since_epoch()) + std::chrono::hours(hour) +
           std::chrono::minutes(minute) + std::chrono::seconds(second);
  }

  Lines& lines_;
  std::vector<std::string> names_;
  std::vector<Field> fields_;
};

struct Columns {
  using Column = std::optional<std::size_t>;
  Column submit, run, end, scheduled, limit, number, user, processors, nodes, ppn, cpu_milli, memory_mib, mem_bytes, mem_per_job,
      gpus, gpu_milli, gpu_spec, cluster, constraint;
  explicit Columns(const Table& t)
      : submit(t.column({"submit_s", "submit_time", "submit", "creation_time", "timestamp"})),
        run(t.column({"run_s", "run_time", "duration_s", "duration"})),
        end(t.column({"deletion_time"})),
        scheduled(t.column({"scheduled_time"})),
        limit(t.column({"walltime_s", "time_limit_s", "limit_s"})),
        number(t.column({"job", "job_id", "number"})),
        user(t.column({"user", "user_id", "cluster"})),
        processors(t.column({"processors", "procs", "cpus"})),
        nodes(t.column({"nodes"})),
        ppn(t.column({"ppn"})),
        cpu_milli(t.column({"cpu_milli"})),
        memory_mib(t.column({"memory_mib"})),
        mem_bytes(t.column({"mem_bytes"})),
        mem_per_job(t.column({"mem_bytes_per_job"})),
        gpus(t.column({"gpus", "num_gpus", "num_gpu"})),
        gpu_milli(t.column({"gpu_milli"})),
        gpu_spec(t.column({"gpu_spec"})),
        cluster(t.column({"cluster_constraint"})),
        constraint(t.column({"constraint"})) {}
};

Result<TraceShape> shape_of(const Table& t, const Columns& c) {
  TraceShape shape;
  const auto nodes = BOURSE_TRY(t.number(c.nodes, 0, 1'000'000)), ppn = BOURSE_TRY(t.number(c.ppn, 0, 1'000'000));
  const auto processors = BOURSE_TRY(t.number(c.processors, 0, 100'000'000)), milli = BOURSE_TRY(t.number(c.cpu_milli, 0));
  const auto gpus = BOURSE_TRY(t.number(c.gpus, 0, 1'000'000));
  shape.nodes = static_cast<std::uint32_t>(nodes);
  shape.tasks = static_cast<std::uint32_t>(std::max<std::int64_t>({processors, std::max<std::int64_t>(nodes, 1) * ppn, 1}));
  if (shape.tasks > 100'000'000) return t.bad(*c.ppn, "times the nodes is more processors than any cluster has");
  shape.cpu_milli = milli;
  if (milli > 0)
    shape.nodes = std::max(shape.nodes, 1u), shape.tasks = static_cast<std::uint32_t>((milli + 999) / 1000) * shape.nodes;
  const auto mib = BOURSE_TRY(t.number(c.memory_mib, 0, 1 << 30)), bytes = BOURSE_TRY(t.number(c.mem_bytes, 0, INT64_MAX / 2));
  const auto per_job = BOURSE_TRY(t.number(c.mem_per_job, 0, INT64_MAX / 2));
  shape.mem = mib > 0 ? mib * 1024 * 1024 : bytes > 0 ? bytes : per_job / std::max<std::int64_t>(nodes, 1);
  shape.gpu_milli = static_cast<std::uint32_t>(BOURSE_TRY(t.number(c.gpu_milli, 0, 1000)));
  shape.gpu_models = std::string(t.text(c.gpu_spec));
  if (gpus > 0 && (milli > 0 || nodes > 0))
    shape.gpus = static_cast<std::uint32_t>(gpus);
  else
    shape.gpus_in_all = static_cast<std::uint32_t>(gpus);
  if (gpus > 0 && processors == 0 && milli == 0 && nodes == 0) shape.tasks = static_cast<std::uint32_t>(gpus);  // one beside each
  if (shape.gpus == 0) shape.gpu_milli = 0, shape.gpu_models.clear();
  if (const std::string_view cluster = t.text(c.cluster); !cluster.empty() && cluster != "-")
    shape.where = "cluster=" + std::string(cluster);
  if (const std::string_view more = t.text(c.constraint); !more.empty())
    shape.where += (shape.where.empty() ? "" : "&") + std::string(more);
  return shape;
}

}  // namespace

Result<Workload> workload_of_csv(Lines& lines, const ReadOptions& options, bool times) {
  Table table(lines);
  BOURSE_TRY(table.header());
  const Columns c(table);
  if (times && !c.submit)
    return lines.bad(1, "no column with the time of submission (submit_s, submit_time, creation_time or timestamp)");
  if (times && !c.run && !c.end) return lines.bad(1, "no column with the run time (run_s, duration, or deletion_time)");
  Workload out;
  std::map<std::string, std::int32_t> users;
  while (BOURSE_TRY(table.next())) {
    if (out.jobs.size() == kSwfJobsMax)
      return Error(Code::kLimit, lines.name() + ": more than " + std::to_string(kSwfJobsMax) + " jobs");
    TraceJob job;
    job.number = BOURSE_TRY(table.number(c.number, static_cast<std::int64_t>(lines.number()) - 2));
    if (times) {
      const auto submit = BOURSE_TRY(table.time(c.submit));
      auto run = BOURSE_TRY(table.time(c.run, Table::Below::kTold));
      if (!c.run) {
        const auto end = BOURSE_TRY(table.time(c.end)), from = BOURSE_TRY(table.time(c.scheduled));
        const auto begin = from ? from : submit;
        if (end && begin) run = *end - *begin;
      }
      const auto limit = BOURSE_TRY(table.time(c.limit));
      if (!submit || !run || run->count() <= 0) {
        // Logs made by taking one time from another have such where a job never started: left out, and said.
        if (++out.left_out; run && run->count() < 0 && out.left_out_why.empty())
          out.left_out_why = table.bad(*(c.run ? c.run : c.end), "is a run time below zero").text();
        continue;
      }
      job.submit = *submit;
      job.run = limit && limit->count() > 0 ? std::min(*run, *limit) : *run;
      job.limit = options.estimates != Estimates::kExact && limit && limit->count() > 0 ? *limit : job.run;
    }
    const TraceShape shape = BOURSE_TRY(shape_of(table, c));
    job.processors = shape.tasks;
    out.gpus = out.gpus || shape.gpus > 0 || shape.gpus_in_all > 0;
    job.shape = out.shape_of(shape);
    if (const std::string user(table.text(c.user)); !user.empty()) {
      job.user = users.try_emplace(user, static_cast<std::int32_t>(users.size())).first->second;
      out.users.try_emplace(job.user, user);
    }
    out.jobs.push_back(job);
  }
  std::stable_sort(out.jobs.begin(), out.jobs.end(), [](const TraceJob& a, const TraceJob& b) { return a.submit < b.submit; });
  if (options.jobs_max != 0 && out.jobs.size() > options.jobs_max) out.jobs.resize(options.jobs_max);
  out.rebase();
  return out;
}

Result<std::vector<CsvNode>> nodes_of_csv(Lines& lines) {
  Table table(lines);
  BOURSE_TRY(table.header());
  const auto name = table.column({"sn", "name", "node"}), milli = table.column({"cpu_milli"}),
             cpus = table.column({"cpus", "cores"});
  const auto mib = table.column({"memory_mib"}), gpu = table.column({"gpu", "gpus"}), model = table.column({"model"});
  if (!milli && !cpus) return lines.bad(1, "no column cpu_milli or cpus; a list of nodes was expected");
  std::vector<CsvNode> out;
  while (BOURSE_TRY(table.next())) {
    CsvNode node;
    node.name = std::string(table.text(name));
    node.model = std::string(table.text(model));
    node.cpu_milli = milli ? BOURSE_TRY(table.number(milli, 0)) : BOURSE_TRY(table.number(cpus, 0, 1'000'000)) * 1000;
    node.mem = BOURSE_TRY(table.number(mib, 0, 1 << 30)) * 1024 * 1024;
    node.gpus = static_cast<std::uint32_t>(BOURSE_TRY(table.number(gpu, 0, 1024)));
    out.push_back(std::move(node));
  }
  return out;
}

}  // namespace bourse::sim
