#include "engine/json/utf8.h"

namespace yoke::engine {
namespace {

uint8_t byte_at(std::string_view text, size_t at) noexcept {
  return static_cast<uint8_t>(text[at]);
}

bool continues(std::string_view text, size_t at) noexcept {
  return at < text.size() && (byte_at(text, at) & 0xC0) == 0x80;
}

}  // namespace

size_t utf8_length(std::string_view text, size_t at) noexcept {
  if (at >= text.size()) return 0;
  const uint8_t lead = byte_at(text, at);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4 || !continues(text, at + 1)) return 0;
  const uint8_t second = byte_at(text, at + 1);
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) {
    const bool overlong = lead == 0xE0 && second < 0xA0;
    const bool surrogate = lead == 0xED && second > 0x9F;
    return !overlong && !surrogate && continues(text, at + 2) ? 3 : 0;
  }
  const bool overlong = lead == 0xF0 && second < 0x90;
  const bool too_large = lead == 0xF4 && second > 0x8F;
  return !overlong && !too_large && continues(text, at + 2) && continues(text, at + 3) ? 4 : 0;
}

char32_t utf8_decode(std::string_view text, size_t at, size_t length) noexcept {
  const uint8_t lead = byte_at(text, at);
  if (length == 1) return lead;
  char32_t character = lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) character = character << 6 | (byte_at(text, at + i) & 0x3Fu);
  return character;
}

void append_utf8(std::string& out, char32_t character) {
  const auto tail = [&](int shift) {
    out += static_cast<char>(0x80 | (character >> shift & 0x3F));
  };
  if (character < 0x80) {
    out += static_cast<char>(character);
  } else if (character < 0x800) {
    out += static_cast<char>(0xC0 | character >> 6);
    tail(0);
  } else if (character < 0x10000) {
    out += static_cast<char>(0xE0 | character >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | character >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string_view utf8_prefix(std::string_view text, size_t bytes) noexcept {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0u) == 0x80u) --bytes;
  return text.substr(0, bytes);
}

std::string utf8_repaired(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) {
      append_utf8(out, U'\uFFFD');
      ++at;
    } else {
      out += text.substr(at, length);
      at += length;
    }
  }
  return out;
}

}  // namespace yoke::engine
