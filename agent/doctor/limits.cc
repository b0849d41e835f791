// Resource limits: of the agent's processes where they run, since tasks inherit theirs; else of the shell that asks.
#include <algorithm>

#include "agent/doctor/check.h"

namespace bourse::doctor {
namespace {

constexpr std::int64_t kUnlimited = INT64_MAX;
constexpr std::int64_t kFilesLeast = 65'536, kProcessesLeast = 4096;

struct Whose {
  std::string name, path;
};
Whose find(const Host& host) {
  for (const char* name : {"bourse-launcher", "bourse-agent"})
    if (const auto pids = host.files.processes(name); !pids.empty())
      return {std::string(name) + " " + std::to_string(pids.front()), "/proc/" + std::to_string(pids.front()) + "/limits"};
  return {"this shell", "/proc/self/limits"};
}

struct Limit {
  std::string soft_text, hard_text;
  std::int64_t hard = 0;
};
std::optional<Limit> parse(std::string_view text, std::string_view name) {
  const auto at = text.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  const auto words = words_of(text.substr(at + name.size(), text.find('\n', at) - at - name.size()));
  if (words.size() < 2) return std::nullopt;
  const auto value = [](const std::string& word) { return word == "unlimited" ? kUnlimited : whole_number(word).value_or(-1); };
  if (value(words[0]) < 0 || value(words[1]) < 0) return std::nullopt;
  return Limit{words[0], words[1], value(words[1])};
}

std::string in_unit(std::string_view key, std::string_view value) {
  return "in the agent's systemd unit: " + std::string(key) + "=" + std::string(value) + "; or ulimit before it starts";
}

}  // namespace

void limits(const Host& host, Report report) {
  const Whose whose = find(host);
  const auto text = host.files.text(whose.path);
  if (!text) return;
  const auto found = [&](const Limit& limit) { return limit.soft_text + " (hard " + limit.hard_text + "), of " + whose.name; };
  if (const auto files = parse(*text, "Max open files")) {
    const bool low = files->hard < kFilesLeast;
    report.add("rlimit.nofile", low ? Level::kWarning : Level::kOk, found(*files),
               low ? "Agent, master and tasks cannot have more than " + files->hard_text +
                         " files and sockets open each; a master needs two for each peer."
                   : "Enough files and sockets.",
               low ? in_unit("LimitNOFILE", "1048576") : "");
  }
  if (const auto memory = parse(*text, "Max locked memory")) {
    const bool rdma = !host.files.names("/sys/class/infiniband").empty();
    const bool low = memory->hard != kUnlimited;
    report.add("rlimit.memlock", low ? (rdma ? Level::kWarning : Level::kNote) : Level::kOk, found(*memory),
               low ? std::string(rdma ? "This host has RDMA devices; memory" : "Memory") +
                         " that a network adapter or a GPU reaches has to be locked; tasks inherit this limit, and beyond it their "
                         "programs fail with \"Cannot allocate memory\"."
                   : "Tasks may lock what their devices need.",
               low ? in_unit("LimitMEMLOCK", "infinity") : "");
  }
  if (const auto processes = parse(*text, "Max processes")) {
    const bool low = processes->hard < kProcessesLeast;
    report.add("rlimit.nproc", low ? Level::kWarning : Level::kOk, found(*processes),
               low ? "One user's tasks on this host may have only " + processes->hard_text +
                         " processes and threads together; slices have a limit of their own (agent.max_pids)."
                   : "Enough processes for one user.",
               low ? in_unit("LimitNPROC", "infinity") : "");
  }
}

}  // namespace bourse::doctor
