// What a hundred thousand pending jobs cost: memory, the queue's first page, cancelling, scheduling, restart, durable submits.
// Times are of one core of this machine in this run; the disk's own rate stands beside what is compared with it.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "frameworks/batch/batch.h"
#include "frameworks/batch/store.h"

namespace {
using namespace bourse;
using namespace bourse::batch;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
std::size_t heap() { return mallinfo2().uordblks + mallinfo2().hblkhd; }

JobSpec job(int i) {
  JobSpec s;
  s.name = "job" + std::to_string(i % 1000), s.user = "ann", s.script = "#!/bin/sh\ntrue\n", s.directory = "/home/ann",
  s.submit_dir = "/home/ann";
  for (int v = 0; v < 40; ++v) s.env.push_back("VARIABLE_" + std::to_string(v) + "=some value of usual length");
  s.time_limit = seconds(600);
  return s;
}

// Steps the actor; appends are safe at once, session commands are handed to `command`.
struct Bench {
  Batch batch{BatchOptions{}};
  Time now{seconds(1000), seconds(1'700'000'000)};
  std::vector<std::string> disk;
  std::vector<Event> events;
  std::map<TimerKey, Duration> timers;
  std::function<void(const SessionCommand&)> command = [](const SessionCommand&) {};
  std::string last_reply;
  Ticket ticket = 0;
  bool keep = true;

  void step(const Event& event) {
    Actions out;
    out.ticket = ++ticket;
    batch.step(now, event, out);
    for (const Arm& arm : out.arms) timers[arm.key] = now.mono + arm.after;
    for (const TimerKey& key : out.disarms) timers.erase(key);
    if (!out.appends.empty()) {
      for (Append& a : out.appends)
        if (keep) disk.push_back(std::move(a.record));
      events.push_back(Durable{out.ticket});
    }
    for (const SessionCommand& c : out.session) command(c);
    for (Reply& r : out.replies) last_reply = std::move(r.payload);
  }
  void drain() {
    while (true) {
      for (auto it = timers.begin(); it != timers.end();) {
        if (it->second > now.mono + milliseconds(2)) {
          ++it;
          continue;
        }
        events.push_back(TimerFired{it->first});
        it = timers.erase(it);
      }
      if (events.empty()) return;
      now.mono += microseconds(100), now.wall += microseconds(100);
      std::vector<Event> todo;
      todo.swap(events);
      for (const Event& e : todo) step(e);
    }
  }
  void ask(RequestBody body, std::int64_t uid = 1000) {
    step(Request{PeerId(1), uid, uid, {}, encode(ToolRequest{kBatchProtocol, 1, std::move(body)})});
  }
  void up(int agents, std::int64_t cores) {
    step(SessionEvent(SessionUp{Epoch(1), "bench"}));
    AgentsChanged changed;
    changed.snapshot = true;
    for (int i = 0; i < agents; ++i) {
      AgentFacts f;
      f.agent = AgentId("n" + std::to_string(i));
      f.total.cpus = MilliCpus(cores * 1000), f.total.mem = Bytes(64 * kGiB.value);
      f.labels["host"] = f.agent.str();
      changed.agents.push_back(std::move(f));
    }
    step(SessionEvent(std::move(changed)));
    drain();
  }
  void submit(int count) {
    for (int i = 0; i < count;) {
      SubmitRequest request;
      for (int n = 0; n < 100 && i < count; ++n, ++i) request.items.push_back({"key" + std::to_string(i), job(i)});
      ask(std::move(request));
      drain();
    }
  }
};

void pending(int count) {
  Bench b;
  b.keep = false;
  b.step(Started{Incarnation(1), {}, {}});
  b.up(1, 2);
  const std::size_t before = heap();
  auto start = Clock::now();
  b.submit(count);
  const double fill = seconds_since(start);
  const std::size_t bytes = (heap() - before) / static_cast<std::size_t>(count);
  start = Clock::now();
  for (int i = 0; i < 10; ++i) b.ask(QueueRequest{});
  const double page = seconds_since(start) / 10;
  const std::size_t page_bytes = b.last_reply.size();
  CancelRequest cancel;
  for (int i = 0; i < 10'000; ++i) cancel.jobs.push_back({JobId(static_cast<std::uint64_t>(i) + 1), {}});
  start = Clock::now();
  b.ask(cancel);
  b.drain();
  const double cancelled = seconds_since(start);
  std::printf("pending=%d bytes_per_job=%zu submit_cpu_us=%.1f first_page_ms=%.2f page_kib=%zu cancel_10000_ms=%.1f\n", count,
              bytes, fill / count * 1e6, page * 1e3, page_bytes / 1024, cancelled * 1e3);
}

// A fake house of many nodes, one core each; offers for all, then jobs end and start in the slices.
void scheduling(int nodes, int jobs) {
  Bench b;
  b.keep = false;
  b.step(Started{Incarnation(1), {}, {}});
  b.up(nodes, 1);
  std::vector<LaunchTask> launched;
  std::uint64_t sequence = 0;
  b.command = [&](const SessionCommand& c) {
    if (const auto* l = std::get_if<LaunchTask>(&c)) launched.push_back(*l);
    if (const auto* a = std::get_if<AcceptOffers>(&c))
      for (const auto& item : a->accept.items)
        for (const auto& slice : item.slices) {
          SliceReady ready;
          ready.agent = AgentId("n" + std::to_string(item.offer.value - 1)), ready.spec.id = {FrameworkId("batch"), slice.number};
          ready.spec.resources.cpus = MilliCpus(1000);
          b.events.push_back(SessionEvent(std::move(ready)));
        }
  };
  b.submit(jobs);
  auto start = Clock::now();
  for (int i = 0; i < nodes; ++i) {
    Offer o;
    o.id = OfferId(static_cast<std::uint64_t>(i) + 1), o.agent = AgentId("n" + std::to_string(i)),
    o.resources.cpus = MilliCpus(1000);
    o.resources.mem = Bytes(64 * kGiB.value), o.agent_total = o.resources, o.line = 1;
    o.labels["host"] = o.agent.str();
    b.step(SessionEvent(OfferMade{std::move(o)}));
  }
  b.drain();
  const double first = seconds_since(start);
  const std::size_t started = launched.size();
  start = Clock::now();
  std::size_t done = 0;
  while (done < launched.size()) {
    const LaunchTask task = std::move(launched[done++]);
    TaskUpdate u{task.agent, StreamId(1), Sequence(++sequence), task.slice, {}};
    u.status.task = task.task, u.status.state = TaskState::kExited, u.status.started = b.now.wall, u.status.ended = b.now.wall;
    b.step(SessionEvent(u));
    if (done % 64 == 0) b.drain();
  }
  b.drain();
  const double rest = seconds_since(start);
  std::printf("nodes=%d first_start_us_per_job=%.1f end_and_next_start_us_per_job=%.1f started=%zu ended=%zu\n", nodes,
              first / static_cast<double>(started) * 1e6, rest / static_cast<double>(done) * 1e6, started, done);
}

void restart(const std::string& dir, int count) {
  std::vector<std::string> none;
  {
    Bench b;
    b.step(Started{Incarnation(1), {}, {}});
    b.up(1, 2);
    b.submit(count);
    auto store = Store::open(dir + "/restart.db", none);
    if (!store || !(*store)->append_now(b.disk)) return void(std::printf("restart: cannot write the store\n"));
  }
  const auto start = Clock::now();
  std::vector<std::string> records;
  auto store = Store::open(dir + "/restart.db", records);
  const double read = seconds_since(start);
  Bench b;
  b.step(Started{Incarnation(2), {}, std::move(records)});
  b.ask(QueueRequest{});
  std::printf("restart_pending=%d read_s=%.2f first_answer_s=%.2f answer_kib=%zu\n", count, read, seconds_since(start),
              b.last_reply.size() / 1024);
}

void durable(const std::string& dir) {
  // The disk's own rate: append 4 KiB, fdatasync.
  const int fd = ::open((dir + "/raw").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  const std::string block(4096, 'x');
  constexpr int kFlushes = 200;
  auto start = Clock::now();
  for (int i = 0; i < kFlushes; ++i)
    if (::write(fd, block.data(), block.size()) < 0 || ::fdatasync(fd) != 0) return void(std::printf("disk: refused\n"));
  const double disk = kFlushes / seconds_since(start);
  ::close(fd);

  std::vector<std::string> records;
  auto store = Store::open(dir + "/submit.db", records);
  if (!store) return void(std::printf("store: %s\n", store.error().text().c_str()));
  auto run = [&](int depth, int total) {
    Reactor reactor;
    Batch batch{BatchOptions{}};
    Ticket ticket = 0;
    int answered = 0, sent = 0;
    std::vector<Event> events;
    std::function<void(const Event&)> step = [&](const Event& e) {
      Actions out;
      out.ticket = ++ticket;
      batch.step(real_time(), e, out);
      const int replies = static_cast<int>(out.replies.size());
      if (out.appends.empty()) return void(answered += replies);
      const Ticket t = out.ticket;
      (*store)->append(reactor, std::move(out.appends), [&, t, replies](const Result<>&) {
        answered += replies;
        step(Durable{t});
      });
    };
    step(Started{Incarnation(static_cast<std::uint64_t>(depth)),
                 {},
                 {encode(Record(CounterRecord{JobId(static_cast<std::uint64_t>(depth) * 1'000'000)}))}});
    const auto begin = Clock::now();
    while (answered < total) {
      while (sent < total && sent - answered < depth) {
        SubmitRequest request;
        request.items.push_back({"k" + std::to_string(depth) + "-" + std::to_string(sent++), job(sent)});
        step(Request{PeerId(1), 1000, 1000, {}, encode(ToolRequest{kBatchProtocol, 1, std::move(request)})});
      }
      reactor.turn(seconds(1));
    }
    return total / seconds_since(begin);
  };
  const double one = run(1, 200), many = run(64, 5000);
  std::printf("fdatasync_per_s=%.0f submit_1_per_s=%.0f (%.2f of it) submit_64_per_s=%.0f (%.1f times it)\n", disk, one, one / disk,
              many, many / disk);
}

}  // namespace

int main() {
  std::string dir = (std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") + std::string("/bourse-bench-XXXXXX");
  if (mkdtemp(dir.data()) == nullptr) return 1;
  pending(10'000);
  pending(100'000);
  scheduling(100, 20'000);
  scheduling(10'000, 40'000);
  restart(dir, 100'000);
  durable(dir);
  std::filesystem::remove_all(dir);
  return 0;
}
