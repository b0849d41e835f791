#include "frameworks/cli/cluster.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "common/core/ids.h"
#include "common/world/config.h"
#include "common/world/digest.h"
#include "common/world/files.h"
#include "common/world/spawn.h"
#include "common/world/transport.h"
#include "frameworks/cli/leftovers.h"
#include "frameworks/cli/master_client.h"

namespace bourse::cli {
namespace {

constexpr std::string_view kDefaultListen = "tcp://127.0.0.1:7400";

Result<int> free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno_error("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool good = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  Error error = errno_error("bind to 127.0.0.1");
  close(fd);
  if (!good) return error;
  return ntohs(address.sin_port);
}

bool port_is_free(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);  // as ZeroMQ binds: what lingers of an earlier master is no hindrance
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool good = fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (fd >= 0) close(fd);
  return good;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && valid_name(name) ? name : "h1";
}

std::string user_name() {
  const passwd* entry = getpwuid(getuid());  // NOLINT(concurrency-mt-unsafe)
  return entry == nullptr ? "local" : entry->pw_name;
}

// What of the effective configuration differs from the defaults: short enough to read.
std::string differing(const Config& config, const Config& defaults) {
  std::istringstream ours(config.dump()), theirs(defaults.dump());
  std::string out, section, line, other;
  bool section_out = false;
  while (std::getline(ours, line) && std::getline(theirs, other)) {
    if (line.starts_with("[")) {
      section = line;
      section_out = false;
    }
    if (line == other) continue;
    if (!section_out) out += "\n" + section + "\n";
    section_out = true;
    out += line + "\n";
  }
  return out;
}

Result<> ensure_key(const std::string& keys, const std::string& name) {
  const std::string path = keys + "/" + name;
  if (access(path.c_str(), F_OK) == 0) return {};
  unlink((path + ".pub").c_str());  // half of a pair is of no use
  return write_key_files(path, make_key_pair());
}

Result<std::vector<std::string>> read_agents(const std::string& dir) {
  const std::string content = BOURSE_TRY(read_file(dir + "/agents", 64 * 1024));
  std::istringstream in(content);
  std::vector<std::string> ids;
  for (std::string id; std::getline(in, id);) {
    if (!valid_name(id)) return Error(Code::kCorrupt, dir + "/agents: `" + id + "' is not a name");
    ids.push_back(id);
  }
  if (ids.empty() || ids.size() > kLocalAgentsMax) return Error(Code::kCorrupt, dir + "/agents names no agent, or too many");
  return ids;
}

Result<std::vector<LocalMaster>> read_masters(const std::string& dir, const Config& config) {
  if (access((dir + "/masters").c_str(), F_OK) != 0) return std::vector<LocalMaster>{{"", config.text("master", "listen"), ""}};
  const std::string content = BOURSE_TRY(read_file(dir + "/masters", 64 * 1024));
  std::istringstream in(content);
  std::vector<LocalMaster> masters;
  for (LocalMaster one; in >> one.name >> one.endpoint >> one.raft;) masters.push_back(one);
  if (masters.empty() || masters.size() > kLocalMastersMax || !in.eof())
    return Error(Code::kCorrupt,
                 dir + "/masters: expected 1 to " + std::to_string(kLocalMastersMax) + " lines: NAME ENDPOINT RAFT");
  return masters;
}

// Several masters have their ports for good, since each has those of the others on record.
Result<std::vector<LocalMaster>> prepare_masters(const ClusterWish& wish) {
  const bool fresh = access((wish.dir + "/bourse.conf").c_str(), F_OK) != 0;
  const bool several = access((wish.dir + "/masters").c_str(), F_OK) == 0;
  if (several) {
    const Config defaults = BOURSE_TRY(Config::read("", {}));
    auto masters = BOURSE_TRY(read_masters(wish.dir, defaults));
    if (wish.masters > 0 && masters.size() != static_cast<std::size_t>(wish.masters))
      return Error(Code::kInvalid,
                   fmt::format("--masters: the cluster in {} has {}, which cannot be changed here; choose another --dir", wish.dir,
                               masters.size()));
    for (const LocalMaster& master : masters)
      for (const std::string& endpoint : {master.endpoint, master.raft})
        if (endpoint.starts_with("tcp://127.0.0.1:") && !port_is_free(std::atoi(endpoint.c_str() + 16)))
          return Error(Code::kBusy, fmt::format("{} of master {} is in use by another program", endpoint, master.name));
    return masters;
  }
  if (wish.masters <= 1) return std::vector<LocalMaster>();
  if (!fresh)
    return Error(Code::kInvalid,
                 fmt::format("--masters: the cluster in {} has 1, which cannot be changed here; choose another --dir", wish.dir));
  for (const std::string& o : wish.overrides)
    if (o.starts_with("master.listen=") || o.starts_with("cluster.masters="))
      return Error(Code::kInvalid, "--set " + o.substr(0, o.find('=')) + ": with several masters each has its own, chosen here");
  std::vector<LocalMaster> masters;
  std::set<int> used;
  const auto endpoint = [&used]() -> Result<std::string> {
    while (true) {
      const int port = BOURSE_TRY(free_port());
      if (used.insert(port).second) return fmt::format("tcp://127.0.0.1:{}", port);
    }
  };
  std::string list;
  for (int i = 1; i <= wish.masters; ++i) {
    LocalMaster master{"m" + std::to_string(i), BOURSE_TRY(endpoint()), BOURSE_TRY(endpoint())};
    list += master.name + " " + master.endpoint + " " + master.raft + "\n";
    masters.push_back(std::move(master));
  }
  BOURSE_TRY(write_file(wish.dir + "/masters", list, 0644));
  return masters;
}

Cluster describe(const std::string& dir, std::vector<LocalMaster> masters, std::vector<std::string> agents, const Config& config) {
  Cluster cluster;
  cluster.dir = dir;
  cluster.masters = std::move(masters);
  cluster.agents = std::move(agents);
  cluster.framework = config.text("batch", "framework");
  cluster.cgroup_prefix = config.text("agent", "cgroup_root") + "-" + sha256_hex(dir).substr(0, 8);
  cluster.console = !config.text("console", "listen").empty();
  return cluster;
}

Result<> write_config(const ClusterWish& wish, const std::vector<LocalMaster>& masters, Config& config) {
  const std::string path = wish.dir + "/bourse.conf";
  const bool fresh = access(path.c_str(), F_OK) != 0;
  std::vector<std::string> overrides;
  config = BOURSE_TRY(Config::read(fresh ? "" : path, wish.overrides));
  const std::string listen = config.text("master", "listen");
  const bool set_by_hand = std::any_of(wish.overrides.begin(), wish.overrides.end(),
                                       [](const std::string& o) { return o.starts_with("master.listen="); });
  const int port = listen.starts_with("tcp://127.0.0.1:") ? std::atoi(listen.c_str() + 16) : -1;
  const bool choose =
      masters.empty() && !set_by_hand && ((fresh && listen == kDefaultListen) || (port > 0 && !port_is_free(port)) || port == 0);
  if (choose) overrides.push_back(fmt::format("master.listen=tcp://127.0.0.1:{}", BOURSE_TRY(free_port())));
  overrides.insert(overrides.end(), wish.overrides.begin(), wish.overrides.end());
  const bool masters_by_hand = std::any_of(wish.overrides.begin(), wish.overrides.end(),
                                           [](const std::string& o) { return o.starts_with("cluster.masters="); });
  if ((choose || set_by_hand || fresh) && !masters_by_hand) {
    const Config chosen = BOURSE_TRY(Config::read(fresh ? "" : path, overrides));
    std::string all = masters.empty() ? chosen.text("master", "listen") : "";
    for (const LocalMaster& master : masters) all += (all.empty() ? "" : ",") + master.endpoint;
    overrides.push_back("cluster.masters=" + all);
  }
  if (!fresh && overrides.empty()) return {};
  config = BOURSE_TRY(Config::read(fresh ? "" : path, overrides));
  const Config defaults = BOURSE_TRY(Config::read("", {}));
  if (!fresh) {
    const std::string before = BOURSE_TRY(read_file(path));
    BOURSE_TRY(write_file(path + ".old", before, 0644));
  }
  return write_file(path,
                    "# Written by `bourse up'. Only what differs from the defaults; see bourse.conf(5) for all keys.\n" +
                        differing(config, defaults),
                    0644);
}

}  // namespace

