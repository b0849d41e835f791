/* The public header as C99 sees it: compiled with -std=c99 -Wpedantic, and driven from C by capi_test.cc. */
#include <bourse/framework.h>
#include <stddef.h>
#include <string.h>

int c99_codes_are_distinct_and_have_text(void);
int c99_builds_everything(void);
int c99_null_arguments(void);

int c99_codes_are_distinct_and_have_text(void) {
  static const int codes[] = {
#define NUMBER(name, number, text) number,
      BOURSE_CODES(NUMBER)
#undef NUMBER
  };
  size_t i, j, n = sizeof codes / sizeof codes[0];
  for (i = 0; i < n; ++i) {
    if (codes[i] > 0 || !*bourse_strerror(codes[i]) || strcmp(bourse_strerror(codes[i]), "unknown error") == 0) return 0;
    for (j = 0; j < i; ++j)
      if (codes[i] == codes[j] || strcmp(bourse_strerror(codes[i]), bourse_strerror(codes[j])) == 0) return 0;
  }
  return strcmp(bourse_strerror(-99), "unknown error") == 0 && strcmp(bourse_strerror(7), "unknown error") == 0;
}

/* Every builder call once with good and once with bad values. 0, or the line that failed. */
#define OK(x) \
  if ((x) != 0) return __LINE__
#define IS(code, x) \
  if ((x) != (code)) return __LINE__
