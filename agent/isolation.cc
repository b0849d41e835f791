#include "agent/isolation.h"

#include <algorithm>

#include "common/core/units.h"

namespace bourse {

namespace {

constexpr std::int64_t kPermille = 1000;

Error in_key(const char* key, Error error) { return std::move(error).add(std::string("agent.") + key); }

}  // namespace

Result<IoLimit> parse_io_limit(std::string_view text) {
  const auto bad = [&] {
    return Error(Code::kInvalid,
                 "`" + std::string(text) + "' is not a limit like /dev/sda:rbps=100MiB,wbps=50MiB,riops=500,wiops=500");
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad();
  const auto rules = BOURSE_TRY(devices::of_path(std::string(text.substr(0, colon))));
  if (rules.size() != 1 || rules[0].type != 'b')
    return Error(Code::kInvalid, std::string(text.substr(0, colon)) + " is not a block device");
  IoLimit out;
  out.major = static_cast<std::uint32_t>(rules[0].major), out.minor = static_cast<std::uint32_t>(rules[0].minor);
  std::string_view rest = text.substr(colon + 1);
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    const auto equals = word.find('=');
    if (equals == std::string_view::npos) return bad();
    const std::string_view name = word.substr(0, equals);
    const Bytes value = BOURSE_TRY(parse_size(word.substr(equals + 1)));
    std::uint64_t* const member = name == "rbps"    ? &out.read_bytes
                                  : name == "wbps"  ? &out.write_bytes
                                  : name == "riops" ? &out.reads
                                  : name == "wiops" ? &out.writes
                                                    : nullptr;
    if (member == nullptr || value.value <= 0) return bad();
    *member = static_cast<std::uint64_t>(value.value);
  }
  return out;
}

Result<IsolationOptions> read_isolation(const Config& config) {
  IsolationOptions out;
  out.pids_max = static_cast<std::uint32_t>(config.integer("agent", "max_pids"));
  out.mem_high_permille = static_cast<std::uint32_t>(config.integer("agent", "memory_high"));
  out.limit_devices = config.flag("agent", "limit_devices");
  if (const std::string root = config.text("agent", "probe_root"); root != "/") out.root = root;
  out.devices = devices::usual();
  for (const std::string& path : config.list("agent", "allow_devices")) {
    auto rules = devices::of_path(path);
    if (!rules && rules.error().code() == Code::kNotFound) continue;  // one file for hosts with and without it
    if (!rules) return in_key("allow_devices", std::move(rules).error());
    out.devices.insert(out.devices.end(), rules->begin(), rules->end());
  }
  for (const std::string& text : config.list("agent", "io_limits")) {
    auto limit = parse_io_limit(text);
    if (!limit) return in_key("io_limits", std::move(limit).error());
    out.io.push_back(*limit);
  }
  launcher::Confine& confine = out.confine;
  const std::string tmp = config.text("agent", "private_tmp");
  confine.tmp = tmp == "memory" ? launcher::Confine::Tmp::kMemory
                : tmp == "disk" ? launcher::Confine::Tmp::kDisk
                                : launcher::Confine::Tmp::kShared;
  for (const std::string& word : config.list("agent", "namespaces")) {
    if (word != "pid" && word != "ipc" && word != "net")
      return in_key("namespaces", Error(Code::kInvalid, "`" + word + "' is none of pid, ipc, net"));
    BOURSE_TRY(restrict(confine, word));
  }
  confine.new_privileges = !config.flag("agent", "no_new_privileges");
  out.image_max = config.size("agent", "image_max");
  const std::string seccomp = config.text("agent", "seccomp");
  confine.seccomp = seccomp == "on";
  out.filter_root = seccomp == "auto";
  const std::vector<std::string> names = config.list("agent", "capabilities");
  confine.capabilities = launcher::usual_capabilities();
  if (names == std::vector<std::string>{"all"}) {
    confine.all_capabilities = true;
  } else if (names != std::vector<std::string>{"default"}) {
    auto set = launcher::parse_capabilities(names == std::vector<std::string>{"none"} ? std::vector<std::string>{} : names);
    if (!set) return in_key("capabilities", std::move(set).error());
    confine.capabilities = *set;
  }
  return out;
}

Result<SliceLimits> limits_of(const SliceSpec& spec, const std::vector<std::string>& device_nodes,
                              const IsolationOptions& options) {
  SliceLimits limits;
  if (spec.cpuset.empty()) limits.cpus = spec.resources.cpus;
  limits.mem = spec.resources.mem;
  limits.cpuset = spec.cpuset;
  for (const NumaAmount& node : spec.resources.numa)
    if (node.mem.value > 0) limits.mems.push_back(node.node);
  limits.pids = options.pids_max;
  limits.mem_high = Bytes{limits.mem.value / kPermille * options.mem_high_permille};
  limits.io = options.io;
  limits.revocable = spec.revocable;
  limits.devices_limited = options.limit_devices;
  if (!options.limit_devices) return limits;
  limits.devices = options.devices;
  for (const std::string& node : device_nodes) {
    const auto rules = BOURSE_TRY(devices::of_path(options.root + node));
    limits.devices.insert(limits.devices.end(), rules.begin(), rules.end());
  }
  std::sort(limits.devices.begin(), limits.devices.end());
  limits.devices.erase(std::unique(limits.devices.begin(), limits.devices.end()), limits.devices.end());
  return limits;
}

Result<launcher::Confine> confine_of(const TaskSpec& spec, const IsolationOptions& options) {
  launcher::Confine confine = options.confine;
  if (options.filter_root && spec.uid == 0) confine.seccomp = true;
  if (spec.kind == TaskKind::kContainer) confine.image_bytes = static_cast<std::uint64_t>(options.image_max.value);
  for (const std::string& word : spec.isolate) BOURSE_TRY(restrict(confine, word));
  return confine;
}

}  // namespace bourse