std::string Cluster::agent_state(const std::string& id) const {
  std::string name = id;
  std::replace(name.begin(), name.end(), '/', '_');
  return dir + "/state/agent-" + name;
}

std::string Cluster::cgroup_root(const std::string& id) const {
  std::string name = cgroup_prefix + "-" + id;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') c = '_';
  return name;
}

Result<std::string> cluster_directory(const std::string& option) {
  std::string dir = option;
  const char* named = std::getenv("BOURSE_DIR");  // NOLINT(concurrency-mt-unsafe)
  if (dir.empty() && named != nullptr) dir = named;
  if (dir.empty()) {
    const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
    if (home == nullptr || *home == 0) return Error(Code::kInvalid, "neither --dir, BOURSE_DIR nor HOME says where the cluster is");
    dir = std::string(home) + "/.bourse";
  }
  std::error_code error;
  std::filesystem::path path = std::filesystem::weakly_canonical(dir, error);
  if (error) return Error(Code::kInvalid, "directory " + dir + ": " + error.message());
  dir = path.string();
  while (dir.size() > 1 && dir.back() == '/') dir.pop_back();
  if (dir.size() > kDirectoryBytesMax)
    return Error(Code::kInvalid,
                 fmt::format("directory {}: its name has {} characters, and {} is the most, since sockets lie below it", dir,
                             dir.size(), kDirectoryBytesMax));
  if (dir == "/" || dir.find_first_of("\n\"\\*?") != std::string::npos)
    return Error(Code::kInvalid, "directory " + dir + ": choose another");
  return dir;
}

