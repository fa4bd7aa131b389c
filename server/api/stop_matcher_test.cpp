#include "server/api/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace yoke::server {
namespace {

using Strings = std::vector<std::string>;

/// The whole text fed in the given pieces, `|` behind it when a stop matched.
std::string run(const Strings& stops, const Strings& pieces, bool keep = false) {
  StopMatcher matcher(stops, keep);
  std::string out;
  for (const std::string& piece : pieces) matcher.feed(piece, out);
  matcher.finish(out);
  return out + (matcher.matched() ? "|" : "");
}

TEST(StopMatcher, text_beside_a_stop_is_exact) {  // F1, F3
  EXPECT_EQ(run({"END"}, {"ab", "cE", "N", "Dxx"}), "abc|");
  EXPECT_EQ(run({"END"}, {"abcEN"}), "abcEN");
  EXPECT_EQ(run({}, {"abc"}), "abc");
}

TEST(StopMatcher, failed_partial_match_neither_doubles_nor_loses_text) {  // F2
  EXPECT_EQ(run({"abac"}, {"ab", "ab", "ac"}), "ab|");
  EXPECT_EQ(run({"aab"}, {"aaa", "a", "b"}), "aa|");
}

TEST(StopMatcher, what_may_become_a_stop_is_held_back) {  // F4
  StopMatcher matcher({"###"}, false);
  std::string out;
  matcher.feed("x##", out);
  EXPECT_EQ(out, "x");
  matcher.feed("y", out);
  EXPECT_EQ(out, "x##y");
}

TEST(StopMatcher, first_completed_stop_wins_and_the_longest_on_a_tie) {  // F5
  EXPECT_EQ(run({"cd", "b"}, {"abcd"}), "a|");
  EXPECT_EQ(run({"cd", "bcd"}, {"abcd"}), "a|");
  EXPECT_EQ(run({"bcd", "cd"}, {"abcd"}), "a|");
}

TEST(StopMatcher, stop_string_can_stay_in_the_text) {
  EXPECT_EQ(run({"END"}, {"abENDcd"}, true), "abEND|");
}

/// The definition: the shortest prefix of the text that ends with a stop string.
std::string definition(const Strings& stops, const std::string& text) {
  for (size_t end = 0; end <= text.size(); ++end) {
    size_t longest = 0;
    const std::string_view prefix = std::string_view(text).substr(0, end);
    for (const std::string& stop : stops)
      if (prefix.ends_with(stop)) longest = std::max(longest, stop.size());
    if (longest > 0) return text.substr(0, end - longest) + "|";
  }
  return text;
}

TEST(StopMatcher, equals_its_definition_for_any_cut) {
  std::mt19937 random(20261201);
  const auto word = [&](size_t most, size_t least) {
    std::string out;
    const size_t n = least + random() % (most - least + 1);
    for (size_t i = 0; i < n; ++i) out += static_cast<char>('a' + random() % 2);
    return out;
  };
  for (int round = 0; round < 20'000; ++round) {
    Strings stops;
    for (size_t i = 0; i < 1 + random() % 3; ++i) stops.push_back(word(5, 1));
    const std::string text = word(14, 0);
    Strings pieces;
    for (size_t i = 0; i < text.size();) {
      const size_t n = 1 + random() % 4;
      pieces.push_back(text.substr(i, n));
      i += n;
    }
    ASSERT_EQ(run(stops, pieces), definition(stops, text))
        << "round " << round << " text " << text << " stops " << testing::PrintToString(stops);
  }
}

TEST(StopMatcher, other_output_between_ends_a_partial_match) {
  StopMatcher matcher({"abc"}, false);
  std::string out;
  matcher.feed("ab", out);
  matcher.finish(out);
  matcher.feed("c", out);
  EXPECT_EQ(out, "abc");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, cut_never_splits_a_character) {
  StopMatcher matcher({"\xF0\x9F\x98\x80!"}, false);
  std::string out;
  matcher.feed("a\xF0\x9F\x98\x80", out);
  EXPECT_EQ(out, "a");
  matcher.feed("?", out);
  EXPECT_EQ(out, "a\xF0\x9F\x98\x80?");
}

}  // namespace
}  // namespace yoke::server
