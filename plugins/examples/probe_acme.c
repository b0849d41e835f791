/* A probe for a card nobody has heard of. Its driver makes /sys/class/acme/acmeN with the files `serial`, `memory_mib` and `state`, and
 * /dev/acmeN. Compile as a shared object, name it in agent.probe_plugins, and the agent reports devices of kind npu/acme, shared by
 * memory and by lanes. */
#include <bourse/plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_line(const char* root, int card, const char* file, char* line, int size) {
  char path[512];
  FILE* in;
  snprintf(path, sizeof path, "%s/sys/class/acme/acme%d/%s", root, card, file);
  in = fopen(path, "r");
  if (in == NULL) return -1;
  if (fgets(line, size, in) == NULL) line[0] = 0;
  line[strcspn(line, "\n")] = 0;
  fclose(in);
  return 0;
}

static int look(const bourse_host* host, const char* root, const bourse_findings_1* found, char* error, uint32_t capacity) {
  int card;
  (void)host;
  for (card = 0; card < 64; ++card) {
    bourse_found_device device = {sizeof device, BOURSE_SHARE_COUNTERS, NULL, "npu/acme", "Acme", "Lane 8", NULL, -1, NULL, NULL};
    char serial[64], memory[64], state[64], id[80], node[32], number[16], source[64];
    if (read_line(root, card, "serial", serial, sizeof serial) != 0) continue;
    snprintf(id, sizeof id, "acme-%s", serial);
    snprintf(node, sizeof node, "/dev/acme%d", card);
    snprintf(number, sizeof number, "%d", card);
    snprintf(source, sizeof source, "/sys/class/acme/acme%d", card);
    if (read_line(root, card, "memory_mib", memory, sizeof memory) != 0) {
      snprintf(error, capacity, "%s has no memory_mib: is the driver older than 2.0?", source);
      return BOURSE_FAILED;
    }
    device.id = id;
    device.source = source;
    if (read_line(root, card, "state", state, sizeof state) == 0 && strcmp(state, "ok") != 0) device.unhealthy = state;
    found->device(found, &device);
    found->counter(found, id, "mem", strtoll(memory, NULL, 10));
    found->counter(found, id, "lanes", 8);
    found->node(found, id, node);
    found->variable(found, id, "ACME_VISIBLE_DEVICES", number);
  }
  return 0;
}

static const bourse_probe_1 probe = {sizeof probe, look};
static const void* get(const char* id) { return strcmp(id, BOURSE_PROBE_1) == 0 ? &probe : NULL; }
const bourse_plugin bourse_plugin_entry = {
    sizeof(bourse_plugin), BOURSE_PLUGIN_ABI_MAJOR, BOURSE_PLUGIN_ABI_MINOR, "probe", "acme", "1.0", NULL, NULL, get};
