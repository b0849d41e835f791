// Containers: a real crun, images made here from busybox, and layouts that mean harm.
#include <archive.h>
#include <archive_entry.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "agent/container/config.h"
#include "agent/container/unpack.h"
#include "agent/launcher/confine.h"
#include "tests/agent/launcher_rig.h"

namespace bourse::launcher_test {

namespace fs = std::filesystem;
using launcher::Confine;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 4096> bytes{};
  while (const std::size_t n = fread(bytes.data(), 1, bytes.size(), pipe)) out.append(bytes.data(), n);
  pclose(pipe);
  return out;
}

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

// A root file system of one program and its names.
void make_root(const fs::path& root) {
  for (const char* dir : {"bin", "dev", "proc", "sys", "tmp", "etc", "mnt"}) fs::create_directories(root / dir);
  fs::copy_file("/bin/busybox", root / "bin/busybox");
  for (const char* name : {"sh", "cat", "ls", "id", "sleep", "echo", "touch", "readlink", "grep", "env", "true", "head"})
    fs::create_symlink("busybox", root / "bin" / name);
  fs::copy_file(fs::read_symlink("/proc/self/exe").parent_path() / "../tools/hog", root / "bin/hog");
  put(root / "etc/image-name", "tiny\n");
}

class ContainerTask : public Rig {
 protected:
  void SetUp() override {
    Rig::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    if (output_of("command -v crun").empty()) FAIL() << "crun is not installed";
    image_ = dir_ + "/image";
    make_root(image_);
  }
  TaskSpec container(const std::string& script) const {
    TaskSpec spec = shell(script);
    spec.kind = TaskKind::kContainer;
    spec.image = image_;
    return spec;
  }
  int run(const TaskSpec& spec, const SliceLimits& limits = {}) { return end_of(start(prepare(limits), spec)).wait_status; }
  bool nothing_left() const {
    const fs::path scratch = state_dir_ + "/scratch";
    return (!fs::exists(scratch) || fs::is_empty(scratch)) && !has(read_text("/proc/self/mountinfo"), dir_);
  }
  std::string image_;
};

}  // namespace

TEST_F(ContainerTask, RunsInItsImageAsTheUserWithItsDirectoryAndItsCode) {
  TaskSpec spec = container("cat /etc/image-name; pwd; id -u; id -g; echo $$; umask; echo here > made; ls -d /home /usr; exit 5");
  spec.umask = 027;
  EXPECT_EQ(run(spec), 5 << 8);
  EXPECT_TRUE(has(out(), "tiny\n" + work_ + "\n54321\n54322\n1\n0027\n")) << out();
  EXPECT_TRUE(has(out(), "/home: No such file"));  // nothing of the host's
  EXPECT_EQ(read_text(work_ + "/made"), "here\n");
  EXPECT_TRUE(eventually([&] { return nothing_left(); }));
}

TEST_F(ContainerTask, ItsWorkingDirectoryIsTheImagesWhereThatIsSlash) {
  TaskSpec spec = container("pwd; ls -d bin home 2>/dev/null");
  spec.directory = "/";
  spec.stdout_path = work_ + "/out";
  run(spec);
  EXPECT_EQ(out(), "/\nbin\n");
}

TEST_F(ContainerTask, HasNoPrivilegesAndCannotAdministerTheHost) {
  EXPECT_EQ(run(container("grep -E 'NoNewPrivs|CapBnd|CapEff|Seccomp:' /proc/self/status")), 0);
  for (const char* line : {"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"})
    EXPECT_TRUE(has(out(), line)) << out();
}

TEST_F(ContainerTask, WritesToItsRootAreGoneWithItAndTheImageStaysAsItWas) {
  chmod((image_ + "/mnt").c_str(), 0777);
  EXPECT_EQ(run(container("touch /mnt/new /tmp/new && echo written")), 0) << out();
  EXPECT_EQ(out(), "written\n");
  EXPECT_TRUE(fs::is_empty(image_ + "/mnt"));
  EXPECT_FALSE(fs::exists(image_ + work_));
  EXPECT_TRUE(eventually([&] { return nothing_left(); }));
}

