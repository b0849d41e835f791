// What master, agent and batch do alike between main() and their actor: options, configuration, log, directories, signals.
//
//   int main(int argc, char** argv) {
//     Program program("bourse-master", "Keeps the ledger. See bourse-master(8).");
//     program.options().option("--state", program.state_option, "Directory of the registry (default: master.state)");
//     return program.run(argc, argv, run);
//   }
//
// The part of the name after "bourse-" is the program's section in bourse.conf(5).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/world/command_line.h"
#include "common/world/config.h"
#include "common/world/reactor.h"

namespace bourse {

class Program {
 public:
  // `ready` ends the sentence about --ready-fd: "when this master leads".
  Program(const std::string& name, const std::string& about, const std::string& ready);

  [[nodiscard]] CommandLine& options() { return options_; }
  std::string state_option;  // --state, of the programs that have it

  // All of main(): reads options and configuration, starts the log, calls `body`, says on stderr what went wrong. 2 for wrong
  // use, 1 for an error.
  int run(int argc, char** argv, const std::function<Result<>(Program&)>& body);

  // --- for the body ---
  [[nodiscard]] const Config& config() const { return *config_; }
  [[nodiscard]] std::string config_path() const;  // "" where there is no file
  [[nodiscard]] const Places& places() const { return places_; }
  [[nodiscard]] std::string state_directory() const;                     // --state, section.state, or the place for it
  [[nodiscard]] std::string keys_directory(const Config& config) const;  // cluster.keys, or the place for it
  void ready() const;                                                    // the newline on --ready-fd

  // SIGHUP: the file as it is now, not taken over yet. `take` does that, log level included.
  [[nodiscard]] Result<Config> read_again() const;
  void take(Config config);

  // SIGTERM and SIGINT end the reactor's run; SIGPIPE is ignored.
  static void end_on_signals(Reactor& reactor);

 private:
  std::string name_, section_, config_option_;
  std::vector<std::string> overrides_;
  int ready_fd_ = -1;
  CommandLine options_;
  Places places_;
  std::optional<Config> config_;
};

}  // namespace bourse
