// bourse-helper: runs one probe and writes its report to descriptor 3. Started by bourse-agent and `bourse probe` for each run of
// each probe, never by hand but to look for a fault (then --text shows the report).
//
// Why a program of its own and a process for each run: libraries of vendors are loaded here, so the agent stays small and without
// their constructors, threads and signal handlers; a run that dies takes nothing with it, not even the results of the probe beside
// it; what leaks is gone with it. A start costs a few milliseconds, some times an hour. See "Proof" and DESIGN §3.
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "agent/probes/run_probe.h"
#include "common/core/hooks.h"
#include "common/world/command_line.h"
#include "common/world/files.h"

namespace {

int show(const bourse::Result<bourse::ProbeReport>& report) {
  if (!report) {
    std::fprintf(stderr, "bourse-helper: %s\n", report.error().text().c_str());
    return 1;
  }
  for (const bourse::Device& device : report->inventory.devices)
    std::printf("device %s %s\n", device.id.str().c_str(), device.kind.c_str());
  std::printf("total %s\n", to_text(report->inventory.total).c_str());
  for (const auto& [key, value] : report->inventory.labels) std::printf("label %s=%s\n", key.c_str(), value.c_str());
  for (const std::string& note : report->inventory.notes) std::printf("note %s\n", note.c_str());
  for (const auto& [fact, source] : report->sources) std::printf("source %s: %s\n", fact.c_str(), source.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  bourse::hooks::init(std::getenv("BOURSE_CRASH_AT"), std::getenv("BOURSE_MUTANT"));
  std::string probe;
  std::vector<std::string> settings;
  bourse::ProbeInput input;
  bool text = false;
  bourse::CommandLine line("Runs one probe for bourse-agent. See bourse-agent(8).", "bourse-helper");
  line.option("PROBE", probe, "Name of the probe, as `bourse probe --list' shows it").required();
  line.option("--root", input.root, "Directory that has proc, sys and dev of the host to look at (default: /)");
  line.option("--set", settings, "name=value, an option of the probe").one_each();
  line.flag("--text", text, "Print the report to standard output instead of writing it to descriptor 3");
  line.version("bourse-helper " BOURSE_VERSION);
  if (const int status = line.parse(argc, argv); status >= 0) return status;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      std::fprintf(stderr, "bourse-helper: --set %s: expected name=value\n", setting.c_str());
      return 2;
    }
    input.options[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  while (input.root.size() > 1 && input.root.back() == '/') input.root.pop_back();
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);  // a vendor's library may crash; its core file helps nobody here
  const auto report = bourse::run_probe(probe, input);
  if (text) return show(report);
  return bourse::write_all(bourse::kReportFd, bourse::encode_report(report)) ? 0 : 1;
}
