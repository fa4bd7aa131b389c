#include "engine/tokenizer/utf8.h"

#include <cstdint>
#include <cstring>

namespace yoke::engine {
namespace {

uint8_t byte_at(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}

struct Lead {
  size_t length = 0;                ///< of the whole character; 0: no character begins so
  uint8_t low = 0x80, high = 0xBF;  ///< allowed second byte
};

// Table 3-7 of the Unicode standard: the second byte excludes overlong forms, surrogates and what
// lies beyond U+10FFFF.
Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

// How many of the next 8 bytes can be skipped at once: 8 if all are ASCII.
bool eight_ascii(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return (word & 0x8080808080808080u) == 0;
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes) noexcept {
  using Kind = Utf8Step::Kind;
  const Lead lead = lead_of(byte_at(bytes, 0));
  if (lead.length == 0) return {Kind::invalid, 1};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Kind::incomplete, i};
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte_at(bytes, i) < low || byte_at(bytes, i) > high) return {Kind::invalid, i};
  }
  return {Kind::character, lead.length};
}

size_t utf8_valid_prefix(std::string_view text) noexcept {
  size_t at = 0;
  while (at < text.size()) {
    if (at + 8 <= text.size() && eight_ascii(text.data() + at)) {
      at += 8;
      continue;
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind != Utf8Step::Kind::character) return at;
    at += step.bytes;
  }
  return at;
}

}  // namespace yoke::engine
