/* bourse/framework.h - write a framework for the Bourse resource scheduler.
 *
 * UNSTABLE until version 1.0: names and shapes may change between 0.x releases; the soname changes with them.
 *
 * A framework tells the master what it wants (a demand), gets offers of free resources on agents, accepts parts of them
 * as slices, and runs tasks in its slices. Start with bourse_client_open(); examples/run_one.c is a whole framework in a
 * page. The library keeps the session: it finds the leading master, reconnects, publishes the demand again, repeats what was not
 * answered, reconciles slices and tasks, and delivers each status exactly once and in order.
 *
 * Conventions, for every function below
 *
 * Units. Times are int64_t microseconds; those named *_wall are since 1970 UTC, the others are lengths. CPU amounts
 *   are in thousandths of a core ("milli"), memory and disk in bytes. Strings are UTF-8 and end in NUL. Flags are int32_t, 0 or
 *   not 0. Names (framework, role, agent, task) are 1 to 128 of [A-Za-z0-9._/+@:-] and do not start with '.' or '/'.
 *
 * Results. Functions that can fail return 0 (or what they say) or a negative BOURSE_E_* code; a failed call has changed
 *   nothing, and its out parameters are untouched. bourse_strerror() gives the code's text, bourse_client_error() the sentence
 *   about the last call on that client that failed. Getters that return a value cannot fail.
 *
 * NULL. Free functions accept NULL. An argument marked "or NULL" may be NULL. Every other NULL pointer is
 *   BOURSE_E_INVALID, and getters answer 0, NULL or "" to it.
 *
 * Ownership. bourse_x_new() or _open() gives an object that you free with bourse_x_free(). Everything else that
 *   the library hands out as `const` belongs to it: what a callback gets is valid until that callback returns, a getter's answer
 *   as long as the object it was got from. Arguments are copied; yours are free to go when the call returns.
 *
 * Structs that grow. Structs with `size` in front gain fields at their end. You fill options in: set everything to zero
 *   and `size` to sizeof. The library accepts a shorter struct (an older program; what is missing counts as zero) and
 *   a longer one only if all it does not know is zero (else BOURSE_E_UNSUPPORTED). Structs that the library fills in
 *   (bourse_..._event) carry the size it knows; look before you read fields newer than your minimum. Structs without `size`
 *   never change.
 *
 * Threads. Tags on each declaration: [client] the one thread that uses this client at the time; [any] any thread,
 *   and signal handlers; [free] any thread, as long as no two use the same object at once. Different clients are
 *   independent, and the library has no global state. After fork(2) the child must not use the parent's clients: every call
 *   answers BOURSE_E_FORK there, but bourse_client_free(), which gives back only what is safe to.
 *
 * Callbacks. They are called only from inside bourse_client_dispatch() and bourse_client_run(), on the thread that called
 *   it. Inside one you may call everything but dispatch and run (BOURSE_E_BUSY). bourse_client_free() inside a callback takes
 *   effect when dispatch or run unwinds; no callback follows. Do not let a C++ exception or longjmp leave a callback.
 *   None of the library's own exceptions reach you.
 */
#ifndef BOURSE_FRAMEWORK_H
#define BOURSE_FRAMEWORK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BOURSE_API __attribute__((visibility("default")))
#else
#define BOURSE_API
#endif

#define BOURSE_VERSION_MAJOR 0
#define BOURSE_VERSION_MINOR 1
#define BOURSE_VERSION_PATCH 0

/* [any] Of the library that is loaded: major * 1000000 + minor * 1000 + patch. */
BOURSE_API int32_t bourse_version(void);

/* --- codes ------------------------------------------------------------------------------------------------------- */

/* X(name, number, text). -1 to -99 are the codes of the protocol: the master's refusals use them too. -100 and below
 * come from the library. */
#define BOURSE_CODES(X)                                                                      \
  X(OK, 0, "no error")                                                                       \
  X(INVALID, -1, "invalid argument or request; repeating it does not help")                  \
  X(NOT_FOUND, -2, "no such thing")                                                          \
  X(EXISTS, -3, "it exists already")                                                         \
  X(BUSY, -4, "not now; repeating it may help")                                              \
  X(LIMIT, -5, "a limit was reached")                                                        \
  X(DENIED, -6, "not allowed")                                                               \
  X(GONE, -7, "it has ended or was taken over")                                              \
  X(IO, -8, "the operating system refused")                                                  \
  X(CORRUPT, -9, "stored or received data is damaged")                                       \
  X(VERSION, -10, "the other side speaks another version of the protocol")                   \
  X(TIMEOUT, -11, "it took too long")                                                        \
  X(UNSUPPORTED, -12, "this host or this version of the library cannot do that")             \
  X(MEMORY, -100, "out of memory")                                                           \
  X(FORK, -101, "the client belongs to the parent process; open one of your own after fork") \
  X(INTERNAL, -102, "a fault in the library")

enum {
#define BOURSE_CODE_ENUM_(name, number, text) BOURSE_E_##name = number,
  BOURSE_CODES(BOURSE_CODE_ENUM_)
#undef BOURSE_CODE_ENUM_
      BOURSE_E_END_ = 1 /* not a code */
};

/* [any] One line for a code; "unknown error" for a number that is none. Never NULL. */
BOURSE_API const char* bourse_strerror(int code);

