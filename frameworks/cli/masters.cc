// bourse master add, remove, list: who replicates the registry.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/world/command_line.h"
#include "frameworks/cli/commands.h"
#include "frameworks/cli/complain.h"
#include "frameworks/cli/master_client.h"
#include "frameworks/cli/table.h"

namespace bourse::cli {
namespace {

constexpr std::string_view kProgram = "bourse master";
constexpr Duration kChangeWithin = seconds(20);  // the master gives up after 15

using Row = StatusReply::Row;

int failed(const Error& error) {
  const bool unreachable = error.code() == Code::kTimeout || error.code() == Code::kIo || error.code() == Code::kNotFound;
  return complain(std::string(kProgram), error, unreachable ? 3 : 1);
}

std::vector<Field<Row>> fields() {
  const auto of = [](std::string_view name) { return [name](const Row& row) { return field(row, name); }; };
  return {{"name", 0, "MASTER", [](const Row& row) { return row.name; }},
          {"state", 0, "STATE", of("state")},
          {"votes", 0, "VOTES", of("votes")},
          {"endpoint", 0, "ENDPOINT", of("endpoint")},
          {"raft", 0, "RAFT", of("raft")},
          {"clock_ms", 0, "CLOCK_MS", of("clock_ms"), true, true},
          {"round_ms", 0, "ROUND_MS", of("round_ms"), true, true}};
}

int list_masters(MasterClient& client, bool json) {
  const auto rows = client.status("masters");
  if (!rows) return failed(rows.error());
  if (json) {
    fmt::print("{}", json_rows(fields(), *rows, "masters"));
    return 0;
  }
  std::vector<Column> columns;
  for (std::size_t i = 0; i < fields().size(); ++i) {
    Column column;
    column.field = i;
    column.right = fields()[i].right;
    column.before = i == 0 ? "" : "  ";
    columns.push_back(column);
  }
  fmt::print("{}", print_rows(fields(), columns, *rows, true));
  return 0;
}

// A leader that is to be taken out hands over first, and one that loses its leadership cannot say what came of the change: both are
// asked again, or their successor is.
Result<> change_master(std::unique_ptr<MasterClient>& client, bool add, const std::string& name, const std::string& reason,
                       const std::vector<std::pair<std::string, std::string>>& parameters) {
  const Duration end = real_time().mono + kChangeWithin;
  bool unsure = false;
  while (true) {
    const auto done = client->act(add ? "add-master" : "remove-master", name, reason, parameters, kChangeWithin);
    if (done) return {};
    const Code code = done.error().code();
    if (unsure && code == (add ? Code::kExists : Code::kNotFound)) return {};
    if ((code != Code::kBusy && code != Code::kGone) || real_time().mono >= end) return done.error();
    unsure = unsure || code == Code::kGone;
    poll(nullptr, 0, 200);
    client = BOURSE_TRY(MasterClient::open(std::max<Duration>(end - real_time().mono, seconds(1))));
  }
}

}  // namespace

int master_main(int argc, char** argv) {
  std::string name, raft, reason;
  bool json = false;
  CommandLine app("Shows and changes the masters that replicate the registry and take over from each other.",
                  std::string(kProgram));
  app.directory();
  CommandLine& list = app.command("list", "Show the masters");
  list.flag("--json", json, "As JSON");
  CommandLine& add = app.command("add", "Take a master in that runs already, with an empty state directory");
  add.option("NAME", name, "Its master.id").required();
  add.option("RAFT", raft, "Its master.raft as the others reach it: tcp://HOST:PORT").required();
  CommandLine& remove = app.command("remove", "Take one out; it has no vote and no part any more");
  remove.option("NAME", name, "Which").required();
  for (CommandLine* change : {&add, &remove}) change->option("--reason", reason, "Why, for whoever looks next");
  if (const int status = app.parse(argc, argv); status >= 0) return status;
  auto client = MasterClient::open();
  if (!client) return failed(client.error());
  if (list.chosen()) return list_masters(**client, json);
  std::vector<std::pair<std::string, std::string>> parameters;
  if (add.chosen()) parameters.emplace_back("raft", raft);
  const Result<> done = change_master(*client, add.chosen(), name, reason, parameters);
  if (!done) return complain(std::string(kProgram), done.error(), done.error().code() == Code::kIo ? 3 : 1);
  fmt::print("{} is {}.\n", name, add.chosen() ? "a master" : "no master any more");
  return 0;
}

}  // namespace bourse::cli
