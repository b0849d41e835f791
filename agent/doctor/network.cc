// Sockets: how many peers may knock at once, which local ports are left, and reuse of closed connections.
#include <algorithm>

#include "agent/doctor/check.h"

namespace bourse::doctor {
namespace {

constexpr std::int64_t kBacklogWanted = 4096, kBacklogLeast = 1024;
constexpr std::int64_t kPortsLeast = 16'384;

void backlog(const Host& host, Report& report, std::string_view name, std::string_view who) {
  const auto value = sysctl_number(host, name);
  if (!value) return;
  const std::string found = std::to_string(*value);
  if (*value >= kBacklogWanted) {
    report.add(std::string(name), Level::kOk, found, "Enough connections may wait to be accepted.");
    return;
  }
  report.add(std::string(name), *value < kBacklogLeast ? Level::kWarning : Level::kNote, found,
             "Only " + found + " connections " + std::string(who) +
                 ". After a failover every agent connects to the master at once; those that find no room try again seconds later.",
             set_sysctl(name, std::to_string(kBacklogWanted)));
}

// Connections in TIME_WAIT, of /proc/net/sockstat: "TCP: inuse 6 orphan 0 tw 12 alloc 6 mem 89".
std::int64_t time_waits(const Host& host) {
  const auto words = words_of(host.files.text("/proc/net/sockstat").value_or(""));
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] == "tw") return whole_number(words[i + 1]).value_or(0);
  return 0;
}

bool translates_addresses(const Host& host) {
  for (const std::string& table : words_of(host.files.text("/proc/net/ip_tables_names").value_or("")))
    if (table == "nat") return true;
  return false;
}

void time_wait_reuse(const Host& host, Report& report, std::int64_t ports) {
  constexpr std::string_view kName = "net.ipv4.tcp_tw_reuse", kOld = "net.ipv4.tcp_tw_recycle", kStamps = "net.ipv4.tcp_timestamps";
  if (const auto recycle = sysctl_number(host, kOld); recycle.value_or(0) != 0)
    report.add(
        std::string(kOld), Level::kError, std::to_string(*recycle),
        "Connections of hosts that share an address behind NAT are dropped at random: their timestamps do not grow together. "
        "Kernels since 4.12 have no such setting any more.",
        set_sysctl(kOld, "0"));
  const auto reuse = sysctl_number(host, kName);
  if (!reuse) return;
  const std::string found = std::to_string(*reuse);
  const std::int64_t waiting = time_waits(host);
  constexpr std::string_view kNat =
      "Behind NAT, or where this host translates addresses, a connection that reuses a port can meet the remains of another "
      "host's and be refused or hang.";
  if (*reuse == 1 && sysctl_number(host, kStamps).value_or(1) == 0) {
    report.add(std::string(kName), Level::kWarning, found, "Has no effect, since tcp_timestamps is off: reuse is judged by them.",
               set_sysctl(kStamps, "1"));
  } else if (*reuse == 1) {
    report.add(std::string(kName), translates_addresses(host) ? Level::kWarning : Level::kNote, found,
               "Outgoing connections reuse ports in TIME_WAIT. " + std::string(kNat) +
                   " Bourse keeps its connections open and does not need it; 2 (loopback only) is the safe value.",
               set_sysctl(kName, "2"));
  } else if (ports > 0 && waiting > ports / 2) {
    report.add(
        std::string(kName), Level::kWarning, found,
        std::to_string(waiting) + " of " + std::to_string(ports) +
            " local ports wait in TIME_WAIT; soon connects fail with EADDRNOTAVAIL. Find who opens so many short connections; "
            "reuse helps outgoing ones. But: " +
            std::string(kNat),
        set_sysctl(kName, "1"));
  } else {
    report.add(std::string(kName), Level::kOk, found, "Closed connections are not reused off loopback, and ports are plenty.");
  }
}

bool in_list(const std::string& list, std::int64_t port) {
  for (std::size_t at = 0; at < list.size();) {
    const auto end = std::min(list.find(',', at), list.size());
    const std::string range = list.substr(at, end - at);
    at = end + 1;
    const auto dash = range.find('-');
    const auto low = whole_number(range.substr(0, dash));
    const auto high = dash == std::string::npos ? low : whole_number(range.substr(dash + 1));
    if (low && high && *low <= port && port <= *high) return true;
  }
  return false;
}

}  // namespace

void network(const Host& host, Report report) {
  backlog(host, report, "net.core.somaxconn", "may wait to be accepted on one socket");
  backlog(host, report, "net.ipv4.tcp_max_syn_backlog", "may be half open on one socket");
  std::int64_t ports = 0;
  constexpr std::string_view kRange = "net.ipv4.ip_local_port_range";
  if (const auto range = sysctl_text(host, kRange)) {
    const auto words = words_of(*range);
    const auto low = words.size() == 2 ? whole_number(words[0]) : std::nullopt;
    const auto high = words.size() == 2 ? whole_number(words[1]) : std::nullopt;
    if (low && high && *high >= *low) {
      ports = *high - *low + 1;
      const std::string reserved = sysctl_text(host, "net.ipv4.ip_local_reserved_ports").value_or("");
      std::string taken;
      for (const std::uint16_t port : host.options.ports)
        if (*low <= port && port <= *high && !in_list(reserved, port)) taken = std::to_string(port);
      if (!taken.empty()) {
        report.add(std::string(kRange), Level::kWarning, *range,
                   "Port " + taken +
                       " of the master lies in this range: any program may be given it first, and then the master cannot "
                       "listen.",
                   set_sysctl("net.ipv4.ip_local_reserved_ports", reserved.empty() ? taken : reserved + "," + taken));
      } else if (ports < kPortsLeast) {
        report.add(std::string(kRange), Level::kNote, *range,
                   "Only " + std::to_string(ports) + " ports for outgoing connections of all tasks of this host.",
                   set_sysctl(kRange, "32768 60999"));
      } else {
        report.add(std::string(kRange), Level::kOk, *range, "Local ports are plenty and clear of the master's.");
      }
    }
  }
  time_wait_reuse(host, report, ports);
}

}  // namespace bourse::doctor
