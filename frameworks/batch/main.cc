// bourse-batch: the reactor, sockets for the tools, the session with the master, the store, and the batch actor between them.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/world/config.h"
#include "common/world/driver.h"
#include "common/world/files.h"
#include "common/world/log.h"
#include "common/world/program.h"
#include "common/world/reactor.h"
#include "common/world/spawn.h"
#include "common/world/trace_export.h"
#include "frameworks/batch/batch.h"
#include "frameworks/batch/claim.h"
#include "frameworks/batch/history.h"
#include "frameworks/batch/mailer.h"
#include "frameworks/batch/options.h"
#include "frameworks/batch/peek.h"
#include "frameworks/batch/pg.h"
#include "frameworks/batch/proof.h"
#include "frameworks/batch/session_bridge.h"
#include "frameworks/batch/store.h"
#include "frameworks/batch/tool_sockets.h"
#include "plugins/policy/configured.h"

namespace bourse::batch {
namespace {

constexpr const char* kStepProgram = "bourse-rsh";

struct World {
  Reactor reactor;
  std::unique_ptr<Store> store;
  std::unique_ptr<History> history;
  std::unique_ptr<policy::Configured> policy;
  std::unique_ptr<TraceExporter> tracer;
  std::unique_ptr<Batch> batch;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<SessionBridge> session;
  ProofGate gate;
  std::unique_ptr<Mailer> mailer;
  ToolSockets tools{reactor};
};

std::string refusal_text(const ReplyBody& reply) {
  if (const auto* submit = std::get_if<SubmitReply>(&reply))
    for (const SubmitReply::Item& item : submit->items)
      if (item.code == Code::kDenied) return item.reason;
  const auto* step = std::get_if<StepReply>(&reply);
  return step != nullptr ? step->reason : "";
}

void on_request(World& w, PeerId peer, const Frame& frame) {
  std::string bytes(frame.bytes);
  // What is about the past is answered by the history's own thread. A job that has just ended is in one of the two: the actor
  // forgets it only after its record is safe.
  const auto answer = [&w, peer](std::uint64_t tag) {
    return [&w, peer, tag](auto reply) { w.tools.send(peer, encode(ToolReply{kBatchProtocol, tag, std::move(reply)})); };
  };
  if (may_ask_the_past(bytes))
    if (auto request = decode_request(bytes)) {
      if (auto* h = std::get_if<HistoryRequest>(&request->body)) return w.history->ask(std::move(*h), answer(request->tag));
      if (auto* j = std::get_if<JobRequest>(&request->body); j != nullptr && !w.batch->knows(j->job)) {
        if (frame.uid != 0) j->script = false;
        return w.history->ask(std::move(*j), answer(request->tag));
      }
      if (auto* y = std::get_if<WhyRequest>(&request->body); y != nullptr && !w.batch->knows(y->job))
        return w.history->ask(std::move(*y), answer(request->tag));
    }
  std::int64_t uid = frame.uid, gid = frame.gid;
  if (w.gate.judges())
    if (auto request = decode_request(bytes))
      if (auto refusal = w.gate.judge(request->body, uid, gid, real_time().wall)) {
        // That none was brought is how a tool learns that one is needed.
        if (const std::string why = refusal_text(*refusal); why != kCredentialNeeded)
          log_event(LogLevel::kWarn, "request_refused",
                    {{"uid", std::to_string(frame.uid)}, {"identity", frame.identity}, {"from", frame.address}, {"reason", why}});
        return w.tools.send(peer, encode(ToolReply{kBatchProtocol, request->tag, *std::move(refusal)}));
      }
  w.driver->post(Request{peer, uid, gid, frame.identity, std::move(bytes)});
}

// mpirun runs inside a job, whose PATH may lack us: the path of the program beside this one, else where programs for users are.
std::string step_agent() {
  const std::string own = own_directory();
  for (const std::string& path : {own + "/" + kStepProgram, own + "/../bin/" + kStepProgram})
    if (access(path.c_str(), X_OK) == 0) return path;
  return kStepProgram;
}

std::string lines_of(const std::vector<policy::Choice>& choices) {
  std::string out;
  for (const policy::Choice& choice : choices) out += (out.empty() ? "" : "\n") + choice.spec.text();
  return out;
}

// A bad file changes nothing; what cannot change while this runs is named and waits for a restart, which disturbs no job.
void reload(World& w, Program& program) {
  auto next = program.read_again();
  if (!next)
    return log_event(LogLevel::kError, "reload_refused", {{"reason", next.error().text()}, {"what", "nothing was changed"}});
  const auto choice = w.policy->read(*next);
  if (!choice)
    return log_event(LogLevel::kError, "reload_refused", {{"reason", choice.error().text()}, {"what", "nothing was changed"}});
  const auto shadows = w.policy->read_list(*next, "shadow_policy");
  if (!shadows)
    return log_event(LogLevel::kError, "reload_refused", {{"reason", shadows.error().text()}, {"what", "nothing was changed"}});
  if (const auto keys = w.tools.read_keys(program.keys_directory(*next)); !keys)
    return log_event(LogLevel::kError, "reload_refused", {{"reason", keys.error().text()}, {"what", "nothing was changed"}});
  const ConfigChanges changes = config_changes(program.config(), *next);
  log_changes(changes, program.config_path());
  w.store->keep_history(next->duration("batch", "history_keep"));
  w.driver->post(Reload{live_text(options_of(*next))});
  if (auto change = w.policy->take(*choice)) w.driver->post(Reload{*std::move(change)});
  if (next->list("batch", "shadow_policy") != program.config().list("batch", "shadow_policy"))
    w.driver->post(Reload{"shadow_policy=" + lines_of(*shadows)});
  program.take(*std::move(next));
}

// Waits until the store that several share is ours; null: a signal ended that. See "Standbys".
Result<std::unique_ptr<Claim>> stand_by(World& w, const Program& program, const std::string& store, const std::string& state,
                                        bool& announced) {
  const Duration takeover = program.config().duration("batch", "takeover");
  char host[HOST_NAME_MAX + 1] = "";
  gethostname(host, sizeof host - 1);
  std::unique_ptr<Claim> claim;
  bool told = false;
  while (true) {
    Result<bool> taken = false;
    if (!claim) {
      auto opened = Claim::open(store, std::string(host) + ":" + state, takeover);
      if (opened)
        claim = *std::move(opened);
      else if (opened.error().code() == Code::kUnsupported)
        return std::move(opened).error();
      else
        taken = std::move(opened).error();
    }
    if (claim) taken = claim->try_take();
    if (taken && *taken) return claim;
    if (!taken && !told)
      log_event(LogLevel::kWarn, "store_out_of_reach", {{"reason", taken.error().text()}, {"what", "it is tried again"}});
    told = !taken;
    if (claim && taken && !announced) {
      announced = true;
      log_event(LogLevel::kInfo, "standby", {{"what", "another bourse-batch is active"}, {"takeover", format_duration(takeover)}});
      program.ready();
    }
    const Duration until = real_time().mono + std::min<Duration>(takeover / Claim::kBeats, seconds(1));
    while (real_time().mono < until)
      if (!w.reactor.turn(until - real_time().mono)) return std::unique_ptr<Claim>();
  }
}

// So that no two lives of this place are alive at once: its claim goes from one to the next without waiting.
Result<int> lock_state(const std::string& state) {
  BOURSE_TRY(make_directories(state, 0700));
  const int lock = ::open((state + "/active.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return errno_error("open " + state + "/active.lock");
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return Error(Code::kBusy, state + " is in use by another bourse-batch");
  }
  return lock;  // until this process ends
}

Result<> run(Program& program) {
  const Config& config = program.config();
  const std::string state = program.state_directory();

  World w;
  std::vector<std::string> records;
  std::string where = config.text("batch", "store"), lost;
  const bool shared = is_postgresql(where);
  bool announced = false;
  std::unique_ptr<Claim> claim;
  if (shared) {
    BOURSE_TRY(lock_state(state));
    Program::end_on_signals(w.reactor);
    claim = BOURSE_TRY(stand_by(w, program, where, state, announced));
    if (!claim) return {};
  } else if (where.empty()) {
    where = state + "/queue.db";
  } else {
    return Error(Code::kInvalid, "batch.store: it is empty, or a database: postgresql://HOST/NAME");
  }
  w.store = BOURSE_TRY(Store::open(where, records, claim ? claim->token() : 0));
  w.store->keep_history(config.duration("batch", "history_keep"));
  w.history = BOURSE_TRY(History::open(where, w.reactor));
  if (claim) {
    const auto end = [&w, &lost](std::string reason) {
      lost = std::move(reason);
      w.reactor.stop();
    };
    w.store->on_lost(w.reactor, end);
    claim->keep(w.reactor, end);
    log_event(LogLevel::kInfo, "active", {{"token", std::to_string(claim->token())}, {"records", std::to_string(records.size())}});
  }
  const Incarnation incarnation = claim ? claim->incarnation() : BOURSE_TRY(next_incarnation(state));
  BatchOptions options = options_of(config);
  options.step_agent = step_agent();
  if (config.flag("batch", "slurm_commands")) options.slurm_commands = slurm_commands_directory();
  w.policy = BOURSE_TRY(policy::Configured::open({"bourse-batch", "batch", "fifo", state, ClassOrder::usable}, config));
  options.policy = w.policy->choice();
  options.policies = &w.policy->catalog();
  options.shadow_policy = lines_of(BOURSE_TRY(w.policy->read_list(config, "shadow_policy")));
  options.policy_guard = w.policy->guard();
  if (const std::string file = config.text("batch", "policy_learnt"); !file.empty())
    options.policy_learnt = BOURSE_TRY(read_file(file, BOURSE_STATE_MAX));
  const std::string mail_setting = config.text("batch", "mail_program"), mail_program = find_mail_program(mail_setting);
  options.mail = !mail_program.empty();
  if (!mail_setting.empty() && mail_setting != "none" && mail_program.empty())
    log_event(LogLevel::kWarn, "no_mail_program",
              {{"program", mail_setting}, {"what", "it cannot be run; --mail-type is accepted and no mail is sent"}});
  w.mailer = std::make_unique<Mailer>(w.reactor, mail_program);
  options.policy_budget = config.duration("batch", "policy_budget");
  std::uint32_t trace_permille = 0;
  if (auto tracing = BOURSE_TRY(trace_options(config, "bourse-batch"))) {
    trace_permille = tracing->sample_permille;
    w.tracer = BOURSE_TRY(TraceExporter::open(*std::move(tracing)));
  }
  w.batch = std::make_unique<Batch>(std::move(options));
  if (w.tracer) w.batch->set_tracing(trace_permille);

  Driver::Hooks hooks;
  hooks.reply = [&w](PeerId peer, std::string bytes) { w.tools.send(peer, std::move(bytes)); };
  hooks.mail = [&w](Mail mail) { w.mailer->add(std::move(mail)); };
  hooks.session = [&w](const SessionCommand& command) {
    if (w.session) w.session->command(command);
  };
  hooks.append = [&w](std::vector<Append> appends, std::string, LogFile::Done done) {
    w.store->append(w.reactor, std::move(appends), std::move(done));
  };
  hooks.stop = [&w] { w.reactor.stop(); };
  if (w.tracer) hooks.spans = [&w](std::vector<Span> spans) { w.tracer->add(std::move(spans)); };
  w.driver = std::make_unique<Driver>(w.reactor, *w.batch, std::move(hooks));

  BridgeOptions bridge;
  bridge.framework = config.text("batch", "framework"), bridge.role = config.text("batch", "role");
  bridge.config = program.config_path();
  bridge.endpoints = config.list("cluster", "masters");
  bridge.incarnation = incarnation;
  w.gate = BOURSE_TRY(ProofGate::open(config, program.keys_directory(config)));
  if (w.gate.signs()) bridge.prove = [&w](const TaskSpec& task) { return w.gate.prove(task, real_time().wall); };
  w.session = BOURSE_TRY(SessionBridge::open(w.reactor, bridge, [&w](SessionEvent e) { w.driver->post(std::move(e)); }));
  w.driver->post(Started{incarnation, {}, std::move(records)});

  std::vector<std::string> endpoints = config.list("batch", "listen");
  if (endpoints.empty()) {
    BOURSE_TRY(make_directories(program.places().run, 0755));
    endpoints.push_back("unix://" + program.places().run + "/" + kBatchSocketName);
  }
  w.tools.on_request([&w](PeerId peer, const Frame& frame) { on_request(w, peer, frame); });
  w.tools.on_gone([&w](PeerId peer) { w.driver->post(PeerLost{peer}); });
  for (const std::string& endpoint : endpoints)
    BOURSE_TRY(w.tools.open(endpoint, program.keys_directory(config), bridge.framework));

  if (!shared) Program::end_on_signals(w.reactor);
  w.reactor.on_signal(SIGHUP, [&w, &program] { reload(w, program); });
  if (!announced) program.ready();
  w.reactor.run();
  if (!claim) return {};
  if (!lost.empty()) return Error(Code::kGone, lost + "; this one ends, and is to be started again as a standby");
  w.store.reset();  // what is queued is written before another goes on
  claim->give_up();
  return {};
}

}  // namespace
}  // namespace bourse::batch

int main(int argc, char** argv) {
  bourse::Program program("bourse-batch", "Keeps the queue of batch jobs and runs them on a Bourse cluster. See bourse-batch(8).",
                          "when submits are taken");
  program.options().option("--state", program.state_option, "Directory of the queue and the history (default: batch.state)");
  return program.run(argc, argv, bourse::batch::run);
}
