// UTF-8 as the Unicode standard defines well-formed (no surrogates, no overlong forms), and the
// "maximal subpart" rule for what is not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/json/utf8.h"  // append_utf8

namespace yoke::engine {

/// What stands at the start of some bytes.
struct Utf8Step {
  enum class Kind {
    character,   ///< one well-formed character
    invalid,     ///< a maximal ill-formed part: lossy decoding writes one U+FFFD for it
    incomplete,  ///< all of the bytes: a proper prefix of a character
  };
  Kind kind = Kind::character;
  size_t bytes = 0;  ///< 1 to 4
};

/// `bytes` must not be empty.
Utf8Step utf8_step(std::string_view bytes) noexcept;

/// Bytes up to the first that is not part of a well-formed character; text.size() when all are.
size_t utf8_valid_prefix(std::string_view text) noexcept;

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace yoke::engine
