// bourse-container: first process of a container task. Run by the launcher as root, in the task's leaf, so that whatever it costs
// is the task's; makes the root file system and the configuration, then becomes crun, which waits for the container and ends with
// its code. What it cannot do it says on the task's standard error, and ends with 125 as container runtimes do.
//
// What belongs to the user is reached with the user's rights: the image, and the sources of mounts, are opened as the user and
// handed on as bind mounts of those open files, so that no path is looked up again by root. The mounts live in a mount namespace
// of this process and go with it; SCRATCH is removed by the launcher.
#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "agent/container/config.h"
#include "agent/container/park.h"
#include "agent/container/unpack.h"
#include "agent/launcher/init.h"
#include "common/core/hooks.h"

namespace fs = std::filesystem;
using bourse::Code;
using bourse::Error;
using bourse::Result;
using bourse::container::Mount;

namespace {

constexpr int kFailed = 125;
constexpr int kParkedNice = 10;
constexpr const char* kUsage =
    "usage: bourse-container --scratch DIR --images DIR --image DIR[:TAG] --uid N --gid N [OPTIONS] -- [ARGV...]\n"
    "Runs a task in a container. Run by bourse-launcher; see bourse-container(8).\n"
    "  --scratch DIR        empty directory of this task\n"
    "  --images DIR         where unpacked images are kept\n"
    "  --image DIR[:TAG]    a root directory or an OCI image layout\n"
    "  --uid N              whom it runs as\n"
    "  --gid N              and group\n"
    "  --groups N,...       and further groups\n"
    "  --capabilities MASK  what a container of root keeps\n"
    "  --image-max BYTES    most that an image may be when it is unpacked\n"
    "  --directory DIR      working directory, mounted at its own place\n"
    "  --mount SOURCE[:TARGET[:ro]]  a directory or file of the host\n"
    "  --device PATH        a device of the host\n"
    "  --disk-tmp           /tmp is on disk, not in memory\n"
    "  --ipc                System V IPC and /dev/shm of its own\n"
    "  --net                nothing but a loopback of its own\n"
    "  --park SOCKET        start nothing yet, wait there for a task\n"
    "  --warm SOCKET        run in the container that waits there, if it does\n"
    "  --runtime PATH       instead of crun\n";
constexpr std::size_t kImagesKept = 16;  // unpacked images of one user; the least recently used go first

struct Arguments {
  std::string scratch, images, image, park, warm, runtime = "crun";
  std::vector<std::string> mounts;
  bourse::container::UnpackLimits unpack;
  bool disk_tmp = false;
  bourse::container::Wanted wanted;
};

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "bourse-container: %s\n", why.c_str());
  _exit(kFailed);
}
[[noreturn]] void fail_errno(const std::string& what) { fail(what + ": " + std::strerror(errno)); }

std::uint64_t number(const std::string& text, std::uint64_t most) {
  char* end = nullptr;
  errno = 0;
  const std::uint64_t n = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || text.front() == '-' || *end != '\0' || errno != 0 || n > most) fail("`" + text + "' is not such a number");
  return n;
}
std::uint32_t id_number(const std::string& text) { return static_cast<std::uint32_t>(number(text, 0xfffffffeU)); }

Arguments parse(int argc, char** argv) {
  Arguments out;
  bool uid = false, gid = false;
  int i = 1;
  for (; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    const std::string word = argv[i];
    if (bool* const flag = word == "--ipc"        ? &out.wanted.ipc
                           : word == "--net"      ? &out.wanted.net
                           : word == "--disk-tmp" ? &out.disk_tmp
                                                  : nullptr) {
      *flag = true;
      continue;
    }
    if (i + 1 >= argc) fail("unknown option or missing value: " + word);
    const std::string value = argv[++i];
    if (word == "--scratch") {
      out.scratch = value;
    } else if (word == "--images") {
      out.images = value;
    } else if (word == "--image") {
      out.image = value;
    } else if (word == "--image-max") {
      out.unpack.bytes = number(value, INT64_MAX);
    } else if (word == "--uid") {
      out.wanted.uid = id_number(value), uid = true;
    } else if (word == "--gid") {
      out.wanted.gid = id_number(value), gid = true;
    } else if (word == "--groups") {
      for (std::size_t at = 0; at < value.size();) {
        const std::size_t end = std::min(value.find(',', at), value.size());
        out.wanted.groups.push_back(id_number(value.substr(at, end - at)));
        at = end + 1;
      }
    } else if (word == "--capabilities") {
      out.wanted.capabilities = number(value, UINT64_MAX);
    } else if (word == "--directory") {
      out.wanted.directory = value;
    } else if (word == "--mount") {
      out.mounts.push_back(value);
    } else if (word == "--device") {
      out.wanted.devices.push_back(value);
    } else if (word == "--park") {
      out.park = value;
    } else if (word == "--warm") {
      out.warm = value;
    } else if (word == "--runtime") {
      out.runtime = value;
    } else {
      fail("unknown option: " + word);
    }
  }
  for (++i; i < argc; ++i) out.wanted.argv.emplace_back(argv[i]);
  if (out.scratch.empty() || out.images.empty() || out.image.empty() || !uid || !gid)
    fail("--scratch, --images, --image, --uid and --gid are needed");
  for (const char* each : bourse::launcher::task_environment(environ))
    if (each != nullptr) out.wanted.env.emplace_back(each);
  return out;
}

