#include "common/core/result.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace bourse {

std::string_view code_text(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalid:
      return "invalid";
    case Code::kNotFound:
      return "not found";
    case Code::kExists:
      return "exists";
    case Code::kBusy:
      return "busy";
    case Code::kLimit:
      return "limit";
    case Code::kDenied:
      return "denied";
    case Code::kGone:
      return "gone";
    case Code::kIo:
      return "i/o error";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kVersion:
      return "version";
    case Code::kTimeout:
      return "timeout";
    case Code::kUnsupported:
      return "unsupported";
  }
  return "unknown";
}

Error errno_error(std::string_view what, const char* file, int line) {
  const int number = errno;
  Code code = Code::kIo;
  switch (number) {
    case ENOENT:
      code = Code::kNotFound;
      break;
    case EEXIST:
      code = Code::kExists;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = Code::kDenied;
      break;
    case EAGAIN:
    case EBUSY:
      code = Code::kBusy;
      break;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      code = Code::kLimit;
      break;
    case ETIMEDOUT:
      code = Code::kTimeout;
      break;
    case ENOSYS:
    case EOPNOTSUPP:
      code = Code::kUnsupported;
      break;
    default:
      break;
  }
  // generic_category().message is strerror without its shared buffer.
  return Error(code, std::string(what) + ": " + std::generic_category().message(number), file, line);
}

void assert_failed(const char* expression, const char* file, int line, const std::string& state) {
  std::fprintf(stderr, "level=error event=assertion_failed expression=\"%s\" place=%s:%d state=\"%s\"\n", expression, file, line,
               state.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace bourse
