// bourse-microvm: first process of a task in a virtual machine. Run by the launcher as root, in the task's leaf. See supervisor.h.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "agent/launcher/init.h"
#include "agent/microvm/park.h"
#include "agent/microvm/supervisor.h"
#include "common/core/hooks.h"

namespace {

constexpr const char* kUsage =
    "usage: bourse-microvm --scratch DIR --kernel FILE [--initrd FILE] [--disk FILE] [OPTIONS] -- [ARGV...]\n"
    "       bourse-microvm --park SOCKET --mem BYTES --cpus N --scratch DIR --kernel FILE --initrd FILE [OPTIONS]\n"
    "       bourse-microvm --sweep [--uri URI]\n"
    "Runs a task in a virtual machine. Run by bourse-launcher; see bourse-microvm(8).\n"
    "  --scratch DIR    directory of this task, for copies of kernel and initramfs\n"
    "  --uri URI        hypervisor of this host (default qemu:///system)\n"
    "  --arch NAME      architecture of the guest (default: the host's)\n"
    "  --kernel FILE    Linux kernel\n"
    "  --initrd FILE    its first file system\n"
    "  --disk FILE      disk image of root's, raw or qcow2\n"
    "  --append WORDS   added to the kernel's command line\n"
    "  --directory DIR  where the program starts in the guest\n"
    "  --uid N          with whose rights files are read\n"
    "  --gid N          and group\n"
    "  --groups N,...   and further groups\n"
    "  --park SOCKET    boot a guest that waits there for a task; needs --mem and --cpus\n"
    "  --mem BYTES      memory of the slices that it is for\n"
    "  --cpus N         and their cores\n"
    "  --warm SOCKET    run in the guest that waits there, if it does and is of this size\n"
    "  --sweep          end guests whose owner is gone\n";

int usage(const std::string& why) {
  std::fprintf(stderr, "bourse-microvm: %s\n%s", why.c_str(), kUsage);
  return 2;
}

template <class T>
bool number(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool numbers(std::string_view list, std::vector<gid_t>& out) {
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find(','));
    if (!number(one, out.emplace_back())) return false;
    list.remove_prefix(std::min(list.size(), one.size() + 1));
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  bourse::microvm::Arguments arguments;
  bool sweep = false;
  int at = 1;
  for (; at < argc && std::string_view(argv[at]) != "--"; ++at) {
    const std::string_view word = argv[at];
    if (word == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (word == "--version") {
      std::puts("bourse-microvm " BOURSE_VERSION);
      return 0;
    }
    if (word == "--sweep") {
      sweep = true;
      continue;
    }
    if (at + 1 >= argc) return usage("unknown option or missing value: " + std::string(word));
    const char* value = argv[++at];
    bool fine = true;
    if (word == "--scratch")
      arguments.scratch = value;
    else if (word == "--uri")
      arguments.uri = value;
    else if (word == "--arch")
      arguments.arch = value;
    else if (word == "--kernel")
      arguments.kernel = value;
    else if (word == "--initrd")
      arguments.initrd = value;
    else if (word == "--disk")
      arguments.disk = value;
    else if (word == "--append")
      arguments.append = value;
    else if (word == "--directory")
      arguments.directory = value;
    else if (word == "--uid")
      fine = number(value, arguments.uid);
    else if (word == "--gid")
      fine = number(value, arguments.gid);
    else if (word == "--park")
      arguments.park = value;
    else if (word == "--warm")
      arguments.warm = value;
    else if (word == "--mem")
      fine = number(value, arguments.mem.value);
    else if (word == "--cpus")
      fine = number(value, arguments.cpus);
    else if (word == "--groups")
      fine = numbers(value, arguments.groups);
    else
      return usage("unknown option: " + std::string(word));
    if (!fine) return usage(std::string(word) + " " + value + ": not a number");
  }
  for (++at; at < argc; ++at) arguments.argv.emplace_back(argv[at]);
  bourse::hooks::init(std::getenv("BOURSE_CRASH_AT"), std::getenv("BOURSE_MUTANT"));
  if (sweep) {
    const auto ended = bourse::microvm::sweep(arguments.uri);
    if (!ended) {
      std::fprintf(stderr, "bourse-microvm: %s\n", ended.error().text().c_str());
      return 1;
    }
    if (*ended > 0) std::printf("ended %d guests without an owner\n", *ended);
    return 0;
  }
  if (arguments.scratch.empty() || arguments.scratch.front() != '/') return usage("--scratch needs an absolute directory");
  if (arguments.kernel.empty() && arguments.disk.empty()) return usage("--kernel or --disk is needed");
  if (arguments.kernel.empty() && !arguments.initrd.empty()) return usage("--initrd goes with --kernel");
  if (!arguments.kernel.empty() && arguments.initrd.empty() && arguments.disk.empty())
    return usage("a kernel needs --initrd or --disk to find its first program in");
  if (!arguments.park.empty()) {
    if (arguments.mem.value <= 0 || arguments.cpus == 0) return usage("--park needs --mem and --cpus");
    return bourse::microvm::park(arguments);
  }
  // Ours stays as it is: libvirt reads it, too.
  return bourse::microvm::run(arguments, bourse::launcher::task_environment(environ).data());
}