TEST_F(ContainerTask, SignalsReachItAndAKillLeavesNothing) {
  const SliceId slice = prepare();
  TaskKey task = start(slice, container("trap 'echo got; exit 4' TERM; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(eventually([&] { return has(out(), "ready"); })) << out();
  send(launcher::Signal{task, SIGTERM, false});
  EXPECT_EQ(end_of(task).wait_status, 4 << 8);
  EXPECT_TRUE(has(out(), "got"));
  task = start(slice, container("trap '' TERM; echo ready; sleep 981"));
  ASSERT_TRUE(eventually([&] { return has(out(), "ready"); }));
  send(launcher::Signal{task, SIGKILL, true});
  EXPECT_TRUE(WIFSIGNALED(end_of(task).wait_status));
  EXPECT_TRUE(eventually([&] { return nothing_left(); }));
}

TEST_F(ContainerTask, ItsSlicesLimitsHoldForIt) {
  SliceLimits limits;
  limits.mem = Bytes{96LL << 20};
  limits.pids = 60;
  const SliceId slice = prepare(limits);
  const Ended end = end_of(start(slice, container("hog 200; exit $?")));
  EXPECT_TRUE(end.out_of_memory);
  EXPECT_NE(end.wait_status, 0);
  EXPECT_LE(end.mem_peak.value, 100LL << 20);  // kernels charge in batches
  EXPECT_EQ(run(container("hog 20"), limits), 0);
}

TEST_F(ContainerTask, SeesTheDevicesOfItsSliceAndNoOther) {
  struct stat st {};
  ASSERT_EQ(stat("/dev/full", &st), 0);
  ASSERT_EQ(mknod((dir_ + "/accel0").c_str(), S_IFCHR | 0666, makedev(1, 11)), 0);  // kmsg, in the place of one
  chmod((dir_ + "/accel0").c_str(), 0666);
  SliceLimits limits;
  limits.devices_limited = true;
  limits.devices = devices::usual();
  const std::string script = "ls /dev; head -c 2 /dev/zero > /dev/null && echo usual";
  EXPECT_EQ(run(container(script), limits), 0) << out();
  EXPECT_FALSE(has(out(), "fuse"));
  EXPECT_FALSE(has(out(), "accel0"));
  EXPECT_TRUE(has(out(), "usual"));
  limits.devices.push_back({'c', 1, 11});
  const SliceId slice = prepare(limits);
  const TaskKey task = new_task();
  send(launcher::Start{task, slice, container("ls -l " + dir_ + "/accel0"), {}, {dir_ + "/accel0"}});
  EXPECT_EQ(end_of(task).wait_status, 0) << out();
  EXPECT_TRUE(has(out(), "crw-rw-rw-")) << out();
}

TEST_F(ContainerTask, MountsWhatTheUserMayReachAndNothingElse) {
  put(dir_ + "/data/file", "data\n");
  chmod((dir_ + "/data").c_str(), 0755);
  TaskSpec spec = container("cat /in/file; touch /in/x 2>&1 | grep -o 'Read-only'; cat " + dir_ + "/data/file");
  spec.mounts = {dir_ + "/data:/in:ro", dir_ + "/data"};
  EXPECT_EQ(run(spec), 0);
  EXPECT_EQ(out(), "data\nRead-only\ndata\n");

  put(dir_ + "/closed/inner/file", "secret\n");
  chmod((dir_ + "/closed").c_str(), 0700);  // root's
  for (const std::string& source : {dir_ + "/closed", dir_ + "/closed/inner", dir_ + "/closed/inner/file"}) {
    spec.mounts = {source + ":/in"};
    EXPECT_EQ(run(spec), 125 << 8);
    EXPECT_TRUE(has(out(), "Permission denied")) << out();
  }
  fs::create_directory_symlink(dir_ + "/closed/inner", work_ + "/link");
  spec.mounts = {work_ + "/link:/in"};
  EXPECT_EQ(run(spec), 125 << 8);
  spec.mounts = {dir_ + "/data:/../../in"};
  EXPECT_EQ(run(spec), 125 << 8);
  EXPECT_TRUE(has(out(), "leads out of the container"));
  spec.mounts = {"data:/in"};
  EXPECT_EQ(run(spec), 125 << 8);
}

TEST_F(ContainerTask, AnImageThatCannotBeUsedIsNamed) {
  TaskSpec spec = container("true");
  spec.image = dir_ + "/none";
  EXPECT_EQ(run(spec), 125 << 8);
  EXPECT_TRUE(has(out(), "image " + dir_ + "/none: No such file or directory")) << out();
  fs::create_directories(dir_ + "/closed");
  make_root(dir_ + "/closed/image");
  chmod((dir_ + "/closed").c_str(), 0700);
  spec.image = dir_ + "/closed/image";
  EXPECT_EQ(run(spec), 125 << 8);
  EXPECT_TRUE(has(out(), "Permission denied")) << out();
  spec.image.clear();
  EXPECT_TRUE(has(start_fails(prepare(), spec), "names no image"));
  spec = container("true");
  spec.argv = {"/bin/absent"};
  EXPECT_NE(run(spec), 0);
  EXPECT_TRUE(has(out(), "absent")) << out();
}

TEST_F(ContainerTask, ARootsOneHasOnlyTheCapabilitiesThatAreLeftToIt) {
  TaskSpec spec = container(
      "grep -E 'Cap(Eff|Bnd)' /proc/self/status; grep NoNewPrivs /proc/self/status; "
      "for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/memory/cgroup.procs; do "
      "if [ -e $f ]; then echo $$ > $f && echo escaped; fi; done 2>/dev/null; exit 0");
  spec.uid = spec.gid = 0;
  Confine confine;
  confine.capabilities = launcher::usual_capabilities();
  char wanted[40];
  std::snprintf(wanted, sizeof wanted, "%016llx", static_cast<unsigned long long>(confine.capabilities));
  const TaskKey task = new_task();
  send(launcher::Start{task, prepare(), spec, confine, {}});
  EXPECT_EQ(end_of(task).wait_status, 0);
  EXPECT_EQ(out(), "CapEff:\t" + std::string(wanted) + "\nCapBnd:\t" + wanted + "\nNoNewPrivs:\t1\n");
}

// As for an init: the program that makes the container is root, and its loader must not do what the user's variables say.
TEST_F(ContainerTask, AUsersVariablesMeanNothingToWhatMakesIt) {
  TaskSpec spec = container("echo $LD_DEBUG $PATH");
  spec.env.insert(spec.env.end(), {"LD_DEBUG=files", "LD_DEBUG_OUTPUT=" + work_ + "/loader", "BOURSE_MUTANT=container.no_seccomp"});
  EXPECT_EQ(run(spec), 0);
  EXPECT_EQ(out(), "files /usr/bin:/bin\n");
  for (const auto& entry : fs::directory_iterator(work_)) EXPECT_FALSE(has(entry.path().filename(), "loader")) << entry.path();
}

TEST_F(ContainerTask, TmpIpcAndNetworkAreAsTheTaskAsks) {
  const std::string shm = "/dev/shm/" + root_;
  put(shm, "x");
  Confine confine;
  confine.tmp = Confine::Tmp::kDisk;
  confine.ipc = confine.net = true;
  const std::string script =
      "ls -A /tmp | grep -v bourse-launcher; touch /tmp/f && grep ' /tmp ' /proc/self/mountinfo | grep -c /scratch/; ls /dev/shm; "
      "grep -c : /proc/net/dev";
  TaskKey task = new_task();
  send(launcher::Start{task, prepare(), container(script), confine, {}});
  end_of(task);
  EXPECT_EQ(out(), "1\n1\n");  // on disk, nothing in shm, one interface
  confine = {};
  task = new_task();
  send(launcher::Start{
      task, prepare(), container("grep ' /tmp ' /proc/self/mountinfo | grep -c /scratch/; ls /dev/shm"), confine, {}});
  end_of(task);
  EXPECT_EQ(out().substr(0, 2), "0\n") << out();
  EXPECT_TRUE(has(out(), root_ + "\n")) << out();  // MPI's shared memory works across containers
  fs::remove(shm);
  EXPECT_TRUE(eventually([&] { return nothing_left(); }));
}

TEST_F(ContainerTask, OutlivesTheLauncherAndItsCodeIsRight) {
  const SliceId slice = prepare();
  const TaskKey task = start(slice, container("echo ready; while [ ! -e go ]; do sleep 0.02; done; exit 7"));
  ASSERT_TRUE(eventually([&] { return has(out(), "ready"); })) << out();
  const pid_t before = launcher_pid();
  kill(before, SIGKILL);
  other_launcher(before);
  connect();
  EXPECT_EQ(hello(slices_).running.size(), 1U);
  EXPECT_FALSE(nothing_left());
  put(work_ + "/go", "");
  EXPECT_EQ(end_of(task).wait_status, 7 << 8);
  EXPECT_TRUE(eventually([&] { return nothing_left(); }));
}

// --- OCI image layouts -----------------------------------------------------------------------------------------------------

namespace {

// With the tool of others, so that the two agree on the format.
std::string make_layout(const std::string& layout, const std::string& image) {
  return output_of("umoci init --layout " + layout + " && umoci new --image " + layout + ":v1 && umoci insert --image " + layout +
                   ":v1 " + image + " / && umoci config --image " + layout +
                   ":v1 --config.env FROM_IMAGE=yes --config.cmd /bin/sh --config.cmd=-c --config.cmd 'cat /etc/image-name; echo "
                   "$FROM_IMAGE' && chmod -R a+rX " +
                   layout);
}

}  // namespace

TEST_F(ContainerTask, RunsALayoutThatUmociMadeWithWhatItsConfigurationSays) {
  const std::string layout = dir_ + "/layout", made = make_layout(layout, image_);
  ASSERT_TRUE(fs::exists(layout + "/index.json")) << made;
  TaskSpec spec = container("");
  spec.argv.clear();
  spec.image = layout + ":v1";
  EXPECT_EQ(run(spec), 0);
  EXPECT_EQ(out(), "tiny\nyes\n");
  spec.image = layout;  // its only image
  EXPECT_EQ(run(spec), 0);
  EXPECT_EQ(out(), "tiny\nyes\n");
  spec.image = layout + ":v2";
  EXPECT_EQ(run(spec), 125 << 8);
  EXPECT_TRUE(has(out(), "has no image `v2'; its tags are: v1")) << out();
  EXPECT_TRUE(eventually([&] { return nothing_left(); }));
}

TEST_F(ContainerTask, AnImageIsUnpackedOnceWhoeverComesFirstAndHoweverItEnds) {
  const std::string layout = dir_ + "/layout", made = make_layout(layout, image_);
  ASSERT_TRUE(fs::exists(layout + "/index.json")) << made;
  const fs::path images = state_dir_ + "/images/54321";
  const auto unpacked = [&] {
    int n = 0;
    for (const auto& each : fs::directory_iterator(images)) n += each.path().extension().empty() ? 1 : 0;
    return n;
  };
  TaskSpec spec = container("cat /etc/image-name");
  spec.image = layout;
  for (const std::string point : {"container.before_unpack", "container.after_unpack", "container.before_runtime"}) {
    SCOPED_TRACE(point);
    kill(keeper_, SIGTERM);
    waitpid(keeper_, nullptr, 0);
    start_keeper({{"BOURSE_CRASH_AT", point}});
    connect();
    hello({});
    slices_.clear();
    EXPECT_NE(run(spec), 0);
    EXPECT_EQ(unpacked(), point == "container.before_runtime" ? 1 : 0);
    EXPECT_TRUE(eventually([&] { return nothing_left(); }));
  }
  fs::remove_all(images);
  kill(keeper_, SIGTERM);
  waitpid(keeper_, nullptr, 0);
  start_keeper();
  connect();
  hello({});
  slices_.clear();
  std::vector<TaskKey> tasks;
  for (int i = 0; i < 4; ++i) {
    tasks.push_back(new_task());
    spec.stdout_path = work_ + "/out" + std::to_string(i);
    send(launcher::Start{tasks.back(), prepare(), spec, {}, {}});
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(end_of(tasks[static_cast<std::size_t>(i)]).wait_status, 0);
    EXPECT_EQ(read_text(work_ + "/out" + std::to_string(i)), "tiny\n");
  }
  EXPECT_EQ(unpacked(), 1);
  for (const auto& each : fs::recursive_directory_iterator(images)) {
    struct stat st {};
    ASSERT_EQ(lstat(each.path().c_str(), &st), 0);
    EXPECT_EQ(st.st_uid, 54321U) << each.path();
  }
  Confine small;
  small.image_bytes = 1 << 20;
  fs::remove_all(images);
  const TaskKey task = new_task();
  spec.stdout_path = work_ + "/out";
  send(launcher::Start{task, prepare(), spec, small, {}});
  EXPECT_EQ(end_of(task).wait_status, 125 << 8);
  EXPECT_TRUE(has(out(), "larger than 1 MiB (agent.image_max)")) << out();
  EXPECT_EQ(unpacked(), 0);
}

namespace {

struct Entry {
  std::string name, data, link, hard;
  unsigned type = 0, mode = 0755;
  std::int64_t holes = 0;  // size that it claims, with nothing in it
};

std::string tar(const std::string& path, const std::vector<Entry>& entries) {
  struct archive* a = archive_write_new();
  archive_write_set_format_pax_restricted(a);
  archive_write_add_filter_gzip(a);
  archive_write_open_filename(a, path.c_str());
  for (const Entry& each : entries) {
    struct archive_entry* e = archive_entry_new();
    archive_entry_set_pathname(e, each.name.c_str());
    archive_entry_set_perm(e, each.mode);
    archive_entry_set_filetype(e, each.type != 0            ? each.type
                                  : each.name.back() == '/' ? AE_IFDIR
                                  : each.link.empty()       ? AE_IFREG
                                                            : AE_IFLNK);
    if (each.type == AE_IFCHR) archive_entry_set_rdev(e, makedev(1, 11));
    if (!each.link.empty()) archive_entry_set_symlink(e, each.link.c_str());
    if (!each.hard.empty()) archive_entry_set_hardlink(e, each.hard.c_str());
    archive_entry_set_size(e, std::max<la_int64_t>(static_cast<la_int64_t>(each.data.size()), each.holes));
    if (each.holes > 0) archive_entry_sparse_add_entry(e, 0, 0);
    archive_write_header(a, e);
    archive_write_data(a, each.data.data(), each.data.size());
    archive_entry_free(e);
  }
  archive_write_free(a);
  return path;
}

class ContainerLayout : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/bourse-layout-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    fs::create_directories(dir_ + "/l/blobs/sha256");
    fs::create_directories(dir_ + "/root");
    put(dir_ + "/l/oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}");
  }
  void TearDown() override { fs::remove_all(dir_); }
  std::string add(const std::string& file) {  // as a blob; its digest
    const std::string digest = output_of("sha256sum < " + file).substr(0, 64);
    fs::rename(file, dir_ + "/l/blobs/sha256/" + digest);
    return "sha256:" + digest;
  }
  Result<> unpack(const std::vector<std::vector<Entry>>& layers, const container::UnpackLimits& limits = {}) {
    std::string list;
    for (const auto& layer : layers) {
      list += (list.empty() ? "" : ",") + std::string("{\"digest\":\"") + add(tar(dir_ + "/layer", layer)) + "\"}";
    }
    put(dir_ + "/manifest", "{\"layers\":[" + list + "]}");
    put(dir_ + "/l/index.json", "{\"manifests\":[{\"digest\":\"" + add(dir_ + "/manifest") + "\"}]}");
    const auto layout = BOURSE_TRY(container::read_layout(dir_ + "/l", ""));
    return container::unpack(layout, dir_ + "/root", limits);
  }
  std::string dir_;
};

}  // namespace

