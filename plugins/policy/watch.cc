#include "plugins/policy/watch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>

#include "common/core/hooks.h"
#include "common/world/files.h"

namespace bourse::policy {

namespace {

constexpr std::size_t kTextMax = 2000, kDigestMax = 65, kListBytesMax = 1 << 20;

}  // namespace

struct Watch::Mark {
  std::atomic<std::uint64_t> inside;  // number of the call that runs; 0: none
  std::uint64_t calls;
  char digest[kDigestMax];
  char spec[kTextMax];
};

namespace {

// What the signal handler may look at. The timer runs only while calls are made: it is armed by the first one after it was idle.
std::atomic<std::uint64_t>* g_inside = nullptr;
std::atomic<std::uint64_t> g_seen{0};
std::atomic<bool> g_armed{false};
timer_t g_timer;
char g_last_words[kTextMax + 200];

void arm() {
  itimerspec when{};
  const auto stall = std::chrono::nanoseconds(Watch::kStall).count();
  when.it_value.tv_sec = static_cast<time_t>(stall / 1'000'000'000);
  when.it_value.tv_nsec = static_cast<long>(stall % 1'000'000'000);
  timer_settime(g_timer, 0, &when, nullptr);
}

void on_timer(int) {
  const std::uint64_t inside = g_inside->load();
  if (inside == 0) return g_armed.store(false);
  if (inside == g_seen.load()) {
    (void)!write(STDERR_FILENO, g_last_words, std::strlen(g_last_words));
    _exit(Watch::kStalledStatus);
  }
  g_seen.store(inside);
  arm();
}

template <std::size_t N>
void keep(char (&out)[N], const std::string& text) {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(out, text.data(), n);
  out[n] = 0;
}

}  // namespace

Result<std::unique_ptr<Watch>> Watch::open(const std::string& state, const std::string& program) {
  std::unique_ptr<Watch> watch(new Watch());
  watch->list_ = state + "/policy.quarantine";
  const std::string path = state + "/policy.mark";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return errno_error("open " + path);
  void* memory = MAP_FAILED;
  if (ftruncate(fd, sizeof(Mark)) == 0) memory = mmap(nullptr, sizeof(Mark), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const Error failed = errno_error("map " + path);
  close(fd);
  if (memory == MAP_FAILED) return failed;
  watch->mark_ = static_cast<Mark*>(memory);
  Mark& mark = *watch->mark_;
  mark.digest[kDigestMax - 1] = mark.spec[kTextMax - 1] = 0;
  if (mark.inside.load() != 0 && mark.digest[0] != 0 && !hooks::mutant("policy.no_quarantine")) {
    watch->crashed_ = mark.spec;
    auto list = read_file(watch->list_, kListBytesMax);
    std::string text = list ? *list : "";
    text += std::string(mark.digest) + " " + mark.spec + "\n";
    BOURSE_TRY(write_file(watch->list_, text, 0600));
  }
  mark.inside.store(0);

  g_inside = &mark.inside;
  g_armed.store(false);  // a timer is not inherited by a child, nor does it outlive a former watch
  keep(g_last_words, "level=error prog=" + program +
                         " event=policy_stalled hint=\"a call into the policy's plugin did not come back; ending, to be started "
                         "again without it\"\n");
  struct sigaction action {};
  action.sa_handler = on_timer;
  action.sa_flags = SA_RESTART;
  sigaction(SIGRTMIN + 3, &action, nullptr);
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGRTMIN + 3;
  if (timer_create(CLOCK_MONOTONIC, &event, &g_timer) != 0) return errno_error("timer for the policy's calls");
  return watch;
}

Watch::~Watch() {
  timer_delete(g_timer);
  g_inside = nullptr;
  munmap(mark_, sizeof(Mark));
}

Result<> Watch::allowed(const Choice& choice) const {
  if (choice.built_in) return {};
  const auto list = read_file(list_, kListBytesMax);
  if (!list || list->find(choice.digest) == std::string::npos) return {};
  return Error(Code::kDenied, "policy " + choice.spec.text() +
                                  " crashed or stalled in an earlier life and is quarantined; mend it, or remove its line from " +
                                  list_);
}

void Watch::enter(const Choice& into) {
  if (std::strncmp(mark_->digest, into.digest.c_str(), kDigestMax) != 0) keep(mark_->digest, into.digest);
  if (const std::string spec = into.spec.text(); std::strncmp(mark_->spec, spec.c_str(), kTextMax - 1) != 0)
    keep(mark_->spec, spec);
  mark_->inside.store(++mark_->calls == 0 ? ++mark_->calls : mark_->calls);
  if (!g_armed.exchange(true)) {
    g_seen.store(0);
    arm();
  }
}

void Watch::leave() { mark_->inside.store(0); }

namespace {
std::int64_t read_clock(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}
}  // namespace

std::int64_t Watch::wall_ns() { return read_clock(CLOCK_MONOTONIC); }
std::int64_t Watch::cpu_ns() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace bourse::policy
