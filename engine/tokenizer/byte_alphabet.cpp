#include "engine/tokenizer/byte_alphabet.h"

#include <array>

namespace yoke::engine {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr int kMoved = 68;  ///< bytes that would be blank or invisible: U+0100 and up, in order
constexpr char32_t kSymbolsEnd = 0x100 + kMoved;

struct Alphabet {
  std::array<char32_t, 256> symbol{};
  std::array<int16_t, kSymbolsEnd> byte{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.byte) byte = -1;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t symbol = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
    alphabet.symbol[static_cast<size_t>(byte)] = symbol;
    alphabet.byte[symbol] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t byte_symbol(uint8_t byte) noexcept {
  return kAlphabet.symbol[byte];
}

bool append_bytes_of_symbols(std::string_view symbols, std::string& bytes) {
  for (size_t i = 0; i < symbols.size(); ++i) {
    const auto first = static_cast<uint8_t>(symbols[i]);
    char32_t symbol = first;
    // Every symbol lies below U+0800: longer characters stand for no byte.
    if (first >= 0xC2 && first < 0xE0 && i + 1 < symbols.size()) {
      const auto second = static_cast<uint8_t>(symbols[++i]);
      symbol = static_cast<char32_t>((first & 0x1F) << 6 | (second & 0x3F));
    } else if (first >= 0x80) {
      return false;
    }
    if (symbol >= kSymbolsEnd || kAlphabet.byte[symbol] < 0) return false;
    bytes.push_back(static_cast<char>(kAlphabet.byte[symbol]));
  }
  return true;
}

}  // namespace yoke::engine
