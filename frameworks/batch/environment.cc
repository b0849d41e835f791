#include "frameworks/batch/environment.h"

#include <algorithm>
#include <map>

#include "common/core/plain_path.h"

namespace bourse::batch {
namespace {

std::string padded(std::string text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

std::string short_host(const std::string& host) { return host.substr(0, host.find('.')); }

std::string absolute(const std::string& path, const std::string& directory) {
  if (path.empty() || path.front() == '/') return path;
  return directory + (directory.ends_with('/') ? "" : "/") + path;
}

}  // namespace

std::vector<std::string> job_environment(const JobSpec& spec, const ArraySpec& array, const Layout& layout,
                                         const Placement& placement, const BatchOptions& options) {
  std::map<std::string, std::string> own;
  auto set = [&](const std::string& name, const std::string& value) {
    own["SUBMIT_" + name] = value;
    own["SLURM_" + name] = value;
  };
  const std::string id = std::to_string(placement.id.value), hosts = compress_hosts(placement.hosts);
  const std::string nodes = std::to_string(placement.hosts.size()), tasks = std::to_string(layout.tasks);
  const auto cpus = static_cast<std::uint32_t>(placement.cpus_per_node.value / 1000);
  set("JOB_ID", id), set("JOBID", id), set("JOB_NAME", spec.name), set("JOB_USER", spec.user);
  set("JOB_UID", std::to_string(spec.uid)), set("JOB_GID", std::to_string(spec.gid));
  set("JOB_NODELIST", hosts), set("NODELIST", hosts), set("JOB_NUM_NODES", nodes), set("NNODES", nodes);
  set("JOB_CPUS_PER_NODE", compress_counts(std::vector<std::uint32_t>(placement.hosts.size(), cpus)));
  set("CPUS_ON_NODE", std::to_string(cpus));
  set("TASKS_PER_NODE", compress_counts(spread_tasks(layout.tasks, static_cast<std::uint32_t>(placement.hosts.size()))));
  set("SUBMIT_DIR", spec.submit_dir), set("SUBMIT_HOST", spec.submit_host);
  own["SUBMIT_DIR"] = spec.submit_dir;
  own["SUBMIT_HOST"] = spec.submit_host;
  own["SUBMIT_SCRIPT"] = spec.script_path;
  set("CLUSTER_NAME", options.cluster);
  set("PROCID", "0"), set("NODEID", "0"), set("LOCALID", "0"), set("GTIDS", "0");
  set("RESTART_COUNT", std::to_string(placement.restarts));
  if (placement.restarts == 0) own.erase("SLURM_RESTART_COUNT");  // scripts ask whether it is set at all
  own["SLURMD_NODENAME"] = placement.hosts.empty() ? "" : placement.hosts.front();
  // Slurm sets these only where the user said so, except that every script wants NTASKS.
  set("NTASKS", tasks), set("NPROCS", tasks);
  if (spec.cpus_per_task != 0) set("CPUS_PER_TASK", std::to_string(spec.cpus_per_task));
  if (spec.tasks_per_node != 0) set("NTASKS_PER_NODE", std::to_string(spec.tasks_per_node));
  if (spec.mem_per_node > 0) set("MEM_PER_NODE", std::to_string(spec.mem_per_node / kMiB.value));
  if (spec.mem_per_cpu > 0) set("MEM_PER_CPU", std::to_string(spec.mem_per_cpu / kMiB.value));
  if (!spec.partition.empty()) set("JOB_PARTITION", spec.partition);
  if (!spec.account.empty()) set("JOB_ACCOUNT", spec.account);
  if (!spec.qos.empty()) set("JOB_QOS", spec.qos);
  if (!spec.reservation.empty()) set("JOB_RESERVATION", spec.reservation);
  if (placement.devices_per_node != 0) {
    set("GPUS_ON_NODE", std::to_string(placement.devices_per_node));
    set("GPUS_PER_NODE", std::to_string(placement.devices_per_node));
  }
  if (placement.array.value != 0) {
    set("ARRAY_JOB_ID", std::to_string(placement.array.value)), set("ARRAY_TASK_ID", std::to_string(placement.index));
    set("ARRAY_TASK_COUNT", std::to_string(array.indexes.size())), set("ARRAY_TASK_MIN", std::to_string(array.indexes.min()));
    set("ARRAY_TASK_MAX", std::to_string(array.indexes.max())), set("ARRAY_TASK_STEP", std::to_string(array.indexes.step()));
  }
  if (placement.hosts.size() > 1 && !options.step_agent.empty()) {
    // Open MPI reads the allocation from SLURM_*; what it would start by srun it starts by this instead of ssh.
    own["OMPI_MCA_plm"] = "rsh";
    own["OMPI_MCA_plm_rsh_agent"] = options.step_agent;
    own["PRTE_MCA_plm"] = "ssh";
    own["PRTE_MCA_plm_ssh_agent"] = options.step_agent;
    own["HYDRA_LAUNCHER"] = "ssh";  // MPICH and its descendants
    own["HYDRA_LAUNCHER_EXEC"] = options.step_agent;
    own["I_MPI_HYDRA_BOOTSTRAP"] = "ssh";
    own["I_MPI_HYDRA_BOOTSTRAP_EXEC"] = options.step_agent;
  }
  std::vector<std::string> out;
  out.reserve(spec.env.size() + own.size());
  for (const std::string& word : spec.env) {
    const std::string name = word.substr(0, word.find('='));
    if (own.contains(name)) continue;
    // A job submitted from inside another must not inherit that one's place in an array or its restarts.
    if (name.starts_with("SLURM_ARRAY_") || name.starts_with("SUBMIT_ARRAY_") || name == "SLURM_RESTART_COUNT") continue;
    out.push_back(word);
  }
  // First: Slurm's own, where a site has it as well, know nothing of this job.
  if (const std::string& commands = options.slurm_commands; !commands.empty()) {
    auto path = std::ranges::find_if(out, [](const std::string& word) { return word.starts_with("PATH="); });
    if (path == out.end()) path = out.insert(out.end(), "PATH=" + std::string(kPlainPath));
    if (!path->starts_with("PATH=" + commands + ":")) path->insert(std::string("PATH=").size(), commands + ":");
  }
  for (const auto& [name, value] : own) out.push_back(name + "=" + value);
  return out;
}

std::string expand_pattern(std::string_view pattern, const JobSpec& spec, const Placement& placement) {
  constexpr std::size_t kWidthMax = 10;
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      out += pattern[i];
      continue;
    }
    std::size_t at = i + 1, width = 0;
    for (; at < pattern.size() && pattern[at] >= '0' && pattern[at] <= '9'; ++at)
      width = std::min(width * 10 + static_cast<std::size_t>(pattern[at] - '0'), kWidthMax);
    std::optional<std::string> value;
    const bool array = placement.array.value != 0;
    switch (at < pattern.size() ? pattern[at] : '\0') {
      case '%':
        value = "%";
        break;
      case 'j':
      case 'J':
        value = padded(std::to_string(placement.id.value), width);
        break;
      case 'A':
        value = padded(std::to_string(array ? placement.array.value : placement.id.value), width);
        break;
      case 'a':
        value = padded(std::to_string(array ? placement.index : 0), width);
        break;
      case 'x':
        value = spec.name;
        break;
      case 'u':
        value = spec.user;
        break;
      case 'N':
        value = placement.hosts.empty() ? "" : short_host(placement.hosts.front());
        break;
      case 'n':
      case 't':
        value = padded("0", width);
        break;
      case 's':
        value = "batch";
        break;
      default:
        break;
    }
    if (value) {
      out += *value;
      i = at;
    } else {
      out += '%';
    }
  }
  return out;
}

OutputNames output_names(const JobSpec& spec, const Placement& placement) {
  const std::string fallback = placement.array.value != 0 ? "job-%A_%a.out" : "job-%j.out";
  auto file = [&](const std::string& pattern) { return absolute(expand_pattern(pattern, spec, placement), spec.directory); };
  OutputNames out;
  if (!spec.stdin_path.empty()) out.in = file(spec.stdin_path);
  out.out = file(spec.stdout_path.empty() ? fallback : spec.stdout_path);
  if (!spec.stderr_path.empty()) out.error = file(spec.stderr_path);
  if (out.error == out.out) out.error.clear();
  return out;
}

}  // namespace bourse::batch
