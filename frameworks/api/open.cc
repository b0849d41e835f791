// bourse_client_open: options, configuration, keys; and the end of a client.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "common/world/config.h"
#include "frameworks/api/handle.h"

using namespace bourse;        // NOLINT: this file is the border between the two
using namespace bourse::capi;  // NOLINT

namespace {

std::string text_or(const char* text, const std::string& otherwise) { return text && *text ? text : otherwise; }

struct Session {
  ClientOptions options;
  std::vector<std::string> endpoints;
  std::string server_key;
  KeyPair keys;
  bool has_keys = false;
  Incarnation incarnation;
};

bool plain(const std::string& endpoint) { return endpoint.starts_with("inproc://") || endpoint.starts_with("ipc://"); }

Result<> find_keys(const bourse_client_options& in, const Config* config, Session& out) {
  const std::string directory = Places::find().keys;
  if (in.server_key) {
    out.server_key = in.server_key;
  } else if (config) {
    const std::string named = config->text("cluster", "server_key");
    const std::string path = named.empty() ? directory + "/master.pub" : named;
    if (auto key = read_public_key(path))
      out.server_key = *key;
    else if (!named.empty() || key.error().code() != Code::kNotFound)
      return std::move(key).error();  // an absent default is a cluster without keys; the connection says so where it needs one
  }
  if (out.server_key.empty() || (in.key_file && !*in.key_file)) return {};
  const std::string path = text_or(in.key_file, directory + "/" + key_file_name("framework:" + out.options.framework.value));
  out.keys = BOURSE_TRY(read_key_file(path));
  out.has_keys = true;
  return {};
}

Result<Session> prepare(const bourse_client_options& in) {
  Session out;
  if (!in.framework || !valid_name(in.framework))
    return Error(Code::kInvalid, "framework: a name is needed, 1 to 128 of [A-Za-z0-9._/+@:-]");
  out.options.framework = FrameworkId(in.framework);
  out.options.role = RoleName(text_or(in.role, in.framework));
  if (!valid_name(out.options.role.value)) return Error(Code::kInvalid, "role: `" + out.options.role.value + "' is not a name");
  if (in.failover_timeout < 0) return Error(Code::kInvalid, "failover_timeout is negative");
  out.options.failover_timeout = Duration(in.failover_timeout);
  out.options.watch_agents = in.watch_agents != 0;
  for (const char* const* e = in.endpoints; e && *e; ++e) {
    // Each may be a list itself, as in a variable of the environment: "tcp://m1:7400, tcp://m2:7400".
    std::string_view rest = *e;
    while (!rest.empty()) {
      const auto end = std::min(rest.find_first_of(", \t\n"), rest.size());
      if (end > 0) out.endpoints.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  if (out.endpoints.size() > kMastersMax) return Error(Code::kLimit, "more than " + std::to_string(kMastersMax) + " endpoints");
  std::unique_ptr<Config> config;
  // With endpoints and a server's key given there is nothing to look up; a broken file elsewhere must not stop that.
  const bool wanted = in.config ? *in.config != '\0' : out.endpoints.empty() || (!in.server_key && !plain(out.endpoints[0]));
  if (wanted) {
    const std::string path = in.config ? in.config : Places::find().config;
    if (in.config || access(path.c_str(), F_OK) == 0)
      config = std::make_unique<Config>(BOURSE_TRY(Config::read(path, {})));
    else if (out.endpoints.empty())
      return Error(Code::kNotFound, "no endpoints were given and there is no " + path + "; is BOURSE_DIR set?");
    if (config && out.endpoints.empty()) out.endpoints = config->list("cluster", "masters");
  }
  if (out.endpoints.empty()) return Error(Code::kNotFound, "no endpoint of a master is known");
  BOURSE_TRY(find_keys(in, config.get(), out));
  if (in.incarnation != 0)
    out.incarnation = Incarnation(in.incarnation);
  else if (in.state_dir && *in.state_dir)
    out.incarnation = BOURSE_TRY(next_incarnation(in.state_dir));
  else
    // In hundredths of a second: a program that a shell starts again at once must not pass for the life before it.
    out.incarnation = Incarnation(static_cast<std::uint64_t>(real_time().wall / milliseconds(10)));
  if (out.incarnation.value >= (std::uint64_t{1} << 40)) return Error(Code::kInvalid, "incarnation: at most 2^40 - 1");
  return out;
}

void write_error(const bourse_client_options& in, const std::string& text) {
  if (!in.error || in.error_size == 0) return;
  const std::size_t n = std::min(in.error_size - 1, text.size());
  std::memcpy(in.error, text.data(), n);
  in.error[n] = '\0';
}

int refuse(const bourse_client_options& in, const Error& error) {
  write_error(in, error.text());
  return code_number(error.code());
}

}  // namespace

bourse_client::bourse_client() = default;

bourse_client::~bourse_client() {
  if (wake_fd >= 0) close(wake_fd);
}

extern "C" {

int bourse_client_open(const bourse_client_options* options, const bourse_callbacks* callbacks, bourse_client** client) {
  if (!options || !callbacks || !client) return BOURSE_E_INVALID;
  return guard([&] {
    bourse_client_options in;
    bourse_callbacks calls;
    if (int rc = take(options, in); rc != 0) return rc;
    if (int rc = take(callbacks, calls); rc != 0) return write_error(in, "callbacks: unknown fields, or no size"), rc;
    auto session = prepare(in);
    if (!session) return refuse(in, session.error());

    auto made = std::make_unique<bourse_client>();
    bourse_client* c = made.get();
    c->callbacks = calls;
    c->automatic_acks = in.automatic_acks != 0;
    c->owner = getpid();
    c->framework = session->options.framework;
    c->incarnation = session->incarnation;
    c->reactor = std::make_unique<Reactor>();
    c->context = std::make_unique<Context>();
    session->options.masters = session->endpoints.size();
    // A library says nothing on its program's stderr.
    c->link = std::make_unique<MasterLink>(*c->context, *c->reactor, session->endpoints,
                                           session->has_keys ? &session->keys : nullptr, session->server_key);
    c->link->on_log([c](std::string line) { c->log(std::move(line)); });
    c->link->on_message([c](Message message) { c->step(Received{kMasterPeer, {}, std::move(message)}); });
    c->link->on_lost([c] { c->step(PeerLost{kMasterPeer}); });
    if (auto connected = c->link->connect(); !connected) return refuse(in, connected.error());
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->wake_fd < 0) return refuse(in, errno_error("eventfd"));
    c->reactor->watch(c->wake_fd, EPOLLIN, [c](std::uint32_t) {
      std::uint64_t count = 0;
      (void)!read(c->wake_fd, &count, sizeof count);
      c->woken = true;
    });
    c->client = std::make_unique<Client>(session->options);
    c->step(Started{session->incarnation, {}, {}});
    c->reactor->settle();
    *client = made.release();
    return 0;
  });
}

void bourse_client_free(bourse_client* client) {
  if (!client) return;
  if (client->owner != getpid()) {
    // The child of a fork: sockets and threads are the parent's. Taking them down here would disturb it; the memory is let go.
    return;
  }
  if (client->inside) {
    client->freed = true;
    return;
  }
  (void)guard([&] {
    delete client;
    return 0;
  });
}

}  // extern "C"
