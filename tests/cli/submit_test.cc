// submit's option grammar, directives and values, by the forms that scripts in the wild use.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "frameworks/cli/submit_options.h"

namespace bourse::cli {
namespace {

class SubmitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "bourse-submit.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    who_.user = "ann", who_.uid = 1000, who_.gid = 1000, who_.directory = dir_;
    who_.environment = {"HOME=/home/ann", "PATH=/bin", "COLOUR=blue", "SLURM_JOB_ID=1", "SUBMIT_JOB_ID=1"};
    who_.wall_now = seconds(1'800'000'000);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name) << text;
    return dir_ + "/" + name;
  }
  Result<Submission> read(std::vector<std::string> words) { return read_submission(words, who_, 4 * 1024 * 1024, "job-%j.out"); }
  Submission must(std::vector<std::string> words) {
    auto result = read(std::move(words));
    EXPECT_TRUE(result) << (result ? "" : result.error().text());
    return result ? std::move(*result) : Submission{};
  }
  std::string why(std::vector<std::string> words) {
    auto result = read(std::move(words));
    return result ? "accepted" : result.error().text();
  }

  std::string dir_;
  Submitter who_;
};

TEST_F(SubmitTest, AnOptionHasManySpellings) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--cpus-per-task=4"}, {"--cpus-per-task", "4"}, {"-c4"}, {"-c", "4"}, {"-c=4"}, {"--cpus-per=4"}}) {
    std::vector<std::string> line = words;
    line.insert(line.end(), {"--wrap", "true"});
    EXPECT_EQ(must(line).job.cpus_per_task, 4u) << words[0];
  }
  EXPECT_EQ(must({"--tasks-per-node=3", "--wrap=x"}).job.tasks_per_node, 3u);
  const Submission bundle = must({"-HQ", "--wrap=x"});
  EXPECT_TRUE(bundle.job.hold);
  EXPECT_TRUE(bundle.quiet);
}

TEST_F(SubmitTest, UnknownAndAmbiguousOptionsNameTheNearest) {
  EXPECT_EQ(why({"--mailtype=end", "--wrap=x"}), "command line: unknown option --mailtype; did you mean --mail-type?");
  EXPECT_NE(why({"--ntasks-per-no=1", "--wrap=x"}), "accepted; did you mean");
  EXPECT_NE(why({"--gpus-per=1", "--wrap=x"}).find("is ambiguous: --gpus-per-node, --gpus-per-task"), std::string::npos);
  EXPECT_NE(why({"-Y", "--wrap=x"}).find("unknown option -Y"), std::string::npos);
  EXPECT_NE(why({"--time"}).find("needs a value"), std::string::npos);
  EXPECT_NE(why({"--hold=yes", "--wrap=x"}).find("takes no value"), std::string::npos);
}

TEST_F(SubmitTest, DirectivesStopAtTheFirstCommandAndIgnoreDamagedOnes) {
  const std::string path = write("a.sh",
                                 "#!/bin/bash -l\n"
                                 "\n"
                                 "#SBATCH -J first --time=2-0   # two days\n"
                                 "##SBATCH --job-name=no\n"
                                 "# #SBATCH --job-name=no\n"
                                 "#S BATCH --job-name=no\n"
                                 "#SBATCHER --job-name=no\n"
                                 "   # an indented comment\n"
                                 "#SUBMIT --comment='a b' -c 2\n"
                                 "echo hello\n"
                                 "#SBATCH --job-name=late\n");
  const Submission s = must({path, "one", "--two"});
  EXPECT_EQ(s.job.name, "first");
  EXPECT_EQ(s.job.time_limit, std::chrono::hours(48));
  EXPECT_EQ(s.job.comment, "a b");
  EXPECT_EQ(s.job.cpus_per_task, 2u);
  EXPECT_EQ(s.job.args, (std::vector<std::string>{"one", "--two"}));
  EXPECT_EQ(s.job.script_path, path);
}

