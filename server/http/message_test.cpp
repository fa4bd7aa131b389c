#include "server/http/message.h"

#include <gtest/gtest.h>

namespace yoke::server {
namespace {

TEST(Message, header_names_compare_without_case) {
  Headers headers;
  headers.add("Content-Type", "a");
  headers.add("content-type", "b");
  ASSERT_NE(headers.find("CONTENT-TYPE"), nullptr);
  EXPECT_EQ(*headers.find("CONTENT-TYPE"), "a");
  EXPECT_EQ(headers.find("content-typ"), nullptr);
}

TEST(Message, percent_escapes_are_decoded_and_broken_ones_kept) {
  EXPECT_EQ(percent_decoded("a%2Fb%2fc"), "a/b/c");
  EXPECT_EQ(percent_decoded("%"), "%");
  EXPECT_EQ(percent_decoded("%4"), "%4");
  EXPECT_EQ(percent_decoded("%zz%41"), "%zzA");
}

TEST(Message, request_ids_are_visible_ascii_of_bounded_length) {
  EXPECT_TRUE(is_usable_request_id("4d8f6c5e-7f0b"));
  EXPECT_TRUE(is_usable_request_id(std::string(128, 'a')));
  for (const std::string& bad : {std::string(), std::string(129, 'a'), std::string("a b"),
                                 std::string("a\r\nx: y"), std::string("\xC3\xA9")})
    EXPECT_FALSE(is_usable_request_id(bad)) << bad;
}

TEST(Message, heads_cannot_be_split_by_a_value) {
  Headers headers;
  headers.add("x-echo", "a\r\nset-cookie: b");
  const std::string head = format_head({.status = 200, .content_length = 0}, headers);
  EXPECT_EQ(head.find("\nset-cookie"), std::string::npos);
  EXPECT_EQ(head.substr(0, 17), "HTTP/1.1 200 OK\r\n");
  EXPECT_EQ(head.substr(head.size() - 4), "\r\n\r\n");
}

TEST(Message, chunks_carry_their_size_in_hex) {
  EXPECT_EQ(format_chunk("hello"), "5\r\nhello\r\n");
  EXPECT_EQ(format_chunk(std::string(26, 'x')), "1a\r\n" + std::string(26, 'x') + "\r\n");
}

}  // namespace
}  // namespace yoke::server
