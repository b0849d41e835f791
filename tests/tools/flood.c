/* flood: what nobody of ours does to a master, over real sockets, as a ZeroMQ DEALER without keys (ZMTP 3.0, RFC 23).
 *
 *   flood PORT junk N CONNECTIONS    N frames that are no messages: random, cut short, flipped, of no length; as fast as they are taken
 *   flood PORT repeat N FILE         N times the frame in FILE
 *   flood PORT idle N                N connections that shake hands and then say nothing, until standard input ends
 *   flood PORT slow N                N connections that send their greeting a byte a second, until standard input ends
 *   flood PORT huge N                N frames that say they are 1 GiB long, each on a connection of its own
 *
 * Prints one line: what was sent, how often the other side closed a connection, seconds. Frames are not read back. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FRAME_MAX = 600, GREETING = 64 };

static uint64_t state = 88172645463325252ULL;
static uint64_t next(void) { /* xorshift64, Marsaglia 2003 */
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int dial(int port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct timeval limit = {.tv_sec = 20};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  if (fd < 0) return -1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (connect(fd, (struct sockaddr*)&to, sizeof to) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

static int put(int fd, const void* data, size_t size) {
  const char* at = data;
  while (size > 0) {
    ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return -1;
    at += n, size -= (size_t)n;
  }
  return 0;
}

static int take(int fd, size_t size) {
  char data[256];
  while (size > 0) {
    ssize_t n = recv(fd, data, size < sizeof data ? size : sizeof data, 0);
    if (n <= 0) return -1;
    size -= (size_t)n;
  }
  return 0;
}

static void greeting(unsigned char out[GREETING]) {
  memset(out, 0, GREETING);
  out[0] = 0xff, out[9] = 0x7f, out[10] = 3;
  memcpy(out + 12, "NULL", 4);
}

static int shake(int port) {
  static const char ready[] =
      "\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06"
      "DEALER";
  unsigned char hello[GREETING], head[2];
  int fd = dial(port);
  if (fd < 0) return -1;
  greeting(hello);
  if (put(fd, hello, sizeof hello) == 0 && take(fd, GREETING) == 0 && put(fd, ready, sizeof ready - 1) == 0 &&
      recv(fd, head, 2, MSG_WAITALL) == 2 && take(fd, head[1]) == 0)
    return fd;
  close(fd);
  return -1;
}

/* One frame: its flags and length, then bytes that are no message. A fifth each: random; nothing; a message's mark and then random; the
 * mark, and offsets that point far away; a long one of one byte. */
static size_t junk(unsigned char* out) {
  size_t size = next() % 200;
  unsigned char* body = out + 9;
  const uint64_t kind = next() % 5;
  for (size_t i = 0; i < size; ++i) body[i] = (unsigned char)next();
  if (kind == 1) size = 0;
  if (kind >= 2 && size < 16) size = 16;
  if (kind == 2 || kind == 3) memcpy(body + 4, "BRSE", 4);
  if (kind == 3) memset(body, 0xff, 4);
  if (kind == 4) memset(body, (int)(next() & 255), size = 500);
  out[0] = 2; /* a long frame, the last of its message */
  for (int i = 0; i < 8; ++i) out[1 + i] = (unsigned char)((uint64_t)size >> (56 - 8 * i));
  return 9 + size;
}

static size_t from_file(unsigned char* out, const char* path) {
  FILE* file = fopen(path, "rb");
  size_t size = file ? fread(out + 9, 1, FRAME_MAX - 9, file) : 0;
  if (file) fclose(file);
  out[0] = 2;
  for (int i = 0; i < 8; ++i) out[1 + i] = (unsigned char)((uint64_t)size >> (56 - 8 * i));
  return 9 + size;
}

static long frames(int port, long count, int connections, const char* path, long* closed) {
  enum { BUFFER = 64 * 1024 };
  static unsigned char buffer[BUFFER + FRAME_MAX], one[FRAME_MAX];
  const size_t fixed = path ? from_file(one, path) : 0;
  int* fds = malloc(sizeof(int) * (size_t)connections);
  long sent = 0;
  for (int i = 0; i < connections; ++i) fds[i] = -1;
  for (int at = 0; sent < count; at = (at + 1) % connections) {
    size_t size = 0;
    long in_buffer = 0;
    if (fds[at] < 0 && (fds[at] = shake(port)) < 0) {
      if (++*closed > 100000) break;
      usleep(1000);
      continue;
    }
    while (size < BUFFER && sent + in_buffer < count) {
      if (path)
        memcpy(buffer + size, one, fixed), size += fixed;
      else
        size += junk(buffer + size);
      ++in_buffer;
    }
    if (put(fds[at], buffer, size) == 0) {
      sent += in_buffer;
    } else {
      close(fds[at]);
      fds[at] = -1;
      ++*closed;
    }
  }
  for (int i = 0; i < connections; ++i)
    if (fds[i] >= 0) close(fds[i]);
  free(fds);
  return sent;
}

static void wait_for_the_end(void) {
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {}
}

static long hold(int port, long count, long* closed) {
  long open_now = 0;
  for (long i = 0; i < count; ++i) {
    if (shake(port) >= 0)
      ++open_now;
    else
      ++*closed;
  }
  printf("%ld connections are open\n", open_now);
  fflush(stdout);
  wait_for_the_end();
  return open_now;
}

static long trickle(int port, long count, long* closed) {
  int* fds = malloc(sizeof(int) * (size_t)count);
  unsigned char hello[GREETING];
  long sent = 0;
  greeting(hello);
  for (long i = 0; i < count; ++i) fds[i] = dial(port);
  printf("%ld connections are open\n", count);
  fflush(stdout);
  for (int at = 0;; at = (at + 1) % GREETING) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&in, 1, 1000) > 0) break;
    for (long i = 0; i < count; ++i) {
      if (fds[i] >= 0 && send(fds[i], hello + at, 1, MSG_NOSIGNAL) == 1) {
        ++sent;
      } else {
        if (fds[i] >= 0) close(fds[i]);
        ++*closed;
        fds[i] = dial(port);
      }
    }
  }
  free(fds);
  return sent;
}

