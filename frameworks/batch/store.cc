#include "frameworks/batch/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "common/core/hooks.h"
#include "common/world/files.h"
#include "common/world/thread.h"
#include "frameworks/batch/protocol.h"
#include "frameworks/batch/records.h"
#include "frameworks/batch/sql.h"

namespace bourse::batch {
namespace {

// live: the submit record, and what was changed since. task: attempts and hints of tasks that have not ended. history: ends.
constexpr std::int64_t kSchemaVersion = 2;
constexpr const char* kMetaSchema =
    "CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;"
    "INSERT OR IGNORE INTO meta VALUES('schema', 2);";
constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS blob(digest TEXT PRIMARY KEY, bytes BLOB) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS live(id INTEGER PRIMARY KEY, record BLOB, change BLOB);"
    "CREATE TABLE IF NOT EXISTS task(number INTEGER PRIMARY KEY, attempt BLOB, hint BLOB);"
    "CREATE TABLE IF NOT EXISTS history(id INTEGER PRIMARY KEY, job INTEGER, first INTEGER, last INTEGER, state INTEGER, uid "
    "INTEGER,"
    " user TEXT, name TEXT, partition TEXT, account TEXT, started INTEGER, ended INTEGER, key TEXT, script TEXT, info BLOB);"
    "CREATE INDEX IF NOT EXISTS history_ended ON history(ended, id);"
    "CREATE INDEX IF NOT EXISTS history_script ON history(script);"
    "CREATE TABLE IF NOT EXISTS learnt(policy TEXT PRIMARY KEY, record BLOB) WITHOUT ROWID;"
    "INSERT OR IGNORE INTO meta VALUES('next', 1);";

}  // namespace

constexpr std::uint64_t kNumbersNoted = 4096;
// SQLite begins its log anew after this many pages, and writes over what is there.
constexpr const char* kCheckpointPages = "PRAGMA wal_autocheckpoint=4000";
constexpr std::int64_t kLogBytes = 4000LL * (4096 + 24) + 32;
constexpr std::int64_t kLogShareOfFree = 16;  // of the free space it takes no more than one such part

// Written once, with zeros (which are no frames of the log: their salt is wrong): then no commit makes the file longer, and a flush is
// one write to the disk instead of that and the inode's. Where it cannot be had, commits are slower, that is all.
static void reserve_log(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  struct stat now {};
  struct statvfs disk {};
  const std::string zeros(256 * 1024, '\0');
  bool ok = ::fstat(fd, &now) == 0 && ::fstatvfs(fd, &disk) == 0 &&
            static_cast<std::int64_t>(disk.f_bavail) > kLogBytes * kLogShareOfFree / static_cast<std::int64_t>(disk.f_frsize);
  for (std::int64_t at = now.st_size; ok && at < kLogBytes;) {
    const auto want = static_cast<std::size_t>(std::min<std::int64_t>(kLogBytes - at, static_cast<std::int64_t>(zeros.size())));
    const ssize_t n = ::pwrite(fd, zeros.data(), want, at);
    if (n <= 0) ok = false;
    at += n;
  }
  if (!ok && now.st_size < kLogBytes) (void)!::ftruncate(fd, now.st_size);
  (void)::fdatasync(fd);
  ::close(fd);
}

struct Store::Impl {
  using Pruned = Store::Pruned;
  struct Group {
    std::vector<std::string> records;
    Reactor* reactor = nullptr;
    LogFile::Done done;  // empty: told already
  };

  std::string path;
  int lock = -1;
  std::uint64_t token = 0;  // of a store that several share
  bool committing = false;  // and the answer has not come
  std::string fatal;        // why nothing more is written
  Reactor* lost_on = nullptr;
  std::function<void(std::string)> lost;
  Database db;
  Statement put_blob, put_live, set_change, put_attempt, put_hint, drop_tasks, put_history, get_live, drop_live, set_next,
      put_learnt;
  std::uint64_t next = 1;

  // Pruning; see prune(). Of the writer's thread, but for `keep`.
  std::atomic<std::int64_t> keep{kNoLimit.count()};
  std::unordered_map<std::string, std::uint32_t> live_use;  // by digest: jobs that have not ended
  std::vector<std::pair<std::string, int>> use_changes;     // of the transaction at hand
  std::map<std::string, Duration> unused_since;             // by digest; mono
  std::string swept;                                        // blobs up to this one have been looked at in this round
  Statement old_jobs, some_blobs, blob_used, drop_blob, fence;

