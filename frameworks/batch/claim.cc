#include "frameworks/batch/claim.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "common/core/fnv.h"
#include "common/core/hooks.h"
#include "common/world/log.h"
#include "common/world/thread.h"
#include "frameworks/batch/sql.h"

namespace bourse::batch {
namespace {

// A name as a number of the table.
std::int64_t number_of(const std::string& name) { return static_cast<std::int64_t>(fnv1a(name) & INT64_MAX); }

}  // namespace

struct Claim::Impl {
  Database db;
  Statement read, raise, life, owns, beat, leave;
  std::int64_t owner = 0;
  std::map<std::string, std::int64_t> seen;
  Duration since{-1};  // mono; of the beat as it was seen last

  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;
  std::thread thread;

  Result<std::map<std::string, std::int64_t>> look() {
    std::map<std::string, std::int64_t> out;
    while (read.step()) out[read.bytes(0)] = read.integer(1);
    if (read.failed()) {
      Error error = read.error("read the claim");
      read.reset();
      return error;
    }
    return out;
  }
};

Result<std::unique_ptr<Claim>> Claim::open(const std::string& uri, const std::string& owner, Duration takeover) {
  std::unique_ptr<Claim> out(new Claim());
  out->impl_ = std::make_unique<Impl>();
  out->takeover_ = takeover;
  Impl& impl = *out->impl_;
  impl.owner = number_of(owner);
  BOURSE_TRY(impl.db.open(uri, 0));
  BOURSE_TRY(make_schema(impl.db));
  BOURSE_TRY(impl.read.prepare(impl.db, "SELECT name, value FROM meta"));
  BOURSE_TRY(impl.raise.prepare(impl.db, "UPDATE meta SET value=value+1 WHERE name='token' AND value=?"));
  BOURSE_TRY(impl.life.prepare(impl.db, "UPDATE meta SET value=GREATEST(value+1,?) WHERE name='incarnation' RETURNING value"));
  BOURSE_TRY(impl.owns.prepare(impl.db, "UPDATE meta SET value=? WHERE name='owner'"));
  BOURSE_TRY(impl.beat.prepare(impl.db,
                               "UPDATE meta SET value=value+1 WHERE name='beat' AND EXISTS"
                               " (SELECT 1 FROM meta WHERE name='token' AND value=?)"));
  BOURSE_TRY(impl.leave.prepare(impl.db, "UPDATE meta SET value=? WHERE name='left'"));
  return out;
}

Claim::~Claim() {
  {
    std::lock_guard guard(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
}

Result<bool> Claim::try_take() {
  Impl& impl = *impl_;
  if (impl.db.broken()) {
    impl.since = Duration{-1};  // it may have beaten while nobody could see it
    BOURSE_TRY(impl.db.again());
  }
  std::map<std::string, std::int64_t> now = BOURSE_TRY(impl.look());
  const Duration mono = real_time().mono;
  const bool moved = impl.since < Duration{0} || now["beat"] != impl.seen["beat"] || now["token"] != impl.seen["token"];
  if (moved) impl.since = mono;
  impl.seen = now;
  const bool nobody = now["token"] == 0 || now["left"] == now["token"] || now["owner"] == impl.owner;
  if (!nobody && mono - impl.since < takeover_) return false;
  const auto take = [&]() -> Result<bool> {
    BOURSE_TRY(impl.db.run("BEGIN"));
    BOURSE_TRY(impl.raise.bind(now["token"]).run());
    if (impl.raise.changes() != 1) return false;  // another standby was first
    impl.life.bind(static_cast<std::int64_t>(real_time().wall / seconds(1)));
    if (!impl.life.step()) return impl.life.error("take an incarnation");
    const auto incarnation = static_cast<std::uint64_t>(impl.life.integer(0));
    impl.life.reset();
    BOURSE_TRY(impl.owns.bind(impl.owner).run());
    BOURSE_TRY(impl.db.run("COMMIT"));
    incarnation_ = Incarnation(incarnation);
    return true;
  };
  auto taken = take();
  if (!taken || !*taken) {
    (void)static_cast<bool>(impl.db.run("ROLLBACK"));
    impl.since = Duration{-1};
    return taken;
  }
  token_ = static_cast<std::uint64_t>(now["token"]) + 1;
  return true;
}

void Claim::keep(Reactor& reactor, std::function<void(std::string)> lost) {
  impl_->thread = quiet_thread([this, &reactor, lost = std::move(lost)] {
    Impl& impl = *impl_;
    bool told = false;
    std::unique_lock guard(impl.mutex);
    while (!impl.wake.wait_for(guard, takeover_ / kBeats, [&] { return impl.stopping; })) {
      guard.unlock();
      Result<> beaten = impl.db.broken() ? impl.db.again() : Result<>();
      if (beaten) beaten = impl.beat.bind(token_).run();
      if (!beaten && !told)
        log_event(LogLevel::kWarn, "store_out_of_reach",
                  {{"reason", beaten.error().text()}, {"what", "a standby takes over when this lasts"}});
      told = !beaten;
      if (beaten && impl.beat.changes() == 0) {
        reactor.wake([lost] { lost("another bourse-batch has taken the queue over"); });
        return;
      }
      guard.lock();
    }
  });
}

void Claim::give_up() {
  {
    std::lock_guard guard(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
  if (token_ != 0 && !impl_->db.broken()) (void)static_cast<bool>(impl_->leave.bind(token_).run());
}

}  // namespace bourse::batch
