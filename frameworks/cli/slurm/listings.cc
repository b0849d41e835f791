// squeue(1), sacct(1) and sinfo(1) of Slurm.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>

#include "common/core/hostlist.h"
#include "common/world/reactor.h"
#include "frameworks/cli/job_text.h"
#include "frameworks/cli/options.h"
#include "frameworks/cli/slurm/columns.h"
#include "frameworks/cli/slurm/fronts.h"
#include "frameworks/cli/slurm/job_fields.h"

namespace bourse::cli {
namespace {

using batch::JobInfo;
using batch::NodeInfo;
using Given = std::map<std::string, std::string, std::less<>>;
using enum OptionDef::Arg;

constexpr std::size_t kHistoryMost = 1'000'000;

int fail(std::string_view program, const Error& error) {
  fmt::print(stderr, "{}: error: {}\n", program, error.text());
  return 1;
}

// -1: go on; else the exit status. Words that are no options are refused: these commands have none.
int read(std::string_view program, const std::vector<OptionDef>& table, int argc, char** argv, Given& given) {
  auto parsed = parse_options(table, {argv + 1, argv + argc}, "command line", true);
  if (!parsed) return fail(program, parsed.error());
  for (Setting& s : parsed->settings) given[s.name] = std::move(s.value);
  if (!parsed->operands.empty())
    return fail(program, Error(Code::kInvalid, fmt::format("Unrecognized argument: {}", parsed->operands.front())));
  if (given.contains("help")) {
    fmt::print("Usage: {} [OPTIONS]\n\nAs Slurm's command of that name; see bourse-slurm(1).\n\n{}", program, usage(table));
    return 0;
  }
  if (given.contains("version")) {
    fmt::print("{} (Bourse) {}\n", program, BOURSE_VERSION);
    return 0;
  }
  return -1;
}

std::string text(const Given& given, std::string_view name) {
  const auto it = given.find(name);
  return it == given.end() ? "" : it->second;
}

void put_trimmed(const std::string& line) {
  const std::size_t end = line.find_last_not_of(' ');
  fmt::print("{}\n", end == std::string::npos ? "" : line.substr(0, end + 1));
}
void put(const std::string& line) { fmt::print("{}\n", line); }

std::string date() { return slurm_time(real_time().wall, ""); }

// Again and again, as --iterate asks.
template <class Once>
int iterate(const Given& given, const Once& once) {
  const int seconds_between = std::atoi(text(given, "iterate").c_str());
  while (true) {
    if (const int status = once(); status != 0 || seconds_between <= 0) return status;
    fmt::print("\n");
    std::fflush(stdout);
    sleep(static_cast<unsigned>(seconds_between));  // lint-ok: a tool, not an actor
  }
}

// --- squeue ------------------------------------------------------------------------------------------------------------

const std::vector<OptionDef> kSqueue = {
    {"jobs", 'j', kRequired, "", "ID,...", "these jobs", ""},
    {"user", 'u', kRequired, "", "NAME,...", "jobs of these users", ""},
    {"users", 0, kRequired, "user", "", "", ""},
    {"me", 0, kNone, "", "", "my jobs", ""},
    {"states", 't', kRequired, "", "STATE,...", "jobs in these states: PD, R, CG, or all", ""},
    {"partition", 'p', kRequired, "", "NAME,...", "jobs of these partitions", ""},
    {"name", 'n', kRequired, "", "NAME,...", "jobs of these names", ""},
    {"account", 'A', kRequired, "", "NAME,...", "jobs of these accounts", ""},
    {"nodelist", 'w', kRequired, "", "HOSTS", "jobs on these hosts", ""},
    {"format", 'o', kRequired, "", "FORMAT", "columns: \"%.18i %j\"", ""},
    {"Format", 'O', kRequired, "", "NAME[:WIDTH],...", "columns by name: jobid:12,state", ""},
    {"noheader", 'h', kNone, "", "", "print no header", ""},
    {"long", 'l', kNone, "", "", "more columns", ""},
    {"start", 0, kNone, "", "", "waiting jobs with the time at which they are expected to start", ""},
    {"array", 'r', kNone, "", "", "an array's waiting tasks one by one", ""},
    {"sort", 'S', kRequired, "", "FIELDS", "by these %-letters, -LETTER downwards", ""},
    {"iterate", 'i', kRequired, "", "SECONDS", "again and again", ""},
    {"all", 'a', kNone, "", "", "", "accepted; all partitions are shown"},
    {"hide", 0, kNone, "", "", "", "accepted; no partition is hidden"},
    {"verbose", 'v', kNone, "", "", "", "accepted"},
    {"steps", 's', kOptional, "", "", "", "accepted; steps are not listed"},
    {"qos", 'q', kRequired, "", "NAME", "", "accepted; jobs of all are shown"},
    {"clusters", 'M', kRequired, "", "NAME", "", "accepted; this cluster is shown"},
    {"local", 0, kNone, "", "", "", "accepted; this cluster is shown"},
    {"federation", 0, kNone, "", "", "", "accepted; this cluster is shown"},
    {"help", 0, kNone, "", "", "show this", ""},
    {"version", 'V', kNone, "", "", "show the version", ""},
};

// By the fields' text, numbers as numbers.
template <class Row>
Result<> sort_rows(std::string_view letters, const std::vector<SlurmField<Row>>& fields, std::vector<Row>& rows) {
  std::vector<std::pair<std::size_t, bool>> keys;
  bool down = false;
  for (const char c : letters) {
    if (c == ',' || c == '+') continue;
    if (c == '-') {
      down = true;
      continue;
    }
    const auto it = std::ranges::find_if(fields, [&](const auto& f) { return f.letter == c; });
    if (it == fields.end()) return Error(Code::kInvalid, fmt::format("--sort: there is no field {}", c));
    keys.emplace_back(static_cast<std::size_t>(it - fields.begin()), std::exchange(down, false));
  }
  const auto less = [](const std::string& a, const std::string& b) {
    const bool numbers = !a.empty() && !b.empty() && a.find_first_not_of("0123456789") == std::string::npos &&
                         b.find_first_not_of("0123456789") == std::string::npos;
    return numbers && a.size() != b.size() ? a.size() < b.size() : a < b;
  };
  std::ranges::stable_sort(rows, [&](const Row& a, const Row& b) {
    for (const auto& [field, downwards] : keys) {
      const std::string x = fields[field].text(a), y = fields[field].text(b);
      if (x != y) return downwards ? less(y, x) : less(x, y);
    }
    return false;
  });
  return {};
}

int squeue_once(const Given& given, BatchClient& client, const SlurmFilter& filter, const std::vector<SlurmColumn>& columns) {
  batch::QueueRequest request;
  request.filter = filter.filter;
  std::erase(request.filter.partitions, "all");
  request.full = true;
  request.each_task = given.contains("array");
  request.order = given.contains("start") ? batch::Order::kStart : batch::Order::kId;
  if (given.contains("start")) request.filter.states = {batch::JobState::kPending};
  auto rows = ask_queue(client, std::move(request));
  if (!rows) return fail("squeue", rows.error());
  // Those that have ended are shown where they are asked for.
  const bool ended =
      filter.all_states || std::ranges::any_of(filter.filter.states, [](batch::JobState s) { return batch::is_terminal(s); });
  if (ended) {
    batch::HistoryRequest past;
    past.filter = filter.filter;
    std::erase(past.filter.partitions, "all");
    past.full = true;
    auto old = ask_history(client, std::move(past), kHistoryMost);
    if (!old) return fail("squeue", old.error());
    rows->insert(rows->end(), old->rbegin(), old->rend());
  }
  if (!filter.filter.jobs.empty() && rows->empty() && !ended) {  // as Slurm: one that has ended is no error, one that never was is
    batch::HistoryRequest past;
    past.filter.jobs = filter.filter.jobs;
    past.limit = 1;
    auto old = ask_history(client, std::move(past), 1);
    if (old && old->empty()) return fail("squeue", Error(Code::kNotFound, "Invalid job id specified"));
  }
  // Running ones first, as squeue sorts: P (partition), t (state), p (priority).
  if (given.contains("sort")) {
    if (auto sorted = sort_rows(text(given, "sort"), squeue_fields(), *rows); !sorted) return fail("squeue", sorted.error());
  } else if (!given.contains("start")) {
    std::ranges::stable_sort(*rows, [](const JobInfo& a, const JobInfo& b) {
      const auto rank = [](const JobInfo& j) { return j.state == batch::JobState::kPending ? 0 : 1; };
      return rank(a) < rank(b);
    });
  }
  if (given.contains("long")) fmt::print("{}\n", date());
  print_slurm<JobInfo>(squeue_fields(), columns, *rows, !given.contains("noheader"), {}, put_trimmed);
  return 0;
}

// --- sacct -------------------------------------------------------------------------------------------------------------

const std::vector<OptionDef> kSacct = {
    {"jobs", 'j', kRequired, "", "ID,...", "these jobs", ""},
    {"user", 'u', kRequired, "", "NAME,...", "jobs of these users; default: mine, of root: all", ""},
    {"uid", 0, kRequired, "user", "", "", ""},
    {"allusers", 'a', kNone, "", "", "everybody's jobs", ""},
    {"state", 's', kRequired, "", "STATE,...", "jobs in these states", ""},
    {"starttime", 'S', kRequired, "", "TIME", "ended after, or not ended; default: today", ""},
    {"endtime", 'E', kRequired, "", "TIME", "submitted before; default: now", ""},
    {"partition", 'r', kRequired, "", "NAME,...", "jobs of these partitions", ""},
    {"accounts", 'A', kRequired, "", "NAME,...", "jobs of these accounts", ""},
    {"name", 0, kRequired, "", "NAME,...", "jobs of these names", ""},
    {"nodelist", 'N', kRequired, "", "HOSTS", "jobs on these hosts", ""},
    {"format", 'o', kRequired, "", "NAME[%WIDTH],...", "columns: JobID%20,State", ""},
    {"brief", 'b', kNone, "", "", "JobID, State, ExitCode", ""},
    {"long", 'l', kNone, "", "", "more columns", ""},
    {"noheader", 'n', kNone, "", "", "print no header", ""},
    {"parsable", 'p', kNone, "", "", "cells with | behind each", ""},
    {"parsable2", 'P', kNone, "", "", "cells with | between them", ""},
    {"delimiter", 0, kRequired, "", "TEXT", "instead of |", ""},
    {"helpformat", 'e', kNone, "", "", "names of all columns", ""},
    {"allocations", 'X', kNone, "", "", "", "accepted; steps are not listed"},
    {"duplicates", 'D', kNone, "", "", "", "accepted; an id is never used twice"},
    {"allclusters", 'L', kNone, "", "", "", "accepted; this cluster is shown"},
    {"clusters", 'M', kRequired, "", "NAME", "", "accepted; this cluster is shown"},
    {"truncate", 'T', kNone, "", "", "", "accepted; times are as they are"},
    {"units", 0, kRequired, "", "K|M|G", "", "accepted; without effect"},
    {"noconvert", 0, kNone, "", "", "", "accepted; without effect"},
    {"verbose", 'v', kNone, "", "", "", "accepted"},
    {"help", 'h', kNone, "", "", "show this", ""},
    {"version", 'V', kNone, "", "", "show the version", ""},
};

Result<Duration> slurm_moment(const std::string& word, Duration now) {
  if (word == "midnight") return parse_timestamp("today", now);
  if (word.find('/') != std::string::npos) {  // MM/DD[/YY]
    int month = 0, day = 0, year = 0;
    const int n = std::sscanf(word.c_str(), "%2d/%2d/%4d", &month, &day, &year);
    if (n >= 2) {
      if (n == 3 && year < 100) year += 2000;
      if (n == 2) year = std::atoi(slurm_time(now, "").substr(0, 4).c_str());
      return parse_timestamp(fmt::format("{:04}-{:02}-{:02}", year, month, day), now);
    }
  }
  if (word.starts_with("now-")) {  // "now-1hours", "now-3days"
    std::string amount = word.substr(4);
    for (const auto& [unit, letter] : {std::pair<std::string, char>{"seconds", 's'},
                                       {"minutes", 'm'},
                                       {"hours", 'h'},
                                       {"days", 'd'},
                                       {"second", 's'},
                                       {"minute", 'm'},
                                       {"hour", 'h'},
                                       {"day", 'd'}})
      if (amount.ends_with(unit)) {
        amount = amount.substr(0, amount.size() - unit.size()) + letter;
        break;
      }
    if (amount.ends_with("weeks") || amount.ends_with("week")) amount = std::to_string(7 * std::atoi(amount.c_str())) + "d";
    return parse_timestamp("now-" + amount, now);
  }
  return parse_timestamp(word, now);
}

// --- sinfo -------------------------------------------------------------------------------------------------------------

const std::vector<OptionDef> kSinfo = {
    {"Node", 'N', kNone, "", "", "a line for each host", ""},
    {"nodes", 'n', kRequired, "", "HOSTS", "these hosts", ""},
    {"states", 't', kRequired, "", "STATE,...", "hosts in these states: idle, mix, alloc, drain, down", ""},
    {"list-reasons", 'R', kNone, "", "", "hosts that take no jobs", ""},
    {"summarize", 's', kNone, "", "", "hosts by use, in one line", ""},
    {"format", 'o', kRequired, "", "FORMAT", "columns: \"%9P %D\"", ""},
    {"noheader", 'h', kNone, "", "", "print no header", ""},
    {"long", 'l', kNone, "", "", "more columns", ""},
    {"exact", 'e', kNone, "", "", "a line for each kind of host", ""},
    {"responding", 'r', kNone, "", "", "hosts that answer", ""},
    {"dead", 'd', kNone, "", "", "hosts that do not", ""},
    {"iterate", 'i', kRequired, "", "SECONDS", "again and again", ""},
    {"partition", 'p', kRequired, "", "NAME", "", "accepted; hosts belong to no partition"},
    {"all", 'a', kNone, "", "", "", "accepted; nothing is hidden"},
    {"hide", 0, kNone, "", "", "", "accepted; nothing is hidden"},
    {"sort", 'S', kRequired, "", "FIELDS", "", "accepted; without effect"},
    {"clusters", 'M', kRequired, "", "NAME", "", "accepted; this cluster is shown"},
    {"verbose", 'v', kNone, "", "", "", "accepted"},
    {"help", 0, kNone, "", "", "show this", ""},
    {"version", 'V', kNone, "", "", "show the version", ""},
};

struct HostGroup {
  std::vector<NodeInfo> nodes;
  std::string state;  // Slurm's short word
};

std::string host_state(const NodeInfo& n) {
  if (n.state == "down" || n.state == "unreachable") return "down*";
  const bool busy = n.jobs > 0 || n.cpus_used > MilliCpus(0);
  if (n.state == "draining" || n.state == "cordoned") return busy ? "drng" : "drain";
  if (n.state == "mixed") return "mix";
  if (n.state == "allocated") return "alloc";
  return n.state;
}
std::string long_state(const std::string& state) {
  for (const auto& [letters, word] :
       {std::pair<std::string, std::string>{"alloc", "allocated"}, {"mix", "mixed"}, {"drng", "draining"}, {"drain", "drained"}})
    if (state == letters) return word;
  return state;
}

std::int64_t cores(MilliCpus cpus) { return cpus.value / 1000; }
std::string range(const HostGroup& g, const std::function<std::int64_t(const NodeInfo&)>& of) {
  std::int64_t low = of(g.nodes.front()), high = low;
  for (const NodeInfo& n : g.nodes) low = std::min(low, of(n)), high = std::max(high, of(n));
  return low == high ? std::to_string(low) : std::to_string(low) + "+";
}
std::string host_list(const HostGroup& g) {
  std::vector<std::string> names;
  for (const NodeInfo& n : g.nodes) names.push_back(n.name);
  return compress_hosts(names);
}
std::string usage_text(const HostGroup& g, const std::function<std::int64_t(const NodeInfo&)>& used,
                       const std::function<std::int64_t(const NodeInfo&)>& all) {
  std::int64_t a = 0, i = 0, o = 0, t = 0;
  for (const NodeInfo& n : g.nodes) {
    const std::string state = host_state(n);
    const bool open = state == "idle" || state == "mix" || state == "alloc";
    a += used(n), t += all(n);
    (open ? i : o) += all(n) - used(n);
  }
  return fmt::format("{}/{}/{}/{}", a, i, o, t);
}

const std::vector<SlurmField<HostGroup>>& sinfo_fields() {
  const auto cpus = [](const NodeInfo& n) { return cores(n.cpus); };
  const auto mem = [](const NodeInfo& n) { return n.mem.value / kMiB.value; };
  const auto count = [](const NodeInfo&) -> std::int64_t { return 1; };
  const auto busy = [](const NodeInfo& n) -> std::int64_t { return n.jobs > 0 ? 1 : 0; };
  static const std::vector<SlurmField<HostGroup>> fields = {
      {'P', "", "PARTITION", 0, [](const HostGroup&) { return "all*"; }},
      {'R', "", "PARTITION", 0, [](const HostGroup&) { return "all"; }},
      {'a', "", "AVAIL", 0, [](const HostGroup&) { return "up"; }},
      {'l', "", "TIMELIMIT", 0, [](const HostGroup&) { return "infinite"; }},
      {'L', "", "DEFAULTTIME", 0, [](const HostGroup&) { return "n/a"; }},
      {'D', "", "NODES", 0, [](const HostGroup& g) { return std::to_string(g.nodes.size()); }},
      {'t', "", "STATE", 0, [](const HostGroup& g) { return g.state; }},
      {'T', "", "STATE", 0, [](const HostGroup& g) { return long_state(g.state); }},
      {'N', "", "NODELIST", 0, host_list},
      {'n', "", "HOSTNAMES", 0, host_list},
      {'o', "", "NODE_ADDR", 0, host_list},
      {'c', "", "CPUS", 0, [cpus](const HostGroup& g) { return range(g, cpus); }},
      {'m', "", "MEMORY", 0, [mem](const HostGroup& g) { return range(g, mem); }},
      {'e', "", "FREE_MEM", 0,
       [](const HostGroup& g) {
         return range(g, [](const NodeInfo& n) { return (n.mem.value - n.mem_used.value) / kMiB.value; });
       }},
      {'f', "", "AVAIL_FEATURES", 0,
       [](const HostGroup& g) { return g.nodes.front().labels.empty() ? "(null)" : g.nodes.front().labels; }},
      {'b', "", "ACTIVE_FEATURES", 0,
       [](const HostGroup& g) { return g.nodes.front().labels.empty() ? "(null)" : g.nodes.front().labels; }},
      {'G', "", "GRES", 0, [](const HostGroup& g) { return g.nodes.front().devices.empty() ? "(null)" : g.nodes.front().devices; }},
      {'C', "", "CPUS(A/I/O/T)", 0,
       [cpus](const HostGroup& g) {
         return usage_text(
             g, [](const NodeInfo& n) { return cores(n.cpus_used); }, cpus);
       }},
      {'F', "", "NODES(A/I/O/T)", 0, [busy, count](const HostGroup& g) { return usage_text(g, busy, count); }},
      {'A', "", "NODES(A/I)", 0,
       [](const HostGroup& g) {
         std::size_t a = 0, i = 0;
         for (const NodeInfo& n : g.nodes) ++(n.jobs > 0 ? a : i);
         return fmt::format("{}/{}", a, i);
       }},
      {'w', "", "WEIGHT", 0, [](const HostGroup&) { return "1"; }},
      {'d', "", "TMP_DISK", 0, [](const HostGroup&) { return "0"; }},
      {'O', "", "CPU_LOAD", 0, [](const HostGroup&) { return "N/A"; }},
      {'z', "", "S:C:T", 0, [cpus](const HostGroup& g) { return "1:" + range(g, cpus) + ":1"; }},
      {'E', "", "REASON", 0,
       [](const HostGroup& g) {
         return g.state == "idle" || g.state == "mix" || g.state == "alloc" ? "none" : long_state(g.state);
       }},
      {'H', "", "TIMESTAMP", 0, [](const HostGroup&) { return "Unknown"; }},
      {'u', "", "USER", 0, [](const HostGroup&) { return "Unknown"; }},
      {'s', "", "JOB_SIZE", 0, [](const HostGroup&) { return "1-infinite"; }},
      {'p', "", "PRIO_TIER", 0, [](const HostGroup&) { return "1"; }},
      {'g', "", "GROUPS", 0, [](const HostGroup&) { return "all"; }},
      {'h', "", "OVERSUBS", 0, [](const HostGroup&) { return "NO"; }},
      {'r', "", "ROOT", 0, [](const HostGroup&) { return "no"; }},
  };
  return fields;
}

bool state_wanted(const std::string& wanted, const std::string& state) {
  const std::string word = long_state(state);
  std::string lower = wanted;
  std::ranges::transform(lower, lower.begin(), [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  return state.starts_with(lower) || word.starts_with(lower) || (lower == "drain" && state == "drng") || lower == "all";
}

int sinfo_once(const Given& given, BatchClient& client, const std::vector<SlurmColumn>& columns) {
  std::vector<NodeInfo> nodes;
  batch::NodesRequest request;
  while (true) {
    auto reply = call<batch::NodesReply>(client, request);
    if (!reply) return fail("sinfo", reply.error());
    for (NodeInfo& row : reply->nodes) nodes.push_back(std::move(row));
    if (!reply->more || nodes.empty()) break;
    request.after = nodes.back().name;
  }
  std::ranges::stable_sort(nodes, [](const NodeInfo& a, const NodeInfo& b) { return host_before(a.name, b.name); });
  const auto drop = [&](auto keep) { std::erase_if(nodes, [&](const NodeInfo& n) { return !keep(n); }); };
  if (given.contains("nodes")) {
    auto wanted = expand_hosts(text(given, "nodes"));
    if (!wanted) return fail("sinfo", wanted.error());
    drop([&](const NodeInfo& n) { return std::ranges::find(*wanted, n.name) != wanted->end(); });
  }
  if (given.contains("states")) {
    const auto words = split_list({text(given, "states")});
    drop([&](const NodeInfo& n) {
      return std::ranges::any_of(words, [&](const std::string& w) { return state_wanted(w, host_state(n)); });
    });
  }
  if (given.contains("responding")) drop([](const NodeInfo& n) { return host_state(n) != "down*"; });
  if (given.contains("dead")) drop([](const NodeInfo& n) { return host_state(n) == "down*"; });
  if (given.contains("list-reasons"))
    drop([](const NodeInfo& n) {
      const std::string s = host_state(n);
      return s != "idle" && s != "mix" && s != "alloc";
    });
  // One line for those of a state, or for each.
  std::vector<HostGroup> groups;
  for (NodeInfo& node : nodes) {
    const std::string state = host_state(node);
    auto it = given.contains("Node") ? groups.end() : std::ranges::find_if(groups, [&](const HostGroup& g) {
      return (given.contains("summarize") || g.state == state) &&
             (!given.contains("exact") || (g.nodes.front().cpus == node.cpus && g.nodes.front().mem == node.mem));
    });
    if (it == groups.end()) it = groups.insert(groups.end(), HostGroup{{}, state});
    it->nodes.push_back(std::move(node));
  }
  if (given.contains("long")) fmt::print("{}\n", date());
  print_slurm<HostGroup>(sinfo_fields(), columns, groups, !given.contains("noheader"), {}, put_trimmed);
  return 0;
}

}  // namespace

int squeue_main(int argc, char** argv) {
  Given given;
  if (const int status = read("squeue", kSqueue, argc, argv, given); status >= 0) return status;
  const char* standard = given.contains("start")  ? "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
                         : given.contains("long") ? "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
                                                  : "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
  const char* wish = std::getenv("SQUEUE_FORMAT");
  const SlurmNames names = names_of(squeue_fields());
  auto columns = given.contains("Format")
                     ? named_columns(text(given, "Format"), names, 20)
                     : percent_columns(given.contains("format") ? text(given, "format")
                                       : wish != nullptr && !given.contains("long") && !given.contains("start") ? wish
                                                                                                                : standard,
                                       names);
  if (!columns) return fail("squeue", columns.error());
  auto filter = slurm_filter(given);
  if (!filter) return fail("squeue", filter.error());
  auto client = BatchClient::open("");
  if (!client) return fail("squeue", client.error());
  return iterate(given, [&] { return squeue_once(given, **client, *filter, *columns); });
}

int sacct_main(int argc, char** argv) {
  Given given;
  if (const int status = read("sacct", kSacct, argc, argv, given); status >= 0) return status;
  const auto& fields = sacct_fields();
  if (given.contains("helpformat")) {
    for (std::size_t i = 0; i < fields.size(); ++i)
      fmt::print("{:<20}{}", fields[i].name, i % 4 == 3 || i + 1 == fields.size() ? "\n" : "");
    return 0;
  }
  const char* standard = given.contains("brief")  ? "JobID,State,ExitCode"
                         : given.contains("long") ? "JobID,JobIDRaw,JobName,User,Partition,Account,AllocCPUS,Elapsed,State,"
                                                    "ExitCode,MaxRSS,TotalCPU,Submit,Start,End,NodeList"
                                                  : "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode";
  const char* wish = std::getenv("SACCT_FORMAT");
  auto columns = sacct_columns(given.contains("format")                      ? text(given, "format")
                               : wish != nullptr && !given.contains("brief") ? wish
                                                                             : standard,
                               names_of(fields));
  if (!columns) return fail("sacct", columns.error());
  if (given.contains("accounts")) given["account"] = text(given, "accounts");
  if (given.contains("state")) given["states"] = text(given, "state");
  auto filter = slurm_filter(given);
  if (!filter) return fail("sacct", filter.error());
  std::erase(filter->filter.partitions, "all");
  if (!given.contains("user") && !given.contains("allusers") && getuid() != 0 && filter->filter.jobs.empty()) {
    const char* me = std::getenv("USER");
    filter->filter.users = {me != nullptr ? me : std::to_string(getuid())};
  }
  const Duration now = real_time().wall;
  // With ids, or states, Slurm looks at all there is unless a time is given.
  const std::string from = given.contains("starttime") ? text(given, "starttime") : filter->filter.jobs.empty() ? "midnight" : "";
  if (!from.empty()) {
    auto moment = slurm_moment(from, now);
    if (!moment) return fail("sacct", moment.error());
    filter->filter.from = *moment;
  }
  if (given.contains("endtime")) {
    auto moment = slurm_moment(text(given, "endtime"), now);
    if (!moment) return fail("sacct", moment.error());
    filter->filter.to = *moment;
  }
  auto client = BatchClient::open("");
  if (!client) return fail("sacct", client.error());
  batch::HistoryRequest past;
  past.filter = filter->filter;
  past.full = true;
  auto rows = ask_history(**client, std::move(past), kHistoryMost);
  if (!rows) return fail("sacct", rows.error());
  batch::QueueRequest present;
  present.filter = filter->filter;
  present.full = true;
  auto live = ask_queue(**client, std::move(present));
  if (!live) return fail("sacct", live.error());
  rows->insert(rows->end(), live->begin(), live->end());
  std::ranges::stable_sort(*rows, [](const JobInfo& a, const JobInfo& b) { return a.id < b.id; });
  // A job may end between the two questions.
  const auto same =
      std::ranges::unique(*rows, [](const JobInfo& a, const JobInfo& b) { return a.id == b.id && a.indexes == b.indexes; });
  rows->erase(same.begin(), same.end());
  SlurmStyle style;
  style.mark_cut = true;
  if (given.contains("parsable") || given.contains("parsable2"))
    style.delimiter = given.contains("delimiter") ? text(given, "delimiter") : "|", style.last_too = !given.contains("parsable2");
  const bool header = !given.contains("noheader");
  print_slurm<JobInfo>(fields, *columns, header ? std::vector<JobInfo>{} : *rows, header, style, put);
  if (!header) return 0;
  if (style.delimiter.empty()) {
    std::vector<std::string> rules;
    for (const SlurmColumn& c : *columns) rules.emplace_back(c.width, '-');
    put(slurm_line(*columns, rules, style));
  }
  print_slurm<JobInfo>(fields, *columns, *rows, false, style, put);
  return 0;
}

int sinfo_main(int argc, char** argv) {
  Given given;
  if (const int status = read("sinfo", kSinfo, argc, argv, given); status >= 0) return status;
  const char* standard =
      given.contains("list-reasons") ? "%20E %9u %19H %N"
      : given.contains("summarize")  ? "%#P %.5a %.10l %.16F %N"
      : given.contains("Node")
          ? (given.contains("long") ? "%#N %.6D %#P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E" : "%#N %.6D %#P %6t")
      : given.contains("long") ? "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
                               : "%#P %.5a %.10l %.6D %.6t %N";
  const char* wish = std::getenv("SINFO_FORMAT");
  auto columns = percent_columns(given.contains("format") ? text(given, "format")
                                 : wish != nullptr        ? wish
                                                          : standard,
                                 names_of(sinfo_fields()));
  if (!columns) return fail("sinfo", columns.error());
  auto client = BatchClient::open("");
  if (!client) return fail("sinfo", client.error());
  return iterate(given, [&] { return sinfo_once(given, **client, *columns); });
}

}  // namespace bourse::cli