// Effective rights of the user for a while. Root's come back at the end of the scope.
class AsUser {
 public:
  explicit AsUser(const Arguments& a) {
    const auto& w = a.wanted;
    if (setgroups(w.groups.size(), w.groups.data()) != 0 || setegid(w.gid) != 0 || seteuid(w.uid) != 0)
      fail_errno("become the user");
  }
  ~AsUser() {
    if (seteuid(0) != 0 || setegid(0) != 0 || setgroups(0, nullptr) != 0) fail_errno("become root again");
  }
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
};

int open_as_user(const Arguments& a, const std::string& path, const std::string& what) {
  const AsUser user(a);
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) fail_errno(what + " " + path);
  // To be in it, not only to name it: a directory that its owner has closed stays closed.
  struct stat st {};
  if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && faccessat(fd, ".", X_OK, AT_EACCESS) != 0) fail_errno(what + " " + path);
  return fd;
}

// With everything below it: what somebody has mounted there is no more writable than it.
void bind_mount(int fd, const std::string& to, bool read_only) {
  if (mount(("/proc/self/fd/" + std::to_string(fd)).c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0)
    fail_errno("bind " + to);
  struct mount_attr attributes {};
  attributes.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (read_only ? static_cast<unsigned>(MOUNT_ATTR_RDONLY) : 0U);
  attributes.propagation = MS_PRIVATE;
  if (syscall(SYS_mount_setattr, AT_FDCWD, to.c_str(), AT_RECURSIVE, &attributes, sizeof attributes) == 0) return;
  if (errno != ENOSYS) fail_errno("remount " + to);
  const unsigned long flags =  // a kernel before 5.12: only the topmost one
      MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV | (read_only ? static_cast<unsigned long>(MS_RDONLY) : 0UL);
  if (mount(nullptr, to.c_str(), nullptr, flags, nullptr) != 0) fail_errno("remount " + to);
}

void make_dir(const std::string& path, mode_t mode) {
  if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST) fail_errno("mkdir " + path);
}

// --- the image ---------------------------------------------------------------------------------------------------------------

// Unpacked images here that nobody uses (nobody has their lock), the oldest first, until few enough are left. As the user.
void drop_old_images(const std::string& keep) {
  constexpr std::string_view kLock = ".lock";
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(".", error)) {
    const std::string name = entry.path().filename();
    if (name.size() > kLock.size() && name.compare(name.size() - kLock.size(), kLock.size(), kLock) == 0 &&
        name != keep + std::string(kLock))
      found.emplace_back(entry.last_write_time(error), name);
  }
  std::sort(found.begin(), found.end());
  for (std::size_t i = 0; i + kImagesKept <= found.size(); ++i) {
    const std::string& lock = found[i].second;
    const int fd = open(lock.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
      const std::string root = lock.substr(0, lock.size() - kLock.size());
      fs::remove_all(root, error);
      fs::remove_all(root + ".part", error);
      fs::remove(lock, error);
    }
    close(fd);
  }
}