/* --- objects ----------------------------------------------------------------------------------------------------- */

typedef struct bourse_client bourse_client;       /* a session of one framework with a cluster; yours */
typedef struct bourse_shape bourse_shape;         /* builder: what one slice needs; yours */
typedef struct bourse_demand bourse_demand;       /* builder: all that the framework wants now; yours */
typedef struct bourse_accept bourse_accept;       /* builder: slices out of offers; yours */
typedef struct bourse_task_spec bourse_task_spec; /* builder: what to run and how; yours */
typedef struct bourse_offer bourse_offer;         /* borrowed until the callback returns */
typedef struct bourse_resources bourse_resources; /* borrowed from an offer, slice or agent */
typedef struct bourse_device bourse_device;       /* borrowed: a share of one device in an amount */
typedef struct bourse_labels bourse_labels;       /* borrowed from an offer or agent */
typedef struct bourse_agents bourse_agents;       /* borrowed: a list of agents */
typedef struct bourse_agent bourse_agent;         /* borrowed: what is known of one agent */

/* A name with an amount: a counter of a device, or a kind of resource that a site declared. */
typedef struct bourse_amount {
  const char* name;
  int64_t amount;
} bourse_amount;

/* A length without a limit. */
#define BOURSE_NO_LIMIT INT64_MAX

/* --- amounts: what an offer, slice or agent has -------------------------------------------------------------------- */

/* [free] Totals. Not negative. */
BOURSE_API int64_t bourse_resources_cpus(const bourse_resources* resources);   /* milli */
BOURSE_API int64_t bourse_resources_memory(const bourse_resources* resources); /* bytes */
BOURSE_API int64_t bourse_resources_disk(const bourse_resources* resources);   /* bytes */

/* [free] Ports, as sorted, disjoint, closed ranges. The second gives range `index` of [0, count) or BOURSE_E_NOT_FOUND. */
BOURSE_API size_t bourse_resources_port_ranges(const bourse_resources* resources);
BOURSE_API int bourse_resources_port_range(const bourse_resources* resources, size_t index, uint16_t* first, uint16_t* last);

/* [free] Site-declared kinds, sorted by name; bourse_resources_kind() is BOURSE_E_NOT_FOUND past the end. The third looks one
 * up, 0 where there is none. */
BOURSE_API size_t bourse_resources_kinds(const bourse_resources* resources);
BOURSE_API int bourse_resources_kind(const bourse_resources* resources, size_t index, bourse_amount* kind);
BOURSE_API int64_t bourse_resources_amount(const bourse_resources* resources, const char* kind);

/* [free] The split of cpus and memory by NUMA node, sorted by node; the parts add up to the totals. 0 nodes: not split. */
typedef struct bourse_numa_node {
  uint32_t node; /* the operating system's number */
  uint32_t reserved;
  int64_t cpus;   /* milli */
  int64_t memory; /* bytes */
} bourse_numa_node;
BOURSE_API size_t bourse_resources_numa_nodes(const bourse_resources* resources);
BOURSE_API int bourse_resources_numa_node(const bourse_resources* resources, size_t index, bourse_numa_node* node);

/* [free] Device shares, sorted by id. NULL past the end. */
BOURSE_API size_t bourse_resources_devices(const bourse_resources* resources);
BOURSE_API const bourse_device* bourse_resources_device(const bourse_resources* resources, size_t index);
BOURSE_API const char* bourse_device_id(const bourse_device* device);      /* unique on its agent */
BOURSE_API const char* bourse_device_kind(const bourse_device* device);    /* "gpu/nvidia", "nic/rdma", "fpga", ... */
BOURSE_API uint64_t bourse_device_generation(const bourse_device* device); /* grows when it is set up anew */
BOURSE_API int32_t bourse_device_whole(const bourse_device* device);       /* nobody else has any of it */
BOURSE_API const char* bourse_device_profile(const bourse_device* device); /* "" where it is not shared by profiles */
BOURSE_API size_t bourse_device_counters(const bourse_device* device);     /* sorted by name */
BOURSE_API int bourse_device_counter(const bourse_device* device, size_t index, bourse_amount* counter);

/* [free] Stable text, "cpus=2;mem=4GiB;...". Writes at most `size` bytes with a NUL (as snprintf) and returns the length
 * that the whole text has, without it. `buffer` may be NULL when `size` is 0. */
BOURSE_API int bourse_resources_text(const bourse_resources* resources, char* buffer, size_t size);

/* --- labels ---------------------------------------------------------------------------------------------------------- */

/* [free] Value of a label, or NULL where there is none. Every agent has `host` and `arch`. */
BOURSE_API const char* bourse_labels_get(const bourse_labels* labels, const char* name);
BOURSE_API size_t bourse_labels_count(const bourse_labels* labels);
/* [free] The label that follows `after` in order of names (NULL: the first). 1, or 0 after the last. */
BOURSE_API int bourse_labels_next(const bourse_labels* labels, const char* after, const char** name, const char** value);

/* --- offers ------------------------------------------------------------------------------------------------------------ */

/* [free] Free resources on one agent, for you, until `ttl` has passed since the callback, or it ends before. Keep id and
 * generation to accept it later; the object itself is gone when the callback returns. */