  std::mutex mutex;
  std::condition_variable work;
  std::vector<Group> queue;
  bool stopping = false;
  std::thread writer;
  std::atomic<std::uint64_t> commits{0}, written{0};

  Result<> prepare() {
    const auto in = [this](const char* sqlite, const char* postgresql) { return db.remote() != nullptr ? postgresql : sqlite; };
    BOURSE_TRY(
        put_blob.prepare(db, in("INSERT OR IGNORE INTO blob VALUES(?,?)", "INSERT INTO blob VALUES(?,?) ON CONFLICT DO NOTHING")));
    BOURSE_TRY(put_live.prepare(db, in("INSERT OR REPLACE INTO live VALUES(?,?,NULL)",
                                       "INSERT INTO live VALUES(?,?,NULL) ON CONFLICT(id) DO UPDATE SET record=excluded.record,"
                                       " change=NULL")));
    if (db.remote() != nullptr)
      BOURSE_TRY(fence.prepare(db, hooks::mutant("store.no_fence")
                                       ? "SELECT value FROM meta WHERE name='token' AND ?>0 FOR SHARE"
                                       : "SELECT value FROM meta WHERE name='token' AND value=? FOR SHARE"));
    BOURSE_TRY(set_change.prepare(db, "UPDATE live SET change=? WHERE id=?"));
    BOURSE_TRY(put_attempt.prepare(
        db, "INSERT INTO task VALUES(?,?,NULL) ON CONFLICT(number) DO UPDATE SET attempt=excluded.attempt, hint=NULL"));
    BOURSE_TRY(put_hint.prepare(db, "INSERT INTO task VALUES(?,NULL,?) ON CONFLICT(number) DO UPDATE SET hint=excluded.hint"));
    BOURSE_TRY(drop_tasks.prepare(db, "DELETE FROM task WHERE number BETWEEN ? AND ?"));
    BOURSE_TRY(put_history.prepare(
        db, in("INSERT OR REPLACE INTO history VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
               "INSERT INTO history VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT(id) DO UPDATE SET job=excluded.job,"
               " first=excluded.first, last=excluded.last, state=excluded.state, uid=excluded.uid, \"user\"=excluded.\"user\","
               " name=excluded.name, partition=excluded.partition, account=excluded.account, started=excluded.started,"
               " ended=excluded.ended, key=excluded.key, script=excluded.script, info=excluded.info")));
    BOURSE_TRY(get_live.prepare(db, "SELECT record FROM live WHERE id=?"));
    BOURSE_TRY(drop_live.prepare(db, "DELETE FROM live WHERE id=?"));
    // A live array's ended tasks stay: without their rows a restart would run them again.
    BOURSE_TRY(
        old_jobs.prepare(db, hooks::mutant("store.prune_live_parts")
                                 ? "DELETE FROM history WHERE id IN (SELECT id FROM history WHERE ended<? ORDER BY ended LIMIT ?)"
                                 : "DELETE FROM history WHERE id IN (SELECT id FROM history WHERE ended<? AND job NOT IN "
                                   "(SELECT id FROM live) ORDER BY ended LIMIT ?)"));
    BOURSE_TRY(some_blobs.prepare(db, "SELECT digest FROM blob WHERE digest>? ORDER BY digest LIMIT ?"));
    BOURSE_TRY(blob_used.prepare(db, "SELECT 1 FROM history WHERE script=? LIMIT 1"));
    BOURSE_TRY(drop_blob.prepare(db, "DELETE FROM blob WHERE digest=?"));
    BOURSE_TRY(
        put_learnt.prepare(db, in("INSERT OR REPLACE INTO learnt VALUES(?,?)",
                                  "INSERT INTO learnt VALUES(?,?) ON CONFLICT(policy) DO UPDATE SET record=excluded.record")));
    return set_next.prepare(db, "UPDATE meta SET value=? WHERE name='next'");
  }

  // A task's own number; arrays' tasks follow their job's.
  Result<std::uint64_t> number_of(JobId job, std::uint64_t rank) {
    get_live.bind(job.value);
    std::uint64_t number = job.value;
    if (get_live.step()) {
      auto record = decode_record(get_live.bytes(0));
      if (record)
        if (const auto* s = std::get_if<SubmitRecord>(&*record); s != nullptr && s->ids > 1) number = job.value + 1 + rank;
    }
    get_live.reset();
    return number;
  }

