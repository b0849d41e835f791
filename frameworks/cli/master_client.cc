#include "frameworks/cli/master_client.h"

#include <dirent.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/world/config.h"
#include "common/world/driver.h"
#include "common/world/transport.h"

namespace bourse::cli {
namespace {

constexpr Duration kHelloAgain = seconds(1);
constexpr Duration kNextMaster = seconds(2);

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
  std::unique_ptr<MasterLink> link;
  std::vector<std::string> endpoints;
  std::optional<Welcome> welcome;
  std::optional<Refused> refused;
  std::optional<StatusReply> reply;
  std::optional<OperatorReply> operator_reply;
  Epoch epoch;
  std::uint64_t tag = 0;

  void receive(Message message) {
    epoch = std::max(epoch, message.epoch);
    if (auto* w = std::get_if<Welcome>(&message.body)) welcome = std::move(*w);
    if (auto* r = std::get_if<Refused>(&message.body)) refused = std::move(*r);
    if (auto* r = std::get_if<StatusReply>(&message.body); r != nullptr && r->tag == tag) reply = std::move(*r);
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

  [[nodiscard]] std::string where() const {
    std::string text;
    for (const std::string& endpoint : endpoints) text += (text.empty() ? "" : ", ") + endpoint;
    return text;
  }

  Result<> hello(Duration timeout) {
    const Duration end = real_time().mono + timeout;
    Duration next = real_time().mono + kNextMaster;
    while (!welcome) {
      say(ReaderHello{kProtocolVersion, user_name()});
      wait(std::min(kHelloAgain, std::max(end - real_time().mono, Duration{0})), [this] { return welcome || refused; });
      if (refused) return Error(refused->code, "the master refuses us: " + refused->reason);
      if (welcome) break;
      if (real_time().mono >= end)
        return Error(Code::kTimeout,
                     "no master answers at " + where() + "; is the cluster up (`bourse up`), and BOURSE_DIR right?");
      if (endpoints.size() > 1 && real_time().mono >= next) {
        next = real_time().mono + kNextMaster;
        link->next();
      }
    }
    return {};
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
  im.endpoints = config.list("cluster", "masters");
  if (im.endpoints.empty()) return Error(Code::kInvalid, places.config + ": cluster.masters is empty");
  const std::string named = config.text("cluster", "keys");
  const std::string directory = named.empty() ? places.keys : named;
  const ToolKeys tool = BOURSE_TRY(tool_keys(config, directory, "operator:" + user_name()));
  im.link = std::make_unique<MasterLink>(im.context, im.reactor, im.endpoints, tool.keys ? &*tool.keys : nullptr, tool.server_key);
  im.link->on_message([&im](Message message) { im.receive(std::move(message)); });
  BOURSE_TRY(im.link->connect());
  BOURSE_TRY(im.hello(timeout));
  return client;
}

Result<std::vector<StatusReply::Row>> MasterClient::status(const std::string& what, std::string after, Duration timeout) {
  Impl& im = *impl_;
  std::vector<StatusReply::Row> rows;
  for (bool more = true; more;) {
    im.reply.reset();
    im.refused.reset();
    im.say(StatusQuery{++im.tag, what, after, 0});
    if (!im.wait(timeout, [&im] { return im.reply || im.refused; }))
      return Error(Code::kTimeout, "the master at " + im.where() + " did not answer");
    if (im.refused) return Error(im.refused->code, "the master refuses us: " + im.refused->reason);
    if (im.reply->code != Code::kOk) return Error(im.reply->code, im.reply->reason);
    more = im.reply->more && !im.reply->rows.empty();
    for (auto& row : im.reply->rows) rows.push_back(std::move(row));
    if (!rows.empty()) after = rows.back().name;
  }
  return rows;
}

Result<> MasterClient::act(const std::string& action, const std::string& target, const std::string& reason,
                           std::vector<std::pair<std::string, std::string>> parameters, Duration timeout) {
  Impl& im = *impl_;
  im.operator_reply.reset();
  im.refused.reset();
  im.say(OperatorAction{++im.tag, action, target, reason, std::move(parameters)});
  if (!im.wait(timeout, [&im] { return im.operator_reply || im.refused; }))
    return Error(Code::kTimeout, "the master at " + im.where() + " did not answer; it may or may not have done it");
  if (im.refused) return Error(im.refused->code, "the master refuses us: " + im.refused->reason);
  if (im.operator_reply->code != Code::kOk) return Error(im.operator_reply->code, im.operator_reply->reason);
  return {};
}

Epoch MasterClient::epoch() const { return impl_->epoch; }
const std::string& MasterClient::cluster() const { return impl_->welcome->cluster; }
const std::vector<std::string>& MasterClient::endpoints() const { return impl_->endpoints; }

std::string field(const StatusReply::Row& row, std::string_view name) {
  for (const auto& [key, value] : row.fields)
    if (key == name) return value;
  return "";
}

}  // namespace bourse::cli
