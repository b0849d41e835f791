// bourse cordon, uncordon, drain, undrain, label, remove, role, limit, reserve, maintenance: what operators do to a live cluster.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/core/hostlist.h"
#include "common/world/command_line.h"
#include "common/world/reactor.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/complain.h"
#include "frameworks/cli/master_client.h"
#include "frameworks/cli/status.h"
#include "frameworks/cli/submit_options.h"

namespace bourse::cli {
namespace {

using Parameters = std::vector<std::pair<std::string, std::string>>;

struct Order {
  std::string action, reason;
  Parameters parameters;
  std::string done;  // "h1 is cordoned": what is said of each target; {} is its name
};

int failed(const std::string& program, const Error& error) {
  const bool unreachable = error.code() == Code::kTimeout || error.code() == Code::kIo;
  return complain(program, error, unreachable ? 3 : 1);
}

// "a\nb" as lines of their own, below what they belong to.
std::string indented(const std::string& text) {
  std::string out = "  ";
  for (const char c : text) out += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return out;
}

// One action for each target; one that is refused does not keep the others from being done.
int act(const std::string& program, const std::vector<std::string>& targets, const Order& order) {
  auto client = MasterClient::open();
  if (!client) {  // kInvalid: the configuration is wrong, as when it is what is to be read again
    const Code code = client.error().code();
    return complain(program, client.error(), code == Code::kDenied || code == Code::kInvalid ? 1 : 3);
  }
  int status = 0;
  for (const std::string& target : targets) {
    if (auto done = (*client)->act(order.action, target, order.reason, order.parameters); !done) {
      status = std::max(status, failed(program, done.error()));
    } else {
      fmt::print("{}\n", fmt::format(fmt::runtime(order.done), target));
      if (!done->empty()) fmt::print("{}\n", indented(*done));
    }
  }
  return status;
}

// "NAME=VALUE" or "NAME-".
Result<std::pair<std::string, std::string>> setting(const std::string& word, bool may_take_away) {
  const auto equals = word.find('=');
  if (equals != std::string::npos && equals > 0) return std::pair(word.substr(0, equals), word.substr(equals + 1));
  if (may_take_away && word.size() > 1 && word.back() == '-') return std::pair(word, std::string());
  return Error(Code::kInvalid, "'" + word + "' is not NAME=VALUE" + (may_take_away ? " or NAME-" : ""));
}

struct OnHosts {
  std::vector<std::string> lists;
  std::string reason;

