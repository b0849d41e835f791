// Spans on their way to a collector: options, the text that is sent, and what becomes of it when the collector is slow, says no, or dies.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/world/reactor.h"
#include "common/world/trace_export.h"

namespace bourse {
namespace {

Span span_named(const std::string& name) {
  Span span;
  span.context = span_of(*parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), name);
  span.parent = 0xb7ad6b7169203331ULL;
  span.name = name;
  span.start = Duration(1'544'712'660'300'000);
  span.end = Duration(1'544'712'661'300'001);
  return span;
}

// --- the text ---

// The values of the example in https://github.com/open-telemetry/opentelemetry-proto (examples/trace.json): ids, times and kind.
TEST(Otlp, WritesWhatTheExampleOfTheProtocolHas) {
  Span span = span_named("I'm a server span");
  span.context = *parse_traceparent("00-5b8efff798038103d269b633813fc60c-eee19b7ec3c1b174-01");
  span.parent = 0xeee19b7ec3c1b173ULL;
  span.kind = Span::Kind::kServer;
  span.attributes = {{"my.span.attr", std::string("some value")}, {"many", std::int64_t{9'007'199'254'740'993}}};
  const auto json = nlohmann::json::parse(otlp_json({{"service.name", "my.service"}}, {span}));
  EXPECT_EQ(json["resourceSpans"][0]["resource"]["attributes"][0],
            nlohmann::json::parse(R"({"key": "service.name", "value": {"stringValue": "my.service"}})"));
  const auto& one = json["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(one["traceId"], "5b8efff798038103d269b633813fc60c");
  EXPECT_EQ(one["spanId"], "eee19b7ec3c1b174");
  EXPECT_EQ(one["parentSpanId"], "eee19b7ec3c1b173");
  EXPECT_EQ(one["name"], "I'm a server span");
  EXPECT_EQ(one["kind"], 2);
  EXPECT_EQ(one["startTimeUnixNano"], "1544712660300000000");
  EXPECT_EQ(one["endTimeUnixNano"], "1544712661300001000");
  EXPECT_EQ(one["attributes"], nlohmann::json::parse(R"([{"key": "my.span.attr", "value": {"stringValue": "some value"}},
                                                         {"key": "many", "value": {"intValue": "9007199254740993"}}])"));
}

TEST(Otlp, AFailureHasItsCodeAndAFirstSpanNoParent) {
  Span good = span_named("good"), bad = span_named("bad");
  good.parent = 0;
  bad.failed = true, bad.message = "exit code 3";
  const auto spans = nlohmann::json::parse(otlp_json({}, {good, bad}))["resourceSpans"][0]["scopeSpans"][0]["spans"];
  EXPECT_FALSE(spans[0].contains("parentSpanId"));
  EXPECT_EQ(spans[0]["status"], nlohmann::json::object());
  EXPECT_EQ(spans[1]["status"], nlohmann::json::parse(R"({"code": 2, "message": "exit code 3"})"));
}

TEST(Otlp, NothingThatIsInASpanSpoilsTheWhole) {
  Span span = span_named("\xff\xfe quote\" back\\slash \x01 \xf0\x9f\x98\x80");
  span.end = span.start - seconds(5);  // clocks of two hosts
  span.attributes = {{"\xc3(", std::string("a\0b", 3)}};
  const auto one = nlohmann::json::parse(otlp_json({}, {span}))["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(one["endTimeUnixNano"], one["startTimeUnixNano"]);
  EXPECT_NE(one["name"].get<std::string>().find("quote\" back\\slash \x01 \xf0\x9f\x98\x80"), std::string::npos);
}

TEST(Otlp, APartialSuccessIsRead) {
  EXPECT_EQ(otlp_rejected(R"({"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}})").first, 3);
  EXPECT_EQ(otlp_rejected(R"({"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}})").second, "too old");
  EXPECT_EQ(otlp_rejected(R"({"partialSuccess": {"rejectedSpans": 2}})").first, 2);
  for (const char* body :
       {"", "{}", "null", "[]", "\x08\x01", R"({"partialSuccess": []})", R"({"partialSuccess": {"rejectedSpans": {}}})"})
    EXPECT_EQ(otlp_rejected(body).first, 0) << body;
}

// --- where to ---

Result<std::optional<TraceOptions>> options_of(const std::string& toml, const std::map<std::string, std::string>& variables) {
  const Config config = *Config::parse(toml, "bourse.conf", {});
  return trace_options(config, "bourse-batch", [&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST(TraceOptions, NobodyIsToldUnlessSomebodyAsks) {
  EXPECT_FALSE(options_of("", {})->has_value());
  EXPECT_FALSE(options_of("[trace]\nendpoint = \"http://c:4318\"\n", {{"OTEL_SDK_DISABLED", "TRUE"}})->has_value());
}

TEST(TraceOptions, TheEndpointIsABaseAndTheVariableForTracesIsNot) {
  EXPECT_EQ((*options_of("[trace]\nendpoint = \"http://c:4318\"\n", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://other:1"}}))->url,
            "http://c:4318/v1/traces");
  const auto base = *options_of("", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://c:4318/otlp/"}});
  EXPECT_EQ(base->url, "https://c:4318/otlp/v1/traces");
  EXPECT_EQ(base->tasks_endpoint, "https://c:4318/otlp");
  EXPECT_EQ(
      (*options_of("", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1"}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:2/x"}}))
          ->url,
      "http://t:2/x");
}

TEST(TraceOptions, HeadersTimeoutAndResourceComeFromTheirVariables) {
  const auto o = *options_of("[trace]\nsample = 250\n[cluster]\nname = \"lab\"\n",
                             {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1"},
                              {"OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret%20word, x = y ,,=z"},
                              {"OTEL_EXPORTER_OTLP_TIMEOUT", "1500"},
                              {"OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=prod,service.name=liar"}});
  EXPECT_EQ(o->headers, (std::vector<std::pair<std::string, std::string>>{{"api-key", "secret word"}, {"x", "y"}}));
  EXPECT_EQ(o->timeout, milliseconds(1500));
  EXPECT_EQ(o->sample_permille, 250U);
  const std::map<std::string, std::string> resource(o->resource.begin(), o->resource.end());
  EXPECT_EQ(resource.at("service.name"), "bourse-batch");
  EXPECT_EQ(resource.at("bourse.cluster"), "lab");
  EXPECT_EQ(resource.at("deployment.environment"), "prod");
}

TEST(TraceOptions, WhatIsNoUrlIsRefusedWithItsPlace) {
  for (const char* url : {"c:4318", "ftp://c", "http://", "http://c:1 x", "file:///etc/passwd"}) {
    const auto bad = options_of("[trace]\nendpoint = \"" + std::string(url) + "\"\n", {});
    ASSERT_FALSE(bad) << url;
    EXPECT_NE(bad.error().text().find("bourse.conf:2: trace.endpoint: `"), std::string::npos) << bad.error().text();
  }
  const auto split =
      options_of("", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1"}, {"OTEL_EXPORTER_OTLP_HEADERS", "a=b%0d%0aHost:%20evil"}});
  ASSERT_FALSE(split) << "a header that would be two";
  EXPECT_NE(split.error().text().find("control character"), std::string::npos);
}

TEST(TraceOptions, RetryAfterIsSecondsOrADate) {
  const Duration now = seconds(784'111'777);  // the example of RFC 9110, 5.6.7: Sun, 06 Nov 1994 08:49:37 GMT
  EXPECT_EQ(retry_after("120", now), seconds(120));
  EXPECT_EQ(retry_after(" 0 ", now), seconds(0));
  EXPECT_EQ(retry_after("Sun, 06 Nov 1994 08:49:57 GMT", now), seconds(20));
  EXPECT_EQ(retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now), seconds(0)) << "of the past";
  EXPECT_EQ(retry_after("99999999", now), kTraceRetryAfterMax);
  for (const char* text : {"", "-1", "soon", "1.5", "12 apples", "06 Nov 1994"}) EXPECT_FALSE(retry_after(text, now)) << text;
}

// --- a collector that does as it is told ---

class Collector {
 public:
  struct Rule {
    int status = 200;
    std::string headers = {}, body = "{}";
    bool hang = false;
  };
  Collector() {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    socklen_t length = sizeof address;
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    listen(fd_, 16);
    thread_ = std::thread([this] { serve(); });
  }
  ~Collector() {
    ending_ = true;
    thread_.join();
    close(fd_);
  }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1/traces"; }
  void rule(Rule rule) {
    const std::lock_guard lock(mutex_);
    rule_ = std::move(rule);
  }
  struct Seen {
    Duration at{0};
    std::string head;
    std::vector<std::string> names;
  };
  std::vector<Seen> seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  std::size_t names() {
    std::size_t n = 0;
    for (const Seen& one : seen()) n += one.names.size();
    return n;
  }

 private:
  void serve() {
    while (!ending_) {
      pollfd p{fd_, POLLIN, 0};
      if (poll(&p, 1, 20) <= 0) continue;
      const int peer = accept(fd_, nullptr, nullptr);
      while (!ending_ && one(peer)) {}
      close(peer);
    }
  }
  // A request and its answer on a connection that may be used again. False: it is over.
  bool one(int peer) {
    std::string in;
    std::size_t head = std::string::npos, length = 0;
    while (head == std::string::npos || in.size() < head + 4 + length) {
      pollfd p{peer, POLLIN, 0};
      if (ending_) return false;
      if (poll(&p, 1, 20) <= 0) continue;
      char buffer[65536];
      const ssize_t n = recv(peer, buffer, sizeof buffer, 0);
      if (n <= 0) return false;
      in.append(buffer, static_cast<std::size_t>(n));
      head = in.find("\r\n\r\n");
      if (head == std::string::npos) continue;
      const auto at = in.find("Content-Length: ");
      length = at < head ? std::strtoul(in.c_str() + at + 16, nullptr, 10) : 0;
    }
    Rule rule;
    {
      const std::lock_guard lock(mutex_);
      rule = rule_;
      Seen now{real_time().mono, in.substr(0, head), {}};
      const auto json = nlohmann::json::parse(in.substr(head + 4));
      for (const auto& r : json["resourceSpans"])
        for (const auto& s : r["scopeSpans"])
          for (const auto& span : s["spans"]) now.names.push_back(span["name"]);
      seen_.push_back(std::move(now));
    }
    while (rule.hang && !ending_) {
      pollfd p{peer, POLLIN, 0};
      if (poll(&p, 1, 20) > 0) return false;  // it has given up on us
      const std::lock_guard lock(mutex_);
      rule.hang = rule_.hang;
    }
    const std::string answer = "HTTP/1.1 " + std::to_string(rule.status) + " X\r\n" + rule.headers +
                               "Content-Length: " + std::to_string(rule.body.size()) + "\r\n\r\n" + rule.body;
    return send(peer, answer.data(), answer.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(answer.size());
  }

  int fd_ = -1, port_ = 0;
  std::atomic<bool> ending_{false};
  std::mutex mutex_;
  Rule rule_;
  std::vector<Seen> seen_;
  std::thread thread_;
};

class TraceExport : public testing::Test {
 protected:
  void open(const std::function<void(TraceOptions&)>& change = {}) {
    TraceOptions options;
    options.url = collector.url();
    options.resource = {{"service.name", "test"}};
    options.gather = milliseconds(20), options.timeout = seconds(20), options.give_up = seconds(60);
    options.pause_first = milliseconds(20), options.pause_max = milliseconds(100), options.last_words = milliseconds(300);
    if (change) change(options);
    auto opened = TraceExporter::open(std::move(options));
    ASSERT_TRUE(opened) << opened.error().text();
    exporter = *std::move(opened);
  }
  void add(int count, const std::string& name = "s") {
    std::vector<Span> spans;
    for (int i = 0; i < count; ++i) spans.push_back(span_named(name + std::to_string(i)));
    exporter->add(std::move(spans));
  }
  template <class Condition>
  bool until(Condition condition) {
    const Duration end = real_time().mono + seconds(30);
    while (!condition() && real_time().mono < end) usleep(2000);
    return condition();
  }

  Collector collector;
  std::unique_ptr<TraceExporter> exporter;
};

TEST_F(TraceExport, SendsWhatGathersInOneRequest) {
  open([](TraceOptions& o) { o.gather = milliseconds(500), o.headers = {{"api-key", "k"}}; });
  for (int i = 0; i < 10; ++i) add(1, "s" + std::to_string(i) + "-");
  ASSERT_TRUE(until([&] { return exporter->counters().sent == 10; }));
  ASSERT_EQ(collector.seen().size(), 1U);
  const auto head = collector.seen()[0].head;
  EXPECT_EQ(head.substr(0, 25), "POST /v1/traces HTTP/1.1\r");
  for (const char* line : {"\r\nContent-Type: application/json", "\r\napi-key: k", "\r\nUser-Agent: bourse/"})
    EXPECT_NE(head.find(line), std::string::npos) << head;
  EXPECT_EQ(head.find("Expect:"), std::string::npos);
}

TEST_F(TraceExport, ManyAreSentInRequestsOfBoundedSize) {
  open();
  add(2000);
  ASSERT_TRUE(until([&] { return exporter->counters().sent == 2000; }));
  EXPECT_EQ(collector.names(), 2000U);
  for (const auto& one : collector.seen()) EXPECT_LE(one.names.size(), kTraceSpansRequest);
}

TEST_F(TraceExport, TriesAgainWhatTheCollectorCannotTakeNow) {
  open();
  for (const int status : {429, 502, 503, 504}) {
    const auto before = exporter->counters();
    collector.rule({status});
    add(3);
    ASSERT_TRUE(until([&] { return exporter->counters().failures >= before.failures + 3; })) << status;
    EXPECT_EQ(exporter->counters().sent, before.sent);
    collector.rule({});
    ASSERT_TRUE(until([&] { return exporter->counters().sent == before.sent + 3; })) << status;
  }
  EXPECT_EQ(exporter->counters().dropped_refused + exporter->counters().dropped_late + exporter->counters().dropped_full, 0U);
}

TEST_F(TraceExport, DoesNotTryAgainWhatWillNeverBeTaken) {
  open();
  collector.rule({400, "", "bad"});
  add(3);
  ASSERT_TRUE(until([&] { return exporter->counters().dropped_refused == 3; }));
  EXPECT_EQ(collector.seen().size(), 1U);
  collector.rule({});
  add(2);
  ASSERT_TRUE(until([&] { return exporter->counters().sent == 2; })) << "the next ones go";
}

TEST_F(TraceExport, WaitsAsLongAsRetryAfterSays) {
  open();
  collector.rule({503, "Retry-After: 2\r\n"});
  add(1);
  ASSERT_TRUE(until([&] { return exporter->counters().failures == 1; }));
  collector.rule({});
  ASSERT_TRUE(until([&] { return exporter->counters().sent == 1; }));
  const auto seen = collector.seen();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_GE(seen[1].at - seen[0].at, milliseconds(1990)) << "without it the pause is at most 20 ms";
}

TEST_F(TraceExport, PausesGrowAndDiffer) {
  open([](TraceOptions& o) { o.pause_first = milliseconds(10), o.pause_max = milliseconds(160); });
  collector.rule({503});
  add(1);
  ASSERT_TRUE(until([&] { return collector.seen().size() >= 9; }));
  const auto seen = collector.seen();
  Duration least = milliseconds(5);
  for (std::size_t i = 1; i < 9; ++i) {
    EXPECT_GE(seen[i].at - seen[i - 1].at, least) << "pause " << i << ": half of what it may be at most";
    least = std::min(least * 2, Duration(milliseconds(80)));
  }
}

TEST_F(TraceExport, APartialSuccessIsCounted) {
  open();
  collector.rule({200, "", R"({"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}})"});
  add(5);
  ASSERT_TRUE(until([&] { return exporter->counters().sent == 3; }));
  EXPECT_EQ(exporter->counters().dropped_refused, 2U);
}

TEST_F(TraceExport, MemoryIsBoundedWhileTheCollectorHangs) {
  open();
  collector.rule({200, "", "{}", true});
  add(1);
  ASSERT_TRUE(until([&] { return collector.seen().size() == 1; }));
  const Duration before = real_time().mono;
  for (int i = 0; i < 100; ++i) add(1000);
  EXPECT_LT(real_time().mono - before, seconds(10)) << "who tells does not wait";
  auto counts = exporter->counters();
  EXPECT_EQ(counts.waiting, kTraceSpansWaiting);
  EXPECT_EQ(counts.dropped_full, 100'000 - kTraceSpansWaiting);
  // By bytes too: a few that are large.
  Span big = span_named("big");
  for (std::size_t i = 0; i < 100; ++i) big.attributes.emplace_back("k" + std::to_string(i), std::string(100'000, 'x'));
  collector.rule({});
  ASSERT_TRUE(until([&] { return exporter->counters().sent == 1 + kTraceSpansWaiting; }));
  collector.rule({200, "", "{}", true});
  add(1);
  ASSERT_TRUE(until([&] { return exporter->counters().waiting == 0; }));
  for (int i = 0; i < 3000; ++i) exporter->add({big});
  counts = exporter->counters();
  EXPECT_GE(counts.waiting, kTraceBytesWaiting / (kTraceAttributes * (kTraceTextBytes + 200)));
  EXPECT_LE(counts.waiting, kTraceBytesWaiting / (kTraceAttributes * kTraceTextBytes));
}

TEST_F(TraceExport, ARequestWithoutAnAnswerIsGivenUpAndTriedAgain) {
  open([](TraceOptions& o) { o.timeout = milliseconds(200); });
  collector.rule({200, "", "{}", true});
  add(1);
  ASSERT_TRUE(until([&] { return exporter->counters().failures >= 1; }));
  collector.rule({});
  EXPECT_TRUE(until([&] { return exporter->counters().sent == 1; }));
}

TEST_F(TraceExport, WhatIsTooOldIsGivenUp) {
  open([](TraceOptions& o) { o.give_up = milliseconds(300); });
  collector.rule({503});
  add(4);
  ASSERT_TRUE(until([&] { return exporter->counters().dropped_late == 4; }));
  collector.rule({});
  add(1);
  EXPECT_TRUE(until([&] { return exporter->counters().sent == 1; }));
}

TEST_F(TraceExport, TheEndIsNotHeldUpByACollectorThatHangs) {
  open([](TraceOptions& o) { o.timeout = seconds(600); });
  collector.rule({200, "", "{}", true});
  add(600);
  ASSERT_TRUE(until([&] { return collector.seen().size() == 1; }));
  const Duration before = real_time().mono;
  exporter.reset();
  EXPECT_LT(real_time().mono - before, seconds(8)) << "300 ms, and what curl takes to notice";
}

TEST_F(TraceExport, WhatWaitsAtTheEndIsSent) {
  open([](TraceOptions& o) { o.gather = seconds(600), o.last_words = seconds(30); });
  add(3);
  exporter.reset();
  EXPECT_EQ(collector.names(), 3U);
}

TEST_F(TraceExport, NobodyThereIsNoReasonToStop) {
  open([](TraceOptions& o) { o.url = "http://127.0.0.1:1/v1/traces"; });
  add(3);
  ASSERT_TRUE(until([&] { return exporter->counters().failures >= 2; }));
  EXPECT_EQ(exporter->counters().sent, 0U);
}

}  // namespace
}  // namespace bourse
