/* An OpenCL driver that dies of SIGSEGV as soon as somebody wants to know of its platforms. */
#include <stddef.h>

__attribute__((visibility("default"))) void* clGetExtensionFunctionAddress(const char* name);
void* clGetExtensionFunctionAddress(const char* name) {
  volatile int* nothing = NULL;
  (void)name;
  *nothing = 1;
  return NULL;
}
