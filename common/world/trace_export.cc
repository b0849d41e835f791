#include "common/world/trace_export.h"

#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "common/core/hooks.h"
#include "common/world/log.h"
#include "common/world/reactor.h"
#include "common/world/thread.h"

// curl's header checks the types of these at the call by its own macros, which want the function's name.
#undef curl_easy_setopt
#undef curl_easy_getinfo

namespace bourse {
namespace {

constexpr std::size_t kAnswerBytes = 16 * 1024;  // of a collector's answer; the rest is not kept
constexpr Duration kSayAgain = seconds(60);      // between two lines about spans that are dropped

struct Curl {
  void* library = nullptr;
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_easy_init) init = nullptr;
  decltype(&::curl_easy_cleanup) cleanup = nullptr;
  decltype(&::curl_easy_setopt) set = nullptr;
  decltype(&::curl_easy_getinfo) info = nullptr;
  decltype(&::curl_easy_perform) perform = nullptr;
  decltype(&::curl_easy_strerror) text = nullptr;
  decltype(&::curl_slist_append) append = nullptr;
  decltype(&::curl_slist_free_all) free_all = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// Once, and for good: libraries that it brings along cannot be unloaded.
const Curl* load_curl() {
  static const Curl curl = [] {
    Curl c;
    for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
      if (c.library == nullptr) c.library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (c.library == nullptr) return c;
    const bool whole = find(c.library, "curl_global_init", c.global_init) && find(c.library, "curl_easy_init", c.init) &&
                       find(c.library, "curl_easy_cleanup", c.cleanup) && find(c.library, "curl_easy_setopt", c.set) &&
                       find(c.library, "curl_easy_getinfo", c.info) && find(c.library, "curl_easy_perform", c.perform) &&
                       find(c.library, "curl_easy_strerror", c.text) && find(c.library, "curl_slist_append", c.append) &&
                       find(c.library, "curl_slist_free_all", c.free_all);
    if (!whole || c.global_init(CURL_GLOBAL_ALL) != CURLE_OK) c.library = nullptr;
    return c;
  }();
  return curl.library == nullptr ? nullptr : &curl;
}

void cut(std::string& text) {
  if (text.size() <= kTraceTextBytes) return;
  text.resize(kTraceTextBytes);
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();  // not within a character
  if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xc0) text.pop_back();
}

// A span within its limits, and about what it takes in memory.
std::size_t trim(Span& span) {
  cut(span.name), cut(span.message);
  if (span.attributes.size() > kTraceAttributes) span.attributes.resize(kTraceAttributes);
  std::size_t bytes = sizeof span + span.name.size() + span.message.size();
  for (auto& [key, value] : span.attributes) {
    cut(key);
    if (auto* text = std::get_if<std::string>(&value)) {
      cut(*text);
      bytes += text->size();
    }
    bytes += sizeof(span.attributes[0]) + key.size();
  }
  return bytes;
}

// What became of one try.
struct Outcome {
  enum class Kind : std::uint8_t { kTaken, kAgain, kNever };
  Kind kind = Kind::kAgain;
  std::optional<Duration> wait;  // asked for by the collector
  std::int64_t rejected = 0;
  std::string reason;
};

}  // namespace

struct TraceExporter::Impl {
  const Curl& curl;
  TraceOptions options;

  mutable std::mutex mutex;  // guards all until `stopping`
  std::condition_variable wake;
  struct Waiting {
    Span span;
    std::size_t bytes = 0;
  };
  std::deque<Waiting> waiting;
  std::size_t bytes = 0;
  Counters counts;
  Duration oldest{0};    // mono, when the first that waits came
  Duration deadline{0};  // mono, when the thread must be gone; meaningful while stopping

  std::atomic<bool> stopping{false};
  std::atomic<std::int64_t> stop_at{0};  // the deadline again, for curl's callback
  // The thread's own.
  CURL* handle = nullptr;
  curl_slist* headers = nullptr;
  std::string answer, wait_header;
  bool failing = false;
  Duration said{0};
  std::uint64_t dropped_said = 0;
  std::minstd_rand random{std::random_device{}()};
  std::thread thread;

