#include "common/world/otlp.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace bourse {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStatusError = 2;  // 0, unset, where all went well: "ok" is for whoever overrules that

std::string nanoseconds_text(Duration wall) { return std::to_string(std::max<std::int64_t>(wall.count(), 0)) + "000"; }

Json attribute(const std::string& key, const Span::Value& value) {
  Json any;
  if (const auto* text = std::get_if<std::string>(&value))
    any["stringValue"] = *text;
  else
    any["intValue"] = std::to_string(std::get<std::int64_t>(value));
  return {{"key", key}, {"value", std::move(any)}};
}

Json span_json(const Span& span) {
  Json out = {{"traceId", trace_id_text(span.context)}, {"spanId", span_id_text(span.context.span)}};
  if (span.parent != 0) out["parentSpanId"] = span_id_text(span.parent);
  out["name"] = span.name;
  out["kind"] = static_cast<int>(span.kind);
  out["startTimeUnixNano"] = nanoseconds_text(span.start);
  // Clocks of two hosts: an end before the beginning would be refused or shown as centuries.
  out["endTimeUnixNano"] = nanoseconds_text(std::max(span.start, span.end));
  Json attributes = Json::array();
  for (const auto& [key, value] : span.attributes) attributes.push_back(attribute(key, value));
  if (!attributes.empty()) out["attributes"] = std::move(attributes);
  Json status = Json::object();
  if (span.failed) {
    if (!span.message.empty()) status["message"] = span.message;
    status["code"] = kStatusError;
  }
  out["status"] = std::move(status);
  return out;
}

}  // namespace

std::string otlp_json(const TraceResource& resource, const std::vector<Span>& spans) {
  Json attributes = Json::array(), list = Json::array();
  for (const auto& [key, value] : resource) attributes.push_back(attribute(key, value));
  for (const Span& span : spans) list.push_back(span_json(span));
  Json scope = {{"scope", {{"name", "bourse"}, {"version", BOURSE_VERSION}}}, {"spans", std::move(list)}};
  Json one = {{"resource", {{"attributes", std::move(attributes)}}}, {"scopeSpans", Json::array({std::move(scope)})}};
  const Json all = {{"resourceSpans", Json::array({std::move(one)})}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::pair<std::int64_t, std::string> otlp_rejected(std::string_view body) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (!json.is_object()) return {};
  const auto partial = json.find("partialSuccess");
  if (partial == json.end() || !partial->is_object()) return {};
  std::pair<std::int64_t, std::string> out;
  if (const auto n = partial->find("rejectedSpans"); n != partial->end()) {
    if (n->is_string()) out.first = std::strtoll(n->get_ref<const std::string&>().c_str(), nullptr, 10);
    if (n->is_number_integer()) out.first = n->get<std::int64_t>();
  }
  if (const auto why = partial->find("errorMessage"); why != partial->end() && why->is_string())
    out.second = why->get<std::string>();
  out.first = std::max<std::int64_t>(out.first, 0);
  return out;
}

}  // namespace bourse
