#include "common/world/digest.h"

#include <openssl/evp.h>

#include "common/core/result.h"

namespace bourse {

std::string sha256_hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const int rc = EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  BOURSE_ASSERT(rc == 1 && size == 32, "libcrypto refuses SHA-256");
  std::string out;
  out.reserve(64);
  for (unsigned int i = 0; i < size; ++i) {
    out.push_back("0123456789abcdef"[digest[i] >> 4]);
    out.push_back("0123456789abcdef"[digest[i] & 15]);
  }
  return out;
}

}  // namespace bourse
