// The printable alphabet in which byte-level vocabularies are written: each byte has one character
// (spec/tokenizer_chat.md 1.3). yoke keeps tokens as raw bytes; only reading the file needs this.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace yoke::engine {

/// The character that stands for `byte`.
char32_t byte_symbol(uint8_t byte) noexcept;

/// Appends the bytes that `symbols` (UTF-8) spell; false if a character stands for no byte.
bool append_bytes_of_symbols(std::string_view symbols, std::string& bytes);

}  // namespace yoke::engine
