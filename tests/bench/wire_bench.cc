// What a message costs between a domain value and its bytes, beside the least that could be done with them.
//
// Absolute figures are this machine's. What compares: `x memcpy`, how many times a copy of the same bytes (into a fresh
// string, as a receiver makes one), and `x loop`, in units of one pass of a calibration loop of 1,000 dependent multiplies.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/wire.h"

namespace {

using namespace bourse;

volatile std::uint64_t sink = 0;

// Nanoseconds of one call: the least of several runs, which is the one that was disturbed least.
template <class Fn>
double nanoseconds(Fn fn) {
  double best = 1e18;
  int calls = 1000;
  for (int run = 0; run < 9; ++run) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) fn();
    const double took = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
    if (run > 0) best = std::min(best, took / calls);
    if (run == 0) calls = std::max(1000, static_cast<int>(30e6 / (took / calls + 1)));  // 30 ms a run
  }
  return best;
}

double calibration() {
  return nanoseconds([] {
    std::uint64_t x = sink + 1;
    for (int i = 0; i < 1000; ++i) x = x * 6364136223846793005ULL + 1442695040888963407ULL;
    sink = x;
  });
}

void report(const char* name, const Message& message, double loop) {
  const std::string bytes = wire::encode(message);
  const double copy = nanoseconds([&] {
    const std::string made(bytes.data(), bytes.size());
    sink = sink + static_cast<unsigned char>(made[made.size() / 2]);
  });
  const double out = nanoseconds([&] { sink = sink + wire::encode(message).size(); });
  const double in = nanoseconds([&] { sink = sink + wire::decode(bytes)->incarnation.value; });
  std::printf(
      "wire %-22s bytes %6zu  encode_ns %8.0f  decode_ns %8.0f  memcpy_ns %6.0f  encode/memcpy %5.1f  decode/memcpy %5.1f"
      "  encode/loop %6.2f  decode/loop %6.2f\n",
      name, bytes.size(), out, in, copy, out / copy, in / copy, out / loop, in / loop);
}

Resources host_resources() {
  Resources r;
  r.cpus = MilliCpus(64000);
  r.mem = Bytes(256LL << 30);
  r.disk = Bytes(1LL << 40);
  r.ports = *Ports::parse("31000-32000");
  r.numa = {{0, MilliCpus(32000), Bytes(128LL << 30)}, {1, MilliCpus(32000), Bytes(128LL << 30)}};
  return r;
}

}  // namespace

int main() {
  const AgentId agent("node-0042.example.org");
  const FrameworkId framework("batch");
  const SliceId slice{framework, (4711ULL << 24) + 12};
  const TaskId task("1234567.0.1");
  const auto wrap = [](Body body) {
    return Message{Epoch(12), Incarnation(1'700'000'000'000'000), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                   std::move(body)};
  };
  const double loop = calibration();
  std::printf("wire calibration loop_ns %.0f\n", loop);
  report("Launch-500", wrap(Launch{agent, slice, task, std::string(500, 'p')}), loop);
  TaskStatus status;
  status.task = task;
  status.state = TaskState::kExited;
  status.started = seconds(1'700'000'000), status.ended = seconds(1'700'000'001), status.cpu = milliseconds(3);
  status.mem_peak = Bytes(4 << 20);
  report("StatusUpdate", wrap(StatusUpdate{agent, framework, StreamId(99), Sequence(123456), slice, status}), loop);
  report("StatusAck", wrap(StatusAck{agent, framework, StreamId(99), Sequence(123456)}), loop);
  report("Heartbeat", wrap(Heartbeat{seconds(1'700'000'000)}), loop);
  Offer offer;
  offer.id = OfferId((12ULL << 40) + 99), offer.generation = Generation(1), offer.agent = agent;
  offer.resources = host_resources(), offer.agent_total = host_resources();
  offer.labels = {{"arch", "x86_64"}, {"host", agent.value}, {"rack", "r17"}, {"zone", "east"}};
  offer.ttl = seconds(10), offer.line = 5;
  report("Offers-1", wrap(Offers{{offer}}), loop);
  report("Offers-100", wrap(Offers{std::vector<Offer>(100, offer)}), loop);
  Shape shape;
  shape.cpus = MilliCpus(1000), shape.mem = Bytes(1LL << 30);
  report("Accept-1x1",
         wrap(Accept{Sequence(5), false, GangId(0), {{offer.id, Generation(1), {{12, shape, seconds(30), 5}}, true}}}), loop);
  report("Accept-1x64",
         wrap(Accept{Sequence(5),
                     false,
                     GangId(0),
                     {{offer.id, Generation(1), std::vector<Accept::Slice>(64, {12, shape, seconds(30), 5}), true}}}),
         loop);
  TaskSpec spec;
  spec.user = "ada", spec.uid = 1000, spec.gid = 1000, spec.argv = {"{artifact:script}"}, spec.directory = "/home/ada/run";
  spec.stdout_path = "/home/ada/run/slurm-1234567.out";
  for (int i = 0; i < 40; ++i) spec.env.push_back("VARIABLE_" + std::to_string(i) + "=/opt/some/where/of/usual/length");
  spec.artifacts = {{"script", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "", ""}};
  const std::string bytes = wire::encode_task(spec);
  std::printf("wire %-22s bytes %6zu  encode_ns %8.0f  decode_ns %8.0f\n", "TaskSpec-40-env", bytes.size(),
              nanoseconds([&] { sink = sink + wire::encode_task(spec).size(); }),
              nanoseconds([&] { sink = sink + wire::decode_task(bytes)->uid; }));
  return 0;
}
