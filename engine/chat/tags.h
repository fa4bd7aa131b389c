// The tags of generated text, and which of them a tokenizer knows as tokens of their own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/tokenizer/tokenizer.h"

namespace yoke::engine {

enum class Tag : uint8_t {
  think,
  think_end,
  tool_call,
  tool_call_end,
  arg_key,
  arg_key_end,
  arg_value,
  arg_value_end,
};
inline constexpr size_t kTagCount = 8;

std::string_view tag_text(Tag tag) noexcept;

/// A set of tags.
class TagSet {
 public:
  constexpr TagSet() = default;
  constexpr TagSet(std::initializer_list<Tag> tags) {
    for (const Tag tag : tags) add(tag);
  }
  constexpr void add(Tag tag) noexcept { bits_ |= 1u << static_cast<unsigned>(tag); }
  constexpr bool has(Tag tag) const noexcept { return bits_ >> static_cast<unsigned>(tag) & 1; }
  constexpr bool empty() const noexcept { return bits_ == 0; }
  friend constexpr TagSet operator&(TagSet a, TagSet b) noexcept {
    a.bits_ &= b.bits_;
    return a;
  }
  friend constexpr TagSet operator|(TagSet a, TagSet b) noexcept {
    a.bits_ |= b.bits_;
    return a;
  }

 private:
  unsigned bits_ = 0;
};

class TagTable {
 public:
  explicit TagTable(const Tokenizer& tokenizer);

  std::optional<Tag> of_id(int32_t id) const noexcept;
  /// Tags without an id: they must be found in the text.
  TagSet spelled() const noexcept { return spelled_; }

 private:
  std::array<int32_t, kTagCount> ids_{};  // -1: none
  TagSet spelled_;
};

struct TagMatch {
  size_t at = 0;  // npos: none
  Tag tag = Tag::think;
};
/// The first of `tags` that stands in `text`.
TagMatch find_tag(std::string_view text, TagSet tags) noexcept;
/// Bytes at the end of `text` that may be the beginning of one of `tags`.
size_t partial_tag_bytes(std::string_view text, TagSet tags) noexcept;

}  // namespace yoke::engine
