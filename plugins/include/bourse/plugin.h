/* bourse/plugin.h - write a plugin for the Bourse resource scheduler: a policy or a probe.
 *
 * A plugin is a shared object that exports one constant, `bourse_plugin_entry`. Everything else goes through named, versioned
 * interfaces, both ways: the host asks the entry's get() for "bourse.policy/1", the plugin asks the host's get() for
 * "bourse.log/1". Who does not know a name answers NULL, and the other side goes without. That is how both grow.
 * bourse-policy(7) is a tutorial whose example is plugins/examples/shortest.c; `bourse plugin check FILE.so` tests a plugin
 * against what is said here.
 *
 * Conventions, for every function below
 *
 * Units. Times are int64_t microseconds. CPU amounts are in thousandths of a core, memory in bytes, devices in thousandths of a
 *   device; BOURSE_UNLIMITED is "no limit". Amounts are never negative. Weights are in thousandths: 1000 is the usual one.
 *   Strings are UTF-8 and end in NUL.
 *
 * Structs that grow begin with `size`, the bytes that whoever filled it knows. Read no field that lies beyond `size`. Arrays of
 *   them are walked in steps of the first one's `size` (BOURSE_AT). Functions in an interface struct that lie beyond its `size`,
 *   or are NULL and marked "or NULL", are not there.
 *
 * Lifetime. What a call hands over (structs, arrays, strings) is valid until that call returns: copy what you keep. The
 *   entry, interface structs and what they point at must stay valid for ever: the host never unloads a plugin.
 *
 * Threads. Tags on each function: [main] the thread that loads plugins, before any other use; [actor] the one thread that runs
 *   the scheduler; calls on one object never overlap. Start no threads, take no signals, change no process state (locale,
 *   environment, working directory, signal masks, limits).
 *
 * Exceptions and longjmp must not leave a plugin. A crash is noticed: the host is restarted without the plugin.
 *
 * Results. 0 is success, negative a failure (BOURSE_FAILED where there is no more to say).
 */
#ifndef BOURSE_PLUGIN_H
#define BOURSE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BOURSE_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define BOURSE_PLUGIN_EXPORT
#endif

/* The host loads what has its own major number. Minor numbers only tell what a plugin was compiled against. */
#define BOURSE_PLUGIN_ABI_MAJOR 1
#define BOURSE_PLUGIN_ABI_MINOR 0

#define BOURSE_UNLIMITED INT64_MAX
#define BOURSE_NONE UINT32_MAX /* no such handle */
#define BOURSE_FAILED (-1)

/* Element i of an array of structs that grow. */
#define BOURSE_AT(type, array, i) ((const type*)(const void*)((const char*)(array) + (size_t)(i) * (array)->size))

/* ---------------------------------------------------------------------------------------------------------------- host -- */

/* What a plugin sees of the program that loaded it. Valid from init() to fini(), and, for the one that create() was given, until
 * destroy(). */
typedef struct bourse_host {
  uint32_t size;
  uint32_t abi_major, abi_minor;
  const char* name;    /* "bourse-master", "bourse-batch", "bourse-agent", "bourse" */
  const char* version; /* of that program */
  void* context;       /* the host's own: leave it alone */

  /* [main, actor] An interface of the host by its name, or NULL where this host has none such. Valid for ever. */
  const void* (*get)(const struct bourse_host* host, const char* interface_id);
} bourse_host;

/* "bourse.log/1": a line in the host's log. Lines beyond 100 a second are counted and dropped. */
#define BOURSE_LOG_1 "bourse.log/1"
enum { BOURSE_LOG_DEBUG = 0, BOURSE_LOG_INFO = 1, BOURSE_LOG_WARN = 2, BOURSE_LOG_ERROR = 3 };
typedef struct bourse_log_1 {
  uint32_t size;
  void (*write)(const bourse_host* host, int level, const char* text); /* [main, actor] one line, at most 1000 bytes of it */
} bourse_log_1;

