// srun(1) of Slurm: parallel tasks, inside a job on its hosts, or with a job made for them.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "common/core/hostlist.h"
#include "common/core/units.h"
#include "frameworks/batch/environment.h"
#include "frameworks/batch/layout.h"
#include "frameworks/cli/batch_client.h"
#include "frameworks/cli/slurm/fronts.h"
#include "frameworks/cli/slurm/held_job.h"
#include "frameworks/cli/slurm/step_options.h"
#include "frameworks/cli/step_run.h"
#include "frameworks/cli/submit_options.h"

namespace bourse::cli {
namespace {

constexpr int kExitWrong = 1, kExitUsage = 255;  // Slurm's

int fail(std::string_view text, int status = kExitWrong) {
  fmt::print(stderr, "srun: error: {}\n", text);
  return status;
}

std::string of_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<std::uint32_t> count(const std::string& name, const std::string& text) {
  char* end = nullptr;
  const long long n = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != 0 || n < 1 || n > 1'000'000)
    return Error(Code::kInvalid, fmt::format("--{}: `{}' is not a number from 1 to 1000000", name, text));
  return static_cast<std::uint32_t>(n);
}

// Which hosts of the job have how many tasks, in the order of ranks.
struct Layout {
  std::vector<std::string> hosts;
  std::vector<std::uint32_t> tasks;
  std::vector<std::size_t> node_of;  // by rank
};

class Srun {
 public:
  explicit Srun(StepSettings settings) : s_(std::move(settings)) {}

  int run(const std::string& dir) {
    const std::string id = s_.has("jobid") ? s_.text("jobid") : of_environment("SLURM_JOB_ID");
    inside_ = !id.empty();
    auto desk = StepDesk::open(false);
    if (!desk) return fail(desk.error().text());
    std::unique_ptr<HeldJob> held;
    if (inside_) {
      auto selector = batch::parse_selector(id);
      if (!selector) return fail(selector.error().text(), kExitUsage);
      if (auto found = look_up(dir, *selector); !found) return fail(found.error().text());
    } else {
      HeldJob::Wish wish{"srun", s_.for_submit(), dir, kNoLimit, s_.has("quiet")};
      if (!s_.has("job-name")) wish.words.push_back("--job-name=" + base_name(s_.command().front()));
      if (s_.has("immediate")) wish.patience = seconds(s_.text("immediate").empty() ? 1 : std::atoi(s_.text("immediate").c_str()));
      auto made = HeldJob::start(**desk, wish);
      if (!made) return fail(made.error().text());
      held = std::move(*made);
      job_ = held->info();
    }
    auto plan = make_plan();
    int status = kExitWrong;
    if (!plan)
      status = fail(plan.error().text());
    else
      status = run_steps(**desk, dir, *plan);
    if (held) held->end(status);
    return status;
  }

 private:
  static std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  Result<> look_up(const std::string& dir, const batch::JobSelector& selector) {
    auto client = BOURSE_TRY(BatchClient::open(dir));
    auto reply = BOURSE_TRY(call<batch::JobReply>(*client, batch::JobRequest{selector, false}));
    if (reply.code != Code::kOk) return Error(reply.code, reply.reason);
    const auto running =
        std::ranges::find_if(reply.rows, [](const batch::JobInfo& row) { return row.state == batch::JobState::kRunning; });
    if (running == reply.rows.end()) return Error(Code::kGone, fmt::format("job {} is not running", to_text(selector)));
    job_ = *running;
    return {};
  }