  void add(CommandLine& app, bool with_reason = true, const char* optional = nullptr) {
    if (optional == nullptr)
      app.option("HOSTS", lists, "Agents: h1 h[2-4,7]").required();
    else
      app.option("HOSTS", lists, optional);
    if (with_reason) app.option("--reason", reason, "Why, for whoever looks next");
    app.directory();
  }
  [[nodiscard]] Result<std::vector<std::string>> hosts() const {
    std::vector<std::string> all;
    for (const std::string& list : lists)
      for (std::string& host : BOURSE_TRY(expand_hosts(list))) all.push_back(std::move(host));
    return all;
  }
};

int on_hosts(const std::string& action, const std::string& about, const std::string& done, int argc, char** argv) {
  const std::string program = "bourse " + action;
  OnHosts which;
  CommandLine app(about, program);
  which.add(app);
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  const auto hosts = which.hosts();
  if (!hosts) return complain(program, hosts.error(), 2);
  return act(program, *hosts, {action, which.reason, {}, done});
}

}  // namespace

int cordon_main(int argc, char** argv) {
  return on_hosts("cordon", "Keeps new work from agents; what runs there goes on.", "{} is cordoned", argc, argv);
}
int uncordon_main(int argc, char** argv) {
  return on_hosts("uncordon", "Lets new work come to cordoned agents.", "{} is open", argc, argv);
}
int reprobe_main(int argc, char** argv) {
  const std::string program = "bourse reprobe";
  OnHosts which;
  CommandLine app("Has agents look at their hardware again.", program);
  which.add(app, false, "Agents: h1 h[2-4,7]; without, all that are connected");
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  const auto hosts = which.hosts();
  if (!hosts) return complain(program, hosts.error(), 2);
  if (hosts->empty()) return act(program, {""}, {"reprobe", "", {}, "all agents are asked"});
  return act(program, *hosts, {"reprobe", "", {}, "{} is asked"});
}
int reload_main(int argc, char** argv) {
  const std::string program = "bourse reload";
  OnHosts which;
  CommandLine app("Has the master, or agents, read their configuration again, and tells what changed.", program);
  which.add(app, false, "Agents: h1 h[2-4,7]; without, the master");
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  const auto hosts = which.hosts();
  if (!hosts) return complain(program, hosts.error(), 2);
  if (hosts->empty()) return act(program, {""}, {"reload", "", {}, "the master has read its configuration"});
  return act(program, *hosts, {"reload", "", {}, "{} has read its configuration"});
}
int undrain_main(int argc, char** argv) {
  return on_hosts("undrain", "Ends the draining of agents: new work may come.", "{} is no longer drained", argc, argv);
}

int drain_main(int argc, char** argv) {
  const std::string program = "bourse drain";
  OnHosts which;
  std::string deadline;
  CommandLine app("Empties agents: no new work comes, and at the deadline what is left is taken back.", program);
  which.add(app);
  app.option("--deadline", deadline, "How long what runs there may stay: 30m, 2h, 1-12; without it, until it ends by itself");
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  const auto hosts = which.hosts();
  if (!hosts) return complain(program, hosts.error(), 2);
  Order order{"drain", which.reason, {}, "{} is draining"};
  if (!deadline.empty()) order.parameters.emplace_back("deadline", deadline);
  return act(program, *hosts, order);
}

int label_main(int argc, char** argv) {
  const std::string program = "bourse label";
  std::string list;
  std::vector<std::string> words;
  CommandLine app("Sets labels on agents, over those that they give themselves.", program);
  app.option("HOSTS", list, "Agents: h[1-4,7]").required();
  app.option("LABELS", words, "NAME=VALUE sets a label, NAME- takes it away again").required();
  app.directory();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  Order order{"label", "", {}, "{} is labelled"};
  for (const std::string& word : words) {
    auto label = setting(word, true);
    if (!label) return complain(program, label.error(), 2);
    order.parameters.push_back(*std::move(label));
  }
  const auto hosts = expand_hosts(list);
  if (!hosts) return complain(program, hosts.error(), 2);
  return act(program, *hosts, order);
}

int remove_main(int argc, char** argv) {
  const std::string program = "bourse remove";
  std::string kind, name, reason;
  CommandLine app("Forgets an agent (its tasks are lost), a framework (its slices are released), or a role's settings.", program);
  app.option("KIND", kind, "agent, framework or role").required().one_of({"agent", "framework", "role"});
  app.option("NAME", name, "Which").required();
  app.option("--reason", reason, "Why, for whoever looks next");
  app.directory();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  return act(program, {name},
             {"remove-" + kind, reason, {}, kind == "role" ? "role {} has no settings of its own" : "{} is removed"});
}

int role_main(int argc, char** argv) {
  const std::string program = "bourse role";
  std::string role, weight, priority, reason;
  std::vector<std::string> guarantees;
  CommandLine app("Sets what a role is due against others: its weight, its priority, and what it is guaranteed.", program);
  app.option("ROLE", role, "Account: physics, or physics/lattice in a tree").required();
  app.option("--weight", weight, "Its share of what is contended for: a whole number from 1");
  app.option(
      "--priority", priority,
      "Whose demand that fits nowhere has slices of roles of a lower one taken back: a whole number, or none: that of the role "
      "above it, 0 at the top");
  app.option("--guarantee", guarantees, "KIND=AMOUNT that it may take back from others: cpus=64, or KIND=none").one_each();
  app.option("--reason", reason, "Why, for the log");
  app.directory();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  Order order{"set-role", reason, {}, ""};
  std::string done;
  if (!weight.empty()) order.parameters.emplace_back("weight", weight), done += " has weight " + weight;
  if (!priority.empty()) {
    order.parameters.emplace_back("priority", priority);
    done += (done.empty() ? " has priority " : ", priority ") + priority;
  }
  for (const std::string& word : guarantees) {
    auto guarantee = setting(word, false);
    if (!guarantee) return complain(program, guarantee.error(), 2);
    done += (done.empty() ? " is guaranteed " : ", is guaranteed ") + word;
    order.parameters.emplace_back("guarantee." + guarantee->first, guarantee->second);
  }
  if (order.parameters.empty())
    return complain(program, Error(Code::kInvalid, "nothing to set: --weight, --priority or --guarantee"), 2);
  order.done = "role {}" + done;
  return act(program, {role}, order);
}

int limit_main(int argc, char** argv) {
  const std::string program = "bourse limit";
  std::string role, reason;
  std::vector<std::string> words;
  CommandLine app("Sets hard limits of a role: what its frameworks, and those of roles below it, have together at most.", program);
  app.option("ROLE", role, "Account: physics, or physics/lattice in a tree").required();
  app.option("LIMITS", words, "KIND=AMOUNT: cpus=64, mem=1TiB, gpu=8, npu.compute=500, or KIND=none").required();
  app.option("--reason", reason, "Why, for the log");
  app.directory();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  Order order{"set-role", reason, {}, "role {} has its limits"};
  for (const std::string& word : words) {
    auto limit = setting(word, false);
    if (!limit) return complain(program, limit.error(), 2);
    order.parameters.emplace_back("limit." + limit->first, limit->second);
  }
  return act(program, {role}, order);
}

namespace {

// What reserve and maintenance have in common: one word says what is to be done.
struct Lease {
  std::string action, name, role, hosts, nodes, start, duration, by, until, reason, format;
  std::vector<std::string> amounts;
  bool forever = false, named = false, json = false;
};

int wrong(const std::string& program, const std::string& what) { return complain(program, Error(Code::kInvalid, what), 2); }

// Seconds since 1970, of what a person writes.
Result<std::string> moment_of(const std::string& option, const std::string& text) {
  const auto at = parse_begin(text, real_time().wall);
  if (!at) return Error(Code::kInvalid, option + ": `" + text + "' is no time; write now+1hour, 16:00 or 2026-12-01T08:00");
  return std::to_string(std::chrono::duration_cast<seconds>(*at).count());
}

int make_lease(const std::string& program, const Lease& lease, bool maintenance) {
  Order order{"reserve", lease.reason, {}, maintenance ? "maintenance {} is planned" : "{} is reserved"};
  if (lease.hosts.empty() == lease.nodes.empty())
    return wrong(program, maintenance ? "say which agents: --hosts h[1-4]"
                                      : "say which agents, --hosts h[1-4], or how many, --nodes 4: one of them");
  if (!maintenance && lease.role.empty()) return wrong(program, "say for which role: --role physics");
  if (maintenance)
    order.parameters.emplace_back("maintenance", "yes");
  else
    order.parameters.emplace_back("role", lease.role);
  if (lease.named) order.parameters.emplace_back("named", "yes");
  if (!lease.hosts.empty()) order.parameters.emplace_back("agents", lease.hosts);
  if (!lease.nodes.empty()) order.parameters.emplace_back("nodes", lease.nodes);
  for (const std::string& word : lease.amounts) {
    auto amount = setting(word, false);
    if (!amount) return complain(program, amount.error(), 2);
    order.parameters.emplace_back("amount." + amount->first, amount->second);
  }
  if (!lease.start.empty()) {
    const auto at = moment_of("--start", lease.start);
    if (!at) return complain(program, at.error(), 2);
    order.parameters.emplace_back("start", *at);
  }
  if (!lease.duration.empty()) order.parameters.emplace_back("duration", lease.duration);
  return act(program, {lease.name}, order);
}

int extend_lease(const std::string& program, const Lease& lease) {
  Order order{"extend-reservation", lease.reason, {}, "{} is extended"};
  if ((lease.by.empty() ? 0 : 1) + (lease.until.empty() ? 0 : 1) + (lease.forever ? 1 : 0) != 1)
    return wrong(program, "say how long: --by 2h, --until 18:00 or --forever, one of them");
  if (!lease.by.empty()) order.parameters.emplace_back("by", lease.by);
  if (lease.forever) order.parameters.emplace_back("forever", "yes");
  if (!lease.until.empty()) {
    const auto at = moment_of("--until", lease.until);
    if (!at) return complain(program, at.error(), 2);
    order.parameters.emplace_back("end", *at);
  }
  return act(program, {lease.name}, order);
}

int leases(const std::string& program, const std::string& about, bool maintenance, int argc, char** argv) {
  const std::string end = maintenance ? "cancel" : "release";
  Lease lease;
  CommandLine app(about, program);
  app.option("ACTION", lease.action, "create, list, extend or " + end).required().one_of({"create", "list", "extend", end});
  app.option("NAME", lease.name, "Which; with list, none: all");
  if (!maintenance) app.option("--role", lease.role, "create: who may use it, with the roles below it");
  app.option("--hosts", lease.hosts, "create: on these agents: h[1-4,7]");
  if (!maintenance) {
    app.option("--nodes", lease.nodes, "create: on so many agents, those with the least on them");
    app.option("--amount", lease.amounts, "create: KIND=AMOUNT of each: cpus=8, mem=32GiB, gpu=2; without it, all of it")
        .one_each();
    app.flag("--named", lease.named, "create: only for work that names it, as jobs do with submit --reservation=NAME");
  }
  app.option("--start", lease.start, "create: when it begins: now+1hour, 16:00, 2026-12-01T08:00; without it, now");
  app.option("--duration", lease.duration, "create: how long it lasts: 90m, 2h, 1-12; without it, until it is ended");
  app.option("--by", lease.by, "extend: so much longer");
  app.option("--until", lease.until, "extend: to that time");
  app.flag("--forever", lease.forever, "extend: until it is ended");
  app.option("--reason", lease.reason, "Why, for whoever looks next");
  app.flag("--json", lease.json, "list: as JSON, with every field");
  app.option("--format", lease.format, "list: fields, separated by commas");
  app.directory();
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  if (lease.action == "list") return show_reservations(program, maintenance, lease.name, lease.json, lease.format);
  if (lease.name.empty()) return wrong(program, lease.action + " needs a name");
  if (lease.action == "create") return make_lease(program, lease, maintenance);
  if (lease.action == "extend") return extend_lease(program, lease);
  return act(program, {lease.name},
             {"release-reservation", lease.reason, {}, maintenance ? "maintenance {} is cancelled" : "{} is released"});
}

}  // namespace

int reserve_main(int argc, char** argv) {
  return leases("bourse reserve", "Keeps agents, or a part of each, for a role, for a time.", false, argc, argv);
}

int maintenance_main(int argc, char** argv) {
  return leases("bourse maintenance",
                "Plans when agents are closed: nothing that would run into it starts there, and what is left then is taken back.",
                true, argc, argv);
}

}  // namespace bourse::cli
