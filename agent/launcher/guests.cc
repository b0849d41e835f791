// The launcher's part in tasks that are virtual machines.
#include <sys/stat.h>
#include <unistd.h>

#include "agent/launcher/child.h"
#include "agent/launcher/guest_command.h"
#include "agent/launcher/launcher.h"
#include "agent/launcher/scratch.h"
#include "agent/launcher/spawn_aside.h"
#include "common/core/hooks.h"
#include "common/core/vm_image.h"

namespace bourse::launcher {

// A task in a virtual machine is the program that has libvirt make it, waits for it and ends as it ended: see agent/microvm.
Result<> Launcher::into_guest(Start& start, Launch& plan) {
  const std::string program = programs_ + "bourse-microvm";
  if (access(program.c_str(), X_OK) != 0)
    return Error(Code::kUnsupported, "virtual machines cannot be run here: " + program + " is not installed");
  if (!privileged_) return Error(Code::kUnsupported, "the launcher does not run as root and cannot start virtual machines");
  if (start.hypervisor.empty())
    return Error(Code::kInvalid, "its slice has no hypervisor to run a virtual machine by: ask for a device of kind " +
                                     std::string(kHypervisorKind) + " with " + kVmGuests + "=1");
  (void)BOURSE_TRY(parse_vm_image(start.spec.image));  // before anything is made for it
  const std::string directory = BOURSE_TRY(scratch_->make(key_word(start.task), 0, 0));
  // Who runs the emulator, not always root, is given the files in it by libvirt and has to reach them.
  if (chmod(directory.c_str(), 0711) != 0) return errno_error("chmod " + directory);
  BOURSE_TRY(scratch_->mark(key_word(start.task), start.hypervisor));
  auto words = BOURSE_TRY(guest_command(programs_, directory, start.spec, start.hypervisor, joined(plan.groups)));
  if (!start.warm.empty()) words.insert(words.end(), {"--warm", start.warm});
  words.emplace_back("--");
  words.insert(words.end(), start.spec.argv.begin(), start.spec.argv.end());
  start.spec.argv = std::move(words);
  plan.stays_root = true;
  return {};
}

// A guest that was being made when its owner was killed is left, paused, in nobody's slice.
void Launcher::sweep_guests(const std::string& uri) {
  if (hooks::mutant("launcher.no_guest_sweep")) return;
  spawn_aside({programs_ + "bourse-microvm", "--sweep", "--uri", uri});
}

}  // namespace bourse::launcher
