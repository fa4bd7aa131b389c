#include "engine/tokenizer/utf8.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/tokenizer/tokenizer.h"

namespace yoke::engine {
namespace {

// --- an independent definition: by code point, not by byte table ---

bool is_scalar(uint32_t c) {
  return c < 0xD800 || (c >= 0xE000 && c <= 0x10FFFF);
}

/// True if some character's encoding begins with `bytes` (all of it, if `whole`).
bool begins_character(std::string_view bytes, bool whole) {
  const auto lead = static_cast<uint8_t>(bytes[0]);
  const size_t length = lead < 0x80    ? 1
                        : lead >= 0xF0 ? 4
                        : lead >= 0xE0 ? 3
                        : lead >= 0xC0 ? 2
                                       : 0;
  if (length == 0 || lead >= 0xF8 || bytes.size() > length) return false;
  if (whole && bytes.size() != length) return false;
  uint32_t low = length == 1 ? lead : lead & (0x7Fu >> length), high = low;
  for (size_t i = 1; i < length; ++i) {
    const bool given = i < bytes.size();
    if (given && (static_cast<uint8_t>(bytes[i]) & 0xC0) != 0x80) return false;
    low = low << 6 | (given ? bytes[i] & 0x3Fu : 0x00);
    high = high << 6 | (given ? bytes[i] & 0x3Fu : 0x3F);
  }
  constexpr uint32_t kShortest[] = {0, 0, 0x80, 0x800, 0x10000};
  for (uint32_t c = std::max(low, kShortest[length]); c <= high; ++c)
    if (is_scalar(c)) return true;
  return false;
}

std::string lossy(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    size_t length = 1;
    while (length < bytes.size() && begins_character(bytes.substr(0, length + 1), false)) ++length;
    out +=
        begins_character(bytes.substr(0, length), true) ? bytes.substr(0, length) : "\xEF\xBF\xBD";
    bytes.remove_prefix(length);
  }
  return out;
}

std::string assembled(std::string_view bytes, size_t chunk) {
  Utf8Assembler assembler;
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += chunk) assembler.feed(bytes.substr(at, chunk), out);
  assembler.finish(out);
  return out;
}

/// Bytes that are often, but not always, UTF-8.
std::string noise(std::mt19937& random, size_t size) {
  constexpr std::string_view kPieces[] = {"a",
                                          "é",
                                          "日",
                                          "😀",
                                          "\x80",
                                          "\xBF",
                                          "\xC0",
                                          "\xC2",
                                          "\xE0",
                                          "\xE0\xA0",
                                          "\xED\xA0",
                                          "\xF0",
                                          "\xF0\x90\x80",
                                          "\xF4\x90",
                                          "\xF5",
                                          "\xFF",
                                          "\xED\x9F\xBF",
                                          "\xF4\x8F\xBF\xBF",
                                          "\xEF\xBF"};
  std::string bytes;
  while (bytes.size() < size) {
    if (random() % 4 == 0) {
      bytes += static_cast<char>(random());
    } else {
      bytes += kPieces[random() % std::size(kPieces)];
    }
  }
  return bytes;
}

TEST(Utf8, every_scalar_value_is_one_character) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (!is_scalar(c)) continue;
    std::string text;
    append_utf8(text, c);
    const Utf8Step step = utf8_step(text);
    ASSERT_EQ(step.kind, Utf8Step::Kind::character) << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(step.bytes, text.size());
    ASSERT_EQ(utf8_valid_prefix(text), text.size());
  }
}

TEST(Utf8, surrogates_overlong_forms_and_what_lies_beyond_unicode_are_invalid) {
  for (const std::string_view bytes :
       {"\xED\xA0\x80", "\xED\xBF\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE", "\xFF", "\x80"}) {
    EXPECT_EQ(utf8_step(bytes).kind, Utf8Step::Kind::invalid);
    EXPECT_EQ(utf8_step(bytes).bytes, 1u);
    EXPECT_EQ(utf8_valid_prefix("12345678" + std::string(bytes)), 8u);
  }
}

TEST(Utf8, valid_prefix_ends_at_the_first_byte_that_is_not_part_of_a_character) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::string bytes = noise(random, random() % 40);
    const size_t valid = utf8_valid_prefix(bytes);
    EXPECT_EQ(lossy(bytes.substr(0, valid)), bytes.substr(0, valid));
    if (valid < bytes.size()) {
      EXPECT_NE(utf8_step(std::string_view(bytes).substr(valid)).kind, Utf8Step::Kind::character);
    }
  }
}

TEST(Utf8Assembler, one_replacement_per_maximal_invalid_part) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(assembled("\xE2\x82", 1), r);
  EXPECT_EQ(assembled("\xF0\x9F\x98", 1), r);
  EXPECT_EQ(assembled("\xE0\x80\x80", 1), r + r + r);
  EXPECT_EQ(assembled("\xF0\x90\x80\x41", 1), r + "A");
  EXPECT_EQ(assembled("\xED\xA0\x80!", 2), r + r + r + "!");
  EXPECT_EQ(assembled("a\xF1\x80\x80\xE1\x80\xC2"
                      "b\x80"
                      "c\x80\xBF"
                      "d",
                      3),
            "a" + r + r + r + "b" + r + "c" + r + r + "d");
}

TEST(Utf8Assembler, joined_output_equals_lossy_decoding_for_every_split) {
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    const std::string bytes = noise(random, random() % 24);
    const std::string expected = lossy(bytes);
    for (size_t chunk = 1; chunk <= bytes.size() + 1; ++chunk)
      ASSERT_EQ(assembled(bytes, chunk), expected) << "chunk " << chunk << " round " << round;
    for (size_t split = 0; split <= bytes.size(); ++split) {
      Utf8Assembler assembler;
      std::string out;
      assembler.feed(bytes.substr(0, split), out);
      assembler.feed({}, out);
      assembler.feed(bytes.substr(split), out);
      assembler.finish(out);
      ASSERT_EQ(out, expected) << "split " << split << " round " << round;
    }
  }
}

TEST(Utf8Assembler, never_emits_half_a_character_and_keeps_at_most_three_bytes) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::string bytes = noise(random, 60);
    Utf8Assembler assembler;
    for (const char byte : bytes) {
      std::string out;
      assembler.feed({&byte, 1}, out);
      ASSERT_EQ(utf8_valid_prefix(out), out.size());
      ASSERT_LE(assembler.pending(), 3u);
    }
  }
}

TEST(Utf8Assembler, can_be_used_again_after_finish) {
  Utf8Assembler assembler;
  std::string out;
  assembler.feed("\xE6", out);
  assembler.finish(out);
  assembler.finish(out);
  assembler.feed("日", out);
  assembler.finish(out);
  EXPECT_EQ(out, "\xEF\xBF\xBD日");
}

}  // namespace
}  // namespace yoke::engine