TEST_F(ContainerLayout, LayersLieOnEachOtherAndWhiteoutsTakeAway) {
  const auto done =
      unpack({{{"a/", "", "", ""}, {"a/one", "1", "", ""}, {"a/two", "2", "", ""}, {"b/", "", "", ""}, {"b/x", "x", "", ""}},
              {{"a/.wh.one", "", "", ""}, {"b/.wh..wh..opq", "", "", ""}, {"b/y", "y", "", ""}, {"a/hard", "", "", "a/two"}}});
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_FALSE(fs::exists(dir_ + "/root/a/one"));
  EXPECT_EQ(read_text(dir_ + "/root/a/two"), "2");
  EXPECT_EQ(read_text(dir_ + "/root/a/hard"), "2");
  EXPECT_FALSE(fs::exists(dir_ + "/root/b/x"));
  EXPECT_EQ(read_text(dir_ + "/root/b/y"), "y");
}

TEST_F(ContainerLayout, AWhiteoutTakesAwayWhatIsBelowItsLayerOnly) {
  const auto done = unpack({{{"d/", "", "", ""}, {"d/below", "1", "", ""}, {"d/sub/", "", "", ""}, {"d/sub/below", "1", "", ""}},
                            {{"d/sub/mine", "2", "", ""}, {"d/mine", "2", "", ""}, {"d/.wh..wh..opq", "", "", ""}}});
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_FALSE(fs::exists(dir_ + "/root/d/below"));
  EXPECT_FALSE(fs::exists(dir_ + "/root/d/sub/below"));
  EXPECT_EQ(read_text(dir_ + "/root/d/mine") + read_text(dir_ + "/root/d/sub/mine"), "22");
}

