// Structured logging: one line an event, key=value, to stderr.
//
// "2026-11-30T10:34:41.123456Z level=warn prog=bourse-agent event=probe_failed probe=libvirt reason=\"...\"".
// Level by who must act: error = an admin, now; warn = degraded, and says "ignoring" or "retrying"; info = state changed;
// debug = for us. Only main.cc, drivers and (through Actions::log) actors log; everything else returns errors.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace bourse {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

void log_init(std::string_view program, LogLevel level);
using LogFields = std::initializer_list<std::pair<std::string_view, std::string>>;
void log_event(LogLevel level, std::string_view event, LogFields fields);
void log_line(std::string_view line);  // an actor's: "level=warn event=..." as it stands, stamped and with prog=

// For actors: builds "level=warn event=... key=value", quoting where a value needs it. No clock, no output.
std::string log_text(LogLevel level, std::string_view event, LogFields fields);

}  // namespace bourse
