/* run_one: run one command in one slice, say how it ended, and exit with its code.
 *
 *   run_one [--config FILE] [--name NAME] [--cpus N] [--mem MIB] [--output FILE] -- COMMAND [ARG]...
 *
 * The whole life of a framework in one page: demand, offer, accept, slice, launch, status, goodbye. */
#include <bourse/framework.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

struct state {
  const char* const* command;
  const char* output;
  bourse_shape* shape;
  int accepted, launched; /* done once each */
  int exit_code;
};

static void die(bourse_client* client, const char* what, int code) {
  fprintf(stderr, "run_one: %s: %s\n", what,
          client && *bourse_client_error(client) ? bourse_client_error(client) : bourse_strerror(code));
  exit(125);
}

/* An offer that was made for our one demand line has room for our one slice: that is what a demand is for. */
static void on_offer(void* user, bourse_client* client, const bourse_offer* offer) {
  struct state* s = user;
  uint64_t id = bourse_offer_id(offer), slice = 0;
  bourse_accept* accept = NULL;
  bourse_demand* nothing = NULL;
  int rc;
  if (s->accepted) { /* we need only one */
    bourse_client_decline(client, &id, 1, BOURSE_DECLINE_NO_WORK, NULL, 0);
    return;
  }
  bourse_client_slice_number(client, &slice);
  if ((rc = bourse_accept_new(&accept)) != 0) die(client, "accept", rc);
  bourse_accept_offer(accept, id, bourse_offer_generation(offer), 0);
  bourse_accept_slice(accept, slice, s->shape, 0, 1);
  if ((rc = bourse_client_accept(client, accept, NULL)) != 0) die(client, "accept", rc);
  bourse_accept_free(accept);
  s->accepted = 1;
  /* An empty demand: no more offers, please. */
  if (bourse_demand_new(&nothing) == 0) bourse_client_demand(client, nothing);
  bourse_demand_free(nothing);
}

static void on_accepted(void* user, bourse_client* client, const bourse_accepted_event* event) {
  (void)user;
  if (event->code != BOURSE_E_OK) {
    fprintf(stderr, "run_one: the offer was not to be had: %s\n", event->reason);
    bourse_client_stop(client);
  }
}

/* The slice exists. This event comes again after each reconnect, so look before launching. */
static void on_slice(void* user, bourse_client* client, const bourse_slice_event* slice) {
  struct state* s = user;
  struct passwd* me = getpwuid(getuid());
  bourse_task_spec* spec = NULL;
  char task[64], directory[4096];
  int rc, i;
  if (s->launched) return;
  s->launched = 1;
  if ((rc = bourse_task_spec_new(&spec)) != 0) die(client, "task", rc);
  for (i = 0; s->command[i]; ++i) bourse_task_spec_arg(spec, s->command[i]);
  bourse_task_spec_user(spec, me ? me->pw_name : "root", (uint32_t)getuid(), (uint32_t)getgid());
  bourse_task_spec_env(spec, "PATH=/usr/local/bin:/usr/bin:/bin");
  if (getcwd(directory, sizeof directory)) bourse_task_spec_directory(spec, directory);
  if (s->output) bourse_task_spec_files(spec, NULL, s->output, NULL, 0);
  /* Task ids are never used twice: ours has the number of this life in it. */
  snprintf(task, sizeof task, "run.%llu", (unsigned long long)bourse_client_incarnation(client));
  printf("slice %llu on %s: starting %s\n", (unsigned long long)slice->slice, slice->agent, task);
  fflush(stdout);
  if ((rc = bourse_client_launch(client, slice->agent, slice->slice, task, spec)) != 0) die(client, "launch", rc);
  bourse_task_spec_free(spec);
}

static void on_slice_lost(void* user, bourse_client* client, const bourse_slice_lost_event* event) {
  (void)user;
  if (event->end != BOURSE_SLICE_CARVE_FAILED) return; /* else its task tells the end */
  fprintf(stderr, "run_one: no slice: %s\n", event->reason);
  bourse_client_stop(client);
}