BOURSE_API uint64_t bourse_offer_id(const bourse_offer* offer);
BOURSE_API uint64_t bourse_offer_generation(const bourse_offer* offer);
BOURSE_API const char* bourse_offer_agent(const bourse_offer* offer);
BOURSE_API const bourse_resources* bourse_offer_resources(const bourse_offer* offer);   /* free: this is what is offered */
BOURSE_API const bourse_resources* bourse_offer_agent_total(const bourse_offer* offer); /* what the agent has at all */
BOURSE_API const bourse_labels* bourse_offer_labels(const bourse_offer* offer);
BOURSE_API int64_t bourse_offer_ttl(const bourse_offer* offer);
BOURSE_API uint64_t bourse_offer_line(const bourse_offer* offer);        /* demand line it was made for; 0: wildcard */
BOURSE_API uint64_t bourse_offer_reservation(const bourse_offer* offer); /* gathered for a wide gang; 0: not */
BOURSE_API const char* bourse_offer_reserved(const bourse_offer* offer); /* the operators' reservation it is part of; "": none */
BOURSE_API int64_t bourse_offer_lasts(const bourse_offer* offer);     /* until the agent closes for maintenance; 0: not known to */
BOURSE_API int32_t bourse_offer_revocable(const bourse_offer* offer); /* lent: for revocable shapes only */

/* --- agents (with watch_agents) ---------------------------------------------------------------------------------------- */

enum { /* bourse_agent_state() */
       BOURSE_AGENT_UP = 0,
       BOURSE_AGENT_UNREACHABLE = 1, /* not terminal: its tasks may be running */
       BOURSE_AGENT_DRAINING = 2,
       BOURSE_AGENT_CORDONED = 3,
       BOURSE_AGENT_REMOVED = 4
};
/* [free] Facts that hold still, not free amounts. NULL past the end of the list. */
BOURSE_API size_t bourse_agents_count(const bourse_agents* agents);
BOURSE_API const bourse_agent* bourse_agents_at(const bourse_agents* agents, size_t index);
BOURSE_API const char* bourse_agent_id(const bourse_agent* agent);
BOURSE_API int32_t bourse_agent_state(const bourse_agent* agent);
BOURSE_API const bourse_resources* bourse_agent_total(const bourse_agent* agent);
BOURSE_API const bourse_labels* bourse_agent_labels(const bourse_agent* agent);
BOURSE_API uint64_t bourse_agent_incarnation(const bourse_agent* agent);
BOURSE_API int32_t bourse_agent_degraded(const bourse_agent* agent); /* isolation missing or partial there */
/* [free] The next maintenance window of the agent, or the present one, as wall time. 0: none is known, or it has no end. */
BOURSE_API int64_t bourse_agent_closes(const bourse_agent* agent);
BOURSE_API int64_t bourse_agent_reopens(const bourse_agent* agent);
typedef struct bourse_reserved { /* of an agent, by operators, for a role */
  size_t size;                   /* set by you */
  const char* name;
  const char* role;
  int64_t start, end; /* wall time; end 0: until it is released */
  int32_t named;      /* only for demand that names it: bourse_demand_reservation */
  int32_t whole;      /* all of the agent, not a part */
} bourse_reserved;
/* [free] Reservations of the agent that have not ended, by start. 1, or 0 past the end of the list. */
BOURSE_API int bourse_agent_reserved(const bourse_agent* agent, size_t index, bourse_reserved* reserved);

/* --- events ------------------------------------------------------------------------------------------------------------ */

typedef struct bourse_up_event { /* registered with a (new) leading master; slices and tasks are about to be reported again */
  size_t size;
  uint64_t epoch; /* of the leadership; only grows */
  const char* cluster;
} bourse_up_event;

typedef struct bourse_down_event { /* not connected. The library keeps trying; slices and tasks live on */
  size_t size;
  const char* reason;
} bourse_down_event;

typedef struct bourse_refused_event { /* final: nothing more will come but what you ask for with free */
  size_t size;
  int32_t code; /* GONE: a newer life of this framework has taken over. DENIED: key or name. VERSION */
  const char* reason;
} bourse_refused_event;

enum { /* bourse_offer_ended_event.end */
       BOURSE_OFFER_EXPIRED = 0,
       BOURSE_OFFER_RESCINDED = 1,
       BOURSE_OFFER_AGENT_LOST = 2,
       BOURSE_OFFER_DEMAND_GONE = 3
};
typedef struct bourse_offer_ended_event { /* once for each offer that you neither accepted nor declined */
  size_t size;
  uint64_t offer;
  int32_t end;
} bourse_offer_ended_event;

/* One for each offer named in an accept. OK: its slices are being made, `slice` (or `slice_lost`) follows for each. */
typedef struct bourse_accepted_event {
  size_t size;
  uint64_t sequence; /* as bourse_client_accept() gave it */
  uint64_t offer;
  int32_t code; /* OK; GONE: ended before; INVALID: does not fit; BUSY: another of all-or-nothing failed; LIMIT */
  const char* reason;
} bourse_accepted_event;

/* It exists, with this. Comes again after a reconnect, and when `unhealthy` changes: take it as a fact, not as news. */
typedef struct bourse_slice_event {
  size_t size;
  const char* agent;
  uint64_t slice;
  uint64_t gang; /* 0: none. Of a gang, launch nothing before `gang_ready` */
  const char* role;
  const bourse_resources* resources;
  const uint32_t* cpus; /* hardware threads by the operating system's number; none: shared */
  size_t cpus_count;
  int64_t expiry;        /* idle time after which the agent gives it back; 0: never */
  const char* unhealthy; /* "": all is well; else what is wrong ("device GPU-1 has gone"): its tasks go on, start no more in it */
  int32_t revocable;     /* lent: it ends as BOURSE_SLICE_REVOKED when its memory is needed */
} bourse_slice_event;

