// bourse doctor: what agent/doctor finds, for people and for programs.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "agent/doctor/doctor.h"
#include "common/world/command_line.h"
#include "common/world/config.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/complain.h"
#include "frameworks/cli/table.h"

namespace bourse::cli {
namespace {

using doctor::Finding;
using doctor::Level;

constexpr int kWarnings = 4, kErrors = 5;  // exit statuses
constexpr std::size_t kTextWidth = 100;

struct Wishes {
  std::string root, state, level = "note";
  bool json = false, all = false, sysctl = false, no_disk = false;
};

// "tcp://127.0.0.1:7400" -> 7400.
void add_port(const std::string& endpoint, std::vector<std::uint16_t>& ports) {
  const auto colon = endpoint.rfind(':');
  if (endpoint.compare(0, 6, "tcp://") != 0) return;
  const long port = std::strtol(endpoint.c_str() + colon + 1, nullptr, 10);
  if (port > 0 && port < 65536) ports.push_back(static_cast<std::uint16_t>(port));
}

doctor::Options options_of(const Wishes& wishes, std::vector<Finding>& findings) {
  doctor::Options options;
  options.root = wishes.root == "/" ? "" : wishes.root;
  options.disk = !wishes.no_disk;
  const Places places = Places::find();
  options.state_dir = wishes.state.empty() ? places.state : wishes.state;
  const bool there = access(places.config.c_str(), F_OK) == 0;
  const auto config = Config::read(there ? places.config : "", {});
  if (!config) {
    findings.push_back(
        {"bourse.conf", "configuration", Level::kError, places.config, config.error().text(), "edit " + places.config});
    return options;
  }
  if (there)
    findings.push_back(
        {"bourse.conf", "configuration", Level::kOk, places.config, "Every entry is known and has a value that it may.", ""});
  options.max_pids = static_cast<std::uint32_t>(config->integer("agent", "max_pids"));
  options.reserve_mem = config->size("agent", "reserve_mem");
  if (wishes.state.empty() && !config->text("agent", "state").empty()) options.state_dir = config->text("agent", "state");
  add_port(config->text("master", "listen"), options.ports);
  return options;
}

std::string counted(std::size_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out, line;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && indent + line.size() + 1 + word.size() > kTextWidth) {
      out += std::string(indent, ' ') + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return out + std::string(indent, ' ') + line + "\n";
}

void print_people(const std::vector<Finding>& findings, Level least) {
  const bool colour = want_colour();
  const auto paint = [&](Level level) {
    if (!colour) return std::string(doctor::level_text(level));
    const char* code = level == Level::kError ? "31" : level == Level::kWarning ? "33" : level == Level::kNote ? "36" : "32";
    return fmt::format("\033[{}m{}\033[0m", code, doctor::level_text(level));
  };
  std::array<std::size_t, 4> counts{};
  for (const Finding& finding : findings) ++counts[static_cast<std::size_t>(finding.level)];
  // The worst first: that is what somebody in trouble looks for.
  for (const Level level : {Level::kError, Level::kWarning, Level::kNote, Level::kOk}) {
    if (level < least) break;
    for (const Finding& finding : findings) {
      if (finding.level != level) continue;
      fmt::print("{}: {}: {}\n", paint(level), finding.check, finding.found);
      if (level == Level::kOk) continue;
      fmt::print("{}", wrapped(finding.means, 4));
      if (!finding.mend.empty()) fmt::print("    => {}\n", finding.mend);
    }
  }
  fmt::print("{}: {} ok, {}, {}, {}\n", counted(findings.size(), "check"), counts[0], counted(counts[1], "note"),
             counted(counts[2], "warning"), counted(counts[3], "error"));
}

void print_json(const std::vector<Finding>& findings) {
  const std::vector<Field<Finding>> fields = {
      {"check", 0, "", [](const Finding& f) { return f.check; }},
      {"family", 0, "", [](const Finding& f) { return f.family; }},
      {"level", 0, "", [](const Finding& f) { return std::string(doctor::level_text(f.level)); }},
      {"found", 0, "", [](const Finding& f) { return f.found; }},
      {"means", 0, "", [](const Finding& f) { return f.means; }},
      {"mend", 0, "", [](const Finding& f) { return f.mend; }},
  };
  fmt::print("{}", json_rows(fields, findings, "checks"));
}

}  // namespace

int doctor_main(int argc, char** argv) {
  const std::string program = "bourse doctor";
  Wishes wishes;
  CommandLine app(
      "Checks this host for settings under which Bourse, or its tasks, would suffer; says what each means and how to mend it.",
      program);
  app.flag("--json", wishes.json, "As JSON, every check");
  app.flag("--all", wishes.all, "Also what is well");
  app.option("--level", wishes.level, "Least to show").one_of({"ok", "note", "warning", "error"});
  app.flag("--sysctl", wishes.sysctl, "Only the sysctls to change, as a file for /etc/sysctl.d");
  app.option("--state", wishes.state, "State directory to look at (default: the cluster's)");
  app.flag("--no-disk", wishes.no_disk, "Do not measure how fast the state directory is flushed");
  app.option("--root", wishes.root, "Look below DIR for /proc, /sys, /dev and so on, such as a copy of another host's");
  app.directory();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  if (!wishes.root.empty() && access((wishes.root + "/proc").c_str(), F_OK) != 0)
    return complain(program, Error(Code::kNotFound, wishes.root + " has no proc in it; nothing to look at"));

  std::vector<Finding> findings;
  const doctor::Options options = options_of(wishes, findings);
  const auto more = doctor::examine(options);
  findings.insert(findings.end(), more.begin(), more.end());
  if (wishes.sysctl) {
    fmt::print("{}", doctor::sysctl_file(findings));
  } else if (wishes.json) {
    print_json(findings);
  } else {
    const Level least = wishes.all || wishes.level == "ok" ? Level::kOk
                        : wishes.level == "note"           ? Level::kNote
                        : wishes.level == "warning"        ? Level::kWarning
                                                           : Level::kError;
    print_people(findings, least);
  }
  const Level worst = doctor::worst(findings);
  return worst == Level::kError ? kErrors : worst == Level::kWarning ? kWarnings : 0;
}

}  // namespace bourse::cli
