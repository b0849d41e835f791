// One family of checks is one function; these are all. Each appends its findings in a fixed order and skips what the host has not.
#pragma once

#include <string>
#include <vector>

#include "agent/doctor/doctor.h"
#include "common/world/rooted.h"

namespace bourse::doctor {

struct Host {
  const Options& options;
  Rooted files;
};

class Report {
 public:
  explicit Report(std::string family, std::vector<Finding>& out) : family_(std::move(family)), out_(out) {}
  void add(std::string check, Level level, std::string found, std::string means, std::string mend = {}) {
    out_.push_back({std::move(check), family_, level, std::move(found), std::move(means), std::move(mend)});
  }

 private:
  std::string family_;
  std::vector<Finding>& out_;
};

// "/proc/sys/net/core/somaxconn" of "net.core.somaxconn".
std::string sysctl_path(std::string_view name);
// What it is, as sysctl -n prints it (tabs become blanks); nothing where this kernel has no such.
std::optional<std::string> sysctl_text(const Host& host, std::string_view name);
std::optional<std::int64_t> sysctl_number(const Host& host, std::string_view name);
std::string set_sysctl(std::string_view name, std::string_view value);  // the command
// "VALUE kB" of a /proc/meminfo-like text, in bytes.
std::optional<std::int64_t> meminfo_value(std::string_view text, std::string_view key);

void network(const Host& host, Report report);
void memory(const Host& host, Report report);
void kernel(const Host& host, Report report);
void cgroups(const Host& host, Report report);
void clock(const Host& host, Report report);
void limits(const Host& host, Report report);
void devices(const Host& host, Report report);
void identity(const Host& host, Report report);
void storage(const Host& host, Report report);

}  // namespace bourse::doctor
