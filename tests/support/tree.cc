#include "tests/support/tree.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace bourse::tests {
namespace {

namespace fs = std::filesystem;

std::string unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == 'n' || text[i + 1] == 't'))
      out += text[++i] == 'n' ? '\n' : '\t';
    else
      out += text[i];
  }
  return out;
}

void write(const fs::path& path, const std::string& content, const std::string& mode) {
  fs::create_directories(path.parent_path());
  fs::remove(path);
  std::ofstream(path, std::ios::binary) << content;
  if (!mode.empty()) chmod(path.c_str(), static_cast<mode_t>(std::strtoul(mode.c_str(), nullptr, 8)));
}

}  // namespace

std::string unpack_tree(const std::string& description, const std::string& directory) {
  std::istringstream in(description);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.empty() || line.front() == '#') continue;
    if (line.front() != '/') return "line " + std::to_string(number) + " begins with no path: " + line;
    const auto blank = line.find(' ');
    const fs::path path = directory + line.substr(0, blank);
    if (blank == std::string::npos) {
      if (line.back() != '/') return "line " + std::to_string(number) + " says nothing of " + line;
      fs::create_directories(path);
      continue;
    }
    std::string rest = line.substr(blank + 1), mode;
    if (rest.front() == '0') {
      mode = rest.substr(0, rest.find(' '));
      rest.erase(0, std::min(rest.size(), mode.size() + 1));
    }
    if (rest.compare(0, 3, "-> ") == 0) {
      fs::create_directories(path.parent_path());
      fs::remove(path);
      fs::create_symlink(rest.substr(3), path);
    } else if (rest.compare(0, 1, "=") == 0) {
      write(path, unescaped(rest.size() > 2 ? rest.substr(2) : "") + "\n", mode);
    } else if (rest == "<<") {
      std::string content;
      const int began = number;
      bool ended = false;
      while (!ended && std::getline(in, line)) {
        ++number;
        ended = line == ".";
        if (!ended) content += line + "\n";
      }
      if (!ended) return "line " + std::to_string(began) + " begins a text that does not end";
      write(path, content, mode);
    } else {
      return "line " + std::to_string(number) + " is not understood: " + line;
    }
  }
  return {};
}

Tree::Tree() {
  char path[] = "/tmp/bourse-tree-XXXXXX";
  if (mkdtemp(path) == nullptr) std::abort();
  path_ = path;
}

Tree::Tree(const std::string& file) : Tree() {
  std::ifstream in("tests/data/" + file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) {
    std::fprintf(stderr, "tests/data/%s cannot be read\n", file.c_str());
    std::abort();
  }
  add(text.str());
}

Tree::~Tree() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void Tree::add(const std::string& description) {
  const std::string why = unpack_tree(description, path_);
  if (why.empty()) return;
  std::fprintf(stderr, "fixture: %s\n", why.c_str());
  std::abort();
}

void Tree::remove(const std::string& path) { fs::remove_all(path_ + path); }

}  // namespace bourse::tests
