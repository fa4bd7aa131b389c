#include "engine/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "engine/tokenizer/generated_tokenizer.h"

namespace yoke::engine {
namespace {

using config::ErrorKind;
using Ids = std::vector<int32_t>;

const Tokenizer& nano() {
  static const Tokenizer loaded =
      std::move(Tokenizer::load(YOKE_SOURCE_DIR "/tools/nano/tokenizer.json")).value();
  return loaded;
}

Ids ids_of(const Tokenizer& tokenizer, std::string_view text,
           const std::vector<ByteRange>& literal = {}) {
  return tokenizer.encode(text, literal).value().ids;
}

std::vector<std::string> tokens_of(const Tokenizer& tokenizer, std::string_view text,
                                   const std::vector<ByteRange>& literal = {}) {
  std::vector<std::string> tokens;
  for (const int32_t id : ids_of(tokenizer, text, literal))
    tokens.emplace_back(tokenizer.token_bytes(id));
  return tokens;
}

bool has_added(const Tokenizer& tokenizer, const Ids& ids) {
  return std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer.is_added(id); });
}

/// Random UTF-8 that visits all lengths, with fragments of control tokens.
std::string random_text(std::mt19937& random, size_t characters) {
  constexpr std::string_view kFragments[] = {"<|user|>", "<think>", "</think>", "<|", "|>",
                                             "/nothink", "[gMASK]", "<sop",     "'s", "\r\n",
                                             "   ",      "123",     "word"};
  std::string text;
  for (size_t i = 0; i < characters; ++i) {
    constexpr char32_t kEnds[] = {0x80, 0x800, 0xD800, 0x110000};
    if (random() % 4 == 0) {
      text += kFragments[random() % std::size(kFragments)];
    } else if (random() % 8 == 0) {
      append_utf8(text, 0xE000 + random() % (0x110000 - 0xE000));
    } else {
      append_utf8(text, random() % kEnds[random() % 3]);
    }
  }
  return text;
}

// --- properties of ids ---

TEST(Tokenizer, tells_what_each_id_is) {
  GeneratedTokenizer generated;
  generated.merges = {{"a", "b"}};
  generated.added = {"<special>", "<added>"};
  const Tokenizer tokenizer = generated.build();
  EXPECT_EQ(tokenizer.size(), 259);
  EXPECT_EQ(tokenizer.token_bytes(256), "ab");
  EXPECT_EQ(tokenizer.token_bytes(257), "<special>");
  EXPECT_EQ(tokenizer.longest_token_bytes(), 9u);
  EXPECT_EQ(tokenizer.added_id("<added>"), 258);
  EXPECT_EQ(tokenizer.added_id("ab"), std::nullopt);
  ASSERT_EQ(tokenizer.added_tokens().size(), 2u);
  EXPECT_EQ(tokenizer.added_tokens()[1].content, "<added>");
  EXPECT_TRUE(tokenizer.is_special(257) && tokenizer.is_added(257));
  EXPECT_TRUE(!tokenizer.is_special(258) && tokenizer.is_added(258));
  EXPECT_TRUE(!tokenizer.is_special(256) && !tokenizer.is_added(256));
  for (const int32_t id : {-1, 259, INT32_MAX, INT32_MIN}) {
    EXPECT_FALSE(tokenizer.is_defined(id) || tokenizer.is_added(id) || tokenizer.is_special(id));
    EXPECT_EQ(tokenizer.token_bytes(id), "");
  }
}

TEST(Tokenizer, a_whole_piece_that_is_a_token_wins_over_merges_only_if_the_file_says_so) {
  GeneratedTokenizer generated;
  generated.merges = {{"b", "c"}, {"a", "b"}, {"ab", "c"}};
  EXPECT_EQ(tokens_of(generated.build(), "abc"), (std::vector<std::string>{"abc"}));
  generated.ignore_merges = false;
  EXPECT_EQ(tokens_of(generated.build(), "abc"), (std::vector<std::string>{"a", "bc"}));
}

TEST(Tokenizer, an_added_token_also_listed_in_the_vocabulary_is_never_made_from_ordinary_text) {
  GeneratedTokenizer generated;
  generated.added = {"/nothink"};
  boost::json::value file = generated.json();
  file.at("model").at("vocab").as_object().emplace("/nothink", 256);
  const auto tokenizer = Tokenizer::parse(boost::json::serialize(file), "t");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(ids_of(*tokenizer, "/nothink"), (Ids{256}));
  EXPECT_FALSE(has_added(*tokenizer, ids_of(*tokenizer, "/nothink", {{0, 8}})));
}

