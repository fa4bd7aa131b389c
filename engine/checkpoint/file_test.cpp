#include "engine/checkpoint/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/checkpoint/test_folder.h"

namespace yoke::engine {
namespace {

using ::testing::HasSubstr;

TEST(File, reads_at_an_offset_and_says_where_a_file_ends) {
  test::TempFolder folder;
  const auto path = folder.path() / "f";
  test::write_file(path, "0123456789");
  const auto file = File::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->size(), 10u);
  EXPECT_EQ(file->name(), "f");
  std::string text(4, ' ');
  ASSERT_TRUE(file->read(3, std::as_writable_bytes(std::span(text))).ok());
  EXPECT_EQ(text, "3456");

  std::filesystem::resize_file(path, 5);
  const auto cut = file->read(3, std::as_writable_bytes(std::span(text)));
  ASSERT_FALSE(cut.ok());
  EXPECT_THAT(cut.error().message, HasSubstr("f: file ends at byte 5, wanted 7"));
}

TEST(File, a_moved_file_still_reads) {
  test::TempFolder folder;
  test::write_file(folder.path() / "a", "aaaa");
  test::write_file(folder.path() / "b", "bbbb");
  auto a = File::open(folder.path() / "a");
  auto b = File::open(folder.path() / "b");
  ASSERT_TRUE(a.ok() && b.ok());
  File moved = std::move(*a);
  moved = std::move(*b);
  std::string text(4, ' ');
  ASSERT_TRUE(moved.read(0, std::as_writable_bytes(std::span(text))).ok());
  EXPECT_EQ(text, "bbbb");
}

TEST(Printable, escapes_controls_and_what_is_not_utf8) {
  EXPECT_EQ(printable("plain äöü 😀"), "plain äöü 😀");
  EXPECT_EQ(printable(std::string_view("\n\x1b[\0\x7f", 5)), "\\x0a\\x1b[\\x00\\x7f");
  EXPECT_EQ(printable("\xff\xe2\x28"), "\\xff\\xe2(");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b") << "CSI as one character";
}

TEST(Quote, cuts_long_text_between_characters) {
  EXPECT_EQ(quote("x"), "'x'");
  std::string umlauts;
  for (int i = 0; i < 200; ++i) umlauts += "ä";
  EXPECT_EQ(quote("x" + umlauts), "'x" + umlauts.substr(0, 198) + "'…");
}

}  // namespace
}  // namespace yoke::engine
