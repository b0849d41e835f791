// What a submit's credential has to be, before its job is taken in.
#include "frameworks/batch/proof.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/world/reactor.h"
#include "tests/support/munged.h"

namespace bourse::batch {
namespace {

using test::Munged;

SubmitRequest request() {
  SubmitRequest out;
  JobSpec spec;
  spec.script = "#!/bin/sh\necho hello\n";
  spec.args = {"one"};
  spec.env = {"HOME=/home/ada", "SLURM_JOB_ID=7"};
  spec.directory = "/home/ada";
  out.items.push_back({"host.1.2", spec});
  return out;
}

std::string refusal(const std::optional<ReplyBody>& reply) {
  const auto* submit = reply ? std::get_if<SubmitReply>(&*reply) : nullptr;
  return submit == nullptr || submit->items.empty() ? "" : submit->items[0].reason;
}

TEST(Proof, ACredentialIsOfItsUserForItsJobAndItsRequest) {
  if (!Munged::installed()) GTEST_SKIP() << "munged is not installed";
  const Munged munged;
  const auto config = Config::read("", {"batch.identity=munge", "cluster.munge_socket=" + munged.socket_path()});
  ASSERT_TRUE(config) << config.error().text();
  const auto gate = ProofGate::open(*config, "/nowhere");
  ASSERT_TRUE(gate) << gate.error().text();
  ASSERT_TRUE(gate->judges());
  const Duration now = real_time().wall;
  const auto judge = [&](const SubmitRequest& r, std::int64_t uid = -1, Duration at = Duration(0)) {
    std::int64_t gid = -1;
    return gate->judge(RequestBody(r), uid, gid, now + at);
  };
  SubmitRequest r = request();
  EXPECT_EQ(refusal(judge(r)), kCredentialNeeded);
  const auto made = identity::munge_credential(identity::digest_of(work_of(r.items[0].spec, geteuid(), getegid())), r.items[0].key,
                                               munged.socket_path());
  ASSERT_TRUE(made) << made.error().text();
  r.items[0].spec.credential = *made;
  std::int64_t uid = -1, gid = -1;
  ASSERT_FALSE(gate->judge(RequestBody(r), uid, gid, now)) << "taken";
  EXPECT_EQ(uid, static_cast<std::int64_t>(geteuid())) << "and it says whose it is, also from another host";
  EXPECT_FALSE(judge(r)) << "the same request again is the same job";
  SubmitRequest other = r;
  other.items[0].key = "host.1.3";
  EXPECT_NE(refusal(judge(other)).find("another request"), std::string::npos) << "overheard and said again under another key";
  other = r;
  other.items[0].spec.args = {"two"};
  EXPECT_NE(refusal(judge(other)).find("not for what is asked"), std::string::npos);
  other = r;
  other.items[0].spec.uid = 4711;
  EXPECT_NE(refusal(judge(other)).find("another user"), std::string::npos);
  EXPECT_NE(refusal(judge(r, 4711)).find("the connection of uid 4711"), std::string::npos);
  EXPECT_NE(refusal(judge(r, -1, seconds(1000))).find("too old"), std::string::npos);
  EXPECT_NE(refusal(judge(r, -1, -seconds(1000))).find("of the future"), std::string::npos);
}

TEST(Proof, WhatBatchSignsItsTasksCarryAndOnlyThese) {
  const identity::SigningKey key = identity::make_signing_key();
  const std::string path = "/tmp/bourse-sign-" + std::to_string(getpid());
  ASSERT_TRUE(identity::write_signing_key(path, key));
  const auto config = Config::read("", {"batch.identity=signed", "batch.signing_key=" + path});
  ASSERT_TRUE(config);
  auto gate = ProofGate::open(*config, "/nowhere");
  unlink(path.c_str());
  unlink((path + ".pub").c_str());
  ASSERT_TRUE(gate) << gate.error().text();
  TaskSpec task;
  task.uid = 1000, task.gid = 100;
  task.argv = {"{artifact:script}", "one"};
  task.artifacts.push_back({"script", "sha256:00", "", ""});
  task.env = {"HOME=/home/ada", "SLURM_JOB_ID=7"};
  const Duration now = std::chrono::hours(24 * 365 * 50);
  const std::string credential = gate->prove(task, now);
  const auto claim = identity::check_signature(credential, {key.public_key});
  ASSERT_TRUE(claim) << claim.error().text();
  EXPECT_EQ(claim->uid, 1000U);
  EXPECT_EQ(claim->digest, identity::digest_of(identity::work_of(task)));
  task.env = {"SLURM_JOB_ID=8", "HOME=/home/ada"};
  EXPECT_EQ(gate->prove(task, now + seconds(1)), credential) << "an array's tasks share one";
  task.argv[1] = "two";
  EXPECT_NE(gate->prove(task, now + seconds(1)), credential);
}

TEST(Proof, WithoutBothNothingIsAskedFor) {
  const auto config = Config::read("", {});
  ASSERT_TRUE(config);
  auto gate = ProofGate::open(*config, "/nowhere");
  ASSERT_TRUE(gate);
  std::int64_t uid = 7, gid = 7;
  EXPECT_FALSE(gate->judge(RequestBody(request()), uid, gid, Duration(0)));
  EXPECT_EQ(gate->prove(TaskSpec{}, Duration(0)), "");
  const auto signed_config = Config::read("", {"batch.identity=signed"});
  EXPECT_FALSE(ProofGate::open(*signed_config, "/nowhere")) << "no key to sign with";
}

}  // namespace
}  // namespace bourse::batch
