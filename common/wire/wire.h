// Bytes on the wire: FlatBuffers behind two functions. FlatBuffers' types stop at this border and never become domain objects.
//
// decode verifies the whole buffer and every limit below before the first field is read; what it returns can be trusted as
// well-formed (names valid, amounts not negative, enums known, lists bounded), not as truthful.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/core/inventory.h"
#include "common/core/messages.h"
#include "common/core/result.h"

namespace bourse::wire {

constexpr std::size_t kMessageBytesMax = 8 * 1024 * 1024;  // larger things travel in chunks, or by artifact
constexpr std::size_t kListMax = 200'000;                  // elements of any one list
constexpr std::size_t kTextBytesMax = 64 * 1024;           // any one string that is not a payload
constexpr std::size_t kTopologyDepthMax = 16;

std::string encode(const Message& message);
Result<Message> decode(std::string_view bytes);  // kCorrupt, kLimit; kVersion for a schema we do not know

// A ViewUpdate or StatusReply that goes to many, with another tag (and sequence) to each: encoded once, and stamped in each copy.
struct Stamp {
  std::size_t tag = 0, sequence = 0;  // where in the bytes; 0: it has none
};
std::string encode_once(Message message, Stamp& places);
void stamp(std::string& bytes, const Stamp& places, std::uint64_t tag, Sequence sequence = {});

std::string encode_task(const TaskSpec& spec);  // Launch.payload
Result<TaskSpec> decode_task(std::string_view bytes);

// For checkpoints: the same encodings, without an envelope.
std::string encode_slice(const SliceSpec& spec);
Result<SliceSpec> decode_slice(std::string_view bytes);
std::string encode_status(const TaskStatus& status);
Result<TaskStatus> decode_status(std::string_view bytes);
std::string encode_inventory(const Inventory& inventory);
Result<Inventory> decode_inventory(std::string_view bytes);

}  // namespace bourse::wire
