#include "common/world/rooted.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "common/world/files.h"

namespace bourse {

std::optional<std::string> Rooted::text(std::string_view path) const {
  auto text = read_file(this->path(path), kTextMax);
  if (!text) return std::nullopt;
  while (!text->empty() && (text->back() == '\n' || text->back() == ' ' || text->back() == '\t' || text->back() == '\0')) {
    text->pop_back();
  }
  return *std::move(text);
}

std::optional<std::int64_t> Rooted::number(std::string_view path) const {
  const auto text = this->text(path);
  return text ? whole_number(*text) : std::nullopt;
}

bool Rooted::exists(std::string_view path) const { return access(this->path(path).c_str(), F_OK) == 0; }

std::vector<std::string> Rooted::names(std::string_view directory) const {
  std::vector<std::string> names;
  DIR* dir = opendir(path(directory).c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<Rooted::Mode> Rooted::mode(std::string_view path) const {
  struct stat st {};
  if (stat(this->path(path).c_str(), &st) != 0) return std::nullopt;
  return Mode{st.st_mode & 07777U, st.st_uid, st.st_gid, S_ISCHR(st.st_mode)};
}

std::string Rooted::link_name(std::string_view path) const {
  std::array<char, 4096> to{};
  const ssize_t n = readlink(this->path(path).c_str(), to.data(), to.size() - 1);
  if (n <= 0) return {};
  const std::string_view target(to.data(), static_cast<std::size_t>(n));
  return std::string(target.substr(target.rfind('/') + 1));
}

std::vector<pid_t> Rooted::processes(std::string_view name) const {
  std::vector<pid_t> found;
  for (const std::string& entry : names("/proc")) {
    const auto pid = whole_number(entry);
    if (!pid) continue;
    if (text("/proc/" + entry + "/comm") == name.substr(0, 15)) found.push_back(static_cast<pid_t>(*pid));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  constexpr std::string_view kBlank = " \t\n";
  for (auto at = text.find_first_not_of(kBlank); at != std::string_view::npos; at = text.find_first_not_of(kBlank, at)) {
    const auto end = std::min(text.find_first_of(kBlank, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace bourse