/* "bourse.random/1": the only randomness that a policy may use. From the host's seed, the same in every run with that seed. */
#define BOURSE_RANDOM_1 "bourse.random/1"
typedef struct bourse_random_1 {
  uint32_t size;
  uint64_t (*next)(const bourse_host* host); /* [actor] 64 uniform bits; only with the host that create() was given */
} bourse_random_1;

/* "bourse.math/1": functions whose last bit is the same on every machine, which the C library's are not. Use these in whatever
 * decides; compile with -ffp-contract=off. */
#define BOURSE_MATH_1 "bourse.math/1"
typedef struct bourse_math_1 {
  uint32_t size;
  double (*exp)(double x);
  double (*log)(double x);
  double (*pow)(double x, double y);
  double (*sqrt)(double x);
} bourse_math_1;

/* --------------------------------------------------------------------------------------------------------------- entry -- */

typedef struct bourse_plugin {
  uint32_t size;                 /* sizeof(bourse_plugin) */
  uint32_t abi_major, abi_minor; /* BOURSE_PLUGIN_ABI_MAJOR, BOURSE_PLUGIN_ABI_MINOR */
  const char* kind;              /* "policy", "probe" */
  const char* name;              /* 1 to 63 of [a-z0-9_-], begins with a letter */
  const char* version;           /* 1 to 63 printable characters, for people */

  /* [main] or NULL. Once, before anything else; not 0: the plugin is refused. */
  int (*init)(const bourse_host* host);
  /* [main] or NULL. Once, after every object is destroyed; the code stays mapped. init() may follow again. */
  void (*fini)(void);
  /* [main] An interface of the plugin by its name, valid for ever, or NULL. */
  const void* (*get)(const char* interface_id);
} bourse_plugin;

extern BOURSE_PLUGIN_EXPORT const bourse_plugin bourse_plugin_entry;

/* -------------------------------------------------------------------------------------------------------------- policy -- */
/* A policy ranks claimants and scores placements: frameworks over agents in the master, waiting jobs over nodes in the batch
 * framework, in production and in `bourse simulate` alike. It is a deterministic state machine: the same calls give the same
 * answers, on every machine. It has no clock (it is told the time), no randomness but the host's, no files, no threads.
 *
 * Handles. The host numbers accounts, claimants and agents, each from 0, densely, below BOURSE_HANDLES_MAX; a number is used
 * again after its owner was removed. Index arrays by them.
 *
 * Order of calls. create; load or not; kinds, before amounts of those kinds are told; an account before its children and its
 * claimants; then deltas, begin, next, rank, score, feedback, save in any order; destroy. An account or agent is removed after
 * what refers to it. Deltas may come between begin and next.
 *
 * Amount vectors have one entry per kind, in the order of kinds(); entries beyond a vector's length are 0.
 */
#define BOURSE_POLICY_1 "bourse.policy/1"
#define BOURSE_KINDS_MAX 64
#define BOURSE_COUNTERS_MAX 8
#define BOURSE_DEVICES_MAX 1024       /* of one agent */
#define BOURSE_HANDLES_MAX (1u << 24) /* of each sort */
#define BOURSE_PARAMS_MAX 64
#define BOURSE_STATE_MAX (16u << 20) /* bytes of a saved state */
#define BOURSE_KIND_CPUS 0           /* always there, thousandths of a core */
#define BOURSE_KIND_MEM 1            /* always there, bytes */

typedef struct bourse_policy bourse_policy; /* the plugin's own */

typedef struct bourse_param {
  uint32_t size;
  const char* key; /* sorted, each once */
  const char* value;
} bourse_param;

/* Kinds from 2 on are kinds of devices ("gpu/nvidia", "npu/ascend", "fpga"). The amount of a device kind is in thousandths of
 * devices: a whole device is 1000, a part of one what it has of the counter "compute", or 1000 where it has none. A name that ends
 * in '/' is only asked for, and stands for every kind that begins so. */
typedef struct bourse_kind {
  uint32_t size;
  const char* name;  /* "cpus", "mem", "gpu/nvidia", ... */
  uint32_t counters; /* of each device of the kind, at most BOURSE_COUNTERS_MAX; 0: devices are only had whole */
  const char* const* counter_names;
} bourse_kind;

