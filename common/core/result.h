// Result<T>: a value, or an expected failure with a code and a sentence.
//
// Three kinds of error are kept apart in Bourse. Expected failures are Results and are handled or passed on with context.
// Bugs are BOURSE_ASSERT, which stays on in release. Hostile input is refused at the border (common/wire) and never gets
// further. No exception is thrown by our own code.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace bourse {

// The one list of failure codes. bourse/framework.h mirrors it with negative numbers; keep both in step.
enum class Code : int {
  kOk = 0,
  kInvalid,   // the caller's words are wrong; never helps to repeat
  kNotFound,  // no such thing
  kExists,    // there is one already
  kBusy,      // not now; may help to repeat
  kLimit,     // a named limit was reached
  kDenied,    // not allowed to this caller
  kGone,      // it was there and is no more (ended, expired, deposed)
  kIo,        // the operating system refused
  kCorrupt,   // stored or received bytes are not what they must be
  kVersion,   // the peer speaks another protocol version
  kTimeout,
  kUnsupported,  // this host or build cannot do it
};

std::string_view code_text(Code code);

class [[nodiscard]] Error {
 public:
  Error(Code code, std::string text, const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : code_(code), text_(std::move(text)), file_(file), line_(line) {}
  [[nodiscard]] Code code() const { return code_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const char* file() const { return file_; }
  [[nodiscard]] int line() const { return line_; }
  // Puts "context: " in front, on the way up.
  Error&& add(std::string_view context) && {
    text_.insert(0, std::string(context) + ": ");
    return std::move(*this);
  }

 private:
  Code code_;
  std::string text_;
  const char* file_;
  int line_;
};

// Error of the calling thread's errno: "open /x/y: No such file or directory".
Error errno_error(std::string_view what, const char* file = __builtin_FILE(), int line = __builtin_LINE());

template <class T = std::monostate>
class [[nodiscard]] Result {
 public:
  Result() requires std::is_same_v<T, std::monostate> : value_(std::in_place_index<0>) {}
  Result(T value) : value_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : value_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose
  explicit operator bool() const { return value_.index() == 0; }
  T& operator*() & { return *std::get_if<0>(&value_); }
  const T& operator*() const& { return *std::get_if<0>(&value_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&value_)); }
  T* operator->() { return std::get_if<0>(&value_); }
  const T* operator->() const { return std::get_if<0>(&value_); }
  Error& error() & { return *std::get_if<1>(&value_); }
  const Error& error() const& { return *std::get_if<1>(&value_); }
  Error&& error() && { return std::move(*std::get_if<1>(&value_)); }

 private:
  std::variant<T, Error> value_;
};

// Prints the expression, place and state to stderr and aborts. Never reachable from a message.
[[noreturn]] void assert_failed(const char* expression, const char* file, int line, const std::string& state);

}  // namespace bourse

// Value of a Result, or return its error from the enclosing function.
#define BOURSE_TRY(expr)                                     \
  __extension__({                                            \
    auto&& bourse_try_ = (expr);                             \
    if (!bourse_try_) return std::move(bourse_try_).error(); \
    *std::move(bourse_try_);                                 \
  })

#define BOURSE_ASSERT(cond, state) ((cond) ? static_cast<void>(0) : ::bourse::assert_failed(#cond, __FILE__, __LINE__, (state)))
