#include "engine/tokenizer/added_tokens.h"

#include "config/check.h"

namespace yoke::engine {

AddedTokenTrie::AddedTokenTrie(std::span<const AddedToken> tokens) {
  for (const AddedToken& token : tokens) {
    YOKE_CHECK(!token.content.empty(), "an added token without content");
    begins_[static_cast<uint8_t>(token.content[0])] = true;
    uint32_t at = 0;
    for (const char c : token.content) {
      uint32_t next = child(at, c);
      if (next == kNone) {
        next = static_cast<uint32_t>(nodes_.size());
        nodes_.push_back({static_cast<uint8_t>(c), kNone, nodes_[at].first_child, -1});
        nodes_[at].first_child = next;
      }
      at = next;
    }
    YOKE_CHECK(nodes_[at].id < 0, "two added tokens of the same content");
    nodes_[at].id = token.id;
  }
}

uint32_t AddedTokenTrie::child(uint32_t node, char byte) const noexcept {
  uint32_t at = nodes_[node].first_child;
  while (at != kNone && nodes_[at].byte != static_cast<uint8_t>(byte)) at = nodes_[at].next_sibling;
  return at;
}

std::optional<AddedTokenTrie::Match> AddedTokenTrie::find(std::string_view text, size_t from,
                                                          size_t to) const noexcept {
  for (size_t begin = from; begin < to; ++begin) {
    if (!begins_[static_cast<uint8_t>(text[begin])]) continue;
    std::optional<Match> longest;
    uint32_t node = 0;
    for (size_t at = begin; at < to; ++at) {
      node = child(node, text[at]);
      if (node == kNone) break;
      if (nodes_[node].id >= 0) longest = Match{begin, at + 1, nodes_[node].id};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

std::optional<int32_t> AddedTokenTrie::id(std::string_view content) const noexcept {
  uint32_t node = 0;
  for (const char c : content) {
    node = child(node, c);
    if (node == kNone) return std::nullopt;
  }
  if (nodes_[node].id < 0) return std::nullopt;
  return nodes_[node].id;
}

AddedTokenScanner::AddedTokenScanner(const AddedTokenTrie& trie, std::string_view text,
                                     std::span<const ByteRange> literal)
    : trie_(trie), text_(text), literal_(literal) {
  size_t previous_end = 0;
  for (const ByteRange& range : literal) {
    YOKE_CHECK(range.begin >= previous_end && range.begin <= range.end && range.end <= text.size(),
               "literal ranges must be sorted, disjoint and inside the text");
    previous_end = range.end;
  }
}

std::optional<AddedTokenTrie::Match> AddedTokenScanner::next() noexcept {
  // Between two literal bytes nothing interrupts a match, so each stretch is searched alone.
  while (at_ < text_.size()) {
    while (!literal_.empty() && literal_.front().begin == literal_.front().end)
      literal_ = literal_.subspan(1);  // an empty range holds no byte that a match could touch
    const size_t stretch_end = literal_.empty() ? text_.size() : literal_.front().begin;
    if (const auto match = trie_.find(text_, at_, stretch_end)) {
      at_ = match->end;
      return match;
    }
    if (literal_.empty()) break;
    at_ = literal_.front().end;
    literal_ = literal_.subspan(1);
  }
  at_ = text_.size();
  return std::nullopt;
}

}  // namespace yoke::engine
