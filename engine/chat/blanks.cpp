#include "engine/chat/blanks.h"

#include "engine/json/utf8.h"

namespace yoke::engine {

bool is_python_blank(char32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

size_t leading_blanks(std::string_view text) noexcept {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = utf8_length(text, at);
    if (length == 0 || !is_python_blank(utf8_decode(text, at, length))) break;
    at += length;
  }
  return at;
}

std::string_view python_strip(std::string_view text) noexcept {
  text.remove_prefix(leading_blanks(text));
  while (!text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    const size_t length = utf8_length(text, last);
    if (length == 0 || !is_python_blank(utf8_decode(text, last, length))) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

}  // namespace yoke::engine
