#include "frameworks/batch/simulated_nodes.h"

#include <charconv>

namespace bourse::batch {

namespace {

bool number(std::string_view digits, std::uint32_t& out, std::uint64_t most) {
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return failure == std::errc{} && end == digits.data() + digits.size() && out > 0 && out <= most;
}

Result<> parse_group(std::string_view part, const SimulatedNodes* like, SimulatedNodes& group) {
  const std::string_view head = part.substr(0, part.find(':'));
  std::string_view rest = part.substr(head.size());
  const std::size_t by = head.find('x');
  if (!number(head.substr(0, by), group.count, kSimulatedNodesMax))
    return Error(Code::kInvalid, "write COUNTxCORES, as in 240x1 or 20x80:mem=505GiB,48x12:gpu=4");
  if (by != std::string_view::npos) {
    if (!number(head.substr(by + 1), group.cores, kSimulatedNodesMax))
      return Error(Code::kInvalid, "\"" + std::string(head.substr(by + 1)) + "\" is not a number of cores");
  } else if (like != nullptr) {
    group.cores = like->cores, group.mem = like->mem, group.cpu_milli = like->cpu_milli;
  } else {
    return Error(Code::kInvalid, "write COUNTxCORES, as in 240x1 or 20x80:mem=505GiB,48x12:gpu=4");
  }
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view word = rest.substr(0, rest.find(':'));
    rest.remove_prefix(word.size());
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == word.size())
      return Error(Code::kInvalid, "\"" + std::string(word) + "\" is not KEY=VALUE (mem=4GiB, gpu=8, model=T4, or a label)");
    const std::string key(word.substr(0, equals)), value(word.substr(equals + 1));
    if (key == "mem") {
      group.mem = BOURSE_TRY(parse_size(value)).value;
    } else if (key == "gpu" || key == "gpus") {
      if (!number(value, group.gpus, kSimulatedGpusMax))
        return Error(Code::kInvalid, "gpu=" + value + ": from 1 to " + std::to_string(kSimulatedGpusMax));
    } else if (key == "model") {
      group.gpu_model = value;
    } else {
      group.labels[key] = value;
    }
  }
  return {};
}

}  // namespace

Result<std::vector<SimulatedNodes>> parse_simulated_nodes(std::string_view text, const SimulatedNodes* like) {
  std::vector<SimulatedNodes> groups;
  std::string_view rest = text;
  std::uint64_t nodes = 0;
  while (true) {
    const std::string_view part = rest.substr(0, rest.find(','));
    SimulatedNodes group;
    if (auto parsed = parse_group(part, like, group); !parsed)
      return std::move(parsed).error().add("nodes \"" + std::string(text.substr(0, 64)) + "\"");
    nodes += group.count;
    if (nodes > kSimulatedNodesMax)
      return Error(Code::kLimit,
                   "nodes \"" + std::string(text.substr(0, 64)) + "\": more than " + std::to_string(kSimulatedNodesMax));
    groups.push_back(std::move(group));
    if (part.size() == rest.size()) return groups;
    rest.remove_prefix(part.size() + 1);
  }
}

Resources total_of(const SimulatedNodes& group, const std::string& node) {
  Resources total;
  total.cpus.value = group.cpu_milli > 0 ? group.cpu_milli : std::int64_t{group.cores} * 1000;
  total.mem.value = group.mem;
  for (std::uint32_t i = 0; i < group.gpus; ++i) {
    DeviceShare share;
    const std::string place = std::to_string(i);
    share.device = DeviceId(node + "-gpu" + std::string(4 - std::min<std::size_t>(place.size(), 4), '0') + place);
    share.kind = "gpu/sim";
    share.whole = true;
    share.counters.set("compute", 1000);
    total.devices.push_back(std::move(share));
  }
  return total;
}

std::vector<std::string> names_of(const std::vector<SimulatedNodes>& groups) {
  std::vector<std::string> out;
  for (const SimulatedNodes& group : groups)
    for (std::uint32_t i = 0; i < group.count; ++i)
      out.push_back(group.name.empty() ? "n" + std::to_string(out.size() + 1)
                                       : group.name + (i == 0 ? "" : "-" + std::to_string(i)));
  return out;
}

std::uint64_t processors_of(const std::vector<SimulatedNodes>& groups) {
  std::uint64_t milli = 0;
  for (const SimulatedNodes& group : groups)
    milli += std::uint64_t{group.count} *
             static_cast<std::uint64_t>(group.cpu_milli > 0 ? group.cpu_milli : std::int64_t{group.cores} * 1000);
  return milli / 1000;
}

std::uint64_t gpus_of(const std::vector<SimulatedNodes>& groups) {
  std::uint64_t gpus = 0;
  for (const SimulatedNodes& group : groups) gpus += std::uint64_t{group.count} * group.gpus;
  return gpus;
}

}  // namespace bourse::batch
