#include "engine/chat/prompt_text.h"

#include <algorithm>

#include "engine/chat/blanks.h"

namespace yoke::engine {

void PromptText::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!literal_.empty() && literal_.back().end == begin) {
    literal_.back().end = end;
  } else {
    literal_.push_back({begin, end});
  }
}

void PromptText::quote(std::string_view text) {
  mark(text_.size(), text_.size() + text.size());
  text_ += text;
}

void PromptText::append(const PromptText& other) {
  const size_t base = text_.size();
  text_ += other.text_;
  for (const ByteRange& range : other.literal_) mark(base + range.begin, base + range.end);
}

PromptText PromptText::slice(size_t begin, size_t end) const {
  PromptText part;
  part.text_ = text_.substr(begin, end - begin);
  for (const ByteRange& range : literal_) {
    const size_t from = std::max(range.begin, begin);
    const size_t to = std::min(range.end, end);
    if (from < to) part.mark(from - begin, to - begin);
  }
  return part;
}

PromptText PromptText::stripped() const {
  const std::string_view kept = python_strip(text_);
  const auto begin = static_cast<size_t>(kept.data() - text_.data());
  return slice(begin, begin + kept.size());
}

}  // namespace yoke::engine
