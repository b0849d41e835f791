// What a step's process and the tool that asked for it say to each other: output, input, signals, over ZeroMQ with CURVE.
//
// The tool (srun, bourse step) listens. It makes a key pair for each process that it will ask for and lets in nobody else; the pair,
// the address and the tool's public key go to the process in one environment variable (kStepIoVariable), which the relay
// (relay.cc, `bourse relay`, run by the launcher in the job's slice, as the job's user) takes out before it runs the command.
//
// A frame is one letter and what belongs to it. Output is credited: the relay has at most kStepCredit bytes on their way, so a tool
// that cannot write holds the command up, as a pipe would, and nothing piles up in between. Input the same, the other way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"
#include "common/core/time.h"
#include "common/world/transport.h"

namespace bourse::cli {

constexpr const char* kStepIoVariable = "BOURSE_STEP_IO";
constexpr std::size_t kStepChunk = 32 * 1024;           // bytes of one frame
constexpr std::size_t kStepCredit = 512 * 1024;         // bytes on their way to the tool, for each process
constexpr std::size_t kStepInputCredit = 128 * 1024;    // bytes on their way to one process
constexpr Duration kStepBeat = seconds(5);              // the tool says something so often
constexpr Duration kStepSilence = seconds(600);         // after that a relay takes the tool for gone and ends its command
constexpr Duration kStepConnectPatience = seconds(10);  // for the first word of the tool

enum class StepWord : char {
  // From the relay.
  kHello = 'H',
  kOut = '1',
  kErr = '2',
  kEnd = 'E',    // all output was sent
  kEaten = 'C',  // bytes of input that the command took, as decimal digits; "-": it takes no more
  // From the tool.
  kGo = 'G',      // heard you
  kCredit = 'c',  // bytes of output that were written, as decimal digits
  kInput = 'I',
  kInputEnd = 'Z',
  kSignal = 'S',  // number, as decimal digits
  kWindow = 'W',  // "ROWS COLUMNS" of the terminal
  kBeat = 'B',
  kBye = 'A',  // all is written; a relay that holds an allocation ends with the status that follows, as decimal digits
};
std::string step_frame(StepWord word, std::string_view rest = {});

// What the variable says.
struct StepIo {
  std::vector<std::string> endpoints;  // in the order in which they are to be tried
  std::string boot;                    // boot id of the tool's host: there the loopback address is the nearest
  std::string server_key;
  KeyPair keys;
  bool terminal = false;  // a pseudo-terminal for the command
  bool hold = false;      // no command: keeps an allocation until the tool says kBye or falls silent
  bool files[3] = {};     // input, output, errors: the command has the relay's own, which the launcher opened
  int node = 0;           // of the step
};
std::string to_text(const StepIo& io);
Result<StepIo> parse_step_io(std::string_view text);

std::string boot_id();
// Addresses of this host by which others may reach it, loopback last.
std::vector<std::string> own_addresses();

}  // namespace bourse::cli