enum { /* bourse_slice_lost_event.end */
       BOURSE_SLICE_RELEASED = 0,
       BOURSE_SLICE_IDLE = 1,
       BOURSE_SLICE_REVOKED = 2,
       BOURSE_SLICE_CARVE_FAILED = 3, /* it never came to be */
       BOURSE_SLICE_AGENT_LOST = 4,
       BOURSE_SLICE_HOST_REBOOT = 5,
       BOURSE_SLICE_UNKNOWN = 6, /* the agent came back without it */
       BOURSE_SLICE_GANG_ABORTED = 7
};
typedef struct bourse_slice_lost_event { /* terminal, once */
  size_t size;
  const char* agent;
  uint64_t slice;
  int32_t end;
  const char* reason;
} bourse_slice_lost_event;

typedef struct bourse_recalled_event { /* hand it back within `grace`, else the agent takes it */
  size_t size;
  uint64_t slice;
  int64_t grace;
  const char* reason;
} bourse_recalled_event;

typedef struct bourse_gang_event {
  size_t size;
  uint64_t gang;
  const char* reason; /* of gang_failed; "" for gang_ready */
} bourse_gang_event;

enum { /* bourse_task_event.state; those from EXITED on are terminal */
       BOURSE_TASK_STAGING = 0,
       BOURSE_TASK_RUNNING = 1,
       BOURSE_TASK_EXITED = 2,       /* by itself; exit_code */
       BOURSE_TASK_SIGNALED = 3,     /* by a signal that Bourse did not send; signal */
       BOURSE_TASK_FAILED_START = 4, /* never ran; message says why */
       BOURSE_TASK_KILLED = 5,       /* as you asked */
       BOURSE_TASK_TIME_LIMIT = 6,
       BOURSE_TASK_OUT_OF_MEMORY = 7,
       BOURSE_TASK_PREEMPTED = 8,
       BOURSE_TASK_LOST = 9,          /* declared so, or its host rebooted */
       BOURSE_TASK_UNKNOWN_EXIT = 10, /* it ended, and nobody who could know how is left */
       BOURSE_TASK_NEVER_STARTED = 11 /* it does not run and never will */
};
/* Each exactly once per (agent, stream, sequence) in this client's life, in order. Until you acknowledge it the agent keeps
 * it, and tells it again to the framework's next life. Sequence 0: made on the way (a launch refused); needs no ack. */
typedef struct bourse_task_event {
  size_t size;
  const char* agent;
  uint64_t stream, sequence;
  uint64_t slice;
  const char* task;
  int32_t state;
  int32_t exit_code;
  int32_t signal;
  const char* message; /* a sentence for a person, or "" */
  int64_t started_wall, ended_wall;
  int64_t cpu;         /* user + system of all its processes */
  int64_t memory_peak; /* bytes */
} bourse_task_event;

typedef struct bourse_agents_event {
  size_t size;
  int32_t snapshot; /* these are all there are; what is not in here is gone */
  const bourse_agents* agents;
} bourse_agents_event;

typedef struct bourse_count {
  const char* reason;
  uint32_t agents;
  uint32_t reserved;
} bourse_count;
typedef struct bourse_explained_event { /* counts add up to `agents` */
  size_t size;
  uint64_t tag;
  int32_t code;
  uint32_t agents;
  const bourse_count* counts; /* sorted by reason */
  size_t counts_count;
  const char *nearest, *last_offer, *last_decline, *rank; /* a phrase each, or "" */
  /* Since 0.1 too: constraints and rules on which agents fail first, and on how many. */
  const bourse_count* failing;
  size_t failing_count;
  const char *asks, *quota, *estimate; /* the line's shape; its role's limits; when it may start, where that is known; or "" */
  uint32_t wanted, offered, unmet, reserved; /* units of the line */
} bourse_explained_event;

enum { BOURSE_LOG_DEBUG = 0, BOURSE_LOG_INFO = 1, BOURSE_LOG_WARN = 2, BOURSE_LOG_ERROR = 3 };

/* Each may be NULL: that event is then dropped. Two must not be when you hold slices or tasks: `task` and `slice_lost`. */
typedef struct bourse_callbacks {
  size_t size;
  void* user; /* handed to each */
  void (*up)(void* user, bourse_client* client, const bourse_up_event* event);
  void (*down)(void* user, bourse_client* client, const bourse_down_event* event);
  void (*refused)(void* user, bourse_client* client, const bourse_refused_event* event);
  void (*offer)(void* user, bourse_client* client, const bourse_offer* offer);
  void (*offer_ended)(void* user, bourse_client* client, const bourse_offer_ended_event* event);
  void (*accepted)(void* user, bourse_client* client, const bourse_accepted_event* event);
  void (*slice)(void* user, bourse_client* client, const bourse_slice_event* event);
  void (*slice_lost)(void* user, bourse_client* client, const bourse_slice_lost_event* event);
  void (*recalled)(void* user, bourse_client* client, const bourse_recalled_event* event);
  void (*gang_ready)(void* user, bourse_client* client, const bourse_gang_event* event);
  void (*gang_failed)(void* user, bourse_client* client, const bourse_gang_event* event);
  void (*task)(void* user, bourse_client* client, const bourse_task_event* event);
  void (*agents)(void* user, bourse_client* client, const bourse_agents_event* event);
  void (*explained)(void* user, bourse_client* client, const bourse_explained_event* event);
  void (*woken)(void* user, bourse_client* client); /* after bourse_client_wake(); several may become one */
  void (*idle)(void* user, bourse_client* client);  /* after the last callback of a dispatch that had any: act here, once */
  /* One line "event=... key=value". Without it the library logs nothing. */
  void (*log)(void* user, int32_t level, const char* line);
} bourse_callbacks;

