#include "frameworks/api/status_streams.h"

#include <algorithm>
#include <utility>

#include "common/core/hooks.h"

namespace bourse::api {

StatusStreams::Verdict StatusStreams::seen(const AgentId& agent, StreamId stream, Sequence sequence, Sequence first) {
  auto [it, fresh] = streams_.try_emplace(Key{agent, stream});
  State& state = it->second;
  if (fresh) {
    state.order = ++order_;
    // An agent that makes streams without end must not fill our memory: the eldest goes.
    auto begin = streams_.lower_bound({agent, StreamId{0}});
    auto end = std::find_if(begin, streams_.end(), [&](const auto& item) { return item.first.first != agent; });
    if (static_cast<std::size_t>(std::distance(begin, end)) > kStreamsPerAgent) {
      auto eldest = std::min_element(begin, end, [](const auto& a, const auto& b) { return a.second.order < b.second.order; });
      dirty_.erase(eldest->first);
      streams_.erase(eldest);
    }
  }
  if (first.value != 0 && first > state.next && first <= sequence) {
    state.next = first;
    (void)advance(state, Sequence(first.value - 1));  // by a life before this one
  }
  if (state.next.value == 0) {
    if (sequence.value == 1 || (state.first.value != 0 && sequence <= state.first)) {
      state.next = sequence;
    } else {
      if (state.first.value == 0) state.first = sequence;
      if (!std::exchange(state.nudged, true)) dirty_.insert(it->first);
      return Verdict::kGap;
    }
  }
  if (sequence == state.next) {
    state.next = state.next.next();
    state.nudged = false;
    return Verdict::kDeliver;
  }
  if (sequence > state.next) {
    if (!std::exchange(state.nudged, true)) dirty_.insert(it->first);
    return Verdict::kGap;
  }
  if (hooks::mutant("client.no_dedup")) return Verdict::kDeliver;
  if (sequence <= state.acked) dirty_.insert(it->first);
  return Verdict::kDuplicate;
}

bool StatusStreams::acknowledge(const AgentId& agent, StreamId stream, Sequence through) {
  auto it = streams_.find({agent, stream});
  if (it == streams_.end() || it->second.next.value == 0) return false;
  if (!advance(it->second, Sequence(std::min(through.value, it->second.next.value - 1)))) return false;
  dirty_.insert(it->first);
  return true;
}

bool StatusStreams::skip(const AgentId& agent, StreamId stream, Sequence sequence) {
  State& state = streams_.at({agent, stream});
  state.skipped.insert(sequence);
  if (!advance(state, state.acked)) return false;
  dirty_.insert({agent, stream});
  return true;
}

bool StatusStreams::advance(State& state, Sequence through) {
  const Sequence before = state.acked;
  state.acked = std::max(state.acked, through);
  while (!state.skipped.empty() && *state.skipped.begin() <= state.acked.next()) {
    state.acked = std::max(state.acked, *state.skipped.begin());
    state.skipped.erase(state.skipped.begin());
  }
  return state.acked > before;
}

void StatusStreams::repeat(const AgentId& agent, StreamId stream) {
  if (streams_.contains({agent, stream})) dirty_.insert({agent, stream});
}

void StatusStreams::repeat_all() {
  if (hooks::mutant("client.ack_not_repeated")) return;
  for (auto& [key, state] : streams_) {
    state.nudged = false;
    if (state.acked.value != 0) dirty_.insert(key);
  }
}

std::vector<StatusStreams::Ack> StatusStreams::take_acks() {
  std::vector<Ack> acks;
  acks.reserve(dirty_.size());
  for (const Key& key : dirty_) acks.push_back({key.first, key.second, streams_.at(key).acked});
  dirty_.clear();
  return acks;
}

}  // namespace bourse::api
