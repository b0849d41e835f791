/* calls: what some system calls for the administration of the host answer, none of which can do anything. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/swap.h>

int main(void) {
  printf("swapoff: %s\n", swapoff("/no/such/swap") == 0 ? "done" : strerror(errno));
  printf("umount: %s\n", umount("/no/such/mount") == 0 ? "done" : strerror(errno));
  return 0;
}
