// SQLite, or PostgreSQL, as two small values that close themselves. Private to the batch framework's store, history and claim.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/core/result.h"
#include "frameworks/batch/pg.h"

namespace bourse::batch {

class Database {
 public:
  Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database() { sqlite3_close_v2(db_); }
  Result<> open(const std::string& where, int flags);  // a file, or postgresql://...
  Result<> run(const char* sql);
  [[nodiscard]] Error error(std::string_view what) const;  // of the last call
  [[nodiscard]] sqlite3* get() const { return db_; }
  // Of PostgreSQL only: the connection may go, and come again.
  [[nodiscard]] PgConnection* remote() const { return remote_.get(); }
  [[nodiscard]] bool broken() const { return remote_ != nullptr && remote_->broken(); }
  Result<> again() { return remote_->again(); }

 private:
  sqlite3* db_ = nullptr;
  std::unique_ptr<PgConnection> remote_;
};

// The tables of the store, where absent. For all programs that use one PostgreSQL, at the same time.
Result<> make_schema(Database& db);

class Statement {
 public:
  Statement() = default;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }
  Result<> prepare(Database& db, const char* sql);
  Statement& bind(std::int64_t value) {
    if (remote_) return remote_->bind(value), *this;
    return sqlite3_bind_int64(statement_, ++at_, value), *this;
  }
  Statement& bind(std::uint64_t value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind_text(std::string_view v) {
    if (remote_) return remote_->bind(v), *this;
    return sqlite3_bind_text(statement_, ++at_, v.data(), static_cast<int>(v.size()), SQLITE_TRANSIENT), *this;
  }
  Statement& bind_blob(std::string_view v) {
    if (remote_) return remote_->bind(v), *this;
    return sqlite3_bind_blob(statement_, ++at_, v.data(), static_cast<int>(v.size()), SQLITE_TRANSIENT), *this;
  }
  // True: a row. False: done, or `failed`. Resets itself when done.
  bool step();
  Result<> run();  // to the end
  void reset();
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] Error error(std::string_view what) const;  // of what failed
  [[nodiscard]] std::uint64_t changes() const;             // rows that the last run() wrote
  [[nodiscard]] std::int64_t integer(int column) const {
    return remote_ ? remote_->integer(column) : sqlite3_column_int64(statement_, column);
  }
  [[nodiscard]] std::string bytes(int column) const {
    if (remote_) return remote_->bytes(column);
    const void* data = sqlite3_column_blob(statement_, column);
    return data == nullptr
               ? std::string()
               : std::string(static_cast<const char*>(data), static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  Database* db_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
  std::unique_ptr<PgStatement> remote_;
  std::unique_ptr<Error> remote_error_;
  int at_ = 0;
  bool failed_ = false;
};

}  // namespace bourse::batch
