#include "frameworks/batch/job.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace bourse::batch {
namespace {

struct StateWord {
  std::string_view name, code;
};
constexpr std::array<StateWord, kJobStates> kStateWords{{{"PENDING", "PD"},
                                                         {"CONFIGURING", "CF"},
                                                         {"RUNNING", "R"},
                                                         {"COMPLETING", "CG"},
                                                         {"COMPLETED", "CD"},
                                                         {"FAILED", "F"},
                                                         {"CANCELLED", "CA"},
                                                         {"TIMEOUT", "TO"},
                                                         {"OUT_OF_MEMORY", "OOM"},
                                                         {"NODE_FAIL", "NF"},
                                                         {"PREEMPTED", "PR"},
                                                         {"DEADLINE", "DL"}}};
constexpr std::array<std::string_view, kReasons> kReasonWords{"None",
                                                              "Priority",
                                                              "Resources",
                                                              "Dependency",
                                                              "DependencyNeverSatisfied",
                                                              "JobHeldUser",
                                                              "JobHeldAdmin",
                                                              "BeginTime",
                                                              "JobArrayTaskLimit",
                                                              "NoAgents",
                                                              "ReqNodeNotAvail",
                                                              "LaunchHeld",
                                                              "NonZeroExitCode",
                                                              "RaisedSignal",
                                                              "TimeLimit",
                                                              "OutOfMemory",
                                                              "NodeFail",
                                                              "JobLaunchFailure",
                                                              "Cancelled",
                                                              "UnknownExit",
                                                              "Reservation",
                                                              "ReservationDeleted"};

std::string upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return out;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

constexpr std::array<std::pair<std::string_view, DependencyType>, 6> kDependencyWords{{{"after", DependencyType::kAfter},
                                                                                       {"afterok", DependencyType::kAfterOk},
                                                                                       {"afternotok", DependencyType::kAfterNotOk},
                                                                                       {"afterany", DependencyType::kAfterAny},
                                                                                       {"aftercorr", DependencyType::kAfterCorr},
                                                                                       {"singleton", DependencyType::kSingleton}}};

// One "12", "13_4" or "14+5" behind a dependency's type.
Result<Dependency> parse_dependency_id(DependencyType type, std::string_view text) {
  Dependency out{type, {}, {}, Duration{0}};
  std::string_view rest = text;
  if (auto plus = rest.find('+'); plus != std::string_view::npos) {
    auto minutes = number(rest.substr(plus + 1));
    if (type != DependencyType::kAfter || !minutes || *minutes > 10'000'000)
      return Error(Code::kInvalid, "dependency: '" + std::string(text) + "': '+minutes' goes with after:JOB only");
    out.delay = seconds(60) * static_cast<std::int64_t>(*minutes);
    rest = rest.substr(0, plus);
  }
  if (auto bar = rest.find('_'); bar != std::string_view::npos) {
    auto index = number(rest.substr(bar + 1));
    if (!index) return Error(Code::kInvalid, "dependency: '" + std::string(text) + "' is not a job id");
    out.index = *index;
    rest = rest.substr(0, bar);
  }
  auto id = number(rest);
  if (!id || *id == 0) return Error(Code::kInvalid, "dependency: '" + std::string(text) + "' is not a job id");
  out.job = JobId(*id);
  return out;
}

}  // namespace

std::string_view state_name(JobState state) { return kStateWords[static_cast<std::size_t>(state)].name; }
std::string_view state_code(JobState state) { return kStateWords[static_cast<std::size_t>(state)].code; }

Result<JobState> parse_state(std::string_view text) {
  std::string word = upper(text);
  if (word == "CANCELED") word = "CANCELLED";
  for (std::size_t i = 0; i < kJobStates; ++i)
    if (word == kStateWords[i].name || word == kStateWords[i].code) return static_cast<JobState>(i);
  std::string known;
  for (const auto& w : kStateWords) known += (known.empty() ? "" : ", ") + std::string(w.code);
  return Error(Code::kInvalid, "'" + std::string(text) + "' is not a job state; they are " + known);
}

std::string_view reason_name(Reason reason) { return kReasonWords[static_cast<std::size_t>(reason)]; }