TEST_F(SubmitTest, CommandLineBeatsEnvironmentBeatsDirectives) {
  const std::string path = write("a.sh", "#!/bin/sh\n#SBATCH -J script -p script -A script --qos=script\ntrue\n");
  who_.environment.emplace_back("SBATCH_PARTITION=sbatch");
  who_.environment.emplace_back("SBATCH_ACCOUNT=sbatch");
  who_.environment.emplace_back("SBATCH_TIMELIMIT=7");
  who_.environment.emplace_back("SUBMIT_OPTIONS=--qos=own --account=own");
  const Submission s = must({"-p", "line", path});
  EXPECT_EQ(s.job.name, "script");
  EXPECT_EQ(s.job.qos, "own");
  EXPECT_EQ(s.job.account, "sbatch");
  EXPECT_EQ(s.job.partition, "line");
  EXPECT_EQ(s.job.time_limit, std::chrono::minutes(7));
}

TEST_F(SubmitTest, ADirectivesErrorNamesFileAndLine) {
  const std::string path = write("a.sh", "#!/bin/sh\n#SBATCH -J ok\n#SBATCH --ntask-per-node=2\n");
  EXPECT_EQ(why({path}), path + ":3: unknown option --ntask-per-node; did you mean --ntasks-per-node?");
  EXPECT_NE(why({write("b.sh", "#!/bin/sh\n#SBATCH --time=soon\n")}).find("b.sh:2: --time"), std::string::npos);
  EXPECT_NE(why({write("c.sh", "#!/bin/sh\n#SBATCH -J 'open\n")}).find("c.sh:2: missing closing '"), std::string::npos);
  EXPECT_NE(why({write("d.sh", "#!/bin/sh\n#SBATCH -J x stray\n")}).find("d.sh:2: `stray' is not an option"), std::string::npos);
}

TEST_F(SubmitTest, WhatIsNoScriptIsRefusedWithWhatToDo) {
  EXPECT_NE(why({write("plain", "true\n")}).find("must begin with #!"), std::string::npos);
  EXPECT_NE(why({write("binary", std::string("\x7f"
                                             "ELF\0\0",
                                             6))})
                .find("--exec"),
            std::string::npos);
  EXPECT_NE(why({write("empty", "")}).find("empty"), std::string::npos);
  EXPECT_NE(why({dir_}).find("directory"), std::string::npos);
  EXPECT_NE(why({dir_ + "/none"}).find("No such file"), std::string::npos);
  EXPECT_NE(why({write("huge", "#!/bin/sh\n" + std::string(5 * 1024 * 1024, '#'))}).find("larger than 4MiB"), std::string::npos);
}

TEST_F(SubmitTest, AVirtualMachineIsADiskOrAKernel) {
  struct utsname names {};
  ASSERT_EQ(uname(&names), 0);
  const std::string here = std::string(",arch=") + names.machine;
  EXPECT_EQ(must({"--wrap=x"}).job.vm, "");
  EXPECT_EQ(must({"--vm=/images/a.qcow2", "--wrap=x"}).job.vm, "disk=/images/a.qcow2" + here);
  EXPECT_EQ(must({"--vm=vmlinuz", "--vm-initrd=sub/initrd", "--wrap=x"}).job.vm,
            "kernel=" + who_.directory + "/vmlinuz,initrd=" + who_.directory + "/sub/initrd" + here);
  EXPECT_EQ(must({"--vm=/k", "--vm-disk=/d", "--vm-arch=aarch64", "--vm-append=quiet a=1,2", "--wrap=x"}).job.vm,
            "kernel=/k,disk=/d,arch=aarch64,append=quiet a=1,2");
  EXPECT_NE(why({"--vm-initrd=/i", "--wrap=x"}).find("go with --vm"), std::string::npos);
  EXPECT_NE(why({"--vm=/a,b", "--wrap=x"}).find("comma"), std::string::npos);
  EXPECT_NE(why({"--vm=/d", "--vm-append=quiet", "--wrap=x"}).find("appended to a kernel only"), std::string::npos);
}