/* Whom things are charged to: roles in the master, users and accounts in batch. They form a tree. */
typedef struct bourse_account {
  uint32_t size;
  uint32_t handle;
  uint32_t parent;     /* BOURSE_NONE: a root */
  uint32_t weight;     /* thousandths, 1 to 1,000,000,000 */
  const char* name;    /* full: "org/team" */
  uint32_t kinds;      /* length of `used` */
  const int64_t* used; /* all that is held in this account's name and in its descendants' */
} bourse_account;

typedef struct bourse_device_ask { /* for each unit */
  uint32_t size;
  uint32_t kind;
  uint32_t count;       /* devices */
  uint32_t whole;       /* not 0: each of them as a whole, else `least` of each */
  uint32_t counters;    /* length of `least` */
  const int64_t* least; /* by counter of the kind */
} bourse_device_ask;

typedef struct bourse_claimant {
  uint32_t size;
  uint32_t handle;
  uint32_t account;     /* BOURSE_NONE: its own */
  uint32_t weight;      /* thousandths, 1 to 1,000,000,000 */
  int64_t priority;     /* higher goes first, before any other rule */
  uint64_t order;       /* breaks ties, lower first: a job's number; 0 for frameworks */
  const char* name;     /* breaks ties after `order`: bytewise, smaller first; "" for jobs */
  int64_t submitted_us; /* when it began to wait, on the clock of begin(); 0: unknown */
  int64_t limit_us;     /* how long it is planned to hold what it gets; BOURSE_UNLIMITED */
  uint64_t units;       /* it wants now; 0: nothing, it is not ranked */
  uint32_t gang;        /* units that start together or not at all, at least 1 */
  uint32_t kinds;       /* length of both vectors */
  const int64_t* ask;   /* one unit */
  const int64_t* used;  /* what it holds now */
  uint32_t device_asks; /* details of `ask` for devices */
  const bourse_device_ask* devices;
} bourse_claimant;

typedef struct bourse_device {
  uint32_t size;
  uint32_t kind;
  uint32_t whole;       /* not 0: nobody has a part of it */
  uint32_t counters;    /* length of both vectors */
  const int64_t* total; /* by counter of the kind */
  const int64_t* free;
} bourse_device;

typedef struct bourse_agent {
  uint32_t size;
  uint32_t handle;
  const char* name;
  uint32_t kinds; /* length of both vectors */
  const int64_t* total;
  const int64_t* free;
  uint32_t devices; /* at most BOURSE_DEVICES_MAX, in order of their ids */
  const bourse_device* device;
} bourse_agent;

typedef struct bourse_placement { /* what is to be placed */
  uint32_t size;
  uint32_t claimant; /* BOURSE_NONE: unknown */
  uint32_t kinds;
  const int64_t* ask; /* one unit */
  uint32_t device_asks;
  const bourse_device_ask* devices;
} bourse_placement;

/* How good an agent is for a placement. Higher is better; equal scores: the host's order of candidates decides. */
typedef struct bourse_score {
  double score;    /* in [0, 1]; or BOURSE_UNFIT: never there */
  uint32_t device; /* index into the agent's devices that should be used, for one device ask; BOURSE_NONE: any. Preset */
} bourse_score;
#define BOURSE_UNFIT (-1.0)

enum {
  BOURSE_STARTED = 1,  /* units of it hold what they asked for */
  BOURSE_ENDED = 2,    /* and gave it back */
  BOURSE_DECLINED = 3, /* the claimant did not want what was offered */
  BOURSE_SKIPPED = 4,  /* it was given by next() but nothing fitted */
};
typedef struct bourse_feedback {
  uint32_t size;
  uint32_t event;
  uint32_t claimant, account; /* BOURSE_NONE: gone by now */
  int64_t now_us;
  uint64_t units;
  int64_t wait_us;  /* STARTED, ENDED: from submission to start */
  int64_t run_us;   /* ENDED */
  int64_t limit_us; /* as planned */
  uint32_t kinds;
  const int64_t* ask; /* one unit */
} bourse_feedback;

