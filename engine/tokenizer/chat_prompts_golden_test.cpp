// What holds for the ids of every prompt of tests/golden/chat, whatever wrote the prompt.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "engine/tokenizer/tokenizer.h"

namespace yoke::engine {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

const Tokenizer& nano() {
  static const Tokenizer loaded =
      std::move(Tokenizer::load(YOKE_SOURCE_DIR "/tools/nano/tokenizer.json")).value();
  return loaded;
}

struct Prompt {
  std::string name;
  std::string text;
};

const std::vector<Prompt>& prompts() {
  static const std::vector<Prompt> all = [] {
    const char* root = std::getenv("YOKE_GOLDEN_ROOT");
    std::vector<Prompt> read;
    for (const auto& entry :
         fs::directory_iterator(fs::path(root != nullptr ? root : YOKE_GOLDEN_ROOT) / "chat")) {
      if (entry.path().extension() != ".jsonl") continue;
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        const json::value value = json::parse(line);
        if (const json::value* rendered = value.as_object().if_contains("rendered"))
          read.push_back(
              {entry.path().stem().string() + " " + json::value_to<std::string>(value.at("name")),
               json::value_to<std::string>(*rendered)});
      }
    }
    return read;
  }();
  return all;
}

struct Tag {
  size_t begin, end;
  int32_t id;
};

/// The places of control tokens, found the slow way.
std::vector<Tag> tags_of(std::string_view text) {
  std::vector<Tag> tags;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* longest = nullptr;
    for (const AddedToken& token : nano().added_tokens()) {
      if (text.substr(at).starts_with(token.content) &&
          (longest == nullptr || token.content.size() > longest->content.size()))
        longest = &token;
    }
    if (longest != nullptr) tags.push_back({at, at + longest->content.size(), longest->id});
    at += longest != nullptr ? longest->content.size() : 1;
  }
  return tags;
}

TEST(ChatPromptsGolden, there_are_prompts) {
  EXPECT_GT(prompts().size(), 0u);
}

TEST(ChatPromptsGolden, every_tag_is_its_id_and_decoding_gives_the_prompt_back) {
  for (const Prompt& prompt : prompts()) {
    SCOPED_TRACE(prompt.name);
    const auto encoded = nano().encode(prompt.text).value();
    EXPECT_EQ(nano().decode(encoded.ids), prompt.text);
    std::vector<int32_t> found, expected;
    for (const int32_t id : encoded.ids)
      if (nano().is_added(id)) found.push_back(id);
    for (const Tag& tag : tags_of(prompt.text)) expected.push_back(tag.id);
    EXPECT_EQ(found, expected);
  }
}

TEST(ChatPromptsGolden, between_tags_the_ids_are_those_of_the_text_alone) {
  for (const Prompt& prompt : prompts()) {
    SCOPED_TRACE(prompt.name);
    std::vector<int32_t> joined;
    const auto append = [&](size_t begin, size_t end) {
      const auto ids =
          nano().encode_plain(std::string_view(prompt.text).substr(begin, end - begin));
      joined.insert(joined.end(), ids->begin(), ids->end());
    };
    size_t done = 0;
    for (const Tag& tag : tags_of(prompt.text)) {
      append(done, tag.begin);
      joined.push_back(tag.id);
      done = tag.end;
    }
    append(done, prompt.text.size());
    EXPECT_EQ(nano().encode_ids(prompt.text).value(), joined);
  }
}

// design.md 3: ranges change the ids of tags that they touch, and nothing else.
TEST(ChatPromptsGolden, ranges_between_tags_leave_the_ids_of_the_whole_string) {
  std::mt19937 random(15);
  for (const Prompt& prompt : prompts()) {
    SCOPED_TRACE(prompt.name);
    std::vector<Tag> tags = tags_of(prompt.text);
    tags.push_back({prompt.text.size(), prompt.text.size(), -1});
    std::vector<ByteRange> literal;
    size_t at = 0;
    for (const Tag& tag : tags) {
      while (at < tag.begin) {
        const size_t begin = at + random() % 4;
        const size_t end = begin + random() % 40;
        if (end > tag.begin) break;
        literal.push_back({begin, end});
        at = end;
      }
      at = tag.end;
    }
    EXPECT_EQ(nano().encode(prompt.text, literal)->ids, nano().encode_ids(prompt.text).value());
  }
}

TEST(ChatPromptsGolden, a_tag_under_a_range_becomes_ordinary_text_and_the_others_stay) {
  std::mt19937 random(16);
  for (const Prompt& prompt : prompts()) {
    SCOPED_TRACE(prompt.name);
    std::vector<ByteRange> literal;
    std::vector<int32_t> expected, found;
    for (const Tag& tag : tags_of(prompt.text)) {
      if (random() % 2 == 0) {
        expected.push_back(tag.id);
      } else {
        const size_t byte = tag.begin + random() % (tag.end - tag.begin);
        literal.push_back({byte, byte + 1});
      }
    }
    const auto ids = nano().encode(prompt.text, literal)->ids;
    for (const int32_t id : ids)
      if (nano().is_added(id)) found.push_back(id);
    EXPECT_EQ(found, expected);
    EXPECT_EQ(nano().decode(ids), prompt.text);
  }
}

}  // namespace
}  // namespace yoke::engine
