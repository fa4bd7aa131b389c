#include "engine/tokenizer/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/tokenizer/utf8.h"

namespace yoke::engine {
namespace {

TEST(ByteAlphabet, symbols_are_those_of_the_specification) {
  EXPECT_EQ(byte_symbol('!'), U'!');
  EXPECT_EQ(byte_symbol('~'), U'~');
  EXPECT_EQ(byte_symbol(0x00), 0x100u);
  EXPECT_EQ(byte_symbol('\n'), U'Ċ');
  EXPECT_EQ(byte_symbol(' '), U'Ġ');
  EXPECT_EQ(byte_symbol(0x7F), 0x121u);
  EXPECT_EQ(byte_symbol(0xA0), 0x142u);
  EXPECT_EQ(byte_symbol(0xA1), 0xA1u);
  EXPECT_EQ(byte_symbol(0xAD), 0x143u);
  EXPECT_EQ(byte_symbol(0xFF), 0xFFu);
}

TEST(ByteAlphabet, every_byte_comes_back_from_its_own_symbol) {
  std::set<char32_t> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t symbol = byte_symbol(static_cast<uint8_t>(byte));
    EXPECT_TRUE(seen.insert(symbol).second);
    std::string text, bytes;
    append_utf8(text, symbol);
    ASSERT_TRUE(append_bytes_of_symbols(text, bytes));
    EXPECT_EQ(bytes, std::string(1, static_cast<char>(byte)));
  }
}

TEST(ByteAlphabet, other_characters_stand_for_no_byte) {
  for (const std::string_view text : {" ", "\n", "\x7F", "\u00A0", "\u00AD", "\u0144", "日", "😀"}) {
    std::string bytes;
    EXPECT_FALSE(append_bytes_of_symbols("a" + std::string(text), bytes)) << text;
  }
}

}  // namespace
}  // namespace yoke::engine
