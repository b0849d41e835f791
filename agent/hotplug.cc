#include "agent/hotplug.h"

#include <linux/netlink.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "common/world/log.h"

namespace bourse {
namespace {

constexpr std::size_t kUeventBytesMax = 16 * 1024;
constexpr int kReceiveBuffer = 1024 * 1024;
constexpr unsigned kKernelGroup = 1;
// Subsystems whose coming and going changes an inventory. drm and accel: GPUs and NPUs; misc: character devices of several drivers.
constexpr std::array<std::string_view, 12> kSubsystems = {"pci", "cpu",        "memory",       "node",        "drm", "accel",
                                                          "kfd", "infiniband", "fpga_manager", "fpga_region", "dfl", "misc"};

}  // namespace

std::string hardware_of_uevent(std::string_view message) {
  // "ACTION@DEVPATH", then KEY=VALUE, each ended by NUL. udev's own begin with "libudev".
  const std::string_view head = message.substr(0, message.find('\0'));
  const std::size_t at = head.find('@');
  if (at == std::string_view::npos) return {};
  std::string_view subsystem;
  for (std::string_view left = message; !left.empty();) {
    const std::string_view word = left.substr(0, left.find('\0'));
    left.remove_prefix(std::min(left.size(), word.size() + 1));
    if (word.substr(0, 10) == "SUBSYSTEM=") subsystem = word.substr(10);
  }
  if (std::find(kSubsystems.begin(), kSubsystems.end(), subsystem) == kSubsystems.end()) return {};
  // KVM says "change" whenever a guest is made and when it ends, also one that the probe of libvirt tries it with.
  if (head.starts_with("change@") && subsystem == "misc") return {};
  return std::string(head.substr(0, at)) + " " + std::string(head.substr(at + 1)) + " (" + std::string(subsystem) + ")";
}

HotplugWatch::HotplugWatch(Reactor& reactor, std::function<void(const std::string&)> changed)
    : reactor_(reactor), changed_(std::move(changed)) {
  fd_ = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = kKernelGroup;
  if (fd_ >= 0 && bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(fd_);
    fd_ = -1;
  }
  if (fd_ < 0) {
    log_event(LogLevel::kWarn, "no_hotplug_events",
              {{"reason", errno_error("netlink").text()}, {"then", "looking at the hardware every agent.reprobe instead"}});
    return;
  }
  setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer);
  watch_ = reactor_.watch(fd_, EPOLLIN, [this](std::uint32_t) { read_all(); });
}

HotplugWatch::~HotplugWatch() {
  if (watch_ != 0) reactor_.unwatch(watch_);
  if (timer_ != 0) reactor_.cancel(timer_);
  if (fd_ >= 0) close(fd_);
}

void HotplugWatch::read_all() {
  std::array<char, kUeventBytesMax> buffer;
  for (;;) {
    sockaddr_nl from{};
    socklen_t size = sizeof from;
    const ssize_t n = recvfrom(fd_, buffer.data(), buffer.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (n < 0 && errno == EINTR) continue;
    std::string what;
    if (n < 0 && errno == ENOBUFS) {
      what = "more hot-plug events than could be read";
    } else if (n <= 0) {
      return;
    } else if (from.nl_pid == 0) {  // the kernel's own, not another process's
      what = hardware_of_uevent(std::string_view(buffer.data(), static_cast<std::size_t>(n)));
    }
    if (what.empty() || timer_ != 0) continue;
    what_ = what;
    timer_ = reactor_.after(kSettle, [this] {
      timer_ = 0;
      changed_(what_);
    });
  }
}

}  // namespace bourse
