#include "engine/tokenizer/added_tokens.h"

#include <gtest/gtest.h>

#include <random>

namespace yoke::engine {
namespace {

std::vector<AddedToken> tokens_of(const std::vector<std::string>& contents) {
  std::vector<AddedToken> tokens;
  for (const auto& content : contents)
    tokens.push_back({static_cast<int32_t>(100 + tokens.size()), content, true});
  return tokens;
}

struct Found {
  size_t begin;
  int32_t id;
  bool operator==(const Found&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Found& found) {
  return out << found.begin << ":" << found.id;
}

std::vector<Found> scan(const AddedTokenTrie& trie, std::string_view text,
                        const std::vector<ByteRange>& literal = {}) {
  std::vector<Found> found;
  AddedTokenScanner scanner(trie, text, literal);
  while (const auto match = scanner.next()) found.push_back({match->begin, match->id});
  return found;
}

/// By definition: at each place the longest token that touches no literal byte.
std::vector<Found> scan_plainly(const std::vector<AddedToken>& tokens, std::string_view text,
                                const std::vector<ByteRange>& literal) {
  std::vector<bool> is_literal(text.size());
  for (const ByteRange& range : literal)
    for (size_t i = range.begin; i < range.end; ++i) is_literal[i] = true;
  std::vector<Found> found;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* longest = nullptr;
    for (const AddedToken& token : tokens) {
      bool allowed = text.substr(at).starts_with(token.content);
      for (size_t i = 0; allowed && i < token.content.size(); ++i) allowed = !is_literal[at + i];
      if (allowed && (longest == nullptr || token.content.size() > longest->content.size()))
        longest = &token;
    }
    if (longest != nullptr) found.push_back({at, longest->id});
    at += longest != nullptr ? longest->content.size() : 1;
  }
  return found;
}

TEST(AddedTokens, leftmost_then_longest) {
  const AddedTokenTrie trie(tokens_of({"<a", "<a>", "a><", "b"}));
  using Matches = std::vector<Found>;
  EXPECT_EQ(scan(trie, "<a><a"), (Matches{{0, 101}, {3, 100}}));
  EXPECT_EQ(scan(trie, "x<ab"), (Matches{{1, 100}, {3, 103}}));
  EXPECT_EQ(scan(trie, "<<a"), (Matches{{1, 100}}));
  EXPECT_EQ(scan(trie, ""), Matches{});
}

TEST(AddedTokens, a_match_that_touches_a_literal_byte_does_not_count) {
  const AddedTokenTrie trie(tokens_of({"<t>"}));
  using Matches = std::vector<Found>;
  EXPECT_EQ(scan(trie, "<t><t>", {{0, 3}}), (Matches{{3, 100}}));
  EXPECT_EQ(scan(trie, "<t>", {{0, 1}}), Matches{});
  EXPECT_EQ(scan(trie, "<t>", {{2, 3}}), Matches{});
  EXPECT_EQ(scan(trie, "<t>", {{1, 2}}), Matches{});
  EXPECT_EQ(scan(trie, "a<t>b", {{0, 1}, {4, 5}}), (Matches{{1, 100}}));
}

TEST(AddedTokens, an_empty_range_touches_nothing) {
  const AddedTokenTrie trie(tokens_of({"<t>"}));
  EXPECT_EQ(scan(trie, "<t>", {{0, 0}, {1, 1}, {3, 3}}), (std::vector<Found>{{0, 100}}));
}

TEST(AddedTokens, a_shorter_token_may_match_where_the_longer_one_is_cut_off) {
  const AddedTokenTrie trie(tokens_of({"<a", "<a>"}));
  EXPECT_EQ(scan(trie, "<a>", {{2, 3}}), (std::vector<Found>{{0, 100}}));
}

TEST(AddedTokens, agrees_with_the_definition_on_random_texts_and_ranges) {
  std::mt19937 random(4);
  const auto word = [&](size_t longest) {
    std::string text(1 + random() % longest, ' ');
    for (char& c : text) c = "<>|ab"[random() % 5];
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> contents;
    for (size_t i = random() % 6; i > 0; --i) {
      const std::string content = word(4);
      if (std::find(contents.begin(), contents.end(), content) == contents.end())
        contents.push_back(content);
    }
    const auto tokens = tokens_of(contents);
    const std::string text = word(40);
    std::vector<ByteRange> literal;
    for (size_t at = random() % 10; at < text.size();) {
      const size_t end = std::min(text.size(), at + random() % 5);
      literal.push_back({at, end});
      at = end + random() % 8;
    }
    const AddedTokenTrie trie(tokens);
    ASSERT_EQ(scan(trie, text, literal), scan_plainly(tokens, text, literal)) << "round " << round;
  }
}

TEST(AddedTokens, id_is_found_by_exact_content_only) {
  const AddedTokenTrie trie(tokens_of({"<a>", "<a>b"}));
  EXPECT_EQ(trie.id("<a>"), 100);
  EXPECT_EQ(trie.id("<a>b"), 101);
  EXPECT_EQ(trie.id("<a"), std::nullopt);
  EXPECT_EQ(trie.id("<a>bc"), std::nullopt);
  EXPECT_EQ(trie.id(""), std::nullopt);
}

TEST(AddedTokensDeathTest, ranges_must_be_sorted_disjoint_and_inside) {
  const AddedTokenTrie trie(tokens_of({"<a>"}));
  EXPECT_DEATH(scan(trie, "abc", {{1, 2}, {0, 1}}), "literal ranges");
  EXPECT_DEATH(scan(trie, "abc", {{0, 2}, {1, 3}}), "literal ranges");
  EXPECT_DEATH(scan(trie, "abc", {{2, 4}}), "literal ranges");
}

}  // namespace
}  // namespace yoke::engine
