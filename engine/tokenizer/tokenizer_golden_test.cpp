// What the reference makes of text (tests/golden/tokenizer/README.md), exactly. Every *.jsonl of
// the folder is read; the tokenizer is $YOKE_GOLDEN_TOKENIZER, or nano's.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/tokenizer/tokenizer.h"

namespace yoke::engine {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

std::string environment_or(const char* name, std::string otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

fs::path golden_folder() {
  return fs::path(environment_or("YOKE_GOLDEN_ROOT", YOKE_GOLDEN_ROOT)) / "tokenizer";
}

const Tokenizer& tokenizer() {
  static const Tokenizer loaded = [] {
    auto result = Tokenizer::load(
        environment_or("YOKE_GOLDEN_TOKENIZER", YOKE_SOURCE_DIR "/tools/nano/tokenizer.json"));
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(*result);
  }();
  return loaded;
}

std::vector<int32_t> ids_of(const json::value& value) {
  std::vector<int32_t> ids;
  for (const json::value& id : value.as_array()) ids.push_back(static_cast<int32_t>(id.as_int64()));
  return ids;
}

std::string text_of(const json::value& value) {
  return json::value_to<std::string>(value);
}

void check_encoding(const json::object& golden, const std::string& text,
                    const std::vector<int32_t>& ids) {
  const auto encoded = tokenizer().encode(text);
  ASSERT_TRUE(encoded.ok()) << encoded.error().message;
  EXPECT_EQ(encoded->ids, ids);
  const auto plain = tokenizer().encode_plain(text);
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  const json::value* plain_ids = golden.if_contains("plain_ids");
  EXPECT_EQ(*plain, plain_ids != nullptr ? ids_of(*plain_ids) : ids);
}

void check_line(const json::object& golden) {
  const std::vector<int32_t> ids = ids_of(golden.at("ids"));
  const json::value* text = golden.if_contains("text");
  if (text != nullptr) check_encoding(golden, text_of(*text), ids);
  const json::value* decoded = golden.if_contains("decoded");
  ASSERT_TRUE(text != nullptr || decoded != nullptr);
  EXPECT_EQ(tokenizer().decode(ids), text_of(decoded != nullptr ? *decoded : *text));
  if (const json::value* skip = golden.if_contains("decoded_skip")) {
    EXPECT_EQ(tokenizer().decode(ids, /*skip_special=*/true), text_of(*skip));
  }
}

TEST(TokenizerGolden, every_text_and_id_list_matches_the_reference) {
  size_t lines = 0;
  for (const auto& entry : fs::directory_iterator(golden_folder())) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream file(entry.path());
    ASSERT_TRUE(file.good()) << entry.path();
    for (std::string line; std::getline(file, line); ++lines) {
      if (line.empty()) continue;
      const json::value golden = json::parse(line);
      SCOPED_TRACE(entry.path().filename().string() + ": " + text_of(golden.at("name")));
      check_line(golden.as_object());
    }
  }
  EXPECT_GT(lines, 0u) << "no values in " << golden_folder();
}

}  // namespace
}  // namespace yoke::engine
