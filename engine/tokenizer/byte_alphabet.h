// The printable alphabet in which byte-level vocabularies are written: each byte has one character
// (spec/tokenizer_chat.md 1.3). yoke keeps tokens as raw bytes; only reading the file needs this.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace yoke::engine {

/// The character that stands for `byte`.
char32_t byte_symbol(uint8_t byte) noexcept;

/// Bytes that `text` (UTF-8) spells; nullopt if a character stands for no byte.
std::optional<std::string> bytes_of_symbols(std::string_view text);

}  // namespace yoke::engine
