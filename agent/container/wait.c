/* bourse-wait: what stands in a warm container until a task claims it. Static, since it runs in whatever root the image has; see park.h.
 *
 * Descriptor 3 is one end of a socket of whole messages. It says "R", receives one message (struct claim, then texts that end in NUL: argv,
 * then the environment) with three descriptors that become 0, 1 and 2, and executes the program with the environment of the
 * task over that of the image and with the limits of the task. Anything else than a claim ends it. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHANNEL = 3, FAILED = 125, MESSAGE_MAX = 192 * 1024, WORDS_MAX = 32768 };
struct claim {
  uint32_t umask, argc, envc, unused;
  uint64_t limits[RLIM_NLIMITS][2]; /* soft, hard; where the hard one had to be raised, that has been done from outside */
};

extern char** environ;
static char message[MESSAGE_MAX];
static char* words[WORDS_MAX];
static char* merged[WORDS_MAX];

static int same_name(const char* a, const char* b) {
  while (*a && *a == *b && *a != '=') ++a, ++b;
  return *a == '=' && *b == '=';
}

/* What the task says comes first; but where the programs of the image are, the image knows better. */
static char** environment(char** task, uint32_t count) {
  uint32_t n = 0;
  int image_path = 0;
  for (char** each = environ; *each; ++each) image_path |= strncmp(*each, "PATH=", 5) == 0;
  for (uint32_t i = 0; i < count; ++i)
    if (!image_path || strncmp(task[i], "PATH=", 5) != 0) merged[n++] = task[i];
  for (char** each = environ; *each && n + 1 < WORDS_MAX; ++each) {
    int named = 0;
    for (uint32_t i = 0; i < count && !named; ++i) named = same_name(*each, task[i]);
    if (!named || strncmp(*each, "PATH=", 5) == 0) merged[n++] = *each;
  }
  merged[n] = NULL;
  return merged;
}

int main(void) {
  struct claim claim;
  char control[CMSG_SPACE(3 * sizeof(int))];
  struct iovec part = {message, sizeof message};
  struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  if (send(CHANNEL, "R", 1, 0) != 1) return FAILED;
  const ssize_t size = recvmsg(CHANNEL, &header, 0);
  struct cmsghdr* files = CMSG_FIRSTHDR(&header);
  if (size < (ssize_t)sizeof claim || !files || files->cmsg_type != SCM_RIGHTS || files->cmsg_len != CMSG_LEN(3 * sizeof(int)))
    return FAILED;
  memcpy(&claim, message, sizeof claim);
  if (message[size - 1] != '\0' || claim.argc == 0 || claim.argc >= WORDS_MAX || claim.envc >= WORDS_MAX - claim.argc - 2)
    return FAILED;
  char* at = message + sizeof claim;
  uint32_t n = 0;
  for (; n < claim.argc + claim.envc && at < message + size; ++n, at += strlen(at) + 1) words[n + (n >= claim.argc)] = at;
  if (n != claim.argc + claim.envc) return FAILED;
  int fds[3];
  memcpy(fds, CMSG_DATA(files), sizeof fds);
  for (int i = 0; i < 3; ++i) { /* moved away first: one may have the number of another */
    fds[i] = dup2(fds[i], 100 + i);
    if (fds[i] < 0) return FAILED;
  }
  for (int i = 0; i < 3; ++i) dup2(fds[i], i);
  for (int i = 3; i < 103; ++i) close(i);
  umask(claim.umask);
  for (int i = 0; i < RLIM_NLIMITS; ++i) {
    const struct rlimit limit = {claim.limits[i][0], claim.limits[i][1]};
    (void)setrlimit(i, &limit);
  }
  environ = environment(words + claim.argc + 1, claim.envc);
  execvp(words[0], words);
  fprintf(stderr, "bourse-container: exec %s: %s\n", words[0], strerror(errno));
  return errno == ENOENT ? 127 : 126;
}