Result<Cluster> load_cluster(const std::string& dir) {
  if (access((dir + "/bourse.conf").c_str(), F_OK) != 0) return Error(Code::kNotFound, "there is no cluster in " + dir);
  const Config config = BOURSE_TRY(Config::read(dir + "/bourse.conf", {}));
  return describe(dir, BOURSE_TRY(read_masters(dir, config)), BOURSE_TRY(read_agents(dir)), config);
}

Result<Cluster> prepare_cluster(const ClusterWish& wish) {
  BOURSE_TRY(make_directories(wish.dir, 0755));
  for (const char* name : {"/keys", "/run", "/log"}) BOURSE_TRY(make_directories(wish.dir + name, 0755));
  // Users' scripts are executed from below it; what is secret there has its own mode.
  BOURSE_TRY(make_directories(wish.dir + "/state", 0711));
  Config config = BOURSE_TRY(Config::read("", {}));
  std::vector<LocalMaster> masters = BOURSE_TRY(prepare_masters(wish));
  BOURSE_TRY(write_config(wish, masters, config));
  if (masters.empty()) masters = BOURSE_TRY(read_masters(wish.dir, config));

  std::vector<std::string> agents;
  if (wish.agents == 0 && access((wish.dir + "/agents").c_str(), F_OK) == 0) agents = BOURSE_TRY(read_agents(wish.dir));
  if (agents.empty()) {
    const std::string own = config.text("agent", "id").empty() ? host_name() : config.text("agent", "id");
    if (wish.agents <= 1) agents.push_back(own);
    for (int i = 1; wish.agents > 1 && i <= wish.agents; ++i) agents.push_back("h" + std::to_string(i));
  }
  std::string list;
  for (const std::string& id : agents) list += id + "\n";
  BOURSE_TRY(write_file(wish.dir + "/agents", list));

  const Cluster cluster = describe(wish.dir, std::move(masters), std::move(agents), config);
  const std::string keys = wish.dir + "/keys";
  BOURSE_TRY(ensure_key(keys, "master"));
  BOURSE_TRY(ensure_key(keys, key_file_name("operator:" + user_name())));
  BOURSE_TRY(ensure_key(keys, key_file_name("framework:" + cluster.framework)));
  if (cluster.console) BOURSE_TRY(ensure_key(keys, key_file_name("reader:console")));
  for (const std::string& id : cluster.agents) BOURSE_TRY(ensure_key(keys, key_file_name("agent:" + id)));
  return cluster;
}

