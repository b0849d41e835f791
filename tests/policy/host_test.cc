// The host does not believe a plugin: each wrong answer ends in the fall-back, said once, with nothing lost.
#include "plugins/policy/host.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>

#include "common/core/hooks.h"
#include "common/world/files.h"
#include "plugins/policy/builtin.h"
#include "plugins/policy/conformance.h"
#include "plugins/policy/loader.h"
#include "plugins/policy/watch.h"
#include "tests/policy/rig.h"
#include "tests/world/support.h"

namespace bourse::test {
namespace {

class Plugins : public ::testing::Test {
 protected:
  std::string file(const std::string& fault) {
    const char* b = std::getenv("B");  // NOLINT(concurrency-mt-unsafe)
    const std::string built = std::string(b == nullptr ? "build/release" : b) + "/tests/plugins/" + fault + ".so";
    std::string path = directory_ / fault + ".so";
    EXPECT_TRUE(bool(write_file(path, *read_file(built), 0644)));
    return path;
  }
  policy::Choice choice(const std::string& fault) {
    auto taken = loader_.take(file(fault));
    EXPECT_TRUE(taken) << (taken ? "" : taken.error().text());
    return *taken;
  }
  // Two frameworks that want something, over this plugin.
  std::unique_ptr<policy::Host> host(const std::string& fault, policy::Guard* guard = nullptr) {
    policy::HostOptions options;
    options.fallback = "fifo";
    options.guard = guard;
    options.log = [this](const std::string& line) { log_.push_back(line); };
    auto made = policy::Host::make(choice(fault), std::move(options));
    EXPECT_TRUE(made) << (made ? "" : made.error().text());
    (*made)->claimant({.handle = 0, .units = 1, .name = "b"});
    (*made)->claimant({.handle = 1, .units = 1, .name = "a"});
    Resources r;
    r.cpus = MilliCpus(4000);
    r.mem = Bytes(1 << 30);
    (*made)->agent(0, "host", r, r);
    return *std::move(made);
  }
  static std::string walk(policy::Host& host) {
    std::string out;
    host.begin(seconds(1));
    for (int i = 0; i < 10; ++i) {
      const auto next = host.next();
      if (!next) return out;
      out += std::to_string(next->claimant);
    }
    return out + " and so on";
  }
  std::size_t failures() {
    return static_cast<std::size_t>(std::count_if(
        log_.begin(), log_.end(), [](const std::string& l) { return l.find("event=policy_failed") != std::string::npos; }));
  }

