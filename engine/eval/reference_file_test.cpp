#include "engine/eval/reference_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace yoke::engine {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ReferenceFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("yoke_eval_" + std::to_string(::getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path path() const { return folder_ / "ref.safetensors"; }

  static std::vector<float> row(size_t n) {
    return {static_cast<float>(n), 0.5f, -1.0f, static_cast<float>(n) * 2};
  }
  /// Two texts of 3 and 2 tokens, four ids.
  void write() const {
    auto writer = ReferenceWriter::create(path(), kOrigin, kTexts);
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    for (size_t n = 0; n < 5; ++n) ASSERT_TRUE(writer->add(row(n)).ok());
    ASSERT_TRUE(writer->finish().ok());
  }
  std::string bytes() const {
    std::ifstream file(path(), std::ios::binary);
    std::ostringstream out;
    out << file.rdbuf();
    return out.str();
  }
  std::string error_of(const std::string& content) const {
    std::ofstream(path(), std::ios::binary) << content;
    const auto file = ReferenceFile::open(path());
    return file.ok() ? "" : file.error().message;
  }

  static inline const ReferenceOrigin kOrigin{"nano", "abc", "fp32", 4};
  static inline const std::vector<ReferenceText> kTexts = {{"a \"quoted\" name", {0, 3, 1}},
                                                           {"b", {2, 2}}};
  fs::path folder_;
};

TEST_F(ReferenceFiles, what_was_written_is_read) {
  write();
  EXPECT_FALSE(fs::exists(path().string() + ".partial"));
  const auto file = ReferenceFile::open(path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->origin().model, "nano");
  EXPECT_EQ(file->origin().identity, "abc");
  EXPECT_EQ(file->origin().precision, "fp32");
  EXPECT_EQ(file->origin().vocab, 4);
  ASSERT_EQ(file->texts().size(), 2u);
  EXPECT_EQ(file->texts()[0].name, kTexts[0].name);
  EXPECT_EQ(file->texts()[1].tokens, kTexts[1].tokens);
  std::vector<float> got(4);
  for (size_t n = 0; n < 5; ++n) {
    ASSERT_TRUE(file->read_row(n < 3 ? 0 : 1, n < 3 ? n : n - 3, got).ok());
    EXPECT_EQ(got, row(n)) << n;
  }
}

TEST_F(ReferenceFiles, unfinished_file_leaves_nothing) {
  {
    auto writer = ReferenceWriter::create(path(), kOrigin, kTexts);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->add(row(0)).ok());
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(ReferenceFiles, folders_that_cannot_be_written_and_empty_texts_are_errors) {
  const auto nowhere = ReferenceWriter::create(folder_ / "no" / "ref", kOrigin, kTexts);
  ASSERT_FALSE(nowhere.ok());
  EXPECT_THAT(nowhere.error().message, HasSubstr("cannot write"));
  const std::vector<ReferenceText> empty = {{"e", {}}};
  EXPECT_THAT(ReferenceWriter::create(path(), kOrigin, empty).error().message,
              HasSubstr("has no tokens"));
  EXPECT_FALSE(ReferenceWriter::create(path(), kOrigin, {}).ok());
}

TEST_F(ReferenceFiles, cut_or_foreign_files_are_named_errors) {
  EXPECT_THAT(ReferenceFile::open(path()).error().message, HasSubstr("ref.safetensors"));
  write();
  const std::string good = bytes();
  for (size_t size = 0; size < good.size(); size += 7)
    EXPECT_NE(error_of(good.substr(0, size)), "") << size;
  const auto replaced = [&](std::string_view from, std::string_view to) {
    std::string bad = good;
    const size_t at = bad.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    EXPECT_EQ(from.size(), to.size());
    bad.replace(at, from.size(), to);
    return error_of(bad);
  };
  EXPECT_EQ(error_of(good), "");
  EXPECT_THAT(replaced("yoke-eval-1", "yoke-eval-9"), HasSubstr("yoke eval --save"));
  EXPECT_THAT(replaced("\"vocab\":\"4\"", "\"vocab\":\"x\""), HasSubstr("vocab"));
  EXPECT_THAT(replaced("\"vocab\":\"4\"", "\"vocab\":\"3\""), HasSubstr("text.0.logits"));
  EXPECT_THAT(replaced("text.0.tokens", "text.9.tokens"), HasSubstr("no text"));
  EXPECT_THAT(replaced(std::string("\3\0\0\0\1\0\0\0", 8), std::string("\7\0\0\0\1\0\0\0", 8)),
              HasSubstr("id 7 of a vocabulary of 4"));
}

}  // namespace
}  // namespace yoke::engine
