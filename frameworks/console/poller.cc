#include "frameworks/console/poller.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "common/core/hooks.h"

namespace bourse::console {
namespace {

constexpr std::array<std::string_view, 6> kSteps = {"cluster", "agents", "frameworks", "demand", "roles", "events"};

std::pair<std::string, std::uint64_t> key_of(const DemandView& line) { return {line.framework, line.line}; }

}  // namespace

Poller::Poller(std::string name, Duration interval, Hooks hooks)
    : name_(std::move(name)), interval_(interval), hooks_(std::move(hooks)) {}

// Says hello until somebody answers, for the first time `after` from now.
void Poller::seek(const Time& now, const std::string& why, Duration after) {
  if (!why.empty()) error_ = why;
  if (state_ != State::kHello) ++failures_;
  state_ = State::kHello;
  due_ = now.mono + after;
}

void Poller::lost(const Time& now) {
  hellos_ = 0;
  hooks_.next_master({});
  seek(now, "the connection to the master was lost", kHelloAgain);
}

Duration Poller::turn(const Time& now) {
  if (now.mono < due_) return due_;
  switch (state_) {
    case State::kHello:
      if (hellos_ >= kHellosEach) {
        hellos_ = 0;
        hooks_.next_master({});
        if (error_.empty()) error_ = "no master answers";
      }
      ++hellos_;
      due_ = now.mono + kHelloAgain;
      hooks_.send(ReaderHello{kProtocolVersion, name_});
      break;
    case State::kIdle:
      begin_round(now);
      break;
    case State::kAsking:
      hellos_ = kHellosEach;
      seek(now, "the master did not answer in time", Duration{0});
      return turn(now);
  }
  return due_;
}

void Poller::receive(const Time& now, Message message) {
  if (const auto* no = std::get_if<Refused>(&message.body); no != nullptr && no->not_leading) {  // whatever its epoch
    hellos_ = 0;
    hooks_.next_master(no->leader);
    return seek(now, "the master does not lead: " + no->reason, no->leader.empty() ? kHelloAgain : Duration{0});
  }
  if (message.epoch < epoch_) return;  // a leader of the past
  const bool known = state_ != State::kHello;
  // See "One view": rows of two leaders are not mixed.
  if (message.epoch > epoch_ && state_ == State::kAsking && !hooks::mutant("console.mixes_epochs"))
    seek(now, "another master leads", Duration{0});
  epoch_ = message.epoch;
  if (const auto* welcome = std::get_if<Welcome>(&message.body); welcome != nullptr && state_ == State::kHello) {
    cluster_ = welcome->cluster;
    if (!welcome->masters.empty() && hooks_.masters) hooks_.masters(welcome->masters);
    hellos_ = 0;
    error_.clear();
    state_ = State::kIdle;
    due_ = std::max(now.mono, earliest_);
  }
  if (const auto* refused = std::get_if<Refused>(&message.body)) {
    // kGone: it has been restarted, or has not heard from us for long. The limit is for a master that says nothing else.
    const bool stranger = refused->code == Code::kGone && known;
    hellos_ = stranger ? 0 : kHellosEach;
    seek(now, stranger ? "" : "the master refuses us: " + refused->reason,
         stranger                       ? Duration{0}
         : refused->code == Code::kGone ? kHelloAgain
                                        : kRefusedAgain);
  }
  if (auto* reply = std::get_if<StatusReply>(&message.body); reply != nullptr && state_ == State::kAsking && reply->tag == tag_)
    on_reply(now, std::move(*reply));
  if (const auto* reply = std::get_if<ExplainReply>(&message.body);
      reply != nullptr && state_ == State::kAsking && reply->tag == tag_)
    on_why(now, *reply);
}

void Poller::begin_round(const Time& now) {
  round_ = View{};
  step_full_ = false;
  // Only what is new is asked for; another leader numbers its events from the start.
  if (view_.epoch == epoch_) round_.events = view_.events;
  step_ = 0;
  after_.clear();
  began_ = now.mono;
  earliest_ = began_ + interval_;
  ask(now);
}

void Poller::ask(const Time& now) {
  state_ = State::kAsking;
  due_ = now.mono + kAnswerTime;
  hooks_.send(StatusQuery{++tag_, std::string(kSteps[step_]), after_, 0});
}

bool Poller::full(std::string_view what) const {
  return (what == "agents" && round_.agents.size() >= kAgentRowsMax) ||
         (what == "frameworks" && round_.frameworks.size() >= kFrameworkRowsMax) ||
         (what == "demand" && round_.demand.size() >= kDemandRowsMax) || (what == "roles" && round_.roles.size() >= kRoleRowsMax);
}

void Poller::take_rows(std::vector<Row>& rows) {
  const std::string_view what = kSteps[step_];
  for (Row& row : rows) {
    if (what == "events") {
      round_.events.push_back(event_view(row));
      if (round_.events.size() > kEventsKept) round_.events.pop_front();
      continue;
    }
    if (full(what)) {
      round_.truncated = step_full_ = true;
      return;
    }
    if (what == "cluster") round_.leader = std::move(row);
    if (what == "agents") round_.agents.push_back(agent_view(std::move(row)));
    if (what == "frameworks") round_.frameworks.push_back(framework_view(std::move(row)));
    if (what == "demand") round_.demand.push_back(demand_view(row));
    if (what == "roles") round_.roles.push_back(role_view(std::move(row)));
  }
}

void Poller::on_reply(const Time& now, StatusReply reply) {
  if (reply.code != Code::kOk) {
    hellos_ = 0;
    return seek(now, std::string(kSteps[step_]) + ": " + reply.reason, kRefusedAgain);
  }
  const std::string last = reply.rows.empty() ? "" : reply.rows.back().name;
  const bool more = reply.more && !last.empty() && last != after_;  // a page without an end would hold us for ever
  take_rows(reply.rows);
  if (more && !step_full_) {
    after_ = last;
    return ask(now);
  }
  step_full_ = false;
  if (++step_ == kSteps.size()) {
    if (!ask_why(now)) publish(now);
    return;
  }
  after_.clear();
  if (kSteps[step_] == "events" && !round_.events.empty()) after_ = std::to_string(round_.events.back().number);
  ask(now);
}

bool Poller::ask_why(const Time& now) {
  // What is known of the round before goes on counting until it is asked again.
  std::map<std::pair<std::string, std::uint64_t>, std::string> known;
  for (DemandView& line : view_.demand) known[key_of(line)] = line.why;
  const DemandView* next = nullptr;
  for (DemandView& line : round_.demand) {
    if (const auto found = known.find(key_of(line)); found != known.end()) line.why = found->second;
    if (key_of(line) > explained_ && (next == nullptr || key_of(line) < key_of(*next))) next = &line;
  }
  if (next == nullptr)
    for (const DemandView& line : round_.demand)
      if (next == nullptr || key_of(line) < key_of(*next)) next = &line;
  if (next == nullptr) return false;
  explained_ = key_of(*next);
  due_ = now.mono + kAnswerTime;
  hooks_.send(ExplainQuery{++tag_, FrameworkId(next->framework), next->line});
  return true;
}

void Poller::on_why(const Time& now, const ExplainReply& reply) {
  for (DemandView& line : round_.demand)
    if (key_of(line) == explained_) line.why = reply.code == Code::kOk ? why_text(reply) : "";  // met or gone meanwhile
  publish(now);
}

void Poller::publish(const Time& now) {
  round_.number = view_.number + 1;
  round_.taken = now;
  round_.took = now.mono - began_;
  round_.epoch = epoch_;
  round_.cluster = cluster_;
  round_.totals = totals_of(round_);
  view_ = std::move(round_);
  round_ = View{};
  earliest_ = std::max(began_ + interval_, now.mono + view_.took * kRestTimes);
  state_ = State::kIdle;
  due_ = earliest_;
  hooks_.on_view();
}

}  // namespace bourse::console
