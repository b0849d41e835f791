/* keep_n: keep N copies of a command running until SIGINT, SIGTERM or --seconds.
 *
 *   keep_n [--config FILE] [--name NAME] [--seconds S] -n N -- COMMAND [ARG]...
 *
 * Shows a framework in a poll(2) loop of its own, demand as state, and slices that are used again: a copy that ends is
 * started anew in the slice it leaves, with no offer in between. */
#include <bourse/framework.h>
#include <getopt.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MAX_COPIES = 1000 };

static struct slot {     /* one wanted copy */
  uint64_t slice, offer; /* slice 0: nothing accepted for it yet */
  int up;                /* the slice exists and its task was launched */
} slots[MAX_COPIES];
static int wanted, started, running, leaving, left;
static char** command;
static bourse_shape* shape;
static bourse_client* client;
static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
  (void)number;
  interrupted = 1;
  bourse_client_wake(client); /* the one call that a signal handler may make */
}

static struct slot* find(uint64_t slice) {
  for (int i = 0; i < wanted; ++i)
    if (slots[i].slice == slice) return &slots[i];
  return NULL;
}

/* What we lack, stated whole each time it changes. The library sends the last one of a turn. */
static void publish(void) {
  bourse_demand* demand = NULL;
  uint32_t lacking = 0;
  for (int i = 0; i < wanted; ++i) lacking += slots[i].slice == 0;
  if (bourse_demand_new(&demand) != 0) return;
  if (lacking > 0 && !leaving) bourse_demand_add(demand, 1, shape, lacking, 0, 0);
  bourse_client_demand(client, demand);
  bourse_demand_free(demand);
}

static void start(const char* agent, uint64_t slice) {
  struct passwd* me = getpwuid(getuid());
  bourse_task_spec* spec = NULL;
  char task[64];
  if (bourse_task_spec_new(&spec) != 0) return;
  for (int i = 0; command[i]; ++i) bourse_task_spec_arg(spec, command[i]);
  bourse_task_spec_user(spec, me ? me->pw_name : "root", (uint32_t)getuid(), (uint32_t)getgid());
  bourse_task_spec_env(spec, "PATH=/usr/local/bin:/usr/bin:/bin");
  bourse_task_spec_directory(spec, "/");
  snprintf(task, sizeof task, "copy.%llu.%d", (unsigned long long)bourse_client_incarnation(client), ++started);
  if (bourse_client_launch(client, agent, slice, task, spec) != 0) fprintf(stderr, "keep_n: %s\n", bourse_client_error(client));
  bourse_task_spec_free(spec);
}

static void on_offer(void* user, bourse_client* c, const bourse_offer* offer) {
  struct slot* slot = leaving ? NULL : find(0);
  uint64_t id = bourse_offer_id(offer), number = 0;
  bourse_accept* accept = NULL;
  (void)user;
  if (!slot || bourse_client_slice_number(c, &number) != 0 || bourse_accept_new(&accept) != 0) {
    bourse_client_decline(c, &id, 1, BOURSE_DECLINE_NO_WORK, NULL, 0);
    return;
  }
  /* One slice of it; what it has beyond comes back as another offer while the demand asks for it. */
  bourse_accept_offer(accept, id, bourse_offer_generation(offer), 0);
  bourse_accept_slice(accept, number, shape, 0, 1);
  if (bourse_client_accept(c, accept, NULL) == 0) slot->slice = number, slot->offer = id;
  bourse_accept_free(accept);
  publish();
}

/* An accept that failed: the slot is free again. */
static void on_accepted(void* user, bourse_client* c, const bourse_accepted_event* event) {
  (void)user, (void)c;
  if (event->code == BOURSE_E_OK) return;
  for (int i = 0; i < wanted; ++i)
    if (slots[i].slice != 0 && slots[i].offer == event->offer) slots[i].slice = 0;
  publish();
}

