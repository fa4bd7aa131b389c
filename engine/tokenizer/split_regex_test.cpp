#include "engine/tokenizer/split_regex.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "engine/tokenizer/generated_tokenizer.h"

namespace yoke::engine {
namespace {

using config::ErrorKind;
using config::Result;
using Pieces = std::vector<std::string>;

SplitRegex compiled(std::string_view pattern) {
  auto regex = SplitRegex::compile(pattern);
  if (!regex) throw std::runtime_error(regex.error().message);
  return std::move(*regex);
}

Result<Pieces> try_split(const SplitRegex& regex, std::string_view text) {
  SplitScratch scratch(regex, text.size());
  Pieces pieces;
  for (size_t at = 0; at < text.size();) {
    const auto end = scratch.piece_end(text, at);
    if (!end) return end.error();
    pieces.emplace_back(text.substr(at, *end - at));
    at = *end;
  }
  return pieces;
}

Pieces split(std::string_view text) {
  static const SplitRegex regex = compiled(kGlmSplitPattern);
  return try_split(regex, text).value();
}

TEST(SplitRegex, cuts_as_the_specification_says) {
  EXPECT_EQ(split("1234567"), (Pieces{"123", "456", "7"}));
  EXPECT_EQ(split("a  1"), (Pieces{"a", " ", " ", "1"}));
  EXPECT_EQ(split("\r\n\r\n x"), (Pieces{"\r\n\r\n", " x"}));
  EXPECT_EQ(split("I'LL"), (Pieces{"I", "'LL"}));
  EXPECT_EQ(split("it'\u017F"), (Pieces{"it", "'\u017F"}));
  EXPECT_EQ(split("a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(split("x \n\t\ny"), (Pieces{"x", " \n\t\n", "y"}));
  EXPECT_EQ(split("end   "), (Pieces{"end", "   "}));
  EXPECT_EQ(split("}}\nnext"), (Pieces{"}}\n", "next"}));
  EXPECT_EQ(split("日本語 テスト、です"), (Pieces{"日本語", " テスト", "、です"}));
  EXPECT_EQ(split("/nothink x"), (Pieces{"/nothink", " x"}));
  EXPECT_EQ(split("😀😀 😀"), (Pieces{"😀😀", " 😀"}));
  EXPECT_EQ(split(""), Pieces{});
}

TEST(SplitRegex, the_mongolian_vowel_separator_is_no_blank) {
  EXPECT_EQ(split("a\u180E\u180Eb"), (Pieces{"a", "\u180E\u180E", "b"}));
  EXPECT_EQ(split(" \u180E"), (Pieces{" \u180E"}));
}

TEST(SplitRegex, letters_and_numbers_of_unicode_16_count) {
  EXPECT_EQ(split("\U00031350\U000323AF"), (Pieces{"\U00031350\U000323AF"}));  // 15.0
  EXPECT_EQ(split("\U0002EBF0!"), (Pieces{"\U0002EBF0", "!"}));                // 15.1
  EXPECT_EQ(split("\U000105C0x\u1C89"), (Pieces{"\U000105C0x\u1C89"}));        // 16.0
  EXPECT_EQ(split("\U00010D40\U0001CCF0\U00011BF0\U0001E5F1"),
            (Pieces{"\U00010D40\U0001CCF0\U00011BF0", "\U0001E5F1"}));
}

// --- the pattern by hand, for an alphabet whose classes are known ---

struct Character {
  const char* text;
  char kind;  // L letter, N number, n newline, s other blank, o other
};
constexpr Character kAlphabet[] = {
    {"a", 'L'},      {"S", 'L'},      {"t", 'L'},  {"R", 'L'},  {"e", 'L'},      {"l", 'L'},
    {"é", 'L'},      {"日", 'L'},     {"ſ", 'L'},  {"1", 'N'},  {"9", 'N'},      {"٣", 'N'},
    {"½", 'N'},      {"Ⅷ", 'N'},      {"\n", 'n'}, {"\r", 'n'}, {" ", 's'},      {"\t", 's'},
    {"\u0085", 's'}, {"\u3000", 's'}, {"'", 'o'},  {",", 'o'},  {"\u180E", 'o'}, {"😀", 'o'},
    {"\u0301", 'o'}, {"\u200B", 'o'}, {"\1", 'o'},
};

using Text = std::vector<const Character*>;

size_t piece_by_hand(const Text& text, size_t at) {
  const auto kind = [&](size_t i) { return i < text.size() ? text[i]->kind : '\0'; };
  const auto is = [&](size_t i, std::string_view kinds) {
    return i < text.size() && kinds.find(kind(i)) != std::string_view::npos;
  };
  const auto run = [&](size_t i, std::string_view kinds) {
    while (is(i, kinds)) ++i;
    return i;
  };
  const auto letter = [&](size_t i, std::string_view wanted) {
    return i < text.size() &&
           (wanted == text[i]->text || (wanted == "S" && text[i]->text == std::string("ſ")));
  };
  if (kind(at) == 'o' && text[at]->text == std::string("'")) {
    if (letter(at + 1, "S") || letter(at + 1, "t")) return at + 2;
    if (letter(at + 1, "R") && letter(at + 2, "e")) return at + 3;
    if (letter(at + 1, "l") && letter(at + 2, "l")) return at + 3;
  }
  const size_t word = is(at, "so") ? at + 1 : at;
  if (is(word, "L")) return run(word, "L");
  if (is(at, "N")) return std::min(run(at, "N"), at + 3);
  const size_t other = text[at]->text == std::string(" ") ? at + 1 : at;
  if (is(other, "o")) return run(run(other, "o"), "n");
  const size_t blanks = run(at, "sn");
  for (size_t end = blanks; end > at; --end)
    if (is(end - 1, "n")) return end;
  if (blanks == text.size()) return blanks;
  return blanks - at > 1 ? blanks - 1 : blanks;
}

TEST(SplitRegex, agrees_with_the_pattern_written_by_hand_on_random_text) {
  std::mt19937 random(8);
  for (int round = 0; round < 6000; ++round) {
    Text text;
    for (size_t i = random() % 24; i > 0; --i) {  // now and then a run that one look does not cover
      const size_t repeat = random() % 64 == 0 ? random() % 3000 : 1;
      text.insert(text.end(), repeat, &kAlphabet[random() % std::size(kAlphabet)]);
    }
    std::string joined;
    for (const Character* character : text) joined += character->text;
    Pieces expected;
    for (size_t at = 0; at < text.size();) {
      const size_t end = piece_by_hand(text, at);
      expected.emplace_back();
      for (; at < end; ++at) expected.back() += text[at]->text;
    }
    ASSERT_EQ(split(joined), expected) << "round " << round << ": " << joined;
  }
}

// --- other patterns ---

TEST(SplitRegex, what_no_match_covers_is_a_piece_up_to_the_next_match) {
  const SplitRegex regex = compiled("\\p{N}+");
  EXPECT_EQ(try_split(regex, "日x12y3").value(), (Pieces{"日x", "12", "y", "3"}));
  EXPECT_EQ(try_split(regex, "日x").value(), (Pieces{"日x"}));
}

TEST(SplitRegex, refuses_what_it_cannot_translate_or_compile_and_empty_matches) {
  for (const std::string_view pattern :
       {"\\w+", "a*", "(?=a)", "(a", "a)", "[z-a]", "a{3,2}", ""}) {
    const auto regex = SplitRegex::compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_EQ(regex.error().kind, ErrorKind::unsupported);
    EXPECT_FALSE(regex.error().message.empty());
  }
}

// --- work limits ---

TEST(SplitRegexWork, exponential_backtracking_ends_in_an_error) {
  const SplitRegex regex = compiled("(?:a+)+b|a");
  const auto pieces = try_split(regex, std::string(200, 'a'));
  ASSERT_FALSE(pieces.ok());
  EXPECT_EQ(pieces.error().kind, ErrorKind::exhausted);
}

TEST(SplitRegexWork, quadratic_backtracking_ends_in_an_error) {
  const SplitRegex regex = compiled("a+b|a");
  EXPECT_EQ(try_split(regex, "aaab").value(), (Pieces{"aaab"}));
  EXPECT_EQ(try_split(regex, "aaa").value(), (Pieces{"a", "a", "a"}));
  const auto pieces = try_split(regex, std::string(1 << 20, 'a'));
  ASSERT_FALSE(pieces.ok());
  EXPECT_EQ(pieces.error().kind, ErrorKind::exhausted);
}

TEST(SplitRegexWork, deep_backtracking_over_groups_ends_in_a_value_or_an_error) {
  const SplitRegex regex = compiled("(?:ab|a|b)+c|a|b");
  const auto pieces = try_split(regex, std::string(1 << 20, 'a'));
  EXPECT_TRUE(pieces.ok() || pieces.error().kind == ErrorKind::exhausted);
}

TEST(SplitRegexWork, the_glm_pattern_is_never_exhausted) {
  constexpr size_t kBytes = 200'000;
  std::mt19937 random(9);
  for (const std::string_view unit :
       {"a",   "1",  " ",  "\n", "\r",  "\t", "😀",  "'",        "日",     "\u3000", " \n",
        "\n ", "a ", " a", "1 ", "  1", "' ", "'s", "\n\n   1", "\u180E", "!\n"}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    EXPECT_TRUE(split(text).size() > 0) << unit;
    EXPECT_TRUE(split(text + "1").size() > 0) << unit;
    EXPECT_TRUE(split("\n" + text + "x").size() > 0) << unit;
  }
  // Long runs of blanks with a newline in front, which one alternative scans in vain.
  std::string runs;
  while (runs.size() < kBytes) runs += "\n" + std::string(1 + random() % 20'000, ' ') + "1";
  EXPECT_TRUE(split(runs).size() > 0);
}

TEST(SplitRegexWork, a_long_run_is_one_piece) {
  const std::string letters(3 << 20, 'x'), blanks(3 << 20, ' ');
  EXPECT_EQ(split(letters), (Pieces{letters}));
  EXPECT_EQ(split(blanks), (Pieces{blanks}));
}

}  // namespace
}  // namespace yoke::engine