/* --- the client -------------------------------------------------------------------------------------------------------- */

/* Where a text is NULL or a number 0 the meaning in brackets holds. */
typedef struct bourse_client_options {
  size_t size;
  const char* framework;        /* its name; required */
  const char* role;             /* the account it spends from [= framework] */
  const char* config;           /* bourse.conf to read [of BOURSE_DIR, else /etc/bourse; "" reads none] */
  const char* const* endpoints; /* masters, "tcp://host:port", ended by NULL [from the configuration] */
  const char* server_key;   /* the masters' public key, Z85 [from the configuration's key directory; "" is none: no encryption] */
  const char* key_file;     /* this framework's key pair [KEYS/framework=NAME; "" is none] */
  const char* state_dir;    /* counts this framework's lives there [counts by the wall clock] */
  uint64_t incarnation;     /* number of this life, when the framework counts itself; must grow [as state_dir says] */
  int64_t failover_timeout; /* how long slices and tasks stay after the framework has vanished [the cluster's] */
  int32_t watch_agents;     /* deliver `agents` */
  int32_t automatic_acks;   /* acknowledge each status once its callback has returned */
  char* error;              /* or NULL: receives the sentence when open fails, with a NUL, cut to error_size */
  size_t error_size;
} bourse_client_options;

/* [free] Reads configuration and keys, makes the client and starts to connect; returns at once, `up` follows. Both arguments
 * are copied. INVALID: a name or endpoint. NOT_FOUND: no endpoint, or no key where the endpoint needs one. DENIED: others can read
 * the secret key. CORRUPT, IO: a file. */
BOURSE_API int bourse_client_open(const bourse_client_options* options, const bourse_callbacks* callbacks, bourse_client** client);

/* [client] Ends the connection. Slices and tasks stay for the failover timeout: see bourse_client_goodbye(). Not waited for. */
BOURSE_API void bourse_client_free(bourse_client* client);

/* [client] The sentence about the last call on `client` that failed; "" when none has. Valid until the next call. */
BOURSE_API const char* bourse_client_error(const bourse_client* client);

/* [client] One descriptor for the whole client, timers included: put it into your poll, epoll or loop, level-triggered, for
 * reading; when readable call bourse_client_dispatch(). Owned by the client: never read or close it. */
BOURSE_API int bourse_client_fd(const bourse_client* client);

/* [client] Does what there is to do without waiting: at most `max` events (0: no bound) are delivered; when more are left the
 * descriptor stays readable. Number of events delivered, or BUSY inside a callback. */
BOURSE_API int bourse_client_dispatch(bourse_client* client, int max);

/* [client] For programs without a loop: waits and dispatches until bourse_client_stop(). 0, or BUSY inside a callback. */
BOURSE_API int bourse_client_run(bourse_client* client);
/* [client] Makes bourse_client_run() return after the callback at hand; when called outside run, the next run returns at once. */
BOURSE_API int bourse_client_stop(bourse_client* client);

/* [any] Makes the descriptor readable and `woken` be called from the next dispatch. The only call for other threads and
 * signal handlers; the client must not be freed meanwhile. */
BOURSE_API int bourse_client_wake(bourse_client* client);

/* [client] Number of this life; 0 for NULL. */
BOURSE_API uint64_t bourse_client_incarnation(const bourse_client* client);

/* [client] Numbers for a new slice and a new gang, never used before by this framework. GONE after `refused`. */
BOURSE_API int bourse_client_slice_number(bourse_client* client, uint64_t* slice);
BOURSE_API int bourse_client_gang_number(bourse_client* client, uint64_t* gang);

/* All calls below work at any time after open, connected or not: what cannot be sent is kept (within limits: LIMIT) and sent, or
 * answered by an event, once connected. After `refused` they are GONE. What is said in one callback or between two dispatches
 * leaves together when it can. */

/* [client] Replaces the whole demand. Published again by the library after each reconnect. */
BOURSE_API int bourse_client_demand(bourse_client* client, const bourse_demand* demand);

/* [client] Takes slices out of offers. The offers named are used up by it; `accepted` follows for each, with GONE for one that has
 * ended meanwhile. Repeated by the library until answered. INVALID: nothing in it, or an offer or slice number twice. `sequence` or
 * NULL: the number that `accepted` will carry. */
BOURSE_API int bourse_client_accept(bourse_client* client, const bourse_accept* accept, uint64_t* sequence);

