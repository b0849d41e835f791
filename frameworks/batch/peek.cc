#include "frameworks/batch/peek.h"

#include <batch_generated.h>

namespace bourse::batch {

bool may_ask_the_past(std::string_view request) {
  using Request = batchfb::Request;
  // Only the table at the root is verified, and only as far as it is read.
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(request.data());
  flatbuffers::Verifier verifier(bytes, request.size());
  if (request.size() < 8) return false;
  const flatbuffers::uoffset_t root = verifier.VerifyOffset(0);
  if (root == 0) return false;
  const auto* table = reinterpret_cast<const flatbuffers::Table*>(bytes + root);
  if (!table->VerifyTableStart(verifier) || !table->VerifyField<std::uint8_t>(verifier, Request::VT_BODY_TYPE, 1)) return false;
  switch (static_cast<batchfb::RequestBody>(table->GetField<std::uint8_t>(Request::VT_BODY_TYPE, 0))) {
    case batchfb::RequestBody::Job:
    case batchfb::RequestBody::History:
    case batchfb::RequestBody::Why:
      return true;
    default:
      return false;
  }
}

}  // namespace bourse::batch