  Result<Layout> lay_out() {
    std::vector<std::string> hosts = BOURSE_TRY(expand_hosts(job_.node_list));
    if (inside_ && s_.has("nodelist")) {
      std::vector<std::string> named = BOURSE_TRY(expand_hosts(s_.text("nodelist")));
      for (std::string& name : named) {
        const auto same = [&](const std::string& host) {
          return host == name || host.substr(0, host.find('.')) == name.substr(0, name.find('.'));
        };
        const auto found = std::ranges::find_if(hosts, same);
        if (found == hosts.end())
          return Error(Code::kInvalid,
                       fmt::format("job {} has no node {}; it has {}", batch::display_id(job_), name, job_.node_list));
        name = *found;
      }
      hosts = std::move(named);
    }
    if (inside_ && s_.has("exclude"))
      for (const std::string& name : BOURSE_TRY(expand_hosts(s_.text("exclude")))) std::erase(hosts, name);
    if (s_.has("relative")) {
      const int first = std::atoi(s_.text("relative").c_str());
      if (first < 0 || static_cast<std::size_t>(first) >= hosts.size())
        return Error(Code::kInvalid, fmt::format("--relative={}: the job has {} nodes", s_.text("relative"), hosts.size()));
      std::ranges::rotate(hosts, hosts.begin() + first);
    }
    if (hosts.empty()) return Error(Code::kInvalid, "no node of the job is left");
    const auto all = static_cast<std::uint32_t>(hosts.size());
    std::uint32_t each = 0, tasks = 0, nodes = 0;
    if (s_.has("ntasks-per-node")) each = BOURSE_TRY(count("ntasks-per-node", s_.text("ntasks-per-node")));
    if (s_.has("nodes")) {
      const std::string text = s_.text("nodes");
      const std::size_t dash = text.find('-');
      nodes = BOURSE_TRY(count("nodes", text.substr(0, dash)));
      if (dash != std::string::npos) nodes = std::max(nodes, std::min(all, BOURSE_TRY(count("nodes", text.substr(dash + 1)))));
      if (nodes > all)
        return Error(Code::kInvalid, fmt::format("Unable to create step for job {}: More nodes requested ({}) than it has ({})",
                                                 batch::display_id(job_), nodes, all));
    }
    if (s_.has("ntasks"))
      tasks = BOURSE_TRY(count("ntasks", s_.text("ntasks")));
    else if (each != 0)
      tasks = each * (nodes != 0 ? nodes : all);
    else
      tasks = std::max(job_.tasks, nodes);
    if (nodes == 0) nodes = each != 0 ? std::min(all, (tasks + each - 1) / each) : all;
    if (tasks < nodes) {
      if (s_.has("nodes"))
        fmt::print(stderr, "srun: Warning: can't run {} processes on {} nodes, setting nnodes to {}\n", tasks, nodes, tasks);
      nodes = tasks;
    }
    Layout l;
    hosts.resize(nodes);
    l.hosts = std::move(hosts);
    if (each != 0 && std::uint64_t{each} * nodes < tasks)
      return Error(Code::kInvalid, fmt::format("{} tasks, {} on each node, do not fit on {} nodes", tasks, each, nodes));
    l.tasks = batch::spread_tasks(tasks, nodes);
    if (s_.text("distribution").starts_with("cyclic")) {
      for (std::uint32_t rank = 0; rank < tasks; ++rank) l.node_of.push_back(rank % nodes);
    } else {
      for (std::size_t node = 0; node < nodes; ++node) l.node_of.insert(l.node_of.end(), l.tasks[node], node);
    }
    return l;
  }

  Result<StepPlan> make_plan() {
    StepPlan plan;
    plan.program = "srun";
    plan.job = {job_.array.value != 0 ? job_.array : job_.id, job_.array.value != 0 ? job_.indexes : ""};
    plan.directory = s_.text("chdir");
    plan.label = s_.has("label"), plan.unbuffered = s_.has("unbuffered");
    plan.quiet = s_.has("disable-status");
    plan.kill_on_bad_exit = s_.has("kill-on-bad-exit") && s_.text("kill-on-bad-exit") != "0";
    if (s_.has("wait")) plan.wait = seconds(std::atoi(s_.text("wait").c_str()));
    if (inside_ && s_.has("time")) plan.limit = BOURSE_TRY(parse_duration(s_.text("time"), std::chrono::minutes(1), true));
    plan.terminal = s_.has("pty");
    plan.inherit = s_.inherits();
    Layout layout = BOURSE_TRY(lay_out());
    if (plan.terminal && layout.node_of.size() > 1) {  // as Slurm: the first task has the terminal; here it is the only one
      layout.hosts.resize(1), layout.tasks = {1}, layout.node_of = {0};
    }
    const std::string mpi = s_.text("mpi");
    if (!mpi.empty() && mpi != "none" && mpi != "list")
      return Error(Code::kUnsupported,
                   fmt::format("--mpi={}: tasks are started without PMI; use mpirun, which finds the job's hosts by itself", mpi));
    std::uint32_t cpus = 0;
    const std::string cpus_text = s_.has("cpus-per-task") ? s_.text("cpus-per-task") : of_environment("SLURM_CPUS_PER_TASK");
    if (!cpus_text.empty()) cpus = BOURSE_TRY(count("cpus-per-task", cpus_text));
    const bool exact = inside_ && !s_.has("overlap") && (s_.has("exact") || s_.has("exclusive"));
    const bool anywhere = exact && !s_.has("nodelist") && !s_.has("nodes") && !s_.has("relative") && !s_.has("ntasks-per-node");
    auto commands = BOURSE_TRY(s_.commands(layout.node_of.size()));
    std::vector<std::uint32_t> begun(layout.hosts.size());
    std::map<std::size_t, std::string> ranks_on;
    for (std::size_t rank = 0; rank < layout.node_of.size(); ++rank)
      ranks_on[layout.node_of[rank]] += (ranks_on[layout.node_of[rank]].empty() ? "" : ",") + std::to_string(rank);
    for (std::size_t rank = 0; rank < layout.node_of.size(); ++rank) {
      const std::size_t node = layout.node_of[rank];
      StepProcess process;
      process.host = anywhere ? "" : layout.hosts[node];
      process.node = static_cast<int>(node);
      if (exact) process.cpus = MilliCpus(1000 * std::int64_t{std::max(cpus, 1U)});
      process.argv = std::move(commands[rank]);
      process.env = BOURSE_TRY(environment(layout, rank, begun[node]++, cpus, ranks_on[node]));
      BOURSE_TRY(files(plan, process, layout, rank));
      plan.processes.push_back(std::move(process));
    }
    BOURSE_TRY(streams(plan));
    return plan;
  }