// The forms of Slurm's manual, sbatch(1), --time and --mem.
TEST_F(SubmitTest, TimeAndMemoryForms) {
  const auto time = [&](const char* text) { return must({"-t", text, "--wrap=x"}).job.time_limit; };
  EXPECT_EQ(time("20"), std::chrono::minutes(20));
  EXPECT_EQ(time("10:30"), seconds(630));
  EXPECT_EQ(time("20:00:00"), std::chrono::hours(20));
  EXPECT_EQ(time("0-01:00:00"), std::chrono::hours(1));
  EXPECT_EQ(time("2-0"), std::chrono::hours(48));
  EXPECT_EQ(time("1-2:3"), std::chrono::hours(26) + std::chrono::minutes(3));
  EXPECT_EQ(time("UNLIMITED"), kNoLimit);
  EXPECT_EQ(time("0"), kNoLimit);
  const auto mem = [&](const char* text) { return must({"--mem", text, "--wrap=x"}).job.mem_per_node; };
  EXPECT_EQ(mem("8000"), 8000LL << 20);
  EXPECT_EQ(mem("32G"), 32LL << 30);
  EXPECT_EQ(mem("20g"), 20LL << 30);
  EXPECT_EQ(mem("2gb"), 2LL << 30);
  EXPECT_EQ(mem("64Gb"), 64LL << 30);
  EXPECT_EQ(mem("0"), 0);
  EXPECT_EQ(must({"--mem-per-cpu=1g", "--wrap=x"}).job.mem_per_cpu, 1LL << 30);
}

TEST_F(SubmitTest, SignalForms) {
  const batch::JobSpec a = must({"--signal=B:USR1@120", "--wrap=x"}).job;
  EXPECT_EQ(a.warn_signal, SIGUSR1);
  EXPECT_TRUE(a.warn_shell_only);
  EXPECT_EQ(a.warn_before, seconds(120));
  const batch::JobSpec b = must({"--signal=SIGTERM", "--wrap=x"}).job;
  EXPECT_EQ(b.warn_signal, SIGTERM);
  EXPECT_FALSE(b.warn_shell_only);
  EXPECT_EQ(b.warn_before, seconds(60));  // sbatch(1): the default is 60 seconds
  EXPECT_EQ(must({"--signal=10@5", "--wrap=x"}).job.warn_signal, 10);
  EXPECT_NE(why({"--signal=USR9", "--wrap=x"}).find("no signal `USR9'"), std::string::npos);
}

TEST_F(SubmitTest, ConstraintsAndPlacement) {
  EXPECT_EQ(to_text(must({"-C", "a&b|!c", "--wrap=x"}).job.constraints), "a&b|!c");
  EXPECT_NE(why({"-C", "zone in a", "--wrap=x"}).find("column 9"), std::string::npos);
  EXPECT_NE(why({"-C", "[a*2&b*1]", "--wrap=x"}).find("brackets"), std::string::npos);
  const auto rules = [&](std::vector<std::string> words) {
    words.emplace_back("--wrap=x");
    return to_text(must(words).job.placement);
  };
  EXPECT_EQ(rules({"--placement", "pack rack; anti-affinity host of store#db"}), "pack rack; anti-affinity host of store#db");
  EXPECT_EQ(rules({"--spread=zone:2", "--spread-job"}), "spread zone:2; prefer spread host");
  EXPECT_EQ(rules({"--spread=zone:2", "--spread=zone"}), "spread zone") << "the later one counts";
  EXPECT_EQ(rules({"--switches=1"}), "pack rack");
  EXPECT_EQ(rules({"--switches=2"}), "prefer pack rack");
  EXPECT_EQ(rules({"--switches=1@60"}), "prefer pack rack");
  EXPECT_NE(why({"--switches=x", "--wrap=x"}), "accepted");
  EXPECT_NE(why({"--spread=zone:x", "--wrap=x"}).find("spread zone:2"), std::string::npos);
}