  Result<> apply(const std::string& bytes) {
    Record record = BOURSE_TRY(decode_record(bytes));
    if (const auto* b = std::get_if<BlobRecord>(&record)) return put_blob.bind_text(b->digest).bind_blob(b->bytes).run();
    if (const auto* s = std::get_if<SubmitRecord>(&record)) {
      next = std::max(next, s->id.value + s->ids);
      for (const std::string& digest : {s->script_digest, s->env_digest}) use_changes.emplace_back(digest, 1);
      return put_live.bind(s->id.value).bind_blob(bytes).run();
    }
    if (const auto* a = std::get_if<AttemptRecord>(&record))
      return put_attempt.bind(BOURSE_TRY(number_of(a->job, a->rank))).bind_blob(bytes).run();
    if (const auto* h = std::get_if<HintRecord>(&record))
      return put_hint.bind(BOURSE_TRY(number_of(h->job, h->rank))).bind_blob(bytes).run();
    if (const auto* l = std::get_if<LearntRecord>(&record)) return put_learnt.bind_text(l->policy).bind_blob(bytes).run();
    if (const auto* c = std::get_if<ChangeRecord>(&record)) return set_change.bind_blob(bytes).bind(c->job.value).run();
    if (const auto* e = std::get_if<EndRecord>(&record)) {
      const JobInfo info = BOURSE_TRY(decode_info(e->info));
      std::string key;
      if (e->whole) {
        get_live.bind(e->job.value);
        if (get_live.step())
          if (auto live = decode_record(get_live.bytes(0)); live)
            if (const auto* s = std::get_if<SubmitRecord>(&*live)) {
              key = s->key;
              for (const std::string& digest : {s->script_digest, s->env_digest}) use_changes.emplace_back(digest, -1);
            }
        get_live.reset();
      }
      BOURSE_TRY(put_history.bind(e->number)
                     .bind(e->job.value)
                     .bind(e->first)
                     .bind(e->last)
                     .bind(static_cast<std::int64_t>(e->state))
                     .bind(info.uid)
                     .bind_text(info.user)
                     .bind_text(info.name)
                     .bind_text(info.partition)
                     .bind_text(info.account)
                     .bind(static_cast<std::int64_t>(info.started.count()))
                     .bind(static_cast<std::int64_t>(info.ended.count()))
                     .bind_text(key)
                     .bind_text(info.script_digest)
                     .bind_blob(e->info)
                     .run());
      BOURSE_TRY(drop_tasks.bind(e->number).bind(e->number + (e->last - e->first)).run());
      if (e->whole) BOURSE_TRY(drop_live.bind(e->job.value).run());
    }
    return {};
  }

  Result<> begin() {
    if (db.remote() == nullptr) return db.run("BEGIN IMMEDIATE");
    if (db.broken()) BOURSE_TRY(db.again());
    BOURSE_TRY(db.run("BEGIN"));
    fence.bind(token);
    const bool ours = fence.step();
    if (fence.failed()) {
      Error error = fence.error("look at the claim");
      fence.reset();
      return error;
    }
    fence.reset();
    if (ours) return {};
    fatal = "another bourse-batch has taken the queue over";
    return Error(Code::kGone, fatal);
  }

  Result<> commit(const std::vector<Group>& groups) {
    const std::uint64_t before = next;
    use_changes.clear();
    auto body = [&]() -> Result<> {
      committing = false;
      BOURSE_TRY(begin());
      for (const Group& group : groups)
        for (const std::string& record : group.records) BOURSE_TRY(apply(record));
      // What is live and what ended imply the next number; writing it down each time would cost a page a commit.
      if (next / kNumbersNoted != before / kNumbersNoted) BOURSE_TRY(set_next.bind(next).run());
      hooks::crash_point("store.before_commit");
      committing = true;
      return db.run("COMMIT");
    };
    Result<> done = body();
    if (!done) {
      if (committing && db.remote() != nullptr)
        fatal = "the database did not say whether it has carried out the last commit (" + done.error().text() + ")";
      // After some errors SQLite has rolled back by itself; a second rollback is then refused, which is fine.
      (void)static_cast<bool>(db.run("ROLLBACK"));
      next = before;
      return done;
    }
    hooks::crash_point("store.after_commit");
    for (const auto& [digest, change] : use_changes) use(digest, change);
    ++commits;
    for (const Group& group : groups) written += group.records.size();
    return {};
  }

