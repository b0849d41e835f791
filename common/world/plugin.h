// Loads plugins: shared objects that export `bourse_plugin_entry`, see bourse/plugin.h. One thread, the one that runs the reactor
// (or a helper's own).
//
// What is loaded is a copy, under a name with its content's hash, in a directory that only we may write: so a file that is
// replaced under its old name is new code, and one that is changed in place while it is mapped harms nobody. Nothing is ever
// unloaded: entries and interfaces stay valid for the life of the process; init() and fini() are paired by users.
//
// Refused: a file not owned by root (or, where we are not root, by us), writable by group or others, or over kPluginBytesMax;
// what the dynamic linker refuses; a missing, short or incomplete entry; another ABI; another kind than asked for; init() failing.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "bourse/plugin.h"
#include "common/core/result.h"

namespace bourse {

constexpr std::size_t kPluginBytesMax = 64 * 1024 * 1024;
constexpr std::uint32_t kPluginEntryBytesMin = sizeof(bourse_plugin);  // of ABI 1.0

struct PluginHost {
  std::string name;       // of the program: "bourse-master"
  std::string directory;  // for the copies; made, mode 0700, where it is missing
};

// One use of a plugin. The last one that goes calls fini().
class Plugin {
 public:
  // `kind`: "policy" or "probe"; "" takes any. Errors name the file and say what to do.
  static Result<std::unique_ptr<Plugin>> load(const std::string& path, const std::string& kind, const PluginHost& host);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }      // as it was named
  [[nodiscard]] const std::string& digest() const { return digest_; }  // SHA-256 of the file, hex
  [[nodiscard]] const bourse_plugin& entry() const { return *entry_; }
  [[nodiscard]] std::string name() const { return entry_->name; }
  [[nodiscard]] std::string version() const { return entry_->version; }
  // An interface of the plugin. kUnsupported: it has none of that name; kInvalid: one shorter than `least` bytes.
  [[nodiscard]] Result<const void*> get(const char* interface_id, std::uint32_t least) const;

 private:
  Plugin(std::string path, std::string digest, const bourse_plugin* entry)
      : path_(std::move(path)), digest_(std::move(digest)), entry_(entry) {}
  std::string path_, digest_;
  const bourse_plugin* entry_;
};

// What a file says of itself, before any of its code but constructors has run: for Plugin::load and `bourse plugin check`.
Result<> check_plugin_entry(const bourse_plugin& entry, const std::string& path, const std::string& kind);

}  // namespace bourse
