// The envelope, the roots and the border: size, verifier, version, then values.
#include "common/wire/wire.h"

#include <cstdint>
#include <memory>

#include "common/core/hooks.h"
#include "common/wire/bodies.h"

namespace bourse::wire {
namespace {

constexpr flatbuffers::uoffset_t kTablesMax = 400'000;  // in one buffer; 10,000 agents with everything take 60,000
constexpr flatbuffers::uoffset_t kDepthMax = 64;        // tables within tables; a topology has its own, lower limit
constexpr std::size_t kKeepBytes = 256 * 1024;          // what a thread's buffers may keep between two messages

const char kTaskIdentifier[] = "BRST";
const char kSliceIdentifier[] = "BRSS";
const char kStatusIdentifier[] = "BRSU";
const char kInventoryIdentifier[] = "BRSI";

// One builder a thread, so that encoding allocates nothing but its result.
template <class Fill>
std::string build(Fill fill) {
  thread_local Builder builder(1024);
  builder.Clear();
  fill(builder);
  std::string bytes(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  if (bytes.size() > kKeepBytes) builder.Reset();
  return bytes;
}

template <class T>
std::string build_root(const T& value, const char* identifier) {
  return build([&](Builder& b) { b.Finish(write(b, value), identifier); });
}

// The verifier and the accessors need 8-byte alignment, which a network buffer does not promise.
class Aligned {
 public:
  explicit Aligned(std::string_view bytes) : data_(reinterpret_cast<const std::uint8_t*>(bytes.data())) {
    if (reinterpret_cast<std::uintptr_t>(data_) % sizeof(std::uint64_t) == 0) return;
    copy_ = std::make_unique_for_overwrite<std::uint64_t[]>(bytes.size() / sizeof(std::uint64_t) + 1);
    std::memcpy(copy_.get(), bytes.data(), bytes.size());
    data_ = reinterpret_cast<const std::uint8_t*>(copy_.get());
  }
  [[nodiscard]] const std::uint8_t* data() const { return data_; }

 private:
  const std::uint8_t* data_;
  std::unique_ptr<std::uint64_t[]> copy_;
};

Result<> check_size(std::string_view bytes, std::string_view what) {
  if (bytes.size() > kMessageBytesMax && !hooks::mutant("wire.size_unchecked")) {
    return Error(Code::kLimit, std::string(what) + ": " + std::to_string(bytes.size()) + " bytes; it may have " +
                                   std::to_string(kMessageBytesMax));
  }
  if (bytes.size() < 2 * sizeof(flatbuffers::uoffset_t)) {
    return Error(Code::kCorrupt, std::string(what) + ": " + std::to_string(bytes.size()) + " bytes are too few to be one");
  }
  return {};
}

template <class F>
const F* verify(const std::uint8_t* data, std::size_t size, const char* identifier) {
  flatbuffers::Verifier::Options options;
  options.max_depth = kDepthMax;
  options.max_tables = kTablesMax;
  options.check_nested_flatbuffers = false;
  flatbuffers::Verifier verifier(data, size, options);
  return verifier.VerifyBuffer<F>(identifier) ? flatbuffers::GetRoot<F>(data) : nullptr;
}

Error not_one(const std::uint8_t* data, const char* identifier, std::string_view what) {
  if (!flatbuffers::BufferHasIdentifier(data, identifier)) {
    return {Code::kCorrupt, std::string(what) + ": not the bytes of one (no '" + identifier + "' mark)"};
  }
  return {Code::kCorrupt, std::string(what) + ": damaged, or of more parts than one may have"};
}

template <class F, class T>
Result<T> decode_root(std::string_view bytes, const char* identifier, std::string_view what) {
  BOURSE_TRY(check_size(bytes, what));
  const Aligned aligned(bytes);
  const F* root = verify<F>(aligned.data(), bytes.size(), identifier);
  if (root == nullptr) return not_one(aligned.data(), identifier, what);
  In in(bytes.size());
  T value;
  if (!in.table() || !read(in, *root, value)) return in.error(what);
  return value;
}

// --- bodies ----------------------------------------------------------------------------------------------------------

#define BOURSE_SAME_PLACE(NAME) static_assert(std::is_same_v<Body::Member<static_cast<std::size_t>(fb::Body::NAME) - 1>, NAME>);
BOURSE_BODIES(BOURSE_SAME_PLACE)
#undef BOURSE_SAME_PLACE
static_assert(static_cast<std::size_t>(fb::Body::MAX) == Body::kCount);

#define BOURSE_UNION(NAME) \
  constexpr fb::Body union_type(const NAME& /*body*/) { return fb::Body::NAME; }
BOURSE_BODIES(BOURSE_UNION)
#undef BOURSE_UNION

template <class F, class T>
Result<> read_body(In& in, const void* table, Body& body, std::string_view name) {
  if (table == nullptr) return Error(Code::kCorrupt, std::string(name) + ": the body is missing");
  if (!in.table() || !read(in, *static_cast<const F*>(table), body.emplace<T>())) return in.error(name);
  return {};
}

}  // namespace

std::string encode(const Message& message) {
  return build([&](Builder& b) {
    const auto body = std::visit([&](const auto& value) { return write(b, value).Union(); }, message.body);
    const auto type = std::visit([](const auto& value) { return union_type(value); }, message.body);
    const auto trace = put(b, message.trace);
    fb::FinishMessageBuffer(
        b, fb::CreateMessage(b, kProtocolVersion, message.epoch.value, message.incarnation.value, trace, type, body));
  });
}

Result<Message> decode(std::string_view bytes) {
  constexpr std::string_view kWhat = "message";
  BOURSE_TRY(check_size(bytes, kWhat));
  const Aligned aligned(bytes);
  const fb::Message* root = verify<fb::Message>(aligned.data(), bytes.size(), fb::MessageIdentifier());
  if (root == nullptr) return not_one(aligned.data(), fb::MessageIdentifier(), kWhat);
  if (root->version() == 0) return Error(Code::kCorrupt, "message.version: is missing");
  if (root->version() > kProtocolVersion) {
    return Error(Code::kVersion, "the peer speaks version " + std::to_string(root->version()) + " of the protocol, this program " +
                                     std::to_string(kProtocolVersion) + ": upgrade this side first");
  }
  In in(bytes.size());
  Message message;
  message.epoch = Epoch(root->epoch());
  message.incarnation = Incarnation(root->incarnation());
  if (!in.table() || !in.text(root->trace(), message.trace, "trace")) return in.error(kWhat);
  switch (root->body_type()) {
#define BOURSE_READ(NAME)                                                              \
  case fb::Body::NAME:                                                                 \
    BOURSE_TRY((read_body<fb::NAME, NAME>(in, root->body(), message.body, "" #NAME))); \
    return message;
    BOURSE_BODIES(BOURSE_READ)
#undef BOURSE_READ
    case fb::Body::NONE:
      return Error(Code::kCorrupt, "message.body: is missing");
  }
  return Error(Code::kVersion, "the peer sent a message of kind " + std::to_string(static_cast<unsigned>(root->body_type())) +
                                   ", which this version does not know: upgrade this side first");
}

std::string encode_once(Message message, Stamp& places) {
  places = {};
  auto* view = std::get_if<ViewUpdate>(&message.body);
  auto* reply = std::get_if<StatusReply>(&message.body);
  BOURSE_ASSERT(view != nullptr || reply != nullptr, std::string(body_name(message.body)) + " has no numbers to stamp");
  // A number that has its default is not there, and has no place.
  if (view != nullptr) view->tag = 1, view->sequence = Sequence(1);
  if (reply != nullptr) reply->tag = 1;
  std::string bytes = encode(message);
  const auto* body = static_cast<const flatbuffers::Table*>(fb::GetMessage(bytes.data())->body());
  const auto place = [&](flatbuffers::voffset_t field) {
    return static_cast<std::size_t>(body->GetAddressOf(field) - reinterpret_cast<const std::uint8_t*>(bytes.data()));
  };
  const bool has_sequence = view != nullptr;
  const flatbuffers::voffset_t tag =
      has_sequence ? flatbuffers::voffset_t{fb::ViewUpdate::VT_TAG} : flatbuffers::voffset_t{fb::StatusReply::VT_TAG};
  places.tag = place(tag);
  if (has_sequence) places.sequence = place(fb::ViewUpdate::VT_SEQUENCE);
  return bytes;
}

void stamp(std::string& bytes, const Stamp& places, std::uint64_t tag, Sequence sequence) {
  const auto put_at = [&](std::size_t place, std::uint64_t number) {
    if (place == 0) return;
    BOURSE_ASSERT(place + sizeof number <= bytes.size(), "stamp: these are not the bytes that the places are of");
    const std::uint64_t little = flatbuffers::EndianScalar(number);
    std::memcpy(bytes.data() + place, &little, sizeof little);
  };
  put_at(places.tag, tag);
  put_at(places.sequence, sequence.value);
}

std::string encode_task(const TaskSpec& spec) { return build_root(spec, kTaskIdentifier); }
Result<TaskSpec> decode_task(std::string_view bytes) {
  return decode_root<fb::TaskSpec, TaskSpec>(bytes, kTaskIdentifier, "task specification");
}

std::string encode_slice(const SliceSpec& spec) { return build_root(spec, kSliceIdentifier); }
Result<SliceSpec> decode_slice(std::string_view bytes) {
  return decode_root<fb::SliceSpec, SliceSpec>(bytes, kSliceIdentifier, "slice");
}

std::string encode_status(const TaskStatus& status) { return build_root(status, kStatusIdentifier); }
Result<TaskStatus> decode_status(std::string_view bytes) {
  return decode_root<fb::TaskStatus, TaskStatus>(bytes, kStatusIdentifier, "task status");
}

std::string encode_inventory(const Inventory& inventory) { return build_root(inventory, kInventoryIdentifier); }
Result<Inventory> decode_inventory(std::string_view bytes) {
  return decode_root<fb::Inventory, Inventory>(bytes, kInventoryIdentifier, "inventory");
}

}  // namespace bourse::wire
