// Every key of bourse.conf, with its type, default, range and sentence. bourse.conf(5) is checked against this table.
#include "common/world/config.h"

namespace bourse {
namespace {

constexpr std::int64_t us(std::int64_t s) { return s * 1'000'000; }
constexpr std::int64_t kDay = us(24LL * 3600);
constexpr std::int64_t kMiBytes = 1024LL * 1024;
using enum ConfigType;

}  // namespace

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> keys = {
      {"cluster", "name", kText, "bourse", "Name of the cluster, shown by status and given to tasks as BOURSE_CLUSTER."},
      {"cluster", "masters", kList, "tcp://127.0.0.1:7400",
       "Endpoints of all masters, at which agents, frameworks and tools find the one that leads."},
      {"cluster", "server_key", kText, "",
       "File with the master's public key (its .pub); empty means DIR/master.pub in the key directory."},
      {"cluster", "keys", kText, "", "Directory of the keys that are allowed, one IDENTITY.pub each; empty means the usual place."},
      {"cluster", "munge_socket", kText, "", "Socket of munged for submit and batch; empty means its usual one."},

      {"master", "listen", kText, "tcp://127.0.0.1:7400", "Endpoint on which the master serves agents, frameworks and tools."},
      {"master", "readers", kText, "",
       "Endpoint for those who only look, such as status and the console; empty means another port of listen's address, any free "
       "one."},
      {"master", "state", kText, "", "Directory of the master's registry; empty means the usual place."},
      {"master", "id", kText, "",
       "Name of this master among the masters; empty means that of its state directory, which begins with the host's name."},
      {"master", "raft", kText, "",
       "Endpoint on which this master hears the other masters; empty means that it is alone and can have none beside it."},
      {"master", "peers", kList, "",
       "Masters that a new cluster begins with, each as NAME=tcp://HOST:PORT of its raft endpoint; empty means this one alone."},
      {"master", "leader_lease", kDuration, "8s",
       "Time within which another master leads after the leader was lost; half of it is how long masters wait for each other.",
       us(1), us(60)},
      {"master", "offer_ttl", kDuration, "10s", "Time that a framework has to answer an offer.", us(1) / 10, kDay},
      {"master", "heartbeat", kDuration, "5s", "Longest time that a peer may stay silent while all is well.", us(1) / 100,
       us(3600)},
      {"master", "peer_timeout", kDuration, "30s", "Silence after which an agent is unreachable and a framework disconnected.",
       us(1) / 10, kDay},
      {"master", "failover_timeout", kDuration, "7d",
       "Time that slices and tasks of a framework that is gone are kept for its return.", 0, 365 * kDay},
      {"master", "coalesce", kDuration, "2ms",
       "Time between a change and the allocation pass that looks at it, so that changes are seen together.", 0, us(10)},
      {"master", "revoke_grace", kDuration, "30s",
       "Notice that a framework gets of slices that are taken back, as by a drain at its deadline.", 0, us(3600)},
      {"master", "gang_hold", kDuration, "10s",
       "Time within which every agent of a gang must have answered, else the gang is given up.", us(1) / 10, us(3600)},
      {"master", "policy", kText, "drf",
       "Order of frameworks and choice of agents: a policy's name or the path of its plugin, with :key=value,... its parameters."},
      {"master", "policy_budget", kDuration, "50ms", "Time that a plugin may take for one ranking before it is left aside.",
       us(1) / 1000, us(1)},

      {"agent", "id", kText, "", "Name of this host in the cluster; empty means the host name."},
      {"agent", "state", kText, "", "Directory of the agent's checkpoint and exit records; empty means the usual place."},
      {"agent", "labels", kTable, "", "Labels of this host, such as rack, zone and region; frameworks can ask for them."},
      {"agent", "reserve_cpus", kInteger, "0", "Hardware threads that are kept for the system and never offered.", 0, 65'536},
      {"agent", "reserve_mem", kSize, "0", "Memory that is kept for the system and never offered.", 0, INT64_MAX},
      {"agent", "isolation", kText, "auto",
       "Whether slices are isolated by cgroups (auto: where the host allows it) or not at all (off).", 0, INT64_MAX, "auto|off"},
      {"agent", "cgroup_root", kText, "bourse",
       "Name of the cgroup, below the root of each hierarchy, under which slices are made."},
      {"agent", "topology", kText, "",
       "hwloc XML file or synthetic description to use instead of the host's own topology; empty means the host's."},
      {"agent", "probes", kList, "",
       "Probes to run, or those not to run with a - in front; empty means all that look by themselves (bourse probe --list)."},
      {"agent", "probe_limits", kTable, "",
       "Time limit of a probe by its name, over the built-in one; libraries of vendors can be slow."},
      {"agent", "probe_options", kTable, "", "Options of probes, as \"PROBE.OPTION\" = \"value\"; see bourse-agent(8)."},
      {"agent", "probe_root", kText, "/", "Directory that has proc, sys and dev of the host; other than / in tests only."},
      {"agent", "probe_plugins", kList, "",
       "Shared objects with probes of the site's own, by their full paths; see bourse-agent(8)."},
      {"agent", "declare", kText, "",
       "Declaration of devices and amounts that no probe knows: a TOML file or a directory of them; empty means devices.d beside "
       "bourse.conf."},
      {"agent", "reprobe", kDuration, "5m",
       "Time between two looks at the hardware when nothing announces a change; 0 means that only hot-plug events and requests "
       "count.",
       0, 7 * kDay},
      {"agent", "helper", kText, "", "Path of bourse-helper, in which probes run; empty means the one installed with the agent."},
      {"agent", "executor", kText, "real",
       "Whether tasks are really started (real) or only pretended to run (mock), for tests of scale.", 0, INT64_MAX, "real|mock"},
      {"agent", "launcher", kText, "", "Path of bourse-launcher; empty means the one installed with the agent."},
      {"agent", "identity", kText, "",
       "File of root's that says what proof of its user a task needs, see bourse-launcher(8); empty means launcher.conf beside "
       "bourse.conf, "
       "where there is one."},
      {"agent", "kill_grace", kDuration, "30s", "Time between SIGTERM and SIGKILL where a task does not say its own.", 0, kDay},
      {"agent", "max_pids", kInteger, "32768", "Most processes and threads that one slice may have.", 1, 4'194'304},
      {"agent", "memory_high", kInteger, "0",
       "Part of a slice's memory, in permille, from which on its tasks are slowed down and reclaimed from; 0 means none.", 0, 1000},
      {"agent", "io_limits", kList, "",
       "Limits for reading and writing by each slice, per disk, such as /dev/sda:rbps=100MiB,wbps=50MiB,riops=500,wiops=500."},
      {"agent", "limit_devices", kFlag, "true",
       "Whether tasks may open only the usual devices, those of allow_devices, and those of their slice."},
      {"agent", "allow_devices", kList, "/dev/fuse",
       "Device nodes that every task may open as far as their permissions allow; a * in the last part stands for any text."},
      {"agent", "private_tmp", kText, "off",
       "Whether each task gets an empty /tmp and /var/tmp of its own, in memory that counts as its slice's or on disk.", 0,
       INT64_MAX, "off|memory|disk"},
      {"agent", "namespaces", kList, "", "Namespaces that each task gets for its own: pid, ipc, net."},
      {"agent", "no_new_privileges", kFlag, "true",
       "Whether setuid programs such as sudo and ping run without their privileges in tasks."},
      {"agent", "capabilities", kList, "default",
       "Capabilities that a task of root can have at most; default, none, all, or names as in capabilities(7)."},
      {"agent", "seccomp", kText, "auto",
       "Whether system calls for the administration of the host fail: in tasks of root (auto), all tasks (on) or none (off).", 0,
       INT64_MAX, "auto|on|off"},
      {"agent", "image_max", kSize, "32GiB", "Most that the image of a container may be when it is unpacked.", 1 << 20, INT64_MAX},
      {"agent", "oversubscribe", kFlag, "false",
       "Whether what slices have and do not use is lent to work that may be ended at any moment; see bourse-agent(8)."},
      {"agent", "oversubscribe_every", kDuration, "10s", "Time between two looks at what slices use, while nothing is lent.", us(1),
       us(3600)},
      {"agent", "oversubscribe_window", kDuration, "60s", "The most that a slice used within this time is not lent.", us(1), kDay},
      {"agent", "oversubscribe_settle", kDuration, "60s", "Nothing is lent of a slice that is younger than this.", 0, kDay},
      {"agent", "oversubscribe_keep", kInteger, "20", "Part of each slice, in percent, that is not lent although it is not used.",
       0, 100},
      {"agent", "pressure_evict", kInteger, "60",
       "Memory pressure (some avg10, in percent) from which on lent slices are taken back, the lowest priority first.", 1, 100},
      {"agent", "pressure_stop", kInteger, "40", "Memory pressure below which no more lent slices are taken back.", 0, 100},
      {"agent", "pressure_notice", kDuration, "1s",
       "Time that lent slices get, slowed down and warned, before the first is taken back.", 0, us(3600)},
      {"agent", "prewarm", kFlag, "false",
       "Whether instances of images that are often started are kept ready; see bourse-agent(8)."},
      {"agent", "prewarm_memory", kSize, "1GiB", "Memory that instances which wait for a task may have together.", 0, INT64_MAX},

      {"batch", "listen", kList, "",
       "Endpoints on which the batch framework serves submit and queue: unix://PATH for the tools of this host, tcp://HOST:PORT "
       "for "
       "programs elsewhere with an allowed key. Empty means batch.sock in the run directory, where the tools look for it."},
      {"batch", "store", kText, "",
       "Where the queue and its history are kept: empty means a file in batch.state, postgresql://... a database that several "
       "instances share, of which one is active."},
      {"batch", "takeover", kDuration, "10s",
       "Time without a sign of the active instance after which a standby that shares its store takes the queue over.", us(1),
       us(3600)},
      {"batch", "state", kText, "", "Directory of the job queue and accounting database; empty means the usual place."},
      {"batch", "role", kText, "batch", "Role, that is the account, in whose name the batch framework asks for resources."},
      {"batch", "framework", kText, "batch", "Name under which the batch framework registers with the master."},
      {"batch", "identity", kText, "local",
       "How a job's user is proven: by the local socket alone (local), by a MUNGE credential that submit brings (munge), or by our "
       "signature "
       "for what the local socket says (signed).",
       0, INT64_MAX, "local|munge|signed"},
      {"batch", "signing_key", kText, "",
       "File of the key that batch signs with, made by bourse key sign; empty means batch.sign in the key directory."},
      {"batch", "slice_reuse", kFlag, "true",
       "Whether a slice is kept for the next job of the same user and shape instead of being given back."},
      {"batch", "slice_idle", kDuration, "2s", "Time that a kept slice may stay without a job.", 0, us(3600)},
      {"batch", "launch_ahead", kDuration, "100ms",
       "How much work of short jobs may be sent to a kept slice while it is busy, to start there one after the other; 0 is none.",
       0, us(1)},
      {"batch", "slurm_commands", kFlag, "true",
       "Whether jobs find srun, squeue and the like (bourse-slurm(1)) in front of their PATH."},
      {"batch", "backfill", kText, "easy",
       "Who may start ahead of the first waiting job: nobody (none), what does not delay it (easy; easy-count by counting what is "
       "free in the whole cluster), or what delays nobody ahead (conservative).",
       0, INT64_MAX, "none|easy|easy-count|conservative"},
      {"batch", "backfill_depth", kInteger, "100",
       "Waiting jobs (alike ones count once) looked at behind the first; with conservative, jobs that have a reservation.", 1,
       1'000'000},
      {"batch", "policy", kText, "fifo",
       "Order of waiting jobs: a policy's name or the path of its plugin, with :key=value,... its parameters."},
      {"batch", "policy_budget", kDuration, "50ms", "Time that a plugin may take for one ranking before it is left aside.",
       us(1) / 1000, us(1)},
      {"batch", "policy_learnt", kText, "",
       "A file that `bourse simulate --learnt' wrote: what a policy that learns begins with where the queue's store knows nothing "
       "of it."},
      {"batch", "shadow_policy", kList, "",
       "Candidates for policy, at most 4: what they would have done with the same jobs is compared and told; nothing depends on "
       "it."},
      {"batch", "shadow_every", kDuration, "5m", "Time between two such comparisons.", us(1), us(86400)},
      {"batch", "mail_program", kText, "",
       "Program that sends mail to users (--mail-type), called as PROGRAM -s SUBJECT ADDRESS with the text on its standard input; "
       "one named sendmail gets a whole message. Empty means mail or sendmail where they usually are; none sends nothing."},
      {"batch", "default_time_limit", kDuration, "1h", "Time limit of a job that does not state one.", us(1), INT64_MAX},
      {"batch", "max_time_limit", kDuration, "unlimited", "Longest time limit that a job may state.", us(1), INT64_MAX},
      {"batch", "default_mem_per_cpu", kSize, "256MiB",
       "Memory per hardware thread of a job that does not state any; 0 means that such a job has no memory limit.", 0, INT64_MAX},
      {"batch", "kill_wait", kDuration, "30s", "Time between SIGTERM and SIGKILL at a job's time limit.", 0, us(3600)},
      {"batch", "requeue_max", kInteger, "3", "Times that a job is queued again by itself after it was lost or preempted.", 0,
       1000},
      {"batch", "history_keep", kDuration, "90d", "Time that the records of finished jobs are kept.", 0, INT64_MAX},
      {"batch", "submit_max_bytes", kSize, "4MiB", "Largest job script that is accepted.", 1024, 64 * kMiBytes},
      {"batch", "queue_max", kInteger, "1000000", "Most jobs that may wait or run at one time; a submit beyond it is refused.", 1,
       100'000'000},

      {"console", "listen", kText, "",
       "Numeric address and port on which bourse-console serves, port 0 being any free one; empty means 127.0.0.1:7480, and that "
       "bourse up starts none."},
      {"console", "allow_remote", kFlag, "false",
       "Whether the console may listen on an address that others than this host reach; it asks nobody who he is."},
      {"console", "hosts", kList, "",
       "Host names under which the console may be asked for, besides its own address, such as that of a proxy; * is any."},
      {"console", "jobs", kFlag, "true",
       "Whether the console shows jobs one by one, with their names and users, or only how many."},
      {"console", "interval", kDuration, "5s", "Time between two looks of the console at the master.", us(1), us(3600)},
      {"console", "history", kDuration, "6h", "Time that the console's curves go back.", us(60), 30 * kDay},
      {"console", "agent_metrics", kInteger, "1000",
       "Most agents that get metrics of their own; in a larger cluster there are only sums.", 0, 100'000},

      {"trace", "endpoint", kText, "",
       "OpenTelemetry collector for traces by OTLP/HTTP, such as http://127.0.0.1:4318; empty means $OTEL_EXPORTER_OTLP_ENDPOINT, "
       "or "
       "none."},
      {"trace", "sample", kInteger, "1000", "Jobs of which traces are kept, in permille, where their submitter does not say.", 0,
       1000},

      {"log", "level", kText, "info", "Least important level that is logged.", 0, INT64_MAX, "debug|info|warn|error"},
  };
  return keys;
}

}  // namespace bourse
