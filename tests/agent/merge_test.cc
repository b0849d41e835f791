// One inventory out of several probes' reports.
#include <gtest/gtest.h>

#include "agent/merge.h"

namespace bourse {
namespace {

Device gpu(const std::string& id, std::int64_t mem, const std::string& pci = {}) {
  Device device;
  device.id = DeviceId(id);
  device.kind = "gpu/x";
  device.pci = pci;
  device.counters.set("mem", mem);
  return device;
}

struct Said {
  std::string probe;
  Inventory inventory;
  FactSources sources;
};

Merged merged(const std::vector<Said>& all, const Labels& labels = {}) {
  std::vector<NamedReport> reports;
  for (const Said& one : all) reports.push_back({one.probe, &one.inventory, &one.sources});
  return merge(reports, labels);
}

bool noted(const Merged& all, const std::string& text) {
  for (const std::string& note : all.inventory.notes)
    if (note.find(text) != std::string::npos) return true;
  return false;
}

TEST(Merge, TheSmallerAmountOfADeviceWinsAndTheDisagreementIsKept) {
  for (const bool smaller_first : {false, true}) {
    Said files{"files", {}, {{"devices/GPU-1", "/proc/x"}}}, library{"library", {}, {{"devices/GPU-1/mem", "libx.so 5"}}};
    files.inventory.devices = {gpu("GPU-1", smaller_first ? 40000 : 40960)};
    library.inventory.devices = {gpu("GPU-1", smaller_first ? 40960 : 40000)};
    const Merged all = merged({files, library});
    ASSERT_EQ(all.inventory.devices.size(), 1u);
    EXPECT_EQ(all.inventory.devices[0].counters.get("mem"), 40000);
    ASSERT_EQ(all.inventory.total.devices.size(), 1u);
    EXPECT_EQ(all.inventory.total.devices[0].counters.get("mem"), 40000);
    ASSERT_EQ(all.inventory.notes.size(), 1u);
    const std::string& note = all.inventory.notes[0];
    EXPECT_NE(note.find("files: /proc/x says " + std::string(smaller_first ? "40000" : "40960")), std::string::npos) << note;
    EXPECT_NE(note.find("library: libx.so 5 says " + std::string(smaller_first ? "40960" : "40000")), std::string::npos) << note;
    EXPECT_NE(note.find("using 40000"), std::string::npos) << note;
    const auto own = all.sources.find("devices/GPU-1/mem");  // else that of the device
    EXPECT_EQ(own == all.sources.end() ? all.sources.at("devices/GPU-1") : own->second,
              smaller_first ? "files: /proc/x" : "library: libx.so 5");
  }
}

TEST(Merge, DevicesAtOnePciAddressAreOneDeviceUnderTheFirstName) {
  Said a{"a", {}, {}}, b{"b", {}, {}};
  a.inventory.devices = {gpu("0000:01:00.0", 0, "0000:01:00.0")};
  b.inventory.devices = {gpu("GPU-uuid", 16000, "0000:01:00.0")};
  b.inventory.devices[0].model = "X1";
  const Merged all = merged({a, b});
  ASSERT_EQ(all.inventory.devices.size(), 1u);
  EXPECT_EQ(all.inventory.devices[0].id.str(), "0000:01:00.0");
  EXPECT_EQ(all.inventory.devices[0].counters.get("mem"), 16000);
  EXPECT_EQ(all.inventory.devices[0].model, "X1");
}

TEST(Merge, PartsOfOneCardAtOnePciAddressStayApart) {
  Said a{"a", {}, {}}, b{"b", {}, {}};
  a.inventory.devices = {gpu("0000:01:00.0", 1, "0000:01:00.0")};
  b.inventory.devices = {gpu("part-0", 1, "0000:01:00.0"), gpu("part-1", 1, "0000:01:00.0")};
  EXPECT_EQ(merged({a, b}).inventory.devices.size(), 3u);
}

TEST(Merge, AnUnhealthyDeviceIsKnownAndNotOffered) {
  Said a{"a", {}, {}}, b{"b", {}, {}};
  a.inventory.devices = {gpu("GPU-1", 1), gpu("GPU-2", 1)};
  b.inventory.devices = {gpu("GPU-2", 1)};
  b.inventory.devices[0].healthy = false;
  b.inventory.devices[0].attributes["unhealthy"] = "fell off the bus";
  const Merged all = merged({a, b});
  EXPECT_EQ(all.inventory.devices.size(), 2u);
  ASSERT_EQ(all.inventory.total.devices.size(), 1u);
  EXPECT_EQ(all.inventory.total.devices[0].device.str(), "GPU-1");
  EXPECT_TRUE(noted(all, "fell off the bus"));
}

TEST(Merge, TheSitesLabelsWinAndTheOthersSayTheirSource) {
  Said a{"hwloc", {}, {{"labels/arch", "uname"}}};
  a.inventory.labels = {{"arch", "x86_64"}, {"rack", "guessed"}};
  const Merged all = merged({a}, {{"rack", "r7"}});
  EXPECT_EQ(all.inventory.labels.at("rack"), "r7");
  EXPECT_EQ(all.sources.at("labels/arch"), "hwloc: uname");
  EXPECT_TRUE(noted(all, "labels/rack"));
}

TEST(Merge, ADeviceLearnsItsNodeFromTheTopologyAndANodeThatIsNotThereIsRefused) {
  Said a{"hwloc", {}, {}}, b{"b", {}, {}};
  a.inventory.topology = {"machine", 0, {}, 0, {}, {{"numa", 3, {}, 1 << 30, {}, {{"pci", 0, "0000:01:00.0", 0, {}, {}}}}}};
  a.inventory.total.numa = {{3, MilliCpus{1000}, Bytes{1 << 30}}};
  a.inventory.total.cpus = MilliCpus{1000};
  a.inventory.total.mem = Bytes{1 << 30};
  b.inventory.devices = {gpu("d1", 1, "0000:01:00.0"), gpu("d2", 1)};
  b.inventory.devices[1].numa = 1;
  const Merged all = merged({a, b});
  EXPECT_EQ(all.inventory.devices[0].numa, 3);
  EXPECT_EQ(all.inventory.devices[1].numa, -1);
  EXPECT_TRUE(noted(all, "node 1 is not one of this host"));
  EXPECT_EQ(all.inventory.total.mem, Bytes{1 << 30});
}

}  // namespace
}  // namespace bourse
