// What a virtual machine boots, as text and in its parts.
#include <gtest/gtest.h>

#include "common/core/vm_image.h"

namespace bourse {
namespace {

TEST(VmImageText, ComesBackAsItWas) {
  VmImage whole{"/boot/vmlinuz", "/images/it's an initrd", "/images/data.qcow2", "aarch64", "console=ttyS0,115200 quiet,arch=vax"};
  EXPECT_EQ(*to_text(whole),
            "kernel=/boot/vmlinuz,initrd=/images/it's an initrd,disk=/images/data.qcow2,arch=aarch64,"
            "append=console=ttyS0,115200 quiet,arch=vax");
  EXPECT_EQ(*parse_vm_image(*to_text(whole)), whole);
  const VmImage disk{"", "", "/images/a.raw", "", ""};
  EXPECT_EQ(*parse_vm_image(*to_text(disk)), disk);
  EXPECT_EQ(*parse_vm_image("/images/a.raw"), disk) << "a path alone is a disk that boots";
  EXPECT_EQ(parse_vm_image("initrd=/i,kernel=/k")->kernel, "/k") << "in any order";
}

TEST(VmImageText, EachFaultIsNamed) {
  const std::pair<const char*, const char*> faults[] = {
      {"", "a kernel or a disk image is needed"},
      {"kernel=/k", "a kernel needs an initrd or a disk"},
      {"initrd=/i,disk=/d", "an initrd goes with a kernel"},
      {"disk=/d,append=quiet", "appended to a kernel only"},
      {"disk=d", "disk `d': its full path is needed"},
      {"disk=/d,disk=/e", "disk is given twice"},
      {"disk=", "disk is empty"},
      {"disk=/d,cpus=3", "`cpus' is none of kernel, initrd, disk, arch, append"},
      {"disk=/d,arch=a b", "`a b' is no architecture"},
      {"disk=/d\n", "control character"},
      {"kernel=/k,initrd=/i,append=a\nb", "control character"},
      {"vmlinuz", "`vmlinuz' is not NAME=VALUE"},
      {"disk=/d,", nullptr},
  };
  for (const auto& [text, why] : faults) {
    const auto image = parse_vm_image(text);
    if (why == nullptr) {
      EXPECT_TRUE(image) << text;
      continue;
    }
    ASSERT_FALSE(image) << text;
    EXPECT_EQ(image.error().code(), Code::kInvalid) << text;
    EXPECT_NE(image.error().text().find(why), std::string::npos) << text << ": " << image.error().text();
  }
  EXPECT_FALSE(parse_vm_image("/" + std::string(kVmImageBytesMax, 'x')));
  EXPECT_FALSE(to_text({"/k", "/i,arch=vax", "", "", ""})) << "it would come back as something else";
}

TEST(VmImageText, AsksForAPlaceOfAHypervisorOfItsArchitecture) {
  const DeviceAsk ask = vm_device({"", "", "/d", "aarch64", ""});
  EXPECT_EQ(ask.kind, "hypervisor/");
  EXPECT_FALSE(ask.whole);
  EXPECT_EQ(ask.count, 1u);
  EXPECT_EQ(ask.counters.get("guests"), 1);
  ASSERT_EQ(ask.attributes.size(), 1u);
  EXPECT_EQ(ask.attributes[0], (Constraint{"vm.aarch64", Constraint::Op::kPresent, {}}));
  EXPECT_TRUE(vm_device({"", "", "/d", "", ""}).attributes.empty());
}

}  // namespace
}  // namespace bourse
