// What is encoded comes back as it was, and damaged bytes never do harm.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>

#include "common/wire/wire.h"
#include "tests/wire/samples.h"

namespace bourse::test {
namespace {

// Exactly `bytes` on the heap, so that a sanitizer sees the first byte read beyond them.
class Exact {
 public:
  explicit Exact(std::string_view bytes) : size_(bytes.size()), data_(new char[bytes.size()]) {
    if (size_ > 0) std::memcpy(data_.get(), bytes.data(), size_);
  }
  [[nodiscard]] std::string_view view() const { return {data_.get(), size_}; }

 private:
  std::size_t size_;
  std::unique_ptr<char[]> data_;
};

TEST(RoundTrip, WhatIsEncodedOnceIsStampedForEach) {
  for (const Body& body :
       {Body(ViewUpdate{3, Sequence(4), "agents", true, true, {{"h7", {{"state", "up"}}}}, {"h8"}, Code::kOk, ""}),
        Body(StatusReply{3, Code::kOk, "", {{"h7", {}}}, true})}) {
    Message message{Epoch(7), Incarnation(8), "", body};
    wire::Stamp places;
    std::string bytes = wire::encode_once(message, places);
    for (const std::uint64_t tag : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 40, UINT64_MAX}) {
      wire::stamp(bytes, places, tag, Sequence(tag / 2));
      if (auto* view = std::get_if<ViewUpdate>(&message.body)) view->tag = tag, view->sequence = Sequence(tag / 2);
      if (auto* reply = std::get_if<StatusReply>(&message.body)) reply->tag = tag;
      const auto decoded = wire::decode(bytes);
      ASSERT_TRUE(decoded) << decoded.error().text();
      EXPECT_TRUE(*decoded == message) << tag;
    }
  }
}

TEST(Roundtrip, EveryBodyWithEveryFieldSet) {
  std::set<std::size_t> kinds;
  for (const auto& [name, message] : samples()) {
    const auto decoded = wire::decode(wire::encode(message));
    ASSERT_TRUE(decoded) << name << ": " << decoded.error().text();
    EXPECT_TRUE(*decoded == message) << name;
    kinds.insert(message.body.index());
  }
  EXPECT_EQ(kinds.size(), Body::kCount) << "a body has no sample";
}

TEST(Roundtrip, PartsForPayloadsAndCheckpoints) {
  const auto task = wire::decode_task(wire::encode_task(sample_task()));
  ASSERT_TRUE(task) << task.error().text();
  EXPECT_TRUE(*task == sample_task());
  const auto plain = wire::decode_task(wire::encode_task({}));
  ASSERT_TRUE(plain) << plain.error().text();
  EXPECT_TRUE(*plain == TaskSpec{});
  const auto slice = wire::decode_slice(wire::encode_slice(sample_slice()));
  ASSERT_TRUE(slice) << slice.error().text();
  EXPECT_TRUE(*slice == sample_slice());
  const auto status = wire::decode_status(wire::encode_status(sample_status()));
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_TRUE(*status == sample_status());
  const auto inventory = wire::decode_inventory(wire::encode_inventory(sample_inventory()));
  ASSERT_TRUE(inventory) << inventory.error().text();
  EXPECT_TRUE(*inventory == sample_inventory());
}

TEST(Roundtrip, RandomMessages) {
  std::set<std::size_t> kinds;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    Rng rng(seed);
    const Message message = random_message(rng);
    const auto decoded = wire::decode(wire::encode(message));
    ASSERT_TRUE(decoded) << "seed " << seed << ": " << decoded.error().text();
    ASSERT_TRUE(*decoded == message) << "seed " << seed << ", " << body_name(message.body);
    kinds.insert(message.body.index());
    const TaskSpec task = random_task(rng);
    const auto spec = wire::decode_task(wire::encode_task(task));
    ASSERT_TRUE(spec) << "seed " << seed << ": " << spec.error().text();
    ASSERT_TRUE(*spec == task) << "seed " << seed;
  }
  EXPECT_EQ(kinds.size(), Body::kCount);
}

TEST(Roundtrip, EqualMessagesHaveEqualBytes) {  // the simulator hashes them
  for (const auto& [name, message] : samples()) EXPECT_EQ(wire::encode(message), wire::encode(Message(message))) << name;
}

TEST(Roundtrip, AnyAlignmentOfTheBuffer) {
  const Message message = samples().front().second;
  const std::string bytes = wire::encode(message);
  for (std::size_t shift = 0; shift < 9; ++shift) {
    const std::string room = std::string(shift, 'x') + bytes;
    const auto decoded = wire::decode(std::string_view(room).substr(shift));
    ASSERT_TRUE(decoded) << shift << ": " << decoded.error().text();
    EXPECT_TRUE(*decoded == message) << shift;
  }
}

TEST(Roundtrip, APayloadOfMegabytesIsCarriedWhole) {
  Rng rng(8);
  std::string payload(7 * 1024 * 1024, '\0');
  for (char& c : payload) c = static_cast<char>(rng.next());
  const Message message{Epoch(1), Incarnation(1), "", Launch{AgentId("a"), {FrameworkId("f"), 1}, TaskId("t"), payload}};
  const auto decoded = wire::decode(wire::encode(message));
  ASSERT_TRUE(decoded) << decoded.error().text();
  EXPECT_TRUE(*decoded == message);
  const auto after = wire::decode(wire::encode(samples().front().second));  // the thread's builder has shrunk again
  EXPECT_TRUE(after && *after == samples().front().second);
}

