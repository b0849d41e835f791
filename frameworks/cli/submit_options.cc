#include "frameworks/cli/submit_options.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "common/core/vm_image.h"
#include "frameworks/batch/mail.h"

namespace bourse::cli {
namespace {

// SBATCH_NAME variables whose name is not the option's in capitals.
struct EnvironmentName {
  std::string_view variable, option;
};
constexpr std::array kEnvironmentNames = {EnvironmentName{"ARRAY_INX", "array"}, EnvironmentName{"TIMELIMIT", "time"},
                                          EnvironmentName{"MEM_PER_NODE", "mem"}};

constexpr std::array kIsolations = {"private-tmp", "private-tmp=memory", "pid", "ipc", "net", "seccomp"};  // the agent's words

Result<std::uint32_t> number(std::string_view option, std::string_view text, std::uint32_t least = 1) {
  std::uint32_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < least || value > 100'000'000)
    return Error(Code::kInvalid, fmt::format("--{}: `{}' is not a number from {} to 100000000", option, text, least));
  return value;
}

std::string absolute(const std::string& path, const std::string& directory) {
  return path.empty() || path[0] == '/' ? path : directory + "/" + path;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

bool of_a_job(std::string_view variable) {
  // An outer job's own variables would tell the inner job lies about itself.
  return variable.starts_with("SLURM_") || variable.starts_with("SLURMD_") || variable.starts_with("SUBMIT_") ||
         (variable.starts_with("BOURSE_") && !variable.starts_with("BOURSE_DIR="));
}

Result<std::vector<std::string>> exported(std::string_view what, const std::vector<std::string>& environment) {
  bool all = false;
  std::vector<std::string> out;
  constexpr std::array kept = {"HOME=", "USER=", "LOGNAME=", "SHELL=", "PATH=", "LANG=", "BOURSE_DIR="};
  const std::vector<std::string> words = what.empty() ? std::vector<std::string>{"ALL"} : split(what, ',');
  for (const std::string& word : words) all = all || word == "ALL";
  for (const std::string& variable : environment) {
    if (of_a_job(variable)) continue;
    if (all || std::ranges::any_of(kept, [&](const char* name) { return variable.starts_with(name); })) out.push_back(variable);
  }
  for (const std::string& word : words) {
    if (word == "ALL" || word == "NONE" || word == "NIL" || word.empty()) continue;
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals) + "=";
    std::string value = word;
    if (equals == std::string::npos) {
      const auto found = std::ranges::find_if(environment, [&](const std::string& v) { return v.starts_with(name); });
      if (found == environment.end()) continue;  // as Slurm: naming what is not set is no error
      value = *found;
    }
    std::erase_if(out, [&](const std::string& v) { return v.starts_with(name); });
    out.push_back(value);
  }
  return out;
}

// Like split at commas, but not within braces.
std::vector<std::string> split_devices(std::string_view text) {
  std::vector<std::string> out(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == ',' && depth <= 0) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

// "{npu.compute=4,mem=5GiB}" or "{profile=vir02}": a part of each device instead of all of it. Memory is in MiB on a device.
Result<> parse_part(DeviceAsk& ask, std::string_view text, std::string_view option) {
  ask.whole = false;
  for (const std::string& pair : split(text, ',')) {
    const std::size_t equals = pair.find('=');
    const std::string name = pair.substr(0, equals), value = equals == std::string::npos ? "" : pair.substr(equals + 1);
    if (!valid_name(name) || value.empty())
      return Error(Code::kInvalid, fmt::format("--{}: `{}' is not COUNTER=AMOUNT or profile=NAME", option, pair));
    if (name == "profile") {
      ask.profile = value;
      continue;
    }
    std::int64_t amount = 0;
    if (name == "mem" || name.ends_with(".mem")) {
      const auto size = parse_size(value, kMiB);
      if (!size || size->value % kMiB.value != 0)
        return Error(Code::kInvalid, fmt::format("--{}: `{}' is not a size in whole MiB", option, value));
      amount = size->value / kMiB.value;
    } else {
      amount = BOURSE_TRY(number(option, value));
    }
    ask.counters.set(name, amount);
  }
  return {};
}

// "gpu", "gpu:4", "gpu:a100:2", "npu/ascend{npu.compute=4}:1": on each host.
Result<DeviceAsk> parse_device(std::string_view text, std::string_view option) {
  DeviceAsk ask;
  std::string words(text);
  if (const std::size_t open = words.find('{'); open != std::string::npos) {
    const std::size_t close = words.find('}', open);
    if (close == std::string::npos) return Error(Code::kInvalid, fmt::format("--{}: `{}' lacks its closing brace", option, text));
    BOURSE_TRY(parse_part(ask, std::string_view(words).substr(open + 1, close - open - 1), option));
    words.erase(open, close - open + 1);
  }
  const std::vector<std::string> parts = split(words, ':');
  ask.kind = parts[0] == "gpu" ? "gpu/" : parts[0];
  std::string type;
  if (parts.size() > 3 || parts[0].empty())
    return Error(Code::kInvalid, fmt::format("--{}: `{}' is not KIND[{{COUNTER=N,...}}][:TYPE]:N", option, text));
  if (parts.size() == 3) type = parts[1];
  if (parts.size() == 2 && !parts[1].empty() && std::isdigit(static_cast<unsigned char>(parts[1][0])) == 0) type = parts[1];
  if (parts.size() >= 2 && parts.back() != type) ask.count = BOURSE_TRY(number(option, parts.back()));
  if (!type.empty()) {
    // Probes write types in small letters; people write A100.
    std::string small = type;
    for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    ask.attributes.push_back({"type", Constraint::Op::kIn, {type}});
    if (small != type) ask.attributes.back().values.push_back(small);
  }
  return ask;
}

class Builder {
 public:
  Builder(Submission& out, const Submitter& who) : out_(out), job_(out.job), who_(who) {}

  Result<> apply(const Setting& s) {
    auto done = dispatch(s);
    if (!done) return std::move(done).error().add(s.origin);
    return {};
  }

 private:
  Result<> dispatch(const Setting& s) {
    const std::string& v = s.value;
    if (const auto note = without_effect(s.name)) {
      out_.ignored.push_back(fmt::format("--{}: {}", s.name, *note));
      if (s.name == "licenses") job_.licenses = v;
      if (s.name == "hint") job_.hint = v;
      return {};
    }
    if (std::string* text = text_field(s.name)) {
      *text = v;
      return {};
    }
    if (bool* flag = flag_field(s.name)) {
      *flag = true;
      return {};
    }
    BOURSE_TRY(amounts(s));
    return {};
  }

  static std::optional<std::string> without_effect(std::string_view name) {
    for (const OptionDef& def : submit_table())
      if (def.name == name && def.help.empty() && !def.note.empty()) return std::string(def.note);
    return std::nullopt;
  }

  std::string* text_field(std::string_view name) {
    if (name == "job-name") return &job_.name;
    if (name == "output") return &job_.stdout_path;
    if (name == "error") return &job_.stderr_path;
    if (name == "input") return &job_.stdin_path;
    if (name == "chdir") return &job_.directory;
    if (name == "partition") return &job_.partition;
    if (name == "account") return &job_.account;
    if (name == "qos") return &job_.qos;
    if (name == "reservation") return &job_.reservation;
    if (name == "mail-type") return &job_.mail_type;
    if (name == "mail-user") return &job_.mail_user;
    if (name == "comment") return &job_.comment;
    if (name == "nodelist") return &job_.node_list;
    if (name == "exclude") return &job_.exclude;
    if (name == "array") return &job_.array;
    if (name == "dependency") return &job_.dependency;
    if (name == "cluster") return &out_.cluster_dir;
    if (name == "container") return &job_.container;
    if (name == "export") return &export_;
    if (name == "wrap") return &wrap_;
    if (name == "vm") return &vm_;
    if (name == "vm-initrd") return &vm_image_.initrd;
    if (name == "vm-disk") return &vm_image_.disk;
    if (name == "vm-arch") return &vm_image_.arch;
    if (name == "vm-append") return &vm_image_.append;
    return nullptr;
  }

  bool* flag_field(std::string_view name) {
    if (name == "exclusive") return &job_.exclusive;
    if (name == "revocable") return &job_.revocable;
    if (name == "hold") return &job_.hold;
    if (name == "parsable") return &out_.parsable;
    if (name == "wait") return &out_.wait;
    if (name == "test-only") return &out_.test_only;
    if (name == "quiet") return &out_.quiet;
    if (name == "verbose") return &out_.verbose;
    if (name == "exec") return &exec_;
    return nullptr;
  }

  Result<> amounts(const Setting& s) {
    const std::string& v = s.value;
    if (s.name == "open-mode") {
      if (v != "append" && v != "truncate")
        return Error(Code::kInvalid, fmt::format("--open-mode: `{}' is neither append nor truncate", v));
      job_.append_output = v == "append";
    } else if (s.name == "time") {
      auto limit = parse_duration(v, std::chrono::minutes(1), true);
      if (!limit) return std::move(limit).error().add("--time");
      job_.time_limit = *limit == Duration(0) ? kNoLimit : *limit;  // Slurm: 0 is no limit
    } else if (s.name == "nodes") {
      const std::vector<std::string> range = split(v, '-');
      if (range.size() > 2) return Error(Code::kInvalid, fmt::format("--nodes: `{}' is not MIN[-MAX]", v));
      job_.nodes_min = BOURSE_TRY(number("nodes", range[0]));
      job_.nodes_max = BOURSE_TRY(number("nodes", range.back()));
      if (job_.nodes_max < job_.nodes_min)
        return Error(Code::kInvalid, fmt::format("--nodes: {} is more than {}", job_.nodes_min, job_.nodes_max));
    } else if (s.name == "ntasks") {
      job_.tasks = BOURSE_TRY(number("ntasks", v));
    } else if (s.name == "ntasks-per-node") {
      job_.tasks_per_node = BOURSE_TRY(number("ntasks-per-node", v));
    } else if (s.name == "cpus-per-task") {
      job_.cpus_per_task = BOURSE_TRY(number("cpus-per-task", v));
    } else if (s.name == "mem" || s.name == "mem-per-cpu") {
      auto size = parse_size(v, kMiB);
      if (!size) return std::move(size).error().add("--" + s.name);
      (s.name == "mem" ? job_.mem_per_node : job_.mem_per_cpu) = size->value;
      (s.name == "mem" ? job_.mem_per_cpu : job_.mem_per_node) = -1;  // the later one counts
    } else if (s.name == "nice") {
      job_.nice = 100;
      if (!v.empty()) {
        char* end = nullptr;
        const long nice = std::strtol(v.c_str(), &end, 10);
        if (*end != 0 || nice < -2'000'000'000 || nice > 2'000'000'000)
          return Error(Code::kInvalid, fmt::format("--nice: `{}' is not a number", v));
        job_.nice = static_cast<std::int32_t>(nice);
      }
    } else if (s.name == "priority") {
      job_.priority = BOURSE_TRY(number("priority", v, 0));
    } else if (s.name == "kill-on-invalid-dep") {
      if (v != "yes" && v != "no")
        return Error(Code::kInvalid, fmt::format("--kill-on-invalid-dep: `{}' is neither yes nor no", v));
      job_.kill_on_invalid_dependency = v == "yes";
    } else if (s.name == "requeue" || s.name == "no-requeue") {
      job_.requeue = s.name == "requeue";
    } else if (s.name == "begin") {
      job_.begin = BOURSE_TRY(parse_begin(v, who_.wall_now));
    } else if (s.name == "signal") {
      const SignalAsk ask = BOURSE_TRY(parse_signal(v));
      job_.warn_signal = ask.signal, job_.warn_before = ask.before, job_.warn_shell_only = ask.shell_only;
    } else if (s.name == "constraint") {
      auto constraints = parse_constraints(v);
      if (!constraints) return std::move(constraints).error().add("--constraint");
      job_.constraints = std::move(*constraints);
    } else if (s.name == "placement") {
      auto rules = parse_placements(v);
      if (!rules) return std::move(rules).error().add("--placement");
      job_.placement = std::move(*rules);
    } else if (s.name == "spread") {
      return place("--spread", "spread " + v);
    } else if (s.name == "spread-job") {
      return place("--spread-job", "prefer spread host");
    } else if (s.name == "switches") {
      // A rack is what hangs on one switch. With a time to wait Slurm gives up the wish after it: a preference.
      const std::size_t at = std::min(v.find('@'), v.size());
      const std::uint32_t count = BOURSE_TRY(number("switches", v.substr(0, at), 1));
      return place("--switches", count == 1 && at == v.size() ? "pack rack" : "prefer pack rack");
    } else {
      return devices(s);
    }
    return {};
  }

  // A rule about the same label as an earlier one of that kind replaces it.
  Result<> place(const char* option, const std::string& text) {
    auto rules = parse_placements(text);
    if (!rules) return std::move(rules).error().add(option);
    for (Placement& rule : *rules) {
      std::erase_if(job_.placement, [&](const Placement& p) { return p.kind == rule.kind && p.level == rule.level; });
      if (job_.placement.size() == kPlacementsMax) return Error(Code::kLimit, std::string(option) + ": too many placement rules");
      job_.placement.push_back(std::move(rule));
    }
    return {};
  }

  Result<> devices(const Setting& s) {
    if (s.name == "gres" || s.name == "gpus-per-node") {
      const std::string prefix = s.name == "gres" ? "" : "gpu:";
      for (const std::string& part : split_devices(s.value))
        job_.devices_per_node.push_back(BOURSE_TRY(parse_device(prefix + part, s.name)));
      return {};
    }
    if (s.name == "container-mounts") {
      job_.container_mounts.clear();
      for (const std::string& part : split(s.value, ',')) {
        if (part.empty() || part[0] != '/') return Error(Code::kInvalid, fmt::format("`{}': an absolute path is meant", part));
        job_.container_mounts.push_back(part);
      }
      return {};
    }
    if (s.name == "isolate") {
      job_.isolate.clear();
      for (const std::string& part : split(s.value, ',')) {
        if (std::find(std::begin(kIsolations), std::end(kIsolations), part) == std::end(kIsolations))
          return Error(Code::kInvalid,
                       fmt::format("`{}' is not a kind of isolation: there are {}", part, fmt::join(kIsolations, ", ")));
        job_.isolate.push_back(part);
      }
      return {};
    }
    if (s.name == "gpus" || s.name == "gpus-per-task") {
      const DeviceAsk ask = BOURSE_TRY(parse_device("gpu:" + s.value, s.name));
      (s.name == "gpus" ? job_.gpus : job_.gpus_per_task) = ask.count;
      job_.gpu_kind = ask.kind;
      for (const Constraint& type : ask.attributes) job_.gpu_kind += ":" + type.values.back();  // see layout.cc
      return {};
    }
    return Error(Code::kUnsupported, fmt::format("option --{} is not built in", s.name));
  }

 public:
  std::string export_, wrap_, vm_;
  VmImage vm_image_;  // of --vm-...
  bool exec_ = false;

 private:
  Submission& out_;
  batch::JobSpec& job_;
  const Submitter& who_;
};

// --vm and what goes with it. Which of both it names, a kernel or a disk that boots, is said by what stands beside it.
Result<std::string> virtual_machine(const std::string& vm, VmImage image, const Submitter& who) {
  if (vm.empty()) {
    if (image != VmImage{}) return Error(Code::kInvalid, "--vm-initrd, --vm-disk, --vm-arch and --vm-append go with --vm");
    return std::string();
  }
  std::string& first = image.initrd.empty() && image.disk.empty() ? image.disk : image.kernel;
  first = vm;
  for (std::string* path : {&image.kernel, &image.initrd, &image.disk})
    if (!path->empty()) *path = absolute(*path, who.directory);
  struct utsname names {};
  if (image.arch.empty() && uname(&names) == 0) image.arch = names.machine;
  auto text = to_text(image);
  if (!text) return std::move(text).error().add("--vm");
  return text;
}

Result<std::vector<Setting>> from_environment(const std::vector<std::string>& environment) {
  std::vector<Setting> settings;
  for (const std::string& variable : environment) {
    constexpr std::string_view own = "SUBMIT_OPTIONS=";
    if (!variable.starts_with(own)) continue;
    const auto words = BOURSE_TRY(split_words(std::string_view(variable).substr(own.size())));
    settings = BOURSE_TRY(parse_options(submit_table(), words, "SUBMIT_OPTIONS", false)).settings;
  }
  for (const std::string& variable : environment) {
    if (!variable.starts_with("SBATCH_")) continue;
    const std::size_t equals = variable.find('=');
    const std::string name = variable.substr(7, equals - 7);
    std::string option;
    for (const EnvironmentName& known : kEnvironmentNames)
      if (known.variable == name) option = known.option;
    if (option.empty()) {
      for (char c : name) option += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    for (const OptionDef& def : submit_table())
      if (def.name == option && def.alias_of.empty())
        settings.push_back({option, variable.substr(equals + 1), variable.substr(0, equals)});
  }
  return settings;
}

// A missing directory would only show when the job has already failed. See the peers' commonest complaint.
Result<> check_places(const batch::JobSpec& job) {
  struct stat st {};
  if (stat(job.directory.c_str(), &st) != 0) return errno_error(fmt::format("working directory {}", job.directory));
  if (!S_ISDIR(st.st_mode)) return Error(Code::kInvalid, fmt::format("working directory {}: is not a directory", job.directory));
  for (const std::string* path : {&job.stdout_path, &job.stderr_path}) {
    if (path->empty() || path->starts_with("/dev/")) continue;
    const std::string fixed = path->substr(0, path->find('%'));
    const std::size_t slash = fixed.rfind('/');
    const std::string parent = absolute(slash == std::string::npos ? "." : fixed.substr(0, slash + 1), job.directory);
    if (stat(parent.c_str(), &st) != 0) return errno_error(fmt::format("output directory {}", parent));
    if (access(parent.c_str(), W_OK | X_OK) != 0) return errno_error(fmt::format("output directory {}", parent));
  }
  if (!job.stdin_path.empty() && job.stdin_path.find('%') == std::string::npos) {
    const std::string path = absolute(job.stdin_path, job.directory);
    if (access(path.c_str(), R_OK) != 0) return errno_error(fmt::format("input file {}", path));
  }
  return {};
}

std::string base_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace

Result<Submission> read_submission(const std::vector<std::string>& words, const Submitter& who, std::uint64_t script_bytes_max,
                                   std::string_view default_output) {
  Parsed line = BOURSE_TRY(parse_options(submit_table(), words, "command line", true, "exec"));
  Submission out;
  batch::JobSpec& job = out.job;
  Builder builder(out, who);
  const auto said = [&](std::string_view name) {
    return std::ranges::any_of(line.settings, [&](const Setting& s) { return s.name == name; });
  };
  const bool wrap = said("wrap"), exec = said("exec");
  Script script;
  if (wrap && exec) return Error(Code::kInvalid, "--wrap and --exec exclude each other");
  if (wrap && !line.operands.empty())
    return Error(Code::kInvalid, fmt::format("--wrap takes no script, but there is `{}'", line.operands[0]));
  if (exec && line.operands.empty()) return Error(Code::kInvalid, "--exec: name a program");
  if (!wrap && !exec) {
    script = BOURSE_TRY(read_script(line.operands.empty() ? "-" : line.operands[0], script_bytes_max));
    for (const Directive& directive : script.directives) {
      const std::string origin = fmt::format("{}:{}", script.path.empty() ? "standard input" : script.path, directive.line);
      for (const Setting& s : BOURSE_TRY(parse_options(submit_table(), directive.words, origin, false)).settings)
        BOURSE_TRY(builder.apply(s));
    }
  }
  for (const Setting& s : BOURSE_TRY(from_environment(who.environment))) BOURSE_TRY(builder.apply(s));
  for (const Setting& s : line.settings) BOURSE_TRY(builder.apply(s));

  if (wrap) script = wrap_script(builder.wrap_);
  job.script = std::move(script.text);
  job.script_path = script.path.empty() ? "" : absolute(script.path, who.directory);
  if (exec)
    job.args = line.operands;  // no script: the program and its arguments
  else if (!line.operands.empty())
    job.args.assign(line.operands.begin() + 1, line.operands.end());
  if (job.name.empty())
    job.name = wrap ? "wrap" : exec ? base_name(job.args[0]) : script.path.empty() ? "sbatch" : base_name(script.path);
  job.user = who.user, job.uid = who.uid, job.gid = who.gid;
  job.umask = who.umask, job.rlimits = who.rlimits;
  job.env = BOURSE_TRY(exported(builder.export_, who.environment));
  job.submit_dir = who.directory;
  job.directory = job.directory.empty() ? who.directory : absolute(job.directory, who.directory);
  job.vm = BOURSE_TRY(virtual_machine(builder.vm_, builder.vm_image_, who));
  if (!job.container.empty()) job.container = absolute(job.container, who.directory);
  if (job.container.empty() && !job.container_mounts.empty()) return Error(Code::kInvalid, "--container-mounts needs --container");
  if (!job.container.empty() && !job.vm.empty())
    return Error(Code::kInvalid, "a job runs in a container or in a virtual machine, not in both");
  if (job.stdout_path.empty()) job.stdout_path = default_output;
  if (!default_output.empty() && job.stdout_path == default_output && !job.array.empty()) {
    const std::size_t at = job.stdout_path.find("%j");
    if (at != std::string::npos) job.stdout_path.replace(at, 2, "%A_%a");
  }
  if (!job.array.empty()) BOURSE_TRY(batch::parse_array(job.array));
  if (!job.dependency.empty()) BOURSE_TRY(batch::parse_dependencies(job.dependency));
  BOURSE_TRY(batch::parse_mail_types(job.mail_type));
  BOURSE_TRY(batch::check_mail_address(job.mail_user));
  for (const std::string* hosts : {&job.node_list, &job.exclude})
    if (!hosts->empty()) BOURSE_TRY(expand_hosts(*hosts));
  BOURSE_TRY(check_places(job));
  return out;
}

}  // namespace bourse::cli
