#include "frameworks/batch/pg.h"

#include <dlfcn.h>
#include <postgresql/libpq-fe.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace bourse::batch {
namespace {

constexpr Oid kBytea = 17;  // pg_type.dat

struct Library {
  decltype(&PQconnectdbParams) connect = nullptr;
  decltype(&PQfinish) finish = nullptr;
  decltype(&PQstatus) status = nullptr;
  decltype(&PQerrorMessage) message = nullptr;
  decltype(&PQexec) exec = nullptr;
  decltype(&PQprepare) prepare = nullptr;
  decltype(&PQexecPrepared) exec_prepared = nullptr;
  decltype(&PQresultStatus) result_status = nullptr;
  decltype(&PQresultErrorField) error_field = nullptr;
  decltype(&PQresultErrorMessage) result_message = nullptr;
  decltype(&PQclear) clear = nullptr;
  decltype(&PQntuples) rows = nullptr;
  decltype(&PQgetvalue) value = nullptr;
  decltype(&PQgetisnull) is_null = nullptr;
  decltype(&PQgetlength) length = nullptr;
  decltype(&PQftype) type = nullptr;
  decltype(&PQcmdTuples) changes = nullptr;
  decltype(&PQunescapeBytea) unescape = nullptr;
  decltype(&PQfreemem) free_memory = nullptr;
  decltype(&PQsetNoticeReceiver) notices = nullptr;
  std::string missing;
};

const Library& pq() {
  static const Library library = [] {
    Library out;
    void* handle = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    const auto take = [&](auto& function, const char* name) {
      void* found = handle == nullptr ? nullptr : dlsym(handle, name);
      if (found == nullptr && out.missing.empty()) {
        const char* why = dlerror();  // NOLINT(concurrency-mt-unsafe): inside a static's initialisation
        out.missing = why == nullptr ? name : why;
      }
      std::memcpy(&function, &found, sizeof found);
    };
    take(out.connect, "PQconnectdbParams"), take(out.finish, "PQfinish"), take(out.status, "PQstatus");
    take(out.message, "PQerrorMessage"), take(out.exec, "PQexec"), take(out.prepare, "PQprepare");
    take(out.exec_prepared, "PQexecPrepared"), take(out.result_status, "PQresultStatus");
    take(out.error_field, "PQresultErrorField"), take(out.result_message, "PQresultErrorMessage"), take(out.clear, "PQclear");
    take(out.rows, "PQntuples"), take(out.value, "PQgetvalue"), take(out.is_null, "PQgetisnull");
    take(out.length, "PQgetlength"), take(out.type, "PQftype"), take(out.changes, "PQcmdTuples");
    take(out.unescape, "PQunescapeBytea"), take(out.free_memory, "PQfreemem"), take(out.notices, "PQsetNoticeReceiver");
    return out;
  }();
  return library;
}

std::string one_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  for (char& c : text)
    if (c == '\n' || c == '\t') c = ' ';
  return text;
}

bool good(const pg_result* result) {
  const ExecStatusType status = pq().result_status(result);
  return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY;
}

pg_conn* connect_to(const std::string& uri) {
  // What the URI says itself comes later, and counts.
  const char* keys[] = {"connect_timeout",  "keepalives_idle", "keepalives_interval",  "keepalives_count", "tcp_user_timeout",
                        "application_name", "client_encoding", "target_session_attrs", "dbname",           nullptr};
  const char* values[] = {"5", "5", "2", "3", "10000", "bourse-batch", "SQL_ASCII", "read-write", uri.c_str(), nullptr};
  pg_conn* conn = pq().connect(keys, values, 1);
  if (conn != nullptr)
    pq().notices(
        conn, [](void*, const PGresult*) {}, nullptr);
  return conn;
}

}  // namespace

bool is_postgresql(std::string_view where) { return where.starts_with("postgresql://") || where.starts_with("postgres://"); }

PgConnection::~PgConnection() {
  if (conn_ != nullptr) pq().finish(conn_);
}

Result<std::unique_ptr<PgConnection>> PgConnection::open(const std::string& uri) {
  if (!pq().missing.empty())
    return Error(Code::kUnsupported,
                 "batch.store is of PostgreSQL, whose library cannot be used: " + pq().missing + "; install the package libpq5");
  std::unique_ptr<PgConnection> out(new PgConnection());
  out->last_ = uri;
  out->conn_ = connect_to(uri);
  if (out->broken()) return out->error("connect");
  return out;
}