// A child does it for good as the user: files are made with the user's rights only, by libraries that know nothing of that.
void unpack_as_user(const Arguments& a, const bourse::container::Layout& layout, const std::string& part, const std::string& done) {
  const pid_t child = fork();
  if (child < 0) fail_errno("fork");
  if (child == 0) {
    const auto& w = a.wanted;
    if (setgroups(w.groups.size(), w.groups.data()) != 0 || setresgid(w.gid, w.gid, w.gid) != 0 ||
        setresuid(w.uid, w.uid, w.uid) != 0)
      fail_errno("become the user");
    umask(022);
    std::error_code error;
    fs::remove_all(part, error);
    if (mkdir(part.c_str(), 0755) != 0) fail_errno("mkdir " + part);
    bourse::hooks::crash_point("container.before_unpack");
    if (auto unpacked = bourse::container::unpack(layout, part, a.unpack); !unpacked) {
      fs::remove_all(part, error);
      fail("image " + a.image + ": " + unpacked.error().text());
    }
    bourse::hooks::crash_point("container.after_unpack");
    if (rename(part.c_str(), done.c_str()) != 0) fail_errno("rename " + part);
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  if (WIFSIGNALED(status)) fail(std::string("unpacking was ended by a signal: ") + strsignal(WTERMSIG(status)));
  _exit(kFailed);  // it has said why
}

void lock_for(int fd, int how, const std::string& name) {
  while (flock(fd, how) != 0)
    if (errno != EINTR) fail_errno("lock " + name);
}

// The lock stays open, and shared, as long as the container runs (crun keeps it): the image is in use.
int lock_image(const Arguments& a, const std::string& lock) {
  for (;;) {
    int held = -1;
    {
      const AsUser user(a);
      held = open(lock.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
      if (held < 0) fail_errno("open " + lock);
      futimens(held, nullptr);
    }
    lock_for(held, LOCK_SH, lock);
    struct stat st {};
    if (fstat(held, &st) == 0 && st.st_nlink > 0) return held;
    close(held);  // its image was dropped while we waited
  }
}

// The root file system as an open directory, and what the image says about itself.
int open_image(const Arguments& a, bourse::container::ImageConfig& config) {
  std::string path = a.image, tag;
  bool is_layout = false;
  {
    const AsUser user(a);
    struct stat st {};
    if (stat(path.c_str(), &st) != 0) {
      const auto colon = path.rfind(':');
      if (errno == ENOENT && colon != std::string::npos && colon > path.rfind('/') && colon + 1 < path.size())
        tag = path.substr(colon + 1), path.erase(colon);
      if (stat(path.c_str(), &st) != 0) fail_errno("image " + a.image);
    }
    if (!S_ISDIR(st.st_mode)) fail("image " + a.image + ": neither a root directory nor an OCI image layout");
    is_layout = bourse::container::is_layout(path);
  }
  if (!is_layout) {
    if (!tag.empty()) fail("image " + path + " is not an OCI image layout and has no tags");
    return open_as_user(a, path, "image");
  }
  Result<bourse::container::Layout> layout = Error(Code::kInvalid, "");
  {
    const AsUser user(a);
    layout = bourse::container::read_layout(path, tag);
  }
  if (!layout) fail("image " + layout.error().text());
  config = layout->config;
  const std::string mine = a.images + "/" + std::to_string(a.wanted.uid);
  make_dir(a.images, 0711);
  make_dir(mine, 0700);
  if (lchown(mine.c_str(), a.wanted.uid, a.wanted.gid) != 0) fail_errno("chown " + mine);
  // From in there, as the user need not be able to come there.
  if (chdir(mine.c_str()) != 0) fail_errno("chdir " + mine);
  const std::string root = layout->manifest_digest.substr(layout->manifest_digest.find(':') + 1), lock = root + ".lock";
  const int held = lock_image(a, lock);
  if (access(root.c_str(), F_OK) != 0) {
    lock_for(held, LOCK_EX, lock);
    if (access(root.c_str(), F_OK) != 0) {
      unpack_as_user(a, *layout, root + ".part", root);
      const AsUser user(a);
      drop_old_images(root);
    }
    lock_for(held, LOCK_SH, lock);
  }
  const int fd = open_as_user(a, root, "image");
  if (chdir("/") != 0) fail_errno("chdir /");
  return fd;
}

// --- its root ----------------------------------------------------------------------------------------------------------------

// The image itself is never written to: what the container writes goes to SCRATCH, and with that; to memory where the file system
// of SCRATCH cannot be the upper one. False: this kernel has no overlays; then the container's root is read-only.
bool writable_root(const std::string& scratch) {
  // Relative, since ',' and ':' in a path would be taken for separators.
  if (chdir(scratch.c_str()) != 0) fail_errno("chdir " + scratch);
  make_dir("layer", 0755);
  bool done = false;
  for (const bool in_memory : {false, true}) {
    if (in_memory && mount("tmpfs", "layer", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") != 0) break;
    make_dir("layer/upper", 0755);
    make_dir("layer/work", 0700);
    done =
        mount("overlay", "rootfs", "overlay", MS_NOSUID | MS_NODEV, "lowerdir=image,upperdir=layer/upper,workdir=layer/work") == 0;
    if (done) break;
  }
  if (chdir("/") != 0) fail_errno("chdir /");
  return done;
}

// Read-only all the way down: a container of root could change its own limits in the cgroups below otherwise.
void make_sys(Arguments& a) {
  // crun refuses to run where there is a version 2 tree beside version 1, even with cgroups left to others. Seen by us alone.
  (void)umount2("/sys/fs/cgroup/unified", MNT_DETACH);
  a.wanted.sys = a.scratch + "/sys";
  make_dir(a.wanted.sys, 0755);
  const int fd = open("/sys", O_PATH | O_CLOEXEC);
  if (fd < 0) fail_errno("open /sys");
  bind_mount(fd, a.wanted.sys, true);
  close(fd);
}

// Its working directory is one: where its output goes. But "/" is the container's own.
void make_mounts(Arguments& a) {
  std::vector<Mount> mounts;
  if (a.wanted.directory.find_first_not_of('/') != std::string::npos)
    mounts.push_back({a.wanted.directory, a.wanted.directory, false});
  for (const std::string& each : a.mounts) {
    auto parsed = bourse::container::parse_mount(each);
    if (!parsed) fail(parsed.error().text());
    mounts.push_back(*std::move(parsed));
  }
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    Mount& each = mounts[i];
    const int fd = open_as_user(a, each.source, "mount");
    struct stat st {};
    if (fstat(fd, &st) != 0) fail_errno("mount " + each.source);
    const std::string point = a.scratch + "/mount" + std::to_string(i);
    if (S_ISDIR(st.st_mode)) {
      make_dir(point, 0755);
    } else {
      close(open(point.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    }
    bind_mount(fd, point, each.read_only);
    close(fd);
    each.source = point;
  }
  a.wanted.mounts = std::move(mounts);
}

// The program of a container that waits, whatever its image has: from beside us, seen at a path of its own.
void put_waiter(Arguments& a) {
  const std::string program = fs::read_symlink("/proc/self/exe").parent_path() / "bourse-wait";
  const int fd = open(program.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) fail_errno("open " + program);
  const std::string point = a.scratch + "/wait";
  close(open(point.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  bind_mount(fd, point, true);
  close(fd);
  a.wanted.mounts.push_back({point, bourse::container::kWaitInside, true});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::puts("bourse-container " BOURSE_VERSION);
    return 0;
  }
  bourse::hooks::init(std::getenv("BOURSE_CRASH_AT"), std::getenv("BOURSE_MUTANT"));  // never the task's: see kVariable
  Arguments a = parse(argc, argv);
  if (geteuid() != 0) fail("containers need a launcher that runs as root");
  if (!a.warm.empty()) {  // it comes back without that word where nothing waits
    argv[0] = const_cast<char*>("bourse-wait");
    execv((fs::read_symlink("/proc/self/exe").parent_path() / "bourse-wait").c_str(), argv);
    fail_errno("exec bourse-wait");
  }
  a.wanted.umask = umask(022);
  if (!a.park.empty()) (void)setpriority(PRIO_PROCESS, 0, kParkedNice);  // nobody waits for it, and no task comes from it
  if (!a.park.empty()) a.wanted.argv = {bourse::container::kWaitInside}, a.wanted.env.clear();
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) fail_errno("mount namespace");
  bourse::container::ImageConfig image;
  const int root = open_image(a, image);
  for (const char* name : {"/image", "/rootfs"}) make_dir(a.scratch + name, 0755);
  bind_mount(root, a.scratch + "/image", true);
  a.wanted.writable = writable_root(a.scratch);
  if (!a.wanted.writable) bind_mount(root, a.scratch + "/rootfs", true);
  close(root);
  make_sys(a);
  make_mounts(a);
  if (!a.park.empty()) put_waiter(a);
  if (a.disk_tmp) {
    a.wanted.tmp = a.scratch + "/tmp";
    make_dir(a.wanted.tmp, 0700);
    if (chmod(a.wanted.tmp.c_str(), 01777) != 0) fail_errno("chmod " + a.wanted.tmp);
  }
  const auto config = bourse::container::runtime_config(a.wanted, image);
  if (!config) fail(config.error().text());
  std::ofstream out(a.scratch + "/config.json", std::ios::binary);
  out << *config;
  out.close();
  if (!out) fail_errno("write " + a.scratch + "/config.json");
  bourse::hooks::crash_point("container.before_runtime");
  const std::string state = a.scratch + "/runtime";
  make_dir(state, 0700);
  std::vector<std::string> words = {a.runtime, "--cgroup-manager=disabled", "--root", state, "run", "--bundle", a.scratch};
  if (!a.park.empty()) words.emplace_back("--preserve-fds=1");
  words.emplace_back("task");
  umask(0);  // nodes of devices get their modes
  if (clearenv() != 0 || setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1) != 0)
    fail_errno("environment");
  if (!a.park.empty()) bourse::container::hold(a.park, words, a.scratch);
  std::vector<char*> argv_of_runtime;
  for (std::string& word : words) argv_of_runtime.push_back(word.data());
  argv_of_runtime.push_back(nullptr);
  execvp(a.runtime.c_str(), argv_of_runtime.data());
  fail(a.runtime + " cannot be run: " + std::strerror(errno) + (errno == ENOENT ? " (Debian's package is called crun)" : ""));
}
