#include "agent/status_stream.h"

#include <algorithm>

#include "common/core/hooks.h"
#include "common/world/log.h"

namespace bourse {

StatusStreams::Renumbered StatusStreams::renew(StreamId stream) {
  Renumbered renumbered;
  stream_ = stream;
  for (auto& [framework, s] : streams_) {
    std::vector<Sequence>& kept = renumbered[framework];
    std::deque<Entry> ends;
    for (std::size_t i = 0; i < s.unacked.size(); ++i) {
      if (!is_terminal(s.unacked[i].status.state)) continue;
      kept.push_back(Sequence(s.acked + 1 + i));
      ends.push_back(std::move(s.unacked[i]));
    }
    const bool timer = s.timer;
    s = Stream{};
    s.timer = timer;
    s.unacked = std::move(ends);
    s.sent = s.released = s.last();  // as if restored
  }
  return renumbered;
}

Sequence StatusStreams::add(Turn& turn, const FrameworkId& framework, const SliceId& slice, const TaskStatus& status,
                            Sequence previous, bool more_follow) {
  Stream& s = streams_[framework];
  std::uint64_t at = s.last() + 1;
  if (previous.value > s.sent && previous.value > s.acked && previous.value <= s.last() &&
      !is_terminal(s.unacked[previous.value - s.acked - 1].status.state)) {
    at = previous.value;
    s.unacked[at - s.acked - 1] = Entry{slice, status};
  } else {
    if (s.unacked.size() >= kUnacknowledgedMax) {
      turn.out.log(
          log_text(LogLevel::kWarn, "status_dropped",
                   {{"framework", framework.str()}, {"task", status.task.str()}, {"reason", "too many are unacknowledged"}}));
      return Sequence(0);
    }
    if (s.unacked.empty()) s.progress = turn.now.mono;
    s.unacked.push_back(Entry{slice, status});
  }
  turn.record(StatusRecord{framework, Sequence(at), slice, status});
  if (is_terminal(status.state) && !more_follow) {
    s.released = std::max(s.released, at);
  } else {
    const Duration wait = is_terminal(status.state) ? kGather : kHold;
    if (flush_at_ < Duration(0) || turn.now.mono + wait < flush_at_) {
      flush_at_ = turn.now.mono + wait;
      turn.out.arm(timer_key(AgentTimer::kFlush), wait);
    }
  }
  pump(turn, framework, s);
  return Sequence(at);
}

void StatusStreams::pump(Turn& turn, const FrameworkId& framework, Stream& s) {
  if (!turn.session.up()) return;
  const std::uint64_t until = std::min({s.released, s.acked + s.window, s.last()});
  while (s.cursor < until) {
    const Entry& entry = s.unacked[s.cursor - s.acked];
    ++s.cursor;
    turn.say(StatusUpdate{agent_, framework, stream_, Sequence(s.cursor), entry.slice, entry.status, Sequence(s.acked + 1)});
  }
  s.sent = std::max(s.sent, s.cursor);
  if (!s.timer && !s.unacked.empty()) {
    s.timer = true;
    turn.out.arm(timer_key(AgentTimer::kResend, 0, framework.str()), kResendEvery);
  }
}

std::vector<StatusStreams::Acked> StatusStreams::ack(Turn& turn, const FrameworkId& framework, StreamId stream, Sequence through) {
  const auto it = streams_.find(framework);
  if (stream != stream_ || it == streams_.end()) return {};
  Stream& s = it->second;
  // More than was ever sent is not ours to believe: it would free tombstones of tasks whose end nobody heard.
  if (through.value > s.sent || through.value < s.acked) return {};
  if (through.value == s.acked) {
    // Nothing new: the framework misses the next one. Not at each such word, for several may be on their way.
    if (s.sent > s.acked && turn.now.mono - s.gone_back >= kGoBackEvery && !hooks::mutant("agent.status_not_resent")) {
      s.gone_back = turn.now.mono;
      s.cursor = s.acked;
      pump(turn, framework, s);
    }
    return {};
  }
  turn.record(AckedRecord{framework, through});
  std::vector<Acked> gone;
  while (s.acked < through.value) {
    ++s.acked;
    gone.push_back({Sequence(s.acked), std::move(s.unacked.front().status)});
    s.unacked.pop_front();
  }
  s.cursor = std::max(s.cursor, s.acked);
  s.window = kWindow;
  s.progress = turn.now.mono;
  pump(turn, framework, s);
  return gone;
}

bool StatusStreams::acked(const FrameworkId& framework, Sequence sequence) const {
  const auto it = streams_.find(framework);
  return it == streams_.end() || sequence.value <= it->second.acked;
}

void StatusStreams::session_up(Turn& turn) {
  if (hooks::mutant("agent.status_not_resent")) {
    for (auto& [framework, s] : streams_) s.cursor = s.sent;
  } else {
    for (auto& [framework, s] : streams_) s.cursor = s.acked;
  }
  for (auto& [framework, s] : streams_) {
    s.window = kWindow;
    s.released = s.last();
    if (s.progress == Duration(0)) s.progress = turn.now.mono;  // restored
    pump(turn, framework, s);
  }
}

void StatusStreams::resend(Turn& turn, const FrameworkId& framework) {
  const auto it = streams_.find(framework);
  if (it == streams_.end() || hooks::mutant("agent.status_not_resent")) return;
  it->second.cursor = it->second.acked;
  it->second.window = kWindow;
  it->second.released = it->second.last();
  pump(turn, framework, it->second);
}

void StatusStreams::resend_due(Turn& turn, const FrameworkId& framework) {
  const auto it = streams_.find(framework);
  if (it == streams_.end()) return;
  Stream& s = it->second;
  s.timer = false;
  if (s.unacked.empty() || !turn.session.up()) return;
  const Duration quiet = turn.now.mono - s.progress;
  if (quiet >= kResendEvery && !hooks::mutant("agent.status_not_resent")) {
    s.cursor = s.acked;
    s.window = kProbe;
    s.released = std::max(s.released, std::min(s.last(), s.acked + kProbe));
  }
  pump(turn, framework, s);
}

void StatusStreams::flush_due(Turn& turn) {
  flush_at_ = Duration(-1);
  for (auto& [framework, s] : streams_) {
    s.released = s.last();
    pump(turn, framework, s);
  }
}

std::size_t StatusStreams::unacknowledged() const {
  std::size_t n = 0;
  for (const auto& [framework, s] : streams_) n += s.unacked.size();
  return n;
}

bool StatusStreams::idle(const FrameworkId& framework) const {
  const auto it = streams_.find(framework);
  return it == streams_.end() || it->second.unacked.empty();
}

bool StatusStreams::abandoned(Time now, const FrameworkId& framework) const {
  const auto it = streams_.find(framework);
  return it != streams_.end() && !it->second.unacked.empty() && now.mono - it->second.progress >= kKeep;
}

void StatusStreams::drop(Turn& turn, const FrameworkId& framework) {
  const auto it = streams_.find(framework);
  if (it == streams_.end() || it->second.unacked.empty()) return;
  Stream& s = it->second;
  turn.out.log(
      log_text(LogLevel::kWarn, "statuses_abandoned",
               {{"framework", framework.str()}, {"count", std::to_string(s.unacked.size())}, {"reason", "framework is gone"}}));
  s.acked = s.cursor = s.sent = s.released = s.last();
  s.unacked.clear();
  turn.record(AckedRecord{framework, Sequence(s.acked)});
}

void StatusStreams::restore(const StatusRecord& record) {
  Stream& s = streams_[record.framework];
  const std::uint64_t at = record.sequence.value;
  if (at <= s.acked) return;
  if (at <= s.last()) {
    s.unacked[at - s.acked - 1] = Entry{record.slice, record.status};
  } else if (at == s.last() + 1) {
    s.unacked.push_back(Entry{record.slice, record.status});
  } else {
    return;
  }
  s.sent = s.released = s.last();  // may have been sent by an earlier life: not to be changed any more
}

std::vector<StatusStreams::Acked> StatusStreams::restore(const AckedRecord& record) {
  Stream& s = streams_[record.framework];
  std::vector<Acked> gone;
  while (s.acked < record.through.value && !s.unacked.empty()) {
    ++s.acked;
    gone.push_back({Sequence(s.acked), std::move(s.unacked.front().status)});
    s.unacked.pop_front();
  }
  s.acked = std::max(s.acked, record.through.value);
  s.cursor = s.acked;
  s.sent = s.released = s.last();
  return gone;
}

void StatusStreams::snapshot(std::vector<CheckpointRecord>& out) const {
  for (const auto& [framework, s] : streams_) {
    out.emplace_back(AckedRecord{framework, Sequence(s.acked)});
    for (std::size_t i = 0; i < s.unacked.size(); ++i)
      out.emplace_back(StatusRecord{framework, Sequence(s.acked + 1 + i), s.unacked[i].slice, s.unacked[i].status});
  }
}

}  // namespace bourse
