#include "frameworks/batch/simulate.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>

#include "agent/agent.h"
#include "common/sim/world.h"
#include "frameworks/batch/batch.h"
#include "frameworks/batch/protocol.h"
#include "master/master.h"

namespace bourse::batch {

namespace {

constexpr Duration kBoot = seconds(5);               // before the first job: everybody has said hello
constexpr Duration kBeforeLimit = milliseconds(20);  // a task ends this much before its limit, not in a race with it
constexpr Duration kQuietHeartbeat = std::chrono::hours(12);

Inventory inventory_of(const std::string& name, std::uint32_t cores) {
  Inventory inventory;
  inventory.version = Version(1);
  inventory.topology.type = "machine";
  TopologyNode numa;
  numa.type = "numa";
  numa.amount = std::int64_t{cores} << 32;
  for (std::uint32_t i = 0; i < cores; ++i) {
    TopologyNode core, unit;
    core.type = "core";
    core.index = i;
    unit.type = "pu";
    unit.index = i;
    core.children.push_back(unit);
    numa.children.push_back(core);
  }
  inventory.topology.children.push_back(numa);
  inventory.total.cpus.value = std::int64_t{cores} * 1000;
  inventory.total.mem.value = std::int64_t{cores} << 32;
  inventory.total.numa = {{0, inventory.total.cpus, inventory.total.mem}};
  inventory.labels = {{"host", name}, {"arch", "x86_64"}};
  return inventory;
}

class Replay final : public sim::Observer {
 public:
  Replay(std::vector<sim::TraceJob>& jobs, const SimulateOptions& options)
      : jobs_(jobs),
        world_(world_options(options), [this](const TaskKey& key, const TaskSpec&) { return plan(key); }),
        batch_(build(options)) {
    world_.observe(*this);
    world_.on_reply = [this](sim::Node&, const Reply& reply) { answered(reply); };
  }

  Result<sim::Report> run(const SimulateOptions& options) {
    for (std::size_t i = 0; i < world_.nodes(); ++i) world_.node(static_cast<std::uint32_t>(i)).start();
    submit_from(0);
    Duration work = std::chrono::hours(24 * 30);  // no schedule, however bad, takes longer than one job after the other
    for (const sim::TraceJob& job : jobs_) work += job.run;
    if (!jobs_.empty()) work += jobs_.back().submit;
    const bool done = world_.run_until([this] { return ended_ + refused_ == jobs_.size(); }, work);
    if (!world_.violated().empty()) return Error(Code::kCorrupt, world_.violated());
    if (!done) {
      const auto at = std::find_if(jobs_.begin(), jobs_.end(), [](const sim::TraceJob& j) { return j.end < Duration(0); });
      return Error(Code::kTimeout, "job " + std::to_string(at == jobs_.end() ? 0 : at->number) + " of the trace never ended (" +
                                       std::to_string(ended_) + " of " + std::to_string(jobs_.size()) + " did)");
    }
    std::uint64_t processors = 0;
    for (const SimulatedNodes& group : options.nodes) processors += std::uint64_t{group.count} * group.cores;
    sim::Report report = sim::summarise(jobs_, processors);
    report.refused = refused_;
    report.first_refusal = first_refusal_;
    report.events = world_.events();
    report.trace_hash = world_.trace().hash();
    return report;
  }

  void started(const TaskKey& key, const sim::Execution& execution) override {
    if (sim::TraceJob* job = job_of(key)) job->start = execution.started - kBoot;
  }
  void ended(const TaskKey& key, const sim::Execution& execution) override {
    sim::TraceJob* job = job_of(key);
    if (job == nullptr || job->end >= Duration(0)) return;
    job->end = execution.ended - kBoot;
    ++ended_;
  }

 private:
  static sim::WorldOptions world_options(const SimulateOptions& options) {
    sim::WorldOptions world;
    world.seed = options.seed;
    world.log_to_stderr = options.log_to_stderr;
    world.network.slow_permille = 0;
    return world;
  }

  sim::Node& build(const SimulateOptions& options) {
    // Nothing fails here, so heartbeats would only be noise: a day of a quiet cluster costs a few events.
    MasterOptions master;
    master.heartbeat = kQuietHeartbeat;
    master.peer_timeout = 10 * kQuietHeartbeat;
    master.offer_ttl = std::chrono::minutes(10);
    world_.add_master([master] { return std::make_unique<Master>(master); });
    std::uint32_t number = 0;
    for (const SimulatedNodes& group : options.nodes) {
      for (std::uint32_t i = 0; i < group.count; ++i) {
        AgentOptions agent;
        agent.id = AgentId("n" + std::to_string(++number));
        agent.probes = {"simulated"};
        world_.add_agent(agent.id, inventory_of(agent.id.value, group.cores), [agent](const std::string& boot_id) {
          AgentOptions with_boot = agent;
          with_boot.boot_id = boot_id;
          return std::make_unique<Agent>(with_boot);
        });
      }
    }
    ClientOptions client;
    client.framework = FrameworkId("batch");
    client.role = RoleName("batch");
    client.watch_agents = true;
    BatchOptions batch;
    batch.max_time_limit = kNoLimit;
    batch.slice_idle = milliseconds(1);
    batch.backfill_depth = options.backfill ? 1'000'000 : 0;
    return world_.add_framework(client, [batch] { return std::make_unique<Batch>(batch); });
  }

