#include "common/world/plugin.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "common/core/fmath.h"
#include "common/core/hooks.h"
#include "common/world/digest.h"
#include "common/world/files.h"
#include "common/world/log.h"
#include "common/world/reactor.h"

namespace bourse {
namespace {

constexpr const char* kEntryName = "bourse_plugin_entry";
constexpr std::size_t kLogTextMax = 1000;
constexpr std::size_t kNameMax = 63;

std::string octal(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

// The bytes of a file that nobody but root (or we) can have written. Checked and read through one descriptor.
Result<std::string> read_trusted(const std::string& path) {
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return errno_error("open " + path);
  struct stat info {};
  if (fstat(file.fd, &info) != 0) return errno_error("stat " + path);
  if (!S_ISREG(info.st_mode)) return Error(Code::kInvalid, path + " is not a file");
  const bool ours = info.st_uid == 0 || info.st_uid == geteuid();
  if (!ours && !hooks::mutant("plugin.any_owner"))
    return Error(Code::kDenied, path + " belongs to user " + std::to_string(info.st_uid) +
                                    ", who could change what this program runs; make it root's: chown root " + path);
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !hooks::mutant("plugin.any_mode"))
    return Error(Code::kDenied, path + " may be written by others (mode " + octal(info.st_mode) + "); chmod go-w " + path);
  if (info.st_size > static_cast<off_t>(kPluginBytesMax))
    return Error(Code::kLimit, path + " has more than " + std::to_string(kPluginBytesMax) + " bytes");
  std::string content(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t have = 0;
  while (have < content.size()) {
    const ssize_t n = read(file.fd, content.data() + have, content.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("read " + path);
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  content.resize(have);
  return content;
}

// A file that was cut off half-way through a copy would be mapped and end us with SIGBUS: every segment must be in it.
Result<> check_whole(const std::string& content, const std::string& path) {
  ElfW(Ehdr) head{};
  const auto cut = [&] { return Error(Code::kCorrupt, path + " cannot be loaded: it is cut off; copy it again"); };
  if (content.size() < SELFMAG || std::memcmp(content.data(), ELFMAG, SELFMAG) != 0)
    return Error(Code::kInvalid, path + " cannot be loaded: it is no shared object");
  if (content.size() < sizeof head) return cut();
  std::memcpy(&head, content.data(), sizeof head);
  if (head.e_phoff > content.size() || std::uint64_t{head.e_phnum} * sizeof(ElfW(Phdr)) > content.size() - head.e_phoff)
    return cut();
  for (std::size_t i = 0; i < head.e_phnum; ++i) {
    ElfW(Phdr) segment{};
    std::memcpy(&segment, content.data() + head.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_offset > content.size() || segment.p_filesz > content.size() - segment.p_offset) return cut();
  }
  return {};
}

// The copy's path. One that is there already under that name and has that content is as good.
Result<std::string> keep_copy(const std::string& content, const std::string& digest, const std::string& path,
                              const std::string& directory) {
  BOURSE_TRY(make_directories(directory, 0700));
  struct stat info {};
  if (stat(directory.c_str(), &info) != 0) return errno_error("stat " + directory);
  if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Error(Code::kDenied, directory + ", where plugins are copied to, must belong to this program's user alone");
  std::string base = path.substr(path.rfind('/') + 1);
  if (base.ends_with(".so")) base.resize(base.size() - 3);
  for (char& c : base)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-')) c = '_';
  std::string copy = directory;
  copy += '/' + base.substr(0, 64) + '-' + digest.substr(0, 16) + ".so";
  const auto there = read_file(copy, kPluginBytesMax);
  if (!there || *there != content) BOURSE_TRY(write_file(copy, content, 0500));
  return copy;
}

// --- what plugins see of us ----------------------------------------------------------------------------------------------
// At most kLogLinesMax lines in one second, so that a plugin that talks without end fills no disk.
constexpr std::uint64_t kLogLinesMax = 100;

void write_log(const bourse_host* host, int level, const char* text) {
  static Duration second{0};
  static std::uint64_t lines = 0;
  if (const Duration now = real_time().mono; now - second >= seconds(1)) {
    if (lines > kLogLinesMax) log_event(LogLevel::kWarn, "plugin_lines_dropped", {{"lines", std::to_string(lines - kLogLinesMax)}});
    second = now;
    lines = 0;
  }
  if (++lines > kLogLinesMax) return;
  const LogLevel levels[] = {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError};
  const auto* name = static_cast<const std::string*>(host->context);
  log_event(
      levels[std::clamp(level, 0, 3)], "plugin_says",
      {{"plugin", name == nullptr ? "" : *name}, {"text", text == nullptr ? "" : std::string(text, strnlen(text, kLogTextMax))}});
}
const bourse_log_1 kLog{sizeof(bourse_log_1), write_log};
const bourse_math_1 kMath{sizeof(bourse_math_1), fmath::exp, fmath::log, fmath::pow, fmath::sqrt};

const void* get_of_host(const bourse_host*, const char* id) {
  if (id == nullptr) return nullptr;
  if (std::strcmp(id, BOURSE_LOG_1) == 0) return &kLog;
  if (std::strcmp(id, BOURSE_MATH_1) == 0) return &kMath;
  return nullptr;
}

// Every content that was ever mapped here, with how many use it now. Never shrinks: code stays.
struct Mapped {
  const bourse_plugin* entry = nullptr;
  std::string name, host_name;
  bourse_host host{};
  int users = 0;
};
std::map<std::string, Mapped>& mapped() {
  static auto* all = new std::map<std::string, Mapped>();  // outlives everything that could be destroyed at exit
  return *all;
}

bool good_text(const char* text, bool as_name) {
  if (text == nullptr) return false;
  const std::string_view view(text, strnlen(text, kNameMax + 1));
  if (view.empty() || view.size() > kNameMax) return false;
  if (as_name && !(view[0] >= 'a' && view[0] <= 'z')) return false;
  return std::all_of(view.begin(), view.end(), [&](char c) {
    if (!as_name) return c > ' ' && c < 0x7F;
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace

Result<> check_plugin_entry(const bourse_plugin& entry, const std::string& path, const std::string& kind) {
  // Only `size` and the ABI's numbers can be read of what may be anything.
  if (entry.size < kPluginEntryBytesMin && !hooks::mutant("plugin.short_size"))
    return Error(Code::kInvalid, path + ": its entry has " + std::to_string(entry.size) + " bytes, at least " +
                                     std::to_string(kPluginEntryBytesMin) + " were expected: set size to sizeof(bourse_plugin)");
  if (entry.abi_major != BOURSE_PLUGIN_ABI_MAJOR && !hooks::mutant("plugin.any_abi"))
    return Error(Code::kVersion, path + " was built for plugin ABI " + std::to_string(entry.abi_major) + "." +
                                     std::to_string(entry.abi_minor) + ", this program has " +
                                     std::to_string(BOURSE_PLUGIN_ABI_MAJOR) + "." + std::to_string(BOURSE_PLUGIN_ABI_MINOR) +
                                     ": build it again with this version's bourse/plugin.h");
  if (!good_text(entry.kind, true)) return Error(Code::kInvalid, path + ": its entry has no kind (\"policy\" or \"probe\")");
  if (!good_text(entry.name, true))
    return Error(Code::kInvalid, path + ": its entry's name must be 1 to 63 of [a-z0-9_-], beginning with a letter");
  if (!good_text(entry.version, false))
    return Error(Code::kInvalid, path + ": its entry's version must be 1 to 63 printable characters without spaces");
  if (entry.get == nullptr) return Error(Code::kInvalid, path + ": its entry has no get()");
  if (!kind.empty() && kind != entry.kind)
    return Error(Code::kInvalid, path + " is a " + entry.kind + ", a " + kind + " was expected");
  return {};
}

Result<std::unique_ptr<Plugin>> Plugin::load(const std::string& path, const std::string& kind, const PluginHost& host) {
  const std::string content = BOURSE_TRY(read_trusted(path));
  const std::string digest = sha256_hex(content);
  Mapped& m = mapped()[digest];
  if (m.entry == nullptr) {
    BOURSE_TRY(check_whole(content, path));
    const std::string copy = BOURSE_TRY(keep_copy(content, digest, path, host.directory));
    void* handle = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* why = dlerror();  // NOLINT(concurrency-mt-unsafe)
      return Error(Code::kInvalid, path + " cannot be loaded: " + (why == nullptr ? "no reason given" : why));
    }
    const auto* entry = static_cast<const bourse_plugin*>(dlsym(handle, kEntryName));
    if (entry == nullptr)
      return Error(Code::kInvalid, path + " does not export `" + kEntryName + "', so it is no plugin of Bourse");
    BOURSE_TRY(check_plugin_entry(*entry, path, ""));
    m.entry = entry;
    m.name = entry->name;
  }
  BOURSE_TRY(check_plugin_entry(*m.entry, path, kind));
  if (m.users == 0) {
    m.host_name = host.name;
    m.host = {sizeof(bourse_host), BOURSE_PLUGIN_ABI_MAJOR, BOURSE_PLUGIN_ABI_MINOR, m.host_name.c_str(), BOURSE_VERSION, &m.name,
              get_of_host};
    if (m.entry->init != nullptr) {
      if (const int rc = m.entry->init(&m.host); rc != 0)
        return Error(Code::kInvalid, path + ": its init() failed with " + std::to_string(rc));
    }
  }
  ++m.users;
  return std::unique_ptr<Plugin>(new Plugin(path, digest, m.entry));
}

Plugin::~Plugin() {
  Mapped& m = mapped()[digest_];
  if (--m.users == 0 && entry_->fini != nullptr) entry_->fini();
}

Result<const void*> Plugin::get(const char* interface_id, std::uint32_t least) const {
  const void* found = entry_->get(interface_id);
  if (found == nullptr) return Error(Code::kUnsupported, path_ + " has no interface \"" + interface_id + "\"");
  std::uint32_t size = 0;  // every interface struct begins with its size
  std::memcpy(&size, found, sizeof size);
  if (size < least && !hooks::mutant("plugin.short_interface"))
    return Error(Code::kInvalid, path_ + ": its interface \"" + interface_id + "\" has " + std::to_string(size) +
                                     " bytes, at least " + std::to_string(least) + " were expected: set size to sizeof");
  return found;
}

}  // namespace bourse
