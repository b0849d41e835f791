// Where traces go: bourse.conf(5) and the variables of https://opentelemetry.io/docs/specs/otel/protocol/exporter/.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <ctime>

#include "common/world/trace_export.h"

namespace bourse {
namespace {

constexpr std::string_view kPath = "/v1/traces";

int digit_of(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit_of(text[i + 1]) >= 0 && digit_of(text[i + 2]) >= 0) {
      out += static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// "a=1,b=two%20words", as W3C Baggage writes it.
std::vector<std::pair<std::string, std::string>> pairs_of(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t is = one.find('=');
    if (is == std::string_view::npos || trimmed(one.substr(0, is)).empty()) continue;
    out.emplace_back(std::string(trimmed(one.substr(0, is))), percent_decoded(trimmed(one.substr(is + 1))));
  }
  return out;
}

bool is_url(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"})
    if (text.substr(0, scheme.size()) == scheme)
      return text.size() > scheme.size() &&
             std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
  return false;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

Result<std::optional<TraceOptions>> trace_options(const Config& config, std::string_view service,
                                                  const std::function<const char*(const char*)>& variable) {
  const auto value = [&](const char* name) {
    const char* text = variable(name);
    return std::string(text == nullptr ? "" : trimmed(text));
  };
  std::string disabled = value("OTEL_SDK_DISABLED");
  std::transform(disabled.begin(), disabled.end(), disabled.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (disabled == "true") return std::optional<TraceOptions>();
  TraceOptions options;
  std::string base = config.text("trace", "endpoint"), from = config.place("trace", "endpoint") + "trace.endpoint";
  if (base.empty()) {
    options.url = value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    from = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    base = value("OTEL_EXPORTER_OTLP_ENDPOINT");
    if (options.url.empty() && !base.empty()) from = "OTEL_EXPORTER_OTLP_ENDPOINT";
  }
  if (options.url.empty() && base.empty()) return std::optional<TraceOptions>();
  while (!base.empty() && base.back() == '/') base.pop_back();
  if (options.url.empty()) options.url = base + std::string(kPath);
  if (!is_url(options.url))
    return Error(Code::kInvalid, from + ": `" + options.url + "' is no collector; write it as http://127.0.0.1:4318");
  options.tasks_endpoint = base;
  options.sample_permille = static_cast<std::uint32_t>(config.integer("trace", "sample"));
  std::string headers = value("OTEL_EXPORTER_OTLP_TRACES_HEADERS");
  if (headers.empty()) headers = value("OTEL_EXPORTER_OTLP_HEADERS");
  for (auto& [name, text] : pairs_of(headers)) {
    const auto plain = [](unsigned char c) { return c >= ' ' && c != 0x7f; };
    if (!std::all_of(name.begin(), name.end(), plain) || !std::all_of(text.begin(), text.end(), plain))
      return Error(Code::kInvalid, "OTEL_EXPORTER_OTLP_HEADERS: " + name + " has a control character");
    options.headers.emplace_back(name, text);
  }
  if (const std::string timeout = value("OTEL_EXPORTER_OTLP_TIMEOUT"); !timeout.empty()) {
    std::int64_t ms = 0;
    const auto [end, error] = std::from_chars(timeout.data(), timeout.data() + timeout.size(), ms);
    if (error == std::errc{} && end == timeout.data() + timeout.size() && ms > 0)
      options.timeout = milliseconds(std::min<std::int64_t>(ms, 600'000));
  }
  options.resource = {{"service.name", std::string(service)},
                      {"service.version", BOURSE_VERSION},
                      {"service.instance.id", host_name() + "/" + std::to_string(getpid())},
                      {"host.name", host_name()},
                      {"bourse.cluster", config.text("cluster", "name")}};
  for (auto& [name, text] : pairs_of(value("OTEL_RESOURCE_ATTRIBUTES")))
    if (std::none_of(options.resource.begin(), options.resource.end(), [&](const auto& one) { return one.first == name; }))
      options.resource.emplace_back(name, text);
  return std::optional(std::move(options));
}

Result<std::optional<TraceOptions>> trace_options(const Config& config, std::string_view service) {
  return trace_options(config, service, [](const char* name) -> const char* {
    return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread is there
  });
}

std::optional<Duration> retry_after(std::string_view value, Duration now_wall) {
  value = trimmed(value);
  std::int64_t wait = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), wait);
  if (error == std::errc{} && end == value.data() + value.size() && wait >= 0)
    return seconds(std::min<std::int64_t>(wait, kTraceRetryAfterMax / seconds(1)));
  tm date{};
  const std::string text(value);
  const char* rest = strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date);
  if (rest == nullptr || *rest != '\0') return std::nullopt;
  return std::clamp<Duration>(seconds(timegm(&date)) - now_wall, Duration{0}, kTraceRetryAfterMax);
}

}  // namespace bourse
