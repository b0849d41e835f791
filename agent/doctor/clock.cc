// The clock: kept by somebody, near the truth, cheap to read. See "Clock drift".
#include <sys/timex.h>

#include "agent/doctor/check.h"

namespace bourse::doctor {
namespace {

constexpr Duration kErrorMax = milliseconds(200);  // beyond it a master may not lead
constexpr const char* kInstall = "apt-get install chrony && systemctl enable --now chrony";

std::optional<ClockState> ask_kernel() {
  struct timex state {};
  const int rc = adjtimex(&state);
  if (rc < 0) return std::nullopt;
  return ClockState{rc != TIME_ERROR && (state.status & STA_UNSYNC) == 0, microseconds(state.maxerror)};
}

std::string keeper_of(const Host& host) {
  for (const char* name : {"chronyd", "ntpd", "systemd-timesyncd", "openntpd", "ptp4l", "phc2sys"})
    if (!host.files.processes(name).empty()) return name;
  return {};
}

}  // namespace

void clock(const Host& host, Report report) {
  const auto state = host.options.clock ? host.options.clock : host.files.real() ? ask_kernel() : std::nullopt;
  const std::string keeper = keeper_of(host);
  const std::string by = keeper.empty() ? "nobody" : keeper;
  if (!state) {
    report.add("clock.sync", keeper.empty() ? Level::kWarning : Level::kOk, by,
               keeper.empty() ? "No program keeps the clock, and the kernel was not asked."
                              : "The clock is kept; the kernel was not asked.",
               keeper.empty() ? kInstall : "");
  } else if (!state->synchronised) {
    report.add("clock.sync", Level::kWarning, "not synchronised, kept by " + by,
               "The kernel says that nobody has set this clock lately. Times of jobs are wrong, MUNGE refuses credentials beyond "
               "five minutes, and "
               "a master more than 200 ms off may not lead.",
               keeper.empty() ? kInstall
                              : "chronyc sources, ntpq -p or timedatectl timesync-status shows why " + keeper + " has no source");
  } else if (state->error_max > kErrorMax) {
    report.add("clock.sync", Level::kWarning, "synchronised to " + format_duration(state->error_max) + ", kept by " + by,
               "The error may be more than the 200 ms within which a master may lead.",
               "chronyc tracking, ntpq -p or timedatectl timesync-status; choose nearer servers");
  } else {
    report.add("clock.sync", Level::kOk, "synchronised to " + format_duration(state->error_max) + ", kept by " + by,
               "The clock is right within that.");
  }
  const auto source = host.files.text("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (!source) return;
  const bool slow = *source == "hpet" || *source == "acpi_pm" || *source == "jiffies" || *source == "pit";
  report.add("clock.source", slow ? Level::kWarning : Level::kOk, *source,
             slow ? "Each look at the clock is a slow access to a chip, for every program on this host; the kernel has found the "
                    "processor's own "
                    "counter unfit."
                  : "The clock is read without a system call, or nearly so.",
             slow ? "dmesg | grep -i -e tsc -e clocksource tells why; in a virtual machine, ask for its invariant TSC" : "");
}

}  // namespace bourse::doctor
