// golden/chat: requests and the prompts that the public templates make of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "engine/chat/render.h"

namespace yoke::engine {
namespace {

struct GoldenCase {
  std::string file;
  std::string name;
  Json request;
  const Json* rendered = nullptr;  // null: must be refused
  ChatInput input;

  std::string scenario() const { return name.substr(0, name.rfind('_')); }
};

struct Golden {
  std::vector<Json> lines;
  std::vector<GoldenCase> cases;
};

ChatInput input_of(const Json& request, ChatInput::Variant variant) {
  ChatInput input;
  input.messages = request.find("messages");
  input.tools = request.find("tools");
  input.reasoning_effort = request.find("reasoning_effort");
  input.clear_thinking = request.find("clear_thinking");
  input.add_generation_prompt = request.find("add_generation_prompt");
  input.thinking = request.find("thinking");
  input.enable_thinking = request.find("enable_thinking");
  input.variant = variant;
  return input;
}

Golden load_golden() {
  const char* root = std::getenv("YOKE_GOLDEN_ROOT");
  const auto folder = std::filesystem::path(root != nullptr ? root : YOKE_GOLDEN_ROOT) / "chat";
  Golden golden;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      auto parsed = parse_json(line, entry.path().string());
      EXPECT_TRUE(parsed.ok());
      if (!parsed.ok()) continue;
      golden.lines.push_back(*std::move(parsed));
      files.push_back(entry.path().stem().string());
    }
  }
  for (size_t i = 0; i < golden.lines.size(); ++i) {
    const Json& line = golden.lines[i];
    auto request = parse_json(line.find("request")->as_string(), "request");
    EXPECT_TRUE(request.ok());
    EXPECT_TRUE(files[i] == "official" || files[i] == "mia") << files[i];
    if (!request.ok()) continue;
    golden.cases.push_back({.file = files[i],
                            .name = line.find("name")->as_string(),
                            .request = *std::move(request),
                            .rendered = line.find("rendered"),
                            .input = {}});
  }
  for (GoldenCase& c : golden.cases) {
    c.input = input_of(c.request,
                       c.file == "mia" ? ChatInput::Variant::mia : ChatInput::Variant::official);
  }
  return golden;
}

// The README of the set lets a server refuse `corner` and parse `string_arguments` itself; this
// renderer prints both as the template does.
TEST(RenderGolden, every_case_is_exact_or_refused_where_the_template_raises) {
  const Golden golden = load_golden();
  std::map<std::string, int> count;
  for (const GoldenCase& c : golden.cases) {
    SCOPED_TRACE(c.file + " " + c.name);
    ++count[c.file];
    const auto chat = render_chat(c.input);
    if (c.rendered == nullptr) {
      EXPECT_FALSE(chat.ok());
      continue;
    }
    EXPECT_TRUE(chat.ok()) << (chat.ok() ? "" : chat.error().message);
    if (chat.ok()) {
      EXPECT_EQ(chat->text, c.rendered->as_string());
    }
  }
  EXPECT_EQ(count.size(), 2u);
}

TEST(RenderGolden, ranges_and_boundaries_are_well_formed) {
  const Golden golden = load_golden();
  for (const GoldenCase& c : golden.cases) {
    SCOPED_TRACE(c.file + " " + c.name);
    const auto chat = render_chat(c.input);
    if (!chat.ok()) continue;
    size_t end = 0;
    for (size_t i = 0; i < chat->literal.size(); ++i) {
      const ByteRange range = chat->literal[i];
      ASSERT_LT(range.begin, range.end);
      ASSERT_LE(range.end, chat->text.size());
      ASSERT_TRUE(i == 0 || range.begin > end);  // disjoint, and joined where they touch
      end = range.end;
    }
    size_t last = 0;
    for (const size_t boundary : chat->boundaries) {
      ASSERT_GT(boundary, last);
      ASSERT_LE(boundary, chat->text.size());
      last = boundary;
    }
    const std::string_view tail = std::string_view(chat->text).substr(last);
    const bool generation =
        c.input.add_generation_prompt != nullptr && c.input.add_generation_prompt->truthy();
    if (!chat->boundaries.empty() && !generation) {
      EXPECT_TRUE(tail.empty());
    }
    EXPECT_EQ(chat->starts_in_reasoning,
              generation && chat->text.ends_with("<|assistant|><think>"));
  }
}

