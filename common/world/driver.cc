#include "common/world/driver.h"

#include <deque>
#include <utility>

#include "common/core/hooks.h"
#include "common/world/log.h"

namespace bourse {

struct Driver::Impl {
  // What of a step waits for its records.
  struct Held {
    std::vector<SessionCommand> session;
    std::vector<Send> sends;
    std::vector<Reply> replies;
    std::vector<Mail> mails;
    std::vector<PeerId> cut;
    std::vector<std::string> masters;
    std::vector<ChangeMember> members;
    std::string leader;
    bool reconnect = false, stop = false, hand_over = false;
  };

  Reactor& reactor;
  Actor& actor;
  Hooks hooks;
  LogFile* log = nullptr;
  std::deque<Event> events;
  bool stepping = false;
  Actions actions;
  Ticket next_ticket = 1;
  std::uint64_t steps = 0;
  std::map<TimerKey, Reactor::TimerId> timers;
  // Outlives us in callbacks of the log and the reactor.
  std::shared_ptr<Impl*> self = std::make_shared<Impl*>(this);

  Impl(Reactor& r, Actor& a, Hooks h) : reactor(r), actor(a), hooks(std::move(h)) {}
  ~Impl() {
    *self = nullptr;
    for (const auto& [key, id] : timers) reactor.cancel(id);
  }

  void post(Event event) {
    events.push_back(std::move(event));
    if (stepping) return;
    stepping = true;
    const auto alive = self;
    while (!events.empty()) {
      const Event next = std::move(events.front());
      events.pop_front();
      // Disarmed while it waited behind an event of the same moment: it must not fire.
      if (const auto* fired = std::get_if<TimerFired>(&next); fired != nullptr && timers.erase(fired->key) == 0) continue;
      actions.clear();
      actions.ticket = next_ticket++;
      ++steps;
      actor.step(real_time(), next, actions);
      execute();
      if (*alive == nullptr) return;
    }
    stepping = false;
  }

  void execute() {
    const bool append = !actions.appends.empty() || !actions.compact.empty();
    Held rest{std::move(actions.session), std::move(actions.sends),
              std::move(actions.replies), std::move(actions.mails),
              std::move(actions.cut),     std::move(actions.masters),
              std::move(actions.members), std::move(actions.leader),
              actions.reconnect,          actions.stop,
              actions.hand_over};
    std::vector<HostAction> host = std::move(actions.host);
    std::vector<Arm> arms = std::move(actions.arms);
    std::vector<TimerKey> disarms = std::move(actions.disarms);
    std::vector<std::string> logs = std::move(actions.logs);
    if (!actions.spans.empty() && hooks.spans) hooks.spans(std::move(actions.spans));
    std::vector<ViewUpdate> views = std::move(actions.views);
    const std::uint64_t reload = actions.reload;
    const auto alive = self;
    if (append) {
      append_records(std::move(rest));
      hooks::crash_point("driver.after_append");
    }
    if (*alive == nullptr) return;
    for (const HostAction& action : host)
      if (hooks.host) hooks.host(action);
    if (!append) release(rest);
    if (*alive == nullptr) return;
    for (Arm& item : arms) arm(std::move(item));
    for (const TimerKey& key : disarms) disarm(key);
    for (const std::string& line : logs) log_line(line);
    if (!views.empty() && hooks.publish) hooks.publish(std::move(views));
    if (reload != 0 && hooks.reload) hooks.reload(reload);
  }

