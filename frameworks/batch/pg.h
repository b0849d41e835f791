// PostgreSQL as a connection and prepared statements, in the shape that sql.h wants. Private to sql.h and claim.h.
//
// libpq is opened when it is first asked for, so that who keeps the queue in a file needs none of it. Blocking; one thread at a time.
// Whole numbers are bigint, everything else bytea, whatever it is: users' words are bytes, and no encoding refuses them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

struct pg_conn;
struct pg_result;

namespace bourse::batch {

bool is_postgresql(std::string_view where);  // "postgresql://..." or "postgres://..."

class PgConnection {
 public:
  ~PgConnection();
  PgConnection(const PgConnection&) = delete;
  PgConnection& operator=(const PgConnection&) = delete;
  // The URI may name several hosts; that which takes writes is used unless it says otherwise. Its password is in no error.
  static Result<std::unique_ptr<PgConnection>> open(const std::string& uri);
  Result<> run(const char* sql);  // one or several statements; nothing is read
  // The connection is gone, or the server says that it ends or takes no writes any more: nothing more will come of it.
  [[nodiscard]] bool broken() const;
  Result<> again();  // a new connection; statements are prepared anew when they are used
  [[nodiscard]] Error error(std::string_view what) const;

 private:
  friend class PgStatement;
  PgConnection() = default;
  Error failed(std::string_view what, const pg_result* result);
  pg_conn* conn_ = nullptr;
  std::uint64_t life_ = 1, statements_ = 0;
  bool doomed_ = false;
  std::string last_;
};

class PgStatement {
 public:
  PgStatement(PgConnection& connection, std::string_view sql);  // '?' for what is bound
  ~PgStatement();
  PgStatement(const PgStatement&) = delete;
  PgStatement& operator=(const PgStatement&) = delete;
  void bind(std::int64_t value);
  void bind(std::string_view bytes);
  Result<bool> step();  // true: a row
  void reset();
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::string bytes(int column) const;
  [[nodiscard]] std::uint64_t changes() const { return changes_; }  // rows that it wrote

 private:
  struct Value {
    std::string text;
    bool binary = false;
  };
  PgConnection& connection_;
  std::string sql_, name_;
  std::uint64_t life_ = 0, changes_ = 0;
  std::vector<Value> values_;
  pg_result* result_ = nullptr;
  int row_ = -1;
};

}  // namespace bourse::batch