Result<pid_t> supervisor_of(const std::string& dir) {
  const std::string path = dir + "/run/supervisor.lock";
  const Error none(Code::kNotFound, "no cluster runs in " + dir);
  for (int attempt = 0; attempt < 100; ++attempt) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return none;
    if (fd < 0) return errno_error("open " + path);
    const bool free = flock(fd, LOCK_SH | LOCK_NB) == 0;
    close(fd);
    if (free) return none;
    const std::string content = BOURSE_TRY(read_file(path, 64));
    const int pid = std::atoi(content.c_str());
    if (pid > 0) return static_cast<pid_t>(pid);
    poll(nullptr, 0, 10);  // it has the lock but has not written yet
  }
  return Error(Code::kCorrupt, path + " is locked but holds no pid");
}

Result<Started> start_supervisor(const Cluster& cluster, bool own) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return errno_error("pipe");
  SpawnOptions options;
  options.argv = {own_directory() + "/bourse", "supervise", "--ready-fd", "3"};
  if (own) options.argv.insert(options.argv.end(), {"--remove"});
  options.argv.push_back(cluster.dir);
  options.env = {"BOURSE_DIR=" + cluster.dir};
  options.directory = "/";
  options.stdout_path = options.stderr_path = cluster.log("supervisor");
  options.own_session = true;
  options.pass = {{pipe_fds[1], 3}};
  options.death_signal = own ? SIGTERM : 0;
  auto pid = own ? spawn(options) : spawn_detached(options);
  close(pipe_fds[1]);
  if (!pid) {
    close(pipe_fds[0]);
    return std::move(pid).error();
  }
  return Started{*pid, pipe_fds[0]};
}

