#include "common/world/log_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/core/hooks.h"
#include "common/world/files.h"
#include "common/world/thread.h"

namespace bourse {
namespace {

constexpr std::string_view kMagic = "BOURSLOG";
constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kHeaderBytes = 16;
constexpr std::size_t kFrameBytes = 9;  // length, sum, type
constexpr char kRecord = 1, kSnapshot = 2;
constexpr std::uint64_t kSearchBytesMax = 4ULL * 1024 * 1024 * 1024;  // summed while looking for valid records after damage

void put32(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift & 0xFF));
}

std::uint32_t get32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

void put_record(std::string& out, char type, std::string_view body) {
  put32(out, static_cast<std::uint32_t>(body.size()));
  put32(out, crc32c(body, crc32c({&type, 1})));
  out.push_back(type);
  out.append(body);
}

std::string make_header() {
  std::string out(kMagic);
  put32(out, kFormat);
  put32(out, crc32c(out));
  return out;
}

struct Found {
  char type = 0;
  std::string_view body;
};

// The record at `at`, if there is a whole and valid one. `budget` bounds the work of a search.
std::optional<Found> record_at(std::string_view file, std::size_t at, std::uint64_t* budget = nullptr) {
  if (file.size() < at + kFrameBytes) return {};
  const std::size_t length = get32(file, at);
  const char type = file[at + 8];
  if ((type != kRecord && type != kSnapshot) || length > file.size() - at - kFrameBytes) return {};
  if (budget != nullptr) {
    if (*budget < length) return Found{};  // enough: the caller stops
    *budget -= length;
  }
  const std::string_view summed = file.substr(at + 8, length + 1);
  if (crc32c(summed) != get32(file, at + 4) && !hooks::mutant("log_file.checksum")) return {};
  return Found{type, summed.substr(1)};
}

}  // namespace

struct LogFile::Impl {
  struct Waiting {
    Reactor* reactor = nullptr;
    Done done;
    bool failed = false;  // the write was: `error` has it; still answered in its turn
    std::optional<Error> error;
  };

  std::string path;
  int fd = -1;               // changed by compact() only, while no flush is under way
  std::uint64_t size = 0;    // reactor's thread
  bool half_record = false;  // a failed write could not be undone: to be cut off before the next
  std::atomic<std::uint64_t> size_seen{0}, flushes{0};

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Waiting> waiting;  // guarded
  bool flushing = false, ending = false, broken = false;
  std::thread writer;  // started with the first kPower append

  ~Impl() {
    {
      std::lock_guard lock(mutex);
      ending = true;
    }
    changed.notify_all();
    if (writer.joinable()) writer.join();
    if (fd >= 0) close(fd);
  }

  Error broken_error() const { return Error(Code::kIo, path + ": an earlier flush failed, what is on the disk is not known"); }

  Result<> cut_to(std::uint64_t end) {
    if (hooks::mutant("log_file.cut_half_record")) return {};
    if (ftruncate(fd, static_cast<off_t>(end)) != 0) return errno_error("truncate " + path);
    return {};
  }

  Result<> write_records(const std::vector<std::string>& records) {
    {
      std::lock_guard lock(mutex);
      if (broken) return broken_error();
    }
    if (half_record) {
      BOURSE_TRY(cut_to(size));
      half_record = false;
    }
    std::string bytes;
    std::size_t total = 0;
    for (const std::string& record : records) {
      if (record.size() > kLogRecordMax)
        return Error(Code::kLimit, path + ": a record of " + std::to_string(record.size()) + " bytes");
      total += record.size() + kFrameBytes;
    }
    bytes.reserve(total);
    for (const std::string& record : records) put_record(bytes, kRecord, record);
    if (bytes.empty()) return {};
    if (!write_all(fd, bytes)) {
      Error error = errno_error("write " + path);
      half_record = !cut_to(size);
      return error;
    }
    size += bytes.size();
    size_seen = size;
    hooks::crash_point("log_file.after_write");
    return {};
  }

  Result<> flush() {
    if (hooks::mutant("log_file.flush")) return {};
    ++flushes;
    if (fdatasync(fd) == 0) return {};
    return errno_error("flush " + path);
  }

