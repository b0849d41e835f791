#include "frameworks/cli/master_client.h"

#include <dirent.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "common/world/config.h"
#include "common/world/driver.h"
#include "common/world/transport.h"

namespace bourse::cli {
namespace {

constexpr Duration kHelloAgain = seconds(1);
constexpr Duration kNextMaster = seconds(2);       // after so long without an answer
constexpr Duration kReadersAnswer = seconds(3);    // then the master itself is asked
constexpr Duration kElection = milliseconds(200);  // between two questions whether there is a leader by now

std::string user_name() {
  const passwd* entry = getpwuid(getuid());  // NOLINT(concurrency-mt-unsafe)
  return entry == nullptr ? std::to_string(getuid()) : entry->pw_name;
}

// The key file to use, "" for none: that of `own`, else the first of its kind, else the first of the other that we can read.
std::string find_key(const std::string& directory, const std::string& own) {
  std::vector<std::string> names;
  if (DIR* dir = opendir(directory.c_str())) {
    while (const dirent* entry = readdir(dir)) {
      const std::string name = entry->d_name;
      if ((name.starts_with("operator=") || name.starts_with("reader=")) && !name.ends_with(".pub")) names.push_back(name);
    }
    closedir(dir);
  }
  std::sort(names.begin(), names.end());
  const std::string file = key_file_name(own), kind = file.substr(0, file.find('=') + 1);
  std::stable_partition(names.begin(), names.end(), [&](const std::string& name) { return name.starts_with(kind); });
  std::stable_partition(names.begin(), names.end(), [&](const std::string& name) { return name == file; });
  for (const std::string& name : names)
    if (access((directory + "/" + name).c_str(), R_OK) == 0) return directory + "/" + name;
  return "";
}

}  // namespace

struct MasterClient::Impl {
  Reactor reactor;
  Context context;
  ToolKeys keys;
  std::unique_ptr<MasterLink> link;
  std::unique_ptr<ReaderLink> readers;
  bool no_readers = false;  // it has no socket for them, or we do not get there
  std::optional<Welcome> welcome;
  std::optional<Refused> refused;
  std::optional<StatusReply> reply;
  std::optional<OperatorReply> operator_reply;
  bool lost = false;
  std::map<std::string, std::string> found;  // endpoint -> what it did instead of welcoming us
  std::optional<ExplainReply> explained;
  Epoch epoch;
  std::uint64_t tag = 0;

  void receive(Message message) {
    if (auto* r = std::get_if<Refused>(&message.body)) {
      if (!r->not_leading && message.epoch < epoch) return;
      refused = std::move(*r);
      return;
    }
    if (message.epoch < epoch) return;  // of a leader that another has followed
    epoch = message.epoch;
    if (auto* w = std::get_if<Welcome>(&message.body)) welcome = std::move(*w);
    if (auto* r = std::get_if<StatusReply>(&message.body); r != nullptr && r->tag == tag) reply = std::move(*r);
    if (auto* r = std::get_if<ExplainReply>(&message.body); r != nullptr && r->tag == tag) explained = std::move(*r);
    if (auto* r = std::get_if<OperatorReply>(&message.body); r != nullptr && r->tag == tag) operator_reply = std::move(*r);
  }

  void say(Body body) {
    Message message;
    message.epoch = epoch;
    message.body = std::move(body);
    link->send(message);
  }

  template <class Ready>
  bool wait(Duration timeout, Ready ready) {
    const Duration end = real_time().mono + timeout;
    while (!ready()) {
      const Duration left = end - real_time().mono;
      if (left <= Duration{0}) return false;
      reactor.turn(left);
    }
    return true;
  }

  [[nodiscard]] std::string where() const { return link->endpoint(); }

  [[nodiscard]] Error nobody() const {
    if (link->endpoints().size() == 1 && found.empty())
      return Error(Code::kTimeout, "no master answers at " + where() + "; is the cluster up (`bourse up`), and BOURSE_DIR right?");
    std::string text = "no master leads:";
    for (const std::string& endpoint : link->endpoints()) {
      const auto at = found.find(endpoint);
      text += (text.back() == ':' ? " " : "; ") + endpoint + (at == found.end() ? " was not asked" : " " + at->second);
    }
    return Error(Code::kTimeout, text);
  }

  void go(const std::string& leader) {
    link->next(leader);
    readers.reset();  // another's
    no_readers = false;
    refused.reset();
    lost = false;
  }