  // One arrival arms the next, so that a trace of a million jobs is not in the queue at once.
  void submit_from(std::size_t first) {
    if (first >= jobs_.size()) return;
    world_.queue().at(kBoot + jobs_[first].submit, [this, first] {
      std::size_t next = first;
      for (; next < jobs_.size() && jobs_[next].submit == jobs_[first].submit; ++next) submit(next);
      submit_from(next);
    });
  }

  void submit(std::size_t index) {
    const sim::TraceJob& job = jobs_[index];
    SubmitRequest::Item item;
    item.key = "trace-" + std::to_string(index);
    JobSpec& spec = item.spec;
    spec.name = "job" + std::to_string(job.number);
    spec.user = "user" + std::to_string(std::max<std::int64_t>(job.user, 0));
    spec.uid = spec.gid = 1000 + std::max<std::int64_t>(job.user, 0);
    spec.script = "#!/bin/sh\n";
    spec.directory = spec.submit_dir = "/";
    spec.submit_host = "trace";
    spec.tasks = job.processors;
    spec.cpus_per_task = 1;
    spec.time_limit = job.limit;
    spec.requeue = false;
    ToolRequest request;
    request.tag = index;
    request.body = SubmitRequest{{std::move(item)}, false};
    Request event;
    event.peer = PeerId(7);
    event.uid = event.gid = spec.uid;
    event.uid = event.gid = 1000 + std::max<std::int64_t>(job.user, 0);
    event.payload = encode(request);
    world_.request(batch_, std::move(event));
  }

  void answered(const Reply& reply) {
    auto read = decode_reply(reply.payload);
    if (!read) return world_.violation("an answer of batch cannot be read: " + read.error().text());
    std::string refusal;
    if (const auto* refused = std::get_if<RequestRefused>(&read->body)) refusal = refused->reason;
    if (const auto* submitted = std::get_if<SubmitReply>(&read->body)) {
      if (submitted->items.size() == 1 && submitted->items[0].code == Code::kOk) {
        by_id_[submitted->items[0].id.value] = static_cast<std::size_t>(read->tag);
        return;
      }
      refusal = submitted->items.empty() ? "no answer for the job" : submitted->items[0].reason;
    }
    if (refused_++ == 0)
      first_refusal_ = "job " + std::to_string(jobs_[static_cast<std::size_t>(read->tag)].number) + ": " + refusal;
  }

  // Task ids of batch begin with the job's number.
  sim::TraceJob* job_of(const TaskKey& key) {
    std::uint64_t id = 0;
    const std::string& text = key.task.value;
    std::from_chars(text.data(), text.data() + text.size(), id);
    const auto at = by_id_.find(id);
    return at == by_id_.end() ? nullptr : &jobs_[at->second];
  }
  sim::TaskPlan plan(const TaskKey& key) {
    sim::TaskPlan plan;
    if (const sim::TraceJob* job = job_of(key)) {
      plan.run = std::max<Duration>(job->run - kBeforeLimit, milliseconds(1));
    } else {
      plan.start_error = "not a job of the trace";
    }
    return plan;
  }

  std::vector<sim::TraceJob>& jobs_;
  std::map<std::uint64_t, std::size_t> by_id_;
  std::uint64_t ended_ = 0, refused_ = 0;
  std::string first_refusal_;
  sim::World world_;
  sim::Node& batch_;
};

}  // namespace

Result<std::vector<SimulatedNodes>> parse_simulated_nodes(std::string_view text) {
  const auto bad = [&](const std::string& why) {
    return Error(Code::kInvalid, "nodes \"" + std::string(text.substr(0, 64)) + "\": " + why);
  };
  std::vector<SimulatedNodes> groups;
  std::string_view rest = text;
  std::uint64_t nodes = 0;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t by = part.find('x');
    SimulatedNodes group;
    const auto number = [](std::string_view digits, std::uint32_t& out) {
      const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
      return failure == std::errc{} && end == digits.data() + digits.size() && out > 0 && out <= kSimulatedNodesMax;
    };
    if (by == std::string_view::npos || !number(part.substr(0, by), group.count) || !number(part.substr(by + 1), group.cores)) {
      return bad("write COUNTxCORES, as in 240x1 or 20x80,48x12");
    }
    nodes += group.count;
    if (nodes > kSimulatedNodesMax) return bad("more than " + std::to_string(kSimulatedNodesMax) + " nodes");
    groups.push_back(group);
    if (comma == std::string_view::npos) return groups;
    rest.remove_prefix(comma + 1);
  }
}

Result<sim::Report> simulate(std::vector<sim::TraceJob>& jobs, const SimulateOptions& options) {
  Replay replay(jobs, options);
  return replay.run(options);
}

}  // namespace bourse::batch
