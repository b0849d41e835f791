// bourse doctor on hosts that are not here. This host's own values are compared with sysctl(8), getconf(1) and ulimit in
// tests/cli/doctor.test.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "agent/doctor/doctor.h"
#include "tests/support/tree.h"

namespace bourse {
namespace {

using doctor::Level;
using tests::Tree;

struct Wanted {
  Level level;
  std::string found;  // the whole of it; "" is not compared
  std::string mend;   // a part
};

doctor::Options options_for(const Tree& tree) {
  doctor::Options options;
  options.root = tree.path();
  options.ports = {7400};
  options.disk = false;
  return options;
}

std::map<std::string, doctor::Finding> examined(const doctor::Options& options) {
  std::map<std::string, doctor::Finding> by_name;
  for (const auto& finding : doctor::examine(options)) {
    EXPECT_TRUE(by_name.emplace(finding.check, finding).second) << finding.check << " is there twice";
    EXPECT_FALSE(finding.means.empty()) << finding.check;
    EXPECT_FALSE(finding.found.empty()) << finding.check;
    if (finding.level == Level::kOk) { EXPECT_EQ(finding.mend, "") << finding.check << " needs no mending"; }
  }
  return by_name;
}

void expect(const std::map<std::string, doctor::Finding>& got, const std::map<std::string, Wanted>& wanted) {
  for (const auto& [name, want] : wanted) {
    const auto it = got.find(name);
    ASSERT_NE(it, got.end()) << name << " was not looked at";
    EXPECT_EQ(doctor::level_text(it->second.level), doctor::level_text(want.level)) << name << ": " << it->second.means;
    if (!want.found.empty()) { EXPECT_EQ(it->second.found, want.found) << name; }
    EXPECT_NE(it->second.mend.find(want.mend), std::string::npos) << name << " is mended by: " << it->second.mend;
  }
}

TEST(Doctor, FindsNothingToDoOnAHostThatIsCaredFor) {
  const Tree tree("doctor/debian12-v2.tree");
  auto options = options_for(tree);
  options.clock = doctor::ClockState{true, milliseconds(3)};
  const auto got = examined(options);
  for (const auto& [name, finding] : got) EXPECT_EQ(finding.level, Level::kOk) << name << ": " << finding.found;
  expect(got, {{"cgroup.mode", {Level::kOk, "v2", ""}},
               {"cgroup.memory", {Level::kOk, "delegated", ""}},
               {"clock.sync", {Level::kOk, "synchronised to 3ms, kept by chronyd", ""}},
               // Of the process that starts tasks, not of whoever asks.
               {"rlimit.nofile", {Level::kOk, "1048576 (hard 1048576), of bourse-launcher 1203", ""}},
               {"rlimit.memlock", {Level::kOk, "unlimited (hard unlimited), of bourse-launcher 1203", ""}},
               {"memory", {Level::kOk, "nodes 65781412KiB, kernel 65781412KiB", ""}},
               {"/dev/infiniband/uverbs0", {Level::kOk, "0666", ""}},
               {"munge", {Level::kOk, "running", ""}},
               {"munge.key", {Level::kOk, "present", ""}},
               {"fs.file-max", {Level::kOk, "9223372036854775807", ""}}});
  EXPECT_EQ(doctor::worst(doctor::examine(options)), Level::kOk);
  EXPECT_EQ(doctor::sysctl_file(doctor::examine(options)), "");
}

TEST(Doctor, NamesWhatAnOldGatewayHasWrong) {
  const Tree tree("doctor/rhel7-v1.tree");
  const auto got = examined(options_for(tree));
  expect(got,
         {{"net.core.somaxconn", {Level::kWarning, "128", "sysctl -w net.core.somaxconn=4096"}},
          {"net.ipv4.tcp_max_syn_backlog", {Level::kNote, "1024", "sysctl -w"}},
          // 7400 lies in 1024-65535 and is not reserved; what is reserved stays so.
          {"net.ipv4.ip_local_port_range", {Level::kWarning, "1024 65535", "sysctl -w net.ipv4.ip_local_reserved_ports=8080,7400"}},
          {"net.ipv4.tcp_tw_recycle", {Level::kError, "1", "sysctl -w net.ipv4.tcp_tw_recycle=0"}},
          {"net.ipv4.tcp_tw_reuse", {Level::kWarning, "1", "sysctl -w net.ipv4.tcp_tw_reuse=2"}},
          {"vm.swappiness", {Level::kWarning, "30", "sysctl -w vm.swappiness=10"}},
          {"vm.overcommit_memory", {Level::kOk, "1", ""}},
          {"vm.panic_on_oom", {Level::kWarning, "1", "sysctl -w vm.panic_on_oom=0"}},
          {"vm.nr_hugepages", {Level::kWarning, "3072", "reserve_mem = \"6GiB\""}},
          {"transparent_hugepage", {Level::kNote, "[always] madvise never", "echo madvise"}},
          {"kernel.osrelease", {Level::kError, "3.10.0-1160.el7.x86_64", "kernel"}},
          {"kernel.pid_max", {Level::kWarning, "32768", "sysctl -w kernel.pid_max=4194304"}},
          {"fs.file-max", {Level::kError, "1606000", "sysctl -w fs.file-max=3212000"}},
          {"psi", {Level::kWarning, "absent", "psi=1"}},
          {"user.max_user_namespaces", {Level::kNote, "0", "sysctl -w user.max_user_namespaces"}},
          {"cgroup.mode", {Level::kNote, "v1", "mount -t cgroup2"}},
          {"cgroup.cpu", {Level::kOk, "/sys/fs/cgroup/cpu,cpuacct", ""}},
          {"cgroup.blkio", {Level::kNote, "/sys/fs/cgroup/blkio, not writable", "remount,rw"}},
          {"cgroup.pids", {Level::kWarning, "not mounted", "mount -t cgroup -o pids"}},
          {"clock.sync", {Level::kOk, "ntpd", ""}},
          {"clock.source", {Level::kWarning, "hpet", "dmesg"}},
          {"rlimit.nofile", {Level::kWarning, "1024 (hard 4096), of this shell", "LimitNOFILE"}},
          {"rlimit.nproc", {Level::kWarning, "1024 (hard 2048), of this shell", "LimitNPROC"}},
          {"rlimit.memlock", {Level::kNote, "", "LimitMEMLOCK"}},
          {"/dev/kvm", {Level::kNote, "absent", ""}},
          {"munge", {Level::kWarning, "does not run", "systemctl"}},
          {"munge.key", {Level::kError, "0644", "chmod 0400"}}});
  EXPECT_NE(got.at("net.ipv4.tcp_tw_reuse").means.find("NAT"), std::string::npos);
  EXPECT_NE(got.at("vm.swappiness").means.find("8257532KiB"), std::string::npos) << got.at("vm.swappiness").means;
  const std::string file = doctor::sysctl_file(doctor::examine(options_for(tree)));
  EXPECT_NE(file.find("net.core.somaxconn = 4096\n"), std::string::npos) << file;
  EXPECT_NE(file.find("net.ipv4.ip_local_reserved_ports = 8080,7400\n"), std::string::npos) << file;
  EXPECT_EQ(file.find("echo"), std::string::npos) << file;
}

TEST(Doctor, NamesWhatAContainerKeepsFromAnAgent) {
  const Tree tree("doctor/arm-container.tree");
  auto options = options_for(tree);
  options.clock = doctor::ClockState{false, seconds(16)};
  const auto got = examined(options);
  expect(got, {{"cgroup.mode", {Level::kOk, "v2", ""}},
               {"cgroup.memory", {Level::kError, "not offered", "cgroup_enable=memory"}},
               {"cgroup.cpu", {Level::kError, "delegated, not writable", "remount,rw /sys/fs/cgroup"}},
               {"cgroup.cpuset", {Level::kError, "not delegated", "remount,rw"}},
               {"cgroup.pids", {Level::kWarning, "not delegated", "remount,rw"}},
               {"cgroup.io", {Level::kNote, "not delegated", ""}},
               {"psi", {Level::kWarning, "disabled", "psi=1"}},
               {"namespaces", {Level::kWarning, "no pid user", ""}},
               {"kernel.seccomp.actions_avail", {Level::kWarning, "absent", "CONFIG_SECCOMP_FILTER"}},
               {"kernel.osrelease", {Level::kNote, "5.10.0-30-arm64", ""}},
               {"kernel.threads-max", {Level::kWarning, "20000", "sysctl -w kernel.threads-max="}},
               {"fs.file-max", {Level::kWarning, "100000", "sysctl -w fs.file-max="}},
               {"vm.overcommit_memory", {Level::kWarning, "2", "sysctl -w vm.overcommit_memory=0"}},
               {"vm.panic_on_oom", {Level::kError, "2", "sysctl -w vm.panic_on_oom=0"}},
               {"vm.oom_kill_allocating_task", {Level::kWarning, "1", "sysctl -w"}},
               {"kernel.numa_balancing", {Level::kNote, "1", "sysctl -w kernel.numa_balancing=0"}},
               {"memory", {Level::kNote, "nodes 4000000KiB, kernel 8000000KiB", ""}},
               {"net.core.somaxconn", {Level::kNote, "2048", "sysctl -w"}},
               // 20000 of 28232 ports wait.
               {"net.ipv4.tcp_tw_reuse", {Level::kWarning, "0", "sysctl -w net.ipv4.tcp_tw_reuse=1"}},
               {"clock.sync", {Level::kWarning, "not synchronised, kept by nobody", "chrony"}},
               {"rlimit.memlock", {Level::kWarning, "", "LimitMEMLOCK"}},
               {"/dev/infiniband/uverbs0", {Level::kWarning, "absent", "modprobe ib_uverbs"}},
               {"/dev/infiniband/rdma_cm", {Level::kWarning, "absent", "modprobe rdma_ucm"}},
               {"/dev/shm", {Level::kWarning, "not a tmpfs", "mount -t tmpfs"}},
               {"munge", {Level::kNote, "absent", ""}}});
  EXPECT_NE(got.at("net.ipv4.tcp_tw_reuse").means.find("NAT"), std::string::npos) << "reuse is advised with its warning";
}

TEST(Doctor, SaysWhereThereAreNoCgroupsAndSkipsWhatItCannotSee) {
  const Tree tree("doctor/bare.tree");
  const auto got = examined(options_for(tree));
  expect(got, {{"cgroup.mode", {Level::kError, "none", "mount -t cgroup2"}}});
  for (const char* name : {"net.core.somaxconn", "vm.swappiness", "kernel.pid_max", "rlimit.nofile", "clock.source"})
    EXPECT_EQ(got.count(name), 0U) << name;
}

TEST(Doctor, TellsDetailsThatOneSettingDecides) {
  Tree tree("doctor/debian12-v2.tree");
  struct Case {
    std::string entry, check;
    Level level;
  };
  const std::vector<Case> cases = {
      {"/proc/sys/net/ipv4/tcp_tw_reuse = 1", "net.ipv4.tcp_tw_reuse", Level::kNote},  // no NAT on this host itself
      {"/proc/net/ip_tables_names = nat", "net.ipv4.tcp_tw_reuse", Level::kWarning},
      {"/proc/sys/net/ipv4/tcp_timestamps = 0", "net.ipv4.tcp_tw_reuse", Level::kWarning},
      {"/proc/sys/net/ipv4/ip_local_port_range = 1024 65535", "net.ipv4.ip_local_port_range", Level::kWarning},
      {"/proc/sys/net/ipv4/ip_local_reserved_ports = 7000-7500", "net.ipv4.ip_local_port_range", Level::kOk},
      {"/proc/sys/net/ipv4/ip_local_port_range = 60000 60999", "net.ipv4.ip_local_port_range", Level::kNote},
      {"/proc/swaps <<\nFilename Type Size Used Priority\n/swap file 1024 0 -2\n.", "vm.swappiness", Level::kWarning},
      {"/proc/sys/vm/swappiness = 10", "vm.swappiness", Level::kOk},
      {"/proc/sys/kernel/osrelease = 5.4.0-1", "kernel.osrelease", Level::kWarning},
      {"/proc/sys/kernel/unprivileged_userns_clone = 0", "kernel.unprivileged_userns_clone", Level::kNote},
      {"/dev/infiniband/uverbs0 0600 =", "/dev/infiniband/uverbs0", Level::kWarning},
      {"/dev/kvm 0600 =", "/dev/kvm", Level::kWarning},
      {"/sys/fs/cgroup/cgroup.subtree_control = cpu", "cgroup.memory", Level::kOk},  // offered, and ours to pass on
      {"/sys/bus/pci/devices/0000:3b:00.0/class = 0x030200\n/sys/bus/pci/devices/0000:3b:00.0/vendor = 0x10de", "/dev/nvidia",
       Level::kWarning},
      {"/dev/nvidiactl 0666 =\n/dev/nvidia-uvm 0666 =", "/dev/nvidia", Level::kOk},
      {"/dev/dri/renderD128 0600 =", "/dev/dri/renderD128", Level::kNote},
  };
  for (const Case& c : cases) {
    tree.add(c.entry);
    auto options = options_for(tree);
    const auto got = examined(options);
    const auto it = got.find(c.check);
    ASSERT_NE(it, got.end()) << c.entry;
    EXPECT_EQ(doctor::level_text(it->second.level), doctor::level_text(c.level)) << c.entry << ": " << it->second.found;
  }
  auto options = options_for(tree);
  options.clock = doctor::ClockState{true, milliseconds(201)};
  EXPECT_EQ(examined(options).at("clock.sync").level, Level::kWarning) << "beyond the bound for leading";
  tree.add("/proc/meminfo <<\nMemTotal: 65781412 kB\nHugePages_Total: 512\nHugepagesize: 2048 kB\n.");
  EXPECT_EQ(examined(options).at("vm.nr_hugepages").level, Level::kNote);
  options.reserve_mem = kGiB;
  EXPECT_EQ(examined(options).at("vm.nr_hugepages").level, Level::kOk) << "what is set aside is not offered";
}

TEST(Doctor, MeasuresTheStateDirectoryOrTheNearestAboveIt) {
  const Tree tree;
  doctor::Options options;
  options.state_dir = tree.path() + "/not/yet/there";
  const auto got = examined(options);
  ASSERT_EQ(got.count("state.fdatasync"), 1U);
  EXPECT_NE(got.at("state.fdatasync").found.find("/s, median "), std::string::npos) << got.at("state.fdatasync").found;
  EXPECT_EQ(got.at("state").found.compare(0, tree.path().size(), tree.path()), 0) << got.at("state").found;
  options.disk = false;
  EXPECT_EQ(examined(options).count("state.fdatasync"), 0U);
  // A file where a directory should be.
  Tree other;
  other.add("/state = a file");
  options.disk = true;
  options.state_dir = other.path() + "/state/below";
  EXPECT_GE(doctor::worst(doctor::examine(options)), Level::kNote);
}

}  // namespace
}  // namespace bourse