enum { /* why offers are declined; feeds `bourse why` */
       BOURSE_DECLINE_NO_WORK = 0,
       BOURSE_DECLINE_TOO_SMALL = 1,
       BOURSE_DECLINE_LABELS = 2,
       BOURSE_DECLINE_LOCALITY = 3,
       BOURSE_DECLINE_RESERVED = 4,
       BOURSE_DECLINE_FULL = 5,
       BOURSE_DECLINE_OTHER = 6
};
/* [client] Gives offers back. `text` (or NULL) says it in your words. For `hold_off` the agents are not offered again for the same
 * demand line. Offers that are not open any more are passed over. */
BOURSE_API int bourse_client_decline(bourse_client* client, const uint64_t* offers, size_t count, int32_t reason, const char* text,
                                     int64_t hold_off);

/* [client] Runs a task in a slice. Allowed as soon as the slice was asked for: the agent waits for it, and into a slice of a gang
 * the library sends it once the gang is ready. `task` is yours to choose and must be unique for ever within the framework:
 * launching it twice runs it once. What cannot start (no such slice, gang failed) comes back as a `task` event with
 * NEVER_STARTED and sequence 0. LIMIT: too many wait to be sent. */
BOURSE_API int bourse_client_launch(bourse_client* client, const char* agent, uint64_t slice, const char* task,
                                    const bourse_task_spec* spec);

typedef struct bourse_kill_options {
  size_t size;
  int32_t signal;             /* 0: end it: SIGTERM, grace, then SIGKILL to all of it. Else just this signal */
  int32_t first_process_only; /* the signal goes to the task's first process alone */
  int32_t preempt;            /* report it as PREEMPTED */
  int32_t has_grace;          /* `grace` holds; else the task's own kill_grace */
  int64_t grace;
  int32_t unstarted_only; /* takes it back if it has not been started (NEVER_STARTED follows); else it goes on untouched */
  int32_t reserved;       /* 0 */
} bourse_kill_options;
/* [client] Idempotent. A task the agent does not know is answered NEVER_STARTED and never starts. `options` or NULL. */
BOURSE_API int bourse_client_kill(bourse_client* client, const char* agent, const char* task, const bourse_kill_options* options);

/* [client] All statuses of that agent's stream up to `through` are safe with you: the agent may forget them. Sequence 0 has no
 * effect. */
BOURSE_API int bourse_client_ack(bourse_client* client, const char* agent, uint64_t stream, uint64_t through);

/* [client] Gives a slice back. Tasks in it are ended, with `grace` between SIGTERM and SIGKILL. `slice_lost` follows. */
BOURSE_API int bourse_client_release(bourse_client* client, uint64_t slice, int64_t grace);

/* [client] For a framework that restarted: the tasks it believes to be on that agent, once per agent, best in `up` or before. The
 * agent tells the status of each, and of any it has that the list lacks. Tasks that this client launched or heard of
 * itself are reconciled by the library. `tasks` may be NULL when `count` is 0. */
BOURSE_API int bourse_client_reconcile(bourse_client* client, const char* agent, const char* const* tasks, size_t count);

/* [client] For tasks on an agent that is unreachable: they are lost from now on, and killed should the agent return. */
BOURSE_API int bourse_client_declare_lost(bourse_client* client, const char* agent, const char* const* tasks, size_t count);

/* [client] Why has demand line `line` not been met? `explained` follows with the same tag; asked again after a reconnect. */
BOURSE_API int bourse_client_explain(bourse_client* client, uint64_t tag, uint64_t line);

/* [client] Leaves in good order; `forever` also releases all slices, kills all tasks and has the identity forgotten. Dispatch
 * until `down` comes (its reason begins with "goodbye"), then free; later calls are GONE. With `forever` and no master to be
 * reached it waits for one, as long as you care to. */
BOURSE_API int bourse_client_goodbye(bourse_client* client, int32_t forever);

/* --- shapes: what one slice needs ---------------------------------------------------------------------------------------- */

/* BOURSE_MATCHES: the one value is an expression of bourse-constraint(7), the label is ignored. */
enum { BOURSE_IN = 0, BOURSE_NOT_IN = 1, BOURSE_PRESENT = 2, BOURSE_ABSENT = 3, BOURSE_MATCHES = 4 };
typedef struct bourse_device_ask {
  size_t size;
  const char* kind;              /* "gpu/nvidia"; a prefix ending in '/' is any of it: "gpu/" */
  uint32_t count;                /* devices */
  int32_t whole;                 /* all of each; else `profile` or `counters` of each */
  const char* profile;           /* or NULL */
  const bourse_amount* counters; /* least amounts on each; NULL when none */
  size_t counters_count;
  const char* attributes; /* constraints over the device's attributes, as bourse_shape_constraints(); or NULL */
} bourse_device_ask;

BOURSE_API int bourse_shape_new(bourse_shape** shape); /* [free] of nothing at all */
BOURSE_API void bourse_shape_free(bourse_shape* shape);
/* [free] Amounts; INVALID when negative. */
BOURSE_API int bourse_shape_cpus(bourse_shape* shape, int64_t milli);
BOURSE_API int bourse_shape_memory(bourse_shape* shape, int64_t bytes);
BOURSE_API int bourse_shape_disk(bourse_shape* shape, int64_t bytes);
BOURSE_API int bourse_shape_ports(bourse_shape* shape, uint32_t count);
BOURSE_API int bourse_shape_amount(bourse_shape* shape, const char* kind, int64_t amount); /* site-declared */
BOURSE_API int bourse_shape_whole_host(bourse_shape* shape, int32_t on);                   /* everything on the agent */
BOURSE_API int bourse_shape_same_numa(bourse_shape* shape, int32_t on); /* cpus, memory and devices from one NUMA node */
BOURSE_API int bourse_shape_revocable(bourse_shape* shape, int32_t on); /* out of what others lend: taken back at any moment */
BOURSE_API int bourse_shape_device(bourse_shape* shape, const bourse_device_ask* ask);
/* [free] Adds constraints over the agent's labels and what it has in total; all must hold. As values; or as text in the language of
 * bourse-constraint(7): "zone in (a,b) & !gpu & (cuda >= 11.8 | agent.mem >= 64GiB)". `values` may be NULL when `count` is 0. */
