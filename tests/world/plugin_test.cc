// Loading plugins: what is refused, with which words, and what is kept of one that was loaded. The files are made by the
// Makefile from tests/plugins/broken.c, one for each fault.
#include "common/world/plugin.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "common/world/digest.h"
#include "common/world/files.h"
#include "tests/world/support.h"

namespace bourse {
namespace {

std::string built(const std::string& fault) {
  const char* b = std::getenv("B");  // NOLINT(concurrency-mt-unsafe)
  return std::string(b == nullptr ? "build/release" : b) + "/tests/plugins/" + fault + ".so";
}

class PluginTest : public ::testing::Test {
 protected:
  // A copy of our own, since what the build made may be writable by a group.
  std::string file(const std::string& fault, mode_t mode = 0644) {
    std::string path = directory_ / fault + ".so";
    EXPECT_TRUE(bool(write_file(path, *read_file(built(fault)), 0600)));
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  Result<std::unique_ptr<Plugin>> load(const std::string& path, const std::string& kind = "policy") {
    return Plugin::load(path, kind, {"test", directory_ / "copies"});
  }
  std::string refusal(const std::string& path, const std::string& kind = "policy") {
    auto plugin = load(path, kind);
    return plugin ? "it was taken" : plugin.error().text();
  }
  static bool says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }
  test::TempDir directory_;
};

TEST_F(PluginTest, AGoodOneIsLoadedAndGivesItsInterface) {
  auto plugin = load(file("good"));
  ASSERT_TRUE(plugin) << plugin.error().text();
  EXPECT_EQ((*plugin)->name(), "broken");
  EXPECT_EQ((*plugin)->version(), "1.0");
  EXPECT_EQ((*plugin)->digest().size(), 64U);
  auto policy = (*plugin)->get(BOURSE_POLICY_1, sizeof(bourse_policy_1));
  ASSERT_TRUE(policy);
  EXPECT_EQ(static_cast<const bourse_policy_1*>(*policy)->size, sizeof(bourse_policy_1));
  auto other = (*plugin)->get("bourse.policy/9", 4);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Code::kUnsupported);
}

TEST_F(PluginTest, FaultsOfTheEntryAreNamed) {
  EXPECT_TRUE(says(refusal(file("no_symbol")), "does not export `bourse_plugin_entry'"));
  EXPECT_TRUE(says(refusal(file("wrong_abi")), "was built for plugin ABI 2.0, this program has 1.0"));
  EXPECT_TRUE(says(refusal(file("short_size")), "its entry has 8 bytes"));
  EXPECT_TRUE(says(refusal(file("no_kind")), "has no kind"));
  EXPECT_TRUE(says(refusal(file("bad_name")), "name must be"));
  EXPECT_TRUE(says(refusal(file("no_get")), "has no get()"));
  EXPECT_TRUE(says(refusal(file("init_fails")), "its init() failed with 7"));
  EXPECT_TRUE(says(refusal(file("other_kind")), "is a probe, a policy was expected"));
  EXPECT_EQ(refusal(file("other_kind"), "probe"), "it was taken");
  auto plugin = load(file("short_interface"));
  ASSERT_TRUE(plugin);
  auto policy = (*plugin)->get(BOURSE_POLICY_1, sizeof(bourse_policy_1));
  ASSERT_FALSE(policy);
  EXPECT_TRUE(says(policy.error().text(), "has 16 bytes"));
}

TEST_F(PluginTest, WhatOthersCouldHaveWrittenIsRefused) {
  EXPECT_TRUE(says(refusal(file("good", 0664)), "may be written by others (mode 0664)"));
  EXPECT_TRUE(says(refusal(file("good", 0646)), "may be written by others (mode 0646)"));
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::string path = file("good");
  ASSERT_EQ(chown(path.c_str(), 12345, 0), 0);
  EXPECT_TRUE(says(refusal(path), "belongs to user 12345"));
}

TEST_F(PluginTest, FilesThatAreNoPluginsAreRefused) {
  EXPECT_TRUE(says(refusal(directory_ / "none.so"), "No such file"));
  EXPECT_TRUE(says(refusal(directory_.path()), "is not a file"));
  ASSERT_TRUE(write_file(directory_ / "text.so", "not an object", 0644));
  EXPECT_TRUE(says(refusal(directory_ / "text.so"), "cannot be loaded"));
  const std::string whole = *read_file(built("good"));
  for (std::size_t size = 0; size < whole.size(); size += 997) {
    ASSERT_TRUE(write_file(directory_ / "half.so", whole.substr(0, size), 0644));
    const std::string why = refusal(directory_ / "half.so");
    EXPECT_TRUE(says(why, "cannot be loaded") || why == "it was taken")
        << size << ": " << why;  // taken: only its symbols' names lack
  }
}

TEST_F(PluginTest, AFileThatIsReplacedIsNewCode) {
  const std::string path = file("good");
  auto old = load(path);
  ASSERT_TRUE(old);
  const auto* old_policy = static_cast<const bourse_policy_1*>(*(*old)->get(BOURSE_POLICY_1, sizeof(bourse_policy_1)));
  ASSERT_TRUE(write_file(path, *read_file(built("create_fails")), 0644));
  auto now = load(path);
  ASSERT_TRUE(now);
  EXPECT_NE((*old)->digest(), (*now)->digest());
  const auto* new_policy = static_cast<const bourse_policy_1*>(*(*now)->get(BOURSE_POLICY_1, sizeof(bourse_policy_1)));
  char error[64] = "";
  bourse_policy* object = nullptr;
  EXPECT_NE(new_policy->create(nullptr, nullptr, 0, &object, error, sizeof error), 0);
  EXPECT_STREQ(error, "no luck today");
  old->reset();  // the code stays
  ASSERT_EQ(old_policy->create(nullptr, nullptr, 0, &object, error, sizeof error), 0);
  old_policy->destroy(object);
}

TEST_F(PluginTest, WhatIsMappedIsWhatWasRead) {
  const std::string path = file("far_score"), content = *read_file(path);
  // Somebody's leftover under the name that our copy will have.
  const std::string copy = directory_ / "copies/far_score-" + sha256_hex(content).substr(0, 16) + ".so";
  ASSERT_TRUE(make_directories(directory_ / "copies", 0700));
  ASSERT_TRUE(write_file(copy, "damaged", 0600));
  auto plugin = load(path);
  ASSERT_TRUE(plugin) << plugin.error().text();
  EXPECT_EQ(*read_file(copy), content);
  struct stat info {};
  ASSERT_EQ(stat(copy.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0500U);
  ASSERT_EQ(chmod((directory_ / "copies").c_str(), 0777), 0);
  EXPECT_TRUE(says(refusal(file("nan_score")), "must belong to this program's user alone"));
}

}  // namespace
}  // namespace bourse
