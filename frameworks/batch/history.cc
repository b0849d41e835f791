#include "frameworks/batch/history.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "common/world/thread.h"
#include "frameworks/batch/ending.h"
#include "frameworks/batch/sql.h"

namespace bourse::batch {
namespace {

// "AND name IN (?,?)"; the words are bound later in the same order.
void add_list(std::string& sql, const char* column, const std::vector<std::string>& words, std::vector<std::string>& bound) {
  if (words.empty()) return;
  sql += std::string(" AND ") + column + " IN (";
  for (std::size_t i = 0; i < words.size(); ++i) sql += i == 0 ? "?" : ",?";
  sql += ")";
  bound.insert(bound.end(), words.begin(), words.end());
}

void trim(JobInfo& info) {
  JobInfo brief;
  brief = info;
  brief.full = false;
  brief.directory.clear(), brief.script_path.clear(), brief.stdin_path.clear(), brief.stdout_path.clear(),
      brief.stderr_path.clear();
  brief.dependency.clear(), brief.constraints.clear(), brief.node_request.clear(), brief.exclude.clear(), brief.submit_dir.clear();
  brief.script_digest.clear(), brief.devices.clear(), brief.args.clear();
  info = std::move(brief);
}

bool on_hosts(const JobInfo& info, const std::vector<std::string>& hosts) {
  if (hosts.empty()) return true;
  auto list = expand_hosts(info.node_list);
  if (!list) return false;
  return std::any_of(list->begin(), list->end(),
                     [&](const std::string& h) { return std::find(hosts.begin(), hosts.end(), h) != hosts.end(); });
}

}  // namespace

struct History::Impl {
  Database db;
  Reactor* reactor = nullptr;
  std::mutex mutex, reading;
  std::condition_variable work;
  std::deque<std::function<std::function<void()>()>> queue;
  bool stopping = false;
  std::thread thread;

