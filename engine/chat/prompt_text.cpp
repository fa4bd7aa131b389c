#include "engine/chat/prompt_text.h"

#include <algorithm>

#include "engine/json/utf8.h"

namespace yoke::engine {

bool is_python_blank(char32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

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
  size_t begin = 0;
  while (begin < text_.size()) {
    const size_t length = utf8_length(text_, begin);
    if (length == 0 || !is_python_blank(utf8_decode(text_, begin, length))) break;
    begin += length;
  }
  size_t end = text_.size();
  while (end > begin) {
    size_t last = end - 1;
    while (last > begin && (static_cast<unsigned char>(text_[last]) & 0xC0) == 0x80) --last;
    const size_t length = utf8_length(text_, last);
    if (length == 0 || !is_python_blank(utf8_decode(text_, last, length))) break;
    end = last;
  }
  return slice(begin, end);
}

}  // namespace yoke::engine
