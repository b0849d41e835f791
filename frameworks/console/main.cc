// bourse-console: the reactor, a reader's session with the master, an HTTP server, and the latest view between them.
#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/core/units.h"
#include "common/world/config.h"
#include "common/world/driver.h"
#include "common/world/files.h"
#include "common/world/log.h"
#include "common/world/program.h"
#include "common/world/reactor.h"
#include "common/world/transport.h"
#include "frameworks/cli/console_url.h"
#include "frameworks/cli/master_client.h"
#include "frameworks/console/history.h"
#include "frameworks/console/http.h"
#include "frameworks/console/jobs.h"
#include "frameworks/console/metrics.h"
#include "frameworks/console/page.h"
#include "frameworks/console/poller.h"
#include "frameworks/console/snapshot.h"

namespace bourse::console {
namespace {

constexpr const char* kListen = "127.0.0.1:7480";
constexpr const char* kIdentity = "reader:console";

std::string batch_socket(const Config& config, const std::string& run_directory) {
  constexpr std::string_view kUnix = "unix://";
  for (const std::string& endpoint : config.list("batch", "listen"))
    if (endpoint.starts_with(kUnix)) return endpoint.substr(kUnix.size());
  return run_directory + "/" + batch::kBatchSocketName;
}

class Console {
 public:
  explicit Console(const Config& config)
      : interval_(config.duration("console", "interval")),
        agents_max_(static_cast<std::size_t>(config.integer("console", "agent_metrics"))),
        history_(config.duration("console", "history")),
        page_(std::make_shared<const std::string>(page_html())),
        page_policy_(page_policy(*page_)) {}

  Result<> open(Program& program) {
    const Config& config = program.config();
    tool_ = BOURSE_TRY(cli::tool_keys(config, program.keys_directory(config), kIdentity));
    const auto masters = config.list("cluster", "masters");
    if (masters.empty()) return Error(Code::kInvalid, "cluster.masters names no master");
    link_.emplace(context_, reactor_, masters, tool_.keys ? &*tool_.keys : nullptr, tool_.server_key);
    poller_.emplace(
        kIdentity, interval_,
        Poller::Hooks{[this](Body body) { send(std::move(body)); }, [this](const std::string& leader) { link_->next(leader); },
                      [this] { history_.add(poller_->view(), jobs()); },
                      [this](const std::vector<std::string>& all) { link_->learn(all); }});
    link_->on_message([this](Message message) {
      if (const auto* welcome = std::get_if<Welcome>(&message.body)) find_readers(welcome->readers);
      poller_->receive(real_time(), std::move(message));
      plan();
    });
    link_->on_lost([this] {
      leave_readers();
      poller_->lost(real_time());
      plan();
    });
    BOURSE_TRY(link_->connect());
    jobs_.emplace(reactor_, batch_socket(config, program.places().run), interval_, config.flag("console", "jobs"));

    HttpOptions options;
    options.listen = config.text("console", "listen").empty() ? kListen : config.text("console", "listen");
    options.allow_remote = config.flag("console", "allow_remote");
    options.hosts = config.list("console", "hosts");
    http_ = BOURSE_TRY(HttpServer::open(reactor_, options, [this](std::string_view path) { return answer(path); }));
    BOURSE_TRY(make_directories(program.places().run, 0755));
    told_.emplace(BOURSE_TRY(cli::tell_console_url(program.places().run, http_->url())));
    log_event(LogLevel::kInfo, "listening", {{"url", http_->url()}});
    return {};
  }

  void run(Program& program) {
    Program::end_on_signals(reactor_);
    reactor_.on_signal(SIGHUP, [] {
      log_event(LogLevel::kWarn, "reload_needs_restart",
                {{"reason", "the console reads its configuration when it starts"}, {"until_then", "ignoring it"}});
    });
    plan();
    program.ready();
    reactor_.run();
  }

 private:
  // Questions about tables go to the socket that the master keeps for readers, once that has welcomed us; the rest to the master itself.
  void send(Body body) {
    if (std::holds_alternative<ReaderHello>(body)) leave_readers();
    const bool to_readers = readers_welcome_ && std::holds_alternative<StatusQuery>(body);
    Message message;
    message.epoch = poller_->epoch();
    message.body = std::move(body);
    (to_readers ? *readers_ : *link_).send(message);
  }

  void leave_readers() {
    readers_welcome_ = false;
    reactor_.defer([this] {  // we may be in one of its callbacks
      if (!readers_welcome_) readers_.reset();
    });
  }

