#include "agent/microvm/running_guest.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "agent/microvm/overlay.h"
#include "common/core/hooks.h"
#include "common/world/files.h"
#include "common/world/rooted.h"

namespace bourse::microvm {
namespace {

constexpr Bytes kDefaultMemory{512LL * 1024 * 1024};  // of a slice without a limit
constexpr int kGoneMs = 10'000;                       // for the guest to power off once it has told its status

// --- files of the user, reached with the user's rights ----------------------------------------------------------------------

class AsUser {
 public:
  explicit AsUser(const Arguments& who) {
    if (geteuid() != 0) return;
    (void)!setgroups(who.groups.size(), who.groups.data());
    setfsgid(who.gid);
    setfsuid(who.uid);
  }
  ~AsUser() {
    if (geteuid() != 0) return;
    setfsuid(0);
    setfsgid(0);
  }
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
};

struct File {
  int fd = -1;
  std::size_t size = 0;
  File() = default;
  File(File&& other) noexcept : fd(std::exchange(other.fd, -1)), size(other.size) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

Result<File> open_as(const Arguments& who, const std::string& path, std::size_t most, const char* what) {
  File file;
  {
    const AsUser user(who);
    file.fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  }
  if (file.fd < 0) return errno_error(std::string(what) + " " + path);
  struct stat st {};
  if (fstat(file.fd, &st) != 0 || !S_ISREG(st.st_mode))
    return Error(Code::kInvalid, std::string(what) + " " + path + ": not a file");
  if (static_cast<std::size_t>(st.st_size) > most)
    return Error(Code::kLimit,
                 std::string(what) + " " + path + " has more than " + format_size(Bytes{static_cast<std::int64_t>(most)}));
  file.size = static_cast<std::size_t>(st.st_size);
  return file;
}

Result<> write_new(const std::string& path, std::string_view content) {
  const int to = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (to < 0) return errno_error("make " + path);
  const bool fine = write_all(to, content);
  Error error = errno_error("write " + path);
  close(to);
  if (!fine) return error;
  return {};
}

// Our own copy, since who runs the emulator may not read the user's files, and must not be led to others.
Result<> copy(const File& from, const std::string& path, std::string_view tail) {
  const int to = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (to < 0) return errno_error("make " + path);
  bool fine = true;
  for (std::size_t left = from.size; left > 0 && fine;) {
    const ssize_t n = sendfile(to, from.fd, nullptr, left);
    fine = n > 0 || (n < 0 && errno == EINTR);
    if (n > 0) left -= static_cast<std::size_t>(n);
  }
  // Images that follow one another begin at a multiple of four.
  const std::string gap(tail.empty() ? 0 : (4 - from.size % 4) % 4, '\0');
  fine = fine && write_all(to, gap) && write_all(to, tail);
  Error error = errno_error("write " + path);
  close(to);
  if (!fine) return error;
  return {};
}

Result<std::string> read_program(const Arguments& who, const std::string& path) {
  const File file = BOURSE_TRY(open_as(who, path, kProgramMax, "program"));
  std::string content(file.size, '\0');
  for (std::size_t at = 0; at < content.size();) {
    const ssize_t n = pread(file.fd, content.data() + at, content.size() - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return errno_error("read " + path);
    at += static_cast<std::size_t>(n);
  }
  return content;
}

// A disk is opened by the emulator, later and with rights that the user has not: it must not be possible to swap it meanwhile.
Result<DiskShape> check_disk(const Arguments& who, const std::string& path) {
  if (path.empty() || path.front() != '/') return Error(Code::kInvalid, "disk " + path + ": its full path is needed");
  const File file = BOURSE_TRY(open_as(who, path, SIZE_MAX, "disk"));
  for (std::string part = path; part.size() > 1; part = directory_of(part)) {
    struct stat st {};
    if (lstat(part.c_str(), &st) != 0) return errno_error("disk " + part);
    // In a directory like /tmp nobody but its owner can swap a file.
    const bool swappable = (st.st_mode & 0022) != 0 && !(S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX) != 0);
    if (S_ISLNK(st.st_mode) || st.st_uid != 0 || swappable)
      return Error(Code::kDenied, "disk " + path + ": " + part + " is " +
                                      (S_ISLNK(st.st_mode) ? "a symbolic link" : "not root's alone") +
                                      "; images of disks are installed by the administrator");
  }
  auto shape = read_disk_shape(file.fd, file.size);
  if (!shape) return std::move(shape).error().add("disk " + path);
  return shape;
}

// --- the guest ---------------------------------------------------------------------------------------------------------------

std::string host_arch() {
  struct utsname names {};
  return uname(&names) == 0 ? names.machine : "x86_64";
}

std::string kernel_words(const std::string& arch, const Arguments& arguments) {
  const char* console = arch == "aarch64" || arch.compare(0, 3, "arm") == 0 ? "ttyAMA0" : "ttyS0";
  std::string words = "console=" + std::string(console) + " quiet loglevel=1 panic=-1";
  // An emulator that gets little of a busy host fails the kernel's test of the timer, which panics then.
  if (arch == "x86_64" || arch == "i686") words += " no_timer_check";
  words += arguments.initrd.empty() ? " root=/dev/vda rw" : " rdinit=/bourse/init";
  return words + (arguments.append.empty() ? "" : " " + arguments.append);
}

}  // namespace

RunningGuest::~RunningGuest() {
  if (started_ && emulator_fd_ >= 0) syscall(SYS_pidfd_send_signal, emulator_fd_, SIGKILL, nullptr, 0);
  if (domain_ != nullptr && !started_) api_.destroy(domain_);
  if (domain_ != nullptr) api_.release(domain_);
  if (connection_ != nullptr) api_.disconnect(connection_);
  for (const int fd : {emulator_fd_, console_, signals_})
    if (fd >= 0) close(fd);
}

Result<GuestTask> task_of(const Arguments& arguments, char** env) {
  GuestTask task;
  task.argv = arguments.argv;
  task.directory = arguments.directory;
  for (char** variable = env; *variable != nullptr; ++variable) task.env.emplace_back(*variable);
  // A full path that is on this host is the job's script or program, and goes along; else it is meant inside.
  if (!task.argv.empty() && task.argv[0].starts_with('/')) {
    auto program = read_program(arguments, task.argv[0]);
    if (program)
      task.program = *std::move(program);
    else if (program.error().code() == Code::kLimit)
      return std::move(program).error();
  }
  return task;
}

Result<> RunningGuest::choose() {
  spec_.arch = arguments_.arch.empty() ? host_arch() : arguments_.arch;
  char* text = api_.capabilities(connection_);
  if (text == nullptr) return Error(Code::kIo, arguments_.uri + " does not tell its capabilities: " + api_.why());
  const auto archs = guest_archs(text);
  free(text);
  std::string known;
  for (const GuestArch& guest : archs) {
    known += (known.empty() ? "" : ", ") + guest.arch;
    if (guest.arch != spec_.arch) continue;
    spec_.kvm = guest.how == "kvm";
    limits_ = arguments_.park.empty() ? own_limits() : Limits{arguments_.mem, arguments_.cpus};
    spec_.cpus = guest.cpus_max > 0 ? std::min(limits_.cpus, static_cast<std::uint32_t>(guest.cpus_max)) : limits_.cpus;
    return {};
  }
  return Error(Code::kUnsupported,
               arguments_.uri + " runs no " + spec_.arch + " guests; it runs " + (known.empty() ? "none at all" : known));
}

Result<> RunningGuest::files(const std::string& archive) {
  if (!arguments_.kernel.empty()) {
    spec_.kernel = arguments_.scratch + "/kernel";
    const File kernel = BOURSE_TRY(open_as(arguments_, arguments_.kernel, kImageMax, "kernel"));
    BOURSE_TRY(copy(kernel, spec_.kernel, {}));
    spec_.command_line = kernel_words(spec_.arch, arguments_);
  }
  if (!arguments_.initrd.empty()) {
    spec_.initrd = arguments_.scratch + "/initrd";
    const File initrd = BOURSE_TRY(open_as(arguments_, arguments_.initrd, kImageMax, "initramfs"));
    BOURSE_TRY(copy(initrd, spec_.initrd, archive));
  } else {
    spec_.task_disk = arguments_.scratch + "/task";
    BOURSE_TRY(write_new(spec_.task_disk, archive));
  }
  if (!arguments_.disk.empty()) {
    const DiskShape shape = BOURSE_TRY(check_disk(arguments_, arguments_.disk));
    spec_.disk = arguments_.disk;
    spec_.disk_format = shape.qcow2 ? "qcow2" : "raw";
    spec_.disk_layer = arguments_.scratch + "/disk";
    auto layer = overlay_file(spec_.disk, shape);
    if (!layer) return std::move(layer).error().add("disk " + spec_.disk);
    BOURSE_TRY(write_new(spec_.disk_layer, *layer));
  }
  return {};
}

Result<> RunningGuest::create() {
  spec_.name = domain_name(getpid());
  const Bytes slice = limits_.mem.value > 0 ? limits_.mem : kDefaultMemory;
  for (const bool kvm : {true, false}) {
    if (kvm && !spec_.kvm) continue;
    spec_.kvm = kvm;
    spec_.mem = BOURSE_TRY(guest_memory(slice, kvm));
    domain_ = api_.create(connection_, domain_xml(spec_).c_str(), VIR_DOMAIN_START_PAUSED);
    if (domain_ != nullptr) return {};
    // What libvirt takes for usable, the kernel, the file's mode or a hypervisor around us may refuse: it runs, slower.
    if (!kvm) return Error(Code::kIo, arguments_.uri + " does not start the guest: " + api_.why());
  }
  return {};
}

Result<> RunningGuest::take_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT}) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) return errno_error("signalfd");
  return {};
}

