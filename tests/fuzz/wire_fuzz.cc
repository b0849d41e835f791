// Any bytes are refused, or are a message that survives being encoded and decoded again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/wire/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bourse;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto message = wire::decode(bytes)) {
    const auto again = wire::decode(wire::encode(*message));
    if (!again || !(*again == *message)) std::abort();
  }
  if (const auto task = wire::decode_task(bytes)) {
    const auto again = wire::decode_task(wire::encode_task(*task));
    if (!again || !(*again == *task)) std::abort();
  }
  if (const auto slice = wire::decode_slice(bytes)) {
    const auto again = wire::decode_slice(wire::encode_slice(*slice));
    if (!again || !(*again == *slice)) std::abort();
  }
  if (const auto status = wire::decode_status(bytes)) {
    const auto again = wire::decode_status(wire::encode_status(*status));
    if (!again || !(*again == *status)) std::abort();
  }
  if (const auto inventory = wire::decode_inventory(bytes)) {
    const auto again = wire::decode_inventory(wire::encode_inventory(*inventory));
    if (!again || !(*again == *inventory)) std::abort();
  }
  return 0;
}