static void on_task(void* user, bourse_client* client, const bourse_task_event* event) {
  struct state* s = user;
  if (event->state < BOURSE_TASK_EXITED) return; /* staging, running */
  if (event->state == BOURSE_TASK_EXITED) {
    printf("exited with %d after %lld us of CPU\n", (int)event->exit_code, (long long)event->cpu);
    s->exit_code = (int)event->exit_code;
  } else {
    printf("did not exit by itself: %s (state %d, signal %d)\n", event->message, (int)event->state, (int)event->signal);
    s->exit_code = event->signal ? 128 + (int)event->signal : 125;
  }
  bourse_client_goodbye(client, 1); /* releases the slice and has our name forgotten; `down` follows */
}

static void on_down(void* user, bourse_client* client, const bourse_down_event* event) {
  (void)user;
  if (strncmp(event->reason, "goodbye", 7) == 0) bourse_client_stop(client);
}

static void on_refused(void* user, bourse_client* client, const bourse_refused_event* event) {
  (void)user;
  fprintf(stderr, "run_one: the master refuses us: %s\n", event->reason);
  bourse_client_stop(client);
}

static long number(const char* option, const char* text) {
  char* end = NULL;
  long value = text ? strtol(text, &end, 10) : 0;
  if (!text || end == text || *end || value < 0 || value > 1000000) {
    fprintf(stderr, "run_one: %s needs a number\n", option);
    exit(125);
  }
  return value;
}

int main(int argc, char** argv) {
  struct state s = {NULL, NULL, NULL, 0, 0, 125};
  bourse_client_options options;
  bourse_callbacks callbacks;
  bourse_client* client = NULL;
  bourse_demand* demand = NULL;
  char error[512] = "";
  long cpus = 1, mem = 64;
  int i, rc;

  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.framework = "run-one";
  options.automatic_acks = 1;
  options.error = error;
  options.error_size = sizeof error;
  for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i += 2) {
    const char* value = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(argv[i], "--cpus") == 0)
      cpus = number(argv[i], value);
    else if (strcmp(argv[i], "--mem") == 0)
      mem = number(argv[i], value);
    else if (value && strcmp(argv[i], "--config") == 0)
      options.config = value;
    else if (value && strcmp(argv[i], "--name") == 0)
      options.framework = value;
    else if (value && strcmp(argv[i], "--output") == 0)
      s.output = value;
    else
      break;
  }
  if (i + 1 >= argc || strcmp(argv[i], "--") != 0) {
    fprintf(stderr, "usage: run_one [--config FILE] [--name NAME] [--cpus N] [--mem MIB] [--output FILE] -- COMMAND [ARG]...\n");
    return 125;
  }
  s.command = (const char* const*)argv + i + 1;

  memset(&callbacks, 0, sizeof callbacks);
  callbacks.size = sizeof callbacks;
  callbacks.user = &s;
  callbacks.offer = on_offer;
  callbacks.accepted = on_accepted;
  callbacks.slice = on_slice;
  callbacks.slice_lost = on_slice_lost;
  callbacks.task = on_task;
  callbacks.down = on_down;
  callbacks.refused = on_refused;
  if ((rc = bourse_client_open(&options, &callbacks, &client)) != 0) {
    fprintf(stderr, "run_one: %s\n", *error ? error : bourse_strerror(rc));
    return 125;
  }
  bourse_shape_new(&s.shape);
  bourse_shape_cpus(s.shape, cpus * 1000);
  bourse_shape_memory(s.shape, mem * 1024 * 1024);
  if ((rc = bourse_demand_new(&demand)) != 0 || (rc = bourse_demand_add(demand, 1, s.shape, 1, 0, 0)) != 0)
    die(client, "demand", rc);
  if ((rc = bourse_client_demand(client, demand)) != 0) die(client, "demand", rc);
  bourse_demand_free(demand);

  if ((rc = bourse_client_run(client)) != 0) die(client, "run", rc); /* until bourse_client_stop() */
  bourse_client_free(client);
  bourse_shape_free(s.shape);
  return s.exit_code;
}