  void find_readers(const std::string& endpoint) {
    if (endpoint.empty()) return;
    reactor_.defer([this, endpoint] {
      readers_.emplace(context_, reactor_, std::vector<std::string>{cli::readers_endpoint(endpoint, link_->endpoint())},
                       tool_.keys ? &*tool_.keys : nullptr, tool_.server_key);
      readers_->on_message([this](Message message) {
        if (std::holds_alternative<Welcome>(message.body)) {
          readers_welcome_ = true;
          return;
        }
        poller_->receive(real_time(), std::move(message));
        plan();
      });
      readers_->on_lost([this] { leave_readers(); });
      if (const auto connected = readers_->connect(); !connected) return;  // then all goes to the master itself
      Message hello;
      hello.body = ReaderHello{kProtocolVersion, "console"};
      readers_->send(hello);
    });
  }

  // Does what is due and comes again when the next is.
  void plan() {
    if (timer_ != 0) reactor_.cancel(timer_);
    const Time now = real_time();
    const Duration next = poller_->turn(now);
    log_change();
    timer_ = reactor_.after(std::max(next - now.mono, Duration{0}), [this] {
      timer_ = 0;
      plan();
    });
  }

  void log_change() {
    if (poller_->connected() == was_connected_ && poller_->error() == was_error_) return;
    was_connected_ = poller_->connected();
    was_error_ = poller_->error();
    if (was_connected_)
      log_event(LogLevel::kInfo, "master_found", {{"epoch", std::to_string(poller_->epoch().value)}});
    else if (!was_error_.empty())
      log_event(LogLevel::kWarn, "master_lost", {{"reason", was_error_}, {"then", "showing old data, retrying"}});
  }

  [[nodiscard]] Health health() const {
    Health h;
    h.connected = poller_->connected();
    h.error = poller_->error();
    h.interval = interval_;
    h.age = real_time().mono - poller_->view().taken.mono;
    h.rounds = poller_->rounds(), h.failures = poller_->failures();
    h.requests = http_->requests(), h.refused = http_->refused(), h.cut = http_->cut(), h.connections = http_->connections();
    return h;
  }

  [[nodiscard]] const JobsView& jobs() const { return jobs_->latest(); }

  Answer answer(std::string_view path) {
    Answer a;
    if (path == "/") {
      a.type = "text/html; charset=utf-8";
      a.body = page_;
      a.headers.emplace_back("Content-Security-Policy", page_policy_);
    } else if (path == "/metrics") {
      a.type = "text/plain; version=0.0.4; charset=utf-8";
      a.body = std::make_shared<const std::string>(metrics_text(poller_->view(), jobs(), health(), agents_max_));
    } else if (path == "/api/snapshot") {
      a.type = "application/json";
      a.body = snapshot();
    } else {
      a.status = 404;
      a.body = std::make_shared<const std::string>("there are /, /metrics and /api/snapshot\n");
    }
    return a;
  }

  // Written at most once a second, however many ask: it may be megabytes. Whether a master answers is told at once, as in the metrics.
  std::shared_ptr<const std::string> snapshot() {
    const Duration now = real_time().mono;
    const View& view = poller_->view();
    if (!snapshot_ || now - snapshot_at_ >= seconds(1) || snapshot_number_ != view.number ||
        snapshot_connected_ != poller_->connected()) {
      snapshot_ = std::make_shared<const std::string>(snapshot_json(view, jobs(), health(), history_));
      snapshot_at_ = now;
      snapshot_number_ = view.number;
      snapshot_connected_ = poller_->connected();
    }
    return snapshot_;
  }

  Duration interval_;
  std::size_t agents_max_;
  Reactor reactor_;
  Context context_;
  History history_;
  std::optional<MasterLink> link_, readers_;
  cli::ToolKeys tool_;
  bool readers_welcome_ = false;
  std::optional<Poller> poller_;
  std::optional<JobFigures> jobs_;
  std::shared_ptr<const std::string> page_, snapshot_;
  std::string page_policy_;
  Duration snapshot_at_{0};
  std::uint64_t snapshot_number_ = 0;
  bool snapshot_connected_ = false;
  std::unique_ptr<HttpServer> http_;
  std::optional<cli::ToldUrl> told_;
  Reactor::TimerId timer_ = 0;
  bool was_connected_ = false;
  std::string was_error_;
};

Result<> run(Program& program) {
  Console console(program.config());
  BOURSE_TRY(console.open(program));
  console.run(program);
  return {};
}

}  // namespace
}  // namespace bourse::console

int main(int argc, char** argv) {
  bourse::Program program("bourse-console", "Shows the cluster to browsers and to Prometheus. See bourse-console(8).",
                          "when it can be asked");
  return program.run(argc, argv, bourse::console::run);
}