  // "Append -> Durable -> Send" is the driver's rule. See "Two kinds of append".
  void append_records(Held rest) {
    const Ticket ticket = actions.ticket;
    std::vector<Append> appends = std::move(actions.appends);
    std::string compact = std::move(actions.compact);
    if (hooks::mutant("driver.hold_sends")) {
      release(rest);
      rest = {};
    }
    const auto held = std::make_shared<Held>(std::move(rest));
    if (hooks.propose) {
      std::vector<std::string> records;
      for (Append& item : appends) records.push_back(std::move(item.record));
      hooks.propose(std::move(records), [weak = self, ticket, held](const Result<std::uint64_t>& index) {
        if (*weak != nullptr) (*weak)->safe(ticket, *held, index ? Result<>() : Result<>(index.error()), index ? *index : 0);
      });
      return;
    }
    LogFile::Done done = [weak = self, ticket, held](const Result<>& result) {
      if (*weak != nullptr) (*weak)->safe(ticket, *held, result, 0);
    };
    if (hooks.append) {
      hooks.append(std::move(appends), std::move(compact), std::move(done));
      return;
    }
    if (log == nullptr) {
      done(Result<>());
      return;
    }
    Safety safety = Safety::kProcess;
    std::vector<std::string> records;
    for (Append& item : appends) {
      if (item.safety == Safety::kPower) safety = Safety::kPower;  // the records stay in one order: the stricter holds for all
      records.push_back(std::move(item.record));
    }
    if (!compact.empty()) {
      Result<> compacted = log->compact(compact);
      if (compacted) {
        // The snapshot has them, flushed. A step that asked for power's sake stays behind the answers of earlier ones; one that
        // did not must not wait, or what the next steps say would overtake it.
        log->append(reactor, safety, {}, std::move(done));
        return;
      }
      if (records.empty()) {  // the snapshot is all that this step wanted on record
        done(compacted);
        return;
      }
      log_event(LogLevel::kWarn, "compaction_failed",
                {{"reason", compacted.error().text()}, {"action", "ignoring, the log grows"}});
    }
    log->append(reactor, safety, records, std::move(done));
  }

  void safe(Ticket ticket, Held& rest, const Result<>& result, std::uint64_t index) {
    hooks::crash_point("driver.after_durable");
    if (!result) {
      if (result.error().code() != Code::kGone) log_event(LogLevel::kError, "append_failed", {{"reason", result.error().text()}});
      post(AppendFailed{ticket, result.error().text()});
      return;
    }
    const auto alive = self;
    release(rest);
    if (*alive != nullptr) post(Durable{ticket, index});
  }

  void release(Held& rest) {
    for (const SessionCommand& command : rest.session)
      if (hooks.session) hooks.session(command);
    for (const Send& send : rest.sends)
      if (hooks.send) hooks.send(send.to, send.message);
    for (Reply& reply : rest.replies)
      if (hooks.reply) hooks.reply(reply.to, std::move(reply.payload));
    for (Mail& mail : rest.mails)
      if (hooks.mail) hooks.mail(std::move(mail));
    for (const PeerId peer : rest.cut)
      if (hooks.cut) hooks.cut(peer);
    if (!rest.masters.empty() && hooks.masters) hooks.masters(rest.masters);
    if (rest.reconnect && hooks.reconnect) hooks.reconnect(rest.leader);
    for (const ChangeMember& member : rest.members)
      if (hooks.member) hooks.member(member);
    if (rest.hand_over && hooks.hand_over) hooks.hand_over();
    if (rest.stop && hooks.stop) hooks.stop();
  }

  void arm(Arm item) {
    auto [it, fresh] = timers.try_emplace(item.key, 0);
    if (!fresh) reactor.cancel(it->second);
    it->second = reactor.after(item.after, [this, key = std::move(item.key)]() mutable { post(TimerFired{std::move(key)}); });
  }

  void disarm(const TimerKey& key) {
    const auto it = timers.find(key);
    if (it == timers.end()) return;
    reactor.cancel(it->second);
    timers.erase(it);
  }
};

Driver::Driver(Reactor& reactor, Actor& actor, Hooks hooks) : impl_(std::make_unique<Impl>(reactor, actor, std::move(hooks))) {}
Driver::~Driver() = default;
void Driver::use_log(LogFile* log) { impl_->log = log; }
void Driver::post(Event event) { impl_->post(std::move(event)); }
std::uint64_t Driver::steps() const { return impl_->steps; }

}  // namespace bourse
