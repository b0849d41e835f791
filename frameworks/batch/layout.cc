#include "frameworks/batch/layout.h"

#include <algorithm>
#include <set>

#include "common/core/vm_image.h"
#include "frameworks/batch/mail.h"
#include "frameworks/batch/protocol.h"

namespace bourse::batch {
namespace {

constexpr std::uint32_t kNodesMax = 100'000, kTasksMax = 10'000'000, kCpusMax = 1'000'000;

std::uint32_t divide_up(std::uint64_t a, std::uint64_t b) { return static_cast<std::uint32_t>((a + b - 1) / b); }

Result<Constraint> host_constraint(const std::string& list, Constraint::Op op, const char* what, std::size_t* count) {
  auto hosts = expand_hosts(list);
  if (!hosts) return std::move(hosts).error().add(what);
  std::set<std::string> sorted(hosts->begin(), hosts->end());
  if (count != nullptr) *count = sorted.size();
  return Constraint{"host", op, {sorted.begin(), sorted.end()}};
}

std::string cores(MilliCpus cpus) { return format_cpus(cpus) + (cpus.value == 1000 ? " core" : " cores"); }

}  // namespace

Duration time_limit_of(const JobSpec& spec, const BatchOptions& options) {
  const Duration asked = spec.time_limit.count() == 0 ? options.default_time_limit : spec.time_limit;
  return std::min(asked, options.max_time_limit);
}

Result<> check_spec(const JobSpec& spec, const BatchOptions& options) {
  auto invalid = [](std::string text) { return Error(Code::kInvalid, std::move(text)); };
  if (spec.script.empty()) {
    if (spec.args.empty()) return invalid("the script is empty");
    if (spec.args.front().empty()) return invalid("the name of the program to run is empty");
  } else {
    if (spec.script.size() > options.script_bytes_max)
      return Error(Code::kLimit, "the script is larger than " +
                                     format_size(Bytes(static_cast<std::int64_t>(options.script_bytes_max))) +
                                     " (batch.submit_max_bytes)");
    if (!spec.script.starts_with("#!"))
      return invalid("the script does not begin with \"#!\" and the path of an interpreter, as in #!/bin/sh");
    if (spec.script.find('\0') != std::string::npos)
      return invalid("the script contains NUL bytes; it looks like a binary program: use --exec to run one");
  }
  if (spec.directory.empty() || spec.directory.front() != '/')
    return invalid("the working directory '" + spec.directory + "' is not an absolute path");
  if (spec.nodes_min > kNodesMax || spec.tasks > kTasksMax || spec.cpus_per_task > kCpusMax || spec.tasks_per_node > kTasksMax)
    return Error(Code::kLimit, "more nodes, tasks or cores than any cluster has");
  if (spec.nodes_max != 0 && spec.nodes_max < spec.nodes_min) return invalid("nodes: the maximum is less than the minimum");
  if (spec.tasks != 0 && spec.nodes_min > spec.tasks)
    return invalid("more nodes (" + std::to_string(spec.nodes_min) + ") than tasks (" + std::to_string(spec.tasks) + ")");
  if (spec.time_limit > options.max_time_limit)
    return invalid("time limit " + format_duration(spec.time_limit) + " is more than this site's largest, " +
                   format_duration(options.max_time_limit));
  for (const std::string& word : spec.env)
    if (word.find('=') == std::string::npos || word.front() == '=') return invalid("environment: '" + word + "' is not NAME=value");
  BOURSE_TRY(parse_mail_types(spec.mail_type));
  BOURSE_TRY(check_mail_address(spec.mail_user));
  BOURSE_TRY(parse_array(spec.array));
  BOURSE_TRY(parse_dependencies(spec.dependency));
  if (!spec.vm.empty()) BOURSE_TRY(parse_vm_image(spec.vm));
  if (spec.reservation.find(',') != std::string::npos)
    return invalid("reservation: '" + spec.reservation + "' names several; a job runs in one");
  if (spec.revocable) {
    if (!spec.reservation.empty()) return invalid("a revocable job runs in what others lend, and in no reservation");
    if (spec.exclusive || spec.nodes_min > 1 || spec.mem_per_node == 0 || spec.mem_per_cpu == 0)
      return invalid(
          "a revocable job has a part of one host: what is lent is no whole host, and a gang that may lose any part is none");
    if (!spec.devices_per_node.empty() || spec.gpus != 0 || spec.gpus_per_task != 0 || spec.disk.value != 0 || !spec.vm.empty())
      return invalid("a revocable job has cores and memory only: devices, disk and virtual machines are not lent");
  }
  return {};
}

Result<Layout> lay_out(const JobSpec& spec, const BatchOptions& options, MilliCpus largest_cpus) {
  Layout out;
  out.cpus_per_task = std::max(1u, spec.cpus_per_task);
  std::uint64_t tasks = spec.tasks;
  std::uint64_t nodes = spec.nodes_min;
  std::size_t listed = 0;
  Shape& shape = out.need.shape;
  shape.constraints = spec.constraints;
  if (!spec.node_list.empty())
    shape.constraints.push_back(BOURSE_TRY(host_constraint(spec.node_list, Constraint::Op::kIn, "nodelist", &listed)));
  if (!spec.exclude.empty())
    shape.constraints.push_back(BOURSE_TRY(host_constraint(spec.exclude, Constraint::Op::kNotIn, "exclude", nullptr)));
  nodes = std::max<std::uint64_t>(nodes, listed);
  shape.placement = spec.placement;
  if (!shape.placement.empty()) shape.group = spec.group;

  const std::uint64_t per_node = spec.tasks_per_node;
  if (tasks == 0) tasks = std::max<std::uint64_t>(nodes, 1) * std::max<std::uint64_t>(per_node, 1);
  if (nodes == 0 && per_node != 0) nodes = divide_up(tasks, per_node);
  if (nodes == 0) {
    // As few nodes as hold the tasks.
    const std::uint64_t fit = std::max<std::uint64_t>(static_cast<std::uint64_t>(largest_cpus.value) / 1000 / out.cpus_per_task, 1);
    nodes = largest_cpus.value == 0 ? 1 : divide_up(tasks, fit);
    out.depends_on_agents = tasks > 1;
  }
  if (spec.revocable) nodes = 1, out.depends_on_agents = false;
  nodes = std::min(nodes, tasks);
  out.tasks = static_cast<std::uint32_t>(tasks);
  out.need.nodes = static_cast<std::uint32_t>(nodes);
  out.tasks_per_node = divide_up(tasks, nodes);
  if (per_node != 0 && out.tasks_per_node > per_node && spec.nodes_min != 0)
    return Error(Code::kInvalid, std::to_string(tasks) + " tasks do not fit on " + std::to_string(nodes) + " nodes with at most " +
                                     std::to_string(per_node) + " on each");

  const std::int64_t cpus = static_cast<std::int64_t>(out.tasks_per_node) * out.cpus_per_task;
  shape.cpus = MilliCpus(cpus * 1000);
  shape.disk = spec.disk;
  shape.revocable = spec.revocable;
  shape.whole_host = spec.exclusive || spec.mem_per_node == 0 || spec.mem_per_cpu == 0;
  if (spec.mem_per_node > 0) {
    shape.mem = Bytes(spec.mem_per_node);
  } else if (const std::int64_t each = spec.mem_per_cpu > 0 ? spec.mem_per_cpu : options.default_mem_per_cpu.value;
             each > 0 && !shape.whole_host) {
    auto mem = checked_multiply(each, cpus);
    if (!mem) return std::move(mem).error().add("mem-per-cpu");
    shape.mem = Bytes(*mem);
  }
  shape.devices = spec.devices_per_node;
  if (!spec.vm.empty()) shape.devices.push_back(vm_device(BOURSE_TRY(parse_vm_image(spec.vm))));
  if (const std::uint64_t gpus =
          spec.gpus != 0 ? divide_up(spec.gpus, nodes) : std::uint64_t{spec.gpus_per_task} * out.tasks_per_node;
      gpus > 0) {
    DeviceAsk ask;
    const std::size_t colon = std::min(spec.gpu_kind.find(':'), spec.gpu_kind.size());  // "gpu/:a100" has a type
    ask.kind = colon == 0 ? "gpu/" : spec.gpu_kind.substr(0, colon);
    if (colon < spec.gpu_kind.size()) ask.attributes.push_back({"type", Constraint::Op::kIn, {spec.gpu_kind.substr(colon + 1)}});
    ask.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(gpus, kCpusMax));
    shape.devices.push_back(std::move(ask));
  }
  out.reservation = spec.reservation;
  out.key = to_text(shape) + (out.reservation.empty() ? "" : ";reservation=" + out.reservation);
  return out;
}