  Result<std::vector<std::string>> environment(const Layout& layout, std::size_t rank, std::uint32_t local, std::uint32_t cpus,
                                               const std::string& ranks) const {
    const std::string tasks = std::to_string(layout.node_of.size()), nodes = std::to_string(layout.hosts.size());
    const std::string hosts = compress_hosts(layout.hosts), counts = batch::compress_counts(layout.tasks);
    std::vector<std::string> env;
    const auto set = [&](const std::string& name, const std::string& value) {
      env.push_back("SLURM_" + name + "=" + value);
      env.push_back("SUBMIT_" + name + "=" + value);
    };
    const std::string id = std::to_string(job_.id.value);
    set("JOB_ID", id), set("JOBID", id);
    set("PROCID", std::to_string(rank)), set("LOCALID", std::to_string(local)), set("GTIDS", ranks);
    set("NTASKS", tasks), set("NPROCS", tasks), set("NNODES", nodes);
    set("STEP_ID", step_id()), set("STEPID", step_id());
    set("STEP_NUM_TASKS", tasks), set("STEP_NUM_NODES", nodes), set("STEP_NODELIST", hosts), set("STEP_TASKS_PER_NODE", counts);
    set("TASKS_PER_NODE", counts);
    if (cpus != 0) set("CPUS_PER_TASK", std::to_string(cpus));
    if (!inside_) {
      set("JOB_NODELIST", job_.node_list), set("NODELIST", job_.node_list), set("JOB_NUM_NODES", std::to_string(job_.nodes));
      set("JOB_NAME", job_.name);
    }
    env.push_back("SLURM_LAUNCH_NODE_IPADDR=" + own_addresses().front());
    env.push_back("SLURM_DISTRIBUTION=" + (s_.has("distribution") ? s_.text("distribution") : "block"));
    return s_.exported(std::move(env));
  }
  // Unique on this host; Slurm counts from 0.
  static std::string step_id() { return std::to_string(getpid()); }

  // A pattern that differs from task to task is a file of the task's host; all else is a file of ours.
  static bool own_file(const std::string& pattern) {
    for (std::size_t at = pattern.find('%'); at != std::string::npos && at + 1 < pattern.size(); at = pattern.find('%', at + 2)) {
      std::size_t letter = at + 1;
      while (letter < pattern.size() && pattern[letter] >= '0' && pattern[letter] <= '9') ++letter;
      if (letter < pattern.size() && (pattern[letter] == 't' || pattern[letter] == 'n' || pattern[letter] == 'N')) return true;
    }
    return false;
  }
  static bool is_word(const std::string& text) {
    return text == "all" || text == "none" || (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos);
  }
  std::string expand(const std::string& pattern, std::size_t rank, std::size_t node, const std::string& host) const {
    batch::JobSpec spec;
    spec.name = job_.name, spec.user = job_.user;
    batch::Placement at;
    at.id = job_.id, at.array = job_.array, at.hosts = {host};
    if (job_.array.value != 0) at.index = static_cast<std::uint64_t>(std::atoll(job_.indexes.c_str()));
    std::string text;
    for (std::size_t i = 0; i < pattern.size(); ++i) {  // what a job script's pattern does not know
      std::size_t letter = i + 1;
      while (letter < pattern.size() && pattern[i] == '%' && pattern[letter] >= '0' && pattern[letter] <= '9') ++letter;
      const char c = pattern[i] == '%' && letter < pattern.size() ? pattern[letter] : '\0';
      const auto width =
          std::min<std::size_t>(letter > i + 1 ? static_cast<std::size_t>(std::atoi(pattern.c_str() + i + 1)) : 0, 10);
      const auto padded = [&](std::string value) {
        return value.size() < width ? std::string(width - value.size(), '0') + value : value;
      };
      if (c == 't' || c == 'n' || c == 's' || c == 'J' || c == '%') {
        text += c == 't'   ? padded(std::to_string(rank))
                : c == 'n' ? padded(std::to_string(node))
                : c == 's' ? padded(step_id())
                : c == 'J' ? fmt::format("{}.{}", job_.id.value, step_id())
                           : "%%";
        i = letter;
      } else {
        text += pattern[i];
      }
    }
    std::string path = batch::expand_pattern(text, spec, at);
    if (!path.empty() && path[0] != '/' && s_.has("chdir")) path = s_.text("chdir") + "/" + path;
    return path;
  }
  static std::string absolute(const std::string& path) {
    if (path.empty() || path[0] == '/') return path;
    std::string here(4096, '\0');
    return getcwd(here.data(), here.size()) == nullptr ? path : std::string(here.c_str()) + "/" + path;
  }