Result<Dependencies> parse_dependencies(std::string_view text) {
  Dependencies out;
  if (text.empty()) return out;
  const bool any = text.find('?') != std::string_view::npos;
  if (any && text.find(',') != std::string_view::npos)
    return Error(Code::kInvalid, "dependency: ',' (all of them) and '?' (any of them) cannot be mixed");
  out.any = any;
  const char separator = any ? '?' : ',';
  std::optional<DependencyType> type;
  while (true) {
    const auto end = text.find(separator);
    std::string_view part = text.substr(0, end);
    const auto colon = part.find(':');
    const std::string_view word = part.substr(0, colon);
    const auto known =
        std::find_if(kDependencyWords.begin(), kDependencyWords.end(), [&](const auto& w) { return w.first == word; });
    if (known != kDependencyWords.end()) {
      type = known->second;
      part = colon == std::string_view::npos ? std::string_view() : part.substr(colon + 1);
      if (*type == DependencyType::kSingleton) {
        if (!part.empty()) return Error(Code::kInvalid, "dependency: singleton takes no job id");
        out.items.push_back({*type, {}, {}, Duration{0}});
      } else if (part.empty()) {
        return Error(Code::kInvalid, "dependency: '" + std::string(word) + "' needs a job id, as in " + std::string(word) + ":123");
      }
    } else if (!number(word.substr(0, word.find_first_of("_+"))) || !type) {
      if (!number(word.substr(0, word.find_first_of("_+"))))
        return Error(Code::kInvalid, "dependency: unknown type '" + std::string(word) +
                                         "'; they are after, afterok, afternotok, afterany, aftercorr, singleton");
      type = DependencyType::kAfterAny;  // a bare id, as Slurm takes it
    }
    while (!part.empty()) {
      const auto next = part.find(':');
      out.items.push_back(BOURSE_TRY(parse_dependency_id(*type, part.substr(0, next))));
      if (out.items.size() > kDependenciesMax)
        return Error(Code::kLimit, "dependency: more than " + std::to_string(kDependenciesMax) + " jobs");
      if (next == std::string_view::npos) break;
      part = part.substr(next + 1);
      if (part.empty()) return Error(Code::kInvalid, "dependency: nothing behind the last ':'");
    }
    if (end == std::string_view::npos) break;
    text = text.substr(end + 1);
  }
  return out;
}

std::string to_text(const Dependencies& dependencies) {
  std::string out;
  for (const Dependency& d : dependencies.items) {
    if (!out.empty()) out += dependencies.any ? '?' : ',';
    out += kDependencyWords[static_cast<std::size_t>(d.type)].first;
    if (d.type == DependencyType::kSingleton) continue;
    out += ':' + std::to_string(d.job.value);
    if (d.index) out += '_' + std::to_string(*d.index);
    if (d.delay.count() > 0) out += '+' + std::to_string(d.delay / seconds(60));
  }
  return out;
}

Result<ArraySpec> parse_array(std::string_view text) {
  ArraySpec out;
  if (text.empty()) return out;
  auto bad = [&](const std::string& why) {
    return Error(Code::kInvalid, "array '" + std::string(text) + "': " + why + "; write it as 1-1000, 0-15:4, 1,3,7 or 1-100%10");
  };
  std::string_view list = text;
  if (const auto percent = list.find('%'); percent != std::string_view::npos) {
    const auto limit = number(list.substr(percent + 1));
    if (!limit || *limit == 0 || *limit > UINT32_MAX) return bad("what follows '%' is not a number of tasks");
    out.max_running = static_cast<std::uint32_t>(*limit);
    list = list.substr(0, percent);
  }
  auto indexes = IndexSet::parse(list);
  if (!indexes) return bad(indexes.error().text());
  if (indexes->size() == 0) return bad("no index");
  out.indexes = *std::move(indexes);
  return out;
}

std::string to_text(const ArraySpec& array) {
  if (array.indexes.size() == 0) return {};
  return array.indexes.text() + (array.max_running > 0 ? "%" + std::to_string(array.max_running) : "");
}

Result<JobSelector> parse_selector(std::string_view text) {
  auto bad = [&] {
    return Error(Code::kInvalid, "'" + std::string(text) + "' is not a job id; they look like 123, 123_4 or 123_[1-3,7]");
  };
  const auto bar = text.find('_');
  const auto id = number(text.substr(0, bar));
  if (!id || *id == 0) return bad();
  JobSelector out{JobId(*id), {}};
  if (bar == std::string_view::npos) return out;
  std::string_view list = text.substr(bar + 1);
  if (list == "*") return out;
  if (list.size() >= 2 && list.front() == '[' && list.back() == ']') list = list.substr(1, list.size() - 2);
  if (list.empty() || !IndexSet::parse(list)) return bad();
  out.indexes = std::string(list);
  return out;
}

std::string to_text(const JobSelector& selector) {
  std::string out = std::to_string(selector.job.value);
  if (selector.indexes.empty()) return out;
  return number(selector.indexes) ? out + "_" + selector.indexes : out + "_[" + selector.indexes + "]";
}

std::string display_id(const JobInfo& info) {
  if (info.array.value == 0) return std::to_string(info.id.value);
  return to_text(JobSelector{info.array, info.indexes});
}

}  // namespace bourse::batch