Result<> RunningGuest::open_console(const std::string& path) {
  console_ = path.empty() ? -1 : open(path.c_str(), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (console_ < 0) return errno_error("open the guest's console " + path);
  struct termios raw {};
  if (tcgetattr(console_, &raw) == 0) {
    cfmakeraw(&raw);
    tcsetattr(console_, TCSANOW, &raw);
  }
  console_path_ = path;
  return {};
}

Result<> RunningGuest::start(char** env) {
  BOURSE_TRY(take_signals());  // from here on they are for the guest
  const GuestTask task = BOURSE_TRY(task_of(arguments_, env));
  return make(guest_archive(task));
}

Result<> RunningGuest::make(const std::string& archive) {
  BOURSE_TRY(check_libvirt_uri(arguments_.uri));
  api_ = BOURSE_TRY(Libvirt::open());
  connection_ = api_.connect(arguments_.uri.c_str());
  if (connection_ == nullptr) return Error(Code::kIo, "cannot connect to " + arguments_.uri + ": " + api_.why());
  BOURSE_TRY(choose());
  BOURSE_TRY(files(archive));
  BOURSE_TRY(create());
  hooks::crash_point("microvm.after_create");
  emulator_ = find_emulator(spec_.name);
  emulator_fd_ = emulator_ > 0 ? static_cast<int>(syscall(SYS_pidfd_open, emulator_, 0)) : -1;
  if (emulator_fd_ < 0)
    return Error(Code::kGone, "the guest's emulator cannot be found on this host; is " + arguments_.uri + " its own?");
  if (auto joined = join_own_groups(emulator_); !joined) return std::move(joined).error().add("put the emulator into its slice");
  hooks::crash_point("microvm.in_slice");
  char* description = api_.description(domain_, 0);
  const std::string path = description == nullptr ? "" : console_path(description);
  free(description);
  BOURSE_TRY(open_console(path));
  if (api_.resume(domain_) != 0) return Error(Code::kIo, "the guest does not start to run: " + api_.why());
  started_ = true;
  // Not needed any more, and must not keep libvirt's daemon from a restart.
  api_.release(std::exchange(domain_, nullptr));
  api_.disconnect(std::exchange(connection_, nullptr));
  return {};
}

Result<bool> RunningGuest::boot_ahead(int input) {
  if (arguments_.kernel.empty() || arguments_.initrd.empty())
    return Error(Code::kInvalid, "only a guest with a kernel and an initramfs can wait for a task");
  signal(SIGPIPE, SIG_IGN);
  to_ = STDERR_FILENO;
  BOURSE_TRY(make(waiting_archive()));
  output_.expect(kReadyWord);
  while (output_.expects()) {
    pollfd fds[3] = {{input, POLLIN, 0}, {console_, POLLIN, 0}, {emulator_fd_, POLLIN, 0}};
    if (poll(fds, 3, -1) < 0) continue;
    char byte = 0;
    if (fds[0].revents != 0 && read(input, &byte, 1) <= 0) return false;
    if (fds[1].revents != 0) read_console();
    if (fds[2].revents != 0 && output_.expects())
      return Error(Code::kGone, "the guest ended before it could wait for a task; it needs a shell, stty and dd in its image");
  }
  // The emulator has read them.
  unlink(spec_.kernel.c_str());
  unlink(spec_.initrd.c_str());
  return true;
}

// PID MEMORY CORES KVM CONSOLE
std::string RunningGuest::place() const {
  return std::to_string(emulator_) + " " + std::to_string(spec_.mem.value) + " " + std::to_string(arguments_.cpus) + " " +
         (spec_.kvm ? "1 " : "0 ") + console_path_;
}

void RunningGuest::let_go_console() {
  if (console_ >= 0) close(console_);
  console_ = -1;
}

Result<> RunningGuest::find(const std::string& place) {
  const auto words = words_of(place);
  const auto number = [&](std::size_t at) { return whole_number(words.at(at)).value_or(-1); };
  if (words.size() != 5) return Error(Code::kInvalid, "it says `" + place + "'");
  limits_ = own_limits();
  const Bytes slice = limits_.mem.value > 0 ? limits_.mem : kDefaultMemory;
  spec_.mem = BOURSE_TRY(guest_memory(slice, number(3) != 0));
  if (number(1) != spec_.mem.value || number(2) != static_cast<std::int64_t>(limits_.cpus))
    return Error(Code::kInvalid, "it is of another size");
  emulator_ = static_cast<pid_t>(number(0));
  emulator_fd_ = static_cast<int>(syscall(SYS_pidfd_open, emulator_, 0));
  if (emulator_fd_ < 0) return errno_error("its emulator");
  // Before its holder closes it: the emulator looks only once a second whether somebody is there again.
  BOURSE_TRY(open_console(words[4]));
  return take_signals();
}

Result<> RunningGuest::take(const GuestTask& task) {
  started_ = true;
  hooks::crash_point("microvm.claimed");
  if (auto joined = join_own_groups(emulator_); !joined) return std::move(joined).error().add("put the emulator into its slice");
  output_.expect(kTakenWord);
  return say(claim_text(task));
}

// As fast as the guest takes it.
Result<> RunningGuest::say(std::string_view bytes) {
  constexpr int kSayMs = 30'000;
  while (!bytes.empty()) {
    const ssize_t n = write(console_, bytes.data(), bytes.size());
    if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
    if (n < 0 && errno != EAGAIN && errno != EINTR) return errno_error("tell the guest its task");
    if (n >= 0) continue;
    pollfd fds[2] = {{console_, POLLOUT, 0}, {emulator_fd_, POLLIN, 0}};
    if (poll(fds, 2, kSayMs) == 0) return Error(Code::kTimeout, "the guest does not take its task");
    if (fds[1].revents != 0) return Error(Code::kGone, "the guest ended before it had its task");
  }
  return {};
}

void RunningGuest::forward(int signal) {
  const std::string line = kEscape + std::string(kSignalWord) + std::to_string(signal) + "\n";
  (void)write_all(console_, line);
}

bool RunningGuest::read_console() {
  char buffer[16 * 1024];
  const ssize_t n = read(console_, buffer, sizeof buffer);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (n <= 0) return false;
  // Output that cannot be written (a full disk) must not keep the guest from ending.
  (void)write_all(to_, output_.feed({buffer, static_cast<std::size_t>(n)}));
  return true;
}

int RunningGuest::wait() {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> until;
  for (bool open = true;;) {
    std::array<pollfd, 3> fds{
        {{console_, static_cast<short>(open ? POLLIN : 0), 0}, {emulator_fd_, POLLIN, 0}, {signals_, POLLIN, 0}}};
    if (!open) fds[0].fd = -1;
    int timeout = -1;
    if (until) {
      timeout = static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(*until - Clock::now()).count());
      if (timeout <= 0) break;
    }
    if (poll(fds.data(), fds.size(), timeout) < 0 && errno != EINTR) break;
    if (fds[2].revents != 0) {
      signalfd_siginfo info{};
      if (read(signals_, &info, sizeof info) == sizeof info) forward(static_cast<int>(info.ssi_signo));
    }
    if (fds[0].revents != 0) open = read_console();
    if (output_.exit_code() && !until) until = Clock::now() + std::chrono::milliseconds(kGoneMs);
    if (fds[1].revents == 0) continue;
    while (open && console_ >= 0) {  // what it wrote last
      pollfd last{console_, POLLIN, 0};
      if (poll(&last, 1, 0) <= 0 || (last.revents & POLLIN) == 0) break;
      open = read_console();
    }
    started_ = false;
    break;
  }
  (void)write_all(to_, output_.rest());
  if (output_.exit_code()) return *output_.exit_code();
  std::fprintf(
      stderr,
      "bourse-microvm: the guest ended and has told no exit status: it crashed, was powered off or had too little memory (%s); "
      "what its console said is in the output\n",
      format_size(spec_.mem).c_str());
  return kFailed;
}

}  // namespace bourse::microvm
