// Finds control tokens in text: literally, leftmost, longest. Immutable: any thread may use it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace yoke::engine {

class AddedTokenTrie {
 public:
  struct Match {
    size_t begin = 0;
    size_t end = 0;
    int32_t id = 0;
  };

  /// Contents must be distinct and not empty.
  explicit AddedTokenTrie(std::span<const AddedToken> tokens);

  /// The first match in text[from, to) and nothing outside; the longest that begins there. Time is
  /// the distance walked times, at worst, the length of the longest token.
  std::optional<Match> find(std::string_view text, size_t from, size_t to) const noexcept;

  /// The token of exactly this content.
  std::optional<int32_t> id(std::string_view content) const noexcept;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    uint8_t byte = 0;
    uint32_t first_child = kNone;
    uint32_t next_sibling = kNone;
    int32_t id = -1;  ///< of the token that ends here
  };

  uint32_t child(uint32_t node, char byte) const noexcept;

  std::vector<Node> nodes_ = {Node{}};  // the root first
  std::array<bool, 256> begins_{};      // first bytes of tokens
};

/// Walks through a text from match to match, leaving out what would touch a literal byte.
class AddedTokenScanner {
 public:
  /// `literal`: sorted, disjoint, within the text. Borrows all three.
  AddedTokenScanner(const AddedTokenTrie& trie, std::string_view text,
                    std::span<const ByteRange> literal);

  std::optional<AddedTokenTrie::Match> next() noexcept;

 private:
  const AddedTokenTrie& trie_;
  std::string_view text_;
  std::span<const ByteRange> literal_;  // those that end after at_
  size_t at_ = 0;
};

}  // namespace yoke::engine
