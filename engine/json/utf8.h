// UTF-8 as the JSON reader, the chat grammar and the output parser need it: strict (no overlong
// forms, no surrogates, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace yoke::engine {

/// Bytes of the well-formed character at `text[at]`, or 0 when none begins there.
size_t utf8_length(std::string_view text, size_t at) noexcept;

/// The well-formed character at `text[at]`; `length` as utf8_length found it.
char32_t utf8_decode(std::string_view text, size_t at, size_t length) noexcept;

/// The longest beginning of `text` of at most `bytes` bytes that cuts no character.
std::string_view utf8_prefix(std::string_view text, size_t bytes) noexcept;

/// `text` with U+FFFD for each byte that belongs to no well-formed character.
std::string utf8_repaired(std::string_view text);

/// Appends a scalar value (no surrogate).
void append_utf8(std::string& out, char32_t character);

}  // namespace yoke::engine
