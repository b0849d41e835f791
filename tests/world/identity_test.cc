// Proofs of who a task's user is: what a credential binds, and that nothing else passes.
#include "common/world/identity.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/munged.h"
#include "tests/world/support.h"

namespace bourse::identity {
namespace {

using test::Munged;
using test::TempDir;

constexpr Duration kNow = std::chrono::hours(24 * 365 * 50);

Work work() {
  return {1000, 100, TaskKind::kProcess, {"sha256:00", "input"}, {"HOME=/home/ada", "PATH=/bin"}, "/home/ada", "", {}};
}

TEST(Identity, ADigestTellsApartWhateverRunsOrWithWhat) {
  const std::string one = digest_of(work());
  const auto differs = [&](auto change) {
    Work other = work();
    change(other);
    return digest_of(other) != one;
  };
  EXPECT_TRUE(differs([](Work& w) { w.uid = 0; }));
  EXPECT_TRUE(differs([](Work& w) { w.gid = 0; }));
  EXPECT_TRUE(differs([](Work& w) { w.kind = TaskKind::kContainer; }));
  EXPECT_TRUE(differs([](Work& w) { w.argv[0] = "sha256:01"; }));
  EXPECT_TRUE(differs([](Work& w) { w.argv = {"sha256:00in", "put"}; })) << "words are not run together";
  EXPECT_TRUE(differs([](Work& w) { w.argv = {"sha256:00", "input", ""}; }));
  EXPECT_TRUE(differs([](Work& w) { w.env.push_back("LD_PRELOAD=/tmp/evil.so"); }));
  EXPECT_TRUE(differs([](Work& w) { w.env.pop_back(); }));
  EXPECT_TRUE(differs([](Work& w) { w.directory = "/tmp"; }));
  EXPECT_TRUE(differs([](Work& w) { w.image = "/images/evil"; }));
  EXPECT_TRUE(differs([](Work& w) { w.mounts = {"/etc:/etc"}; }));
  EXPECT_FALSE(differs([](Work& w) {
    w.env = {"PATH=/bin", "SLURM_JOB_ID=7", "HOME=/home/ada", "BOURSE_SLICE=b#1"};
  })) << "the order of variables and what the system sets do not count";
}

TEST(Identity, ASignatureHoldsForItsWordsAndItsKeyOnly) {
  const SigningKey key = make_signing_key(), other = make_signing_key();
  const Claim claim{1000, 100, digest_of(work()), "n1", kNow};
  const auto text = sign(claim, key);
  ASSERT_TRUE(text) << text.error().text();
  const auto checked = check_signature(*text, {other.public_key, key.public_key});
  ASSERT_TRUE(checked) << checked.error().text();
  EXPECT_EQ(checked->uid, 1000U);
  EXPECT_EQ(checked->digest, claim.digest);
  EXPECT_EQ(checked->made, kNow);
  EXPECT_FALSE(check_signature(*text, {other.public_key}));
  EXPECT_FALSE(check_signature(*text, {}));
  for (std::size_t i = 0; i < text->size(); ++i) {  // no byte of it can be another
    std::string damaged = *text;
    damaged[i] = damaged[i] == '0' ? '1' : '0';
    EXPECT_FALSE(check_signature(damaged, {key.public_key})) << i;
  }
  EXPECT_FALSE(check_signature("", {key.public_key}));
  EXPECT_FALSE(check_signature("sig1:::::::", {key.public_key}));
}

// RFC 8032, section 7.1, TEST 1: the key pair.
TEST(Identity, AKeyIsTheOneOfTheStandard) {
  const TempDir dir;
  const SigningKey known{"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                         "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"};
  ASSERT_TRUE(write_signing_key(dir / "key", known));
  const auto read = read_signing_key(dir / "key");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->public_key, known.public_key);
  EXPECT_EQ(write_signing_key(dir / "key", known).error().code(), Code::kExists);
  chmod((dir / "key").c_str(), 0644);
  EXPECT_EQ(read_signing_key(dir / "key").error().code(), Code::kDenied);
}

struct Rules : testing::Test {
  TempDir dir;
  SigningKey key = make_signing_key();
  KnownClaims known;

