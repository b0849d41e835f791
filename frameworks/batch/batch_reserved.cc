// Jobs that name a reservation: when they may start, what they wait for, and that they end with it.
//
// As with Slurm: such a job waits until its reservation has begun, is not started where its time limit would outlast it, uses nothing
// else, and is ended with it. Within a reservation the first that does not fit is waited for; it keeps nobody outside waiting.
#include <algorithm>

#include "common/core/hooks.h"
#include "common/core/units.h"
#include "common/world/config.h"
#include "frameworks/batch/batch.h"

namespace bourse::batch {
namespace {

constexpr Duration kSoon = seconds(5);        // a reservation that vanishes so close to its end has ended, else it was released
constexpr Duration kLookAgain = seconds(60);  // the wall clock may be set

std::string how_long(Duration d) { return format_duration(std::chrono::ceil<seconds>(std::max(Duration{0}, d))); }

}  // namespace

// Is there such a reservation for us? Else the nearest name. `remark`: why it will wait.
Result<> Batch::check_reservation(const JobSpec& spec, std::string& remark) const {
  const std::string& name = spec.reservation;
  if (name.empty() || !alloc_.seen_agents()) return {};
  const Reserved& reserved = alloc_.reserved();
  const ReservationView* view = reserved.find(name);
  if (view == nullptr) {
    std::vector<std::string> known;
    for (const auto& [other, facts] : reserved.all())
      if (reserved.may_use(facts)) known.push_back(other);
    const std::string nearest = nearest_word(name, known);
    return Error(Code::kNotFound, "there is no reservation '" + name + "'" +
                                      (!nearest.empty() ? "; did you mean '" + nearest + "'?"
                                       : known.empty()  ? "; jobs have none at present"
                                                        : "; `bourse reserve list' shows those that there are"));
  }
  if (!reserved.may_use(*view))
    return Error(Code::kDenied,
                 "reservation '" + name + "' is for role " + view->role.str() + "; jobs here run for role " + options_.role);
  if (view->end.count() != 0 && view->end <= now_.wall) return Error(Code::kGone, "reservation '" + name + "' has ended");
  const Duration limit = time_limit_of(spec, options_);
  const Duration from = std::max({view->start, now_.wall, spec.begin});
  if (view->end.count() != 0 && limit != kNoLimit && limit > view->end - from)
    remark = "its time limit of " + format_duration(limit) + " is more than is left of reservation " + name + ", " +
             how_long(view->end - from) + ": it waits until that is extended";
  else if (view->start > now_.wall)
    remark = "it waits for reservation " + name + ", which begins in " + how_long(view->start - now_.wall);
  return {};
}

// What keeps a job out of its reservation; kNone: nothing. Looks again when that changes.
Reason Batch::reservation_in_way(Job& job) {
  if (!job.spec->reservation) return Reason::kNone;
  const ReservationView* view = alloc_.reserved().find(*job.spec->reservation);
  if (view == nullptr) return alloc_.seen_agents() ? Reason::kReservationGone : Reason::kReservation;
  if (view->start > now_.wall) {
    wake_at_wall(job.id, view->start);
    return Reason::kReservation;
  }
  if (view->end.count() == 0) return Reason::kNone;
  const Duration limit = job.spec->limit == kNoLimit ? Duration{1} : job.spec->limit;  // one without a limit ends with it
  if (now_.wall + limit > view->end) return Reason::kReservation;
  wake_at_wall(job.id, view->end - limit + Duration{1});
  return Reason::kNone;
}

std::string Batch::reservation_text(const Job& job) const {
  const std::string& name = *job.spec->reservation;
  const ReservationView* view = alloc_.reserved().find(name);
  if (view == nullptr)
    return alloc_.seen_agents() ? "its reservation '" + name +
                                      "' is no more: it waits for one of that name; else cancel it, and submit it for another"
                                : "it has not been heard yet whether reservation '" + name + "' is still there";
  if (view->start > now_.wall) return "reservation " + name + " begins in " + how_long(view->start - now_.wall);
  if (view->end.count() == 0) return {};
  if (view->end <= now_.wall) return "reservation " + name + " has ended";
  return "its time limit of " + format_duration(job.spec->limit) + " is more than is left of reservation " + name +
         ", which ends in " + how_long(view->end - now_.wall);
}

// What a run may take: a job without a limit ends with its reservation.
Duration Batch::limit_of(const Job& job) const {
  if (job.spec->limit != kNoLimit || !job.spec->reservation) return job.spec->limit;
  const ReservationView* view = alloc_.reserved().find(*job.spec->reservation);
  return view == nullptr || view->end.count() == 0 ? kNoLimit : std::max(view->end - now_.wall, Duration(seconds(1)));
}

// Reservations have come, gone or moved.
void Batch::reservations_changed() {
  std::vector<JobId> waiting;
  for (const auto& [id, job] : jobs_.all())
    if (job.spec->reservation && job.waiting()) waiting.push_back(id);
  for (const JobId id : waiting) wake(id);
  for (auto& [number, run] : runs_)
    if (!layouts_.at(run.layout).reservation.empty()) bind_to_reservation(run);
  end_with_reservation();
}

void Batch::bind_to_reservation(Run& run) {
  const ReservationView* view = alloc_.reserved().find(layouts_.at(run.layout).reservation);
  if (view != nullptr) {
    run.reserved_until = view->end;
  } else if (run.reserved_until > now_.wall + kSoon) {
    run.reserved_until = Duration{0};  // it was released: what runs goes on as any other
  }
}

void Batch::end_with_reservation() {
  Duration next = kNoLimit;
  for (auto& [number, run] : runs_) {
    if (run.reserved_until.count() == 0 || run.outstayed || run.cancelled || run.agents.empty()) continue;
    if (run.reserved_until > now_.wall) {
      next = std::min(next, run.reserved_until - now_.wall);
      continue;
    }
    if (hooks::mutant("batch.outstays_reservation")) continue;
    run.outstayed = true;
    Kill kill;
    kill.agent = run.agents.front(), kill.task = run.task;
    out_->session.push_back(KillTask{kill});
  }
  if (next != kNoLimit) out_->arm({kReservationEnd, 0, {}}, std::min(next, kLookAgain));
}

}  // namespace bourse::batch
