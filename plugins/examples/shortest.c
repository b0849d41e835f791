/* shortest: the job that is planned to be shortest goes first. A whole policy; bourse-policy(7) explains it line by line. */
#include <stdlib.h>
#include <string.h>

#include "bourse/plugin.h"

struct bourse_policy {
  struct {
    int64_t limit;
    uint64_t order;
  } * jobs; /* by handle */
  uint32_t room;
};

static int create(const bourse_host* host, const bourse_param* params, uint32_t count, bourse_policy** policy, char* error,
                  uint32_t capacity) {
  (void)host, (void)params;
  strncpy(error, count > 0 ? "there are no parameters" : "out of memory", capacity - 1);
  return count > 0 || (*policy = calloc(1, sizeof **policy)) == NULL ? BOURSE_FAILED : 0;
}

static void destroy(bourse_policy* p) {
  free(p->jobs);
  free(p);
}

static void claimant(bourse_policy* p, const bourse_claimant* c) {
  if (c->handle >= p->room) { /* handles are dense, so an array by handle stays small */
    p->room = 2 * c->handle + 16;
    p->jobs = realloc(p->jobs, p->room * sizeof *p->jobs);
    if (p->jobs == NULL) abort();
  }
  p->jobs[c->handle].limit = c->limit_us;
  p->jobs[c->handle].order = c->order;
}

static int before(const bourse_policy* p, uint32_t a, uint32_t b) {
  if (p->jobs[a].limit != p->jobs[b].limit) return p->jobs[a].limit < p->jobs[b].limit;
  if (p->jobs[a].order != p->jobs[b].order) return p->jobs[a].order < p->jobs[b].order;
  return a < b; /* a tie must always fall the same way */
}

static void rank(bourse_policy* p, int64_t now, uint32_t agent, uint32_t* c, uint32_t count) {
  (void)now, (void)agent;
  for (uint32_t gap = count / 2; gap > 0; gap /= 2) /* shell sort: the C library's has no room for p */
    for (uint32_t i = gap; i < count; ++i) {
      uint32_t x = c[i], j = i;
      for (; j >= gap && before(p, x, c[j - gap]); j -= gap) c[j] = c[j - gap];
      c[j] = x;
    }
}

/* What this policy need not know. */
static void kinds(bourse_policy* p, const bourse_kind* k, uint32_t n) { (void)p, (void)k, (void)n; }
static void total(bourse_policy* p, const int64_t* t, uint32_t n) { (void)p, (void)t, (void)n; }
static void account(bourse_policy* p, const bourse_account* a) { (void)p, (void)a; }
static void used(bourse_policy* p, uint32_t h, const int64_t* u, uint32_t n) { (void)p, (void)h, (void)u, (void)n; }
static void removed(bourse_policy* p, uint32_t h) { (void)p, (void)h; }
static void units(bourse_policy* p, uint32_t h, uint64_t n) { (void)p, (void)h, (void)n; }

static const bourse_policy_1 policy = {.size = sizeof policy,
                                       .create = create,
                                       .destroy = destroy,
                                       .kinds = kinds,
                                       .total = total,
                                       .account = account,
                                       .account_used = used,
                                       .account_removed = removed,
                                       .claimant = claimant,
                                       .claimant_used = used,
                                       .claimant_units = units,
                                       .claimant_removed = removed,
                                       .rank = rank};

static const void* get(const char* id) { return strcmp(id, BOURSE_POLICY_1) == 0 ? &policy : NULL; }

const bourse_plugin bourse_plugin_entry = {
    sizeof(bourse_plugin), BOURSE_PLUGIN_ABI_MAJOR, BOURSE_PLUGIN_ABI_MINOR, "policy", "shortest", "1.0", NULL, NULL, get};