  Impl(const Curl& c, TraceOptions o) : curl(c), options(std::move(o)) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      deadline = real_time().mono + options.last_words;
      stop_at = deadline.count();
      stopping = true;
    }
    wake.notify_all();
    if (thread.joinable()) thread.join();
    if (headers != nullptr) curl.free_all(headers);
    if (handle != nullptr) curl.cleanup(handle);
  }

  void add(std::vector<Span> spans) {
    const std::lock_guard lock(mutex);
    for (Span& span : spans) {
      ++counts.spans;
      const std::size_t size = trim(span);
      if ((waiting.size() >= kTraceSpansWaiting || bytes + size > kTraceBytesWaiting) && !hooks::mutant("trace.unbounded")) {
        ++counts.dropped_full;
        continue;
      }
      if (waiting.empty()) oldest = real_time().mono;
      bytes += size;
      waiting.push_back({std::move(span), size});
    }
    if (waiting.size() >= kTraceSpansRequest || waiting.size() <= spans.size()) wake.notify_one();
  }

  // --- the thread ---

  // Waits; false when the process ends and its time is up.
  bool pause(std::unique_lock<std::mutex>& lock, Duration until) {
    while (true) {
      const Duration now = real_time().mono;
      if (stopping && now >= deadline) return false;
      const Duration end = stopping ? std::min(until, deadline) : until;
      if (now >= end) return true;
      const bool was = stopping;
      wake.wait_for(lock, end - now);
      if (!was && stopping) return true;  // one more try, at once
    }
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      while (waiting.empty() && !stopping) wake.wait(lock);
      if (waiting.empty()) break;
      while (!stopping && waiting.size() < kTraceSpansRequest && real_time().mono < oldest + options.gather)
        wake.wait_for(lock, oldest + options.gather - real_time().mono);
      std::vector<Span> batch;
      while (!waiting.empty() && batch.size() < kTraceSpansRequest) {
        batch.push_back(std::move(waiting.front().span));
        bytes -= waiting.front().bytes;
        waiting.pop_front();
      }
      oldest = real_time().mono;
      if (!deliver(lock, batch)) break;
    }
    counts.dropped_late += waiting.size();
    waiting.clear();
    say_dropped(true);
  }

  // False: the process ends and there is no time left.
  bool deliver(std::unique_lock<std::mutex>& lock, const std::vector<Span>& batch) {
    lock.unlock();
    const std::string body = otlp_json(options.resource, batch);
    lock.lock();
    const Duration began = real_time().mono;
    Duration step = options.pause_first;
    while (true) {
      ++counts.requests;
      lock.unlock();
      Outcome outcome = post(body);
      lock.lock();
      if (outcome.kind == Outcome::Kind::kTaken) {
        const auto rejected = std::min<std::uint64_t>(static_cast<std::uint64_t>(outcome.rejected), batch.size());
        counts.sent += batch.size() - rejected;
        counts.dropped_refused += rejected;
        if (failing) log_event(LogLevel::kInfo, "trace_export_works", {{"to", options.url}});
        failing = false;
        say_dropped(false, outcome.reason);
        return true;
      }
      ++counts.failures;
      const bool again = outcome.kind == Outcome::Kind::kAgain && !hooks::mutant("trace.never_again");
      if (!failing)
        log_event(LogLevel::kWarn, "trace_export_fails",
                  {{"to", options.url}, {"reason", outcome.reason}, {"then", again ? "trying again" : "ignoring these spans"}});
      failing = true;
      if (!again) {
        counts.dropped_refused += batch.size();
        say_dropped(false, outcome.reason);
        return true;
      }
      // Between half of it and all of it, so that a thousand agents do not come back together.
      const Duration jittered =
          step / 2 + Duration(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(step.count() / 2 + 1)));
      const Duration wait =
          outcome.wait && !hooks::mutant("trace.ignores_retry_after") ? std::max(*outcome.wait, jittered) : jittered;
      step = std::min(step * 2, options.pause_max);
      const Duration next = real_time().mono + wait;
      const bool last = stopping && next >= deadline;
      if (last || next - began > options.give_up || !pause(lock, next)) {
        counts.dropped_late += batch.size();
        say_dropped(false, outcome.reason);
        return !last && !(stopping && real_time().mono >= deadline);
      }
    }
  }

  void say_dropped(bool at_end, const std::string& reason = {}) {
    const std::uint64_t dropped = counts.dropped_full + counts.dropped_refused + counts.dropped_late;
    const Duration now = real_time().mono;
    if (dropped == dropped_said || (!at_end && said != Duration{0} && now - said < kSayAgain)) return;
    log_event(LogLevel::kWarn, "trace_spans_dropped",
              {{"since", std::to_string(dropped - dropped_said)},
               {"full", std::to_string(counts.dropped_full)},
               {"refused", std::to_string(counts.dropped_refused)},
               {"late", std::to_string(counts.dropped_late)},
               {"sent", std::to_string(counts.sent)},
               {"reason", reason}});
    dropped_said = dropped;
    said = now;
  }

  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* self) {
    std::string& answer = static_cast<Impl*>(self)->answer;
    answer.append(data, std::min(size, kAnswerBytes - std::min(answer.size(), kAnswerBytes)));
    return size;
  }

  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* self) {
    constexpr std::string_view kName = "retry-after:";
    const std::string_view line(data, size);
    const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
    if (line.size() > kName.size() &&
        std::equal(kName.begin(), kName.end(), line.begin(), [&](char b, char a) { return same(a, b); })) {
      std::string value(line.substr(kName.size()));
      while (!value.empty() && (value.back() == '\r' || value.back() == '\n')) value.pop_back();
      static_cast<Impl*>(self)->wait_header = std::move(value);
    }
    return size;
  }

  // A collector that hangs does not hold up the end of the process.
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const Impl& impl = *static_cast<Impl*>(self);
    return impl.stopping && real_time().mono.count() >= impl.stop_at ? 1 : 0;
  }

  void prepare() {
    handle = curl.init();
    if (handle == nullptr) return;
    headers = curl.append(headers, "Content-Type: application/json");
    headers = curl.append(headers, "Expect:");  // no asking first: the answer may be all that is lost
    for (const auto& [name, value] : options.headers) headers = curl.append(headers, (name + ": " + value).c_str());
    curl.set(handle, CURLOPT_URL, options.url.c_str());
    curl.set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl.set(handle, CURLOPT_HTTPHEADER, headers);
    curl.set(handle, CURLOPT_USERAGENT, "bourse/" BOURSE_VERSION);
    curl.set(handle, CURLOPT_POST, 1L);
    curl.set(handle, CURLOPT_NOSIGNAL, 1L);
    curl.set(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(options.timeout / milliseconds(1)));
    curl.set(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.timeout / milliseconds(2)));
    curl.set(handle, CURLOPT_WRITEFUNCTION, &Impl::on_body);
    curl.set(handle, CURLOPT_WRITEDATA, this);
    curl.set(handle, CURLOPT_HEADERFUNCTION, &Impl::on_header);
    curl.set(handle, CURLOPT_HEADERDATA, this);
    curl.set(handle, CURLOPT_NOPROGRESS, 0L);
    curl.set(handle, CURLOPT_XFERINFOFUNCTION, &Impl::on_progress);
    curl.set(handle, CURLOPT_XFERINFODATA, this);
  }

  Outcome post(const std::string& body) {
    Outcome out;
    if (handle == nullptr) prepare();
    if (handle == nullptr) {
      out.reason = "no memory";
      return out;
    }
    answer.clear(), wait_header.clear();
    curl.set(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl.set(handle, CURLOPT_POSTFIELDS, body.c_str());
    if (const CURLcode code = curl.perform(handle); code != CURLE_OK) {
      out.reason = curl.text(code);
      return out;
    }
    long status = 0;
    curl.info(handle, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && status < 300) {
      out.kind = Outcome::Kind::kTaken;
      std::tie(out.rejected, out.reason) = otlp_rejected(answer);
      return out;
    }
    // Those of the specification; what else a collector says will be no different next time.
    const bool again = status == 429 || status == 502 || status == 503 || status == 504;
    out.kind = again ? Outcome::Kind::kAgain : Outcome::Kind::kNever;
    if (again && !wait_header.empty()) out.wait = retry_after(wait_header, real_time().wall);
    out.reason = "status " + std::to_string(status) + (answer.empty() ? "" : ": " + answer.substr(0, 200));
    return out;
  }
};

TraceExporter::TraceExporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TraceExporter::~TraceExporter() = default;

Result<std::unique_ptr<TraceExporter>> TraceExporter::open(TraceOptions options) {
  const Curl* curl = load_curl();
  if (curl == nullptr)
    return Error(Code::kUnsupported, "traces are to go to " + options.url + ", but libcurl.so.4 is not there; install libcurl4");
  auto impl = std::make_unique<Impl>(*curl, std::move(options));
  impl->thread = quiet_thread([raw = impl.get()] { raw->run(); });
  return std::unique_ptr<TraceExporter>(new TraceExporter(std::move(impl)));
}

void TraceExporter::add(std::vector<Span> spans) { impl_->add(std::move(spans)); }

TraceExporter::Counters TraceExporter::counters() const {
  const std::lock_guard lock(impl_->mutex);
  Counters counts = impl_->counts;
  counts.waiting = impl_->waiting.size();
  return counts;
}

}  // namespace bourse
