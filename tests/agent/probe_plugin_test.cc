// Probe plugins, in the helper as in production: the example, and plugins that report what cannot be.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "agent/helper/runner.h"
#include "tests/world/support.h"

namespace bourse {
namespace {

class ProbePlugin : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* bin = std::getenv("BOURSE_BIN");
    bin_ = bin == nullptr ? "" : bin;
    if (bin_.empty()) GTEST_SKIP() << "set BOURSE_BIN to the folder of bourse-helper, as make check does";
    ASSERT_EQ(access((bin_ + "/bourse-helper").c_str(), X_OK), 0) << bin_ << "/bourse-helper is not built";
    input_.root = dir_ / "root";
    input_.options["copies"] = dir_ / "copies";
  }
  void card(int number, const std::string& serial, const std::string& memory, const std::string& state) {
    const std::string at = dir_ / ("root/sys/class/acme/acme" + std::to_string(number));
    std::filesystem::create_directories(at);
    std::ofstream(at + "/serial") << serial << "\n";
    if (!memory.empty()) std::ofstream(at + "/memory_mib") << memory << "\n";
    std::ofstream(at + "/state") << state << "\n";
  }
  HelperResult run(const std::string& plugin, Duration limit = seconds(20)) {
    input_.options["path"] = plugin;
    return run_helper(bin_ + "/bourse-helper", "plugin:test", input_, limit);
  }
  // A plugin whose look() does this.
  std::string made_of(const std::string& body) {
    const std::string source = dir_ / "plugin.c", object = dir_ / "plugin.so";
    std::ofstream(source)
        << "#include <bourse/plugin.h>\n#include <string.h>\n#include <unistd.h>\n"
           "static int look(const bourse_host* h, const char* root, const bourse_findings_1* f, char* e, uint32_t n) {\n"
           "  bourse_found_device d = {sizeof d, 0, \"d1\", \"x/y\", 0, 0, 0, -1, 0, 0};\n  (void)h; (void)root; (void)e; (void)n; "
           "(void)d; (void)f;\n"
        << body
        << "\n  return 0;\n}\nstatic const bourse_probe_1 probe = {sizeof probe, look};\n"
           "static const void* get(const char* id) { return strcmp(id, BOURSE_PROBE_1) ? 0 : &probe; }\n"
           "const bourse_plugin bourse_plugin_entry = {sizeof(bourse_plugin), 1, 0, \"probe\", \"test\", \"1\", 0, 0, get};\n";
    std::filesystem::remove(object);
    EXPECT_EQ(std::system(("cc -shared -fPIC -Iplugins/include -o " + object + " " + source).c_str()), 0);
    chmod(object.c_str(), 0755);
    return object;
  }
  std::string refusal(const std::string& body) {
    const HelperResult result = run(made_of(body));
    return result.report ? "accepted" : result.report.error().text().substr(result.report.error().text().find(".so: ") + 5);
  }
  test::TempDir dir_;
  std::string bin_;
  ProbeInput input_;
};

TEST_F(ProbePlugin, TheExampleFindsItsCards) {
  card(0, "A7", "8192", "ok");
  card(3, "B2", "4096", "overheated");
  const HelperResult result = run(bin_ + "/../plugins/examples/probe_acme.so");
  ASSERT_TRUE(result.report) << result.report.error().text();
  const auto& all = result.report->inventory.devices;
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].id.str(), "acme-A7");
  EXPECT_EQ(all[0].kind, "npu/acme");
  EXPECT_EQ(all[0].mode, Device::Mode::kCounters);
  EXPECT_EQ(all[0].counters.get("mem"), 8192);
  EXPECT_EQ(all[0].counters.get("lanes"), 8);
  EXPECT_EQ(all[0].nodes, (std::vector<std::string>{"/dev/acme0"}));
  EXPECT_EQ(all[1].attributes.at("env.ACME_VISIBLE_DEVICES"), "3");
  EXPECT_FALSE(all[1].healthy);
  EXPECT_EQ(all[1].attributes.at("unhealthy"), "overheated");
  EXPECT_EQ(result.report->sources.at("devices/acme-B2"), "/sys/class/acme/acme3");
  card(5, "C9", "", "ok");
  const HelperResult old = run(bin_ + "/../plugins/examples/probe_acme.so");
  ASSERT_FALSE(old.report);
  EXPECT_NE(old.report.error().text().find("acme5 has no memory_mib"), std::string::npos) << old.report.error().text();
}

TEST_F(ProbePlugin, WhatCannotBeIsRefusedWhole) {
  EXPECT_EQ(refusal("f->device(f, &d); f->counter(f, \"d1\", \"a\", -1);"), "reports what cannot be: a of device d1 is below zero");
  EXPECT_EQ(refusal("f->device(f, &d); f->counter(f, \"d1\", \"compute\", 1001);"),
            "reports what cannot be: compute of device d1 is over 1000 permille");
  EXPECT_EQ(refusal("f->device(f, &d); f->device(f, &d);"), "reports what cannot be: device d1 a second time");
  EXPECT_EQ(refusal("d.id = \"../x\"; f->device(f, &d);"), "reports what cannot be: device id `../x'");
  EXPECT_EQ(refusal("f->counter(f, \"nobody\", \"a\", 1);"), "reports what cannot be: a counter of device nobody");
  EXPECT_EQ(refusal("f->device(f, &d); f->node(f, \"d1\", \"/etc/shadow\");"),
            "reports what cannot be: node `/etc/shadow' of device d1");
  EXPECT_EQ(refusal("f->device(f, &d); f->profile(f, \"d1\", \"p\", \"a\", 5);"),
            "profile p of device d1 takes more than the device has");
  EXPECT_EQ(refusal("strcpy(e, \"no card cage\"); return -1;"), "no card cage");
  EXPECT_EQ(refusal("f->device(f, &d);"), "accepted");
}

TEST_F(ProbePlugin, OneThatCrashesOrHangsCostsItsOwnRun) {
  const HelperResult crash = run(made_of("*(volatile int*)8 = 1;"));
  ASSERT_FALSE(crash.report);
  EXPECT_EQ(crash.report.error().text(), "crashed: SIGSEGV (signal 11)");
  const HelperResult hang = run(made_of("for (;;) pause();"), seconds(2));
  ASSERT_FALSE(hang.report);
  EXPECT_EQ(hang.report.error().code(), Code::kTimeout);
}

TEST_F(ProbePlugin, OneThatOthersMayWriteIsNotLoaded) {
  const std::string object = made_of("");
  chmod(object.c_str(), 0777);
  const HelperResult result = run(object);
  ASSERT_FALSE(result.report);
  EXPECT_EQ(result.report.error().code(), Code::kDenied);
}

}  // namespace
}  // namespace bourse