bool PgConnection::broken() const { return doomed_ || conn_ == nullptr || pq().status(conn_) != CONNECTION_OK; }

Result<> PgConnection::again() {
  if (conn_ != nullptr) pq().finish(conn_);
  conn_ = connect_to(last_);
  doomed_ = false;
  ++life_;
  if (broken()) return error("connect");
  return {};
}

Error PgConnection::error(std::string_view what) const {
  return Error(Code::kIo,
               "PostgreSQL: " + std::string(what) + ": " + (conn_ == nullptr ? "out of memory" : one_line(pq().message(conn_))));
}

Error PgConnection::failed(std::string_view what, const pg_result* result) {
  const char* state = result == nullptr ? nullptr : pq().error_field(result, PG_DIAG_SQLSTATE);
  const std::string code = state == nullptr ? "" : state;
  // 57P0x: the server is being shut down; 25006: it takes no writes, as one that has become a standby; 08xxx: connection.
  if (code.starts_with("57P") || code == "25006" || code.starts_with("08")) doomed_ = true;
  const std::string text = result == nullptr ? "" : one_line(pq().result_message(result));
  return Error(Code::kIo,
               "PostgreSQL: " + std::string(what.substr(0, 60)) + ": " + (text.empty() ? one_line(pq().message(conn_)) : text));
}

Result<> PgConnection::run(const char* sql) {
  pg_result* result = pq().exec(conn_, sql);
  Result<> out;
  if (!good(result)) out = failed(sql, result);
  pq().clear(result);
  return out;
}

PgStatement::PgStatement(PgConnection& connection, std::string_view sql) : connection_(connection) {
  int bound = 0;
  for (const char c : sql) {
    if (c != '?')
      sql_ += c;
    else
      sql_ += "$" + std::to_string(++bound);
  }
  name_ = "s" + std::to_string(++connection.statements_);
}

PgStatement::~PgStatement() {
  if (result_ != nullptr) pq().clear(result_);
}

void PgStatement::bind(std::int64_t value) { values_.push_back({std::to_string(value), false}); }
void PgStatement::bind(std::string_view bytes) { values_.push_back({std::string(bytes), true}); }

Result<bool> PgStatement::step() {
  if (result_ == nullptr) {
    if (life_ != connection_.life_) {
      pg_result* made = pq().prepare(connection_.conn_, name_.c_str(), sql_.c_str(), 0, nullptr);
      Result<> prepared;
      if (!good(made)) prepared = connection_.failed(sql_, made);
      pq().clear(made);
      BOURSE_TRY(prepared);
      life_ = connection_.life_;
    }
    std::vector<const char*> texts;
    std::vector<int> lengths, formats;
    for (const Value& value : values_) {
      texts.push_back(value.text.data());
      lengths.push_back(static_cast<int>(value.text.size()));
      formats.push_back(value.binary ? 1 : 0);
    }
    result_ = pq().exec_prepared(connection_.conn_, name_.c_str(), static_cast<int>(values_.size()), texts.data(), lengths.data(),
                                 formats.data(), 0);
    if (!good(result_)) {
      Error error = connection_.failed(sql_, result_);
      reset();
      return error;
    }
    changes_ = std::strtoull(pq().changes(result_), nullptr, 10);
  }
  return ++row_ < pq().rows(result_);
}

void PgStatement::reset() {
  if (result_ != nullptr) pq().clear(result_);
  result_ = nullptr;
  row_ = -1;
  values_.clear();
}

std::int64_t PgStatement::integer(int column) const {
  return pq().is_null(result_, row_, column) != 0 ? 0 : std::strtoll(pq().value(result_, row_, column), nullptr, 10);
}

std::string PgStatement::bytes(int column) const {
  if (pq().is_null(result_, row_, column) != 0) return {};
  const char* text = pq().value(result_, row_, column);
  if (pq().type(result_, column) != kBytea) return {text, static_cast<std::size_t>(pq().length(result_, row_, column))};
  std::size_t size = 0;
  unsigned char* raw = pq().unescape(reinterpret_cast<const unsigned char*>(text), &size);
  if (raw == nullptr) return {};
  std::string out(reinterpret_cast<const char*>(raw), size);
  pq().free_memory(raw);
  return out;
}

}  // namespace bourse::batch
