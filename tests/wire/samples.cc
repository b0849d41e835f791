#include "tests/wire/samples.h"

#include <sys/resource.h>
#include <algorithm>
#include <csignal>

namespace bourse::test {
namespace {

Counters counters(std::initializer_list<std::pair<const char*, std::int64_t>> items) {
  Counters made;
  for (const auto& [name, amount] : items) made.set(name, amount);
  return made;
}

Resources sample_resources() {
  Resources r;
  r.cpus = MilliCpus(6500);
  r.mem = Bytes(12LL << 30);
  r.disk = Bytes(500LL << 30);
  r.ports = *Ports::parse("8080,31000-31009,65535");
  r.others = counters({{"licence.solver", 3}, {"vf", 8}});
  r.numa = {{0, MilliCpus(2500), Bytes(4LL << 30)}, {1, MilliCpus(4000), Bytes(8LL << 30)}};
  r.devices = {{DeviceId("GPU-0a"), "gpu/nvidia", Generation(3), true, "", {}},
               {DeviceId("GPU-0b"), "gpu/nvidia", Generation(4), false, "1g.10gb", counters({{"compute", 142}, {"mem", 10240}})},
               {DeviceId("npu:0"), "npu/ascend", Generation(1), false, "", counters({{"npu.compute", 8}, {"npu.control", 2}})}};
  return r;
}

Shape sample_shape() {
  Shape s;
  s.cpus = MilliCpus(4000);
  s.mem = Bytes(8LL << 30);
  s.disk = Bytes(1LL << 30);
  s.ports = 2;
  s.whole_host = true;
  s.same_numa = true;
  s.others = counters({{"licence.solver", 1}});
  s.devices = {{"gpu/", 2, false, "1g.10gb", counters({{"mem", 1024}}), {{"model", Constraint::Op::kIn, {"A100", "H100"}}}},
               {"fpga", 1, true, "", {}, {}}};
  s.constraints = {{"zone", Constraint::Op::kIn, {"a", "b"}},
                   {"rack", Constraint::Op::kNotIn, {"r2"}},
                   {"ssd", Constraint::Op::kPresent, {}},
                   {"old", Constraint::Op::kAbsent, {}}};
  return s;
}

Shape sample_placed_shape() {
  Shape s;
  s.cpus = MilliCpus(500);
  s.constraints = {*make_constraint("*", Constraint::Op::kMatches, {"(ssd|nvme)&agent.mem>=64GiB"})};
  s.devices = {{"gpu/", 1, true, "", {}, {*make_constraint("*", Constraint::Op::kMatches, {"driver>=535.6"})}}};
  s.group = "web";
  s.placement = {{.kind = Placement::Kind::kSpread, .level = "zone", .max_skew = 2},
                 {.kind = Placement::Kind::kPack, .level = "rack", .required = false},
                 {.kind = Placement::Kind::kAffinity, .level = "host", .framework = FrameworkId("store"), .group = "db"},
                 {.kind = Placement::Kind::kAntiAffinity, .level = "rack", .group = "cache"}};
  return s;
}

Labels sample_labels() { return {{"arch", "x86_64"}, {"host", "h7"}, {"note", ""}, {"zone", "east, upper floor"}}; }

const FrameworkId kBatch{"batch"};
const AgentId kAgent{"h7.example.org"};
const SliceId kSlice{kBatch, (5ULL << 24) + 17};

TopologyNode leaf(const char* type, std::uint32_t index) { return {type, index, "", 0, {}, {}}; }

Message wrap(Body body) {
  return {Epoch(7), Incarnation(1234567890123), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", std::move(body)};
}

std::string all_bytes() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}

}  // namespace

Inventory sample_inventory() {
  Inventory inventory;
  inventory.version = Version(9);
  inventory.topology = {"machine", 0, "board", 16LL << 30, {{"kernel", "6.1.0"}}, {}};
  TopologyNode package{"package", 1, "EPYC 7763", 0, {}, {{"numa", 1, "", 8LL << 30, {}, {}}}};
  package.children[0].children = {
      {"l3", 0, "", 32LL << 20, {{"ways", "16"}}, {{"core", 4, "", 0, {}, {leaf("pu", 4), leaf("pu", 12)}}}}};
  inventory.topology.children = {package, {"pci", 0, "0000:01:00.0", 0, {{"class", "0302"}}, {}}};
  Device gpu;
  gpu.id = DeviceId("GPU-0b");
  gpu.kind = "gpu/nvidia";
  gpu.vendor = "NVIDIA";
  gpu.model = "A100 80GB";
  gpu.pci = "0000:01:00.0";
  gpu.numa = 1;
  gpu.generation = Generation(4);
  gpu.mode = Device::Mode::kTemplate;
  gpu.healthy = false;
  gpu.counters = counters({{"compute", 1000}, {"mem", 81920}});
  gpu.profiles = {{"1g.10gb", counters({{"compute", 142}, {"mem", 10240}})}, {"none", {}}};
  gpu.attributes = {{"driver", "535"}, {"ecc", "on"}};
  gpu.nodes = {"/dev/nvidia0", "/dev/nvidiactl"};
  gpu.links = {DeviceId("GPU-0a"), DeviceId("GPU-0c")};
  Device plain;
  plain.id = DeviceId("npu:0");
  plain.kind = "npu/ascend";
  plain.mode = Device::Mode::kCounters;
  Device sliced;
  sliced.id = DeviceId("x");
  sliced.kind = "gpu/amd";
  sliced.mode = Device::Mode::kTimeSliced;
  inventory.devices = {gpu, plain, sliced};
  inventory.total = sample_resources();
  inventory.labels = sample_labels();
  inventory.notes = {"memory: hwloc 16GiB, kernel 24GiB; using 16GiB", ""};
  return inventory;
}

SliceSpec sample_slice() {
  return {.id = kSlice,
          .resources = sample_resources(),
          .cpuset = {4, 12, 5, 13},
          .gang = GangId(77),
          .expiry = seconds(60),
          .role = "physics/lattice"};
}

SliceSpec sample_group_slice() {
  SliceSpec spec = sample_slice();
  spec.group = "web";
  return spec;
}

TaskStatus sample_status() {
  return {.task = TaskId("12.0.1"),
          .state = TaskState::kOutOfMemory,
          .exit_code = -3,
          .signal = SIGKILL,
          .message = "used 2.1GiB of 2GiB; größer wäre besser",
          .started = seconds(1'700'000'000),
          .ended = seconds(1'700'000'123),
          .cpu = milliseconds(98'765),
          .mem_peak = Bytes(2LL << 30)};
}

TaskSpec sample_task() {
  TaskSpec spec;
  spec.kind = TaskKind::kContainer;
  spec.user = "ada";
  spec.uid = 1000;
  spec.gid = 100;
  spec.credential = all_bytes();
  spec.argv = {"{artifact:script}", "", "a b", "--x=\n"};
  spec.env = {"PATH=/usr/bin:/bin", "EMPTY=", "UMLAUT=ü"};
  spec.directory = "/home/ada/work dir";
  spec.stdin_path = "/dev/null";
  spec.stdout_path = "slurm-12.out";
  spec.stderr_path = "err/12";
  spec.append_output = true;
  spec.umask = 0077;
  spec.rlimits = {{RLIMIT_NOFILE, 1024, 4096}, {RLIMIT_CORE, 0, RLIM_INFINITY}};
  spec.artifacts = {{"script", "sha256:00ff", "#!/bin/sh\nexit 0\n", ""}, {"image", "sha256:11", "", "https://example.org/i"}};
  spec.time_limit = seconds(3600);
  spec.kill_grace = seconds(5);
  spec.warn_signal = SIGUSR1;
  spec.warn_before = seconds(60);
  spec.warn_shell_only = true;
  spec.fence_lease = true;
  spec.trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  return spec;
}

TaskSpec sample_container_task() {
  TaskSpec spec = sample_task();
  spec.image = "/srv/images/solver:v2";
  spec.mounts = {"/scratch", "/data:/input:ro"};
  spec.isolate = {"private-tmp", "net"};
  return spec;
}

TaskSpec sample_priority_task() {
  TaskSpec spec = sample_task();
  spec.priority = -7;
  return spec;
}

TaskSpec sample_in_turn_task() {
  TaskSpec spec = sample_task();
  spec.in_turn = true;
  return spec;
}

std::vector<std::pair<std::string, Message>> samples() {
  std::vector<std::pair<std::string, Message>> all;
  const auto add = [&](std::string name, Body body) { all.emplace_back(std::move(name), wrap(std::move(body))); };

  add("AgentHello", AgentHello{3,
                               kAgent,
                               Incarnation(5),
                               Epoch(6),
                               "b7c0-boot",
                               sample_inventory(),
                               {{sample_slice(), true, {TaskId("12.0.1"), TaskId("13.0.1")}}},
                               true});
  add("FrameworkHello",
      FrameworkHello{2, kBatch, RoleName("physics/lattice"), Incarnation(4), seconds(604800), {kSlice, {kBatch, 18}}, true});
  add("ReaderHello", ReaderHello{4, "console"});
  add("Welcome", Welcome{5, "cluster-1f", seconds(2), seconds(8), {kSlice}});
  add("Welcome-masters",
      Welcome{5, "cluster-1f", seconds(2), seconds(8), {}, {"tcp://m1:7400", "tcp://m2:7400", "tcp://m3:7400"}, seconds(9)});
  add("Heartbeat", Heartbeat{microseconds(1'700'000'000'123'456)});
  add("Heartbeat-reprobe", Heartbeat{seconds(1'700'000'000), true});
  add("Heartbeat-figures", Heartbeat{seconds(1'700'000'000), false, counters({{"pressure.host", 612}, {"warm.hits", 40}})});
  add("InventoryUpdate", InventoryUpdate{sample_inventory()});
  Inventory lends = sample_inventory();
  lends.revocable = sample_resources();
  add("InventoryUpdate-revocable", InventoryUpdate{lends});
  add("InventoryUpdate-increment", InventoryUpdate{sample_inventory(), Version(8), {DeviceId("GPU-0c"), DeviceId("npu:7")}});
  add("Goodbye", Goodbye{true});
  add("Demand", Demand{Version(11), Sequence(4), true, {{21, sample_shape(), 100, 16, -5}, {22, {}, 1, 0, 7}}});
  add("Demand-placement", Demand{Version(12), Sequence(4), false, {{23, sample_placed_shape(), 6, 0, 1}}});
  const Offer offer{OfferId((7ULL << 40) + 1), Generation(2), kAgent, sample_resources(), sample_resources(),
                    sample_labels(),           seconds(10),   21,     GangId(3)};
  add("Offers", Offers{{offer, offer}});
  Offer lent = offer;
  lent.revocable = true;
  add("Offers-revocable", Offers{{lent}});
  Shape taken_back = sample_shape();
  taken_back.revocable = true;
  add("Demand-revocable", Demand{Version(12), Sequence(4), false, {{23, taken_back, 4, 0, 1}}});
  SliceSpec lent_slice = sample_slice();
  lent_slice.revocable = true;
  add("SliceUp-revocable", SliceUp{kAgent, lent_slice});
  DemandLine lasting{23, {}, 4};
  lasting.lasts = seconds(7200);
  add("Demand-lasts", Demand{Version(12), Sequence(4), false, {lasting}});
  lasting.reservation = "class-of-2026";
  add("Demand-reservation", Demand{Version(13), Sequence(4), false, {lasting}});
  Offer reserved_offer = offer;
  reserved_offer.reserved = "class-of-2026", reserved_offer.lasts = seconds(3600);
  add("Offers-reserved", Offers{{reserved_offer}});
  add("OffersEnded", OffersEnded{{{OfferId(1), OfferEnd::kExpired},
                                  {OfferId(2), OfferEnd::kRescinded},
                                  {OfferId(3), OfferEnd::kAgentLost},
                                  {OfferId(4), OfferEnd::kDemandGone}}});
  add("Accept", Accept{Sequence(5),
                       true,
                       GangId(3),
                       {{OfferId(1), Generation(2), {{17, sample_shape(), seconds(30), 21}, {18, {}, Duration(0), 0}}, true},
                        {OfferId(2), Generation(1), {}, false}}});
  AcceptReply replies{Sequence(5), {}};
  for (int code = 0; code <= static_cast<int>(Code::kUnsupported); ++code) {
    replies.items.push_back({OfferId(static_cast<std::uint64_t>(code) + 1), static_cast<Code>(code), "because"});
  }
  add("AcceptReply", replies);
  Decline decline;
  for (int reason = 0; reason <= static_cast<int>(DeclineReason::kOther); ++reason) {
    decline.items.push_back({OfferId(9), static_cast<DeclineReason>(reason), "text", milliseconds(1500)});
  }
  add("Decline", decline);
  add("CarveSlices", CarveSlices{{sample_slice(), sample_slice()}, true, seconds(15)});
  SliceSpec reserved = sample_slice();
  reserved.reserved = "class-of-2026", reserved.since = seconds(1'700'000'000);
  add("CarveSlices-reserved", CarveSlices{{reserved}, false, seconds(0)});
  add("CommitGang", CommitGang{kBatch, GangId(3)});
  add("AbortGang", AbortGang{kBatch, GangId(4)});
  add("GangHeld", GangHeld{kBatch, GangId(3), Code::kBusy, "cpus"});
  add("SliceUp", SliceUp{kAgent, sample_slice()});
  add("SliceUp-unhealthy", SliceUp{kAgent, sample_slice(), "device GPU-0b has gone"});
  for (int end = 0; end <= static_cast<int>(SliceEnd::kGangAborted); ++end) {
    add("SliceGone-" + std::to_string(end), SliceGone{kAgent, kSlice, static_cast<SliceEnd>(end), "reason"});
  }
  add("ReleaseSlices", ReleaseSlices{{kSlice, {FrameworkId("service"), 1}}, seconds(3)});
  add("ReleaseSlices-revoked", ReleaseSlices{{kSlice}, seconds(3), true, "drained"});
  add("SliceRevoking", SliceRevoking{kSlice, seconds(30), "fair share"});
  add("Launch", Launch{kAgent, kSlice, TaskId("12.0.1"), all_bytes() + all_bytes()});
  add("Kill", Kill{kAgent, kBatch, TaskId("12.0.1"), SIGUSR2, true, seconds(9), true});
  add("Kill-unstarted", Kill{kAgent, kBatch, TaskId("12.0.1"), 0, false, Duration(0), false, true});
  add("Kill-own-grace", Kill{kAgent, kBatch, TaskId("12.0.1"), 0, false, Duration(-1), false});
  for (int state = 0; state <= static_cast<int>(TaskState::kNeverStarted); ++state) {
    TaskStatus status = sample_status();
    status.state = static_cast<TaskState>(state);
    add("StatusUpdate-" + std::to_string(state), StatusUpdate{kAgent, kBatch, StreamId(99), Sequence(1000), kSlice, status});
  }
  TaskStatus never;
  never.task = TaskId("9.0.1");
  never.state = TaskState::kNeverStarted;
  add("StatusUpdate-no-slice", StatusUpdate{kAgent, kBatch, StreamId(99), Sequence(1), {}, never});
  add("StatusAck", StatusAck{kAgent, kBatch, StreamId(99), Sequence(1000)});
  add("Reconcile", Reconcile{kAgent, kBatch, {TaskId("12.0.1"), TaskId("array:7")}});
  add("DeclareLost", DeclareLost{kAgent, kBatch, {TaskId("12.0.1")}});
  add("LaunchRefused", LaunchRefused{kAgent, kSlice, TaskId("12.0.1"), Code::kGone, "no such slice"});
  AgentsUpdate agents{Version(4), true, true, {}};
  for (int state = 0; state <= static_cast<int>(AgentFacts::State::kRemoved); ++state) {
    agents.agents.push_back({AgentId("h" + std::to_string(state)), static_cast<AgentFacts::State>(state), sample_resources(),
                             sample_labels(), Incarnation(8), true});
  }
  add("AgentsUpdate", agents);
  agents.agents.back().closes = seconds(1'700'000'000), agents.agents.back().reopens = seconds(1'700'003'600);
  add("AgentsUpdate-maintenance", agents);
  agents.agents.front().reserved = {
      {"class-of-2026", RoleName("org/class"), seconds(1'700'000'000), seconds(1'700'003'600), true, false},
      {"lab", RoleName("lab"), seconds(1'700'000'001), Duration(0), false, true}};
  add("AgentsUpdate-reserved", agents);
  add("ExplainQuery", ExplainQuery{31, kBatch, 21});
  add("ExplainReply",
      ExplainReply{31, Code::kNotFound, 10, {{"cpus", 7}, {"in use", 3}}, "h7 lacks mem=4GiB", "10s ago", "1s ago", "2nd of 5"});
  ExplainReply parts;
  parts.tag = 34, parts.agents = 12, parts.counts = {{"labels", 12}}, parts.failing = {{"zone=eu-1", 12}};
  parts.asks = "cpus=2;if=zone=eu-1", parts.quota = "cpus 8 of 10", parts.estimate = "at latest 12:00";
  parts.wanted = 5, parts.offered = 1, parts.unmet = 4;
  add("ExplainReply-parts", parts);
  add("StatusQuery", StatusQuery{32, "agents", "h7", 50});
  add("StatusReply",
      StatusReply{32, Code::kInvalid, "why not", {{"h7", {{"state", "up"}, {"cpus", "64"}, {"note", ""}}}, {"h8", {}}}, true});
  add("OperatorAction", OperatorAction{33, "cordon", "h7", "disk"});
  add("OperatorAction-parameters", OperatorAction{33, "drain", "h7", "disk", {{"deadline", "30m"}, {"note", ""}}});
  add("OperatorReply", OperatorReply{33, Code::kDenied, "not an operator"});
  add("Refused", Refused{Code::kVersion, "upgrade"});
  add("Refused-not-leading", Refused{Code::kBusy, "does not lead", true, "tcp://m2:7400"});
  add("Welcome-readers", Welcome{5, "cluster-1f", seconds(2), seconds(8), {}, {}, Duration(0), "tcp://10.0.0.1:7001"});
  add("Watch", Watch{34, {"agents", "events"}, 16, "200"});
  add("WatchAck", WatchAck{34, Sequence(17)});
  add("ViewUpdate", ViewUpdate{34, Sequence(17), "agents", true, true, {{"h7", {{"state", "up"}}}}, {"h8", "h9"}, Code::kOk, ""});
  add("ViewUpdate-over", ViewUpdate{34, Sequence(18), "", false, false, {}, {}, Code::kGone, "it did not read"});
  add("ReloadConfig", ReloadConfig{35});
  add("ConfigReloaded", ConfigReloaded{35, Code::kInvalid, "bourse.conf:3: no"});
  return all;
}

// --- random ----------------------------------------------------------------------------------------------------------

namespace {

std::string random_name(Rng& rng) {
  static constexpr char kFirst[] = "abcXYZ019_+@:-";
  static constexpr char kRest[] = "abcdefXYZ0123456789._+@:-";
  std::string name(1, kFirst[rng.below(sizeof(kFirst) - 1)]);
  for (std::uint64_t n = rng.below(12); n > 0; --n) name.push_back(kRest[rng.below(sizeof(kRest) - 1)]);
  if (rng.chance(200)) name += "/leaf";
  return name;
}

std::string random_text(Rng& rng) {
  std::string text;
  for (std::uint64_t n = rng.below(rng.chance(50) ? 2000 : 20); n > 0; --n) text.push_back(static_cast<char>(1 + rng.below(255)));
  return text;
}

std::string random_blob(Rng& rng) {
  std::string blob;
  for (std::uint64_t n = rng.below(600); n > 0; --n) blob.push_back(static_cast<char>(rng.below(256)));
  return blob;
}

std::int64_t amount(Rng& rng) { return rng.chance(300) ? 0 : static_cast<std::int64_t>(rng.next() >> (2 + rng.below(60))); }
Duration random_duration(Rng& rng) { return Duration(amount(rng)); }
std::uint64_t number(Rng& rng) { return rng.chance(200) ? 0 : rng.next() >> rng.below(64); }
std::uint32_t small(Rng& rng) { return static_cast<std::uint32_t>(rng.next() >> (32 + rng.below(32))); }
std::int32_t any_int(Rng& rng) { return static_cast<std::int32_t>(rng.next()); }

template <class E>
E pick(Rng& rng, E last) {
  return static_cast<E>(rng.below(static_cast<std::uint64_t>(last) + 1));
}

template <class Make>
auto several(Rng& rng, Make make) {
  std::vector<decltype(make(rng))> made;
  for (std::uint64_t n = rng.below(4); n > 0; --n) made.push_back(make(rng));
  return made;
}

Counters random_counters(Rng& rng) {
  Counters made;
  for (std::uint64_t n = rng.below(4); n > 0; --n) made.set(random_name(rng), 1 + amount(rng));
  return made;
}

std::map<std::string, std::string> random_map(Rng& rng) {
  std::map<std::string, std::string> made;
  for (std::uint64_t n = rng.below(4); n > 0; --n) made[random_name(rng)] = random_text(rng);
  return made;
}

Resources random_resources(Rng& rng) {
  Resources r;
  r.disk = Bytes(amount(rng));
  std::uint32_t port = 0;
  std::string ports;
  for (std::uint64_t n = rng.below(4); n > 0; --n) {
    port += 2 + static_cast<std::uint32_t>(rng.below(9000));
    ports += (ports.empty() ? "" : ",") + std::to_string(port);
    if (rng.chance(500)) {
      port += 1 + static_cast<std::uint32_t>(rng.below(5000));
      ports += "-" + std::to_string(port);
    }
  }
  if (!ports.empty()) r.ports = *Ports::parse(ports);
  r.others = random_counters(rng);
  if (rng.chance(500)) {
    for (std::uint32_t node = 0; node < rng.below(5); ++node) {
      r.numa.push_back({node, MilliCpus(amount(rng) >> 8), Bytes(amount(rng) >> 8)});
      r.cpus.value += r.numa.back().cpus.value;
      r.mem.value += r.numa.back().mem.value;
    }
  }
  if (r.numa.empty()) r.cpus = MilliCpus(amount(rng)), r.mem = Bytes(amount(rng));
  std::map<std::string, bool> ids;
  for (std::uint64_t n = rng.below(4); n > 0; --n) ids[random_name(rng)] = true;
  for (const auto& [id, unused] : ids) {
    r.devices.push_back(
        {DeviceId(id), random_name(rng), Generation(number(rng)), rng.chance(500), random_text(rng), random_counters(rng), {}});
    if (rng.chance(500)) continue;
    DeviceTraits& traits = r.devices.back().traits;
    traits.sharing = pick(rng, DeviceMode::kTimeSliced);
    for (std::uint64_t p = rng.below(3); p > 0; --p) traits.profiles[random_name(rng)] = random_counters(rng);
    traits.attributes = random_map(rng);
  }
  return r;
}

Constraint random_constraint(Rng& rng) {
  if (rng.chance(200)) {
    const auto word = [&] { return quoted_word(random_name(rng)); };
    return *make_constraint("*", Constraint::Op::kMatches, {"!(" + word() + "<" + word() + ")|" + word()});
  }
  Constraint c{random_name(rng), pick(rng, Constraint::Op::kAbsent), several(rng, random_text)};
  std::sort(c.values.begin(), c.values.end());
  return c;
}

DeviceAsk random_ask(Rng& rng) {
  return {random_name(rng), small(rng), rng.chance(500), random_text(rng), random_counters(rng), several(rng, random_constraint)};
}

Placement random_placement(Rng& rng) {
  Placement p;
  p.kind = pick(rng, Placement::Kind::kAntiAffinity);
  p.level = random_name(rng);
  p.max_skew = 1 + small(rng) % 100;
  p.required = rng.chance(500);
  if (p.kind != Placement::Kind::kAffinity && p.kind != Placement::Kind::kAntiAffinity) return p;
  if (rng.chance(500)) p.framework = FrameworkId(random_name(rng));
  if (rng.chance(500)) p.group = random_name(rng);
  return p;
}

Shape random_shape(Rng& rng) {
  Shape s;
  s.cpus = MilliCpus(amount(rng));
  s.mem = Bytes(amount(rng));
  s.disk = Bytes(amount(rng));
  s.ports = small(rng);
  s.whole_host = rng.chance(500);
  s.same_numa = rng.chance(500);
  s.others = random_counters(rng);
  s.devices = several(rng, random_ask);
  s.constraints = several(rng, random_constraint);
  s.revocable = rng.chance(500);
  s.group = rng.chance(500) ? "" : random_name(rng);
  s.placement = several(rng, random_placement);
  return s;
}

TopologyNode random_node(Rng& rng, int depth) {
  TopologyNode node{random_text(rng), small(rng), random_text(rng), amount(rng), random_map(rng), {}};
  if (depth < 6) node.children = several(rng, [&](Rng& r) { return random_node(r, depth + 1 + static_cast<int>(r.below(3))); });
  return node;
}

Inventory random_inventory(Rng& rng) {
  Inventory inventory;
  inventory.version = Version(number(rng));
  inventory.topology = random_node(rng, 1);
  for (std::uint64_t n = 0; n < rng.below(3); ++n) {
    Device d;
    d.id = DeviceId("d" + std::to_string(n));
    d.kind = random_name(rng);
    d.vendor = random_text(rng), d.model = random_text(rng), d.pci = random_text(rng);
    d.numa = static_cast<std::int32_t>(rng.between(-1, 7));
    d.generation = Generation(number(rng));
    d.mode = pick(rng, Device::Mode::kTimeSliced);
    d.healthy = rng.chance(500);
    d.counters = random_counters(rng);
    for (std::uint64_t p = rng.below(3); p > 0; --p) d.profiles[random_name(rng)] = random_counters(rng);
    d.attributes = random_map(rng);
    d.nodes = several(rng, random_text);
    d.links = several(rng, [](Rng& r) { return DeviceId(random_name(r)); });
    inventory.devices.push_back(d);
  }
  inventory.total = random_resources(rng);
  inventory.labels = random_map(rng);
  inventory.notes = several(rng, random_text);
  if (rng.chance(500)) inventory.revocable = random_resources(rng);
  return inventory;
}

SliceId random_slice_id(Rng& rng) { return {FrameworkId(random_name(rng)), number(rng)}; }

SliceSpec random_slice(Rng& rng) {
  SliceSpec spec;
  spec.id = random_slice_id(rng);
  spec.resources = random_resources(rng);
  spec.cpuset = several(rng, small);
  spec.gang = GangId(number(rng));
  spec.expiry = random_duration(rng);
  spec.role = rng.chance(500) ? "" : random_name(rng);
  spec.revocable = rng.chance(500);
  spec.reserved = rng.chance(500) ? "" : random_name(rng);
  spec.since = random_duration(rng);
  spec.group = rng.chance(500) ? "" : random_name(rng);
  return spec;
}

TaskStatus random_status(Rng& rng) {
  TaskStatus s;
  s.task = TaskId(random_name(rng));
  s.state = pick(rng, TaskState::kNeverStarted);
  s.exit_code = any_int(rng);
  s.signal = static_cast<std::int32_t>(rng.below(65));
  s.message = random_text(rng);
  s.started = random_duration(rng), s.ended = random_duration(rng), s.cpu = random_duration(rng);
  s.mem_peak = Bytes(amount(rng));
  return s;
}

// A body of the N-th kind, with random fields.
Body random_body(Rng& rng, std::size_t kind) {
  const auto flag = [&] { return rng.chance(500); };
  const auto agent = [&] { return AgentId(random_name(rng)); };
  const auto framework = [&] { return FrameworkId(random_name(rng)); };
  const auto task = [](Rng& r) { return TaskId(random_name(r)); };
  const auto code = [&] { return pick(rng, Code::kUnsupported); };
  switch (kind) {
    case 0:
      return AgentHello{small(rng),
                        agent(),
                        Incarnation(number(rng)),
                        Epoch(number(rng)),
                        random_text(rng),
                        random_inventory(rng),
                        several(rng,
                                [&](Rng& r) {
                                  return AgentHello::Slice{random_slice(r), flag(), several(r, task)};
                                }),
                        flag()};
    case 1:
      return FrameworkHello{small(rng),
                            framework(),
                            RoleName(flag() ? "" : random_name(rng)),
                            Incarnation(number(rng)),
                            random_duration(rng),
                            several(rng, random_slice_id),
                            flag()};
    case 2:
      return ReaderHello{small(rng), flag() ? "" : random_name(rng)};
    case 3:
      return Welcome{small(rng),
                     random_text(rng),
                     random_duration(rng),
                     random_duration(rng),
                     several(rng, random_slice_id),
                     several(rng, [](Rng& r) { return random_text(r); }),
                     random_duration(rng),
                     random_text(rng)};
    case 4:
      return Refused{code(), random_text(rng), flag(), random_text(rng)};
    case 5:
      return Heartbeat{random_duration(rng), rng.chance(500), random_counters(rng)};
    case 6:
      return InventoryUpdate{random_inventory(rng), Version(number(rng)),
                             several(rng, [](Rng& r) { return DeviceId(random_name(r)); })};
    case 7:
      return Goodbye{flag()};
    case 8:
      return Demand{Version(number(rng)), Sequence(number(rng)), flag(), several(rng, [](Rng& r) {
                      return DemandLine{number(r),
                                        random_shape(r),
                                        small(r),
                                        small(r),
                                        any_int(r),
                                        random_duration(r),
                                        r.chance(500) ? "" : random_name(r)};
                    })};
    case 9:
      return Offers{several(rng, [](Rng& r) {
        return Offer{OfferId(number(r)),
                     Generation(number(r)),
                     AgentId(random_name(r)),
                     random_resources(r),
                     random_resources(r),
                     random_map(r),
                     random_duration(r),
                     number(r),
                     GangId(number(r)),
                     r.chance(500),
                     r.chance(500) ? "" : random_name(r),
                     random_duration(r)};
      })};
    case 10:
      return OffersEnded{several(rng, [](Rng& r) {
        return OffersEnded::Item{OfferId(number(r)), pick(r, OfferEnd::kDemandGone)};
      })};
    case 11:
      return Accept{Sequence(number(rng)), flag(), GangId(number(rng)), several(rng, [](Rng& r) {
                      return Accept::Item{OfferId(number(r)), Generation(number(r)),
                                          several(r,
                                                  [](Rng& q) {
                                                    return Accept::Slice{number(q), random_shape(q), random_duration(q), number(q)};
                                                  }),
                                          r.chance(500)};
                    })};
    case 12:
      return AcceptReply{Sequence(number(rng)), several(rng, [](Rng& r) {
                           return AcceptReply::Item{OfferId(number(r)), pick(r, Code::kUnsupported), random_text(r)};
                         })};
    case 13:
      return Decline{several(rng, [](Rng& r) {
        return Decline::Item{OfferId(number(r)), pick(r, DeclineReason::kOther), random_text(r), random_duration(r)};
      })};
    case 14:
      return CarveSlices{several(rng, random_slice), flag(), random_duration(rng)};
    case 15:
      return CommitGang{framework(), GangId(number(rng))};
    case 16:
      return AbortGang{framework(), GangId(number(rng))};
    case 17:
      return GangHeld{framework(), GangId(number(rng)), code(), random_text(rng)};
    case 18:
      return SliceUp{agent(), random_slice(rng), random_text(rng)};
    case 19:
      return SliceGone{agent(), random_slice_id(rng), pick(rng, SliceEnd::kGangAborted), random_text(rng)};
    case 20:
      return ReleaseSlices{several(rng, random_slice_id), random_duration(rng)};
    case 21:
      return SliceRevoking{random_slice_id(rng), random_duration(rng), random_text(rng)};
    case 22:
      return Launch{agent(), random_slice_id(rng), task(rng), random_blob(rng)};
    case 23:
      return Kill{agent(),   framework(),
                  task(rng), static_cast<std::int32_t>(rng.below(65)),
                  flag(),    Duration(static_cast<std::int64_t>(rng.next())),
                  flag()};
    case 24:
      return StatusUpdate{agent(),           framework(), StreamId(number(rng)), Sequence(number(rng)), random_slice_id(rng),
                          random_status(rng)};
    case 25:
      return StatusAck{agent(), framework(), StreamId(number(rng)), Sequence(number(rng))};
    case 26:
      return Reconcile{agent(), framework(), several(rng, task)};
    case 27:
      return DeclareLost{agent(), framework(), several(rng, task)};
    case 28:
      return LaunchRefused{agent(), random_slice_id(rng), task(rng), code(), random_text(rng)};
    case 29:
      return AgentsUpdate{Version(number(rng)), flag(), flag(), several(rng, [](Rng& r) {
                            return AgentFacts{AgentId(random_name(r)),
                                              pick(r, AgentFacts::State::kRemoved),
                                              random_resources(r),
                                              random_map(r),
                                              Incarnation(number(r)),
                                              r.chance(500),
                                              random_duration(r),
                                              random_duration(r),
                                              several(r, [](Rng& q) {
                                                return AgentFacts::Reserved{random_name(q),     RoleName(random_name(q)),
                                                                            random_duration(q), random_duration(q),
                                                                            q.chance(500),      q.chance(500)};
                                              })};
                          })};
    case 30:
      return ExplainQuery{number(rng), FrameworkId(flag() ? "" : random_name(rng)), number(rng)};
    case 31:
      return ExplainReply{number(rng),
                          code(),
                          small(rng),
                          several(rng,
                                  [](Rng& r) {
                                    return ExplainReply::Count{random_text(r), small(r)};
                                  }),
                          random_text(rng),
                          random_text(rng),
                          random_text(rng),
                          random_text(rng),
                          several(rng,
                                  [](Rng& r) {
                                    return ExplainReply::Count{random_text(r), small(r)};
                                  }),
                          random_text(rng),
                          random_text(rng),
                          random_text(rng),
                          small(rng),
                          small(rng),
                          small(rng)};
    case 32:
      return StatusQuery{number(rng), random_text(rng), random_text(rng), small(rng)};
    case 33:
      return StatusReply{number(rng), code(), random_text(rng),
                         several(rng,
                                 [](Rng& r) {
                                   return StatusReply::Row{random_text(r), several(r, [](Rng& q) {
                                                             return std::pair<std::string, std::string>(random_text(q),
                                                                                                        random_text(q));
                                                           })};
                                 }),
                         flag()};
    case 34:
      return OperatorAction{number(rng), random_text(rng), random_text(rng), random_text(rng)};
    case 35:
      return OperatorReply{number(rng), code(), random_text(rng)};
    case 36:
      return Watch{number(rng), several(rng, random_text), small(rng), random_text(rng)};
    case 37:
      return WatchAck{number(rng), Sequence(number(rng))};
    case 38: {
      ViewUpdate update{number(rng), Sequence(number(rng)), random_text(rng), flag(), flag(), {}, {}, code(), random_text(rng)};
      update.rows = several(rng, [](Rng& r) { return StatusReply::Row{random_text(r), {{random_text(r), random_text(r)}}}; });
      update.removed = several(rng, random_text);
      return update;
    }
    case 39:
      return ReloadConfig{number(rng)};
    default:
      return ConfigReloaded{number(rng), code(), random_text(rng)};
  }
}

}  // namespace

Message random_message(Rng& rng) {
  Message m{Epoch(number(rng)), Incarnation(number(rng)), random_text(rng), {}};
  m.body = random_body(rng, rng.below(Body::kCount));
  return m;
}

TaskSpec random_task(Rng& rng) {
  TaskSpec t;
  t.kind = pick(rng, TaskKind::kKernel);
  t.user = random_text(rng);
  t.uid = small(rng), t.gid = small(rng);
  t.credential = random_blob(rng);
  t.argv = several(rng, random_text), t.env = several(rng, random_text);
  t.directory = random_text(rng);
  t.stdin_path = random_text(rng), t.stdout_path = random_text(rng), t.stderr_path = random_text(rng);
  t.append_output = rng.chance(500);
  t.umask = static_cast<std::uint32_t>(rng.below(01000));
  t.rlimits = several(rng, [](Rng& r) { return Rlimit{static_cast<std::int32_t>(r.below(16)), r.next(), r.next()}; });
  t.artifacts = several(rng, [](Rng& r) { return Artifact{random_name(r), random_text(r), random_blob(r), random_text(r)}; });
  t.time_limit = rng.chance(300) ? kNoLimit : random_duration(rng);
  t.kill_grace = random_duration(rng);
  t.warn_signal = static_cast<std::int32_t>(rng.below(65));
  t.warn_before = random_duration(rng);
  t.warn_shell_only = rng.chance(500), t.fence_lease = rng.chance(500), t.in_turn = rng.chance(500), t.priority = any_int(rng);
  t.trace = random_text(rng);
  t.image = random_text(rng);
  t.mounts = several(rng, random_text), t.isolate = several(rng, random_text);
  return t;
}

}  // namespace bourse::test
