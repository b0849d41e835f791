// One guest, from the side of the process that has it: made by libvirt or taken over from who booted it ahead, in this process's own
// cgroups, its console passed on, its exit status heard. One thread; blocking. What is not waited for to the end is killed with it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/microvm/guest.h"
#include "agent/microvm/libvirt_api.h"
#include "agent/microvm/machine.h"
#include "agent/microvm/supervisor.h"

namespace bourse::microvm {

class RunningGuest {
 public:
  explicit RunningGuest(const Arguments& arguments) : arguments_(arguments) {}
  ~RunningGuest();
  RunningGuest(const RunningGuest&) = delete;
  RunningGuest& operator=(const RunningGuest&) = delete;

  Result<> start(char** env);
  int wait();  // for its end: the exit status

  // Ahead of a task, with the cores and memory that the arguments say. True: it waits for one. False: `input` has ended meanwhile.
  Result<bool> boot_ahead(int input);
  [[nodiscard]] std::string place() const;  // by which another process finds it
  [[nodiscard]] int emulator() const { return emulator_; }
  [[nodiscard]] int ending() const { return emulator_fd_; }  // readable once the emulator has ended
  [[nodiscard]] int console() const { return console_; }
  bool read_console();  // false: the emulator has closed it
  void let_go_console();
  void has_ended() { started_ = false; }

  // The other process: kInvalid where it is no guest for this process's limits. Nothing has happened to it yet.
  Result<> find(const std::string& place);
  Result<> take(const GuestTask& task);  // it is this process's from here on; tells it what to run

 private:
  Result<> make(const std::string& archive);
  Result<> choose();
  Result<> files(const std::string& archive);
  Result<> create();
  Result<> take_signals();
  Result<> open_console(const std::string& path);
  Result<> say(std::string_view bytes);
  void forward(int signal);

  const Arguments& arguments_;
  Libvirt api_;
  virConnectPtr connection_ = nullptr;
  virDomainPtr domain_ = nullptr;
  Domain spec_;
  Limits limits_;
  Console output_;
  bool started_ = false;
  pid_t emulator_ = 0;
  std::string console_path_;
  int emulator_fd_ = -1, console_ = -1, signals_ = -1, to_ = 1;
};

// What the arguments and this process's environment say, with the program's file, read with the user's rights.
Result<GuestTask> task_of(const Arguments& arguments, char** env);

}  // namespace bourse::microvm
