#include "common/world/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

namespace bourse {

CommandLine::Option& CommandLine::Option::required() {
  option_->required();
  return *this;
}
CommandLine::Option& CommandLine::Option::one_each() {
  option_->allow_extra_args(false);
  return *this;
}
CommandLine::Option& CommandLine::Option::show_default() {
  option_->capture_default_str();
  return *this;
}
CommandLine::Option& CommandLine::Option::between(int low, int high) {
  option_->check(CLI::Range(low, high));
  return *this;
}
CommandLine::Option& CommandLine::Option::between(double low, double high) {
  option_->check(CLI::Range(low, high));
  return *this;
}
CommandLine::Option& CommandLine::Option::words(int count) {
  option_->expected(count);
  return *this;
}
CommandLine::Option& CommandLine::Option::one_of(const std::vector<std::string>& words) {
  option_->check(CLI::IsMember(words));
  return *this;
}
CommandLine::Option& CommandLine::Option::shown_as(const std::string& text) {
  option_->option_text(text);
  return *this;
}

CommandLine::CommandLine(const std::string& about, const std::string& program)
    : own_(std::make_unique<CLI::App>(about, program)), app_(own_.get()) {}
CommandLine::CommandLine(CLI::App* app) : app_(app) {}
CommandLine::~CommandLine() = default;

template <class Value>
CommandLine::Option CommandLine::option(const std::string& names, Value& value, const std::string& help) {
  return Option(app_->add_option(names, value, help));
}
template CommandLine::Option CommandLine::option(const std::string&, std::string&, const std::string&);
template CommandLine::Option CommandLine::option(const std::string&, std::vector<std::string>&, const std::string&);
template CommandLine::Option CommandLine::option(const std::string&, int&, const std::string&);
template CommandLine::Option CommandLine::option(const std::string&, std::uint32_t&, const std::string&);
template CommandLine::Option CommandLine::option(const std::string&, std::uint64_t&, const std::string&);
template CommandLine::Option CommandLine::option(const std::string&, double&, const std::string&);

CommandLine::Option CommandLine::flag(const std::string& names, bool& value, const std::string& help) {
  return Option(app_->add_flag(names, value, help));
}

void CommandLine::version(const std::string& text) { app_->set_version_flag("--version", text); }

void CommandLine::directory() {
  app_->add_option_function<std::string>(
      "--dir", [](const std::string& dir) { setenv("BOURSE_DIR", dir.c_str(), 1); },  // NOLINT(concurrency-mt-unsafe)
      "Directory of the cluster (default: $BOURSE_DIR)");
}

void CommandLine::rest(const std::string& name, std::vector<std::string>& words, const std::string& help) {
  app_->add_option(name, words, help)->required();
  app_->prefix_command();
  app_->positionals_at_end();
  rest_ = &words;
}

CommandLine& CommandLine::command(const std::string& name, const std::string& about) {
  app_->require_subcommand(1);
  commands_.push_back(std::unique_ptr<CommandLine>(new CommandLine(app_->add_subcommand(name, about))));
  return *commands_.back();
}

bool CommandLine::chosen() const { return app_->parsed(); }

int CommandLine::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) { return app_->exit(error) == 0 ? 0 : kWrongUse; }
  if (rest_ != nullptr)
    for (const std::string& word : app_->remaining()) rest_->push_back(word);
  return -1;
}

}  // namespace bourse
