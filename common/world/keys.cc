// Key files and the keyring of transport.h; no socket here.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "common/world/files.h"
#include "common/world/transport.h"

namespace bourse {
namespace {

constexpr std::size_t kKeyFileMax = 4096;
constexpr std::size_t kKeysMax = 100'000;  // files in a keyring's directory

bool is_key(std::string_view text) {
  if (text.size() != 40) return false;
  constexpr std::string_view kZ85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
  return text.find_first_not_of(kZ85) == std::string_view::npos;
}

// `name = "value"`; anything else than comments, blank lines and the names given is an error with its line.
Result<std::string> key_of(const std::string& path, const std::string& content, std::string_view name) {
  std::size_t begin = 0;
  for (int line = 1; begin < content.size(); ++line) {
    std::size_t end = content.find('\n', begin);
    if (end == std::string::npos) end = content.size();
    std::string_view text(content.data() + begin, end - begin);
    begin = end + 1;
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
    if (text.empty() || text.front() == '#') continue;
    const auto equals = text.find('=');
    std::string_view word = text.substr(0, equals);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    if (equals == std::string_view::npos || (word != "public" && word != "secret" && word != "roles"))
      return Error(Code::kInvalid,
                   path + ":" + std::to_string(line) + ": expected public = \"...\", secret = \"...\" or roles = \"...\"");
    if (word != name) continue;
    std::string_view value = text.substr(equals + 1);
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    if (name == "roles") {
      if (value.size() < 3 || value.front() != '"' || value.back() != '"' ||
          value.substr(1, value.size() - 2).find_first_of("\" \t") != std::string_view::npos)
        return Error(Code::kInvalid,
                     path + ":" + std::to_string(line) + ": expected roles = \"ROLE,ROLE\", without blanks between them");
      return std::string(value.substr(1, value.size() - 2));
    }
    if (value.size() < 2 || value.front() != '"' || value.back() != '"' || !is_key(value.substr(1, value.size() - 2)))
      return Error(Code::kInvalid,
                   path + ":" + std::to_string(line) + ": " + std::string(name) + " is not a key (40 characters of Z85 in quotes)");
    return std::string(value.substr(1, value.size() - 2));
  }
  if (name == "roles") return std::string();
  return Error(Code::kInvalid, path + ": has no line " + std::string(name) + " = \"...\"");
}

Result<> create_file(const std::string& path, const std::string& content, unsigned mode) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0 && errno == EEXIST) return Error(Code::kExists, path + " exists already; remove it first if it is to be replaced");
  if (fd < 0) return errno_error("create " + path);
  const bool good = fchmod(fd, mode) == 0 && write_all(fd, content) && fsync(fd) == 0;
  Error error = errno_error("write " + path);
  close(fd);
  if (good) return {};
  unlink(path.c_str());
  return error;
}

}  // namespace

Result<KeyPair> read_key_file(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return errno_error("key file " + path);
  if ((st.st_mode & 077) != 0)
    return Error(Code::kDenied, "key file " + path + " can be read by others than its owner: chmod 600 it");
  const std::string content = BOURSE_TRY(read_file(path, kKeyFileMax));
  KeyPair keys;
  keys.public_key = BOURSE_TRY(key_of(path, content, "public"));
  keys.secret_key = BOURSE_TRY(key_of(path, content, "secret"));
  return keys;
}

Result<std::string> read_public_key(const std::string& path) {
  const std::string content = BOURSE_TRY(read_file(path, kKeyFileMax));
  return key_of(path, content, "public");
}

Result<std::string> read_key_roles(const std::string& path) {
  const std::string content = BOURSE_TRY(read_file(path, kKeyFileMax));
  return key_of(path, content, "roles");
}

Result<> write_key_files(const std::string& path, const KeyPair& keys, const std::string& roles) {
  const std::string line = "public = \"" + keys.public_key + "\"\n";
  BOURSE_TRY(create_file(path, line + "secret = \"" + keys.secret_key + "\"\n", 0600));
  Result<> made = create_file(path + ".pub", line + (roles.empty() ? "" : "roles = \"" + roles + "\"\n"), 0644);
  if (!made) unlink(path.c_str());
  return made;
}

std::string key_file_name(const std::string& identity) {
  std::string name = identity;
  std::replace(name.begin(), name.end(), ':', '=');
  return name;
}

Result<Keyring> Keyring::read(const std::string& directory) {
  struct stat st {};
  if (stat(directory.c_str(), &st) != 0) return errno_error("key directory " + directory);
  if ((st.st_mode & 002) != 0)
    return Error(Code::kDenied, "key directory " + directory + " can be written by everybody: chmod o-w it");
  DIR* dir = opendir(directory.c_str());
  if (dir == nullptr) return errno_error("key directory " + directory);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name.size() > 4 && name.front() != '.' && name.ends_with(".pub") && name != "master.pub" && name != "batch.sign.pub")
      names.push_back(name);
  }
  closedir(dir);
  if (names.size() > kKeysMax) return Error(Code::kLimit, directory + " has more than " + std::to_string(kKeysMax) + " keys");
  std::sort(names.begin(), names.end());
  Keyring ring;
  for (const std::string& name : names) {
    const std::string path = directory + "/" + name;
    if (stat(path.c_str(), &st) != 0) continue;  // removed meanwhile: not allowed
    if ((st.st_mode & 002) != 0) return Error(Code::kDenied, path + " can be written by everybody: chmod o-w it");
    const std::string key = BOURSE_TRY(read_public_key(path)), roles = BOURSE_TRY(read_key_roles(path));
    std::string identity = name.substr(0, name.size() - 4);
    const auto mark = identity.find('=');
    if (mark == std::string::npos || mark == 0 || mark + 1 == identity.size())
      return Error(Code::kInvalid,
                   path + ": a key file is named like agent=NAME.pub, framework=NAME.pub, operator=NAME.pub or reader=NAME.pub");
    std::replace(identity.begin(), identity.end(), '=', ':');
    if (!ring.identity(key).empty())
      return Error(Code::kInvalid, path + ": this key is allowed as " + ring.identity(key) + " already");
    ring.allow(key, identity, roles);
  }
  return ring;
}

void Keyring::allow(const std::string& public_key, const std::string& identity, const std::string& roles) {
  keys_[public_key] = {identity, roles};
}

const Keyring::Entry* Keyring::find(const std::string& public_key) const {
  const auto it = keys_.find(public_key);
  return it == keys_.end() ? nullptr : &it->second;
}

std::string Keyring::identity(const std::string& public_key) const {
  const Entry* entry = find(public_key);
  return entry == nullptr ? std::string() : entry->identity;
}

}  // namespace bourse