namespace {

Result<> await_report(int fd, Duration end) {
  std::string line;
  while (true) {
    const Duration left = end - real_time().mono;
    pollfd item{fd, POLLIN, 0};
    if (left <= Duration{0} || poll(&item, 1, static_cast<int>(left.count() / 1000) + 1) == 0)
      return Error(Code::kTimeout, "not every program was ready in time");
    char c = 0;
    const ssize_t n = read(fd, &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Error(Code::kGone, line.empty() ? "the supervisor ended" : line);
    if (c != '\n') {
      line += c;
      continue;
    }
    if (line.empty()) return {};
    return Error(Code::kGone, line);
  }
}

}  // namespace

// The first master takes in the others of its configuration.
constexpr Duration kTakenInWithin = seconds(10);

Result<> await_ready(const Cluster& cluster, Started& started, Duration timeout) {
  const Duration end = real_time().mono + timeout;
  Result<> reported = await_report(started.report, end);
  close(started.report);
  started.report = -1;
  if (!reported) return reported;
  setenv("BOURSE_DIR", cluster.dir.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  auto client = BOURSE_TRY(MasterClient::open(std::max(end - real_time().mono, Duration{seconds(1)})));
  const Duration taken_in = real_time().mono + kTakenInWithin;
  while (true) {
    const auto agents = BOURSE_TRY(client->status("agents"));
    const auto frameworks = BOURSE_TRY(client->status("frameworks"));
    std::string missing;
    for (const std::string& id : cluster.agents) {
      const bool up =
          std::any_of(agents.begin(), agents.end(), [&](const auto& row) { return row.name == id && field(row, "state") == "up"; });
      if (!up) missing += (missing.empty() ? "agent " : ", agent ") + id;
    }
    const bool connected = std::any_of(frameworks.begin(), frameworks.end(), [&](const auto& row) {
      return row.name == cluster.framework && field(row, "state") == "connected";
    });
    if (!connected) missing += (missing.empty() ? "framework " : ", framework ") + cluster.framework;
    if (cluster.masters.size() > 1) {
      const auto masters = BOURSE_TRY(client->status("masters"));
      for (const LocalMaster& each : cluster.masters) {
        const auto row = std::find_if(masters.begin(), masters.end(), [&](const auto& r) { return r.name == each.name; });
        if (row == masters.end() && real_time().mono >= taken_in) continue;  // an operator took it out
        const std::string state = row == masters.end() ? "" : field(*row, "state");
        if (state != "follows" && state != "leads") missing += (missing.empty() ? "master " : ", master ") + each.name;
      }
    }
    if (missing.empty()) return {};
    if (real_time().mono >= end) return Error(Code::kTimeout, "the master still waits for " + missing);
    poll(nullptr, 0, 20);
  }
}

namespace {

// Waits until the process is gone. It need not be our child; where it is, it stays a zombie to be reaped by its owner.
bool await_end(pid_t pid, Duration timeout) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return true;
  pollfd item{fd, POLLIN, 0};
  int rc = 0;
  const Duration end = real_time().mono + timeout;
  do rc = poll(&item, 1, static_cast<int>(std::max((end - real_time().mono).count() / 1000, Duration::rep{0})));
  while (rc < 0 && errno == EINTR);
  close(fd);
  return rc > 0;
}

Result<> end_supervisor(const Cluster& cluster, pid_t pid, Duration timeout) {
  if (kill(pid, SIGTERM) != 0 && errno != ESRCH) return errno_error(fmt::format("end the supervisor (pid {})", pid));
  if (await_end(pid, timeout)) return {};
  return Error(Code::kTimeout, fmt::format("the supervisor (pid {}) has not ended in {}; see {}", pid, format_duration(timeout),
                                           cluster.log("supervisor")));
}

}  // namespace

Result<> end_cluster(const Cluster& cluster, Duration timeout) {
  auto pid = supervisor_of(cluster.dir);
  if (!pid && pid.error().code() != Code::kNotFound) return std::move(pid).error();
  if (!pid && !launchers_below(cluster.dir).empty()) {
    // A crash left tasks behind. Their agents know best how to end them: the cluster is started once more for that.
    if (auto started = start_supervisor(cluster, false)) {
      (void)await_report(started->report, real_time().mono + std::min(timeout, Duration{seconds(15)}));
      close(started->report);
      pid = started->supervisor;
    }
  }
  if (pid) {
    Result<> ended = end_supervisor(cluster, *pid, timeout);
    if (!ended) return ended;
  }
  return remove_leftovers(cluster);
}

std::string last_words(const Cluster& cluster, std::size_t lines) {
  std::vector<std::string> programs = {"supervisor"};
  for (const LocalMaster& master : cluster.masters) programs.push_back(master.program());
  programs.emplace_back("batch");
  for (const std::string& id : cluster.agents) programs.push_back("agent-" + id);
  std::string out;
  for (const std::string& program : programs) {
    const auto content = read_file(cluster.log(program), 64 * 1024 * 1024);
    if (!content || content->empty()) continue;
    std::vector<std::string> all;
    std::istringstream in(*content);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    out += "  " + cluster.log(program) + ":\n";
    for (std::size_t i = all.size() > lines ? all.size() - lines : 0; i < all.size(); ++i) out += "    " + all[i] + "\n";
  }
  return out;
}

}  // namespace bourse::cli
