#include "engine/chat/tags.h"

#include <algorithm>

namespace yoke::engine {
namespace {

constexpr std::array<std::string_view, kTagCount> kTexts = {
    "<think>",   "</think>",   "<tool_call>", "</tool_call>",
    "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"};

}  // namespace

std::string_view tag_text(Tag tag) noexcept {
  return kTexts[static_cast<size_t>(tag)];
}

TagTable::TagTable(const Tokenizer& tokenizer) {
  for (size_t i = 0; i < kTagCount; ++i) {
    ids_[i] = tokenizer.added_id(kTexts[i]).value_or(-1);
    if (ids_[i] < 0) spelled_.add(static_cast<Tag>(i));
  }
}

std::optional<Tag> TagTable::of_id(int32_t id) const noexcept {
  if (id < 0) return std::nullopt;
  const auto found = std::find(ids_.begin(), ids_.end(), id);
  if (found == ids_.end()) return std::nullopt;
  return static_cast<Tag>(found - ids_.begin());
}

TagMatch find_tag(std::string_view text, TagSet tags) noexcept {
  for (size_t at = text.find('<'); at != text.npos; at = text.find('<', at + 1)) {
    for (size_t i = 0; i < kTagCount; ++i) {
      const Tag tag = static_cast<Tag>(i);
      if (tags.has(tag) && text.substr(at).starts_with(kTexts[i])) return {at, tag};
    }
  }
  return {text.npos, Tag::think};
}

size_t partial_tag_bytes(std::string_view text, TagSet tags) noexcept {
  // Tags hold '<' only at their start, so only the last one can begin an unfinished tag.
  const size_t at = text.rfind('<');
  if (at == text.npos) return 0;
  const std::string_view tail = text.substr(at);
  for (size_t i = 0; i < kTagCount; ++i) {
    if (tags.has(static_cast<Tag>(i)) && kTexts[i].starts_with(tail)) return tail.size();
  }
  return 0;
}

}  // namespace yoke::engine
