// CPU time of a cluster's processes, from /proc, to the nanosecond: what a job costs, by process, whatever else the machine does.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace bourse::bench {

// By program ("batch", "agent", "master", "launcher"): of all its threads, in nanoseconds; "tasks": of what the launcher has reaped, to
// the tick of the clock only. Processes are those whose command line names `directory`.
inline std::map<std::string, std::int64_t> cpu_use(const std::string& directory) {
  std::map<std::string, std::int64_t> out;
  const auto text_of = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const auto each = [](const std::string& path, auto fn) {
    DIR* dir = opendir(path.c_str());
    while (const dirent* entry = dir == nullptr ? nullptr : readdir(dir))
      if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9') fn(std::string(entry->d_name));
    if (dir != nullptr) closedir(dir);
  };
  each("/proc", [&](const std::string& pid) {
    const std::string command = text_of("/proc/" + pid + "/cmdline");
    if (command.find(directory) == std::string::npos) return;
    std::string name;
    for (const char* program : {"master", "agent", "batch", "launcher"})
      if (const auto at = command.find(std::string("bourse-") + program); at != std::string::npos && at < command.find('\0'))
        name = program;
    if (name.empty()) return;
    each("/proc/" + pid + "/task", [&](const std::string& thread) {
      out[name] += std::atoll(text_of("/proc/" + pid + "/task/" + thread + "/schedstat").c_str());
    });
    if (name != "launcher") return;
    // Fields 16 and 17 of proc(5)'s stat: user and system time of children that were waited for.
    const std::string stat = text_of("/proc/" + pid + "/stat");
    std::size_t at = stat.rfind(')');
    for (int field = 2; field < 16 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
    if (at == std::string::npos) return;
    char* end = nullptr;
    const long long user = std::strtoll(stat.c_str() + at, &end, 10), system = std::strtoll(end, nullptr, 10);
    out["tasks"] += (user + system) * (1'000'000'000 / sysconf(_SC_CLK_TCK));
  });
  return out;
}

}  // namespace bourse::bench
