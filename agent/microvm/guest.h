// What goes into a guest, and what comes out of it: the part of our own initramfs, and the protocol on its console.
//
// Linux unpacks several initramfs images one after the other, so the task's program, arguments and environment are put behind the
// user's own image as a second one, below /bourse; rdinit=/bourse/init starts it with the shell that the user's image brings. The
// guest answers on its console: a line ESCAPE "bourse-exit N" is the task's exit status and is not output. In the other direction a
// line ESCAPE "bourse-signal N" asks for a signal to be sent to the program. ESCAPE is the ASCII record separator, octal 036. An image with
// an init of its own (a disk, or vm init=NAME) may speak the same, in two lines of shell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bourse::microvm {

constexpr char kEscape = '\036';
constexpr std::string_view kExitWord = "bourse-exit ", kSignalWord = "bourse-signal ";
constexpr std::string_view kReadyWord = "bourse-ready", kTaskWord = "bourse-task ", kTakenWord = "bourse-taken";
// Most bytes that a waiting guest is sent: a terminal keeps 64 KiB for who is slow to read, and loses the rest.
constexpr std::size_t kClaimMax = 32UL * 1024;

// An archive in the "newc" format of cpio(5), which the kernel unpacks: Documentation/driver-api/early-userspace/buffer-format.rst.
class Archive {
 public:
  void directory(std::string_view path, unsigned mode = 0755);
  void file(std::string_view path, std::string_view content, unsigned mode);
  [[nodiscard]] std::string finish();  // with its trailer, padded as the kernel wants it

 private:
  void entry(std::string_view path, std::string_view content, unsigned mode);
  std::string bytes_;
  unsigned next_ = 721;
};

struct GuestTask {
  std::vector<std::string> argv;  // as it is run inside
  std::vector<std::string> env;   // "NAME=value"
  std::string directory;          // inside; empty or absent there: /
  std::string program;            // content of a file of the host that becomes /bourse/program; argv[0] then names that
};
std::string guest_archive(const GuestTask& task);
std::string waiting_archive();                  // of a guest that is told its task later
std::string claim_text(const GuestTask& task);  // what it is told then
std::string shell_quoted(std::string_view text);

// Takes what the guest wrote, gives what is output, and remembers the exit status. A line that begins like a message and is none is
// output. Holds back at most one line.
class Console {
 public:
  std::string feed(std::string_view bytes);
  std::string rest();  // at the end
  [[nodiscard]] std::optional<int> exit_code() const { return exit_code_; }
  // The next line ESCAPE `word` is a message, too.
  void expect(std::string_view word) { expected_ = word; }
  [[nodiscard]] bool expects() const { return !expected_.empty(); }  // it has not come yet

 private:
  std::string_view expected_;
  std::string held_;  // from an escape on, up to a line end
  bool holding_ = false;
  std::optional<int> exit_code_;
};

}  // namespace bourse::microvm
