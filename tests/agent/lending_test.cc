// An agent that lends: what it says of it, whom it ends under pressure and in which order, and what it tells.
#include <gtest/gtest.h>

#include "rig.h"

namespace bourse::testing {
namespace {

SliceSpec lent_spec(std::uint64_t number, std::int64_t milli, std::int64_t mib) {
  SliceSpec spec;
  spec.id = slice_id(number);
  spec.resources.cpus = MilliCpus{milli};
  spec.resources.mem = Bytes{mib << 20};
  spec.revocable = true;
  return spec;
}

TaskSpec with_priority(std::int32_t priority) {
  TaskSpec spec = task_spec();
  spec.priority = priority;
  return spec;
}

// One slice of 4 cpus and 4 GiB that uses 1 of each, on an agent that lends the rest but 20 %.
struct Lender : Rig {
  bool critical = false;
  Lender() {
    lend.on = true;
    lend.slack.settle = seconds(20);
    usage = [this] {
      UsageSample sample;
      for (const SliceSpec& spec : agent->view().slices) {
        UsageSample::Slice use;
        use.slice = spec.id;
        use.cpu = now.mono * (spec.revocable ? 0 : 1);
        use.mem = Bytes{spec.revocable ? 256LL << 20 : 1LL << 30};
        use.critical = critical && !spec.revocable;
        sample.slices.push_back(use);
      }
      return sample;
    };
    start();
    SliceSpec owner = slice_spec(1, 4000);
    owner.resources.mem = Bytes{4LL << 30};
    owner.resources.numa = {{0, MilliCpus{4000}, Bytes{4LL << 30}}};
    say(carve({owner}));
    say(launch("owner", 1));
  }
  [[nodiscard]] Resources lends() const { return agent->inventory().revocable; }
  void press(std::int32_t permille, bool trigger = false) { step(PressureSample{permille, "host", trigger}); }
  void settle() { pass_heard(seconds(40)); }
  [[nodiscard]] std::vector<std::string> preempted() const {
    std::vector<std::string> found;
    for (const StatusUpdate& update : all<StatusUpdate>())
      if (update.status.state == TaskState::kPreempted) found.push_back(update.status.task.str());
    return found;
  }
};

TEST(Lending, TellsTheMasterWhatItsSlicesDoNotUse) {
  Lender rig;
  EXPECT_TRUE(rig.lends().empty());
  rig.settle();
  EXPECT_EQ(rig.lends().cpus.value, 2200);
  EXPECT_EQ(rig.lends().mem.value, 2240LL << 20);
  const auto updates = rig.all<InventoryUpdate>();
  ASSERT_FALSE(updates.empty());
  EXPECT_EQ(updates.back().inventory.revocable, rig.lends());
  EXPECT_EQ(updates.back().inventory.total.cpus.value, 8000) << "beside the total, not out of it";
}

TEST(Lending, IsOffUnlessTheConfigurationTurnsItOn) {
  Rig rig;
  rig.start();
  rig.say(carve({slice_spec(1, 4000)}));
  rig.pass_heard(seconds(300));
  for (const HostAction& action : rig.host_actions) EXPECT_FALSE(std::holds_alternative<MeasureUsage>(action));
  EXPECT_TRUE(rig.agent->inventory().revocable.empty());
}

TEST(Lending, ASliceWithACriticalProcessLendsNothing) {
  Lender rig;
  rig.critical = true;
  rig.settle();
  EXPECT_TRUE(rig.lends().empty());
}

TEST(Lending, ARevocableSliceIsMadeOfWhatIsLentAndOfNothingElse) {
  Lender rig;
  rig.settle();
  rig.clear();
  rig.say(carve({lent_spec(10, 2000, 2048)}));
  ASSERT_EQ(rig.all<SliceUp>().size(), 1U);
  EXPECT_TRUE(rig.all<SliceUp>()[0].spec.revocable);
  EXPECT_TRUE(rig.all<SliceUp>()[0].spec.cpuset.empty());
  EXPECT_EQ(rig.agent->view().free.cpus.value, 4000) << "what is free is free still";
  rig.say(carve({lent_spec(11, 1000, 64)}));
  const auto gone = rig.all<SliceGone>();
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].end, SliceEnd::kCarveFailed);
  EXPECT_NE(gone[0].reason.find("lent"), std::string::npos) << gone[0].reason;
}

struct Pressed : Lender {
  Pressed() {
    settle();
    for (const std::uint64_t n : {10, 11, 12}) say(carve({lent_spec(n, 500, 512)}));
    say(launch("middle", 10, with_priority(5)));
    say(launch("low", 11, with_priority(-3)));
    say(launch("high", 12, with_priority(9)));
    pass_heard(seconds(2));
    clear();
  }
};

TEST(Lending, UnderPressureTheLowestPriorityGoesFirstAndOneAtATime) {
  Pressed rig;
  rig.press(650);
  EXPECT_TRUE(rig.preempted().empty()) << "a notice comes first";
  rig.pass(seconds(1));
  rig.press(700);
  EXPECT_EQ(rig.preempted(), std::vector<std::string>{"low"});
  rig.pass(seconds(2));
  rig.press(700);
  rig.pass(seconds(2));
  rig.press(700);
  rig.pass(seconds(2));
  rig.press(700);
  EXPECT_EQ(rig.preempted(), (std::vector<std::string>{"low", "middle", "high"}));
  EXPECT_EQ(rig.last_status("owner").state, TaskState::kStaging) << "nothing was said of who owns his slice";
}

