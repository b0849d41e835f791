// The options of a program or of one of its commands. CLI11 does the work, inside command_line.cc only: its header costs
// seconds in every file that reads it.
//
//   CommandLine line("Jobs that wait or run", "bourse queue");
//   line.option("-n,--limit", limit, "At most this many rows");
//   line.option("JOB", jobs, "12, 13_4").required();
//   if (const int status = line.parse(argc, argv); status >= 0) return status;
//
// Values are the caller's and outlive the CommandLine. A name without a dash is a positional argument. --help is always there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace bourse {

class CommandLine {
 public:
  static constexpr int kWrongUse = 2;

  class Option {
   public:
    Option& required();
    Option& one_each();      // a list's option takes one word each time: --set a=1 --set b=2
    Option& show_default();  // its value at this moment, in --help
    Option& between(int low, int high);
    Option& between(double low, double high);
    Option& words(int count);  // a list's option takes so many each time
    Option& one_of(const std::vector<std::string>& words);
    Option& shown_as(const std::string& text);  // in --help, instead of its type

   private:
    friend class CommandLine;
    explicit Option(CLI::Option* option) : option_(option) {}
    CLI::Option* option_;
  };

  CommandLine(const std::string& about, const std::string& program);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Value: std::string, std::vector<std::string>, int, std::uint32_t, std::uint64_t, double.
  template <class Value>
  Option option(const std::string& names, Value& value, const std::string& help);
  Option flag(const std::string& names, bool& value, const std::string& help);
  void version(const std::string& text);  // --version
  void directory();                       // --dir DIR, which is BOURSE_DIR=DIR
  void rest(const std::string& name, std::vector<std::string>& words, const std::string& help);  // all that follows, as it is
  CommandLine& command(const std::string& name, const std::string& about);                       // one of these must be given
  [[nodiscard]] bool chosen() const;                                                             // this command was

  // -1: go on. Else the exit status: 0 after --help, kWrongUse for wrong use, told on stderr.
  int parse(int argc, char** argv);

 private:
  explicit CommandLine(CLI::App* app);
  std::unique_ptr<CLI::App> own_;  // a command's belongs to its program's
  CLI::App* app_;
  std::vector<std::unique_ptr<CommandLine>> commands_;
  std::vector<std::string>* rest_ = nullptr;
};

}  // namespace bourse