BOURSE_API int bourse_shape_constraint(bourse_shape* shape, const char* label, int32_t op, const char* const* values, size_t count);
BOURSE_API int bourse_shape_constraints(bourse_shape* shape, const char* text);
/* [any] 0 where that text would be taken, else its code, and in `why` (up to `size` bytes with the NUL; may be NULL when `size` is 0)
 * what is wrong and in which column. */
BOURSE_API int bourse_constraint_check(const char* text, char* why, size_t size);

/* Where the slices of a group belong, seen from where others are. The domains are the values of a label: "zone", "rack", "host". */
enum {
  BOURSE_SPREAD = 0,       /* the fullest domain has at most max_skew more of the group than the emptiest */
  BOURSE_PACK = 1,         /* one domain; as a preference: few */
  BOURSE_AFFINITY = 2,     /* a domain where there is a slice of `framework` and `group` */
  BOURSE_ANTI_AFFINITY = 3 /* a domain where there is none */
};
typedef struct bourse_placement {
  size_t size;
  int32_t kind;
  int32_t required;      /* else a preference: the next best will do */
  const char* level;     /* the label; required */
  uint32_t max_skew;     /* of BOURSE_SPREAD; 0 counts as 1 */
  uint32_t reserved;     /* 0 */
  const char* framework; /* of the affinities; NULL: yours */
  const char* group;     /* of the affinities; NULL: with a framework all that it has, without one the shape's own group */
} bourse_placement;
/* [free] The group that slices of this shape join; NULL or "": none. Give the shape of your accept the same one. */
BOURSE_API int bourse_shape_group(bourse_shape* shape, const char* group);
/* [free] Adds a rule, or several from text: "spread zone:2; prefer pack rack; anti-affinity host of store#db". At most 8 (LIMIT). */
BOURSE_API int bourse_shape_place(bourse_shape* shape, const bourse_placement* rule);
BOURSE_API int bourse_shape_placement(bourse_shape* shape, const char* text);

/* --- demand ---------------------------------------------------------------------------------------------------------------- */

BOURSE_API int bourse_demand_new(bourse_demand** demand); /* [free] for nothing: an empty demand holds no offers */
BOURSE_API void bourse_demand_free(bourse_demand* demand);
BOURSE_API int bourse_demand_clear(bourse_demand* demand);                /* [free] back to that */
BOURSE_API int bourse_demand_wildcard(bourse_demand* demand, int32_t on); /* [free] offer everything that the role may have */
/* [free] `count` slices of `shape` are wanted beyond all that you have accepted before this demand is set, answered or not. What
 * you are being offered, and what you accept later, the master takes off by itself. When an accept or a slice fails, set the
 * demand anew. `line` is your number for it, not 0 and not twice (EXISTS). gang_min > 1: fewer than this many at once are of
 * no use. `priority` orders lines within the framework. */
BOURSE_API int bourse_demand_add(bourse_demand* demand, uint64_t line, const bourse_shape* shape, uint32_t count, uint32_t gang_min,
                                 int32_t priority);
/* [free] How long the shortest work for this line takes at most: agents that close sooner are not offered for it. 0: not said.
 * NOT_FOUND: there is no such line. */
BOURSE_API int bourse_demand_lasts(bourse_demand* demand, uint64_t line, int64_t lasts);
/* [free] The operators' reservation that the line is to come out of, and out of nothing else. "": of what is free, and of what is
 * reserved for your role and not only for lines that name it. NOT_FOUND: there is no such line. */
BOURSE_API int bourse_demand_reservation(bourse_demand* demand, uint64_t line, const char* name);

/* --- accept ---------------------------------------------------------------------------------------------------------------- */

BOURSE_API int bourse_accept_new(bourse_accept** accept); /* [free] */
BOURSE_API void bourse_accept_free(bourse_accept* accept);
BOURSE_API int bourse_accept_clear(bourse_accept* accept);                      /* [free] */
BOURSE_API int bourse_accept_all_or_nothing(bourse_accept* accept, int32_t on); /* [free] else each offer is judged alone */
/* [free] Slices on all agents come to be together or not at all (`gang_ready`, `gang_failed`); implies all_or_nothing. */
BOURSE_API int bourse_accept_gang(bourse_accept* accept, uint64_t gang);
/* [free] Opens the next offer; slices added from here on come out of it. keep_rest: what they leave stays offered. */
BOURSE_API int bourse_accept_offer(bourse_accept* accept, uint64_t offer, uint64_t generation, int32_t keep_rest);
/* [free] A slice out of the offer opened last. `slice` from bourse_client_slice_number(). `expiry`: idle time after which the agent
 * gives it back by itself, 0 never. `line`: the demand line it serves, or 0. INVALID before the first bourse_accept_offer(). */
