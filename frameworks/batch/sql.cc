#include "frameworks/batch/sql.h"

namespace bourse::batch {

Result<> Database::open(const std::string& path, int flags) {
  if (sqlite3_open_v2(path.c_str(), &db_, flags | SQLITE_OPEN_NOMUTEX, nullptr) != SQLITE_OK) return error("open " + path);
  sqlite3_busy_timeout(db_, 5000);
  return {};
}

Result<> Database::run(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return error(std::string_view(sql).substr(0, 40));
  return {};
}

Error Database::error(std::string_view what) const {
  const int code = db_ == nullptr ? SQLITE_NOMEM : sqlite3_errcode(db_);
  const Code ours = code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? Code::kCorrupt
                    : code == SQLITE_BUSY || code == SQLITE_LOCKED  ? Code::kBusy
                                                                    : Code::kIo;
  return Error(ours, std::string(what) + ": " + (db_ == nullptr ? "out of memory" : sqlite3_errmsg(db_)));
}

Result<> Statement::prepare(Database& db, const char* sql) {
  db_ = &db;
  if (sqlite3_prepare_v3(db.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr) != SQLITE_OK) return db.error(sql);
  return {};
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  failed_ = code != SQLITE_DONE;
  if (!failed_) reset();
  return false;
}

Result<> Statement::run() {
  while (step()) {}
  if (!failed_) return {};
  Error error = db_->error("write");
  reset();
  return error;
}

void Statement::reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  at_ = 0;
  failed_ = false;
}

}  // namespace bourse::batch
