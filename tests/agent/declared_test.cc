// Declarations: what they make, and what is wrong with those that are refused.
#include <gtest/gtest.h>

#include <fstream>

#include "agent/probes/declared.h"
#include "tests/world/support.h"

namespace bourse {
namespace {

using test::TempDir;

Result<ProbeReport> parse(const std::string& text, const std::string& file = "d.toml") {
  return parse_declarations({{file, text}});
}
std::string refusal(const std::string& text) {
  const auto report = parse(text);
  return report ? "accepted" : report.error().text();
}

TEST(Declared, AnUnheardOfChipWithTwoShareKindsTakesTenLines) {
  const auto report = parse(R"([[device]]
id = "aurora{}"
count = 2
kind = "npu/aurora"
model = "Aurora 1"
mode = "counters"
counters = { mem = "16GiB", compute = "1000 permille", "npu.control" = 4 }
nodes = ["/dev/aurora{}", "/dev/aurora_ctl"]
env = { AURORA_VISIBLE = "{}" }
numa = 1
)");
  ASSERT_TRUE(report) << report.error().text();
  ASSERT_EQ(report->inventory.devices.size(), 2u);
  const Device& second = report->inventory.devices[1];
  EXPECT_EQ(second.id.str(), "aurora1");
  EXPECT_EQ(second.mode, Device::Mode::kCounters);
  EXPECT_EQ(second.counters.get("mem"), 16384);
  EXPECT_EQ(second.counters.get("compute"), 1000);
  EXPECT_EQ(second.counters.get("npu.control"), 4);
  EXPECT_EQ(second.nodes, (std::vector<std::string>{"/dev/aurora1", "/dev/aurora_ctl"}));
  EXPECT_EQ(second.attributes.at("env.AURORA_VISIBLE"), "1");
  EXPECT_EQ(second.numa, 1);
  EXPECT_EQ(report->sources.at("devices/aurora1"), "d.toml:1");
}

TEST(Declared, AmountsAndLabels) {
  const auto report =
      parse("[amounts]\n\"licence/matlab\" = 10\ndisk = \"1TiB\"\nports = \"31000-31999\"\n[labels]\nowner = \"lab 3\"\n");
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->inventory.total.others.get("licence/matlab"), 10);
  EXPECT_EQ(report->inventory.total.disk, Bytes{1LL << 40});
  EXPECT_EQ(report->inventory.total.ports.size(), 1000u);
  EXPECT_EQ(report->inventory.labels.at("owner"), "lab 3");
}

TEST(Declared, TemplatesHaveProfiles) {
  const auto report = parse(R"([[device]]
id = "n0"
kind = "npu/x"
mode = "template"
counters = { "npu.compute" = 24, "npu.control" = 6, mem = "64GiB" }
[device.profiles]
small = { "npu.compute" = 6, "npu.control" = 1, mem = "16GiB" }
)");
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->inventory.devices[0].profiles.at("small").get("npu.compute"), 6);
}

TEST(Declared, EachFaultIsNamedWithItsLine) {
  const std::string head = "[[device]]\nid = \"d\"\nkind = \"x\"\nmode = \"counters\"\n";
  EXPECT_EQ(refusal(head + "counters = { mem = \"16GiX\" }"),
            "d.toml:5: `mem' is `16GiX': unknown unit `GiX'; did you mean `GiB'?");
  EXPECT_EQ(refusal(head + "counters = { a = \"3 parsecs\" }"), "d.toml:5: `a' is `3 parsecs': unknown unit `parsecs'");
  EXPECT_EQ(refusal(head + "counters = { a = -1 }"), "d.toml:5: `a' is below zero");
  EXPECT_EQ(refusal(head + "counters = { b = 1, mem = \"-4GiB\" }"), "d.toml:5: `mem' is below zero");
  EXPECT_EQ(refusal(head + "counters = { compute = 1001 }"), "d.toml:5: `compute' is a share of 1001 permille; the whole is 1000");
  EXPECT_EQ(refusal(head + "counters = { b = 1, a = \"101%\" }"), "d.toml:5: `a' is a share of 1010 permille; the whole is 1000");
  EXPECT_EQ(refusal(head + "counters = { b = 1 }\ncuonters = 3"),
            "d.toml:6: unknown key `cuonters' of a device; did you mean `counters'?");
  EXPECT_EQ(refusal(head + "counters = { b = 1 }\n[lables]\na = \"b\""),
            "d.toml:6: unknown section [lables]; did you mean [labels]?");
  EXPECT_EQ(refusal(head + "counters = { b = 1 }\n[[device]]\nid = \"d\"\nkind = \"y\""),
            "d.toml:6: device `d' is declared already at d.toml:1");
  EXPECT_EQ(refusal("[device]\nid = \"d\""), "d.toml:1: a device is declared as [[device]], with two brackets");
  EXPECT_EQ(refusal("[[device]]\nid = \"d\"\nkind = \"x\"\nmode = \"exclusiv\""),
            "d.toml:4: `mode' is `exclusiv', expected exclusive, counters, template or time-sliced; did you mean `exclusive'?");
  EXPECT_EQ(refusal("[[device]]\nid = \"d\"\nkind = \"x\"\nnodes = [\"/etc/shadow\"]"),
            "d.toml:4: `/etc/shadow' is not a path below /dev");
  EXPECT_EQ(refusal("[[device]]\nkind = \"x\"\n"), "d.toml:1: a device needs an `id' that is a name: letters, digits and ._/+@:-");
  EXPECT_EQ(refusal("[amounts]\ncpus = 3\n"), "d.toml:2: `cpus' is found by the agent itself; agent.reserve_cpus keeps some back");
  EXPECT_NE(refusal("[[device]\n").find("d.toml:1: "), std::string::npos);
}

TEST(Declared, ADuplicateInAnotherFileIsOneToo) {
  const auto report = parse_declarations(
      {{"a.toml", "[[device]]\nid = \"d\"\nkind = \"x\"\n"}, {"b.toml", "\n[[device]]\nid = \"d\"\nkind = \"x\"\n"}});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().text(), "b.toml:2: device `d' is declared already at a.toml:1");
}

TEST(Declared, AProfileMustFit) {
  EXPECT_EQ(
      refusal("[[device]]\nid = \"d\"\nkind = \"x\"\nmode = \"template\"\ncounters = { a = 4 }\nprofiles = { p = { a = 5 } }\n"),
      "d.toml:6: profile `p' takes more than the device has in `counters'");
}

TEST(Declared, ADeviceWhoseNodeIsNotThereIsUnhealthy) {
  TempDir dir;
  std::filesystem::create_directories(dir / "dev");
  std::ofstream(dir / "dev/here0") << "";
  std::filesystem::create_directories(dir / "devices.d");
  std::ofstream(dir / "devices.d/10.toml") << "[[device]]\nid = \"d\"\ncount = 2\nkind = \"x\"\nnodes = [\"/dev/here{}\"]\n";
  std::ofstream(dir / "devices.d/ignored.txt") << "nonsense";
  ProbeInput input;
  input.root = dir.path();
  input.options["declare"] = dir / "devices.d";
  const auto report = run_declared(input);
  ASSERT_TRUE(report) << report.error().text();
  ASSERT_EQ(report->inventory.devices.size(), 2u);
  EXPECT_TRUE(report->inventory.devices[0].healthy);
  EXPECT_FALSE(report->inventory.devices[1].healthy);
  EXPECT_EQ(report->inventory.devices[1].attributes.at("unhealthy"), "/dev/here1 is not there");
  input.options["declare"] = dir / "nowhere";
  EXPECT_EQ(run_declared(input).error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace bourse