TEST_F(ContainerLayout, DevicesAndSetUserIdBitsAreLeftOut) {
  const auto done = unpack({{{"dev/", "", "", ""},
                             {"dev/kmsg", "", "", "", AE_IFCHR},
                             {"su", "x", "", "", 0, 04755},
                             {"closed/", "", "", "", 0, 0000},
                             {"closed/in", "y", "", ""}}});
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_FALSE(fs::exists(dir_ + "/root/dev/kmsg"));
  struct stat st {};
  ASSERT_EQ(stat((dir_ + "/root/su").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777U, 0755U);
  ASSERT_EQ(stat((dir_ + "/root/closed").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0700U, 0700U);
}

TEST_F(ContainerLayout, WhatIsReplacedIsNotWrittenThrough) {
  put(dir_ + "/victim", "untouched");
  fs::create_directories(dir_ + "/closed");
  chmod((dir_ + "/closed").c_str(), 0700);
  const std::vector<std::vector<Entry>> layers[] = {
      {{{"file", "", dir_ + "/victim", ""}, {"file", "evil", "", ""}}},
      {{{"dir", "", dir_ + "/closed", ""}, {"dir/", "", "", "", 0, 0777}}},
      {{{"link", "", dir_ + "/victim", ""}, {"hard", "evil", "", "link"}}},
      {{{"link", "", dir_ + "/victim", ""}}, {{"hard", "", "", "link"}, {"hard", "evil", "", ""}}},
  };
  for (const auto& each : layers) {
    const auto done = unpack(each);
    EXPECT_EQ(read_text(dir_ + "/victim"), "untouched") << each[0][0].name;
    struct stat st {};
    ASSERT_EQ(stat((dir_ + "/closed").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777U, 0700U);
    fs::remove_all(dir_ + "/root");
    fs::create_directories(dir_ + "/root");
  }
}

TEST_F(ContainerLayout, ASmallArchiveThatHoldsVeryMuchIsRefused) {
  container::UnpackLimits limits;
  limits.bytes = 1 << 20;
  const auto refused = [&](const std::vector<Entry>& layer) {
    const auto done = unpack({layer}, limits);
    EXPECT_FALSE(done);
    EXPECT_EQ(done ? Code::kOk : done.error().code(), Code::kLimit);
    std::uintmax_t bytes = 0;
    for (const auto& each : fs::recursive_directory_iterator(dir_ + "/root"))
      if (each.is_regular_file()) bytes += each.file_size();
    EXPECT_LE(bytes, limits.bytes);
    fs::remove_all(dir_ + "/root");
    fs::create_directories(dir_ + "/root");
  };
  refused({{"zeros", std::string(3 << 20, '\0'), "", ""}});
  refused({{"a", std::string(600'000, 'a'), "", ""}, {"b", std::string(600'000, 'b'), "", ""}});
  refused({{"holes", "", "", "", 0, 0644, std::int64_t{1} << 50}});
  limits.entries = 3;
  refused({{"1", "", "", ""}, {"2", "", "", ""}, {"3", "", "", ""}, {"4", "", "", ""}});
  limits = {};
  limits.free_permille = 1001;
  limits.bytes = 64 << 20;
  const auto full = unpack({{{"a", std::string(40 << 20, 'a'), "", ""}}}, limits);
  ASSERT_FALSE(full);
  EXPECT_TRUE(has(full.error().text(), "left free")) << full.error().text();
}

TEST_F(ContainerLayout, APathThatLeadsOutIsRefused) {
  put(dir_ + "/victim", "untouched");
  const std::vector<std::vector<Entry>> bad[] = {
      {{{"../victim", "evil", "", ""}}},
      {{{"a/../../victim", "evil", "", ""}}},
      {{{"link", "", dir_, ""}, {"link/victim", "evil", "", ""}}},
      {{{"link", "", "..", ""}, {"link/victim", "evil", "", ""}}},
      {{{"link", "", "..", ""}}, {{"link/.wh.victim", "", "", ""}}},
      {{{"stolen", "", "", "../victim"}}},
      {{{".wh...", "", "", ""}}},
      {{{std::string(3000, 'a') + "/" + std::string(3000, 'b'), "evil", "", ""}}},
  };
  for (const auto& layers : bad) {
    const auto done = unpack(layers);
    ASSERT_FALSE(done) << layers[0][0].name;
    EXPECT_EQ(done.error().code(), Code::kDenied) << done.error().text();
    EXPECT_EQ(read_text(dir_ + "/victim"), "untouched");
    fs::remove_all(dir_ + "/root");
    fs::create_directories(dir_ + "/root");
  }
  const auto absolute = unpack({{{"/etc/", "", "", ""}, {"/etc/inside", "in", "", ""}}});  // as a path in the image
  ASSERT_TRUE(absolute) << absolute.error().text();
  EXPECT_EQ(read_text(dir_ + "/root/etc/inside"), "in");
}

TEST_F(ContainerLayout, OfSeveralArchitecturesThatOfThisMachineIsTaken) {
  ASSERT_TRUE(unpack({{{"a", "1", "", ""}}}));
  std::string machine = output_of("dpkg --print-architecture");
  while (!machine.empty() && machine.back() == '\n') machine.pop_back();
  const std::string index = read_text(dir_ + "/l/index.json"), digest = index.substr(index.find("sha256:"), 71);
  const auto for_arch = [](const std::string& d, const std::string& arch) {
    return "{\"digest\":\"" + d + R"(","platform":{"architecture":")" + arch + "\"}}";
  };
  const std::string other = "sha256:" + std::string(64, '0');
  put(dir_ + "/inner",
      "{\"manifests\":[" + for_arch(other, "s390x") + "," + for_arch(digest, machine) + "," + for_arch(other, "unknown") + "]}");
  put(dir_ + "/l/index.json", "{\"manifests\":[{\"digest\":\"" + add(dir_ + "/inner") + "\"}]}");
  const auto layout = container::read_layout(dir_ + "/l", "");
  ASSERT_TRUE(layout) << layout.error().text();
  EXPECT_EQ(layout->manifest_digest, digest);
  EXPECT_EQ(layout->layers.size(), 1U);
  put(dir_ + "/l/index.json", "{\"manifests\":[" + for_arch(digest, "s390x") + "]}");
  EXPECT_TRUE(has(container::read_layout(dir_ + "/l", "").error().text(), "has no image for " + machine));
}

TEST_F(ContainerLayout, DamageIsNamed) {
  ASSERT_TRUE(unpack({{{"a", "1", "", ""}}}));
  const auto layout = container::read_layout(dir_ + "/l", "");
  ASSERT_TRUE(layout);
  std::ofstream(layout->layers[0].path, std::ios::app) << "x";
  EXPECT_TRUE(has(container::unpack(*layout, dir_ + "/root").error().text(), "do not have the digest"));
  put(dir_ + "/l/index.json", "{\"manifests\":[{\"digest\":\"sha256:../../../etc/passwd\"}]}");
  EXPECT_TRUE(has(container::read_layout(dir_ + "/l", "").error().text(), "is not a sha256 digest"));
  put(dir_ + "/l/index.json", "{");
  EXPECT_TRUE(has(container::read_layout(dir_ + "/l", "").error().text(), "is not a JSON object"));
}

TEST(ContainerConfig, AMountThatMeansNothingIsNamed) {
  EXPECT_EQ(container::parse_mount("/a")->target, "/a");
  EXPECT_TRUE(container::parse_mount("/a:/b:ro")->read_only);
  for (const char* bad : {"", "a:/b", "/a:b", "/a:/b:rx", ":/b", "/a:"})
    EXPECT_TRUE(has(container::parse_mount(bad).error().text(), "absolute paths")) << bad;
  EXPECT_TRUE(has(container::parse_mount("/a:/b/../../c").error().text(), "leads out"));
  for (const char* whole : {"/", "/a:/", "/a:/.", "/a://"})
    EXPECT_TRUE(has(container::parse_mount(whole).error().text(), "the whole container")) << whole;
}

}  // namespace bourse::launcher_test