  // Until a master has welcomed us: where one names the leader, there; else to the next, for as long as there is time.
  Result<> hello(Duration timeout) {
    const Duration end = real_time().mono + timeout;
    const auto left = [end] { return std::max(end - real_time().mono, Duration{0}); };
    Duration since = real_time().mono;  // that we have been asking this one
    welcome.reset();
    refused.reset();
    while (true) {
      say(ReaderHello{kProtocolVersion, user_name()});
      wait(std::min(kHelloAgain, left()), [this] { return welcome || refused || lost; });
      if (welcome) break;
      if (refused && !refused->not_leading) return Error(refused->code, "the master refuses us: " + refused->reason);
      if (refused) {
        found[where()] = "stands by: " + refused->reason;
      } else if (lost || real_time().mono - since >= kNextMaster || left() <= Duration{0}) {
        found[where()] = "does not answer";
      }
      if (left() <= Duration{0}) return nobody();
      const bool silent = lost || real_time().mono - since >= kNextMaster;
      if (refused) {
        const std::string leader = refused->leader;
        // Named before and found silent: it may be dead without the others' having noticed, and they will.
        const bool again = leader.empty() || (found.contains(leader) && found[leader] == "does not answer");
        if (again) wait(std::min(kElection, left()), [] { return false; });
        go(again ? "" : leader);
        since = real_time().mono;
      } else if (silent && link->endpoints().size() > 1) {
        go("");
        since = real_time().mono;
      } else if (lost) {
        wait(std::min(kElection, left()), [] { return false; });
        go("");
      }
    }
    if (!welcome->masters.empty()) link->learn(welcome->masters);
    found.clear();
    return {};
  }

