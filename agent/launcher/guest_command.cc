#include "agent/launcher/guest_command.h"

#include "common/core/vm_image.h"

namespace bourse::launcher {

Result<std::vector<std::string>> guest_command(const std::string& programs, const std::string& scratch, const TaskSpec& spec,
                                               const std::string& hypervisor, const std::string& groups) {
  const VmImage image = BOURSE_TRY(parse_vm_image(spec.image));
  std::vector<std::string> words = {programs + "bourse-microvm", "--scratch", scratch, "--uri", hypervisor};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--uid", std::to_string(spec.uid)), add("--gid", std::to_string(spec.gid)), add("--groups", groups);
  add("--kernel", image.kernel), add("--initrd", image.initrd), add("--disk", image.disk), add("--arch", image.arch);
  add("--append", image.append), add("--directory", spec.directory);
  return words;
}

}  // namespace bourse::launcher
