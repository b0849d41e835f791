// The C API's client handle: one client actor under one reactor, with what it takes to hide both behind a descriptor.
//
// [client] thread only, but for wake_fd. Inside of the library; nothing here is installed.
#pragma once

#include <sys/types.h>

#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "bourse/framework.h"
#include "common/world/driver.h"
#include "common/world/transport.h"
#include "frameworks/api/client.h"

// Objects that the program builds. Values inside, so that giving them to the client is a copy or a move.
struct bourse_shape {
  bourse::Shape value;
};
struct bourse_demand {
  bourse::SetDemand value;
  std::set<std::uint64_t> numbers;  // of its lines
};
struct bourse_accept {
  bourse::Accept value;
  std::string trace;
};
struct bourse_task_spec {
  bourse::TaskSpec value;
};

struct bourse_client {
  bourse_client();
  ~bourse_client();

  bourse_callbacks callbacks{};
  bool automatic_acks = false;
  pid_t owner = 0;
  mutable std::string error;
  bourse::Incarnation incarnation;
  bourse::FrameworkId framework;

  // Order matters: what is below uses what is above.
  std::unique_ptr<bourse::Reactor> reactor;
  std::unique_ptr<bourse::Context> context;
  std::unique_ptr<bourse::MasterLink> link;
  std::unique_ptr<bourse::Client> client;
  int wake_fd = -1;

  std::map<bourse::TimerKey, bourse::Reactor::TimerId> timers;
  bourse::Actions actions;                 // of the step at hand
  std::deque<bourse::SessionEvent> ready;  // to be delivered
  std::vector<bourse::SessionEvent> scratch;
  std::deque<std::string> logs;
  bool inside = false;  // in dispatch or run
  bool freed = false;   // by a callback
  bool stop = false, woken = false;
  bool readable = false;  // a deferred no-op keeps the descriptor readable
  bool idle_due = false;  // callbacks ran since `idle` was last called

  void log(std::string line);
  void step(const bourse::Event& event);
  void command(const bourse::SessionCommand& command);
  void execute();        // the actions of the step at hand
  void keep_readable();  // there is something to deliver
  int deliver(int max);  // callbacks; number delivered
  void deliver_one(const bourse::SessionEvent& event);
  void settle();  // before the program's own loop, or it, waits

  static constexpr std::size_t kLogsMax = 1000;  // lines that wait for a dispatch; further ones are dropped
};

namespace bourse::capi {

// Opaque views of domain values: never dereferenced as themselves.
inline const bourse_resources* view(const Resources& r) { return reinterpret_cast<const bourse_resources*>(&r); }
inline const bourse_labels* view(const Labels& l) { return reinterpret_cast<const bourse_labels*>(&l); }
inline const bourse_offer* view(const Offer& o) { return reinterpret_cast<const bourse_offer*>(&o); }
inline const bourse_agents* view(const std::vector<AgentFacts>& a) { return reinterpret_cast<const bourse_agents*>(&a); }
inline const bourse_agent* view(const AgentFacts& a) { return reinterpret_cast<const bourse_agent*>(&a); }
inline const bourse_device* view(const DeviceShare& d) { return reinterpret_cast<const bourse_device*>(&d); }
inline const Resources* real(const bourse_resources* r) { return reinterpret_cast<const Resources*>(r); }
inline const Labels* real(const bourse_labels* l) { return reinterpret_cast<const Labels*>(l); }
inline const Offer* real(const bourse_offer* o) { return reinterpret_cast<const Offer*>(o); }
inline const std::vector<AgentFacts>* real(const bourse_agents* a) { return reinterpret_cast<const std::vector<AgentFacts>*>(a); }
inline const AgentFacts* real(const bourse_agent* a) { return reinterpret_cast<const AgentFacts*>(a); }
inline const DeviceShare* real(const bourse_device* d) { return reinterpret_cast<const DeviceShare*>(d); }

inline int code_number(Code code) { return -static_cast<int>(code); }

// No exception crosses the border.
template <class F>
int guard(F&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) { return BOURSE_E_MEMORY; } catch (...) {
    return BOURSE_E_INTERNAL;
  }
}

int fail(const bourse_client* client, int code, std::string text);

// For calls on a client: NULL, fork, end of session.
int check(const bourse_client* client, bool alive = true);

template <class F>
int call(bourse_client* client, F&& body) noexcept {
  if (!client) return BOURSE_E_INVALID;
  return guard([&] {
    if (int rc = check(client); rc != 0) return rc;
    return static_cast<int>(body());
  });
}

// Takes a caller's growing struct over: see "Structs that grow" in the header.
template <class T>
int take(const T* in, T& out) {
  std::size_t size = 0;
  std::memcpy(&size, in, sizeof size);
  if (size < sizeof size) return BOURSE_E_INVALID;
  const auto* bytes = reinterpret_cast<const unsigned char*>(in);
  for (std::size_t i = sizeof(T); i < size; ++i)
    if (bytes[i] != 0) return BOURSE_E_UNSUPPORTED;
  out = T{};
  std::memcpy(static_cast<void*>(&out), in, size < sizeof(T) ? size : sizeof(T));
  out.size = sizeof(T);
  return 0;
}

template <class T, class... Args>
int make(T** out) noexcept {
  if (!out) return BOURSE_E_INVALID;
  return guard([&] {
    *out = new T();
    return 0;
  });
}

}  // namespace bourse::capi