TEST(Tokenizer, an_unsupported_pattern_is_named_with_its_place_in_the_file) {
  GeneratedTokenizer generated;
  generated.pattern = "\\w+";
  const auto tokenizer = Tokenizer::parse(boost::json::serialize(generated.json()), "t.json");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().kind, ErrorKind::unsupported);
  EXPECT_NE(tokenizer.error().message.find("t.json: pre_tokenizer.pretokenizers[0].pattern.Regex"),
            std::string::npos)
      << tokenizer.error().message;
}

// --- control tokens and literal ranges ---

TEST(TokenizerRanges, control_text_inside_a_literal_range_stays_ordinary) {
  const std::string text = "<|user|>say <|user|> now";
  const int32_t user = nano().added_id("<|user|>").value();
  const Ids everywhere = ids_of(nano(), text);
  EXPECT_EQ(std::count(everywhere.begin(), everywhere.end(), user), 2);
  const Ids ids = ids_of(nano(), text, {{8, text.size()}});
  EXPECT_EQ(ids.front(), user);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), user), 1);
  EXPECT_EQ(nano().decode(ids), text);
}

TEST(TokenizerRanges, a_tag_partly_inside_a_range_does_not_match) {
  const std::string tag = "<|user|>";
  EXPECT_FALSE(has_added(nano(), ids_of(nano(), tag, {{0, 1}})));
  EXPECT_FALSE(has_added(nano(), ids_of(nano(), tag, {{7, 8}})));
  EXPECT_FALSE(has_added(nano(), ids_of(nano(), tag, {{3, 4}})));
  EXPECT_TRUE(has_added(nano(), ids_of(nano(), tag, {{3, 3}})));
  EXPECT_TRUE(has_added(nano(), ids_of(nano(), "x" + tag + "x", {{0, 1}, {9, 10}})));
}

TEST(TokenizerRanges, pieces_run_across_range_borders) {
  GeneratedTokenizer generated;
  generated.merges = {{"}", "}"}, {"}}", "\n"}, {" ", "w"}};
  generated.added = {"<|user|>"};
  const Tokenizer tokenizer = generated.build();
  using Tokens = std::vector<std::string>;
  EXPECT_EQ(tokens_of(tokenizer, "{}}\n", {{1, 3}}), (Tokens{"{", "}}\n"}));
  EXPECT_EQ(tokens_of(tokenizer, "}}\n", {{0, 1}, {1, 2}}), (Tokens{"}}\n"}));
  EXPECT_EQ(tokens_of(tokenizer, "! w", {{0, 2}}), (Tokens{"!", " w"}));
  EXPECT_EQ(tokens_of(tokenizer, "}<|user|>}\n", {{0, 1}}), (Tokens{"}", "<|user|>", "}", "\n"}));
}

TEST(TokenizerRanges, ranges_that_hold_no_tag_change_nothing) {
  std::mt19937 random(10);
  for (int round = 0; round < 500; ++round) {
    const std::string text = random_text(random, 30);
    const auto whole = nano().encode(text).value();
    std::vector<ByteRange> literal;  // some of the ordinary tokens
    for (size_t i = 0; i < whole.ids.size(); ++i) {
      const size_t end = i + 1 < whole.ids.size() ? whole.offsets[i + 1] : text.size();
      if (!nano().is_added(whole.ids[i]) && random() % 2 == 0)
        literal.push_back({whole.offsets[i], end});
    }
    ASSERT_EQ(ids_of(nano(), text, literal), whole.ids) << "round " << round;
  }
}

TEST(TokenizerRanges, no_control_token_touches_a_literal_byte) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const std::string text = random_text(random, 30);
    std::vector<ByteRange> literal;
    for (size_t at = random() % 20; at < text.size(); at += 1 + random() % 20) {
      const size_t end = std::min(text.size(), at + random() % 20);
      literal.push_back({at, end});
      at = end;
    }
    const auto encoded = nano().encode(text, literal).value();
    for (size_t i = 0; i < encoded.ids.size(); ++i) {
      if (!nano().is_added(encoded.ids[i])) continue;
      const size_t begin = encoded.offsets[i];
      const size_t end = begin + nano().token_bytes(encoded.ids[i]).size();
      for (const ByteRange& range : literal)
        ASSERT_TRUE(range.end <= begin || range.begin >= end || range.begin == range.end);
    }
    ASSERT_EQ(nano().decode(encoded.ids), text);
  }
}