/* What next() says. */
enum {
  BOURSE_NEXT_END = 0,
  BOURSE_NEXT = 1,
  BOURSE_NEXT_RESERVE = 2 /* and if it does not fit, those after it may not have what it waits for */
};

/* What a policy wants to be told; the host may leave out the rest. */
enum { BOURSE_WANTS_AGENTS = 1u, BOURSE_WANTS_USED = 2u, BOURSE_WANTS_FEEDBACK = 4u };

typedef struct bourse_policy_1 {
  uint32_t size;
  uint32_t wants; /* BOURSE_WANTS_... */

  /* [actor] A new policy in *policy, which then knows nothing, or a negative code and a sentence for the operator in `error` (of
   * `capacity` bytes, with NUL): an unknown key, a value out of range. `params` is NULL where count is 0. The host stays valid
   * until destroy(). */
  int (*create)(const bourse_host* host, const bourse_param* params, uint32_t count, bourse_policy** policy, char* error,
                uint32_t capacity);
  void (*destroy)(bourse_policy* policy); /* [actor] */

  /* Deltas. [actor]
   * The table of kinds: first before everything else; later ones only have more at the end, of kinds and of their counters. */
  void (*kinds)(bourse_policy* policy, const bourse_kind* kinds, uint32_t count);
  /* All that the cluster has. Kinds whose total is 0 must not count in shares. */
  void (*total)(bourse_policy* policy, const int64_t* total, uint32_t kinds);
  void (*account)(bourse_policy* policy, const bourse_account* account); /* new, or changed in any way */
  void (*account_used)(bourse_policy* policy, uint32_t account, const int64_t* used, uint32_t kinds);
  void (*account_removed)(bourse_policy* policy, uint32_t account);
  void (*claimant)(bourse_policy* policy, const bourse_claimant* claimant); /* new, or changed in any way */
  void (*claimant_used)(bourse_policy* policy, uint32_t claimant, const int64_t* used, uint32_t kinds);
  void (*claimant_units)(bourse_policy* policy, uint32_t claimant, uint64_t units);
  void (*claimant_removed)(bourse_policy* policy, uint32_t claimant);
  void (*agent)(bourse_policy* policy, const bourse_agent* agent); /* or NULL. New, or changed in any way */
  void (*agent_removed)(bourse_policy* policy, uint32_t agent);    /* or NULL */

  /* Ranking. [actor] Without rank() the policy only scores.
   *
   * Puts `count` claimants that want something in order, best first, in place. `agent` is the one that has something free, or
   * BOURSE_NONE: no one agent is meant. now_us is since 1970 UTC in batch, since some start in the master; it may step back,
   * then waits are to be taken as 0. Costs at most O(n log n). */
  void (*rank)(bourse_policy* policy, int64_t now_us, uint32_t agent, uint32_t* claimants, uint32_t count); /* or NULL */
  /* or NULL, both: the host then makes the walk from rank(). begin() starts a walk over all that want something, best first, and
   * ends the walk before. next() gives the best one that lies after the last one given (*claimant is written only with
   * BOURSE_NEXT and BOURSE_NEXT_RESERVE). Deltas may come in between: a claimant that was given and now ranks behind the last
   * one given is met again; one that was not and now ranks ahead of it is not met in this walk. */
  void (*begin)(bourse_policy* policy, int64_t now_us, uint32_t agent);
  int (*next)(bourse_policy* policy, uint32_t* claimant);

  /* Placement. [actor] or NULL: the host's own rule (batch: lowest index; master: the fullest that fits). `agents` are candidates on
   * which the ask fits by the host's book, in the order that decides between equal scores; scores[i] is preset to {0, BOURSE_NONE}. */
  void (*score)(bourse_policy* policy, const bourse_placement* placement, const uint32_t* agents, uint32_t count,
                bourse_score* scores);

  void (*feedback)(bourse_policy* policy, const bourse_feedback* feedback); /* [actor] or NULL */

  /* State that is worth keeping over a reload, a restart, a change of leader: what was learned, not what deltas will tell again.
   * [actor] or NULL, both. save() returns the bytes it has, at most BOURSE_STATE_MAX, and writes them if they fit into
   * `capacity`. load() comes right after create(), with what any version of this policy has saved: refuse (negative) what you do
   * not understand, and be as new. */
  int64_t (*save)(bourse_policy* policy, void* buffer, uint64_t capacity);
  int (*load)(bourse_policy* policy, const void* state, uint64_t bytes);
} bourse_policy_1;

