/* hog MIB [SECONDS]: touches so much memory, page by page, says "ready" and keeps it so long. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
  size_t size = (size_t)strtoul(argc > 1 ? argv[1] : "0", NULL, 10) << 20;
  volatile char* bytes = malloc(size + 1);
  if (!bytes) return 1;
  for (size_t i = 0; i < size; i += 4096) bytes[i] = 1;
  puts("ready");
  fflush(stdout);
  if (argc > 2) sleep((unsigned)strtoul(argv[2], NULL, 10));
  return 0;
}