  // The writer thread: one flush for all that came while the one before was under way.
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ending || !waiting.empty(); });
      if (waiting.empty()) return;
      std::vector<Waiting> batch;
      batch.swap(waiting);
      flushing = true;
      lock.unlock();
      bool any = false;
      for (const Waiting& w : batch) any = any || !w.failed;
      std::optional<Error> error;
      if (any) {
        Result<> flushed = flush();
        if (!flushed) error = flushed.error();
      }
      lock.lock();
      flushing = false;
      if (error) broken = true;
      changed.notify_all();
      lock.unlock();
      hooks::crash_point("log_file.after_flush");
      answer(std::move(batch), error);
      lock.lock();
    }
  }

  static void answer(std::vector<Waiting> batch, const std::optional<Error>& error) {
    Reactor* reactor = batch.front().reactor;  // one log, one reactor
    reactor->wake([batch = std::move(batch), error] {
      for (const Waiting& w : batch) {
        if (w.failed) {
          w.done(*w.error);
        } else if (error) {
          w.done(*error);
        } else {
          w.done(Result<>());
        }
      }
    });
  }

  // A new file of one snapshot, flushed, locked, at NAME.new.
  Result<int> write_new(const std::string& next, const std::string& snapshot) {
    unlink(next.c_str());
    const int made = ::open(next.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (made < 0) return errno_error("create " + next);
    std::string bytes = make_header();
    put_record(bytes, kSnapshot, snapshot);
    if (flock(made, LOCK_EX | LOCK_NB) == 0 && write_all(made, bytes) && fdatasync(made) == 0) {
      ++flushes;
      return made;
    }
    Error error = errno_error("write " + next);
    close(made);
    unlink(next.c_str());
    return error;
  }

  Result<> scan(Content& content) {
    std::string file = BOURSE_TRY(read_file(path, SIZE_MAX));
    const std::string header = make_header();
    if (file.size() < kHeaderBytes && header.starts_with(file)) {  // new, or died while it was made
      content.torn_bytes = file.size();
      BOURSE_TRY(cut_to(0));
      if (!write_all(fd, header) || fdatasync(fd) != 0) return errno_error("write " + path);
      size = kHeaderBytes;
      return flush_directory_of(path);
    }
    const std::string_view bytes = file;
    if (!bytes.starts_with(kMagic)) return Error(Code::kCorrupt, path + " is not a log of Bourse (or its header is damaged)");
    if (get32(bytes, 12) != crc32c(bytes.substr(0, 12))) return Error(Code::kCorrupt, path + ": damaged at byte 0, in the header");
    if (get32(bytes, 8) != kFormat)
      return Error(Code::kVersion,
                   path + ": format " + std::to_string(get32(bytes, 8)) + ", this program knows " + std::to_string(kFormat));
    std::size_t at = kHeaderBytes;
    while (at < bytes.size()) {
      const auto found = record_at(bytes, at);
      if (!found) break;
      if (found->type == kSnapshot) {
        content.snapshot = found->body;
        content.records.clear();
      } else {
        content.records.emplace_back(found->body);
      }
      at += kFrameBytes + found->body.size();
    }
    size = at;
    content.torn_bytes = bytes.size() - at;
    if (content.torn_bytes == 0) return {};
    // Valid records after the damage mean that it is no torn tail.
    std::uint64_t budget = kSearchBytesMax;
    for (std::size_t next = at + 1; next + kFrameBytes <= bytes.size() && !hooks::mutant("log_file.search_after_damage"); ++next) {
      if (!record_at(bytes, next, &budget)) continue;
      return Error(Code::kCorrupt, path + ": damaged at byte " + std::to_string(at) + ", and valid records follow at byte " +
                                       std::to_string(next) +
                                       ". Restore it from a copy; or, accepting the loss of all after the damage: truncate -s " +
                                       std::to_string(at) + " " + path);
    }
    return cut_to(size);
  }
};

LogFile::LogFile() : impl_(std::make_unique<Impl>()) {}
LogFile::~LogFile() = default;

Result<std::unique_ptr<LogFile>> LogFile::open(const std::string& path, Content& content) {
  BOURSE_TRY(make_directories(directory_of(path), 0700));
  auto log = std::unique_ptr<LogFile>(new LogFile());
  Impl& im = *log->impl_;
  im.path = path;
  while (true) {
    im.fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (im.fd < 0) return errno_error("open " + path);
    if (flock(im.fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return Error(Code::kBusy, path + " is in use by another process");
      return errno_error("lock " + path);
    }
    // The owner may have compacted between our open and our lock: then we hold what is no longer the file of that name.
    struct stat ours {
    }, named{};
    if (fstat(im.fd, &ours) == 0 && stat(path.c_str(), &named) == 0 && ours.st_ino == named.st_ino && ours.st_dev == named.st_dev)
      break;
    close(im.fd);
    im.fd = -1;
  }
  unlink((path + ".new").c_str());  // of a compaction that a crash cut short
  Content read;
  BOURSE_TRY(im.scan(read));
  im.size_seen = im.size;
  content = std::move(read);
  return log;
}

void LogFile::append(Reactor& reactor, Safety safety, const std::vector<std::string>& records, Done done) {
  Impl& im = *impl_;
  Result<> written = im.write_records(records);
  if (safety == Safety::kProcess) {
    done(written);
    return;
  }
  {
    std::lock_guard lock(im.mutex);
    Impl::Waiting item{&reactor, std::move(done), !written, {}};
    if (!written) item.error = written.error();
    im.waiting.push_back(std::move(item));
    if (!im.writer.joinable()) im.writer = quiet_thread([&im] { im.run(); });
  }
  im.changed.notify_all();
}

Result<> LogFile::append_now(Safety safety, const std::vector<std::string>& records) {
  BOURSE_TRY(impl_->write_records(records));
  if (safety == Safety::kProcess) return {};
  Result<> flushed = impl_->flush();
  if (!flushed) {
    std::lock_guard lock(impl_->mutex);
    impl_->broken = true;
  }
  return flushed;
}

Result<> LogFile::compact(const std::string& snapshot) {
  Impl& im = *impl_;
  if (snapshot.size() > kLogRecordMax)
    return Error(Code::kLimit, im.path + ": a snapshot of " + std::to_string(snapshot.size()) + " bytes");
  const std::string next = im.path + ".new";
  const int made = BOURSE_TRY(im.write_new(next, snapshot));
  hooks::crash_point("log_file.before_rename");
  std::unique_lock lock(im.mutex);
  im.changed.wait(lock, [&im] { return !im.flushing; });
  if (rename(next.c_str(), im.path.c_str()) != 0) {
    Error error = errno_error("rename " + next);
    close(made);
    unlink(next.c_str());
    return error;
  }
  close(im.fd);
  im.fd = made;
  im.half_record = false;
  im.size = kHeaderBytes + kFrameBytes + snapshot.size();
  im.size_seen = im.size;
  im.broken = false;  // nothing of the old file matters any more
  hooks::crash_point("log_file.after_rename");
  return flush_directory_of(im.path);
}

std::uint64_t LogFile::bytes() const { return impl_->size_seen; }
std::uint64_t LogFile::flushes() const { return impl_->flushes; }

}  // namespace bourse
