#include "frameworks/batch/wire_replay.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>

#include "agent/agent.h"
#include "common/sim/world.h"
#include "frameworks/batch/batch.h"
#include "frameworks/batch/protocol.h"
#include "frameworks/batch/replay.h"
#include "master/master.h"

namespace bourse::batch {

namespace {

constexpr Duration kBoot = seconds(5);               // before the first job: everybody has said hello
constexpr Duration kBeforeLimit = milliseconds(20);  // a task ends this much before its limit, not in a race with it
constexpr Duration kQuietHeartbeat = std::chrono::hours(12);

Inventory inventory_of(const std::string& name, const SimulatedNodes& group) {
  const std::uint32_t cores = group.cpu_milli > 0 ? static_cast<std::uint32_t>(group.cpu_milli / 1000) : group.cores;
  const std::int64_t mem = group.mem > 0 ? group.mem : std::int64_t{cores} << 32;
  Inventory inventory;
  inventory.version = Version(1);
  inventory.topology.type = "machine";
  TopologyNode numa;
  numa.type = "numa";
  numa.amount = mem;
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
  inventory.total = total_of(group, name);
  inventory.total.cpus.value = std::int64_t{cores} * 1000;
  inventory.total.mem.value = mem;
  inventory.total.numa = {{0, inventory.total.cpus, inventory.total.mem}};
  for (const DeviceShare& share : inventory.total.devices) {
    Device device;
    device.id = share.device, device.kind = share.kind, device.model = group.gpu_model, device.counters = share.counters;
    device.mode = Device::Mode::kCounters;
    inventory.devices.push_back(std::move(device));
  }
  inventory.labels = group.labels;
  inventory.labels["host"] = name, inventory.labels["arch"] = "x86_64";
  if (!group.gpu_model.empty()) inventory.labels["gpu_model"] = group.gpu_model;
  return inventory;
}

class Replay final : public sim::Observer {
 public:
  Replay(std::vector<sim::TraceJob>& jobs, const SimulateOptions& options)
      : jobs_(jobs),
        shapes_(options.shapes),
        largest_(largest_of(options.nodes)),
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
    sim::Report report = sim::summarise(jobs_, processors_of(options.nodes));
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
    std::size_t number = 0;
    const std::vector<std::string> names = names_of(options.nodes);
    for (const SimulatedNodes& group : options.nodes) {
      for (std::uint32_t i = 0; i < group.count; ++i) {
        AgentOptions agent;
        agent.id = AgentId(names[number++]);
        agent.settings.probes = {"simulated"};
        world_.add_agent(agent.id, inventory_of(agent.id.value, group), [agent](const std::string& boot_id) {
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
    batch.backfill = options.backfill;
    batch.policy = options.policy;
    batch.backfill_depth = 1'000'000;
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
    sim::TraceShape shape;
    shape.tasks = job.processors;
    if (shapes_ != nullptr) shape = (*shapes_)[job.shape];
    if (auto asked = ask_for(shape, largest_, spec); !asked) return refuse(index, asked.error().text());
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
    refuse(static_cast<std::size_t>(read->tag), refusal);
  }
  void refuse(std::size_t index, const std::string& why) {
    if (refused_++ == 0) first_refusal_ = "job " + std::to_string(jobs_[index].number) + ": " + why;
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
  const std::vector<sim::TraceShape>* shapes_;
  Largest largest_;
  std::map<std::uint64_t, std::size_t> by_id_;
  std::uint64_t ended_ = 0, refused_ = 0;
  std::string first_refusal_;
  sim::World world_;
  sim::Node& batch_;
};

}  // namespace

Result<sim::Report> simulate(std::vector<sim::TraceJob>& jobs, const SimulateOptions& options) {
  Replay replay(jobs, options);
  return replay.run(options);
}

}  // namespace bourse::batch