TEST_F(SubmitTest, ContainersAndIsolation) {
  const batch::JobSpec job = must({"--container=images/tiny:v1", "--container-mounts=/data,/scratch:/s:ro",
                                   "--isolate=pid,private-tmp=memory", "--wrap=x"})
                                 .job;
  EXPECT_EQ(job.container, job.submit_dir + "/images/tiny:v1");
  EXPECT_EQ(job.container_mounts, (std::vector<std::string>{"/data", "/scratch:/s:ro"}));
  EXPECT_EQ(job.isolate, (std::vector<std::string>{"pid", "private-tmp=memory"}));
  EXPECT_TRUE(must({"--wrap=x"}).job.container.empty());
  EXPECT_NE(why({"--container-mounts=/a", "--wrap=x"}).find("--container-mounts needs --container"), std::string::npos);
  EXPECT_NE(why({"--container=/i", "--container-mounts=a", "--wrap=x"}).find("`a': an absolute path is meant"), std::string::npos);
  EXPECT_NE(why({"--isolate=pid,chroot", "--wrap=x"}).find("`chroot' is not a kind of isolation: there are private-tmp,"),
            std::string::npos);
}

TEST_F(SubmitTest, ExportForms) {
  const auto has = [](const batch::JobSpec& job, const std::string& variable) {
    return std::find(job.env.begin(), job.env.end(), variable) != job.env.end();
  };
  const batch::JobSpec all = must({"--wrap=x"}).job;
  EXPECT_TRUE(has(all, "COLOUR=blue"));
  EXPECT_FALSE(has(all, "SLURM_JOB_ID=1")) << "an outer job's variables must not lie to the inner job";
  const batch::JobSpec none = must({"--export=NONE", "--wrap=x"}).job;
  EXPECT_FALSE(has(none, "COLOUR=blue"));
  EXPECT_TRUE(has(none, "PATH=/bin"));
  const batch::JobSpec some = must({"--export=COLOUR,N=2,MISSING", "--wrap=x"}).job;
  EXPECT_TRUE(has(some, "COLOUR=blue"));
  EXPECT_TRUE(has(some, "N=2"));
  const batch::JobSpec more = must({"--export=ALL,COLOUR=red", "--wrap=x"}).job;
  EXPECT_TRUE(has(more, "COLOUR=red"));
  EXPECT_FALSE(has(more, "COLOUR=blue"));
}

TEST_F(SubmitTest, DeviceForms) {
  const batch::JobSpec a = must({"--gres=gpu:V100:4", "--wrap=x"}).job;
  ASSERT_EQ(a.devices_per_node.size(), 1u);
  EXPECT_EQ(a.devices_per_node[0].kind, "gpu/");
  EXPECT_EQ(a.devices_per_node[0].count, 4u);
  ASSERT_EQ(a.devices_per_node[0].attributes.size(), 1u);
  EXPECT_EQ(a.devices_per_node[0].attributes[0].values, (std::vector<std::string>{"V100", "v100"}));
  const batch::JobSpec part = must({"--gres=npu/ascend{npu.compute=4,npu.control=1,mem=5GiB}:2,fpga:1", "--wrap=x"}).job;
  ASSERT_EQ(part.devices_per_node.size(), 2u);
  EXPECT_FALSE(part.devices_per_node[0].whole);
  EXPECT_EQ(part.devices_per_node[0].count, 2u);
  EXPECT_EQ(part.devices_per_node[0].counters.get("npu.compute"), 4);
  EXPECT_EQ(part.devices_per_node[0].counters.get("mem"), 5120);
  EXPECT_TRUE(part.devices_per_node[1].whole);
  EXPECT_EQ(must({"--gres=npu/ascend{profile=vir02}", "--wrap=x"}).job.devices_per_node[0].profile, "vir02");
  EXPECT_EQ(must({"--gpus=a100:2", "--wrap=x"}).job.gpu_kind, "gpu/:a100");
  EXPECT_NE(why({"--gres=npu{mem=1}x{", "--wrap=x"}), "");
  EXPECT_NE(why({"--gres=npu{mem=1KiB}:1", "--wrap=x"}).find("whole MiB"), std::string::npos);
  EXPECT_NE(why({"--gres=npu{compute}:1", "--wrap=x"}).find("COUNTER=AMOUNT"), std::string::npos);
  EXPECT_EQ(must({"--gres=gpu", "--wrap=x"}).job.devices_per_node[0].count, 1u);
  EXPECT_EQ(must({"--gpus-per-node=2", "--wrap=x"}).job.devices_per_node[0].count, 2u);
  EXPECT_EQ(must({"-G", "8", "--wrap=x"}).job.gpus, 8u);
  EXPECT_EQ(must({"--gpus-per-task=1", "--wrap=x"}).job.gpus_per_task, 1u);
  EXPECT_NE(why({"--gres=gpu:0", "--wrap=x"}).find("not a number"), std::string::npos);
}