  Result<> files(const StepPlan&, StepProcess& process, const Layout& layout, std::size_t rank) const {
    const std::size_t node = layout.node_of[rank];
    const auto one = [&](const char* option, std::string& path) {
      const std::string pattern = s_.text(option);
      if (!pattern.empty() && !is_word(pattern) && own_file(pattern))
        path = absolute(expand(pattern, rank, node, layout.hosts[node]));
      if (pattern == "none" && std::string_view(option) != "input") path = "/dev/null";
      if (!pattern.empty() && is_word(pattern) && pattern != "all" && pattern != "none" && std::string_view(option) != "input" &&
          pattern != std::to_string(rank))
        path = "/dev/null";
    };
    one("output", process.out), one("error", process.err), one("input", process.in);
    if (!s_.has("error") && !process.out.empty()) process.err = process.out;
    // The launcher appends; a file of an earlier run is begun anew, as Slurm does. On another host it can only be appended to.
    if (s_.text("open-mode") != "append")
      for (const std::string& path : std::set<std::string>{process.out, process.err})
        if (!path.empty() && path != "/dev/null") (void)!truncate(path.c_str(), 0);
    return {};
  }

  Result<> streams(StepPlan& plan) const {
    const int mode = O_WRONLY | O_CREAT | O_CLOEXEC | (s_.text("open-mode") == "append" ? O_APPEND : O_TRUNC);
    const auto open_for = [&](const char* option, int flags, int& fd) -> Result<> {
      const std::string pattern = s_.text(option);
      if (pattern.empty() || is_word(pattern) || own_file(pattern)) return {};
      const std::string path = expand(pattern, 0, 0, plan.processes.front().host);
      fd = ::open(path.c_str(), flags, 0666);
      if (fd < 0) return errno_error(path);
      return {};
    };
    BOURSE_TRY(open_for("output", mode, plan.out));
    if (!s_.has("error") && s_.has("output")) plan.err = plan.out;
    BOURSE_TRY(open_for("error", mode, plan.err));
    BOURSE_TRY(open_for("input", O_RDONLY | O_CLOEXEC, plan.in));
    const std::string input = s_.text("input");
    if (input == "none") plan.input = StepPlan::Input::kNone;
    if (is_word(input) && input != "all" && input != "none") {
      plan.input = StepPlan::Input::kOne;
      plan.input_to = static_cast<std::size_t>(std::atoll(input.c_str()));
      if (plan.input_to >= plan.processes.size())
        return Error(Code::kInvalid, fmt::format("--input={}: there are {} tasks", input, plan.processes.size()));
    }
    return {};
  }

  StepSettings s_;
  bool inside_ = false;
  batch::JobInfo job_;
};

}  // namespace

int srun_main(int argc, char** argv) {
  auto settings = StepSettings::read("srun", {argv + 1, argv + argc});
  if (!settings) return fail(settings.error().text(), kExitUsage);
  if (settings->has("help")) {
    fmt::print(
        "Usage: srun [OPTIONS] COMMAND [ARGUMENT...]\n\nRuns tasks on the hosts of the job it is called in, or of a job made for "
        "them. "
        "See bourse-slurm(1).\n\n{}",
        usage(step_table()));
    return 0;
  }
  if (settings->has("version")) {
    fmt::print("srun (Bourse) {}\n", BOURSE_VERSION);
    return 0;
  }
  if (settings->text("mpi") == "list") {
    fmt::print("MPI plugin types are...\n\tnone\n");
    return 0;
  }
  if (settings->command().empty()) return fail("No command given to execute.", kExitWrong);
  const std::string dir = settings->text("cluster");
  return Srun(*std::move(settings)).run(dir);
}

}  // namespace bourse::cli