  void use(const std::string& digest, int change) {
    if (change > 0) {
      ++live_use[digest];
    } else if (auto it = live_use.find(digest); it != live_use.end() && --it->second == 0) {
      live_use.erase(it);
    }
  }

  // One small transaction: some history that is too old goes, and scripts and environments that no job, live or remembered, has
  // had for a while. Not at once: the actor may just be sending a job that shares one it has known as stored.
  Result<Pruned> prune(Time now) {
    Pruned out;
    std::vector<std::string> unused;
    std::string last = swept;
    std::size_t seen = 0;
    auto body = [&]() -> Result<> {
      BOURSE_TRY(begin());
      if (const Duration kept{keep.load()}; kept != kNoLimit && kept < now.wall) {
        BOURSE_TRY(old_jobs.bind(static_cast<std::int64_t>((now.wall - kept).count())).bind(kPruneRows).run());
        out.jobs = old_jobs.changes();
        // Numbers are never used again: the rows that implied how far they had come are gone.
        if (out.jobs > 0 && !hooks::mutant("store.prune_forgets_numbers")) BOURSE_TRY(set_next.bind(next).run());
      }
      some_blobs.bind_text(swept).bind(kPruneRows);
      while (some_blobs.step()) {
        last = some_blobs.bytes(0);
        ++seen;
        bool used = live_use.contains(last);
        if (!used) {
          blob_used.bind_text(last);
          used = blob_used.step();
          blob_used.reset();
        }
        if (!used) unused.push_back(last);
        if (used) unused_since.erase(last);
      }
      some_blobs.reset();
      for (const std::string& digest : unused) {
        const auto since = unused_since.find(digest);
        if (since == unused_since.end() || since->second + kBlobUnused > now.mono) continue;
        BOURSE_TRY(drop_blob.bind_text(digest).run());
        ++out.blobs;
      }
      hooks::crash_point("store.before_prune_commit");
      return db.run("COMMIT");
    };
    Result<> done = body();
    if (!done) {
      some_blobs.reset(), blob_used.reset();
      (void)static_cast<bool>(db.run("ROLLBACK"));
      return std::move(done).error();
    }
    for (const std::string& digest : unused) {
      const auto [it, fresh] = unused_since.try_emplace(digest, now.mono);
      if (!fresh && it->second + kBlobUnused <= now.mono) unused_since.erase(it);
      if (fresh && unused_since.size() > kUnusedMax) unused_since.erase(it);  // in a later round
    }
    swept = seen < kPruneRows ? std::string() : last;
    out.more = out.jobs >= kPruneRows || seen >= kPruneRows;
    return out;
  }

  void loop() {
    std::unique_lock lock_queue(mutex);
    Duration prune_at = real_time().mono + kPruneEvery;
    while (true) {
      const Duration wait = std::max(prune_at - real_time().mono, Duration{0});
      work.wait_for(lock_queue, wait, [&] { return stopping || !queue.empty(); });
      if (const Time now = real_time(); now.mono >= prune_at && !stopping) {
        lock_queue.unlock();
        const auto pruned = prune(now);  // that it failed, the next append tells as well; it is tried again
        prune_at = now.mono + (pruned && pruned->more ? kPruneAgain : kPruneEvery);
        lock_queue.lock();
      }
      if (queue.empty() && !stopping) continue;
      if (queue.empty()) return;
      std::vector<Group> groups;
      std::size_t count = 0;
      for (Group& group : queue) count += group.records.size();
      if (count <= kGroupRecordsMax) {
        groups.swap(queue);
      } else {
        count = 0;
        std::size_t taken = 0;
        while (taken < queue.size() && (taken == 0 || count + queue[taken].records.size() <= kGroupRecordsMax))
          count += queue[taken++].records.size();
        groups.assign(std::make_move_iterator(queue.begin()),
                      std::make_move_iterator(queue.begin() + static_cast<std::ptrdiff_t>(taken)));
        queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(taken));
      }
      lock_queue.unlock();
      const Result<> result = commit(groups);
      if (!fatal.empty() && lost) {
        lost_on->wake([tell = lost, reason = fatal] { tell(reason); });
        return;
      }
      Reactor* reactor = nullptr;
      std::vector<LogFile::Done> tell;
      for (Group& group : groups)
        if (group.done) tell.push_back(std::move(group.done)), reactor = group.reactor;
      if (reactor != nullptr)
        reactor->wake([tell = std::move(tell), result] {
          for (const auto& done : tell) done(result);
        });
      lock_queue.lock();
    }
  }

