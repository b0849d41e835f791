// What goes into a guest and what comes out of it. Guests themselves are in microvm.test.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "agent/microvm/guest.h"
#include "agent/microvm/libvirt_api.h"
#include "agent/microvm/machine.h"
#include "agent/microvm/overlay.h"
#include "tests/support/tree.h"

namespace bourse {
namespace {

using namespace microvm;  // NOLINT: the tests are about it

std::string run(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "popen failed";
  char buffer[4096];
  for (std::size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  const int status = pclose(pipe);
  return status == 0 ? out : out + "(status " + std::to_string(status) + ")";
}
std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}
void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

TEST(MicroVmArchive, IsUnpackedByCpio) {
  if (run("command -v cpio").empty()) GTEST_SKIP() << "cpio is not installed";
  const tests::Tree tree;
  std::string binary("#!/bin/sh\n\0\xff\n", 13);
  binary += std::string(1001, 'x');
  GuestTask task;
  task.argv = {"/host/path/job.sh", "a b", "it's", "$HOME", ""};
  task.env = {"PLAIN=1", "QUOTED=it's \"so\" $HOME `x`\nsecond line", "PATH=/host", "BASH_FUNC_x%%=() { :; }", "1BAD=x", "NOVALUE"};
  task.directory = "/data/it's here";
  task.program = binary;
  write(tree.path() + "/a.cpio", guest_archive(task));
  EXPECT_EQ(run("cd " + tree.path() + " && cpio -i --quiet <a.cpio 2>&1"), "");
  EXPECT_EQ(content(tree.path() + "/bourse/program"), binary);
  struct stat st {};
  ASSERT_EQ(stat((tree.path() + "/bourse/init").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777U, 0755U);
  ASSERT_EQ(stat((tree.path() + "/bourse/env").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777U, 0600U);
  EXPECT_EQ(run("sh -n " + tree.path() + "/bourse/init 2>&1"), "") << "a shell understands it";

  // A real shell reads back exactly what went in.
  EXPECT_EQ(run("env -i sh -c '. " + tree.path() +
                "/bourse/env; for v in PLAIN QUOTED BOURSE_GUEST_DIRECTORY NOVALUE; do "
                "eval \"printf \\\"<%s>\\\" \\\"\\$$v\\\"\"; done'"),
            "<1><it's \"so\" $HOME `x`\nsecond line></data/it's here><>");
  std::string words = content(tree.path() + "/bourse/run");
  ASSERT_EQ(words.compare(0, 5, "exec "), 0) << words;
  write(tree.path() + "/words", "set -- " + words.substr(5) + "for w; do printf '<%s>' \"$w\"; done");
  EXPECT_EQ(run("sh " + tree.path() + "/words"), "</bourse/program><a b><it's><$HOME><>");
}

TEST(MicroVmArchive, CanFollowAnother) {
  if (run("command -v cpio").empty()) GTEST_SKIP() << "cpio is not installed";
  // The kernel unpacks images one after the other, each beginning at a multiple of four.
  GuestTask task;
  task.argv = {"true"};
  const std::string archive = guest_archive(task);
  EXPECT_EQ(archive.size() % 512, 0U);
  EXPECT_EQ(archive.compare(0, 6, "070701"), 0) << "newc";
}

TEST(MicroVmArchive, OfAGuestThatWaitsHasNoTaskAndIsToldTheSameLater) {
  if (run("command -v cpio").empty()) GTEST_SKIP() << "cpio is not installed";
  const tests::Tree tree;
  const std::string now = tree.path() + "/now", later = tree.path() + "/later";
  ASSERT_EQ(run("mkdir " + now + " " + later), "");
  GuestTask task;
  task.argv = {"/host/job.sh", "it's"};
  task.env = {"A=1\n2"};
  task.program = std::string("#!/bin/sh\n\0\x1e\xff\n", 14);
  write(tree.path() + "/now.cpio", guest_archive(task));
  write(tree.path() + "/later.cpio", waiting_archive());
  EXPECT_EQ(run("cd " + now + " && cpio -i --quiet <../now.cpio 2>&1; cd " + later + " && cpio -i --quiet <../later.cpio 2>&1"),
            "");
  EXPECT_EQ(run("ls " + later + "/bourse | tr '\\n' ' '"), "init program wait ");
  EXPECT_EQ(content(later + "/bourse/init"), content(now + "/bourse/init"));
  struct stat st {};
  ASSERT_EQ(stat((later + "/bourse/program").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777U, 0755U) << "what is written to it can be run";
  const std::string env = content(now + "/bourse/env"), words = content(now + "/bourse/run");
  EXPECT_EQ(claim_text(task), "\036bourse-task " + std::to_string(env.size()) + " " + std::to_string(words.size()) + " 14\n" + env +
                                  words + task.program);
}

TEST(MicroVmConsole, HearsWhatItExpectsOnce) {
  Console console;
  EXPECT_EQ(console.feed("\036bourse-ready\n"), "\036bourse-ready\n") << "a task may say that";
  console.expect(kReadyWord);
  EXPECT_EQ(console.feed("booting\n\036bourse-re"), "booting\n");
  EXPECT_TRUE(console.expects());
  EXPECT_EQ(console.feed("ady\r\n"), "");
  EXPECT_FALSE(console.expects());
  EXPECT_EQ(console.feed("\036bourse-ready\n"), "\036bourse-ready\n");
  EXPECT_EQ(console.feed("\036bourse-exit 3\n"), "");
  EXPECT_EQ(console.exit_code(), 3);
}

TEST(MicroVmConsole, KeepsTheExitStatusOutOfTheOutput) {
  Console console;
  EXPECT_EQ(console.feed("hello\nwor"), "hello\nwor");
  EXPECT_EQ(console.exit_code(), std::nullopt);
  EXPECT_EQ(console.feed("ld\n\036bour"), "ld\n");
  EXPECT_EQ(console.feed("se-exit 7"), "");
  EXPECT_EQ(console.exit_code(), std::nullopt) << "the line has not ended";
  EXPECT_EQ(console.feed("\r\n[   33.1] reboot: Power down\n"), "") << "the kernel's last words are not the task's";
  EXPECT_EQ(console.exit_code(), 7);
}

TEST(MicroVmConsole, PassesOnWhatOnlyLooksLikeAMessage) {
  const std::string lines[] = {"\036 a record separator\n", "\036bourse-exit\n",     "\036bourse-exit x\n", "\036bourse-exit 256\n",
                               "\036bourse-exit -1\n",      "\036bourse-exit 1 2\n", "\036bourse-exit \n",  "bourse-exit 3\n"};
  for (const std::string& line : lines) {
    Console console;
    EXPECT_EQ(console.feed(line), line);
    EXPECT_EQ(console.exit_code(), std::nullopt) << line;
  }
  Console console;
  const std::string endless = "\036" + std::string(100'000, 'x');
  std::string passed = console.feed(endless);  // in this order: operands of + have none
  passed += console.rest();
  EXPECT_EQ(passed, endless);
  passed = console.feed("\036half");
  passed += console.rest();
  EXPECT_EQ(passed, "\036half");
}

TEST(MicroVmDomain, IsWhatLibvirtsSchemaAllows) {
  if (run("command -v virt-xml-validate").empty()) GTEST_SKIP() << "virt-xml-validate (libvirt-clients) is not installed";
  const tests::Tree tree;
  Domain domain;
  domain.name = "bourse-1-2";
  domain.mem = Bytes{256LL * 1024 * 1024};
  domain.cpus = 3;
  for (const std::string arch : {"x86_64", "aarch64"}) {
    for (const bool kvm : {false, true}) {
      for (const bool disk : {false, true}) {
        domain.arch = arch;
        domain.kvm = kvm;
        domain.kernel = disk ? "" : "/images/it's <a> & \"b\"";
        domain.initrd = disk ? "" : "/images/initrd";
        domain.command_line = disk ? "" : "console=ttyS0 x='y'";
        domain.disk = disk ? "/images/disk.qcow2" : "";
        domain.disk_format = "qcow2";
        domain.disk_layer = disk ? "/scratch/t1/disk" : "";
        domain.task_disk = disk ? "/scratch/t1/task" : "";
        write(tree.path() + "/domain.xml", domain_xml(domain));
        EXPECT_EQ(run("virt-xml-validate " + tree.path() + "/domain.xml domain 2>&1 | grep -v ' validates$'"), "(status 256)")
            << domain_xml(domain);
      }
    }
  }
}

// QEMU's own tool says what a layer is.
TEST(MicroVmOverlay, IsAnImageOverTheOther) {
  if (run("command -v qemu-img").empty()) GTEST_SKIP() << "qemu-img (qemu-utils) is not installed";
  const tests::Tree tree;
  const std::string below = tree.path() + "/below", layer = tree.path() + "/layer";
  struct Case {
    const char* make;
    bool qcow2;
    std::uint64_t size;
  };
  const Case cases[] = {{"head -c 1000000 /dev/urandom >", false, 1000448},  // whole sectors
                        {"truncate -s 700G ", false, 700ULL << 30},
                        {"qemu-img create -q -f qcow2 -o compat=0.10 ", true, 3ULL << 30},
                        {"qemu-img create -q -f qcow2 -o compat=1.1 ", true, 9ULL << 40}};
  for (const Case& each : cases) {
    (void)run("rm -f " + below);
    ASSERT_EQ(run(each.make + below + (each.qcow2 ? " " + std::to_string(each.size) : "") + " 2>&1"), "");
    const int fd = open(below.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat st {};
    ASSERT_EQ(fstat(fd, &st), 0);
    const auto shape = read_disk_shape(fd, static_cast<std::uint64_t>(st.st_size));
    close(fd);
    ASSERT_TRUE(shape) << shape.error().text();
    EXPECT_EQ(shape->qcow2, each.qcow2);
    EXPECT_EQ(shape->size, each.size);
    const auto file = overlay_file(below, *shape);
    ASSERT_TRUE(file) << file.error().text();
    write(layer, *file);
    EXPECT_NE(run("qemu-img check -f qcow2 " + layer + " 2>&1").find("No errors were found on the image"), std::string::npos)
        << each.make << run("qemu-img check -f qcow2 " + layer + " 2>&1");
    const std::string info = run("qemu-img info --output=json -f qcow2 " + layer);
    EXPECT_NE(info.find("\"virtual-size\": " + std::to_string(each.size) + ","), std::string::npos) << info;
    EXPECT_NE(info.find("\"backing-filename\": \"" + below + "\""), std::string::npos) << info;
    EXPECT_NE(info.find(each.qcow2 ? "\"backing-filename-format\": \"qcow2\"" : "\"backing-filename-format\": \"raw\""),
              std::string::npos)
        << info;
    if (each.size > (1ULL << 30)) continue;
    EXPECT_EQ(run("qemu-img compare -f qcow2 -F raw " + layer + " " + below), "Images are identical.\n");
    const std::string before = content(below);
    EXPECT_EQ(run("qemu-io -f qcow2 -c 'write -q -P 7 4096 65536' " + layer + " 2>&1"), "");
    EXPECT_EQ(content(below), before) << "writes stay in the layer";
    EXPECT_NE(run("qemu-img check -f qcow2 " + layer).find("No errors were found on the image"), std::string::npos);
  }
}

TEST(MicroVmOverlay, LiesOverNothingThatItsUserDidNotName) {
  if (run("command -v qemu-img").empty()) GTEST_SKIP() << "qemu-img (qemu-utils) is not installed";
  const tests::Tree tree;
  const std::string path = tree.path();
  ASSERT_EQ(run("cd " + path +
                " && truncate -s 1M raw && : >empty && qemu-img create -q -f qcow2 -b raw -F raw thin &&"
                " qemu-img create -q -f qcow2 -o data_file=data,data_file_raw=on split 1M 2>&1"),
            "");
  for (const char* name : {"thin", "split", "empty"}) {
    const int fd = open((path + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    const auto shape = read_disk_shape(fd, 0);
    close(fd);
    ASSERT_FALSE(shape) << name;
    EXPECT_NE(shape.error().text().find(std::string(name) == "empty" ? "it is empty" : "in another file"), std::string::npos)
        << shape.error().text();
  }
  EXPECT_FALSE(overlay_file("/x", {false, UINT64_MAX}));
}

TEST(MicroVmDomain, BelongsToALivingProcessOrToNobody) {
  const std::string mine = domain_name(getpid());
  EXPECT_EQ(owner_lives(mine), true) << mine;
  EXPECT_EQ(owner_lives(mine + "0"), false) << "the number was another process's before";
  EXPECT_EQ(owner_lives("bourse-999999999-1"), false);
  for (const char* name : {"web-server", "bourse", "bourse-", "bourse-1", "bourse-x-1", "bourse-1-x", ""})
    EXPECT_EQ(owner_lives(name), std::nullopt) << name << " is somebody else's guest";
}

TEST(MicroVmDomain, LeavesMemoryForTheEmulator) {
  const auto gib = guest_memory(kGiB, false);
  ASSERT_TRUE(gib);
  EXPECT_EQ(gib->value, 896LL * 1024 * 1024);
  EXPECT_GT(guest_memory(kGiB, true)->value, gib->value) << "translated code needs more";
  EXPECT_LT(guest_memory(Bytes{64 * kGiB.value}, true)->value, 61 * kGiB.value);
  const auto small = guest_memory(Bytes{100LL * 1024 * 1024}, false);
  ASSERT_FALSE(small);
  EXPECT_NE(small.error().text().find("too little"), std::string::npos) << small.error().text();
}

TEST(MicroVmDomain, TakesCoresAndMemoryOfItsOwnSlice) {
  const Limits limits = own_limits();
  EXPECT_EQ(std::to_string(limits.cpus) + "\n", run("nproc")) << "this process has no quota below its cores";
}

TEST(LibvirtFacts, ReadsGuestsOfCapabilities) {
  // The form of virConnectGetCapabilities as libvirt documents it (formatcaps), of a host with KVM.
  const std::string text = R"(<capabilities><host><cpu><arch>x86_64</arch></cpu></host>
  <guest>
    <os_type>hvm</os_type>
    <arch name='aarch64'>
      <wordsize>64</wordsize>
      <emulator>/usr/bin/qemu-system-aarch64</emulator>
      <machine maxCpus='512'>virt-7.2</machine>
      <machine canonical='virt-7.2' maxCpus='512'>virt</machine>
      <machine maxCpus='2'>vexpress-a15</machine>
      <domain type='qemu'/>
    </arch>
  </guest>
  <guest>
    <os_type>hvm</os_type>
    <arch name='x86_64'>
      <machine canonical='pc-i440fx-7.2' maxCpus='255'>pc</machine>
      <domain type='qemu'/>
      <domain type='kvm'/>
    </arch>
  </guest>
  <guest><os_type>exe</os_type><arch name='s390x'><domain type='odd'/></arch></guest>
</capabilities>)";
  const auto archs = guest_archs(text);
  ASSERT_EQ(archs.size(), 3U);
  EXPECT_EQ(archs[0].arch, "aarch64");
  EXPECT_EQ(archs[0].how, "emulated");
  EXPECT_EQ(archs[0].machine, "virt-7.2");
  EXPECT_EQ(archs[0].cpus_max, 512);
  EXPECT_EQ(archs[0].machines, (std::vector<std::string>{"vexpress-a15", "virt-7.2"}));
  EXPECT_EQ(archs[1].arch, "s390x");
  EXPECT_EQ(archs[2].how, "kvm");
  EXPECT_TRUE(guest_archs("").empty());
  EXPECT_TRUE(guest_archs("<guest><arch name='x").empty()) << "cut short";
}

TEST(LibvirtFacts, AUriIsThisHostsOwn) {
  for (const char* fine : {"qemu:///system", "qemu+unix:///system", "test:///default", "qemu:///system?socket=/run/x"})
    EXPECT_TRUE(check_libvirt_uri(fine)) << fine;
  for (const char* bad :
       {"", "qemu", "://x", "qemu://h/system", "qemu+ssh://h/system", "qemu+ssh:///system", "qemu+ext:///s?command=x"})
    EXPECT_FALSE(check_libvirt_uri(bad)) << bad;
}

}  // namespace
}  // namespace bourse
