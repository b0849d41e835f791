// Memory: swap, overcommit, huge pages, what the kernel does when it runs out, and whether its own figures agree.
#include "agent/doctor/check.h"

namespace bourse::doctor {
namespace {

constexpr std::int64_t kSwappinessWanted = 10;

// Bytes of swap that is on; "Filename Type Size Used Priority", sizes in KiB.
std::int64_t swap_bytes(const Host& host) {
  const auto words = words_of(host.files.text("/proc/swaps").value_or(""));
  std::int64_t sum = 0;
  for (std::size_t i = 5; i + 4 < words.size(); i += 5) sum += whole_number(words[i + 2]).value_or(0) * 1024;
  return sum;
}

void swappiness(const Host& host, Report& report) {
  constexpr std::string_view kName = "vm.swappiness";
  const auto value = sysctl_number(host, kName);
  if (!value) return;
  const std::string found = std::to_string(*value);
  const std::int64_t swap = swap_bytes(host);
  if (swap == 0) {
    report.add(std::string(kName), Level::kOk, found, "No swap is on, so it only weighs page cache against itself.");
  } else if (*value <= kSwappinessWanted) {
    report.add(std::string(kName), Level::kOk, found, "Swap (" + format_size(Bytes{swap}) + ") is a last resort.");
  } else {
    report.add(std::string(kName), Level::kWarning, found,
               format_size(Bytes{swap}) +
                   " of swap is on and used early: a task above its memory becomes slow, and its neighbours with it, instead of "
                   "being ended.",
               set_sysctl(kName, std::to_string(kSwappinessWanted)));
  }
}

void overcommit(const Host& host, Report& report) {
  constexpr std::string_view kName = "vm.overcommit_memory";
  const auto value = sysctl_number(host, kName);
  if (!value) return;
  const std::string found = std::to_string(*value);
  if (*value == 2) {
    const auto ratio = sysctl_number(host, "vm.overcommit_ratio");
    report.add(
        std::string(kName), Level::kWarning, found,
        "Address space is limited for the whole host (overcommit_ratio " +
            (ratio ? std::to_string(*ratio) : std::string("not known")) +
            "): a fork of a large process, a JVM or a CUDA program fails with \"Cannot allocate memory\" while memory is free. "
            "Slices limit what is really used; this limit is not needed beside them.",
        set_sysctl(kName, "0"));
  } else {
    report.add(std::string(kName), Level::kOk, found,
               *value == 1 ? "Address space is never refused; slices limit what is really used."
                           : "Address space is refused only where it is absurd; slices limit what is really used.");
  }
}

void out_of_memory(const Host& host, Report& report) {
  constexpr std::string_view kPanic = "vm.panic_on_oom";
  if (const auto value = sysctl_number(host, kPanic)) {
    if (*value == 2)
      report.add(std::string(kPanic), Level::kError, "2", "One task above its memory limit takes the whole host down.",
                 set_sysctl(kPanic, "0"));
    else if (*value == 1)
      report.add(std::string(kPanic), Level::kWarning, "1",
                 "When the host itself runs out of memory it reboots: every task is lost, not the one to blame.",
                 set_sysctl(kPanic, "0"));
    else
      report.add(std::string(kPanic), Level::kOk, std::to_string(*value), "Running out of memory ends a task, not the host.");
  }
  constexpr std::string_view kAllocating = "vm.oom_kill_allocating_task";
  if (sysctl_number(host, kAllocating).value_or(0) != 0)
    report.add(
        std::string(kAllocating), Level::kWarning, "1",
        "Whoever asks for memory last is killed, be it the agent: oom_score_adj, by which revocable tasks go first, is ignored.",
        set_sysctl(kAllocating, "0"));
}

void transparent_huge_pages(const Host& host, Report& report) {
  constexpr std::string_view kPath = "/sys/kernel/mm/transparent_hugepage/enabled";
  const auto value = host.files.text(kPath);
  if (!value) return;
  if (value->find("[always]") != std::string::npos)
    report.add(
        "transparent_hugepage", Level::kNote, *value,
        "Every task gets pages of 2 MiB, wanted or not: peak memory of small tasks grows, and they may meet their limit sooner. "
        "With madvise, programs that gain from them ask for them.",
        "echo madvise >" + std::string(kPath));
  else
    report.add("transparent_hugepage", Level::kOk, *value, "Huge pages go to programs that ask for them, or to none.");
}

void huge_pages(const Host& host, Report& report, const std::string& meminfo, std::int64_t total) {
  const auto count = meminfo_value(meminfo, "HugePages_Total");
  const auto size = meminfo_value(meminfo, "Hugepagesize");
  if (!count || !size || total <= 0) return;
  const std::int64_t bytes = *count * *size;
  const std::string found = std::to_string(*count);
  if (bytes == 0) {
    report.add("vm.nr_hugepages", Level::kOk, found, "No memory is set aside as huge pages.");
    return;
  }
  const bool reserved = host.options.reserve_mem.value >= bytes;
  const std::string size_text = format_size(Bytes{bytes});
  report.add("vm.nr_hugepages",
             reserved            ? Level::kOk
             : bytes > total / 4 ? Level::kWarning
                                 : Level::kNote,
             found,
             size_text + " of " + format_size(Bytes{total}) +
                 " are set aside as huge pages: ordinary memory of tasks cannot come from " + "there" +
                 (reserved ? ", and agent.reserve_mem keeps that from being offered." : ", but is offered as if it could."),
             reserved ? "" : "in bourse.conf, [agent]: reserve_mem = \"" + size_text + "\"");
}

// hwloc sums the nodes of /sys; /proc/meminfo is another count. Hot-plugged memory is where they part.
void agreement(const Host& host, Report& report, std::int64_t total) {
  std::int64_t nodes = 0, count = 0;
  for (const std::string& name : host.files.names("/sys/devices/system/node")) {
    if (name.compare(0, 4, "node") != 0 || !whole_number(name.substr(4))) continue;
    const auto text = host.files.text("/sys/devices/system/node/" + name + "/meminfo");
    const auto bytes = text ? meminfo_value(*text, "MemTotal") : std::nullopt;
    if (!bytes) continue;
    nodes += *bytes;
    ++count;
  }
  if (count == 0 || total <= 0) return;
  const std::string found = "nodes " + format_size(Bytes{nodes}) + ", kernel " + format_size(Bytes{total});
  const std::int64_t apart = nodes > total ? nodes - total : total - nodes;
  if (apart <= total / 100)
    report.add("memory", Level::kOk, found, "The NUMA nodes that hwloc sums and /proc/meminfo agree.");
  else
    report.add(
        "memory", Level::kNote, found,
        "The NUMA nodes that hwloc sums and /proc/meminfo disagree, as after memory was plugged in or taken out. The agent offers "
        "the smaller of both.",
        "restart the host, or its agent once the memory is on line: cat /sys/devices/system/memory/memory*/state");
}

void numa(const Host& host, Report& report) {
  const std::string nodes = host.files.text("/sys/devices/system/node/online").value_or("0");
  if (nodes == "0" || nodes.empty()) return;
  if (const auto value = sysctl_number(host, "kernel.numa_balancing"); value.value_or(0) != 0)
    report.add(
        "kernel.numa_balancing", Level::kNote, std::to_string(*value),
        "The kernel unmaps pages to see who uses them, and moves them; slices are bound to their nodes already, and pay for it.",
        set_sysctl("kernel.numa_balancing", "0"));
  if (const auto value = sysctl_number(host, "vm.zone_reclaim_mode"); value.value_or(0) != 0)
    report.add("vm.zone_reclaim_mode", Level::kNote, std::to_string(*value),
               "A node that is full of page cache is cleaned before memory of another is used: reads stall.",
               set_sysctl("vm.zone_reclaim_mode", "0"));
}

}  // namespace

void memory(const Host& host, Report report) {
  const std::string meminfo = host.files.text("/proc/meminfo").value_or("");
  const std::int64_t total = meminfo_value(meminfo, "MemTotal").value_or(0);
  agreement(host, report, total);
  swappiness(host, report);
  overcommit(host, report);
  out_of_memory(host, report);
  transparent_huge_pages(host, report);
  huge_pages(host, report, meminfo, total);
  numa(host, report);
}

}  // namespace bourse::doctor
