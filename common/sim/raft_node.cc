#include "common/sim/raft_node.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <variant>

#include "common/sim/world.h"
#include "master/raft_wire.h"

namespace bourse::sim {

// --- the network -----------------------------------------------------------------------------------------------------

void PeerNet::send(Ix from, Ix to, std::string bytes, const std::function<void(const std::string&)>& deliver) {
  Pair& pair = pairs_[{from, to}];
  if (pair.blocked) {
    if (pair.waiting.size() < kWaitingMax) pair.waiting.emplace_back(std::move(bytes), deliver);
    return;
  }
  if (options_.lost_permille != 0 && rng_.chance(options_.lost_permille)) return;
  const Duration most = rng_.chance(options_.slow_permille) ? options_.delay_slow : options_.delay_max;
  pair.last = std::max(pair.last, queue_.now() + Duration(rng_.between(options_.delay_min.count(), most.count())));
  const int copies = options_.duplicate_permille != 0 && rng_.chance(options_.duplicate_permille) ? 2 : 1;
  queue_.at(pair.last, [bytes = std::move(bytes), deliver, copies] {
    for (int n = copies; n > 0; --n) deliver(bytes);
  });
}

void PeerNet::block(Ix from, Ix to, bool blocked) {
  Pair& pair = pairs_[{from, to}];
  pair.blocked = blocked;
  if (blocked) return;
  const bool survives = rng_.chance(500);
  for (auto& [bytes, deliver] : std::exchange(pair.waiting, {}))
    if (survives) send(from, to, std::move(bytes), deliver);
}

// --- the node --------------------------------------------------------------------------------------------------------

namespace {
std::string text_of(const std::string& bytes) {
  const auto said = decode_raft(bytes);
  if (!said || std::holds_alternative<RaftPing>(said->body)) return "ping";
  const auto with = [](const char* name, std::initializer_list<std::pair<const char*, std::uint64_t>> fields) {
    std::string out = name;
    for (const auto& [field, value] : fields) out += " " + std::string(field) + "=" + std::to_string(value);
    return out;
  };
  const raft_message& m = std::get<RaftMessage>(said->body).value;
  switch (m.type) {
    case RAFT_IO_APPEND_ENTRIES:
      return with("append", {{"term", m.append_entries.term},
                             {"after", m.append_entries.prev_log_index},
                             {"of", m.append_entries.prev_log_term},
                             {"entries", m.append_entries.n_entries},
                             {"commit", m.append_entries.leader_commit}});
    case RAFT_IO_APPEND_ENTRIES_RESULT:
      return with("appended", {{"term", m.append_entries_result.term},
                               {"rejected", m.append_entries_result.rejected},
                               {"last", m.append_entries_result.last_log_index},
                               {"echo", said->echo}});
    case RAFT_IO_REQUEST_VOTE:
      return with(m.request_vote.pre_vote ? "would_vote" : "vote", {{"term", m.request_vote.term},
                                                                    {"last", m.request_vote.last_log_index},
                                                                    {"of", m.request_vote.last_log_term},
                                                                    {"disrupt", m.request_vote.disrupt_leader ? 1 : 0}});
    case RAFT_IO_REQUEST_VOTE_RESULT:
      return with("voted", {{"term", m.request_vote_result.term}, {"granted", m.request_vote_result.vote_granted ? 1 : 0}});
    case RAFT_IO_INSTALL_SNAPSHOT:
      return with("snapshot", {{"term", m.install_snapshot.term}, {"last", m.install_snapshot.last_index}});
    default:
      return with("timeout_now", {{"term", m.timeout_now.term}});
  }
}
}  // namespace

void RaftNode::Machine::apply(std::uint64_t index, const std::vector<std::string>& records) {
  RegistryMachine::apply(index, records);
  if (!failure().empty()) node_.world_.violation(node_.node_.name() + ": entry " + std::to_string(index) + ": " + failure());
  for (Observer* o : node_.world_.observers()) o->applied(node_.node_, index, *this);
}

RaftNode::RaftNode(World& world, Node& node, const Raft::Options& options, Rng rng)
    : world_(world), node_(node), rng_(rng), machine_(*this), raft_(std::make_unique<Raft>(options, *this, machine_)) {}

void RaftNode::begin() {
  const Started content = node_.disk().load(Incarnation(0));
  const auto begun = raft_->start(content.snapshot, content.records);
  if (begun) return;
  if (begun.error().code() == Code::kLimit) return die();  // no space
  world_.violation(node_.name() + " cannot read its log: " + begun.error().text());
}

// The process ends; whoever watches over it starts it again.
void RaftNode::die() {
  world_.queue().after(Duration(0), node_.while_alive([&node = node_] { node.kill(); }));
  world_.queue().after(seconds(1), [&node = node_] { node.start(); });
}

void RaftNode::abandon() {
  dead_ = true;
  raft_->abandon();
  asleep_.clear();
}

void RaftNode::stall(bool stalled) {
  stalled_ = stalled;
  while (!stalled_ && !asleep_.empty()) {
    const auto call = std::move(asleep_.front());
    asleep_.pop_front();
    call();
  }
}

void RaftNode::when_awake(std::function<void()> call) {
  if (dead_) return;
  if (stalled_) {
    asleep_.push_back(std::move(call));
  } else {
    call();
  }
}

void RaftNode::deliver(const std::string& bytes) {
  when_awake([this, bytes] { raft_->received(bytes); });
}

Time RaftNode::now() { return node_.time(); }
Result<> RaftNode::write(const std::vector<std::string>& records) { return node_.disk().write(records); }
Result<> RaftNode::write_through(const std::string& record) { return node_.disk().write_through(record); }
Result<> RaftNode::compact(const std::string& snapshot) { return node_.disk().compact(snapshot); }
Result<> RaftNode::sync() { return node_.disk().sync(); }

// The world's queue may outlive this life of the node: the node knows.
void RaftNode::flush(std::function<void()> done) {
  node_.disk().flush([this, alive = node_.while_alive([this, done = std::move(done)] { when_awake(done); }),
                      ends = node_.while_alive([this] { die(); })](bool flushed) { flushed ? alive() : ends(); });
}

void RaftNode::after(Duration delay, std::function<void()> call) {
  world_.queue().after(node_.honest(delay), node_.while_alive([this, call = std::move(call)] { when_awake(call); }));
}

void RaftNode::fatal(const std::string& why) { world_.violation(node_.name() + ": " + why); }

void RaftNode::send(const RaftServer& to, std::string bytes) {
  Node* other = world_.master_named(to.name);
  if (other == nullptr || other == &node_) return;
  if (world_.options().log_to_stderr) world_.log(node_, "> " + to.name + " " + text_of(bytes));
  world_.peers().send(node_.ix(), other->ix(), std::move(bytes), [other](const std::string& arrived) {
    if (other->raft() != nullptr) other->raft()->deliver(arrived);
  });
}

void RaftNode::post(Event event) { node_.post(std::move(event)); }

void RaftNode::log(LogLevel level, std::string_view event, LogFields fields) {
  if (world_.options().log_to_stderr) world_.log(node_, log_text(level, event, fields));
}

}  // namespace bourse::sim
