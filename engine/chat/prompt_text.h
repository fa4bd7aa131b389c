// Prompt text that remembers which bytes came from the request (design.md 3).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace yoke::engine {

class PromptText {
 public:
  /// Text of the template: control tokens in it count.
  void write(std::string_view text) { text_ += text; }
  /// Text of the request: it can never become a control token.
  void quote(std::string_view text);
  void append(const PromptText& other);

  /// The bytes [begin, end) with their marks.
  PromptText slice(size_t begin, size_t end) const;
  /// Without blanks at both ends, as Python's str.strip() defines them.
  PromptText stripped() const;

  const std::string& text() const noexcept { return text_; }
  size_t size() const noexcept { return text_.size(); }
  /// Sorted and disjoint; neighbours that touch are one range; none is empty.
  const std::vector<ByteRange>& literal() const noexcept { return literal_; }

  std::string take_text() && { return std::move(text_); }
  std::vector<ByteRange> take_literal() && { return std::move(literal_); }

 private:
  void mark(size_t begin, size_t end);

  std::string text_;
  std::vector<ByteRange> literal_;
};

}  // namespace yoke::engine