TEST(Lending, TheFrameworkHearsWhyWithFigures) {
  Pressed rig;
  rig.press(650);
  rig.pass(seconds(1));
  rig.press(732);
  const TaskStatus status = rig.last_status("low");
  EXPECT_EQ(status.state, TaskState::kPreempted);
  EXPECT_EQ(status.message,
            "memory pressure of the host: some avg10 is 73.2, the limit is 60; priority -3 is the lowest of 3 revocable tasks");
  const auto gone = rig.all<SliceGone>();
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].slice, slice_id(11));
  EXPECT_EQ(gone[0].end, SliceEnd::kRevoked);
  EXPECT_EQ(gone[0].reason, status.message);
}

TEST(Lending, GentlerMeansComeFirst) {
  Pressed rig;
  rig.say(carve({lent_spec(13, 100, 64)}));
  TaskSpec warned = with_priority(-9);
  warned.warn_signal = SIGUSR1;
  rig.say(launch("warned", 13, warned));
  rig.pass_heard(seconds(2));
  rig.clear();
  rig.press(610);
  std::size_t squeezed = 0;
  for (const HostAction& action : rig.host_actions)
    if (const auto* squeeze = std::get_if<SqueezeSlice>(&action)) {
      ++squeezed;
      EXPECT_GT(squeeze->mem_high.value, 200LL << 20);
      EXPECT_LT(squeeze->mem_high.value, 256LL << 20);
    }
  EXPECT_EQ(squeezed, 4U);
  EXPECT_EQ(rig.host.signals, (std::vector<std::pair<TaskKey, int>>{{task_key("warned"), SIGUSR1}}));
  rig.pass(seconds(2));
  rig.press(300);
  EXPECT_TRUE(rig.preempted().empty()) << "it helped";
  std::size_t eased = 0;
  for (const HostAction& action : rig.host_actions)
    if (const auto* squeeze = std::get_if<SqueezeSlice>(&action); squeeze != nullptr && squeeze->mem_high.value == 0) ++eased;
  EXPECT_EQ(eased, 4U);
}

TEST(Lending, OfEqualsTheYoungestGoesFirst) {
  Lender rig;
  rig.settle();
  rig.say(carve({lent_spec(10, 500, 512), lent_spec(11, 500, 512)}));
  rig.say(launch("older", 10));
  rig.say(launch("younger", 11));
  rig.pass_heard(seconds(2));
  rig.press(900);
  rig.pass(seconds(1));
  rig.press(900);
  EXPECT_EQ(rig.preempted(), std::vector<std::string>{"younger"});
}

TEST(Lending, OneTaskOfASliceGoesAndTheSliceStays) {
  Lender rig;
  rig.settle();
  rig.say(carve({lent_spec(10, 500, 512)}));
  rig.say(launch("a", 10, with_priority(1)));
  rig.say(launch("b", 10, with_priority(2)));
  rig.pass_heard(seconds(2));
  rig.clear();
  rig.press(900);
  rig.pass(seconds(1));
  rig.press(900);
  EXPECT_EQ(rig.preempted(), std::vector<std::string>{"a"});
  EXPECT_TRUE(rig.all<SliceGone>().empty());
}

TEST(Lending, PrioritiesOutliveTheAgent) {
  Pressed rig;
  rig.restart();
  rig.clear();
  rig.press(900);
  rig.pass(seconds(1));
  rig.press(900);
  EXPECT_EQ(rig.preempted(), std::vector<std::string>{"low"});
}

TEST(Lending, WithNothingLentPressureEndsNobody) {
  Lender rig;
  rig.settle();
  rig.clear();
  for (int i = 0; i < 10; ++i) {
    rig.press(1000, true);
    rig.pass(seconds(2));
  }
  EXPECT_TRUE(rig.preempted().empty());
  EXPECT_TRUE(rig.all<SliceGone>().empty());
}

TEST(Lending, ReadersSeeItsFigures) {
  Pressed rig;
  rig.press(650);
  rig.pass(seconds(1));
  rig.press(650);
  rig.pass_heard(seconds(6));
  Counters figures;
  for (const Heartbeat& beat : rig.all<Heartbeat>())
    if (!beat.figures.empty()) figures = beat.figures;
  EXPECT_EQ(figures.get("lend.evicted"), 1);
  EXPECT_EQ(figures.get("pressure.host"), 650);
  EXPECT_EQ(figures.get("lend.cpus"), 2200);
}

TEST(Lending, TurnedOffItTakesBackWhatItLent) {
  Pressed rig;
  AgentSettings settings;
  settings.probes = rig.probes;
  rig.step(Reload{to_text(settings)});
  EXPECT_EQ(rig.preempted().size(), 3U);
  EXPECT_TRUE(rig.lends().empty());
}

}  // namespace
}  // namespace bourse::testing