int c99_builds_everything(void) {
  bourse_shape* shape = NULL;
  bourse_demand* demand = NULL;
  bourse_accept* accept = NULL;
  bourse_task_spec* spec = NULL;
  bourse_device_ask ask;
  bourse_placement rule;
  const char* fast = "ssd | nvme";
  char why[80];
  int i;
  const char* zones[2] = {"b", "a"};
  bourse_amount counter = {"mem", 1024}, negative = {"mem", -1};
  struct {
    bourse_device_ask ask;
    char later[16];
  } longer;

  OK(bourse_shape_new(&shape));
  OK(bourse_shape_cpus(shape, 2000));
  IS(BOURSE_E_INVALID, bourse_shape_cpus(shape, -1));
  OK(bourse_shape_memory(shape, 1));
  IS(BOURSE_E_INVALID, bourse_shape_memory(shape, -1));
  OK(bourse_shape_disk(shape, 1));
  IS(BOURSE_E_INVALID, bourse_shape_disk(shape, -1));
  OK(bourse_shape_ports(shape, 3));
  IS(BOURSE_E_INVALID, bourse_shape_ports(shape, 70000));
  OK(bourse_shape_amount(shape, "licences", 2));
  IS(BOURSE_E_INVALID, bourse_shape_amount(shape, "", 2));
  OK(bourse_shape_whole_host(shape, 0));
  OK(bourse_shape_same_numa(shape, 1));
  OK(bourse_shape_revocable(shape, 1));
  OK(bourse_shape_revocable(shape, 0));
  OK(bourse_shape_constraint(shape, "zone", BOURSE_IN, zones, 2));
  OK(bourse_shape_constraint(shape, "gpu", BOURSE_PRESENT, NULL, 0));
  IS(BOURSE_E_INVALID, bourse_shape_constraint(shape, "zone", BOURSE_IN, NULL, 0));
  IS(BOURSE_E_INVALID, bourse_shape_constraint(shape, "zone", 9, zones, 2));
  OK(bourse_shape_constraints(shape, "arch=x86_64"));
  IS(BOURSE_E_INVALID, bourse_shape_constraints(shape, "zone in ("));
  OK(bourse_shape_constraints(shape, "(cuda >= 11.8 | agent.mem >= 64GiB) & !old"));
  OK(bourse_shape_constraint(shape, "*", BOURSE_MATCHES, &fast, 1));
  IS(BOURSE_E_INVALID, bourse_shape_constraint(shape, "*", BOURSE_MATCHES, zones, 2));
  OK(bourse_constraint_check("a | b", why, sizeof why));
  if (why[0] != 0) return __LINE__;
  IS(BOURSE_E_INVALID, bourse_constraint_check("a | ", why, sizeof why));
  if (strstr(why, "column 5") == NULL) return __LINE__;
  IS(BOURSE_E_INVALID, bourse_constraint_check("a | ", why, 4));
  if (strlen(why) != 3) return __LINE__;
  IS(BOURSE_E_INVALID, bourse_constraint_check("a | ", NULL, 0));
  IS(BOURSE_E_INVALID, bourse_constraint_check("a", NULL, 1));

  OK(bourse_shape_group(shape, "web"));
  OK(bourse_shape_group(shape, NULL));
  IS(BOURSE_E_INVALID, bourse_shape_group(shape, "a b"));
  memset(&rule, 0, sizeof rule);
  IS(BOURSE_E_INVALID, bourse_shape_place(shape, &rule)); /* no size */
  rule.size = sizeof rule;
  IS(BOURSE_E_INVALID, bourse_shape_place(shape, &rule)); /* no label */
  rule.level = "zone";
  OK(bourse_shape_place(shape, &rule));
  rule.group = "db";
  IS(BOURSE_E_INVALID, bourse_shape_place(shape, &rule)); /* a spread is about its own group */
  rule.kind = BOURSE_ANTI_AFFINITY;
  rule.framework = "store";
  OK(bourse_shape_place(shape, &rule));
  rule.kind = 4;
  IS(BOURSE_E_INVALID, bourse_shape_place(shape, &rule));
  OK(bourse_shape_placement(shape, "prefer pack rack; spread host:2"));
  IS(BOURSE_E_INVALID, bourse_shape_placement(shape, "spread"));
  for (i = 0; i < 4; ++i) OK(bourse_shape_placement(shape, "pack rack"));
  IS(BOURSE_E_LIMIT, bourse_shape_placement(shape, "pack rack")); /* the ninth */

  memset(&ask, 0, sizeof ask);
  IS(BOURSE_E_INVALID, bourse_shape_device(shape, &ask)); /* no size */
  ask.size = sizeof ask;
  IS(BOURSE_E_INVALID, bourse_shape_device(shape, &ask)); /* no kind */
  ask.kind = "gpu/";
  ask.count = 1;
  ask.counters = &counter;
  ask.counters_count = 1;
  OK(bourse_shape_device(shape, &ask));
  ask.counters = &negative;
  IS(BOURSE_E_INVALID, bourse_shape_device(shape, &ask));
  memset(&longer, 0, sizeof longer);
  longer.ask.size = sizeof longer;
  longer.ask.kind = "fpga";
  longer.ask.count = 1;
  OK(bourse_shape_device(shape, &longer.ask)); /* of a newer header, nothing of it used */
  longer.later[5] = 1;
  IS(BOURSE_E_UNSUPPORTED, bourse_shape_device(shape, &longer.ask));
  longer.ask.size = offsetof(bourse_device_ask, whole); /* of an older header */
  OK(bourse_shape_device(shape, &longer.ask));

  OK(bourse_demand_new(&demand));
  OK(bourse_demand_add(demand, 1, shape, 2, 0, 0));
  IS(BOURSE_E_EXISTS, bourse_demand_add(demand, 1, shape, 2, 0, 0));
  IS(BOURSE_E_INVALID, bourse_demand_add(demand, 0, shape, 2, 0, 0));
  OK(bourse_demand_lasts(demand, 1, 3600000000));
  IS(BOURSE_E_NOT_FOUND, bourse_demand_lasts(demand, 2, 3600000000));
  IS(BOURSE_E_INVALID, bourse_demand_lasts(demand, 1, -1));
  OK(bourse_demand_reservation(demand, 1, "class-of-2026"));
  IS(BOURSE_E_NOT_FOUND, bourse_demand_reservation(demand, 2, "class-of-2026"));
  IS(BOURSE_E_INVALID, bourse_demand_reservation(demand, 1, NULL));
  OK(bourse_demand_wildcard(demand, 1));
  OK(bourse_demand_clear(demand));
  OK(bourse_demand_add(demand, 1, shape, 2, 2, -5));

  OK(bourse_accept_new(&accept));
  IS(BOURSE_E_INVALID, bourse_accept_slice(accept, 1, shape, 0, 0)); /* out of which offer? */
  IS(BOURSE_E_INVALID, bourse_accept_offer(accept, 0, 1, 0));
  OK(bourse_accept_offer(accept, 1, 1, 1));
  OK(bourse_accept_slice(accept, 1, shape, 0, 0));
  IS(BOURSE_E_INVALID, bourse_accept_slice(accept, 0, shape, 0, 0));
  IS(BOURSE_E_INVALID, bourse_accept_slice(accept, 2, shape, -1, 0));
  OK(bourse_accept_gang(accept, 4));
  OK(bourse_accept_all_or_nothing(accept, 1));
  OK(bourse_accept_clear(accept));

  OK(bourse_task_spec_new(&spec));
  OK(bourse_task_spec_kind(spec, BOURSE_PROCESS));
  IS(BOURSE_E_INVALID, bourse_task_spec_kind(spec, 12));
  OK(bourse_task_spec_user(spec, "nobody", 65534, 65534));
  OK(bourse_task_spec_credential(spec, "\0x", 2));
  OK(bourse_task_spec_arg(spec, "true"));
  OK(bourse_task_spec_env(spec, "A=1"));
  IS(BOURSE_E_INVALID, bourse_task_spec_env(spec, "A"));
  IS(BOURSE_E_INVALID, bourse_task_spec_env(spec, "=1"));
  OK(bourse_task_spec_directory(spec, "/"));
  OK(bourse_task_spec_files(spec, NULL, "/dev/null", NULL, 1));
  OK(bourse_task_spec_umask(spec, 027));
  IS(BOURSE_E_INVALID, bourse_task_spec_umask(spec, 01000));
  OK(bourse_task_spec_rlimit(spec, 0, 1, 2));
  IS(BOURSE_E_INVALID, bourse_task_spec_rlimit(spec, 0, 2, 1));
  OK(bourse_task_spec_artifact(spec, "script", "sha256:00", "x", 1, NULL));
  IS(BOURSE_E_EXISTS, bourse_task_spec_artifact(spec, "script", "sha256:00", NULL, 0, NULL));
  OK(bourse_task_spec_time_limit(spec, BOURSE_NO_LIMIT));
  IS(BOURSE_E_INVALID, bourse_task_spec_time_limit(spec, 0));
  OK(bourse_task_spec_kill_grace(spec, 0));
  IS(BOURSE_E_INVALID, bourse_task_spec_kill_grace(spec, -1));
  OK(bourse_task_spec_warning(spec, 10, 1000, 1));
  IS(BOURSE_E_INVALID, bourse_task_spec_warning(spec, 99, 1000, 1));
  OK(bourse_task_spec_fence(spec, 1));
  OK(bourse_task_spec_image(spec, "/srv/image:v1"));
  OK(bourse_task_spec_mount(spec, "/data:/in:ro"));
  IS(BOURSE_E_INVALID, bourse_task_spec_mount(spec, "data"));
  OK(bourse_task_spec_isolate(spec, "pid"));
  IS(BOURSE_E_INVALID, bourse_task_spec_isolate(spec, ""));
  OK(bourse_task_spec_trace(spec, ""));
  OK(bourse_task_spec_in_turn(spec, 0));
  OK(bourse_task_spec_priority(spec, -5));
  OK(bourse_task_spec_image(spec, "/images/disk.qcow2"));
  OK(bourse_task_spec_clear(spec));
  bourse_shape_free(shape);
  bourse_demand_free(demand);
  bourse_accept_free(accept);
  bourse_task_spec_free(spec);
  return 0;
}

