#include "engine/tokenizer/split_pattern.h"

#include <gtest/gtest.h>

#include "engine/tokenizer/generated_tokenizer.h"

namespace yoke::engine {
namespace {

std::string translated(std::string_view pattern) {
  const auto result = pcre2_pattern(pattern);
  return result ? *result : "error: " + result.error().message;
}

TEST(SplitPattern, plain_constructs_pass_unchanged) {
  for (const std::string_view pattern :
       {"abc|d", "a?b*c+", "a??b*?c+?", "a?+b*+c++", "x{3}y{1,}z{1,3}", "(?:a)(?=b)(?!c)(d)",
        "[a-z_日本]", "[^\\r\\n\\t]", "\\.\\[\\\\\\-", "日+", "(?i:'s|'t|'ll| re)"})
    EXPECT_EQ(translated(pattern), pattern);
}

TEST(SplitPattern, white_space_letters_and_numbers_are_spelled_out) {
  EXPECT_EQ(translated("\\s"),
            "[\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}-\\x{2029}"
            "\\x{202F}\\x{205F}\\x{3000}]");
  EXPECT_TRUE(translated("\\S").starts_with("[^\\x{9}-\\x{D}"));
  EXPECT_TRUE(translated("[\\sx]").starts_with("[\\x{9}-\\x{D}"));
  EXPECT_TRUE(translated("\\p{L}+").starts_with("[\\p{L}\\x{1C89}-"));
  EXPECT_TRUE(translated("\\P{N}").starts_with("[^\\p{N}\\x{10D40}-"));
}

TEST(SplitPattern, what_might_mean_something_else_is_refused_with_its_place) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"a.b", "offset 1: '.'"},
      {"^a", "offset 0: '^'"},
      {"a$", "offset 1: '$'"},
      {"ab\\h", "offset 2: escape \\h"},
      {"\\w+", "escape \\w"},
      {"\\d", "escape \\d"},
      {"\\b", "escape \\b"},
      {"\\x41", "escape \\x"},
      {"a\\", "offset 1: escape \\"},
      {"\\p{Han}", "a property"},
      {"\\p{^L}", "a property"},
      {"[a[b]]", "a set inside a set"},
      {"[a&&b]", "a set inside a set"},
      {"[[:alpha:]]", "a set inside a set"},
      {"[]a]", "']'"},
      {"[a\\S]", "negated class"},
      {"[a-]", "'-'"},
      {"[-a]", "'-'"},
      {"[\\s-z]", "'-'"},
      {"[a-\\r]", "'-'"},
      {"[a-b-c]", "'-'"},
      {"[ab", "a set without end"},
      {"[", "a set without end"},
      {"(?<=a)b", "this kind of group"},
      {"(?<n>a)", "this kind of group"},
      {"(?>a)", "this kind of group"},
      {"(?i)a", "this kind of group"},
      {"(?m:a)", "this kind of group"},
      {"(*UTF)a", "this kind of group"},
      {"(?i:[a])", "(?i:"},
      {"(?i:é)", "(?i:"},
      {"(?i:a+)", "(?i:"},
      {"(?i:'ss)", "letter pair"},
      {"(?i:FI)", "letter pair"},
      {"(?i:st", "letter pair"},
      {"(?i:a", "a group without end"},
      {"a{1,3}+", "a repeat of a repeat"},
      {"a{2}?", "a repeat of a repeat"},
      {"a+*", "a repeat of a repeat"},
      {"a++{2}", "a repeat of a repeat"},
      {"a{,3}", "'{'"},
      {"a{x}", "'{'"},
      {"a{1", "'{'"},
      {"a{99999}", "'{'"},
      {"a]", "']'"},
      {"a}", "'}'"},
      {"\xFF", "invalid UTF-8"},
  };
  for (const auto& [pattern, says] : cases) {
    const std::string result = translated(pattern);
    EXPECT_TRUE(result.starts_with("error: offset ")) << pattern << " gives " << result;
    EXPECT_NE(result.find(says), std::string::npos) << pattern << " gives " << result;
  }
}

TEST(SplitPattern, every_truncation_of_the_glm_pattern_is_handled) {
  for (size_t size = 0; size <= kGlmSplitPattern.size(); ++size)
    translated(kGlmSplitPattern.substr(0, size));
  EXPECT_FALSE(translated(kGlmSplitPattern).starts_with("error"));
}

}  // namespace
}  // namespace yoke::engine
