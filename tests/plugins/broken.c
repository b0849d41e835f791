/* Plugins with one fault each, chosen with -D: what the loader, the host and `bourse plugin check` must refuse or survive.
 * Without any it is a good policy, that ranks by handle and scores everything alike. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bourse/plugin.h"

struct bourse_policy {
  int64_t units[1024];
  uint32_t at;
};

static int create(const bourse_host* host, const bourse_param* params, uint32_t count, bourse_policy** policy, char* error,
                  uint32_t capacity) {
  (void)host, (void)params, (void)count;
#ifdef CREATE_FAILS
  strncpy(error, "no luck today", capacity - 1);
  return BOURSE_FAILED;
#else
  (void)error, (void)capacity;
  *policy = calloc(1, sizeof **policy);
  return *policy ? 0 : BOURSE_FAILED;
#endif
}
static void destroy(bourse_policy* p) { free(p); }
static void kinds(bourse_policy* p, const bourse_kind* k, uint32_t n) { (void)p, (void)k, (void)n; }
static void total(bourse_policy* p, const int64_t* t, uint32_t n) { (void)p, (void)t, (void)n; }
static void account(bourse_policy* p, const bourse_account* a) { (void)p, (void)a; }
static void account_used(bourse_policy* p, uint32_t a, const int64_t* u, uint32_t n) { (void)p, (void)a, (void)u, (void)n; }
static void removed(bourse_policy* p, uint32_t h) { (void)p, (void)h; }
static void claimant(bourse_policy* p, const bourse_claimant* c) {
  if (c->handle < 1024) p->units[c->handle] = (int64_t)c->units;
}
static void claimant_used(bourse_policy* p, uint32_t h, const int64_t* u, uint32_t n) { (void)p, (void)h, (void)u, (void)n; }
static void claimant_units(bourse_policy* p, uint32_t h, uint64_t n) {
  if (h < 1024) p->units[h] = (int64_t)n;
}
static void claimant_removed(bourse_policy* p, uint32_t h) {
  if (h < 1024) p->units[h] = 0;
}
static void agent(bourse_policy* p, const bourse_agent* a) { (void)p, (void)a; }

static int ascending(const void* a, const void* b) {
  const uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return x < y ? -1 : x > y;
}
static void rank(bourse_policy* p, int64_t now, uint32_t on, uint32_t* c, uint32_t n) {
  (void)p, (void)now, (void)on;
#ifdef RANK_TWICE
  for (uint32_t i = 0; i < n; ++i) c[i] = c[0];
#else
  qsort(c, n, sizeof *c, ascending);
#endif
}
static void begin(bourse_policy* p, int64_t now, uint32_t on) {
  (void)now, (void)on;
  p->at = 0;
}
static void fail(void) {
#ifdef CRASHES
  *(volatile int*)0 = 1;
#endif
#ifdef LOOPS
  for (volatile int i = 0;; ++i) {}
#endif
}
static int next(bourse_policy* p, uint32_t* c) {
  fail();
#ifdef SLOW
  struct timespec pause = {0, 300000000};
  nanosleep(&pause, NULL);
#endif
#ifdef ENDLESS
  *c = 0;
  return BOURSE_NEXT;
#endif
#ifdef STRANGER
  *c = 1000000;
  return BOURSE_NEXT;
#endif
#ifdef RANDOM
  static uint32_t salt;
  if ((++salt * 2654435761u >> 13) % 7 == 0) return BOURSE_NEXT_END;
#endif
  while (p->at < 1024) {
    if (p->units[p->at] > 0) {
      *c = p->at++;
      return BOURSE_NEXT;
    }
    ++p->at;
  }
  return BOURSE_NEXT_END;
}
static void score(bourse_policy* p, const bourse_placement* w, const uint32_t* agents, uint32_t n, bourse_score* s) {
  (void)p, (void)w, (void)agents;
  fail();
  for (uint32_t i = 0; i < n; ++i) {
    s[i].score = 0.5;
#ifdef NAN_SCORE
    volatile double zero = 0;
    s[i].score = zero / zero;
#endif
#ifdef FAR_SCORE
    s[i].score = 1e30;
#endif
#ifdef BAD_DEVICE
    s[i].device = 70000;
#endif
  }
}
static void feedback(bourse_policy* p, const bourse_feedback* f) { (void)p, (void)f; }
static int64_t save(bourse_policy* p, void* buffer, uint64_t capacity) {
#ifdef BIG_STATE
  (void)p, (void)buffer, (void)capacity;
  return (int64_t)BOURSE_STATE_MAX + 1;
#else
  (void)p;
  if (capacity >= 4) memcpy(buffer, "good", 4);
  return 4;
#endif
}
static int load(bourse_policy* p, const void* state, uint64_t bytes) {
  (void)p;
  return bytes == 4 && memcmp(state, "good", 4) == 0 ? 0 : BOURSE_FAILED;
}

static const bourse_policy_1 policy = {
#ifdef SHORT_INTERFACE
    16,
#else
    sizeof(bourse_policy_1),
#endif
    BOURSE_WANTS_AGENTS | BOURSE_WANTS_USED | BOURSE_WANTS_FEEDBACK,
    create,
    destroy,
    kinds,
    total,
    account,
    account_used,
    removed,
    claimant,
    claimant_used,
    claimant_units,
#ifdef NULL_FUNCTION
    NULL,
#else
    claimant_removed,
#endif
    agent,
    removed,
    rank,
    begin,
    next,
    score,
    feedback,
    save,
    load};

static const void* get(const char* id) {
#ifdef NO_INTERFACE
  (void)id;
  (void)policy;
  return NULL;
#else
  return strcmp(id, BOURSE_POLICY_1) == 0 ? &policy : NULL;
#endif
}

static int init(const bourse_host* host) {
#ifdef INIT_FAILS
  (void)host;
  return 7;
#else
  const bourse_log_1* log = host->get(host, BOURSE_LOG_1);
  if (log) log->write(host, BOURSE_LOG_INFO, "here I am");
  return host->get(host, "bourse.no-such-thing/1") == NULL ? 0 : BOURSE_FAILED;
#endif
}

#ifndef NO_SYMBOL
const bourse_plugin bourse_plugin_entry = {
#ifdef SHORT_SIZE
    8,
#else
    sizeof(bourse_plugin),
#endif
#ifdef WRONG_ABI
    BOURSE_PLUGIN_ABI_MAJOR + 1,
#else
    BOURSE_PLUGIN_ABI_MAJOR,
#endif
    BOURSE_PLUGIN_ABI_MINOR,
#ifdef OTHER_KIND
    "probe",
#elif defined NO_KIND
    NULL,
#else
    "policy",
#endif
#ifdef BAD_NAME
    "Bad Name\n",
#else
    "broken",
#endif
    "1.0",
    init,
    NULL,
#ifdef NO_GET
    NULL
#else
    get
#endif
};
#endif
