/* bourse-wait: what a warm container needs beside its runtime; see park.h. Static and small: it runs in whatever root the image has, and
 * what it costs is waited for.
 *
 *   bourse-wait                            process 1 of the container: says "R" on descriptor 3, takes in orphans, ends with the other side
 *   bourse-wait OPTIONS --warm SOCKET ...  the claimer: the options of bourse-container, which it becomes where nothing waits at SOCKET
 *
 * The claimer is in the task's cgroups already, with the task's limits, score, umask and files, and so is whatever it forks: nothing is
 * moved (that costs a grace period of the kernel for each group). It joins the namespaces of the container that waits, forks, and its
 * child does what a runtime would have done: session, keyring, groups, user, capabilities, no_new_privs, the filter of system calls. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHANNEL = 3, FAILED = 125, MESSAGE_MAX = 192 * 1024, WORDS_MAX = 32768, GROUPS_MAX = 65536 };
/* In SOCKET.free: who waits, started when (field 22 of its stat); then the filter's instructions. */
struct waiter {
  uint64_t started;
  int32_t pid;
  uint32_t instructions;
};

extern char** environ;
static char message[MESSAGE_MAX];
static char image_environment[MESSAGE_MAX];
static char* merged[WORDS_MAX];
static gid_t groups[GROUPS_MAX];
static pid_t inside;

static int wait_inside(void) {
  signal(SIGCHLD, SIG_IGN); /* orphans leave no zombies */
  if (send(CHANNEL, "R", 1, 0) != 1) return FAILED;
  while (recv(CHANNEL, message, 1, 0) < 0 && errno == EINTR) continue;
  return FAILED;
}

/* --- the claimer ---------------------------------------------------------------------------------------------------------- */

static int same_name(const char* a, const char* b) {
  while (*a && *a == *b && *a != '=') ++a, ++b;
  return *a == '=' && *b == '=';
}

/* What the task says comes first; but where the programs of the image are, the image knows better. The task's own are marked, see
 * kVariable in launcher/init.h; nothing else of ours is passed on. */
static int merge_environment(size_t image_size) {
  static const char mark[] = "task:";
  const size_t length = sizeof mark - 1;
  int image_path = 0;
  uint32_t n = 0;
  for (const char* each = image_environment; each < image_environment + image_size; each += strlen(each) + 1)
    image_path |= strncmp(each, "PATH=", 5) == 0;
  for (char** each = environ; *each; ++each) {
    if (n + 1 >= WORDS_MAX) return 0;
    if (strncmp(*each, mark, length) == 0 && !(image_path && strncmp(*each + length, "PATH=", 5) == 0))
      merged[n++] = *each + length;
  }
  const uint32_t of_task = n;
  for (char* each = image_environment; each < image_environment + image_size; each += strlen(each) + 1) {
    int named = 0;
    for (uint32_t i = 0; i < of_task && !named; ++i) named = same_name(each, merged[i]);
    if (named) continue;
    if (n + 1 >= WORDS_MAX) return 0;
    merged[n++] = each;
  }
  merged[n] = NULL;
  return 1;
}

static ssize_t read_all(const char* path, char* into, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t have = 0;
  ssize_t n = 0;
  while (have < size && (n = read(fd, into + have, size - have)) > 0) have += (size_t)n;
  close(fd);
  return n < 0 || have == size ? -1 : (ssize_t)have;
}

static void pass_on(int number) {
  if (inside > 0) kill(inside, number);
}

static void give_up(const char* what) {
  fprintf(stderr, "bourse-container: %s: %s\n", what, strerror(errno));
  _exit(FAILED);
}

struct plan {
  uid_t uid;
  gid_t gid;
  size_t group_count;
  uint64_t capabilities;
  int directory;
  struct sock_fprog filter;
  char** argv;
};

__attribute__((noreturn)) static void become_task(const struct plan* plan) {
  if (setsid() < 0) give_up("setsid");
  (void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL, 0, 0, 0); /* a kernel need not have keys */
  if (fchdir(plan->directory) != 0) give_up("its directory");
  for (unsigned long one = 0; one < 64; ++one) {
    if ((plan->capabilities >> one & 1) != 0 || prctl(PR_CAPBSET_DROP, one, 0, 0, 0) == 0) continue;
    if (errno == EINVAL) break; /* there are no more */
    give_up("capabilities");
  }
  if (setgroups(plan->group_count, groups) != 0 || setresgid(plan->gid, plan->gid, plan->gid) != 0) give_up("its groups");
  if (setresuid(plan->uid, plan->uid, plan->uid) != 0) give_up("its user");
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct sets[2] = {{0, 0, 0}, {0, 0, 0}};
  if (syscall(SYS_capget, &header, sets) != 0) give_up("capabilities");
  for (int half = 0; half < 2; ++half) {
    sets[half].permitted &= (uint32_t)(plan->capabilities >> (32 * half));
    sets[half].effective &= sets[half].permitted;
    sets[half].inheritable = 0;
  }
  if (syscall(SYS_capset, &header, sets) != 0) give_up("capabilities");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) give_up("no_new_privs");
  if (plan->filter.len > 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &plan->filter) != 0)
    give_up("the filter of system calls");
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  environ = merged;
  execvp(plan->argv[0], plan->argv);
  const int error = errno;
  fprintf(stderr, "bourse-container: exec %s: %s\n", plan->argv[0], strerror(error));
  _exit(error == ENOENT ? 127 : 126);
}