TEST(Damage, TruncationAtEveryLengthIsRefused) {
  for (const auto& [name, message] : samples()) {
    const std::string bytes = wire::encode(message);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      const Exact cut(std::string_view(bytes).substr(0, length));
      const auto decoded = wire::decode(cut.view());
      // Only padding may be missing without harm.
      EXPECT_TRUE(!decoded || *decoded == message) << name << " cut to " << length;
    }
    EXPECT_FALSE(wire::decode(std::string_view(bytes).substr(0, bytes.size() / 2))) << name;
  }
}

// A message that was accepted is one that we could have sent: it comes back from its own encoding.
void expect_sound(const Result<Message>& decoded, const std::string& where) {
  if (!decoded) {
    EXPECT_FALSE(decoded.error().text().empty()) << where;
    return;
  }
  const auto again = wire::decode(wire::encode(*decoded));
  ASSERT_TRUE(again) << where << ": " << again.error().text();
  EXPECT_TRUE(*again == *decoded) << where;
}

TEST(Damage, EverySingleByteChangedGivesAnErrorOrAMessage) {
  for (const auto& [name, message] : samples()) {
    const std::string bytes = wire::encode(message);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      for (const unsigned change : {0x01U, 0x10U, 0x80U, 0xffU}) {
        std::string damaged = bytes;
        damaged[i] = static_cast<char>(static_cast<unsigned char>(damaged[i]) ^ change);
        expect_sound(wire::decode(Exact(damaged).view()), name);
      }
    }
  }
}

std::string mutate(Rng& rng, std::string bytes, const std::vector<std::string>& others) {
  for (std::uint64_t n = 1 + rng.below(4); n > 0; --n) {
    const std::size_t size = bytes.size();
    if (size < 8) return bytes;
    const std::size_t at = rng.below(size);
    switch (rng.below(8)) {
      case 0:
        bytes[at] = static_cast<char>(rng.next());
        break;
      case 1:
        bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ (1U << rng.below(8)));
        break;
      case 2:
        bytes[at] = static_cast<char>(bytes[at] + (rng.chance(500) ? 1 : -1));
        break;
      case 3: {  // a word: offsets, lengths and amounts
        static constexpr std::uint32_t kWords[] = {0, 1, 4, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffc, 200'001};
        const std::uint32_t word = rng.chance(500) ? kWords[rng.below(8)] : static_cast<std::uint32_t>(rng.below(size));
        if (at / 4 * 4 + 4 <= size) std::memcpy(&bytes[at / 4 * 4], &word, 4);
        break;
      }
      case 4:
        bytes.resize(rng.below(size));
        break;
      case 5:
        bytes.append(rng.below(64), static_cast<char>(rng.next()));
        break;
      case 6: {  // one part over another
        const std::size_t length = 1 + rng.below(std::min<std::size_t>(32, size - at));
        const std::size_t from = rng.below(size - length + 1);
        std::memmove(&bytes[at], &bytes[from], length);
        break;
      }
      default: {
        const std::string& other = others[rng.below(others.size())];
        bytes = bytes.substr(0, at) + other.substr(std::min(at, other.size()));
      }
    }
  }
  return bytes;
}

TEST(Damage, TwoHundredThousandMutationsDoNoHarm) {
  std::vector<std::string> encoded;
  for (const auto& [name, message] : samples()) encoded.push_back(wire::encode(message));
  Rng rng(20240229);
  std::size_t accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    const Exact damaged(mutate(rng, encoded[rng.below(encoded.size())], encoded));
    const auto decoded = wire::decode(damaged.view());
    if (!decoded) continue;
    ++accepted;
    if (accepted % 4 == 0) expect_sound(decoded, "mutation " + std::to_string(i));
  }
  // Both ways out were taken, often: else this has tested nothing.
  EXPECT_GT(accepted, 5'000U);
  EXPECT_LT(accepted, 150'000U);
}

TEST(Damage, PartsOfCheckpointsMutatedDoNoHarm) {
  const std::vector<std::string> encoded = {wire::encode_task(sample_task()), wire::encode_slice(sample_slice()),
                                            wire::encode_status(sample_status()), wire::encode_inventory(sample_inventory())};
  Rng rng(7);
  for (int i = 0; i < 20'000; ++i) {
    const Exact damaged(mutate(rng, encoded[rng.below(encoded.size())], encoded));
    if (const auto task = wire::decode_task(damaged.view())) {
      const auto again = wire::decode_task(wire::encode_task(*task));
      ASSERT_TRUE(again && *again == *task) << i;
    }
    if (const auto slice = wire::decode_slice(damaged.view())) {
      const auto again = wire::decode_slice(wire::encode_slice(*slice));
      ASSERT_TRUE(again && *again == *slice) << i;
    }
    (void)wire::decode_status(damaged.view());
    if (const auto inventory = wire::decode_inventory(damaged.view())) {
      const auto again = wire::decode_inventory(wire::encode_inventory(*inventory));
      ASSERT_TRUE(again && *again == *inventory) << i;
    }
  }
}

}  // namespace
}  // namespace bourse::test