static long huge(int port, long count, long* closed) {
  static const unsigned char head[9] = {2, 0, 0, 0, 0, 0x40, 0, 0, 0}; /* 1 GiB */
  static unsigned char body[1024 * 1024];
  long sent = 0;
  for (long i = 0; i < count; ++i) {
    int fd = shake(port);
    if (fd < 0) continue;
    int gone = put(fd, head, sizeof head) != 0;
    for (int part = 0; part < 64 && !gone; ++part) gone = put(fd, body, sizeof body) != 0;
    *closed += gone;
    ++sent;
    close(fd);
  }
  return sent;
}

int main(int argc, char** argv) {
  struct rlimit files;
  long closed = 0, sent = 0;
  const double start = now();
  if (argc < 4) {
    fprintf(stderr, "usage: flood PORT junk N CONNECTIONS | repeat N FILE | idle N | slow N | huge N\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const int port = atoi(argv[1]);
  const long n = atol(argv[3]);
  if (strcmp(argv[2], "junk") == 0) sent = frames(port, n, argc > 4 ? atoi(argv[4]) : 1, NULL, &closed);
  if (strcmp(argv[2], "repeat") == 0) sent = frames(port, n, 1, argc > 4 ? argv[4] : "/dev/null", &closed);
  if (strcmp(argv[2], "idle") == 0) sent = hold(port, n, &closed);
  if (strcmp(argv[2], "slow") == 0) sent = trickle(port, n, &closed);
  if (strcmp(argv[2], "huge") == 0) sent = huge(port, n, &closed);
  printf("sent %ld closed %ld seconds %.2f\n", sent, closed, now() - start);
  return 0;
}