/* It is still the process that the holder meant: another one with its pid would have been started later. */
static int started_at(int32_t pid, uint64_t when) {
  static char text[4096];
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const ssize_t size = read_all(path, text, sizeof text - 1);
  if (size <= 0) return 0;
  text[size] = '\0';
  const char* at = strrchr(text, ')');
  for (int field = 2; at && field < 22; ++field) at = strchr(at + 1, ' ');
  return at && strtoull(at, NULL, 10) == when;
}

/* Returns where the task must start cold: nothing has happened yet. */
static void claim(const char* path, struct plan* plan) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  char free_path[sizeof address.sun_path + sizeof ".free"], of[64];
  if (strlen(path) >= sizeof address.sun_path) return;
  strcpy(address.sun_path, path);
  snprintf(free_path, sizeof free_path, "%s.free", path);
  const int peer = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (peer < 0 || connect(peer, (struct sockaddr*)&address, sizeof address) != 0) return;
  const ssize_t size = read_all(free_path, message, sizeof message);
  struct waiter waiter;
  if (size < (ssize_t)sizeof waiter) return;
  memcpy(&waiter, message, sizeof waiter);
  if (waiter.pid <= 0 || (size_t)size != sizeof waiter + waiter.instructions * sizeof(struct sock_filter)) return;
  plan->filter.len = (unsigned short)waiter.instructions;
  plan->filter.filter = (struct sock_filter*)(message + sizeof waiter);
  const int process = (int)syscall(SYS_pidfd_open, waiter.pid, 0);
  snprintf(of, sizeof of, "/proc/%d/environ", waiter.pid);
  const ssize_t image_size = read_all(of, image_environment, sizeof image_environment);
  snprintf(of, sizeof of, "/proc/%d/cwd", waiter.pid);
  plan->directory = open(of, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (process < 0 || image_size < 0 || plan->directory < 0 || !merge_environment((size_t)image_size)) return;
  if (!started_at(waiter.pid, waiter.started) || unlink(free_path) != 0 || send(peer, "C", 1, MSG_NOSIGNAL) != 1) return;
  if (setns(process, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET) != 0) return;
  close(process);

  static const int passed[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT, SIGWINCH};
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL); /* one that comes meanwhile is passed on afterwards */
  inside = fork();
  if (inside < 0) give_up("fork");
  if (inside == 0) become_task(plan);
  struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
  for (size_t i = 0; i < sizeof passed / sizeof *passed; ++i) sigaction(passed[i], &action, NULL);
  sigemptyset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  int status = 0;
  while (waitpid(inside, &status, 0) < 0)
    if (errno != EINTR) give_up("waitpid");
  /* The holder sees our end and takes down the container, with whatever the task has left in it. */
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static int claimer(int argc, char** argv) {
  struct plan plan = {.directory = -1};
  const char* socket_path = NULL;
  char** rest = calloc((size_t)argc + 1, sizeof *rest);
  int count = 0, i = 1, uid = 0, gid = 0;
  if (!rest) return FAILED;
  rest[count++] = argv[0];
  for (; i < argc && strcmp(argv[i], "--") != 0; ++i) {
    const int has_value = i + 1 < argc;
    if (has_value && strcmp(argv[i], "--warm") == 0) {
      socket_path = argv[++i];
      continue;
    }
    if (has_value && strcmp(argv[i], "--uid") == 0) plan.uid = (uid_t)strtoul(argv[i + 1], NULL, 10), uid = 1;
    if (has_value && strcmp(argv[i], "--gid") == 0) plan.gid = (gid_t)strtoul(argv[i + 1], NULL, 10), gid = 1;
    if (has_value && strcmp(argv[i], "--capabilities") == 0) plan.capabilities = strtoull(argv[i + 1], NULL, 10);
    if (has_value && strcmp(argv[i], "--groups") == 0) {
      for (char* at = argv[i + 1]; *at && plan.group_count < GROUPS_MAX; at += *at == ',')
        groups[plan.group_count++] = (gid_t)strtoul(at, &at, 10);
    }
    rest[count++] = argv[i];
  }
  if (plan.uid != 0) plan.capabilities = 0; /* only root keeps some */
  plan.argv = i < argc ? argv + i + 1 : argv + argc;
  for (; i < argc; ++i) rest[count++] = argv[i];
  rest[count] = NULL;
  if (socket_path && uid && gid && plan.argv[0]) claim(socket_path, &plan);
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof "bourse-container");
  if (length <= 0) give_up("/proc/self/exe");
  path[length] = '\0';
  strcpy(strrchr(path, '/') + 1, "bourse-container");
  rest[0] = path;
  execv(path, rest);
  give_up(path);
  return FAILED;
}

int main(int argc, char** argv) { return argc == 1 ? wait_inside() : claimer(argc, argv); }
