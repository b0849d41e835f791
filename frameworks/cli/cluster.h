// A cluster on this machine, in one directory: what `bourse up` makes and `bourse down` ends.
//
// DIR/bourse.conf  its configuration        DIR/keys   everybody's keys       DIR/agents  ids of its agents, one a line
// DIR/masters      where there are several: name, endpoint for everybody, endpoint for the other masters, a line each
// DIR/run          sockets, the supervisor  DIR/state  of each program        DIR/log     of each program
//
// The supervisor holds a lock on DIR/run/supervisor.lock as long as it lives and has its pid in it: that is how a running
// cluster is known from what a crash left.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/core/result.h"
#include "common/core/time.h"

namespace bourse::cli {

constexpr int kLocalAgentsMax = 64;
constexpr int kLocalMastersMax = 7;
constexpr std::size_t kDirectoryBytesMax = 70;  // sockets lie below it, and a socket's path has at most 107 characters

struct LocalMaster {
  std::string name;      // "m1", ...; empty where there is only one
  std::string endpoint;  // for agents, frameworks and tools
  std::string raft;      // for the other masters
  [[nodiscard]] std::string program() const { return name.empty() ? "master" : "master-" + name; }  // its log and state directory
};

struct Cluster {
  std::string dir;                   // absolute
  std::vector<LocalMaster> masters;  // one at least
  std::vector<std::string> agents;   // ids
  std::string framework;             // the batch framework's name
  std::string cgroup_prefix;         // agent ID's cgroups lie below PREFIX-ID; holds a hash of dir
  bool console = false;              // it has one

  [[nodiscard]] std::string agent_state(const std::string& id) const;
  [[nodiscard]] std::string cgroup_root(const std::string& id) const;
  [[nodiscard]] std::string log(const std::string& program) const { return dir + "/log/" + program + ".log"; }
  [[nodiscard]] std::string lock() const { return dir + "/run/supervisor.lock"; }
};

// --dir, else BOURSE_DIR, else ~/.bourse; absolute.
Result<std::string> cluster_directory(const std::string& option);
Result<Cluster> load_cluster(const std::string& dir);  // kNotFound: there is none in that directory

struct ClusterWish {
  std::string dir;
  int agents = 0;   // 0: as many as it has; 1 for a new one
  int masters = 0;  // the same; it cannot be changed later
  std::vector<std::string> overrides;
};
// Makes directories, keys and configuration, or brings those that are there up to the wish. Not while it runs.
Result<Cluster> prepare_cluster(const ClusterWish& wish);

// kNotFound: none runs.
Result<pid_t> supervisor_of(const std::string& dir);

struct Started {
  pid_t supervisor = 0;
  int report = -1;  // a line comes: empty when every program is ready, else what went wrong
};
// `own`: a child that ends with us, and removes the directory when it has ended. Else it is detached.
Result<Started> start_supervisor(const Cluster& cluster, bool own);
// Every program ready, every agent up and the batch framework connected. Closes `report`.
Result<> await_ready(const Cluster& cluster, Started& started, Duration timeout);
// Ends supervisor, programs and tasks, in order; then removes what a crash may have left: processes, cgroups, sockets.
Result<> end_cluster(const Cluster& cluster, Duration timeout);

// For messages: the last lines of the logs that say something.
std::string last_words(const Cluster& cluster, std::size_t lines);

}  // namespace bourse::cli
