#include "agent/isolators/devices.h"

#include <fcntl.h>
#include <glob.h>
#include <linux/bpf.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <deque>
#include <utility>

#include "common/core/hooks.h"

namespace bourse::devices {

namespace {

constexpr std::size_t kProgramsKept = 8;

long bpf(int command, union bpf_attr& attributes) { return syscall(SYS_bpf, command, &attributes, sizeof attributes); }

// Registers as the program uses them.
enum Register : std::uint8_t { kResult = 0, kContext = 1, kType = 2, kAccess = 3, kMajor = 4, kMinor = 5 };

bpf_insn instruction(int code, std::uint8_t to, std::uint8_t from, std::int16_t offset, std::int32_t value) {
  bpf_insn out{};
  out.code = static_cast<std::uint8_t>(code);
  out.dst_reg = to & 0xfU;
  out.src_reg = from & 0xfU;
  out.off = offset;
  out.imm = value;
  return out;
}
bpf_insn load_word(Register to, std::size_t offset) {
  return instruction(BPF_LDX | BPF_MEM | BPF_W, to, kContext, static_cast<std::int16_t>(offset), 0);
}
bpf_insn unless_equal(Register which, std::int64_t value, int skip) {
  return instruction(BPF_JMP | BPF_JNE | BPF_K, which, 0, static_cast<std::int16_t>(skip), static_cast<std::int32_t>(value));
}
void answer(std::vector<bpf_insn>& program, int value) {
  program.push_back(instruction(BPF_ALU64 | BPF_MOV | BPF_K, kResult, 0, 0, value));
  program.push_back(instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
}

// The context is three words: type in the low half of the first, access in its high half; major; minor.
std::vector<bpf_insn> program_of(const std::vector<DeviceRule>& rules) {
  std::vector<bpf_insn> program = {
      load_word(kType, offsetof(bpf_cgroup_dev_ctx, access_type)),   instruction(BPF_ALU64 | BPF_MOV | BPF_X, kAccess, kType, 0, 0),
      instruction(BPF_ALU64 | BPF_AND | BPF_K, kType, 0, 0, 0xffff), instruction(BPF_ALU64 | BPF_RSH | BPF_K, kAccess, 0, 0, 16),
      load_word(kMajor, offsetof(bpf_cgroup_dev_ctx, major)),        load_word(kMinor, offsetof(bpf_cgroup_dev_ctx, minor)),
  };
  // To make a node is no access to the device: opening it is what counts, and asks again.
  program.push_back(unless_equal(kAccess, BPF_DEVCG_ACC_MKNOD, 2));
  answer(program, 1);
  for (const DeviceRule& rule : rules) {
    int checks = 1 + (rule.major >= 0 ? 1 : 0) + (rule.minor >= 0 ? 1 : 0);
    const int allow = 2;
    program.push_back(unless_equal(kType, rule.type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR, --checks + allow));
    if (rule.major >= 0) program.push_back(unless_equal(kMajor, rule.major, --checks + allow));
    if (rule.minor >= 0) program.push_back(unless_equal(kMinor, rule.minor, --checks + allow));
    answer(program, 1);
  }
  answer(program, 0);
  return program;
}

Result<int> load(const std::vector<bpf_insn>& program) {
  static const char license[] = "";  // it calls nothing that would ask for one
  union bpf_attr attributes {};
  attributes.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
  attributes.insns = reinterpret_cast<std::uintptr_t>(program.data());
  attributes.insn_cnt = static_cast<std::uint32_t>(program.size());
  attributes.license = reinterpret_cast<std::uintptr_t>(license);
  const long fd = bpf(BPF_PROG_LOAD, attributes);
  if (fd < 0) return errno_error("load the device program");
  return static_cast<int>(fd);
}

// The kernel takes longer to check a program than to make all groups of a slice, and most slices have the same devices: the last few
// programs stay open. Closed when exec.
Result<int> loaded(const std::vector<DeviceRule>& rules) {
  static std::deque<std::pair<std::vector<DeviceRule>, int>> kept;
  const auto same = std::find_if(kept.begin(), kept.end(), [&](const auto& one) { return one.first == rules; });
  if (same != kept.end()) return same->second;
  const int program = BOURSE_TRY(load(program_of(rules)));
  kept.emplace_back(rules, program);
  if (kept.size() > kProgramsKept) {
    close(kept.front().second);  // a group that has it holds it
    kept.pop_front();
  }
  return program;
}

std::int64_t number(std::string_view text, bool& ok) {
  if (text == "*") return -1;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  ok = ok && error == std::errc() && end == text.data() + text.size() && value >= 0;
  return value;
}

}  // namespace

std::vector<DeviceRule> usual() {
  return {{'c', 1, 3},  // null
          {'c', 1, 5},  // zero
          {'c', 1, 7},  // full
          {'c', 1, 8},  // random
          {'c', 1, 9},  // urandom
          {'c', 5, 0},  // tty
          {'c', 5, 2},  // ptmx
          {'c', 136, -1}, {'c', 137, -1}, {'c', 138, -1}, {'c', 139, -1},
          {'c', 140, -1}, {'c', 141, -1}, {'c', 142, -1}, {'c', 143, -1}};
}

Result<std::vector<DeviceRule>> of_path(const std::string& path) {
  std::vector<std::string> paths = {path};
  const bool pattern = path.find('*') != std::string::npos;
  if (pattern) {
    glob_t found{};
    paths.clear();
    if (glob(path.c_str(), 0, nullptr, &found) == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
  }
  std::vector<DeviceRule> rules;
  for (const std::string& each : paths) {
    struct stat st {};
    if (stat(each.c_str(), &st) != 0) {
      if (pattern) continue;
      return errno == ENOENT ? Error(Code::kNotFound, "device node " + each + " is not there") : errno_error("stat " + each);
    }
    if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode)) {
      if (pattern) continue;
      return Error(Code::kInvalid, each + " is not a device node");
    }
    rules.push_back({S_ISBLK(st.st_mode) ? 'b' : 'c', major(st.st_rdev), minor(st.st_rdev)});
  }
  return rules;
}

std::string text(const DeviceRule& rule) {
  const auto part = [](std::int64_t n) { return n < 0 ? std::string("*") : std::to_string(n); };
  return std::string(1, rule.type) + " " + part(rule.major) + ":" + part(rule.minor);
}

Result<DeviceRule> parse(std::string_view text) {
  DeviceRule rule;
  const auto colon = text.find(':');
  bool ok = text.size() >= 5 && (text[0] == 'c' || text[0] == 'b') && text[1] == ' ' && colon != std::string_view::npos;
  if (ok) {
    rule.type = text[0];
    rule.major = number(text.substr(2, colon - 2), ok);
    rule.minor = number(text.substr(colon + 1), ok);
  }
  if (!ok) return Error(Code::kInvalid, "\"" + std::string(text.substr(0, 32)) + "\" is not a device like \"c 195:0\"");
  return rule;
}

bool bpf_works() {
  static const bool works = [] {
    std::vector<bpf_insn> program;
    answer(program, 1);
    const auto fd = load(program);
    if (fd) close(*fd);
    return static_cast<bool>(fd);
  }();
  return works;
}

Result<> bpf_limit(const std::string& path, const std::vector<DeviceRule>& rules) {
  if (hooks::mutant("isolator.all_devices")) return {};
  if (rules.size() > kDeviceRulesMax)
    return Error(Code::kLimit, "more than " + std::to_string(kDeviceRulesMax) + " devices in one slice");
  const int program = BOURSE_TRY(loaded(rules));
  const int group = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  Result<> result;
  if (group < 0) {
    result = errno_error("open " + path);
  } else {
    union bpf_attr attributes {};
    attributes.target_fd = static_cast<std::uint32_t>(group);
    attributes.attach_bpf_fd = static_cast<std::uint32_t>(program);
    attributes.attach_type = BPF_CGROUP_DEVICE;
    if (bpf(BPF_PROG_ATTACH, attributes) < 0) result = errno_error("attach the device program to " + path);
    close(group);
  }
  return result;
}

}  // namespace bourse::devices
