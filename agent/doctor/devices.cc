// Device files: there, and to be opened by those who must.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/kvm.h>
#include <cerrno>
#include <cstring>

#include "agent/doctor/check.h"

namespace bourse::doctor {
namespace {

std::string mode_text(const Rooted::Mode& mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", mode.bits);
  return text;
}

// Does the kernel's own module answer? A container or a virtual machine can have the file and nothing behind it.
std::string try_kvm(const Host& host) {
  const int fd = open(host.files.path("/dev/kvm").c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return std::strerror(errno);
  const int vm = ioctl(fd, KVM_CREATE_VM, 0);
  const std::string why = vm < 0 ? std::strerror(errno) : "";
  if (vm >= 0) close(vm);
  close(fd);
  return why;
}

void kvm(const Host& host, Report& report) {
  constexpr const char* kCheck = "/dev/kvm";
  constexpr std::string_view kSlow = "MicroVM tasks run in software, ten to fifty times slower.";
  const auto mode = host.files.mode(kCheck);
  const std::string cpu = host.files.text("/proc/cpuinfo").value_or("");
  const bool vmx = cpu.find(" vmx") != std::string::npos, svm = cpu.find(" svm") != std::string::npos;
  if (!mode) {
    report.add(kCheck, Level::kNote, "absent",
               std::string(kSlow) +
                   (vmx || svm ? " The processor could do better: the module is not loaded, or the firmware forbids it."
                               : " The processor shows no virtualisation extensions (in a virtual machine: nesting is off)."),
               vmx   ? "modprobe kvm_intel"
               : svm ? "modprobe kvm_amd"
                     : "");
    return;
  }
  if (host.files.real())
    if (const std::string why = try_kvm(host); !why.empty()) {
      report.add(kCheck, Level::kNote, why,
                 "The file is there, but no virtual machine can be made: " + why + ". " + std::string(kSlow),
                 why == std::strerror(EACCES) ? "chgrp kvm /dev/kvm && chmod 0660 /dev/kvm" : "dmesg | grep -i kvm");
      return;
    }
  // libvirt runs QEMU as a user of its own, in group kvm.
  if ((mode->bits & 0006U) != 0006U && (mode->gid == 0 || (mode->bits & 0060U) != 0060U))
    report.add(kCheck, Level::kWarning, mode_text(*mode),
               "Only root may use it, while libvirt runs guests as another user: " + std::string(kSlow),
               "chgrp kvm /dev/kvm && chmod 0660 /dev/kvm");
  else
    report.add(kCheck, Level::kOk, mode_text(*mode), "MicroVM tasks run at the processor's speed.");
}

void gpus(const Host& host, Report& report) {
  int displays = 0, nvidia = 0, amd = 0;
  for (const std::string& name : host.files.names("/sys/bus/pci/devices")) {
    const std::string base = "/sys/bus/pci/devices/" + name + "/";
    const std::string kind = host.files.text(base + "class").value_or("");
    if (kind.compare(0, 6, "0x0300") != 0 && kind.compare(0, 6, "0x0302") != 0 && kind.compare(0, 6, "0x1200") != 0) continue;
    const std::string vendor = host.files.text(base + "vendor").value_or("");
    ++displays;
    nvidia += vendor == "0x10de" ? 1 : 0;
    amd += vendor == "0x1002" ? 1 : 0;
  }
  if (nvidia > 0) {
    const bool control = host.files.exists("/dev/nvidiactl"), uvm = host.files.exists("/dev/nvidia-uvm");
    report.add("/dev/nvidia", control && uvm ? Level::kOk : Level::kWarning,
               std::to_string(nvidia) + " on PCI, " + (control ? uvm ? "driver and UVM" : "no nvidia-uvm" : "no driver"),
               control && uvm ? "Device files of the driver are there."
               : control      ? "CUDA programs fail with \"no CUDA-capable device\" until somebody makes /dev/nvidia-uvm."
                              : "The host has NVIDIA devices without a driver: tasks cannot use them.",
               control && uvm ? "" : "nvidia-modprobe -c 0 -u");
  }
  if (amd > 0) {
    const bool kfd = host.files.exists("/dev/kfd");
    report.add("/dev/kfd", kfd ? Level::kOk : Level::kNote, std::to_string(amd) + " on PCI, " + (kfd ? "present" : "absent"),
               kfd ? "ROCm can reach the devices."
                   : "ROCm programs cannot reach the AMD devices of this host (a plain display adapter has no KFD).",
               kfd ? "" : "modprobe amdgpu");
  }
  for (const std::string& name : host.files.names("/dev/dri")) {
    if (name.compare(0, 7, "renderD") != 0) continue;
    const auto mode = host.files.mode("/dev/dri/" + name);
    if (!mode) continue;
    const bool open = (mode->bits & 0006U) == 0006U || ((mode->bits & 0060U) == 0060U && mode->gid != 0);
    report.add("/dev/dri/" + name, open ? Level::kOk : Level::kNote, mode_text(*mode),
               open ? "Tasks in its group can render and compute." : "Only root may open it; tasks of users cannot compute on it.",
               open ? "" : "chgrp render /dev/dri/" + name + " && chmod 0660 /dev/dri/" + name);
  }
}

void rdma(const Host& host, Report& report) {
  const auto devices = host.files.names("/sys/class/infiniband");
  if (devices.empty()) return;
  for (const std::string& name : host.files.names("/sys/class/infiniband_verbs")) {
    if (name.compare(0, 6, "uverbs") != 0) continue;
    const std::string check = "/dev/infiniband/" + name;
    const auto mode = host.files.mode(check);
    if (!mode)
      report.add(check, Level::kWarning, "absent", "The device has no file: no task can use it.",
                 "modprobe ib_uverbs && udevadm trigger");
    else if ((mode->bits & 0006U) != 0006U)
      report.add(check, Level::kWarning, mode_text(*mode),
                 "Users may not open it. Which tasks see it is decided by their slice; the file itself has to be open to all, as "
                 "rdma-core makes it.",
                 "chmod 0666 " + check);
    else
      report.add(check, Level::kOk, mode_text(*mode), "Tasks that hold the device can open it.");
  }
  constexpr const char* kManager = "/dev/infiniband/rdma_cm";
  const auto mode = host.files.mode(kManager);
  report.add(kManager, mode && (mode->bits & 0006U) == 0006U ? Level::kOk : Level::kWarning, mode ? mode_text(*mode) : "absent",
             "RDMA connections by address go through it (MPI, NFS over RDMA, rping).",
             !mode                           ? "modprobe rdma_ucm"
             : (mode->bits & 0006U) != 0006U ? "chmod 0666 " + std::string(kManager)
                                             : "");
}

}  // namespace

void devices(const Host& host, Report report) {
  kvm(host, report);
  gpus(host, report);
  rdma(host, report);
  const std::string mounts = host.files.text("/proc/self/mounts").value_or("");
  if (!mounts.empty() && mounts.find(" /dev/shm tmpfs ") == std::string::npos)
    report.add("/dev/shm", Level::kWarning, "not a tmpfs",
               "MPI ranks on one host share memory there; without it they fail or copy through disks.",
               "mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs /dev/shm");
  else if (!mounts.empty())
    report.add("/dev/shm", Level::kOk, "tmpfs", "Ranks on one host can share memory.");
}

}  // namespace bourse::doctor