static void on_slice(void* user, bourse_client* c, const bourse_slice_event* event) {
  struct slot* slot = find(event->slice);
  (void)user;
  if (!slot) { /* of a life before */
    bourse_client_release(c, event->slice, 0);
  } else if (!slot->up) {
    slot->up = 1;
    start(event->agent, event->slice);
  }
}

static void on_slice_lost(void* user, bourse_client* c, const bourse_slice_lost_event* event) {
  struct slot* slot = find(event->slice);
  (void)user, (void)c;
  if (slot) slot->slice = 0, slot->up = 0;
  publish();
}

static void on_task(void* user, bourse_client* c, const bourse_task_event* event) {
  struct slot* slot = find(event->slice);
  (void)user, (void)c;
  if (event->state == BOURSE_TASK_RUNNING) {
    printf("%d running\n", ++running);
    fflush(stdout);
  } else if (event->state >= BOURSE_TASK_EXITED) {
    if (running > 0) --running;
    if (slot && slot->up && !leaving) start(event->agent, event->slice);
  }
}

static void on_down(void* user, bourse_client* c, const bourse_down_event* event) {
  (void)user, (void)c;
  left = leaving;
  if (!left) fprintf(stderr, "keep_n: not connected: %s\n", event->reason);
}

static void on_refused(void* user, bourse_client* c, const bourse_refused_event* event) {
  (void)user, (void)c;
  fprintf(stderr, "keep_n: refused: %s\n", event->reason);
  left = 1;
}

int main(int argc, char** argv) {
  static const struct option names[] = {{"config", 1, 0, 'f'}, {"name", 1, 0, 'm'}, {"seconds", 1, 0, 's'}, {0, 0, 0, 0}};
  char error[512] = "";
  bourse_client_options options = {
      .size = sizeof options, .framework = "keep-n", .automatic_acks = 1, .error = error, .error_size = sizeof error};
  const bourse_callbacks callbacks = {.size = sizeof callbacks,
                                      .offer = on_offer,
                                      .accepted = on_accepted,
                                      .slice = on_slice,
                                      .slice_lost = on_slice_lost,
                                      .task = on_task,
                                      .down = on_down,
                                      .refused = on_refused};
  const time_t begin = time(NULL);
  long seconds = -1;
  int option, wrong = 0;
  while ((option = getopt_long(argc, argv, "+n:", names, NULL)) != -1) {
    if (option == 'f') options.config = optarg;
    if (option == 'm') options.framework = optarg;
    if (option == 's') seconds = atol(optarg);
    if (option == 'n') wanted = atoi(optarg);
    if (option == '?') wrong = 1;
  }
  if (wrong || optind == argc || wanted < 1 || wanted > MAX_COPIES) {
    fprintf(stderr, "usage: keep_n [--config FILE] [--name NAME] [--seconds S] -n N -- COMMAND [ARG]...   (N: 1 to %d)\n",
            MAX_COPIES);
    return 2;
  }
  command = argv + optind;

  if (bourse_client_open(&options, &callbacks, &client) != 0) {
    fprintf(stderr, "keep_n: %s\n", error);
    return 1;
  }
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  if (bourse_shape_new(&shape) != 0 || bourse_shape_cpus(shape, 100) != 0 || bourse_shape_memory(shape, 16 << 20) != 0) return 1;
  publish();

  /* Any event loop would do: one descriptor, level-triggered, timers inside. */
  struct pollfd poll_fd = {.fd = bourse_client_fd(client), .events = POLLIN};
  while (!left) {
    poll(&poll_fd, 1, seconds < 0 || leaving ? -1 : 200);
    bourse_client_dispatch(client, 0);
    if (!leaving && (interrupted || (seconds >= 0 && time(NULL) - begin >= seconds))) {
      leaving = 1;
      bourse_client_goodbye(client, 1); /* ends the copies, releases the slices */
    }
  }
  bourse_client_free(client);
  bourse_shape_free(shape);
  return 0;
}
