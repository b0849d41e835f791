// What a probe is: a function that looks at one kind of resource of this host and reports facts with where they are from.
//
// Probes run in bourse-helper, one process for each run of each probe, and nowhere else: what they call may crash, hang or leak,
// and that costs the results of that run only. So a probe blocks as it likes, keeps no state, and writes to nobody but its caller;
// what it prints is shown to a person only when it dies. Libraries that not every host has are opened at run time (dlopen): a
// helper that cannot be loaded would cost every probe. Everything that a probe reads lies below `root`, so that a test gives it a tree
// of files instead of a host.
//
// A report is an Inventory of which only that is filled in which the probe knows. Devices need an id that is the same in every
// run and after a reboot (a uuid, else the PCI address); probes that report the same id, or the same kind at the same PCI address,
// mean the same device and are merged (merge.h). `total` has the amounts of the topology (cpus, mem, disk, others); its devices are
// left empty, for merge() makes them.
//
// A new probe is: a line in catalog.cc (name, time limit, sentence), a function, and a line in agent/probes/run_probe.cc.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/inventory.h"
#include "common/core/result.h"
#include "common/core/time.h"

namespace bourse {

struct ProbeInput {
  std::string root = "/";                                           // of /proc, /sys and /dev; "/" or a directory
  std::map<std::string, std::string> options;                       // the probe's own: "topology", "declare", "path", ...
  [[nodiscard]] std::string option(const std::string& name) const;  // "" where it is not given
  [[nodiscard]] std::string path(std::string_view below) const;     // "/sys/x" -> root + "/sys/x"
  [[nodiscard]] bool this_host() const { return root == "/"; }      // else a tree of files: ask no library about the host
};

// Where facts are from, by the fact's path; one without a line of its own has that of the path above it. "" is the whole report.
//   devices/ID  devices/ID/mem (a counter)  devices/ID/model  labels/KEY  total/mem  total/cpus  topology
using FactSources = std::map<std::string, std::string>;

struct ProbeReport {
  Inventory inventory;
  FactSources sources;
  bool operator==(const ProbeReport&) const = default;
};

// No error where there is simply nothing of the kind: an empty report. kInvalid: the configuration is wrong (the text says file
// and line); anything else: could not look.
using ProbeFunction = Result<ProbeReport> (*)(const ProbeInput& input);

// What the agent knows of its probes without linking them. catalog.cc.
struct ProbeInfo {
  std::string_view name;
  Duration limit;          // of one run
  std::string_view about;  // one sentence, for bourse probe --list and bourse-agent(8)
  bool automatic = true;   // runs unless agent.probes says otherwise
  // Paths below the root, separated by spaces; where not one of them is there, nor the option of that name ("?NAME") is given, the
  // report is empty without a process being started. Empty: always started.
  std::string_view needs = {};
};
[[nodiscard]] bool worth_running(const ProbeInfo& info, const ProbeInput& input);
const std::vector<ProbeInfo>& probe_catalog();
const ProbeInfo* find_probe(std::string_view name);

constexpr const char* kProbeHwloc = "hwloc";
constexpr const char* kProbeDeclared = "declared";
constexpr std::string_view kProbePlugin = "plugin";  // "plugin:NAME" is one plugin's
constexpr std::string_view kPluginPrefix = "plugin:";

// The helper's answer on its descriptor kReportFd: "BRPR", version, kind, then the report or the error. Bounded; kCorrupt.
constexpr int kReportFd = 3;
constexpr std::size_t kReportBytesMax = 8 * 1024 * 1024;
std::string encode_report(const Result<ProbeReport>& report);
Result<ProbeReport> decode_report(std::string_view bytes);  // a probe's own error comes back as such

}  // namespace bourse