TEST_F(SubmitTest, NamesAndDefaultOutput) {
  EXPECT_EQ(must({write("train.sh", "#!/bin/sh\n")}).job.name, "train.sh");
  EXPECT_EQ(must({"--wrap=x"}).job.name, "wrap");
  EXPECT_EQ(must({"--exec", "/bin/echo", "-n", "a"}).job.name, "echo");
  EXPECT_EQ(must({"--exec", "/bin/echo", "-n", "a"}).job.args, (std::vector<std::string>{"/bin/echo", "-n", "a"}));
  EXPECT_EQ(must({"--wrap=x"}).job.stdout_path, "job-%j.out");
  EXPECT_EQ(must({"--array=1-3", "--wrap=x"}).job.stdout_path, "job-%A_%a.out");
  EXPECT_EQ(must({"-o", "x-%j", "--array=1-3", "--wrap=x"}).job.stdout_path, "x-%j");
}

TEST_F(SubmitTest, MissingPlacesAreFoundBeforeTheJobFails) {
  EXPECT_NE(why({"-D", dir_ + "/none", "--wrap=x"}).find("working directory"), std::string::npos);
  EXPECT_NE(why({"-o", "none/x.out", "--wrap=x"}).find("output directory"), std::string::npos);
  EXPECT_NE(why({"-e", dir_ + "/none/%j", "--wrap=x"}).find("output directory"), std::string::npos);
  EXPECT_NE(why({"-i", "none", "--wrap=x"}).find("input file"), std::string::npos);
  EXPECT_EQ(why({"-o", "%x/%j.out", "--wrap=x"}), "accepted") << "a directory that depends on the job cannot be judged yet";
}

TEST_F(SubmitTest, BeginForms) {
  const auto begin = [&](const char* text) { return must({"-b", text, "--wrap=x"}).job.begin; };
  EXPECT_EQ(begin("now"), who_.wall_now);
  EXPECT_EQ(begin("now+1hour"), who_.wall_now + std::chrono::hours(1));
  EXPECT_EQ(begin("now+90"), who_.wall_now + seconds(90));
  EXPECT_EQ(begin("now+2days"), who_.wall_now + std::chrono::hours(48));
  EXPECT_GT(begin("16:00"), who_.wall_now);
  EXPECT_LE(begin("16:00"), who_.wall_now + std::chrono::hours(25));
  EXPECT_EQ(begin("2030-01-02T03:04") - begin("2030-01-02"), std::chrono::hours(3) + std::chrono::minutes(4));
  EXPECT_NE(why({"-b", "someday", "--wrap=x"}).find("is no time"), std::string::npos);
  EXPECT_NE(why({"-b", "2030-13-01", "--wrap=x"}).find("is no time"), std::string::npos);
}

TEST_F(SubmitTest, BadListsAreRefusedHere) {
  EXPECT_NE(why({"--array=x", "--wrap=x"}), "accepted");
  EXPECT_NE(why({"--array=SRR123", "--wrap=x"}), "accepted");
  EXPECT_NE(why({"-w", "h[1-", "--wrap=x"}), "accepted");
  EXPECT_NE(why({"-d", "sometime:1", "--wrap=x"}), "accepted");
  EXPECT_NE(why({"-N", "4-2", "--wrap=x"}), "accepted");
  EXPECT_NE(why({"-n", "-1", "--wrap=x"}), "accepted");
}

TEST_F(SubmitTest, OptionsWithoutEffectAreAcceptedAndTold) {
  const Submission s = must({"--hint=nomultithread", "--overcommit", "--contiguous", "--wrap=x"});
  EXPECT_EQ(s.ignored.size(), 3u);
}

}  // namespace
}  // namespace bourse::cli
