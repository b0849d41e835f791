#include "common/sim/disk.h"

#include <algorithm>
#include <utility>

namespace bourse::sim {

void Disk::append(std::vector<Append> appends, std::string compact, Done done) {
  if (full_) {
    queue_.after(Duration(0), [done] { done(Error(Code::kLimit, "write: No space left on device")); });
    return;
  }
  Safety safety = Safety::kProcess;
  for (const Append& a : appends) {
    if (a.safety == Safety::kPower) safety = Safety::kPower;
  }
  if (!compact.empty()) {  // written beside, flushed and renamed before anything else happens
    snapshot_ = std::move(compact);
    records_.clear();
    flushed_ = 0;
    ++compactions_;
  } else {
    for (Append& a : appends) records_.push_back({std::move(a.record), queue_.now()});
  }
  if (safety == Safety::kProcess) {
    done({});
    return;
  }
  const Duration longest = slow_ > Duration(0) ? slow_ : options_.flush_max;
  const Duration delay(rng_.between(std::min(options_.flush_min, longest).count(), longest.count()));
  last_flush_ = std::max(last_flush_, queue_.now() + delay);
  queue_.at(last_flush_, [this, done, upto = records_.size(), compactions = compactions_] {
    if (compactions == compactions_) flushed_ = std::max(flushed_, std::min(upto, records_.size()));
    done({});
  });
}

Result<> Disk::write(const std::vector<std::string>& records) {
  if (full_) return Error(Code::kLimit, "write: No space left on device");
  for (const std::string& record : records) records_.push_back({record, queue_.now()});
  return {};
}

void Disk::flush(std::function<void(bool flushed)> done) {
  const Duration longest = slow_ > Duration(0) ? slow_ : options_.flush_max;
  const Duration delay(rng_.between(std::min(options_.flush_min, longest).count(), longest.count()));
  last_flush_ = std::max(last_flush_, queue_.now() + delay);
  queue_.at(last_flush_, [this, done = std::move(done), upto = records_.size(), compactions = compactions_] {
    const bool failed = std::exchange(flush_fails_, false);
    if (compactions == compactions_) {
      if (failed) unreal_ = std::min(unreal_, flushed_);
      flushed_ = std::max(flushed_, std::min(upto, records_.size()));
    }
    done(!failed);
  });
}

Result<> Disk::write_through(const std::string& record) {
  BOURSE_TRY(write({record}));
  flushed_ = records_.size();
  return {};
}

Result<> Disk::sync() {
  flushed_ = records_.size();
  return {};
}

Result<> Disk::compact(const std::string& snapshot) {
  if (full_) return Error(Code::kLimit, "write: No space left on device");
  snapshot_ = snapshot;
  records_.clear();
  flushed_ = 0;
  unreal_ = SIZE_MAX;
  ++compactions_;
  return {};
}

Started Disk::load(Incarnation incarnation) const {
  Started started;
  started.incarnation = incarnation;
  started.snapshot = snapshot_;
  for (const Record& r : records_) started.records.push_back(r.bytes);
  return started;
}

void Disk::power_loss() {
  std::size_t safe = flushed_;
  while (safe < records_.size() && queue_.now() - records_[safe].written > options_.writeback) ++safe;
  safe = std::min(safe, unreal_);
  unreal_ = SIZE_MAX;
  const std::size_t kept = safe + static_cast<std::size_t>(rng_.below(records_.size() - safe + 1));
  records_.resize(kept);
  flushed_ = kept;
  ++compactions_;  // flushes that were under way confirm nothing any more
}

}  // namespace bourse::sim
