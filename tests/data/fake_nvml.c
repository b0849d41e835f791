/* A library with the functions of NVML that the probe uses. BOURSE_FAKE_NVML says what it does: cards, mig, crash, hang, not_loaded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct memory {
  unsigned long long total, free, used;
};
struct pci {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem;
  char address[32];
};

static const char* how(void) {
  const char* value = getenv("BOURSE_FAKE_NVML");
  return value ? value : "cards";
}
static int mig(void) { return !strcmp(how(), "mig"); }

/* Handles: 1 and 2 are cards, 11 and 12 instances. */
static long number(void* handle) { return (long)handle; }

int nvmlInit_v2(void) {
  if (!strcmp(how(), "crash")) {
    fprintf(stderr, "fake nvml: about to crash\n");
    *(volatile int*)8 = 1;
  }
  if (!strcmp(how(), "hang"))
    for (;;) pause();
  return !strcmp(how(), "not_loaded") ? 9 : 0;
}
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) { return snprintf(text, size, "535.104.05") < 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = mig() ? 1 : 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  *handle = (void*)(long)(index + 1);
  return 0;
}
int nvmlDeviceGetUUID(void* handle, char* text, unsigned size) {
  const char* uuid =
      mig() ? "GPU-63feeb45-94c6-b9cb-78ea-98e9b7a5be6b"
            : (number(handle) == 1 ? "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77" : "GPU-0aa65a0f-d09c-be29-28a7-5c7b8a3b5d31");
  return snprintf(text, size, "%s", uuid) < 0;
}
int nvmlDeviceGetName(void* handle, char* text, unsigned size) {
  return snprintf(text, size, "NVIDIA A100-SXM4-40GB%s", number(handle) > 10 ? " MIG 3g.20gb" : "") < 0;
}
int nvmlDeviceGetMemoryInfo(void* handle, struct memory* memory) {
  memory->total = (number(handle) > 10 ? 19968ULL : 40536ULL) << 20;
  memory->free = memory->total;
  memory->used = 0;
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* handle, struct pci* pci) {
  memset(pci, 0, sizeof *pci);
  pci->bus = mig() ? 0x07 : (number(handle) == 1 ? 0x3b : 0xaf);
  return 0;
}
int nvmlDeviceGetMigMode(void* handle, unsigned* current, unsigned* pending) {
  (void)handle;
  *current = *pending = (unsigned)mig();
  return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void* handle, unsigned* count) {
  (void)handle;
  *count = 7;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void* handle, unsigned index, void** instance) {
  (void)handle;
  if (index > 1) return 6; /* not found */
  *instance = (void*)(long)(11 + index);
  return 0;
}
int nvmlDeviceGetGpuInstanceId(void* handle, unsigned* id) {
  *id = (unsigned)(number(handle) - 10);
  return 0;
}
int nvmlDeviceGetComputeInstanceId(void* handle, unsigned* id) {
  (void)handle;
  *id = 0;
  return 0;
}
