#include "frameworks/console/view.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "frameworks/cli/master_client.h"

namespace bourse::console {
namespace {

MilliCpus cpus_in(const Row& row, std::string_view name) {
  const auto cpus = parse_cpus(cli::field(row, name));
  return cpus ? *cpus : MilliCpus{};
}

Bytes bytes_in(const Row& row, std::string_view name) {
  const auto bytes = parse_size(cli::field(row, name));
  return bytes ? *bytes : Bytes{};
}

// How many bytes the character at `at` has; 0 where it is no UTF-8. After RFC 3629, table of section 4.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : static_cast<unsigned char>(0);
  };
  const auto tails = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i)
      if (byte(i) < 0x80 || byte(i) > 0xbf) return false;
    return true;
  };
  const unsigned char first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return tails(1, 2) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const unsigned char low = first == 0xe0 ? 0xa0 : 0x80, high = first == 0xed ? 0x9f : 0xbf;
    return second >= low && second <= high && tails(2, 3) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const unsigned char low = first == 0xf0 ? 0x90 : 0x80, high = first == 0xf4 ? 0x8f : 0xbf;
    return second >= low && second <= high && tails(2, 4) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::uint64_t count_in(const Row& row, std::string_view name) {
  const std::string text = cli::field(row, name);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : 0;
}

std::optional<Duration> clock_in(const Row& row) {
  const std::string text = cli::field(row, "clock_ms");
  std::int64_t ms = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || std::abs(ms) > 1'000'000'000'000) return {};
  return std::chrono::milliseconds(ms);
}

AgentView agent_view(Row row) {
  AgentView view;
  view.clock = clock_in(row);
  view.state = cli::field(row, "state");
  view.cpus = cpus_in(row, "cpus_total"), view.cpus_free = cpus_in(row, "cpus_free");
  view.mem = bytes_in(row, "mem_total"), view.mem_free = bytes_in(row, "mem_free");
  view.slices = count_in(row, "slices"), view.devices = count_in(row, "devices");
  const std::string unhealthy = cli::field(row, "unhealthy");
  if (!unhealthy.empty()) view.unhealthy = 1 + static_cast<std::uint64_t>(std::count(unhealthy.begin(), unhealthy.end(), ','));
  // "lend.cpus=2200,pressure.host=650"
  const std::string figures = cli::field(row, "figures");
  for (std::size_t at = 0; at < figures.size();) {
    const std::size_t end = std::min(figures.find(',', at), figures.size()), equals = figures.find('=', at);
    if (equals < end)
      view.figures.emplace_back(figures.substr(at, equals - at), std::strtoull(figures.c_str() + equals + 1, nullptr, 10));
    at = end + 1;
  }
  view.row = std::move(row);
  return view;
}

FrameworkView framework_view(Row row) {
  FrameworkView view;
  view.clock = clock_in(row);
  view.role = cli::field(row, "role");
  view.connected = cli::field(row, "state") == "connected";
  view.cpus_used = cpus_in(row, "cpus_used"), view.mem_used = bytes_in(row, "mem_used");
  view.slices = count_in(row, "slices"), view.offers = count_in(row, "offers"), view.unmet = count_in(row, "unmet");
  view.row = std::move(row);
  return view;
}

RoleView role_view(Row row) {
  RoleView view;
  view.weight = count_in(row, "weight"), view.frameworks = count_in(row, "frameworks"), view.waiting = count_in(row, "waiting");
  view.cpus_used = cpus_in(row, "cpus_used"), view.mem_used = bytes_in(row, "mem_used");
  view.row = std::move(row);
  return view;
}

DemandView demand_view(const Row& row) {
  DemandView view;
  view.framework = cli::field(row, "framework"), view.role = cli::field(row, "role"), view.shape = cli::field(row, "shape");
  view.line = count_in(row, "line"), view.unmet = count_in(row, "unmet");
  view.count = count_in(row, "count"), view.together = count_in(row, "together");
  return view;
}

std::string why_text(const ExplainReply& reply) {
  std::string counts;
  for (const auto& count : reply.counts) counts += (counts.empty() ? "" : ", ") + std::to_string(count.agents) + " " + count.reason;
  std::string text = reply.rank;
  const auto add = [&](const std::string& sentence) { text += (text.empty() ? "" : ". ") + sentence; };
  add(std::to_string(reply.agents) + (reply.agents == 1 ? " agent" : " agents") + (counts.empty() ? "" : ": " + counts));
  for (const auto& part : reply.failing) add(part.reason + " fails on " + std::to_string(part.agents));
  if (!reply.nearest.empty()) add("Nearest: " + reply.nearest);
  if (!reply.quota.empty()) add("Limits: " + reply.quota);
  if (!reply.last_decline.empty()) add("Last declined: " + reply.last_decline);
  return text + ".";
}

EventView event_view(const Row& row) {
  EventView view;
  std::from_chars(row.name.data(), row.name.data() + row.name.size(), view.number);
  view.wall = Duration(static_cast<std::int64_t>(count_in(row, "time_us")));
  view.line = cli::field(row, "event");
  return view;
}

Totals totals_of(const View& view) {
  Totals totals;
  for (const AgentView& agent : view.agents) {
    const auto state = std::find(kAgentStates.begin(), kAgentStates.end(), agent.state);
    if (state != kAgentStates.end()) ++totals.agents[static_cast<std::size_t>(state - kAgentStates.begin())];
    totals.cpus.value += agent.cpus.value, totals.mem.value += agent.mem.value;
    totals.devices += agent.devices + agent.unhealthy, totals.unhealthy += agent.unhealthy;
    if (agent.state != "up") continue;
    totals.cpus_free.value += agent.cpus_free.value, totals.mem_free.value += agent.mem_free.value;
  }
  for (const FrameworkView& framework : view.frameworks) {
    ++totals.frameworks;
    totals.frameworks_connected += framework.connected ? 1 : 0;
    totals.cpus_used.value += framework.cpus_used.value, totals.mem_used.value += framework.mem_used.value;
    totals.unmet += framework.unmet;
  }
  totals.slices = count_in(view.leader, "slices"), totals.offers = count_in(view.leader, "offers");
  return totals;
}

std::string clean_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      ++at;
      continue;
    }
    out.append(text.substr(at, length));
    at += length;
  }
  return out;
}

}  // namespace bourse::console
