#include "frameworks/batch/options.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace bourse::batch {
namespace {

constexpr std::array<std::string_view, 17> kLive = {
    "batch.default_time_limit", "batch.max_time_limit", "batch.default_mem_per_cpu", "batch.slice_reuse",      "batch.slice_idle",
    "batch.kill_wait",          "batch.requeue_max",    "batch.queue_max",           "batch.submit_max_bytes", "batch.backfill",
    "batch.backfill_depth",     "batch.policy",         "batch.history_keep",        "batch.launch_ahead",     "log.level",
    "batch.shadow_policy",      "batch.shadow_every"};

struct Field {
  std::string_view key;
  std::int64_t (*get)(const BatchOptions&);
  void (*set)(BatchOptions&, std::int64_t);
};
constexpr std::array kFields = {
    Field{"default_time_limit", [](const BatchOptions& o) { return static_cast<std::int64_t>(o.default_time_limit.count()); },
          [](BatchOptions& o, std::int64_t v) { o.default_time_limit = Duration(v); }},
    Field{"max_time_limit", [](const BatchOptions& o) { return static_cast<std::int64_t>(o.max_time_limit.count()); },
          [](BatchOptions& o, std::int64_t v) { o.max_time_limit = Duration(v); }},
    Field{"default_mem_per_cpu", [](const BatchOptions& o) { return o.default_mem_per_cpu.value; },
          [](BatchOptions& o, std::int64_t v) { o.default_mem_per_cpu = Bytes(v); }},
    Field{"slice_idle", [](const BatchOptions& o) { return static_cast<std::int64_t>(o.slice_idle.count()); },
          [](BatchOptions& o, std::int64_t v) { o.slice_idle = Duration(v); }},
    Field{"launch_ahead", [](const BatchOptions& o) { return static_cast<std::int64_t>(o.launch_ahead.count()); },
          [](BatchOptions& o, std::int64_t v) { o.launch_ahead = Duration(v); }},
    Field{"kill_grace", [](const BatchOptions& o) { return static_cast<std::int64_t>(o.kill_grace.count()); },
          [](BatchOptions& o, std::int64_t v) { o.kill_grace = Duration(v); }},
    Field{"shadow_every", [](const BatchOptions& o) { return static_cast<std::int64_t>(o.shadow_every.count()); },
          [](BatchOptions& o, std::int64_t v) { o.shadow_every = Duration(v); }},
    Field{"requeue_max", [](const BatchOptions& o) { return std::int64_t{o.requeue_max}; },
          [](BatchOptions& o, std::int64_t v) { o.requeue_max = static_cast<std::uint32_t>(v); }},
    Field{"script_bytes_max", [](const BatchOptions& o) { return static_cast<std::int64_t>(o.script_bytes_max); },
          [](BatchOptions& o, std::int64_t v) { o.script_bytes_max = static_cast<std::uint64_t>(v); }},
    Field{"pending_max", [](const BatchOptions& o) { return static_cast<std::int64_t>(o.pending_max); },
          [](BatchOptions& o, std::int64_t v) { o.pending_max = static_cast<std::uint64_t>(v); }},
    Field{"backfill", [](const BatchOptions& o) { return static_cast<std::int64_t>(o.backfill); },
          [](BatchOptions& o, std::int64_t v) {
            if (v >= 0 && v <= static_cast<std::int64_t>(Backfill::kConservative)) o.backfill = static_cast<Backfill>(v);
          }},
    Field{"backfill_depth", [](const BatchOptions& o) { return std::int64_t{o.backfill_depth}; },
          [](BatchOptions& o, std::int64_t v) { o.backfill_depth = static_cast<std::uint32_t>(v); }},
};

}  // namespace

BatchOptions options_of(const Config& config) {
  BatchOptions o;
  o.cluster = config.text("cluster", "name");
  o.framework = config.text("batch", "framework");
  o.role = config.text("batch", "role");
  o.default_time_limit = config.duration("batch", "default_time_limit");
  o.max_time_limit = config.duration("batch", "max_time_limit");
  o.default_mem_per_cpu = config.size("batch", "default_mem_per_cpu");
  o.slice_idle = config.flag("batch", "slice_reuse") ? config.duration("batch", "slice_idle") : Duration{0};
  o.launch_ahead = config.duration("batch", "launch_ahead");
  o.shadow_every = config.duration("batch", "shadow_every");
  o.kill_grace = config.duration("batch", "kill_wait");
  o.requeue_max = static_cast<std::uint32_t>(config.integer("batch", "requeue_max"));
  // A script travels within one request and one launch, which have limits of their own.
  o.script_bytes_max =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(config.size("batch", "submit_max_bytes").value), kScriptBytesMax);
  o.pending_max = static_cast<std::uint64_t>(config.integer("batch", "queue_max"));
  o.backfill = backfill_of(config.text("batch", "backfill")).value_or(Backfill::kEasy);
  o.backfill_depth = static_cast<std::uint32_t>(config.integer("batch", "backfill_depth"));
  return o;
}

std::string live_text(const BatchOptions& options) {
  std::string out;
  for (const Field& field : kFields) out += std::string(field.key) + "=" + std::to_string(field.get(options)) + "\n";
  return out;
}

Result<> take_live(std::string_view text, BatchOptions& options) {
  BatchOptions next = options;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = std::min(line.find('='), line.size());
    const auto field =
        std::find_if(kFields.begin(), kFields.end(), [&](const Field& f) { return f.key == line.substr(0, equals); });
    const std::string_view value = line.substr(std::min(equals + 1, line.size()));
    std::int64_t number = 0;
    const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (field == kFields.end() || failure != std::errc() || end != value.data() + value.size())
      return Error(Code::kCorrupt, "'" + std::string(line) + "' is no option that can change while bourse-batch runs");
    field->set(next, number);
  }
  options = std::move(next);
  return {};
}

ConfigChanges config_changes(const Config& before, const Config& after) {
  return bourse::config_changes(before, after, {"batch", "cluster", "log"}, {kLive.begin(), kLive.end()});
}

}  // namespace bourse::batch