  Result<Policy> read(const std::string& text, mode_t mode = 0644) {
    std::ofstream(dir / "rules") << text;
    chmod((dir / "rules").c_str(), mode);
    return read_policy(dir / "rules");
  }
  Policy signatures() {
    Policy policy;
    policy.proof = Proof::kSignature;
    policy.signers = {key.public_key};
    return policy;
  }
  std::string signature(const Work& w, Duration made = kNow) { return *sign({w.uid, w.gid, digest_of(w), "-", made}, key); }
};

TEST_F(Rules, AFileIsReadOrRefusedWithItsLine) {
  const auto good =
      read("# rules\nidentity = any\nsigner = " + key.public_key + "\nmax_job_age=2d\nroot_jobs = no\nmunge_socket = /run/m\n");
  ASSERT_TRUE(good) << good.error().text();
  EXPECT_EQ(good->proof, Proof::kAny);
  EXPECT_EQ(good->max_job_age, std::chrono::hours(48));
  EXPECT_FALSE(good->root_jobs);
  EXPECT_EQ(good->munge_socket, "/run/m");
  for (const char* text : {"\nidentity = maybe\n", "\nsigner = abc\n", "\nmax_job_age = soon\n", "\nroot_jobs = perhaps\n",
                           "\nnonsense\n", "\nidentiti = munge\n"}) {
    const auto bad = read(text);
    ASSERT_FALSE(bad) << text;
    EXPECT_NE(bad.error().text().find("rules:2: "), std::string::npos) << bad.error().text();
  }
  EXPECT_FALSE(read("identity = signature\n")) << "nobody could ever sign";
  EXPECT_EQ(read("identity = munge\n", 0666).error().code(), Code::kDenied);
  EXPECT_FALSE(read_policy(dir / "absent"));
}

TEST_F(Rules, ACredentialIsForItsWorkItsUserAndItsTime) {
  const Policy policy = signatures();
  const std::string credential = signature(work());
  EXPECT_TRUE(check(policy, work(), credential, kNow, known));
  EXPECT_TRUE(check(policy, work(), credential, kNow + std::chrono::hours(24 * 29), known)) << "again, from memory";
  const auto refused = [&](const Work& w, const std::string& c, Duration now, const std::string& why) {
    const auto result = check(policy, w, c, now, known);
    ASSERT_FALSE(result) << why;
    EXPECT_EQ(result.error().code(), Code::kDenied);
    EXPECT_NE(result.error().text().find(why), std::string::npos) << result.error().text();
  };
  refused(work(), "", kNow, "brings no credential");
  refused(work(), credential, kNow + std::chrono::hours(24 * 31), "older than 30d");
  refused(work(), credential, kNow - std::chrono::hours(1), "of the future");
  Work other = work();
  other.argv.push_back("more");
  refused(other, credential, kNow, "something else");
  other = work();
  other.uid = 0;
  refused(other, credential, kNow, "of uid 1000");
  refused(work(), "MUNGE:AAAA:", kNow, "signature of a framework");
}

TEST_F(Rules, TasksOfRootCanBeRefusedWhateverTheyBring) {
  Policy policy = signatures();
  Work root = work();
  root.uid = 0;
  EXPECT_TRUE(check(policy, root, signature(root), kNow, known));
  policy.root_jobs = false;
  EXPECT_FALSE(check(policy, root, signature(root), kNow, known));
  policy.proof = Proof::kNone;
  EXPECT_TRUE(check(policy, root, "", kNow, known)) << "nobody is asked for anything";
}

TEST_F(Rules, MungeSaysWhoMadeACredentialAndThatItWasSeenBeforeIsNoFault) {
  if (!Munged::installed()) GTEST_SKIP() << "munged is not installed";
  const Munged munged;
  Policy policy;
  policy.proof = Proof::kMunge;
  policy.munge_socket = munged.socket_path();
  Work mine = work();
  mine.uid = geteuid();
  mine.gid = getegid();
  const Duration now = real_time().wall;
  const auto made = munge_credential(digest_of(mine), "nonce-1", munged.socket_path());
  ASSERT_TRUE(made) << made.error().text();
  const auto claim = check_munge(*made, munged.socket_path());
  ASSERT_TRUE(claim) << claim.error().text();
  EXPECT_EQ(claim->uid, geteuid());
  EXPECT_EQ(claim->nonce, "nonce-1");
  EXPECT_TRUE(check_munge(*made, munged.socket_path())) << "a second time, as for the next task of an array";
  EXPECT_TRUE(check(policy, mine, *made, now, known));
  Work other = mine;
  other.uid = mine.uid + 1;
  EXPECT_FALSE(check(policy, other, *made, now, known)) << "nobody else's";
  other = mine;
  other.argv = {"/bin/sh"};
  EXPECT_FALSE(check(policy, other, *made, now, known)) << "nor for anything else";
  std::string damaged = *made;
  damaged[damaged.size() / 2] = damaged[damaged.size() / 2] == 'A' ? 'B' : 'A';
  EXPECT_EQ(check_munge(damaged, munged.socket_path()).error().code(), Code::kDenied);
  EXPECT_EQ(check_munge("", munged.socket_path()).error().code(), Code::kDenied);
  EXPECT_EQ(check_munge(*made, munged.socket_path() + ".nobody").error().code(), Code::kIo);
  // What MUNGE was asked for by another program proves nothing here.
  EXPECT_FALSE(check(policy, mine, *sign({mine.uid, mine.gid, digest_of(mine), "-", now}, key), now, known));
}

}  // namespace
}  // namespace bourse::identity