  Result<> check_schema() {
    Statement meta;
    BOURSE_TRY(meta.prepare(db, "SELECT value FROM meta WHERE name=?"));
    meta.bind_text("schema");
    if (!meta.step()) return db.error("read the schema's version");
    if (meta.integer(0) != kSchemaVersion)
      return Error(Code::kVersion, path + " is of schema " + std::to_string(meta.integer(0)) + "; this bourse-batch knows " +
                                       std::to_string(kSchemaVersion));
    meta.reset();
    return {};
  }

  Result<> load(std::vector<std::string>& records) {
    Statement meta, live, blob, tasks, parts, outcomes;
    BOURSE_TRY(meta.prepare(db, "SELECT value FROM meta WHERE name=?"));
    meta.bind_text("next");
    if (meta.step()) next = static_cast<std::uint64_t>(meta.integer(0));
    meta.reset();

    BOURSE_TRY(live.prepare(db, "SELECT id, record, change FROM live ORDER BY id"));
    BOURSE_TRY(blob.prepare(db, "SELECT bytes FROM blob WHERE digest=?"));
    BOURSE_TRY(parts.prepare(db, "SELECT job, first, last, state, id FROM history WHERE id BETWEEN ? AND ?"));
    std::set<std::string> blobs;
    std::set<std::uint64_t> alive;
    std::vector<std::string> changes, ends, submits;
    while (live.step()) {
      std::string bytes = live.bytes(1);
      Record record = BOURSE_TRY(decode_record(bytes));
      const auto* s = std::get_if<SubmitRecord>(&record);
      if (s == nullptr) return Error(Code::kCorrupt, path + ": job " + std::to_string(live.integer(0)) + " has no submit record");
      alive.insert(s->id.value);
      next = std::max(next, s->id.value + s->ids);
      for (const std::string& digest : {s->script_digest, s->env_digest}) {
        use(digest, 1);
        if (!blobs.insert(digest).second) continue;
        blob.bind_text(digest);
        if (blob.step()) records.push_back(encode(Record(BlobRecord{digest, blob.bytes(0)})));
        blob.reset();
      }
      if (s->ids > 1) {
        parts.bind(s->id.value + 1).bind(s->id.value + s->ids - 1);
        while (parts.step())
          ends.push_back(encode(Record(EndRecord{JobId(static_cast<std::uint64_t>(parts.integer(0))),
                                                 static_cast<std::uint64_t>(parts.integer(1)),
                                                 static_cast<std::uint64_t>(parts.integer(2)),
                                                 static_cast<JobState>(parts.integer(3)),
                                                 false,
                                                 static_cast<std::uint64_t>(parts.integer(4)),
                                                 {}})));
      }
      if (std::string change = live.bytes(2); !change.empty()) changes.push_back(std::move(change));
      submits.push_back(std::move(bytes));
    }
    auto move_all = [&](std::vector<std::string>& from) {
      records.insert(records.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
    };
    move_all(submits), move_all(changes), move_all(ends);
    BOURSE_TRY(tasks.prepare(db, "SELECT attempt, hint FROM task ORDER BY number"));
    while (tasks.step())
      for (int column : {0, 1})
        if (std::string bytes = tasks.bytes(column); !bytes.empty()) records.push_back(std::move(bytes));

    // Of the past only what dependencies and submission keys may still ask for.
    BOURSE_TRY(outcomes.prepare(db, "SELECT id, job, state, key, uid, last-first FROM history ORDER BY id DESC LIMIT ?"));
    outcomes.bind(static_cast<std::uint64_t>(kOutcomesLoaded));
    std::map<std::uint64_t, OutcomeRecord> arrays;
    std::vector<std::string> past;
    while (outcomes.step()) {
      const auto id = static_cast<std::uint64_t>(outcomes.integer(0)), job = static_cast<std::uint64_t>(outcomes.integer(1));
      next = std::max(next, id + static_cast<std::uint64_t>(outcomes.integer(5)) + 1);
      const bool ok = static_cast<JobState>(outcomes.integer(2)) == JobState::kCompleted;
      OutcomeRecord out{JobId(id), ok, outcomes.bytes(3), outcomes.integer(4)};
      if (id != job) {
        auto [it, fresh] = arrays.try_emplace(job, OutcomeRecord{JobId(job), true, {}, out.uid});
        it->second.ok = it->second.ok && ok;
        if (!out.key.empty()) it->second.key = out.key, out.key.clear();
        continue;
      }
      past.push_back(encode(Record(out)));
    }
    for (const auto& [job, out] : arrays)
      if (!alive.contains(job)) past.push_back(encode(Record(out)));
    std::reverse(past.begin(), past.end());
    move_all(past);
    Statement learnt;
    BOURSE_TRY(learnt.prepare(db, "SELECT record FROM learnt ORDER BY policy"));
    while (learnt.step()) records.push_back(learnt.bytes(0));
    records.push_back(encode(Record(CounterRecord{JobId(next)})));
    return {};
  }
};

Store::Store() : impl_(std::make_unique<Impl>()) {}

Result<std::unique_ptr<Store>> Store::open(const std::string& where, std::vector<std::string>& records, std::uint64_t token) {
  std::unique_ptr<Store> store(new Store());
  Impl& impl = *store->impl_;
  impl.token = token;
  if (is_postgresql(where)) {
    impl.path = "the database";  // its URI may have a password in it
    BOURSE_TRY(impl.db.open(where, 0));
    BOURSE_TRY(make_schema(impl.db));
    BOURSE_TRY(impl.check_schema());
    BOURSE_TRY(impl.prepare());
    BOURSE_TRY(impl.begin());  // nobody writes while we read, and it is still ours
    BOURSE_TRY(impl.load(records));
    BOURSE_TRY(impl.db.run("COMMIT"));
  } else {
    BOURSE_TRY(make_directories(directory_of(where), 0700));
    impl.path = where;
    impl.lock = ::open((where + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (impl.lock < 0) return errno_error("open " + where + ".lock");
    if (::flock(impl.lock, LOCK_EX | LOCK_NB) != 0) return Error(Code::kBusy, where + " is in use by another bourse-batch");
    BOURSE_TRY(impl.db.open(where, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
    BOURSE_TRY(impl.db.run("PRAGMA journal_mode=WAL"));
    BOURSE_TRY(impl.db.run("PRAGMA synchronous=FULL"));
    BOURSE_TRY(impl.db.run("PRAGMA cache_size=-16384"));
    BOURSE_TRY(impl.db.run(kCheckpointPages));
    BOURSE_TRY(impl.db.run(kMetaSchema));
    BOURSE_TRY(impl.check_schema());
    BOURSE_TRY(impl.db.run(kSchema));
    BOURSE_TRY(impl.prepare());
    BOURSE_TRY(impl.load(records));
    reserve_log(where + "-wal");
  }
  impl.writer = quiet_thread([raw = &impl] { raw->loop(); });
  return store;
}

Store::~Store() {
  {
    std::lock_guard guard(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->work.notify_all();
  if (impl_->writer.joinable()) impl_->writer.join();
  if (impl_->lock >= 0) ::close(impl_->lock);
}

void Store::append(Reactor& reactor, std::vector<Append> appends, LogFile::Done done) {
  Impl::Group group;
  bool power = false;
  for (Append& a : appends) {
    power = power || a.safety == Safety::kPower;
    group.records.push_back(std::move(a.record));
  }
  if (power) {
    group.reactor = &reactor;
    group.done = std::move(done);
  }
  {
    std::lock_guard guard(impl_->mutex);
    impl_->queue.push_back(std::move(group));
  }
  impl_->work.notify_one();
  hooks::crash_point("batch.after_append");
  if (!power) done({});
}

Result<> Store::append_now(const std::vector<std::string>& records) {
  std::vector<Impl::Group> groups(1);
  groups.front().records = records;
  return impl_->commit(groups);
}

void Store::on_lost(Reactor& reactor, std::function<void(std::string)> lost) {
  impl_->lost_on = &reactor;
  impl_->lost = std::move(lost);
}

void Store::keep_history(Duration keep) { impl_->keep = keep.count(); }
Result<Store::Pruned> Store::prune_now(Time now) { return impl_->prune(now); }

std::uint64_t Store::commits() const { return impl_->commits; }
std::uint64_t Store::records_written() const { return impl_->written; }

}  // namespace bourse::batch
