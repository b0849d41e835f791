// Where the console of this cluster is: RUN/console.url, written by the console that has it locked for as long as it lives.
#pragma once

#include <string>
#include <utility>

#include "common/core/result.h"

namespace bourse::cli {

// Holds the lock; at its end the file is removed.
class ToldUrl {
 public:
  ToldUrl(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~ToldUrl();
  ToldUrl(ToldUrl&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  ToldUrl& operator=(ToldUrl&&) = delete;
  ToldUrl(const ToldUrl&) = delete;
  ToldUrl& operator=(const ToldUrl&) = delete;

 private:
  std::string path_;
  int fd_;
};

Result<ToldUrl> tell_console_url(const std::string& run_directory, const std::string& url);  // kBusy: another console does
std::string console_url(const std::string& run_directory);                                   // "": none runs

}  // namespace bourse::cli