TEST(TokenizerRanges, the_switches_are_no_range_and_one_range_over_all) {
  std::mt19937 random(12);
  for (int round = 0; round < 200; ++round) {
    const std::string text = random_text(random, 20);
    EXPECT_EQ(nano().encode_ids(text).value(), ids_of(nano(), text));
    const Ids plain = nano().encode_plain(text).value();
    EXPECT_EQ(plain, ids_of(nano(), text, {{0, text.size()}}));
    EXPECT_FALSE(has_added(nano(), plain));
  }
}

// --- round trip ---

TEST(Tokenizer, decoding_gives_the_text_back_and_offsets_tell_where_tokens_begin) {
  std::mt19937 random(13);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = random_text(random, random() % 60);
    const auto encoded = nano().encode(text).value();
    ASSERT_EQ(encoded.offsets.size(), encoded.ids.size());
    ASSERT_EQ(nano().decode(encoded.ids), text) << "round " << round;
    ASSERT_EQ(nano().decode(nano().encode_plain(text).value()), text) << "round " << round;
    size_t at = 0;
    for (size_t i = 0; i < encoded.ids.size(); ++i) {
      ASSERT_EQ(encoded.offsets[i], at);
      at += nano().token_bytes(encoded.ids[i]).size();
    }
    ASSERT_EQ(at, text.size());
  }
}

TEST(Tokenizer, every_character_alone_comes_back) {
  for (char32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 61) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_EQ(nano().decode(nano().encode_ids(text).value()), text);
  }
}

TEST(Tokenizer, decoding_skips_undefined_ids_and_on_request_special_ones) {
  GeneratedTokenizer generated;
  generated.added = {"<special>", "<added>"};
  const Tokenizer tokenizer = generated.build();
  const Ids ids = {'a', 256, -5, 'b', 9999, 257, 0xE6};
  EXPECT_EQ(tokenizer.decode(ids), "a<special>b<added>\xEF\xBF\xBD");
  EXPECT_EQ(tokenizer.decode(ids, true), "ab<added>\xEF\xBF\xBD");
}

TEST(Tokenizer, text_that_is_not_utf8_is_refused_with_its_place) {
  for (const std::string_view text : {"ab\xFF", "ab\xED\xA0\x80", "ab\xE6\x97"}) {
    const auto encoded = nano().encode(text);
    ASSERT_FALSE(encoded.ok());
    EXPECT_EQ(encoded.error().kind, ErrorKind::invalid_input);
    EXPECT_NE(encoded.error().message.find("byte 2"), std::string::npos);
  }
}

TEST(Tokenizer, a_megabyte_of_one_character_is_encoded) {
  GeneratedTokenizer generated;
  for (const std::string_view unit : {"x", " ", "😀"})
    generated.add_doublings(std::string(unit), 18);
  const Tokenizer merging = generated.build();
  for (const std::string_view unit : {"x", "7", " ", "\n", "😀", "<", "'"}) {
    std::string text;
    while (text.size() < 1 << 20) text += unit;
    for (const Tokenizer* tokenizer : {&merging, &nano()})
      ASSERT_EQ(tokenizer->decode(tokenizer->encode_ids(text).value()), text) << unit;
  }
  EXPECT_EQ(merging.encode_ids(std::string(1 << 18, 'x')).value().size(), 1u);
}

TEST(Tokenizer, many_threads_may_use_one_tokenizer) {
  std::mt19937 random(14);
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) texts.push_back(random_text(random, 50) + std::string(100 * i, 'y'));
  std::vector<Ids> expected;
  for (const auto& text : texts) expected.push_back(ids_of(nano(), text));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < texts.size(); ++i) {
        const size_t at = (i + 10 * t) % texts.size();
        const Ids ids = nano().encode_ids(texts[at]).value();
        wrong[t] += ids != expected[at] || nano().decode(ids) != texts[at];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

}  // namespace
}  // namespace yoke::engine
