// bourse why: what keeps a job, or a line of a framework's demand, from getting what it wants. For a tired person: what is wrong first,
// then every host by reason, with what the reason means.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "common/world/command_line.h"
#include "frameworks/cli/batch_client.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/complain.h"
#include "frameworks/cli/job_text.h"
#include "frameworks/cli/master_client.h"
#include "frameworks/cli/table.h"

namespace bourse::cli {
namespace {

constexpr int kFailed = 1, kUsage = 2, kUnreachable = 3;

int failed(const Error& error) {
  const bool unreachable = error.code() == Code::kTimeout || error.code() == Code::kIo;
  return complain("bourse why", error, unreachable ? kUnreachable : error.code() == Code::kInvalid ? kUsage : kFailed);
}

// What the master's words for a class of agents mean. Those that name somebody are matched by their beginning.
constexpr std::array<std::pair<std::string_view, std::string_view>, 22> kMeanings = {{
    {"busy host", "whole hosts are asked for, and something runs there"},
    {"cordoned", "an operator lets nothing new start there; see `bourse agents`"},
    {"cpus", "have too few cores, even if they were empty"},
    {"declined recently", "were offered, and the framework did not want them"},
    {"devices", "have not the devices that are asked for, even if they were empty"},
    {"disk", "have too little disk, even if they were empty"},
    {"draining", "are being emptied by an operator; see `bourse agents`"},
    {"free", "have room, and will be offered in its turn"},
    {"in use", "could do it, but what runs there leaves too little free"},
    {"labels", "do not meet a constraint"},
    {"mem", "have too little memory, even if they were empty"},
    {"offered to you", "are on offer to it just now"},
    {"offered to ", "are on offer to another framework just now"},
    {"one NUMA node", "have no NUMA node that large"},
    {"other kinds", "have too little of a kind that the site declared"},
    {"placement", "have room, but a placement rule keeps them out for now"},
    {"ports", "have too few ports"},
    {"kept for ", "are kept for a framework that has waited for longer"},
    {"reserved for ", "are reserved by an operator; see `bourse reserve`"},
    {"closes before it would end", "are about to be closed, before the work could end"},
    {"role limit", "have room, but its role has all that it may have"},
    {"unreachable", "do not answer the master"},
}};

std::string_view meaning(std::string_view reason) {
  if (reason == "yours already") return "are full of what it runs itself";
  for (const auto& [name, text] : kMeanings)
    if (reason == name || (name.back() == ' ' && reason.starts_with(name))) return text;
  return "";
}

struct Count {
  std::string reason;
  std::uint64_t agents = 0;
};

// Most first: that is what there is to do something about.
void print_counts(std::vector<Count> counts, std::uint64_t agents) {
  if (counts.empty()) return;
  std::stable_sort(counts.begin(), counts.end(), [](const Count& a, const Count& b) { return a.agents > b.agents; });
  std::size_t width = 0;
  for (const Count& count : counts) width = std::max(width, count.reason.size());
  fmt::print("\nOf {} host{}:\n", agents, agents == 1 ? "" : "s");
  for (const Count& count : counts) {
    const std::string_view text = meaning(count.reason);
    fmt::print("{:>8}  {:<{}}{}{}\n", count.agents, count.reason, text.empty() ? 0 : width, text.empty() ? "" : "  ", text);
  }
}

std::string json_counts(const std::vector<Count>& counts) {
  std::string out;
  for (const Count& count : counts) out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", json_quote(count.reason), count.agents);
  return "{" + out + "}";
}

std::vector<Count> counts_of(const std::vector<ExplainReply::Count>& list) {
  std::vector<Count> out;
  for (const auto& count : list) out.push_back({count.reason, count.agents});
  return out;
}

// --- a job -----------------------------------------------------------------------------------------------------------

int why_job(const std::string& id, const std::string& directory, bool json) {
  auto selector = batch::parse_selector(id);
  if (!selector) return failed(selector.error());
  auto client = BatchClient::open(directory);
  if (!client) return failed(client.error());
  auto reply = call<batch::WhyReply>(**client, batch::WhyRequest{*selector});
  if (!reply) return failed(reply.error());
  if (reply->code != Code::kOk) return failed(Error(reply->code, reply->reason));
  std::vector<Count> counts;
  for (const auto& [reason, agents] : reply->counts) counts.push_back({reason, agents});
  if (json) {
    std::string lines;
    for (const std::string& line : reply->lines) lines += (lines.empty() ? "" : ", ") + json_quote(line);
    fmt::print("{}\n", json_object({{"job", json_quote(batch::display_id(reply->job))},
                                    {"state", json_quote(batch::state_name(reply->job.state))},
                                    {"reason", json_quote(batch::reason_name(reply->job.reason))},
                                    {"position", std::to_string(reply->position)},
                                    {"agents", std::to_string(reply->agents)},
                                    {"counts", json_counts(counts)},
                                    {"lines", "[" + lines + "]"}}));
    return 0;
  }
  for (const std::string& line : reply->lines) fmt::print("{}\n", line);
  print_counts(std::move(counts), reply->agents);
  return 0;
}

// --- a framework's demand -----------------------------------------------------------------------------------------------

std::string json_line(std::uint64_t line, const ExplainReply& r) {
  return json_object({{"line", std::to_string(line)},
                      {"asks", json_quote(r.asks)},
                      {"wanted", std::to_string(r.wanted)},
                      {"offered", std::to_string(r.offered)},
                      {"unmet", std::to_string(r.unmet)},
                      {"rank", json_quote(r.rank)},
                      {"limits", json_quote(r.quota)},
                      {"nearest", json_quote(r.nearest)},
                      {"estimate", json_quote(r.estimate)},
                      {"last_offer", json_quote(r.last_offer)},
                      {"last_decline", json_quote(r.last_decline)},
                      {"agents", std::to_string(r.agents)},
                      {"counts", json_counts(counts_of(r.counts))},
                      {"failing", json_counts(counts_of(r.failing))}});
}

void print_line(const std::string& framework, std::uint64_t line, const ExplainReply& r) {
  if (line == 0)
    fmt::print("{} asks for everything that its role may have\n", framework);
  else
    fmt::print("{}, line {}: {} wanted, {} on offer, {} to go\n", framework, line, r.wanted, r.offered, r.unmet);
  const auto say = [](std::string_view name, const std::string& text) {
    if (!text.empty()) fmt::print("  {:<13}{}\n", name, text);
  };
  say("each needs", line == 0 ? "" : r.asks);
  say("rank", r.rank);
  say("limits", r.quota);
  say("nearest", r.nearest);
  for (const auto& part : r.failing) say("fails", fmt::format("{} on {} of {} hosts", part.reason, part.agents, r.agents));
  say("when", r.estimate);
  say("last offer", r.last_offer);
  say("last decline", r.last_decline);
  print_counts(counts_of(r.counts), r.agents);
}

int why_framework(const std::string& framework, const std::string& line_text, bool json) {
  std::vector<std::uint64_t> lines;
  if (!line_text.empty()) {
    std::uint64_t line = 0;
    const auto [end, failure] = std::from_chars(line_text.data(), line_text.data() + line_text.size(), line);
    if (failure != std::errc{} || end != line_text.data() + line_text.size())
      return failed(Error(Code::kInvalid, "`" + line_text + "' is not the number of a line of a demand"));
    lines.push_back(line);
  }
  auto client = MasterClient::open();
  if (!client) return failed(client.error());
  if (lines.empty()) {
    const auto known = (*client)->status("frameworks");
    if (!known) return failed(known.error());
    if (std::none_of(known->begin(), known->end(), [&](const auto& row) { return row.name == framework; }))
      return failed(Error(Code::kNotFound, "there is no framework " + framework + "; `bourse frameworks` lists them"));
    const auto rows = (*client)->status("demand", framework);
    if (!rows) return failed(rows.error());
    for (const StatusReply::Row& row : *rows) {
      if (field(row, "framework") != framework) continue;
      const std::string text = field(row, "line");
      std::uint64_t line = 0;
      std::from_chars(text.data(), text.data() + text.size(), line);
      lines.push_back(line);
    }
  }
  std::string all;
  bool first = true;
  for (const std::uint64_t line : lines) {
    const auto reply = (*client)->explain(FrameworkId(framework), line);
    if (!reply) return failed(reply.error());
    if (reply->code != Code::kOk) {
      if (line_text.empty()) continue;  // met or withdrawn since the list was made
      return failed(Error(reply->code, "framework " + framework + " has no demand line " + std::to_string(line) +
                                           "; `bourse why --framework " + framework + "` shows those that are not met"));
    }
    if (json) {
      all += (all.empty() ? "" : ",\n  ") + json_line(line, *reply);
    } else {
      if (!std::exchange(first, false)) fmt::print("\n");
      print_line(framework, line, *reply);
    }
  }
  if (json)
    fmt::print("{{\"framework\": {}, \"lines\": [{}]}}\n", json_quote(framework), all);
  else if (first)
    fmt::print("{} has all that it asks for\n", framework);
  return 0;
}

}  // namespace

int why_main(int argc, char** argv) {
  CommandLine app("Why a job does not start, or how it ended; or why a framework's demand is not met", "bourse why");
  std::string id, directory, framework;
  bool json = false;
  app.option("--dir", directory, "Directory of the cluster; default $BOURSE_DIR");
  app.option("--framework", framework, "About this framework's demand: line JOB of it, or all that are not met");
  app.flag("--json", json, "Print JSON");
  app.option("JOB", id, "12 or 13_4");
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  if (!framework.empty()) {
    if (!directory.empty()) setenv("BOURSE_DIR", directory.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    return why_framework(framework, id, json);
  }
  if (id.empty()) return failed(Error(Code::kInvalid, "which job? `bourse why 12`, or `bourse why --framework NAME`"));
  return why_job(id, directory, json);
}

}  // namespace bourse::cli
