#include "agent/microvm/guest.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <utility>

namespace bourse::microvm {
namespace {

constexpr std::size_t kLineMax = 64;
constexpr std::size_t kBlock = 512;  // of the whole archive; the next one begins at a multiple of four

// A terminal turns line ends into two characters and repeats what it is sent; a console that carries output must do neither. The
// program gets its own session, so that a signal reaches what it has started.
constexpr std::string_view kInit = R"(#!/bin/sh
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
for d in proc sys dev tmp run root; do [ -d /$d ] || mkdir /$d; done
[ -e /proc/self ] || mount -t proc proc /proc
[ -e /sys/kernel ] || mount -t sysfs sysfs /sys
[ -e /dev/null ] || mount -t devtmpfs dev /dev
stty -opost -echo </dev/console 2>/dev/null
escape=$(printf '\036')
off() {
  poweroff -f 2>/dev/null || echo o >/proc/sysrq-trigger
  while :; do sleep 1; done
}
if [ -e /bourse/wait ]; then
  terminal=$(stty -g </dev/console) && stty raw -echo </dev/console && dd if=/bourse/init of=/dev/null bs=1 count=1 iflag=fullblock 2>/dev/null || {
    echo "bourse: a guest that waits for a task needs stty and dd in its image"
    off
  }
  printf '\036bourse-ready\n'
  read -r word env run program </dev/console
  [ "$word" = "${escape}bourse-task" ] || off
  take() { dd bs="$1" count=1 iflag=fullblock </dev/console 2>/dev/null; }  # no byte of what follows
  take "$env" >/bourse/env
  take "$run" >/bourse/run
  [ "$program" = 0 ] || take "$program" >/bourse/program
  stty "$terminal" </dev/console
  printf '\036bourse-taken\n'
fi
(
  . /bourse/env
  cd "$BOURSE_GUEST_DIRECTORY" 2>/dev/null || cd /
  unset BOURSE_GUEST_DIRECTORY
  exec sh /bourse/run
) </dev/null &
task=$!
(
  while read -r word number; do
    [ "$word" = "${escape}bourse-signal" ] && kill "-$number" "$task" 2>/dev/null
  done </dev/console
) &
wait $task
code=$?
sync
printf '\036bourse-exit %d\n' $code
off
)";

std::string hex(std::size_t number) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08zX", number & 0xffffffffU);
  return text.data();
}

void pad(std::string& bytes, std::size_t to) { bytes.append((to - bytes.size() % to) % to, '\0'); }

}  // namespace

void Archive::entry(std::string_view path, std::string_view content, unsigned mode) {
  // magic ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
  bytes_ += "070701" + hex(next_++) + hex(mode) + hex(0) + hex(0) + hex(1) + hex(0) + hex(content.size()) + hex(0) + hex(0) +
            hex(0) + hex(0) + hex(path.size() + 1) + hex(0);
  bytes_.append(path);
  bytes_ += '\0';
  pad(bytes_, 4);
  bytes_.append(content);
  pad(bytes_, 4);
}

void Archive::directory(std::string_view path, unsigned mode) { entry(path, "", 0040000U | mode); }
void Archive::file(std::string_view path, std::string_view content, unsigned mode) { entry(path, content, 0100000U | mode); }

std::string Archive::finish() {
  entry("TRAILER!!!", "", 0);
  pad(bytes_, kBlock);
  return std::move(bytes_);
}

std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

namespace {

struct Files {
  std::string env, run;
};
Files files_of(const GuestTask& task) {
  Files files{"BOURSE_GUEST_DIRECTORY=" + shell_quoted(task.directory.empty() ? "/" : task.directory) + "\n", "exec"};
  for (const std::string& variable : task.env) {
    const auto equals = variable.find('=');
    const std::string name = variable.substr(0, equals);
    // Names that a shell cannot set, such as exported functions, stay behind; so does the host's PATH.
    if (equals == std::string::npos || name.empty() || name == "PATH" ||
        name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos ||
        (name[0] >= '0' && name[0] <= '9'))
      continue;
    files.env += "export " + name + "=" + shell_quoted(variable.substr(equals + 1)) + "\n";
  }
  bool first = true;
  for (const std::string& word : task.argv) {
    files.run += " " + shell_quoted(first && !task.program.empty() ? "/bourse/program" : word);
    first = false;
  }
  files.run += "\n";
  return files;
}

}  // namespace

std::string guest_archive(const GuestTask& task) {
  const Files files = files_of(task);
  Archive archive;
  archive.directory("bourse");
  archive.file("bourse/init", kInit, 0755);
  archive.file("bourse/env", files.env, 0600);
  archive.file("bourse/run", files.run, 0600);
  if (!task.program.empty()) archive.file("bourse/program", task.program, 0755);
  return archive.finish();
}

std::string waiting_archive() {
  Archive archive;
  archive.directory("bourse");
  archive.file("bourse/init", kInit, 0755);
  archive.file("bourse/wait", "", 0600);
  archive.file("bourse/program", "", 0755);  // to be filled: it has the right mode then
  return archive.finish();
}

std::string claim_text(const GuestTask& task) {
  const Files files = files_of(task);
  return kEscape + std::string(kTaskWord) + std::to_string(files.env.size()) + " " + std::to_string(files.run.size()) + " " +
         std::to_string(task.program.size()) + "\n" + files.env + files.run + task.program;
}

std::string Console::feed(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    if (exit_code_) break;  // the kernel's last words are not the task's
    if (!holding_) {
      if (c != kEscape) {
        out += c;
        continue;
      }
      holding_ = true;
    }
    held_ += c;
    if (c != '\n' && held_.size() <= kLineMax) continue;
    std::string_view line = std::string_view(held_).substr(1);
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
    int code = 0;
    if (line.substr(0, kExitWord.size()) == kExitWord) {
      const std::string_view number = line.substr(kExitWord.size());
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), code);
      if (error == std::errc() && end == number.data() + number.size() && code >= 0 && code <= 255) {
        exit_code_ = code;
        held_.clear();
      }
    }
    if (!expected_.empty() && line == expected_) {
      expected_ = {};
      held_.clear();
    }
    out += held_;
    held_.clear();
    holding_ = false;
  }
  return out;
}

std::string Console::rest() {
  holding_ = false;
  return std::exchange(held_, {});
}

}  // namespace bourse::microvm
