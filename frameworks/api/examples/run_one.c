/* run_one: run one command in one slice, say how it ended, and exit with its code.
 *
 *   run_one [--config FILE] [--name NAME] [--cpus N] [--mem MIB] [--output FILE] [--fence] -- COMMAND [ARG]...
 *
 * The whole life of a framework in one page: demand, offer, accept, slice, launch, status, goodbye. */
#include <bourse/framework.h>
#include <getopt.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAILED = 125 }; /* our exit status where the command has none */

static char** command;
static const char* output;
static bourse_shape* shape;
static int accepted, launched; /* done once each */
static int fence;              /* ends on its host when that hears no master any more: it could be started elsewhere */
static int exit_code = FAILED;

static void must(int rc, bourse_client* client, const char* what) {
  const char* text = client ? bourse_client_error(client) : "";
  if (rc == 0) return;
  fprintf(stderr, "run_one: %s: %s\n", what, *text ? text : bourse_strerror(rc));
  exit(FAILED);
}

static void give_up(bourse_client* client, const char* what, const char* reason) {
  fprintf(stderr, "run_one: %s: %s\n", what, reason);
  bourse_client_stop(client); /* bourse_client_run() returns */
}

/* An offer that was made for our one demand line has room for our one slice: that is what a demand is for. */
static void on_offer(void* user, bourse_client* client, const bourse_offer* offer) {
  uint64_t id = bourse_offer_id(offer), slice = 0;
  bourse_accept* accept = NULL;
  bourse_demand* nothing = NULL;
  (void)user;
  if (accepted++) { /* we need only one */
    bourse_client_decline(client, &id, 1, BOURSE_DECLINE_NO_WORK, NULL, 0);
    return;
  }
  must(bourse_client_slice_number(client, &slice), client, "slice");
  must(bourse_accept_new(&accept), client, "accept");
  bourse_accept_offer(accept, id, bourse_offer_generation(offer), 0);
  bourse_accept_slice(accept, slice, shape, 0, 1);
  must(bourse_client_accept(client, accept, NULL), client, "accept");
  bourse_accept_free(accept);
  must(bourse_demand_new(&nothing), client, "demand"); /* an empty demand: no more offers, please */
  bourse_client_demand(client, nothing);
  bourse_demand_free(nothing);
}

static void on_accepted(void* user, bourse_client* client, const bourse_accepted_event* event) {
  (void)user;
  if (event->code != BOURSE_E_OK) give_up(client, "the offer was not to be had", event->reason);
}

/* The slice exists. This event comes again after each reconnect, so look before launching. */
static void on_slice(void* user, bourse_client* client, const bourse_slice_event* slice) {
  struct passwd* me = getpwuid(getuid());
  bourse_task_spec* spec = NULL;
  char task[64], directory[4096];
  (void)user;
  if (launched++) return;
  must(bourse_task_spec_new(&spec), client, "task");
  for (int i = 0; command[i]; ++i) bourse_task_spec_arg(spec, command[i]);
  bourse_task_spec_user(spec, me ? me->pw_name : "root", (uint32_t)getuid(), (uint32_t)getgid());
  bourse_task_spec_env(spec, "PATH=/usr/local/bin:/usr/bin:/bin");
  if (getcwd(directory, sizeof directory)) bourse_task_spec_directory(spec, directory);
  if (output) bourse_task_spec_files(spec, NULL, output, NULL, 0);
  bourse_task_spec_fence(spec, fence);
  /* Task ids are never used twice: ours has the number of this life in it. */
  snprintf(task, sizeof task, "run.%llu", (unsigned long long)bourse_client_incarnation(client));
  printf("slice %llu on %s: starting %s\n", (unsigned long long)slice->slice, slice->agent, task);
  fflush(stdout);
  must(bourse_client_launch(client, slice->agent, slice->slice, task, spec), client, "launch");
  bourse_task_spec_free(spec);
}

static void on_slice_lost(void* user, bourse_client* client, const bourse_slice_lost_event* event) {
  (void)user;
  if (event->end == BOURSE_SLICE_CARVE_FAILED) give_up(client, "no slice", event->reason); /* else its task tells the end */
}

static void on_task(void* user, bourse_client* client, const bourse_task_event* event) {
  (void)user;
  if (event->state < BOURSE_TASK_EXITED) return; /* staging, running */
  if (event->state == BOURSE_TASK_EXITED) {
    printf("exited with %d after %lld us of CPU\n", (int)event->exit_code, (long long)event->cpu);
    exit_code = (int)event->exit_code;
  } else {
    printf("did not exit by itself: %s (state %d, signal %d)\n", event->message, (int)event->state, (int)event->signal);
    exit_code = event->signal ? 128 + (int)event->signal : FAILED;
  }
  bourse_client_goodbye(client, 1); /* releases the slice and has our name forgotten; `down` follows */
}

static void on_down(void* user, bourse_client* client, const bourse_down_event* event) {
  (void)user;
  if (strncmp(event->reason, "goodbye", 7) == 0) bourse_client_stop(client);
}

static void on_refused(void* user, bourse_client* client, const bourse_refused_event* event) {
  (void)user;
  give_up(client, "the master refuses us", event->reason);
}

int main(int argc, char** argv) {
  static const struct option names[] = {{"config", 1, 0, 'f'}, {"name", 1, 0, 'n'},  {"cpus", 1, 0, 'c'}, {"mem", 1, 0, 'm'},
                                        {"output", 1, 0, 'o'}, {"fence", 0, 0, 'F'}, {0, 0, 0, 0}};
  char error[512] = "";
  bourse_client_options options = {
      .size = sizeof options, .framework = "run-one", .automatic_acks = 1, .error = error, .error_size = sizeof error};
  const bourse_callbacks callbacks = {.size = sizeof callbacks,
                                      .offer = on_offer,
                                      .accepted = on_accepted,
                                      .slice = on_slice,
                                      .slice_lost = on_slice_lost,
                                      .task = on_task,
                                      .down = on_down,
                                      .refused = on_refused};
  bourse_client* client = NULL;
  bourse_demand* demand = NULL;
  long cpus = 1, mem = 64;
  int option, wrong = 0;
  while ((option = getopt_long(argc, argv, "+", names, NULL)) != -1) {
    if (option == 'f') options.config = optarg;
    if (option == 'n') options.framework = optarg;
    if (option == 'o') output = optarg;
    if (option == 'c') cpus = atol(optarg), wrong |= cpus < 1 || cpus > 1000000;
    if (option == 'm') mem = atol(optarg), wrong |= mem < 1 || mem > 100000000;
    if (option == 'F') fence = 1;
    if (option == '?') wrong = 1;
  }
  if (wrong || optind == argc) {
    fprintf(stderr,
            "usage: run_one [--config FILE] [--name NAME] [--cpus N] [--mem MIB] [--output FILE] [--fence] -- "
            "COMMAND [ARG]...\n");
    return FAILED;
  }
  command = argv + optind;

  must(bourse_client_open(&options, &callbacks, &client), NULL, *error ? error : "open");
  must(bourse_shape_new(&shape), client, "shape");
  bourse_shape_cpus(shape, cpus * 1000);
  bourse_shape_memory(shape, mem * 1024 * 1024);
  must(bourse_demand_new(&demand), client, "demand");
  must(bourse_demand_add(demand, 1, shape, 1, 0, 0), client, "demand");
  must(bourse_client_demand(client, demand), client, "demand");
  bourse_demand_free(demand);
  must(bourse_client_run(client), client, "run"); /* until bourse_client_stop() */
  bourse_client_free(client);
  bourse_shape_free(shape);
  return exit_code;
}