/* --------------------------------------------------------------------------------------------------------------- probe -- */
/* A probe looks at one kind of hardware of a host and says what it finds. It runs in a process of its own, bourse-helper, for each look
 * anew, with a time limit (agent.probe_limits, plugin): there it may block, open libraries, start threads, crash. Crashing costs what
 * it would have found, nothing else. plugins/examples/probe_acme.c is one.
 *
 * Everything is read below `root` ("" for the host itself), so that a test can show it a tree of files: open root + "/sys/...".
 * Devices need an id that is the same at each look and after a reboot. The same id as another probe's is the same device: facts
 * are merged, of two amounts the smaller counts, and the disagreement is shown by `bourse probe`.
 */
#define BOURSE_PROBE_1 "bourse.probe/1"

/* How a device is shared. */
enum {
  BOURSE_SHARE_EXCLUSIVE = 0, /* whole only */
  BOURSE_SHARE_COUNTERS = 1,  /* by amounts of its counters */
  BOURSE_SHARE_TEMPLATE = 2,  /* by its profiles only */
  BOURSE_SHARE_TIME = 3       /* by turns */
};

typedef struct bourse_found_device {
  uint32_t size;
  uint32_t sharing;      /* BOURSE_SHARE_... */
  const char* id;        /* letters, digits and ._/+@:-, at most 128, unique on the host */
  const char* kind;      /* "npu/acme": what jobs ask for */
  const char* vendor;    /* or NULL */
  const char* model;     /* or NULL */
  const char* pci;       /* "0000:3b:00.0", or NULL */
  int32_t numa;          /* node of the host, or -1 */
  const char* unhealthy; /* NULL: it is well; else why not: it is then known and not given away */
  const char* source;    /* where this is from: "/sys/class/acme/acme0", for people */
} bourse_found_device;

/* Where a probe puts what it finds. All return 0, or a negative code where the word is refused: a name that is none, an amount below
 * zero, a share ("compute") over 1000, a device that was not reported or was reported already. [probe] */
typedef struct bourse_findings_1 {
  uint32_t size;
  void* context; /* the host's: hand the whole struct back */
  int (*device)(const struct bourse_findings_1* findings, const bourse_found_device* device);
  /* Of a device that was reported. "mem" is in MiB, "compute" in thousandths of it, others in what the site agrees on. */
  int (*counter)(const struct bourse_findings_1* findings, const char* device, const char* name, int64_t amount);
  int (*profile)(const struct bourse_findings_1* findings, const char* device, const char* profile, const char* counter,
                 int64_t amount);
  int (*attribute)(const struct bourse_findings_1* findings, const char* device, const char* name, const char* value);
  int (*node)(const struct bourse_findings_1* findings, const char* device, const char* path); /* below /dev */
  int (*variable)(const struct bourse_findings_1* findings, const char* device, const char* name,
                  const char* value); /* of its tasks */
  /* Of the host. */
  int (*amount)(const struct bourse_findings_1* findings, const char* kind, int64_t amount);
  int (*label)(const struct bourse_findings_1* findings, const char* name, const char* value);
  int (*note)(const struct bourse_findings_1* findings, const char* text);
} bourse_findings_1;

typedef struct bourse_probe_1 {
  uint32_t size;
  /* [probe] 0: all that there is has been reported, which may be nothing. Negative: could not look; a sentence in `error` (of
   * `capacity` bytes, with NUL), and what was reported is not used. */
  int (*look)(const bourse_host* host, const char* root, const bourse_findings_1* findings, char* error, uint32_t capacity);
} bourse_probe_1;

#ifdef __cplusplus
}
#endif

#endif /* BOURSE_PLUGIN_H */
