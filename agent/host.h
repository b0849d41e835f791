// The agent's hands: carries out HostActions by talking to the launcher, and turns what it says into events.
//
// Connects to STATE/launcher.sock; when nobody is behind it, starts a keeper (detached, it outlives us) and tries again. Says Hello
// with the slices that the agent knows; State makes HostTasks. Actions that come while there is no connection are dropped: the
// agent asks for everything outstanding once more after each HostTasks. On the reactor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/artifacts.h"
#include "agent/helper/prober.h"
#include "agent/isolation.h"
#include "agent/launcher/channel.h"
#include "common/core/action.h"
#include "common/core/event.h"
#include "common/world/reactor.h"

namespace bourse {

// The one probe that the host answers itself: what the launcher can isolate (labels `isolation` and `degraded`, notes). All others
// run in the helper.
constexpr const char* kProbeIsolation = "isolation";

struct HostOptions {
  std::string state_dir;
  std::string launcher;  // path of bourse-launcher
  std::string cgroup_root = "bourse";
  bool isolation = true;
  std::string identity;  // file that says what proof the launcher asks for; "": none
  IsolationOptions limits;
  Bytes artifacts_max = ArtifactStore::kBytesMax;
};

// What an executor is to main.cc: the real one below, and mock_host.h.
class Executor {
 public:
  using Post = std::function<void(Event)>;
  virtual ~Executor() = default;
  virtual void start() = 0;
  [[nodiscard]] virtual Prober& prober() = 0;
  virtual void execute(const HostAction& action) = 0;
  virtual void end_all(std::function<void()> done) = 0;  // ends keeper, launcher and everything they run
};

class Host final : public Executor {
 public:
  using KnownSlices = std::function<std::vector<SliceId>()>;
  // Opens the artifact store; kIo where the state directory cannot be used.
  static Result<std::unique_ptr<Host>> make(Reactor& reactor, HostOptions options, std::unique_ptr<Prober> prober, Post post,
                                            KnownSlices known);
  ~Host() override;
  void start() override;
  [[nodiscard]] Prober& prober() override;
  void execute(const HostAction& action) override;
  void end_all(std::function<void()> done) override;
  [[nodiscard]] bool connected() const;

 private:
  Host();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Does `user` exist here, with this uid? kDenied, kNotFound with a sentence for the job's owner.
Result<> check_user(const std::string& user, std::uint32_t uid);
// Processes of bourse-launcher (keeper first) that serve this state directory.
std::vector<int> launcher_processes(const std::string& state_dir);

}  // namespace bourse
