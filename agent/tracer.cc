#include "agent/tracer.h"

#include <algorithm>
#include <utility>

namespace bourse {
namespace {

// As W3C Baggage wants values: everything that is not a plain character as %XX.
std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte < 0x7f && std::string_view("\",;\\%=").find(c) == std::string_view::npos) {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

Span make(const TraceContext& over, std::string name, const std::string& about, Duration start, Duration end) {
  Span span;
  span.context = span_of(over, "agent " + name + " " + about + " of " + span_id_text(over.span));
  span.parent = over.span;
  span.name = std::move(name);
  span.start = start, span.end = end;
  return span;
}

}  // namespace

void AgentTracer::received(Time now, const Message& message) {
  if (message.trace.empty()) return;
  const auto context = parse_traceparent(message.trace);
  if (!context || !context->sampled) return;
  if (const auto* launch = std::get_if<Launch>(&message.body)) {
    if (tasks_.size() < kTracedMax) tasks_.emplace(TaskKey{launch->slice.framework, launch->task}, Traced{*context, now.wall});
  } else if (const auto* carve = std::get_if<CarveSlices>(&message.body)) {
    for (const SliceSpec& slice : carve->slices)
      if (slices_.size() < kTracedMax) slices_.emplace(slice.id, Traced{*context, now.wall});
  }
}

void AgentTracer::slice_said(Time now, Actions& out, Message& message, const SliceId& slice, const std::string& failure) {
  const auto it = slices_.find(slice);
  if (it == slices_.end()) return;
  message.trace = to_traceparent(it->second.context);
  Span span = make(it->second.context, "carve", to_text(slice), it->second.came, now.wall);
  span.attributes = {{"bourse.agent", agent_.str()}, {"bourse.slice", to_text(slice)}};
  span.failed = !failure.empty(), span.message = failure;
  out.span(std::move(span));
  slices_.erase(it);
}

void AgentTracer::task_said(Time now, Actions& out, Message& message, const StatusUpdate& update) {
  const TaskStatus& status = update.status;
  const auto it = tasks_.find(TaskKey{update.framework, status.task});
  if (it == tasks_.end()) return;
  Traced& t = it->second;
  message.trace = to_traceparent(t.context);
  const bool over = is_terminal(status.state);
  if (status.state != TaskState::kRunning && !over) return;
  const std::string about = status.task.str();
  const bool ran = status.started > Duration{0};
  if (!t.running) {
    Span start = make(t.context, "launch", about, t.came, ran ? status.started : now.wall);
    start.kind = Span::Kind::kConsumer;
    start.attributes = {{"bourse.agent", agent_.str()}, {"bourse.task", about}};
    start.failed = over && !ran, start.message = start.failed ? status.message : "";
    out.span(std::move(start));
    t.running = true;
  }
  if (!over) return;
  if (ran) {
    Span run = make(t.context, "run", about, status.started, status.ended > Duration{0} ? status.ended : now.wall);
    run.attributes = {{"bourse.agent", agent_.str()},
                      {"bourse.task", about},
                      {"bourse.task.state", std::string(task_state_text(status.state))},
                      {"bourse.exit_code", std::int64_t{status.exit_code}},
                      {"bourse.cpu_us", static_cast<std::int64_t>(status.cpu.count())},
                      {"bourse.memory_peak_bytes", status.mem_peak.value}};
    run.failed = status.state != TaskState::kExited || status.exit_code != 0;
    run.message = !run.failed                                       ? ""
                  : status.message.empty() && status.exit_code != 0 ? "exit code " + std::to_string(status.exit_code)
                                                                    : status.message;
    out.span(std::move(run));
  }
  tasks_.erase(it);
}

void AgentTracer::saw(Time now, const Event& event, Actions& out) {
  if (const auto* message = std::get_if<Received>(&event)) received(now, message->message);
  if (slices_.empty() && tasks_.empty()) return;
  for (Send& send : out.sends) {
    if (const auto* update = std::get_if<StatusUpdate>(&send.message.body))
      task_said(now, out, send.message, *update);
    else if (const auto* up = std::get_if<SliceUp>(&send.message.body))
      slice_said(now, out, send.message, up->spec.id, {});
    else if (const auto* gone = std::get_if<SliceGone>(&send.message.body))
      slice_said(now, out, send.message, gone->slice, gone->reason.empty() ? "it was given up" : gone->reason);
  }
}

std::string resource_attributes(const std::string& theirs, const std::string& cluster, const AgentId& agent, const TaskKey& task) {
  std::string out = theirs;
  for (const auto& [name, value] : {std::pair<const char*, std::string>{"bourse.cluster", cluster},
                                    {"bourse.agent", agent.str()},
                                    {"bourse.framework", task.framework.str()},
                                    {"bourse.task", task.task.str()}})
    if (!value.empty()) out += (out.empty() ? "" : ",") + std::string(name) + "=" + percent_encoded(value);
  return out;
}

}  // namespace bourse