Result<> check_possible(const Layout& layout, const std::map<AgentId, AgentFacts>& agents) {
  const Shape& shape = layout.need.shape;
  std::uint32_t fitting = 0, counted = 0;
  std::map<Misfit, std::uint32_t> misfits;
  const AgentFacts *most_cpus = nullptr, *most_mem = nullptr, *most_disk = nullptr;
  for (const auto& [id, facts] : agents) {
    if (facts.state == AgentFacts::State::kRemoved) continue;
    ++counted;
    const Misfit misfit = fits(shape, facts.total, facts.total, facts.labels);
    if (misfit == Misfit::kNone && ++fitting >= layout.need.nodes) return {};
    if (misfit != Misfit::kNone) ++misfits[misfit];
    if (misfit == Misfit::kLabels) continue;
    if (most_cpus == nullptr || facts.total.cpus > most_cpus->total.cpus) most_cpus = &facts;
    if (most_mem == nullptr || facts.total.mem > most_mem->total.mem) most_mem = &facts;
    if (most_disk == nullptr || facts.total.disk > most_disk->total.disk) most_disk = &facts;
  }
  if (counted == 0) return {};
  if (fitting > 0)
    return Error(Code::kInvalid, "the job needs " + std::to_string(layout.need.nodes) + " nodes, and only " +
                                     std::to_string(fitting) + " of " + std::to_string(counted) + " agents could run its part");
  const auto has = [&](Misfit m) { return misfits.contains(m); };
  std::string why;
  if (most_cpus == nullptr)
    why = "no agent has the labels that it asks for (" + to_text(shape.constraints) + ")";
  else if (has(Misfit::kCpus) && most_cpus->total.cpus < shape.cpus)
    why = "no agent has " + cores(shape.cpus) + "; the largest, " + most_cpus->agent.str() + ", has " +
          format_cpus(most_cpus->total.cpus);
  else if (has(Misfit::kMem) && most_mem->total.mem < shape.mem)
    why = "no agent has " + format_size(shape.mem) + " of memory; the largest, " + most_mem->agent.str() + ", has " +
          format_size(most_mem->total.mem);
  else if (has(Misfit::kDisk) && most_disk->total.disk < shape.disk)
    why = "no agent has " + format_size(shape.disk) + " of disk; the largest, " + most_disk->agent.str() + ", has " +
          format_size(most_disk->total.disk);
  else if (has(Misfit::kDevices))
    why = "no agent has the devices that it asks for (" + shape.devices.front().kind + " x " +
          std::to_string(shape.devices.front().count) + ")";
  else {
    why = "no agent could ever run it:";
    for (const auto& [misfit, count] : misfits)
      why += " " + std::to_string(count) + " lack " + std::string(misfit_text(misfit)) + ";";
    why.pop_back();
  }
  return Error(Code::kInvalid, why);
}

std::vector<std::uint32_t> spread_tasks(std::uint32_t tasks, std::uint32_t nodes) {
  std::vector<std::uint32_t> out(nodes, nodes == 0 ? 0 : tasks / nodes);
  for (std::uint32_t i = 0; nodes != 0 && i < tasks % nodes; ++i) ++out[i];
  return out;
}

std::string compress_counts(const std::vector<std::uint32_t>& counts) {
  std::string out;
  for (std::size_t i = 0; i < counts.size();) {
    std::size_t same = i;
    while (same < counts.size() && counts[same] == counts[i]) ++same;
    if (!out.empty()) out += ',';
    out += std::to_string(counts[i]);
    if (same - i > 1) out += "(x" + std::to_string(same - i) + ")";
    i = same;
  }
  return out;
}

}  // namespace bourse::batch