  void loop() {
    std::unique_lock guard(mutex);
    while (true) {
      work.wait(guard, [&] { return stopping || !queue.empty(); });
      if (stopping) return;
      auto question = std::move(queue.front());
      queue.pop_front();
      guard.unlock();
      reactor->wake(question());
      guard.lock();
    }
  }
  bool push(std::function<std::function<void()>()> question) {
    {
      std::lock_guard guard(mutex);
      if (queue.size() >= kHistoryWaitingMax) return false;
      queue.push_back(std::move(question));
    }
    work.notify_one();
    return true;
  }
};

History::History() : impl_(std::make_unique<Impl>()) {}
History::~History() {
  {
    std::lock_guard guard(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->work.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
}

Result<std::unique_ptr<History>> History::open(const std::string& where, Reactor& reactor) {
  std::unique_ptr<History> out(new History());
  out->impl_->reactor = &reactor;
  BOURSE_TRY(out->impl_->db.open(where, SQLITE_OPEN_READWRITE));  // read-only use; WAL needs the shared index file writable
  if (out->impl_->db.remote() == nullptr) BOURSE_TRY(out->impl_->db.run("PRAGMA query_only=1"));
  out->impl_->thread = quiet_thread([raw = out->impl_.get()] { raw->loop(); });
  return out;
}

void History::ask(HistoryRequest request, std::function<void(HistoryReply)> done) {
  const bool taken = impl_->push([this, request = std::move(request), done]() -> std::function<void()> {
    return [done, reply = answer(request)] { done(reply); };
  });
  if (taken) return;
  HistoryReply busy;
  busy.code = Code::kBusy, busy.reason = "too many questions about the history at once; try again";
  done(std::move(busy));
}

void History::ask(JobRequest request, std::function<void(JobReply)> done) {
  const bool taken = impl_->push([this, request = std::move(request), done]() -> std::function<void()> {
    return [done, reply = answer(request)] { done(reply); };
  });
  if (taken) return;
  JobReply busy;
  busy.code = Code::kBusy, busy.reason = "too many questions about the history at once; try again";
  done(std::move(busy));
}

void History::ask(WhyRequest request, std::function<void(WhyReply)> done) {
  const bool taken = impl_->push([this, request = std::move(request), done]() -> std::function<void()> {
    return [done, reply = explain_end(answer(JobRequest{request.job, false}))] { done(reply); };
  });
  if (taken) return;
  WhyReply busy;
  busy.code = Code::kBusy, busy.reason = "too many questions about the history at once; try again";
  done(std::move(busy));
}

HistoryReply History::answer(const HistoryRequest& q) {
  std::lock_guard guard(impl_->reading);
  HistoryReply reply;
  const std::size_t limit = q.limit == 0 ? kPageDefault : std::min<std::size_t>(q.limit, kPageMax);
  std::string sql = "SELECT id, info FROM history WHERE 1=1";
  std::vector<std::string> words;
  if (!q.filter.jobs.empty()) {
    sql += " AND (1=0";
    for (const JobSelector& s : q.filter.jobs)
      sql += " OR id=" + std::to_string(s.job.value) + " OR (job=" + std::to_string(s.job.value) + " AND id>" +
             std::to_string(s.job.value) + ")";
    sql += ")";
    std::uint64_t lowest = UINT64_MAX;
    for (const JobSelector& s : q.filter.jobs) lowest = std::min(lowest, s.job.value);
    sql += " AND id>=" + std::to_string(lowest);
  }
  add_list(sql, "\"user\"", q.filter.users, words), add_list(sql, "name", q.filter.names, words);
  add_list(sql, "partition", q.filter.partitions, words), add_list(sql, "account", q.filter.accounts, words);
  if (!q.filter.states.empty()) {
    sql += " AND state IN (-1";
    for (JobState s : q.filter.states) sql += "," + std::to_string(static_cast<int>(s));
    sql += ")";
  }
  if (q.filter.from.count() > 0) sql += " AND ended>=" + std::to_string(q.filter.from.count());
  if (q.filter.to.count() > 0)
    sql += " AND (CASE WHEN started>0 THEN started ELSE ended END)<=" + std::to_string(q.filter.to.count());
  if (q.after != 0) {
    const std::string id = std::to_string(q.after & ~(std::uint64_t{1} << 63));
    sql += " AND (ended,id)<((SELECT ended FROM history WHERE id=" + id + ")," + id + ")";
  }
  sql += " ORDER BY ended DESC, id DESC LIMIT " + std::to_string(limit);
  Statement select;
  if (impl_->db.broken()) (void)static_cast<bool>(impl_->db.again());
  if (auto ok = select.prepare(impl_->db, sql.c_str()); !ok) {
    reply.code = ok.error().code(), reply.reason = ok.error().text();
    return reply;
  }
  for (const std::string& word : words) select.bind_text(word);
  std::size_t seen = 0;
  std::uint64_t last = 0;
  while (select.step()) {
    ++seen;
    last = static_cast<std::uint64_t>(select.integer(0));
    auto info = decode_info(select.bytes(1));
    if (!info || !on_hosts(*info, q.filter.hosts)) continue;
    bool asked = q.filter.jobs.empty();
    for (const JobSelector& s : q.filter.jobs)
      asked = asked || s.indexes.empty() || s.indexes == info->indexes ||
              (IndexSet::parse(s.indexes) && !info->indexes.empty() && IndexSet::parse(info->indexes) &&
               IndexSet::parse(s.indexes)->contains(IndexSet::parse(info->indexes)->min()));
    if (!asked) continue;
    if (!q.full) trim(*info);
    reply.rows.push_back(*std::move(info));
  }
  if (select.failed()) {
    const Error error = impl_->db.error("read the history");
    reply.code = error.code(), reply.reason = error.text();
  }
  if (seen == limit) reply.next = last;
  return reply;
}

JobReply History::answer(const JobRequest& request) {
  std::lock_guard guard(impl_->reading);
  JobReply reply;
  auto fail = [&](const Error& e) { reply.code = e.code(), reply.reason = e.text(); };
  Statement select;
  if (impl_->db.broken()) (void)static_cast<bool>(impl_->db.again());
  // An array's tasks have the numbers after its own, so its rows follow each other.
  if (auto ok = select.prepare(impl_->db, "SELECT job, info FROM history WHERE id>=? ORDER BY id"); !ok)
    return fail(ok.error()), reply;
  select.bind(request.job.job.value & ~(std::uint64_t{1} << 63));
  const auto asked = IndexSet::parse(request.job.indexes);
  while (reply.rows.size() < kPageMax && select.step()) {
    auto info = decode_info(select.bytes(1));
    const auto job = static_cast<std::uint64_t>(select.integer(0));
    if (!info) return fail(info.error()), reply;
    if (info->id != request.job.job && job != request.job.job.value) break;
    if (!request.job.indexes.empty() && asked) {
      const auto own = IndexSet::parse(info->indexes);
      if (!own || own->size() == 0 || !asked->contains(own->min())) continue;
    }
    reply.rows.push_back(*std::move(info));
    if (reply.rows.back().id == request.job.job) break;
  }
  if (select.failed()) return fail(impl_->db.error("read the history")), reply;
  select.reset();
  if (reply.rows.empty()) {
    reply.code = Code::kNotFound, reply.reason = "there is no job " + to_text(request.job);
    return reply;
  }
  if (request.script) {
    Statement blob;
    if (auto ok = blob.prepare(impl_->db, "SELECT bytes FROM blob WHERE digest=?"); !ok) return fail(ok.error()), reply;
    blob.bind_text(reply.rows.front().script_digest);  // once: an array's tasks share it
    if (blob.step()) reply.rows.front().script = blob.bytes(0);
    blob.reset();
  }
  return reply;
}

}  // namespace bourse::batch
