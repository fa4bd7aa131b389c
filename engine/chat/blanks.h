// Blanks as Python's str.strip() defines them: White_Space and U+001C–001F. Texts are UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace yoke::engine {

bool is_python_blank(char32_t character) noexcept;

/// Bytes of the blanks that `text` begins with.
size_t leading_blanks(std::string_view text) noexcept;
/// The text without blanks at both ends; an empty view lies inside `text` too.
std::string_view python_strip(std::string_view text) noexcept;

}  // namespace yoke::engine