BOURSE_API int bourse_accept_slice(bourse_accept* accept, uint64_t slice, const bourse_shape* shape, int64_t expiry, uint64_t line);
/* [free] W3C trace context of what it is for: the master's and the agents' spans about it go below that span. "" is none. */
BOURSE_API int bourse_accept_trace(bourse_accept* accept, const char* traceparent);

/* --- task specification ------------------------------------------------------------------------------------------------------ */

enum { BOURSE_PROCESS = 0, BOURSE_CONTAINER = 1, BOURSE_MICRO_VM = 2, BOURSE_KERNEL = 3 };

BOURSE_API int bourse_task_spec_new(bourse_task_spec** spec); /* [free] a process of nobody that runs nothing yet */
BOURSE_API void bourse_task_spec_free(bourse_task_spec* spec);
BOURSE_API int bourse_task_spec_clear(bourse_task_spec* spec); /* [free] to use it again */
BOURSE_API int bourse_task_spec_kind(bourse_task_spec* spec, int32_t kind);
/* [free] Whom it runs as. The host must have the user with that uid. */
BOURSE_API int bourse_task_spec_user(bourse_task_spec* spec, const char* name, uint32_t uid, uint32_t gid);
BOURSE_API int bourse_task_spec_credential(bourse_task_spec* spec, const void* bytes, size_t size);
/* [free] Appends one word; the first is the program. "{artifact:NAME}" as the first word is that artifact's path on the agent. */
BOURSE_API int bourse_task_spec_arg(bourse_task_spec* spec, const char* word);
/* [free] Appends "NAME=value". The agent adds BOURSE_* on top. Nothing else is inherited. */
BOURSE_API int bourse_task_spec_env(bourse_task_spec* spec, const char* assignment);
BOURSE_API int bourse_task_spec_directory(bourse_task_spec* spec, const char* path);
/* [free] Files for the standard streams; NULL or "": /dev/null, and for the error stream: where the output goes. `append`: else
 * truncated at the start. */
BOURSE_API int bourse_task_spec_files(bourse_task_spec* spec, const char* input, const char* output, const char* error,
                                      int32_t append);
BOURSE_API int bourse_task_spec_umask(bourse_task_spec* spec, uint32_t mask);                                   /* [0022] */
BOURSE_API int bourse_task_spec_rlimit(bourse_task_spec* spec, int32_t resource, uint64_t soft, uint64_t hard); /* RLIMIT_* */
/* [free] A named input. digest: "sha256:HEX". `bytes`: its content, or NULL with size 0 when the agent has it or can get it
 * from `uri` (or NULL). EXISTS: the name is taken. */
BOURSE_API int bourse_task_spec_artifact(bourse_task_spec* spec, const char* name, const char* digest, const void* bytes,
                                         size_t size, const char* uri);
BOURSE_API int bourse_task_spec_time_limit(bourse_task_spec* spec, int64_t limit); /* from its start [BOURSE_NO_LIMIT] */
BOURSE_API int bourse_task_spec_kill_grace(bourse_task_spec* spec, int64_t grace); /* SIGTERM to SIGKILL [30 s] */
/* [free] Sends `signal` that long before the time limit; to the first process only, or to all. */
BOURSE_API int bourse_task_spec_warning(bourse_task_spec* spec, int32_t signal, int64_t before, int32_t first_process_only);
/* [free] End it on its own host when the leading master was not heard for the lease, so that it can safely run elsewhere. */
BOURSE_API int bourse_task_spec_fence(bourse_task_spec* spec, int32_t on);
/* [free] Adds a directory or file of the host to what a container sees: "SOURCE[:TARGET[:ro]]". */
BOURSE_API int bourse_task_spec_mount(bourse_task_spec* spec, const char* mount);
/* [free] Adds to what is kept from it: "private-tmp", "private-tmp=memory", "pid", "ipc", "net" or "seccomp". */
BOURSE_API int bourse_task_spec_isolate(bourse_task_spec* spec, const char* word);
BOURSE_API int bourse_task_spec_trace(bourse_task_spec* spec, const char* traceparent); /* W3C trace context */
/* [free] Not before the tasks that its slice was given earlier have ended, then at once: keeps a slice busy with short tasks. Until
 * then it is STAGING, and a kill with `unstarted_only` takes it back. */
BOURSE_API int bourse_task_spec_in_turn(bourse_task_spec* spec, int32_t on);
/* In a revocable slice: of all such tasks on a host the one with the lowest goes first when memory is short [0]. */
BOURSE_API int bourse_task_spec_priority(bourse_task_spec* spec, int32_t priority);
/* Of BOURSE_MICROVM: what it boots, "kernel=PATH,initrd=PATH[,disk=PATH][,arch=NAME][,append=WORDS]" or "disk=PATH[,arch=NAME]", with full
 * paths on the agent's host. Its slice needs a device of kind "hypervisor/" with its counter "guests" at 1.
 * Of BOURSE_CONTAINER: a root directory or an OCI image layout on the agent's host, "DIR" or "DIR:TAG". */
BOURSE_API int bourse_task_spec_image(bourse_task_spec* spec, const char* image);

#ifdef __cplusplus
}
#endif

#endif /* BOURSE_FRAMEWORK_H */