int c99_null_arguments(void) {
  bourse_shape_free(NULL);
  bourse_demand_free(NULL);
  bourse_accept_free(NULL);
  bourse_task_spec_free(NULL);
  bourse_client_free(NULL);
  IS(BOURSE_E_INVALID, bourse_shape_new(NULL));
  IS(BOURSE_E_INVALID, bourse_demand_new(NULL));
  IS(BOURSE_E_INVALID, bourse_accept_new(NULL));
  IS(BOURSE_E_INVALID, bourse_task_spec_new(NULL));
  IS(BOURSE_E_INVALID, bourse_shape_cpus(NULL, 1));
  IS(BOURSE_E_INVALID, bourse_demand_wildcard(NULL, 1));
  IS(BOURSE_E_INVALID, bourse_accept_offer(NULL, 1, 1, 0));
  IS(BOURSE_E_INVALID, bourse_task_spec_arg(NULL, "x"));
  IS(BOURSE_E_INVALID, bourse_client_open(NULL, NULL, NULL));
  IS(BOURSE_E_INVALID, bourse_client_fd(NULL));
  IS(BOURSE_E_INVALID, bourse_client_dispatch(NULL, 0));
  IS(BOURSE_E_INVALID, bourse_client_run(NULL));
  IS(BOURSE_E_INVALID, bourse_client_stop(NULL));
  IS(BOURSE_E_INVALID, bourse_client_wake(NULL));
  IS(BOURSE_E_INVALID, bourse_client_slice_number(NULL, NULL));
  IS(BOURSE_E_INVALID, bourse_client_gang_number(NULL, NULL));
  IS(BOURSE_E_INVALID, bourse_client_demand(NULL, NULL));
  IS(BOURSE_E_INVALID, bourse_client_accept(NULL, NULL, NULL));
  IS(BOURSE_E_INVALID, bourse_client_decline(NULL, NULL, 0, 0, NULL, 0));
  IS(BOURSE_E_INVALID, bourse_client_launch(NULL, "a", 1, "t", NULL));
  IS(BOURSE_E_INVALID, bourse_client_kill(NULL, "a", "t", NULL));
  IS(BOURSE_E_INVALID, bourse_client_ack(NULL, "a", 1, 1));
  IS(BOURSE_E_INVALID, bourse_client_release(NULL, 1, 0));
  IS(BOURSE_E_INVALID, bourse_client_reconcile(NULL, "a", NULL, 0));
  IS(BOURSE_E_INVALID, bourse_client_declare_lost(NULL, "a", NULL, 0));
  IS(BOURSE_E_INVALID, bourse_client_explain(NULL, 1, 1));
  IS(BOURSE_E_INVALID, bourse_client_goodbye(NULL, 0));
  IS(0, (int)bourse_client_incarnation(NULL));
  if (strcmp(bourse_client_error(NULL), "") != 0) return __LINE__;
  IS(0, (int)bourse_resources_cpus(NULL));
  IS(0, (int)bourse_resources_devices(NULL));
  IS(BOURSE_E_INVALID, bourse_resources_text(NULL, NULL, 0));
  if (bourse_offer_resources(NULL) || bourse_labels_get(NULL, "x") || bourse_agents_at(NULL, 0)) return __LINE__;
  return 0;
}
