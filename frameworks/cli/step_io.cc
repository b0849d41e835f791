#include "frameworks/cli/step_io.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <charconv>
#include <fstream>

namespace bourse::cli {

std::string step_frame(StepWord word, std::string_view rest) {
  std::string frame(1, static_cast<char>(word));
  frame += rest;
  return frame;
}

// Words without blanks: the keys are Z85, which has none and no semicolon or comma either.
std::string to_text(const StepIo& io) {
  std::string endpoints;
  for (const std::string& endpoint : io.endpoints) endpoints += (endpoints.empty() ? "" : ",") + endpoint;
  std::string flags;
  for (const auto& [set, letter] :
       {std::pair{io.terminal, 't'}, {io.hold, 'h'}, {io.files[0], 'i'}, {io.files[1], 'o'}, {io.files[2], 'e'}})
    flags += set ? letter : '-';
  return fmt::format("1;{};{};{};{};{};{};{}", endpoints, io.boot, io.server_key, io.keys.public_key, io.keys.secret_key, flags,
                     io.node);
}

Result<StepIo> parse_step_io(std::string_view text) {
  const auto split = [](std::string_view all, char at) {
    std::vector<std::string> parts(1);
    for (const char c : all) {
      if (c == at)
        parts.emplace_back();
      else
        parts.back() += c;
    }
    return parts;
  };
  const std::vector<std::string> parts = split(text, ';');
  constexpr std::size_t kKey = 40;
  const auto bad = [] { return Error(Code::kInvalid, std::string(kStepIoVariable) + " is not what this version writes"); };
  if (parts.size() != 8 || parts[0] != "1" || parts[6].size() != 5) return bad();
  StepIo io;
  io.endpoints = split(parts[1], ',');
  io.boot = parts[2];
  io.server_key = parts[3], io.keys = {parts[4], parts[5]};
  if (io.server_key.size() != kKey || io.keys.public_key.size() != kKey || io.keys.secret_key.size() != kKey) return bad();
  io.terminal = parts[6][0] == 't', io.hold = parts[6][1] == 'h';
  for (std::size_t i = 0; i < 3; ++i) io.files[i] = parts[6][2 + i] != '-';
  const std::string& node = parts[7];
  const auto [end, failure] = std::from_chars(node.data(), node.data() + node.size(), io.node);
  if (failure != std::errc() || end != node.data() + node.size() || io.node < 0) return bad();
  return io;
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
      if ((at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
      char text[INET_ADDRSTRLEN];
      const auto* address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
      if (inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) != nullptr) addresses.emplace_back(text);
    }
    freeifaddrs(list);
  }
  addresses.emplace_back("127.0.0.1");
  return addresses;
}

}  // namespace bourse::cli
