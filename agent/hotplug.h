// Tells when the kernel announces that hardware came, went or changed: a netlink socket for uevents, on the reactor's thread.
//
// Announcements come in swarms (a card is a dozen of them), so one call is made a second after the first; none is lost by that.
// Where the socket cannot be had (no permission, a network namespace of its own) it says so once, and the agent looks by itself every
// agent.reprobe.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/world/reactor.h"

namespace bourse {

class HotplugWatch {
 public:
  static constexpr Duration kSettle = seconds(1);
  HotplugWatch(Reactor& reactor, std::function<void(const std::string& what)> changed);
  ~HotplugWatch();
  HotplugWatch(const HotplugWatch&) = delete;
  HotplugWatch& operator=(const HotplugWatch&) = delete;
  [[nodiscard]] bool open() const { return fd_ >= 0; }

 private:
  void read_all();

  Reactor& reactor_;
  std::function<void(const std::string&)> changed_;
  int fd_ = -1;
  Reactor::WatchId watch_ = 0;
  Reactor::TimerId timer_ = 0;
  std::string what_;
};

// "add /devices/pci0000:00/... (pci)" for a uevent that is about hardware we report; "" for all others (disks, terminals, nets).
std::string hardware_of_uevent(std::string_view message);

}  // namespace bourse