  TempDir directory_;
  policy::Loader loader_{"test", directory_ / "copies"};
  std::vector<std::string> log_;
};

TEST_F(Plugins, AGoodOneIsAsked) {
  auto h = host("good");
  EXPECT_EQ(walk(*h), "01");  // by handle; the fall-back would go by name
  EXPECT_EQ(h->fault(), "");
  Shape shape;
  EXPECT_DOUBLE_EQ(h->score(0, shape, {0})[0].score, 0.5);
}

TEST_F(Plugins, WhatCannotBeEndsInTheFallBackSaidOnce) {
  for (const auto& [fault, says] :
       {std::pair("endless", "twice though nothing had changed"), std::pair("stranger", "claimant 1000000"),
        std::pair("rank_twice", "other claimants than it was given")}) {
    log_.clear();
    auto h = host(fault);
    std::vector<std::uint32_t> both = {0, 1};
    if (std::string(fault) == "rank_twice") {
      h->rank(seconds(1), policy::kNone, both);
      EXPECT_EQ(both, (std::vector<std::uint32_t>{1, 0}));
    }
    // From there on by name, and both of them; what was given before the fault is met again.
    EXPECT_EQ(walk(*h), std::string(fault) == "endless" ? "010" : "10") << fault;
    EXPECT_EQ(walk(*h), "10") << fault;
    EXPECT_NE(h->fault().find(says), std::string::npos) << fault << ": " << h->fault();
    EXPECT_EQ(failures(), 1U) << fault;
    EXPECT_EQ(h->in_force(), "fifo");
    // It lasts until the next one is put in.
    ASSERT_TRUE(h->swap(choice("good")));
    EXPECT_EQ(h->fault(), "");
    EXPECT_EQ(walk(*h), "01") << fault;
  }
}

TEST_F(Plugins, ScoresThatCannotBeEndInTheOwnersOwnRule) {
  Shape shape;
  for (const auto& [fault, says] : {std::pair("nan_score", "gave NaN"), std::pair("far_score", "expected 0 to 1"),
                                    std::pair("bad_device", "chose device 70000")}) {
    auto h = host(fault);
    EXPECT_TRUE(h->scores());
    EXPECT_TRUE(h->score(0, shape, {0}).empty()) << fault;
    EXPECT_NE(h->fault().find(says), std::string::npos) << fault << ": " << h->fault();
    EXPECT_FALSE(h->scores());
  }
}

TEST_F(Plugins, ASlowOneIsLeftAside) {
  auto watch = policy::Watch::open(directory_.path(), "test");
  ASSERT_TRUE(watch);
  // It sleeps for 0.3 s in next(): more than ten times the budget of wall time.
  policy::HostOptions tight;
  tight.guard = watch->get();
  tight.budget = milliseconds(20);
  auto made = policy::Host::make(choice("slow"), std::move(tight));
  (*made)->claimant({.handle = 0, .units = 1, .name = "a"});
  EXPECT_EQ(walk(**made), "0");
  EXPECT_NE((*made)->fault().find("the budget is 20ms"), std::string::npos) << (*made)->fault();
}

TEST_F(Plugins, AStateThatIsTooBigIsAFault) {
  auto h = host("big_state");
  EXPECT_EQ(h->save(), "");
  EXPECT_NE(h->fault().find("save() says"), std::string::npos);
}

TEST_F(Plugins, WhatIsRefusedChangesNothing) {
  for (const auto& [fault, says] :
       {std::pair("null_function", "lacks claimant_removed()"), std::pair("no_interface", "has no interface \"bourse.policy/1\""),
        std::pair("create_fails", "no luck today"), std::pair("other_kind", "is a probe, a policy was expected")}) {
    auto refused = loader_.take(file(fault));
    ASSERT_FALSE(refused) << fault;
    EXPECT_NE(refused.error().text().find(says), std::string::npos) << refused.error().text();
    EXPECT_FALSE(loader_.catalog().find(directory_ / fault + ".so")) << "it is not in the catalog";
  }
  auto h = host("good");
  policy::Choice bad = choice("good");
  bad.spec = *policy::parse("fifo:x=1");
  bad.table = policy::find_builtin("fifo");
  EXPECT_FALSE(h->swap(bad));
  EXPECT_EQ(walk(*h), "01");
}

// The mark outlives the process that died inside of the plugin, and the next life keeps that plugin out.
void dies_in_plugin(const std::string& state, const policy::Choice& choice, bool stalls) {
  auto watch = policy::Watch::open(state, "test");
  if (!watch || !(*watch)->crashed().empty()) _exit(1);
  if (!stalls) std::signal(SIGSEGV, SIG_DFL);
  policy::HostOptions options;
  options.guard = watch->get();
  auto host = policy::Host::make(choice, std::move(options));
  (*host)->claimant({.handle = 0, .units = 1, .name = "a"});
  (*host)->begin(seconds(1));
  (void)(*host)->next();
  _exit(2);
}

TEST_F(Plugins, OneThatCrashesOrLoopsIsQuarantined) {
  for (const std::string fault : {"crashes", "loops"}) {
    const policy::Choice bad = choice(fault), good = choice("good");
    const std::string state = directory_ / (fault + "-state");
    ASSERT_TRUE(make_directories(state, 0700));
    const auto began = real_time().mono;
    const pid_t pid = fork();
    if (pid == 0) dies_in_plugin(state, bad, fault == "loops");
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    if (fault == "loops") {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == policy::Watch::kStalledStatus) << status;
      EXPECT_GE(real_time().mono - began, policy::Watch::kStall);
    } else {
      EXPECT_TRUE(WIFSIGNALED(status)) << status;
    }
    auto watch = policy::Watch::open(state, "test");
    ASSERT_TRUE(watch);
    EXPECT_EQ((*watch)->crashed(), bad.spec.text());
    const auto refused = (*watch)->allowed(bad);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().text().find("quarantined"), std::string::npos);
    EXPECT_TRUE((*watch)->allowed(good));
    EXPECT_TRUE((*watch)->allowed(policy::built_in("drf")));
    watch->reset();
    auto later = policy::Watch::open(state, "test");
    EXPECT_EQ((*later)->crashed(), "") << "said once";
    EXPECT_FALSE((*later)->allowed(bad)) << "but kept";
  }
}

std::string conformance(const policy::Choice& choice) {
  std::string failed, running;
  policy::Conformance how;
  how.snapshots = 400;
  how.begins = [&](const std::string& name) { running = name; };
  how.ends = [&](const std::string& name, const std::string& why) {
    if (!why.empty() && failed.empty()) failed = name + ": " + why;
  };
  const bool passed = policy::check_policy(choice, how);
  EXPECT_EQ(passed, failed.empty());
  return failed;
}

TEST_F(Plugins, TheConformanceChecksTellGoodFromBad) {
  EXPECT_EQ(conformance(choice("good")),
            "create: refuses a parameter that it does not know, with a sentence: create() took the parameter "
            "`no-such-parameter': a mistyped one would go unnoticed");
  for (const auto& [fault, says] :
       {std::pair("rank_twice", "rank()"), std::pair("endless", "next()"), std::pair("stranger", "next()"),
        std::pair("nan_score", "score() gave NaN"), std::pair("random", ""), std::pair("big_state", "save()")}) {
    std::string all;
    policy::Conformance how;
    how.snapshots = 400;
    how.begins = [](const std::string&) {};
    how.ends = [&](const std::string& name, const std::string& why) {
      if (!why.empty() && !name.starts_with("create: refuses")) all += name + ": " + why + "\n";
    };
    EXPECT_FALSE(policy::check_policy(choice(fault), how)) << fault;
    EXPECT_NE(all, "") << fault;
    EXPECT_NE(all.find(says), std::string::npos) << fault << ": " << all;
  }
}

class Own : public ::testing::TestWithParam<std::string_view> {};
TEST_P(Own, PolicyKeepsToTheInterface) { EXPECT_EQ(conformance(policy::built_in(GetParam())), ""); }
INSTANTIATE_TEST_SUITE_P(Built, Own, ::testing::ValuesIn([] {
                           std::vector<std::string_view> names;
                           for (const policy::Builtin& b : policy::builtins()) names.push_back(b.name);
                           return names;
                         }()),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace bourse::test
