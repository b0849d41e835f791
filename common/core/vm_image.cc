#include "common/core/vm_image.h"

#include <algorithm>

#include "common/core/ids.h"

namespace bourse {
namespace {

Error invalid(const std::string& why) { return {Code::kInvalid, "virtual machine: " + why}; }

Result<> check_path(const char* what, const std::string& path) {
  if (path.empty()) return {};
  if (path.front() != '/') return invalid(std::string(what) + " `" + path + "': its full path is needed");
  if (std::any_of(path.begin(), path.end(), [](char c) { return c == ',' || static_cast<unsigned char>(c) < ' '; }))
    return invalid(std::string(what) + " `" + path + "': a name with a comma or a control character cannot be used here");
  return {};
}

Result<> check(const VmImage& image) {
  BOURSE_TRY(check_path("kernel", image.kernel));
  BOURSE_TRY(check_path("initrd", image.initrd));
  BOURSE_TRY(check_path("disk", image.disk));
  if (image.kernel.empty() && image.disk.empty()) return invalid("a kernel or a disk image is needed");
  if (image.kernel.empty() && !image.initrd.empty()) return invalid("an initrd goes with a kernel");
  if (image.kernel.empty() && !image.append.empty()) return invalid("words can be appended to a kernel only, and there is none");
  if (!image.kernel.empty() && image.initrd.empty() && image.disk.empty())
    return invalid("a kernel needs an initrd or a disk to find its first program in");
  if (!image.arch.empty() && (!valid_name(image.arch) || image.arch.find(',') != std::string::npos))
    return invalid("`" + image.arch + "' is no architecture such as x86_64 or aarch64");
  if (std::any_of(image.append.begin(), image.append.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }))
    return invalid("what is appended to the kernel's command line holds a control character");
  return {};
}

}  // namespace

Result<VmImage> parse_vm_image(std::string_view text) {
  VmImage image;
  if (text.size() > kVmImageBytesMax)
    return invalid("its description has more than " + std::to_string(kVmImageBytesMax) + " bytes");
  if (!text.empty() && text.front() == '/') {
    image.disk = std::string(text);
    BOURSE_TRY(check(image));
    return image;
  }
  while (!text.empty()) {
    const auto equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    if (equals == std::string_view::npos) return invalid("`" + std::string(text) + "' is not NAME=VALUE");
    const auto comma = name == "append" ? std::string_view::npos : text.find(',', equals);
    const std::string_view value = text.substr(equals + 1, comma == std::string_view::npos ? comma : comma - equals - 1);
    std::string* const part = name == "kernel"   ? &image.kernel
                              : name == "initrd" ? &image.initrd
                              : name == "disk"   ? &image.disk
                              : name == "arch"   ? &image.arch
                              : name == "append" ? &image.append
                                                 : nullptr;
    if (part == nullptr) return invalid("`" + std::string(name) + "' is none of kernel, initrd, disk, arch, append");
    if (value.empty()) return invalid(std::string(name) + " is empty");
    if (!part->empty()) return invalid(std::string(name) + " is given twice");
    *part = std::string(value);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  BOURSE_TRY(check(image));
  return image;
}

Result<std::string> to_text(const VmImage& image) {
  BOURSE_TRY(check(image));
  std::string out;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) out += (out.empty() ? "" : ",") + std::string(name) + "=" + value;
  };
  add("kernel", image.kernel), add("initrd", image.initrd), add("disk", image.disk), add("arch", image.arch);
  add("append", image.append);
  if (out.size() > kVmImageBytesMax) return invalid("its description has more than " + std::to_string(kVmImageBytesMax) + " bytes");
  return out;
}

DeviceAsk vm_device(const VmImage& image) {
  DeviceAsk ask;
  ask.kind = std::string(kHypervisorKind);
  ask.whole = false;
  ask.counters.set(kVmGuests, 1);
  if (!image.arch.empty()) ask.attributes.push_back({"vm." + image.arch, Constraint::Op::kPresent, {}});
  return ask;
}

}  // namespace bourse
