/* The baseline of every start rate: how fast this host vforks, executes and reaps a program, as many in flight as it has cores.
 *
 *   forkrate N [PROGRAM [ARG...]]     default /bin/true
 *
 * Prints one line: {"n":1000,"in_flight":2,"seconds":2.51,"rate":398.4,"cpu_ms":4.9}. cpu_ms is this process's and its children's
 * CPU time for each start. Static, so that its own pages are few. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_seconds(int who) {
  struct rusage u;
  getrusage(who, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char** argv) {
  static char* default_program[] = {"/bin/true", NULL};
  static char* no_environment[] = {NULL};
  const long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
  char** program = argc > 2 ? argv + 2 : default_program;
  if (n < 1) {
    fprintf(stderr, "usage: forkrate N [PROGRAM [ARG...]]\n");
    return 64;
  }
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  long started = 0, reaped = 0;
  const double begin = seconds_now();
  while (reaped < n) {
    while (started < n && started - reaped < cores) {
      const pid_t pid = vfork();
      if (pid == 0) {
        execve(program[0], program, no_environment);
        _exit(127);
      }
      if (pid < 0) {
        perror("vfork");
        return 1;
      }
      started++;
    }
    int status = 0;
    if (waitpid(-1, &status, 0) < 0) {
      if (errno == EINTR) continue;
      perror("waitpid");
      return 1;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
      fprintf(stderr, "forkrate: cannot execute %s\n", program[0]);
      return 1;
    }
    reaped++;
  }
  const double took = seconds_now() - begin;
  printf("{\"n\":%ld,\"in_flight\":%ld,\"seconds\":%.3f,\"rate\":%.1f,\"cpu_ms\":%.3f}\n", n, cores, took, (double)n / took,
         (cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN)) * 1e3 / (double)n);
  return 0;
}
