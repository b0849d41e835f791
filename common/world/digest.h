// SHA-256 of a string, as 64 lower-case hex digits. By libcrypto.
#pragma once

#include <string>
#include <string_view>

namespace bourse {

std::string sha256_hex(std::string_view bytes);

}  // namespace bourse
