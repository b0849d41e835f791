// The disk under the state directory: room, kind, and how often a second it can promise that something is kept.
#include <fcntl.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "agent/doctor/check.h"
#include "common/world/files.h"

namespace bourse::doctor {
namespace {

constexpr std::int64_t kRoomLeast = 100LL * 1024 * 1024, kRoomWanted = 1024LL * 1024 * 1024;
constexpr std::size_t kFlushes = 200, kFlushesLeast = 8;
constexpr Duration kFlushTime = seconds(1);
constexpr std::int64_t kRateWanted = 500, kRateLeast = 50;
constexpr std::size_t kRecord = 4096;

const char* kind_text(std::uint64_t magic) {
  switch (magic) {
    case 0x01021994:
      return "tmpfs";
    case 0x858458f6:
      return "ramfs";
    case 0x6969:
      return "nfs";
    case 0xff534d42:
    case 0xfe534d42:
      return "smb";
    case 0x0bd00bd0:
      return "lustre";
    case 0x794c7630:
      return "overlayfs";
    case 0xef53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683e:
      return "btrfs";
    case 0x2fc12fc1:
      return "zfs";
    default:
      return "other";
  }
}

// The directory, or the nearest above it that is there.
std::string nearest(std::string path) {
  while (path.size() > 1 && access(path.c_str(), F_OK) != 0) path = directory_of(path);
  return path;
}

struct Speed {
  std::int64_t per_second = 0;
  Duration median{0};
};
Result<Speed> flush_speed(const std::string& directory) {
  std::string path = directory + "/.doctor-XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return errno_error("make a file in " + directory);
  unlink(path.c_str());
  using Clock = std::chrono::steady_clock;
  const std::string record(kRecord, 'd');
  std::vector<std::int64_t> times;
  const auto began = Clock::now();
  Result<> failed;
  while (times.size() < kFlushes) {
    const auto before = Clock::now();
    if (!write_all(fd, record) || fdatasync(fd) != 0) {
      failed = errno_error("write to " + directory);
      break;
    }
    const auto after = Clock::now();
    times.push_back(std::chrono::duration_cast<std::chrono::microseconds>(after - before).count());
    if (after - began > kFlushTime && times.size() >= kFlushesLeast) break;
  }
  const auto spent = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began).count();
  close(fd);
  if (!failed) return std::move(failed).error();
  std::sort(times.begin(), times.end());
  return Speed{static_cast<std::int64_t>(times.size()) * 1'000'000 / std::max<std::int64_t>(spent, 1),
               microseconds(times[times.size() / 2])};
}

void room(Report& report, const std::string& path, const struct statvfs& st) {
  const auto free = static_cast<std::int64_t>(st.f_bavail) * static_cast<std::int64_t>(st.f_frsize);
  const std::string found = format_size(Bytes{free / (1024 * 1024) * (1024 * 1024)}) + " free";
  const std::string mend = "make room below " + path + ", or set the state directories in bourse.conf";
  if (free < kRoomLeast)
    report.add("state.room", Level::kError, found, "Records cannot be written: submits are refused, and no slice is carved.", mend);
  else if (free < kRoomWanted)
    report.add("state.room", Level::kWarning, found, "A busy queue with its history, or artifacts of jobs, fill that soon.", mend);
  else
    report.add("state.room", Level::kOk, found, "Room for records and artifacts.");
  if (st.f_files > 0 && st.f_favail < 1000)
    report.add("state.inodes", Level::kError, std::to_string(st.f_favail) + " free", "Hardly a file can be made any more.", mend);
}

}  // namespace

void storage(const Host& host, Report report) {
  if (host.options.state_dir.empty()) return;
  const std::string wanted = host.files.path(host.options.state_dir);
  const std::string path = nearest(wanted);
  struct statvfs st {};
  struct statfs kind {};
  if (statvfs(path.c_str(), &st) != 0 || statfs(path.c_str(), &kind) != 0) {
    report.add("state", Level::kError, std::strerror(errno), "The state directory " + wanted + " cannot be looked at.",
               "ls -ld " + wanted);
    return;
  }
  const std::string name = kind_text(static_cast<std::uint64_t>(kind.f_type));
  if ((st.f_flag & ST_RDONLY) != 0) {
    report.add("state", Level::kError, path + " on " + name + ", read-only",
               "Nothing can be recorded: no program of Bourse starts.",
               "mount -o remount,rw the file system of " + path + "; dmesg tells whether a disk error made it so");
    return;
  }
  if (name == "tmpfs" || name == "ramfs")
    report.add("state", Level::kWarning, path + " on " + name,
               "It is memory: the queue, its history and keys are gone after a reboot.",
               "set cluster state directories in bourse.conf to a disk");
  else if (name == "nfs" || name == "smb" || name == "lustre")
    report.add("state", Level::kWarning, path + " on " + name,
               "A server that stalls stalls the scheduler, and locks across hosts are not always kept.",
               "set cluster state directories in bourse.conf to a local disk");
  else
    report.add("state", Level::kOk, path + " on " + name, "Records outlive a reboot.");
  room(report, path, st);
  if (!host.options.disk) return;
  const auto speed = flush_speed(path);
  if (!speed) {
    const bool us = geteuid() != 0;
    report.add("state.fdatasync", us ? Level::kNote : Level::kError, speed.error().text(),
               us ? "We may not write there, and so cannot tell how fast it is." : "Nothing can be recorded there.",
               us ? "run bourse doctor as root" : "ls -ld " + path);
    return;
  }
  const std::string found = std::to_string(speed->per_second) + "/s, median " + format_duration(speed->median);
  if (speed->per_second < kRateLeast)
    report.add(
        "state.fdatasync", Level::kWarning, found,
        "Each submit waits for a flush; submits that come together share one. This disk is slow enough to be felt by everybody.",
        "put the state directories on a solid-state disk, or behind a controller with a battery");
  else if (speed->per_second < kRateWanted)
    report.add("state.fdatasync", Level::kNote, found, "Each submit waits for a flush; submits that come together share one.",
               "a solid-state disk with power-loss protection does thousands");
  else
    report.add("state.fdatasync", Level::kOk, found, "Flushes are quick.");
}

}  // namespace bourse::doctor