/// The same tree with every '<' of its strings and keys replaced by '('.
Json without_angles(const Json& value) {
  const auto replaced = [](std::string text) {
    for (char& c : text) c = c == '<' ? '(' : c;
    return text;
  };
  switch (value.kind()) {
    case Json::Kind::string:
      return Json::string(replaced(value.as_string()));
    case Json::Kind::array: {
      Json::Array items;
      for (const Json& item : value.items()) items.push_back(without_angles(item));
      return Json::array(std::move(items));
    }
    case Json::Kind::object: {
      Json::Object members;
      for (const auto& [key, member] : value.members()) {
        members.emplace_back(replaced(key), without_angles(member));
      }
      return Json::object(std::move(members));
    }
    default:
      return value;
  }
}

// An independent view of where text came from: a '<' that the replacement changed is the request's,
// one that stayed is the template's. The first kind must lie inside the ranges, the second outside.
TEST(RenderGolden, ranges_hold_what_the_request_wrote_and_nothing_else) {
  const Golden golden = load_golden();
  size_t compared = 0;
  size_t quoted = 0;
  for (const GoldenCase& c : golden.cases) {
    SCOPED_TRACE(c.file + " " + c.name);
    const Json plain = without_angles(c.request);
    const auto chat = render_chat(c.input);
    const auto other = render_chat(input_of(plain, c.input.variant));
    if (!chat.ok() || !other.ok()) continue;
    if (chat->text.size() != other->text.size()) continue;  // think tags in content were split
    ++compared;
    EXPECT_EQ(chat->literal, other->literal);
    std::vector<bool> literal(chat->text.size(), false);
    for (const ByteRange range : chat->literal) {
      for (size_t i = range.begin; i < range.end; ++i) literal[i] = true;
    }
    for (size_t i = 0; i < chat->text.size(); ++i) {
      if (chat->text[i] != '<') continue;
      quoted += literal[i];
      ASSERT_EQ(literal[i], other->text[i] == '(') << "byte " << i;
    }
  }
  EXPECT_GT(compared, golden.cases.size() * 3 / 4);
  EXPECT_GT(quoted, 100u);
}

// design.md 3: marking changes no id of a prompt whose request holds no control token's text.
TEST(RenderGolden, marked_prompts_have_the_ids_of_the_whole_string) {
  const auto tokenizer =
      Tokenizer::load(std::string(YOKE_SOURCE_DIR) + "/tools/nano/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const auto holds_added_token = [&](std::string_view text) {
    for (const AddedToken& token : tokenizer->added_tokens()) {
      if (text.find(token.content) != text.npos) return true;
    }
    return false;
  };
  const Golden golden = load_golden();
  size_t compared = 0;
  size_t defended = 0;
  for (const GoldenCase& c : golden.cases) {
    SCOPED_TRACE(c.file + " " + c.name);
    const auto chat = render_chat(c.input);
    if (!chat.ok()) continue;
    bool hostile = false;
    for (const ByteRange r : chat->literal) {
      hostile |= holds_added_token(std::string_view(chat->text).substr(r.begin, r.end - r.begin));
    }
    const auto marked = tokenizer->encode(chat->text, chat->literal);
    const auto whole = tokenizer->encode_ids(chat->text);
    ASSERT_TRUE(marked.ok() && whole.ok());
    EXPECT_EQ(tokenizer->decode(marked->ids), chat->text);
    if (hostile) {
      defended += marked->ids != *whole;
    } else {
      ++compared;
      EXPECT_EQ(marked->ids, *whole);
    }
  }
  EXPECT_GT(compared, golden.cases.size() / 4);
  EXPECT_GT(defended, 20u);
}

}  // namespace
}  // namespace yoke::engine
