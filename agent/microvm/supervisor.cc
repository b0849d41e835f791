#include "agent/microvm/supervisor.h"

#include <cstdio>
#include <cstdlib>

#include "agent/microvm/libvirt_api.h"
#include "agent/microvm/machine.h"
#include "agent/microvm/park.h"
#include "agent/microvm/running_guest.h"
#include "common/core/hooks.h"

namespace bourse::microvm {
namespace {

Result<Libvirt> connect(const std::string& uri, virConnectPtr& connection) {
  BOURSE_TRY(check_libvirt_uri(uri));
  Libvirt api = BOURSE_TRY(Libvirt::open());
  connection = api.connect(uri.c_str());
  if (connection == nullptr) return Error(Code::kIo, "cannot connect to " + uri + ": " + api.why());
  return api;
}

}  // namespace

Result<int> sweep(const std::string& uri) {
  if (hooks::mutant("microvm.no_sweep")) return 0;
  virConnectPtr connection = nullptr;
  const Libvirt api = BOURSE_TRY(connect(uri, connection));
  virDomainPtr* domains = nullptr;
  const int count = api.list(connection, &domains, VIR_CONNECT_LIST_DOMAINS_ACTIVE);
  int ended = 0;
  for (int i = 0; i < count; ++i) {
    const char* name = api.name(domains[i]);
    if (name != nullptr && owner_lives(name) == false && api.destroy(domains[i]) == 0) ++ended;
    api.release(domains[i]);
  }
  free(domains);
  api.disconnect(connection);
  if (count < 0) return Error(Code::kIo, uri + " does not list its guests: " + api.why());
  return ended;
}

int run(const Arguments& arguments, char** env) {
  if (!arguments.warm.empty() && !hooks::mutant("microvm.never_warm"))
    if (const auto status = claim(arguments, env)) return *status;
  // Guests whose owner was killed at the one moment at which that leaves something.
  (void)sweep(arguments.uri);
  RunningGuest guest(arguments);
  if (auto started = guest.start(env); !started) {
    std::fprintf(stderr, "bourse-microvm: %s\n", started.error().text().c_str());
    return kFailed;
  }
  hooks::crash_point("microvm.running");
  return guest.wait();
}

}  // namespace bourse::microvm
