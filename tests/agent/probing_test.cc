// What the agent makes of what its probes find, of probes that die, and of hardware that comes, changes and goes.
#include <gtest/gtest.h>

#include <algorithm>

#include "rig.h"

namespace bourse::testing {
namespace {

Device device(const std::string& id, std::int64_t mem = 16000) {
  Device d;
  d.id = DeviceId(id);
  d.kind = "gpu/x";
  d.counters.set("mem", mem);
  return d;
}

Inventory cards(const std::vector<std::string>& ids) {
  Inventory inventory;
  for (const std::string& id : ids) inventory.devices.push_back(device(id));
  return inventory;
}

SliceSpec with_device(std::uint64_t number, const std::string& id, std::uint64_t generation = 1) {
  SliceSpec spec = slice_spec(number);
  spec.resources.devices = {{DeviceId(id), "gpu/x", Generation(generation), true, {}, device(id).counters}};
  return spec;
}

class Probing : public ::testing::Test {
 protected:
  Rig rig;
  void given(const std::vector<std::string>& ids) {
    rig.probes = {"hwloc", "cards"};
    rig.finds["cards"] = cards(ids);
    rig.start();
  }
  int logged(const std::string& text) const {
    int n = 0;
    for (const std::string& line : rig.logs) n += line.find(text) != std::string::npos ? 1 : 0;
    return n;
  }
  int asked(const std::string& probe) const {
    int n = 0;
    for (const HostAction& action : rig.host_actions)
      if (const auto* run = std::get_if<RunProbe>(&action); run != nullptr && run->probe == probe) ++n;
    return n;
  }
  // What the master knows, from the last hello and the updates behind it.
  Inventory mastered() const {
    Inventory known;
    for (const Message& m : rig.sent) {
      if (const auto* hello = std::get_if<AgentHello>(&m.body)) known = hello->inventory;
      if (const auto* update = std::get_if<InventoryUpdate>(&m.body); update != nullptr && !apply(*update, known))
        ADD_FAILURE() << "an increment does not follow";
    }
    return known;
  }
};

TEST_F(Probing, DevicesOfAllProbesAreInTheHello) {
  given({"GPU-1", "GPU-2"});
  const Inventory& inventory = rig.all<AgentHello>()[0].inventory;
  ASSERT_EQ(inventory.devices.size(), 2u);
  EXPECT_EQ(inventory.devices[0].generation, Generation(1));
  EXPECT_EQ(inventory.total.devices.size(), 2u);
  EXPECT_EQ(inventory.total.cpus, MilliCpus{8000});
}

TEST_F(Probing, AProbeThatDiesCostsItsOwnResultsAndIsReportedOnce) {
  rig.probe_dies["cards"] = "crashed: SIGSEGV (signal 11)";
  given({"GPU-1"});
  const auto hellos = rig.all<AgentHello>();
  ASSERT_EQ(hellos.size(), 1u);
  EXPECT_EQ(hellos[0].inventory.total.cpus, MilliCpus{8000});
  EXPECT_TRUE(hellos[0].inventory.devices.empty());
  ASSERT_EQ(hellos[0].inventory.notes.size(), 1u);
  EXPECT_EQ(hellos[0].inventory.notes[0], "probe cards: crashed: SIGSEGV (signal 11)");
  rig.pass_heard(seconds(3600));
  EXPECT_EQ(logged("probe_failed"), 1);
  EXPECT_EQ(logged("SIGSEGV"), 1);
  // After 30 s, then 1, 2, 4, 8 and 16 min: six more runs within the hour.
  EXPECT_EQ(asked("cards"), 1 + 6);
  rig.probe_dies.clear();
  rig.pass_heard(seconds(3600));
  EXPECT_EQ(logged("probe_recovered"), 1);
  EXPECT_EQ(mastered().devices.size(), 1u);
  EXPECT_TRUE(mastered().notes.empty());
}

TEST_F(Probing, AProbeThatDiesLaterTakesNothingAway) {
  given({"GPU-1"});
  rig.say(carve({with_device(1, "GPU-1")}));
  rig.clear();
  rig.probe_dies["cards"] = "gave no answer within 10s and was killed";
  rig.step(HardwareChanged{"add /devices/x (pci)"});
  EXPECT_EQ(logged("slice_unhealthy"), 0);
  const auto updates = rig.all<InventoryUpdate>();
  ASSERT_EQ(updates.size(), 1u);  // the note
  EXPECT_TRUE(updates[0].removed.empty());
  EXPECT_EQ(updates[0].inventory.total.devices.size(), 1u);
  ASSERT_EQ(updates[0].inventory.notes.size(), 1u);
  EXPECT_NE(updates[0].inventory.notes[0].find("what it found before is used"), std::string::npos);
}

TEST_F(Probing, TheFirstHelloWaitsThreeSecondsForASlowProbeAndNoLonger) {
  rig.probes = {"hwloc", "cards"};
  rig.probe_hangs = true;
  rig.start(false);
  rig.pass(milliseconds(2900));
  EXPECT_TRUE(rig.all<AgentHello>().empty());
  rig.pass(milliseconds(200));
  ASSERT_EQ(rig.all<AgentHello>().size(), 1u);
  EXPECT_TRUE(rig.all<AgentHello>()[0].inventory.devices.empty());
  rig.say(Welcome{kProtocolVersion, "c1", seconds(5), seconds(30), {}});
  rig.step(ProbeDone{"cards", cards({"GPU-1"}), {}});
  EXPECT_EQ(mastered().devices.size(), 1u);
}

TEST_F(Probing, ChangesTravelAsIncrementsThatFollowEachOther) {
  given({"GPU-1", "GPU-2"});
  rig.finds["cards"] = cards({"GPU-2", "GPU-3"});
  rig.step(HardwareChanged{"hot-plug"});
  const auto updates = rig.all<InventoryUpdate>();
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_EQ(updates[0].base, rig.all<AgentHello>()[0].inventory.version);
  EXPECT_EQ(updates[0].inventory.version, updates[0].base.next());
  EXPECT_TRUE(updates[0].inventory.topology.type.empty());  // has not changed
  ASSERT_EQ(updates[0].inventory.devices.size(), 1u);       // the new one
  EXPECT_EQ(updates[0].inventory.devices[0].id.str(), "GPU-3");
  EXPECT_EQ(updates[0].removed, (std::vector<DeviceId>{DeviceId("GPU-1")}));
  EXPECT_EQ(mastered(), rig.agent->inventory());
  rig.clear();
  rig.step(HardwareChanged{"again"});
  EXPECT_TRUE(rig.all<InventoryUpdate>().empty());  // nothing new, nothing said
}

TEST_F(Probing, ChangedMemoryIsNoticedAtTheNextRound) {
  given({});
  rig.hardware.total.mem = Bytes{12LL << 30};
  rig.hardware.total.numa[1].mem = Bytes{4LL << 30};
  rig.say(Heartbeat{Duration(0), true});  // an operator asks
  EXPECT_EQ(mastered().total.mem, Bytes{12LL << 30});
  EXPECT_EQ(rig.agent->view().free.mem, Bytes{12LL << 30});
}

TEST_F(Probing, ADeviceThatVanishesWhileLeasedMakesItsSliceUnhealthyAndEndsNothing) {
  given({"GPU-1", "GPU-2"});
  rig.say(carve({with_device(1, "GPU-1"), with_device(2, "GPU-2")}));
  rig.say(launch("1.0.1", 1));
  rig.pass(milliseconds(10));
  rig.clear();
  rig.finds["cards"] = cards({"GPU-2"});
  rig.step(HardwareChanged{"remove /devices/x (pci)"});
  const auto ups = rig.all<SliceUp>();
  ASSERT_EQ(ups.size(), 1u);
  EXPECT_EQ(ups[0].spec.id, slice_id(1));
  EXPECT_EQ(ups[0].unhealthy, "device GPU-1 is not on this host");
  EXPECT_EQ(rig.agent->view().active.size(), 1u);
  EXPECT_TRUE(rig.host.signals.empty());
  EXPECT_EQ(logged("slice_unhealthy"), 1);
  // Others are served as before: what is missing is the device, not the host.
  rig.say(carve({slice_spec(3)}));
  EXPECT_EQ(rig.all<SliceUp>().size(), 2u);
  // A new session hears of it again.
  rig.clear();
  rig.restart();
  const auto again = rig.all<SliceUp>();
  EXPECT_TRUE(std::any_of(again.begin(), again.end(),
                          [](const SliceUp& up) { return up.spec.id == slice_id(1) && !up.unhealthy.empty(); }));
  EXPECT_TRUE(
      std::all_of(again.begin(), again.end(), [](const SliceUp& up) { return up.spec.id == slice_id(1) || up.unhealthy.empty(); }));
  // And it is well again when the device is back.
  rig.clear();
  rig.finds["cards"] = cards({"GPU-1", "GPU-2"});
  rig.step(HardwareChanged{"add"});
  ASSERT_EQ(rig.all<SliceUp>().size(), 1u);
  EXPECT_EQ(rig.all<SliceUp>()[0].unhealthy, "");
}

TEST_F(Probing, GenerationsGrowWithADevicesNatureAndSurviveARestart) {
  given({"GPU-1"});
  rig.say(carve({with_device(1, "GPU-1")}));
  rig.finds["cards"].devices[0].mode = Device::Mode::kTimeSliced;
  rig.clear();
  rig.step(HardwareChanged{"set up anew"});
  ASSERT_EQ(rig.all<InventoryUpdate>().size(), 1u);
  EXPECT_EQ(rig.all<InventoryUpdate>()[0].inventory.devices.at(0).generation, Generation(2));
  ASSERT_EQ(rig.all<SliceUp>().size(), 1u);
  EXPECT_NE(rig.all<SliceUp>()[0].unhealthy.find("generation 2 now, asked for was 1"), std::string::npos);
  rig.clear();
  rig.restart();
  EXPECT_EQ(rig.all<AgentHello>()[0].inventory.devices[0].generation, Generation(2));
  rig.say(ReleaseSlices{{slice_id(1)}, {}});
  rig.say(carve({with_device(2, "GPU-1", 2)}));
  EXPECT_EQ(rig.all<SliceUp>().back().spec.id, slice_id(2));
}

TEST_F(Probing, AReloadTakesLabelsAndDevicesAndLeavesTasksAlone) {
  rig.probes = {"hwloc", "declared"};
  rig.finds["declared"] = cards({"NPU-1", "NPU-2"});
  rig.start();
  rig.say(carve({with_device(1, "NPU-1"), with_device(2, "NPU-2")}));
  rig.say(launch("1.0.1", 1));
  rig.say(launch("2.0.1", 2));
  rig.pass(milliseconds(10));
  rig.finds["declared"] = cards({"NPU-2"});
  AgentSettings settings;
  settings.labels = {{"rack", "r9"}};
  settings.probes = {"hwloc", "declared"};
  rig.clear();
  rig.step(Reload{to_text(settings)});
  EXPECT_EQ(rig.agent->inventory().labels.at("rack"), "r9");
  EXPECT_EQ(rig.agent->view().active.size(), 2u);
  EXPECT_TRUE(rig.host.signals.empty());
  ASSERT_EQ(rig.all<SliceUp>().size(), 1u);  // what no longer fits is told, what fits is not
  EXPECT_EQ(rig.all<SliceUp>()[0].spec.id, slice_id(1));
  EXPECT_EQ(logged("slice_unhealthy slice=batch#1"), 1);
  rig.clear();
  rig.step(Reload{"nonsense"});
  EXPECT_EQ(rig.agent->inventory().labels.at("rack"), "r9");
  EXPECT_GE(logged("reload_refused"), 1);
}

TEST_F(Probing, ADeviceThatIsIllIsLookedAtAgainSoonAndLessOftenLater) {
  given({"GPU-1"});
  rig.finds["cards"].devices[0].healthy = false;
  rig.step(HardwareChanged{"pci"});
  EXPECT_FALSE(mastered().devices.at(0).healthy);
  const int before = asked("cards");
  rig.pass_heard(seconds(36));
  EXPECT_EQ(asked("cards"), before + 3) << "after 5, 15 and 35 s";
  rig.finds["cards"].devices[0].healthy = true;
  rig.pass_heard(seconds(40));
  EXPECT_TRUE(mastered().devices.at(0).healthy) << "nobody asked for it";
  const int healed = asked("cards");
  rig.pass_heard(seconds(400));
  EXPECT_EQ(asked("cards"), healed) << "what is well is left alone";
}

TEST(Settings, LendingReadsBack) {
  AgentSettings settings;
  settings.lend.on = true;
  settings.lend.every = seconds(3);
  settings.lend.slack = {seconds(4), seconds(5), 150};
  settings.lend.pressure = {700, 300, milliseconds(10), seconds(6)};
  const auto back = parse_settings(to_text(settings));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, settings);
}

TEST(Settings, TextReadsBack) {
  AgentSettings settings;
  settings.labels = {{"a", ""}, {"b", "x y=z"}};
  settings.probes = {{"hwloc", seconds(3)}, {"plugin:x", milliseconds(1)}};
  settings.reprobe = seconds(7);
  settings.default_grace = seconds(8);
  const auto back = parse_settings(to_text(settings));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, settings);
  const std::string text = to_text(settings);
  for (std::size_t cut = 1; cut < text.size(); ++cut) (void)parse_settings(text.substr(0, cut));
  EXPECT_FALSE(parse_settings(text.substr(0, text.size() - 1)));
}

}  // namespace
}  // namespace bourse::testing
