// CRC-32C, by the processor's instruction where it has one.
#include <array>
#include <cstring>

#include "common/world/log_file.h"

namespace bourse {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F6'3B78;  // Castagnoli, reflected

consteval std::array<std::array<std::uint32_t, 256>, 8> make_tables() {  // slicing by 8
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][i] = crc;
  }
  for (std::size_t t = 1; t < 8; ++t)
    for (std::size_t i = 0; i < 256; ++i) tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xFF];
  return tables;
}
constexpr auto kTables = make_tables();

std::uint32_t load32(const char* at) {
  const auto* b = reinterpret_cast<const unsigned char*>(at);
  return static_cast<std::uint32_t>(b[0]) | static_cast<std::uint32_t>(b[1]) << 8 | static_cast<std::uint32_t>(b[2]) << 16 |
         static_cast<std::uint32_t>(b[3]) << 24;
}

std::uint32_t by_table(std::uint32_t crc, const char* data, std::size_t size) {
  for (; size >= 8; data += 8, size -= 8) {
    const std::uint32_t low = crc ^ load32(data), high = load32(data + 4);
    crc = kTables[7][low & 0xFF] ^ kTables[6][low >> 8 & 0xFF] ^ kTables[5][low >> 16 & 0xFF] ^ kTables[4][low >> 24] ^
          kTables[3][high & 0xFF] ^ kTables[2][high >> 8 & 0xFF] ^ kTables[1][high >> 16 & 0xFF] ^ kTables[0][high >> 24];
  }
  for (; size > 0; ++data, --size) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(*data)) & 0xFF];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t crc, const char* data, std::size_t size) {
  std::uint64_t wide = crc;
  for (; size >= 8; data += 8, size -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (; size > 0; ++data, --size) crc = __builtin_ia32_crc32qi(crc, static_cast<unsigned char>(*data));
  return crc;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t seed) { return ~by_table(~seed, bytes.data(), bytes.size()); }

std::uint32_t crc32c(std::string_view bytes, std::uint32_t seed) {
#if defined(__x86_64__)
  static const bool have = __builtin_cpu_supports("sse4.2") != 0;
  if (have) return ~by_instruction(~seed, bytes.data(), bytes.size());
#endif
  return crc32c_by_table(bytes, seed);
}

}  // namespace bourse
