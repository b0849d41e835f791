#include "agent/launcher/container_command.h"

namespace bourse::launcher {

std::vector<std::string> container_command(const std::string& programs, const std::string& state_dir, const std::string& scratch,
                                           const TaskSpec& spec, const Confine& confine, const std::string& groups,
                                           const std::vector<std::string>& device_nodes) {
  std::vector<std::string> words = {programs + "bourse-container"};
  const auto say = [&](const char* option, const std::string& value) { words.insert(words.end(), {option, value}); };
  say("--scratch", scratch);
  say("--images", state_dir + "/images");
  say("--image", spec.image);
  say("--uid", std::to_string(spec.uid));
  say("--gid", std::to_string(spec.gid));
  if (!groups.empty()) say("--groups", groups);
  if (spec.uid == 0) say("--capabilities", std::to_string(confine.all_capabilities ? usual_capabilities() : confine.capabilities));
  if (confine.image_bytes != 0) say("--image-max", std::to_string(confine.image_bytes));
  if (!spec.directory.empty()) say("--directory", spec.directory);
  const std::string artifacts = state_dir + "/artifacts/";
  for (const auto& word : spec.argv)  // its script
    if (word.compare(0, artifacts.size(), artifacts) == 0) say("--mount", word + ":" + word + ":ro");
  for (const auto& each : spec.mounts) say("--mount", each);
  for (const auto& each : device_nodes) say("--device", each);
  if (confine.tmp == Confine::Tmp::kDisk) words.emplace_back("--disk-tmp");
  if (confine.ipc) words.emplace_back("--ipc");
  if (confine.net) words.emplace_back("--net");
  return words;
}

}  // namespace bourse::launcher
