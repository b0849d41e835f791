#include "frameworks/batch/sql.h"

namespace bourse::batch {
namespace {

// As store.cc has it for SQLite; beside it what standbys need (claim.h).
constexpr const char* kPostgreSchema =
    "BEGIN; SELECT pg_advisory_xact_lock(7081967);"
    "CREATE TABLE IF NOT EXISTS meta(name BYTEA PRIMARY KEY, value BIGINT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS blob(digest BYTEA PRIMARY KEY, bytes BYTEA);"
    "CREATE TABLE IF NOT EXISTS live(id BIGINT PRIMARY KEY, record BYTEA, change BYTEA);"
    "CREATE TABLE IF NOT EXISTS task(number BIGINT PRIMARY KEY, attempt BYTEA, hint BYTEA);"
    "CREATE TABLE IF NOT EXISTS history(id BIGINT PRIMARY KEY, job BIGINT, first BIGINT, last BIGINT, state BIGINT, uid BIGINT,"
    " \"user\" BYTEA, name BYTEA, partition BYTEA, account BYTEA, started BIGINT, ended BIGINT, key BYTEA, script BYTEA, info "
    "BYTEA);"
    "CREATE INDEX IF NOT EXISTS history_ended ON history(ended, id);"
    "CREATE INDEX IF NOT EXISTS history_script ON history(script);"
    "CREATE TABLE IF NOT EXISTS learnt(policy BYTEA PRIMARY KEY, record BYTEA);"
    "INSERT INTO meta VALUES('schema', 2), ('next', 1), ('token', 0), ('beat', 0), ('incarnation', 0), ('owner', 0), ('left', -1)"
    " ON CONFLICT DO NOTHING; COMMIT";

}  // namespace

Result<> make_schema(Database& db) { return db.run(kPostgreSchema); }

Result<> Database::open(const std::string& where, int flags) {
  if (is_postgresql(where)) {
    remote_ = BOURSE_TRY(PgConnection::open(where));
    return {};
  }
  if (sqlite3_open_v2(where.c_str(), &db_, flags | SQLITE_OPEN_NOMUTEX, nullptr) != SQLITE_OK) return error("open " + where);
  sqlite3_busy_timeout(db_, 5000);
  return {};
}

Result<> Database::run(const char* sql) {
  if (remote_) return remote_->run(sql);
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return error(std::string_view(sql).substr(0, 40));
  return {};
}

Error Database::error(std::string_view what) const {
  if (remote_) return remote_->error(what);
  const int code = db_ == nullptr ? SQLITE_NOMEM : sqlite3_errcode(db_);
  const Code ours = code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? Code::kCorrupt
                    : code == SQLITE_BUSY || code == SQLITE_LOCKED  ? Code::kBusy
                                                                    : Code::kIo;
  return Error(ours, std::string(what) + ": " + (db_ == nullptr ? "out of memory" : sqlite3_errmsg(db_)));
}

Result<> Statement::prepare(Database& db, const char* sql) {
  db_ = &db;
  if (db.remote() != nullptr) {
    remote_ = std::make_unique<PgStatement>(*db.remote(), sql);
    return {};
  }
  if (sqlite3_prepare_v3(db.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr) != SQLITE_OK) return db.error(sql);
  return {};
}

bool Statement::step() {
  if (remote_) {
    auto row = remote_->step();
    failed_ = !row;
    if (failed_) remote_error_ = std::make_unique<Error>(row.error());
    if (row && *row) return true;
    if (!failed_) reset();
    return false;
  }
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  failed_ = code != SQLITE_DONE;
  if (!failed_) reset();
  return false;
}

Result<> Statement::run() {
  while (step()) {}
  if (!failed_) return {};
  Error failure = error("write");
  reset();
  return failure;
}

Error Statement::error(std::string_view what) const { return remote_ && remote_error_ ? *remote_error_ : db_->error(what); }

std::uint64_t Statement::changes() const {
  return remote_ ? remote_->changes() : static_cast<std::uint64_t>(sqlite3_changes(db_->get()));
}

void Statement::reset() {
  failed_ = false;
  if (remote_) return remote_->reset();
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  at_ = 0;
}

}  // namespace bourse::batch