  // Asks until `answered`, also the leader's successor where `again`: a question that changes nothing, or one that was refused.
  template <class Answered>
  Result<> ask(const Body& body, Duration timeout, bool again, Answered answered) {
    const Duration end = real_time().mono + timeout;
    while (true) {
      refused.reset();
      lost = false;
      say(body);
      const bool heard = wait(std::max(end - real_time().mono, Duration{0}), [&] { return answered() || refused || lost; });
      if (answered()) return {};
      const bool moved = refused && (refused->not_leading || refused->code == Code::kGone);
      if (refused && !moved) return Error(refused->code, "the master refuses us: " + refused->reason);
      if (!heard || (lost && !again)) {
        return Error(Code::kTimeout,
                     "the master at " + where() + " did not answer" + (again ? "" : "; it may or may not have done it"));
      }
      const Duration left = std::max(end - real_time().mono, Duration{0});
      if (moved && refused->code == Code::kGone) {
        BOURSE_TRY(hello(left));  // it was restarted, or has been deposed and leads again
        continue;
      }
      go(moved ? refused->leader : "");
      BOURSE_TRY(hello(left));
    }
  }
};

Result<ToolKeys> tool_keys(const Config& config, const std::string& directory, const std::string& own) {
  ToolKeys tool;
  std::string server = config.text("cluster", "server_key");
  if (server.empty() && access((directory + "/master.pub").c_str(), F_OK) == 0) server = directory + "/master.pub";
  if (server.empty()) return tool;
  tool.server_key = BOURSE_TRY(read_public_key(server));
  const std::string path = find_key(directory, own);
  if (path.empty())
    return Error(Code::kDenied, "no key of an operator or reader in " + directory + " that we may read; see bourse key --help");
  tool.keys = BOURSE_TRY(read_key_file(path));
  return tool;
}

MasterClient::MasterClient() : impl_(std::make_unique<Impl>()) {}
MasterClient::~MasterClient() = default;

Result<std::unique_ptr<MasterClient>> MasterClient::open(Duration timeout) {
  const Places places = Places::find();
  if (access(places.config.c_str(), F_OK) != 0)
    return Error(Code::kNotFound,
                 "there is no cluster here: no " + places.config + ". Start one with `bourse up`, or set BOURSE_DIR");
  const Config config = BOURSE_TRY(Config::read(places.config, {}));
  std::unique_ptr<MasterClient> client(new MasterClient());
  Impl& im = *client->impl_;
  const std::vector<std::string> masters = config.list("cluster", "masters");
  if (masters.empty()) return Error(Code::kInvalid, places.config + ": cluster.masters is empty");
  const std::string named = config.text("cluster", "keys");
  const std::string directory = named.empty() ? places.keys : named;
  im.keys = BOURSE_TRY(tool_keys(config, directory, "operator:" + user_name()));
  im.link =
      std::make_unique<MasterLink>(im.context, im.reactor, masters, im.keys.keys ? &*im.keys.keys : nullptr, im.keys.server_key);
  im.link->on_message([&im](Message message) { im.receive(std::move(message)); });
  im.link->on_lost([&im] { im.lost = true; });
  BOURSE_TRY(im.link->connect());
  BOURSE_TRY(im.hello(timeout));
  return client;
}

ReaderLink* MasterClient::readers() {
  Impl& im = *impl_;
  if (im.readers || im.no_readers || im.welcome->readers.empty()) return im.readers.get();
  auto opened = ReaderLink::open(im.context, im.reactor, im.welcome->readers, im.link->endpoint(),
                                 im.keys.keys ? &*im.keys.keys : nullptr, im.keys.server_key, user_name());
  im.no_readers = !opened;
  if (opened) im.readers = *std::move(opened);
  return im.readers.get();
}

// Where it can be had without disturbing the master's own work, it is had there. Not so offers: in how long they end is known to the
// master alone.
Result<StatusReply> MasterClient::page(const std::string& what, const std::string& after, Duration timeout) {
  Impl& im = *impl_;
  if (what != "offers" && readers() != nullptr) {
    auto reply = im.readers->page(what, after, std::min<Duration>(timeout, kReadersAnswer));
    const Code code = reply ? Code::kOk : reply.error().code();
    if (code != Code::kUnsupported && code != Code::kTimeout && code != Code::kGone) return reply;
    im.no_readers = true;
    im.readers.reset();
  }
  im.reply.reset();
  BOURSE_TRY(im.ask(StatusQuery{++im.tag, what, after, 0}, timeout, true, [&im] { return im.reply.has_value(); }));
  if (im.reply->code != Code::kOk) return Error(im.reply->code, im.reply->reason);
  return *std::move(im.reply);
}

Result<std::vector<StatusReply::Row>> MasterClient::status(const std::string& what, std::string after, Duration timeout) {
  std::vector<StatusReply::Row> rows;
  for (bool more = true; more;) {
    StatusReply reply = BOURSE_TRY(page(what, after, timeout));
    more = reply.more && !reply.rows.empty();
    for (auto& row : reply.rows) rows.push_back(std::move(row));
    if (!rows.empty()) after = rows.back().name;
  }
  return rows;
}

Result<ExplainReply> MasterClient::explain(const FrameworkId& framework, std::uint64_t line, Duration timeout) {
  Impl& im = *impl_;
  im.explained.reset();
  BOURSE_TRY(im.ask(ExplainQuery{++im.tag, framework, line}, timeout, true, [&im] { return im.explained.has_value(); }));
  return *std::move(im.explained);
}

Result<std::string> MasterClient::act(const std::string& action, const std::string& target, const std::string& reason,
                                      std::vector<std::pair<std::string, std::string>> parameters, Duration timeout) {
  Impl& im = *impl_;
  im.operator_reply.reset();
  BOURSE_TRY(im.ask(OperatorAction{++im.tag, action, target, reason, std::move(parameters)}, timeout, false,
                    [&im] { return im.operator_reply.has_value(); }));
  if (im.operator_reply->code != Code::kOk) return Error(im.operator_reply->code, im.operator_reply->reason);
  return im.operator_reply->reason;
}

std::vector<MasterClient::MasterState> MasterClient::masters(Duration timeout) {
  Impl& im = *impl_;
  std::vector<MasterState> all;
  std::vector<std::unique_ptr<MasterLink>> links;
  for (const std::string& endpoint : im.link->endpoints()) all.push_back({endpoint, "", "", {}});
  for (MasterState& master : all) {
    links.push_back(std::make_unique<MasterLink>(im.context, im.reactor, std::vector<std::string>{master.endpoint},
                                                 im.keys.keys ? &*im.keys.keys : nullptr, im.keys.server_key));
    links.back()->on_message([&master](const Message& message) {
      if (std::holds_alternative<Welcome>(message.body)) {
        master.state = "leader";
        master.epoch = message.epoch;
      } else if (const auto* no = std::get_if<Refused>(&message.body)) {
        master.state = no->not_leading ? "standby" : "refuses";
        master.reason = no->reason;
      }
    });
    if (Result<> opened = links.back()->connect(); !opened) {
      master.state = "unreachable";
      master.reason = opened.error().text();
      continue;
    }
    Message hello;
    hello.epoch = im.epoch;
    hello.body = ReaderHello{kProtocolVersion, user_name()};
    links.back()->send(hello);
  }
  im.wait(timeout, [&all] { return std::none_of(all.begin(), all.end(), [](const MasterState& m) { return m.state.empty(); }); });
  Epoch newest = im.epoch;
  for (const MasterState& master : all) newest = std::max(newest, master.epoch);
  for (MasterState& master : all) {
    if (master.state.empty()) {
      master.state = "unreachable";
      master.reason = "no answer within " + format_duration(timeout);
    }
    if (master.state == "leader" && master.epoch < newest) master.state = "deposed";
  }
  return all;
}

Epoch MasterClient::epoch() const { return impl_->epoch; }
const std::string& MasterClient::cluster() const { return impl_->welcome->cluster; }
const std::vector<std::string>& MasterClient::endpoints() const { return impl_->link->endpoints(); }

std::string field(const StatusReply::Row& row, std::string_view name) {
  for (const auto& [key, value] : row.fields)
    if (key == name) return value;
  return "";
}

}  // namespace bourse::cli
