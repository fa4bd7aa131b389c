#include "engine/chat/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/chat/prompt_text.h"

namespace yoke::engine {
namespace {

using config::ErrorKind;
using testing::ElementsAre;

constexpr std::string_view kHead = "[gMASK]<sop><|system|>Reasoning Effort: Max";

/// Renders a request given as JSON text with the template's inputs as members.
config::Result<RenderedChat> render(std::string_view request,
                                    ChatInput::Variant variant = ChatInput::Variant::mia,
                                    size_t max_text_bytes = 64 << 20) {
  auto parsed = parse_json(request, "request");
  EXPECT_TRUE(parsed.ok()) << request;
  if (!parsed.ok()) return parsed.error();
  ChatInput input;
  input.messages = parsed->find("messages");
  input.tools = parsed->find("tools");
  input.reasoning_effort = parsed->find("reasoning_effort");
  input.clear_thinking = parsed->find("clear_thinking");
  input.add_generation_prompt = parsed->find("add_generation_prompt");
  input.thinking = parsed->find("thinking");
  input.enable_thinking = parsed->find("enable_thinking");
  input.variant = variant;
  input.max_text_bytes = max_text_bytes;
  return render_chat(input);
}

std::string text_of(std::string_view request,
                    ChatInput::Variant variant = ChatInput::Variant::mia) {
  const auto chat = render(request, variant);
  return chat.ok() ? chat->text : chat.error().message;
}

std::string error_of(std::string_view request,
                     ChatInput::Variant variant = ChatInput::Variant::mia) {
  const auto chat = render(request, variant);
  EXPECT_FALSE(chat.ok()) << request;
  return chat.ok() ? "" : chat.error().message;
}

std::vector<std::string> quoted(const RenderedChat& chat) {
  std::vector<std::string> parts;
  for (const ByteRange r : chat.literal)
    parts.push_back(chat.text.substr(r.begin, r.end - r.begin));
  return parts;
}

std::vector<std::string> messages_of(const RenderedChat& chat) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (const size_t end : chat.boundaries) {
    parts.push_back(chat.text.substr(begin, end - begin));
    begin = end;
  }
  parts.push_back(chat.text.substr(begin));
  return parts;
}

TEST(Render, request_text_is_literal_and_template_text_is_not) {
  const auto chat = render(R"({"add_generation_prompt":true,
    "tools":[{"type":"function","function":{"name":"<|user|>","strict":true,"p":{}}}],
    "messages":[
      {"role":"system","content":"S<|user|>"},
      {"role":"user","content":["a</think>",{"type":"text","text":"b"},{"type":"image"},"c"]},
      {"role":"assistant","content":" x<tool_call> ","reasoning_content":"r<think>","tool_calls":[
        {"id":"1","function":{"name":"f<arg_key>","arguments":{"k</arg_key>":"v","n":[1]}}}]},
      {"role":"tool","tool_call_id":"1","content":"<tool_response>"}]})");
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  EXPECT_THAT(
      quoted(*chat),
      ElementsAre(R"({"name": "<|user|>", "p": {}})", "S<|user|>", "a</think>b", "c", "r<think>",
                  "x<tool_call>", "f<arg_key>", "k</arg_key>", "v", "n", "[1]", "<tool_response>"));
  EXPECT_TRUE(chat->starts_in_reasoning);
}

TEST(Render, split_reasoning_stays_literal_and_its_tags_become_the_templates) {
  const auto chat = render(
      R"({"messages":[{"role":"assistant","content":["<th","ink>r<thi",{"type":"image"},
        "</thi","nk> a </think> b "]}]})");
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->text, std::string(kHead) +
                            "<|assistant|><think>r<thi<|begin_of_image|><|image|><|end_of_image|>"
                            "</think>b");
  EXPECT_THAT(quoted(*chat), ElementsAre("r<thi", "b"));
}

TEST(Render, boundaries_follow_each_message_and_each_run_of_results) {
  const auto chat = render(R"({"add_generation_prompt":true,"messages":[
    {"role":"system","content":"s"},{"role":"user","content":""},{"role":"developer","content":"d"},
    {"role":"assistant","content":"a","tool_calls":[]},{"role":"tool","content":"1"},
    {"role":"tool","content":"2"},{"role":"nobody"},{"role":"tool","content":"3"}]})");
  ASSERT_TRUE(chat.ok());
  EXPECT_THAT(
      messages_of(*chat),
      ElementsAre(std::string(kHead) + "<|system|>s", "<|user|>", "<|assistant|><think></think>a",
                  "<|observation|><tool_response>1</tool_response><tool_response>2</tool_response>",
                  "<|observation|><tool_response>3</tool_response>", "<|assistant|><think>"));
}

TEST(Render, nothing_at_all_is_the_effort_line) {
  const auto chat = render("{}");
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->text, kHead);
  EXPECT_TRUE(chat->literal.empty());
  EXPECT_TRUE(chat->boundaries.empty());
  EXPECT_FALSE(chat->starts_in_reasoning);
}

TEST(Render, thinking_off_drops_the_effort_line_and_closes_the_block) {
  const auto chat = render(R"({"enable_thinking":false,"add_generation_prompt":true,
                               "messages":[{"role":"user","content":"u"}]})");
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->text, "[gMASK]<sop><|user|>u<|assistant|><think></think>");
  EXPECT_FALSE(chat->starts_in_reasoning);
  EXPECT_EQ(text_of(R"({"thinking":null})"), "[gMASK]<sop>");
  EXPECT_EQ(text_of(R"({"thinking":false,"enable_thinking":1})"), kHead);
}

TEST(Render, official_variant_does_not_know_the_switches) {
  const auto chat =
      render(R"({"enable_thinking":false,"add_generation_prompt":true,"reasoning_effort":"low"})",
             ChatInput::Variant::official);
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->text, "[gMASK]<sop><|system|>Reasoning Effort: Low<|assistant|><think>");
  EXPECT_TRUE(chat->starts_in_reasoning);
}

TEST(Render, string_arguments_are_empty_for_mia_and_refused_by_the_official_template) {
  constexpr std::string_view kRequest =
      R"({"messages":[{"role":"assistant","tool_calls":[{"name":"f","arguments":"{}"}]}]})";
  EXPECT_EQ(text_of(kRequest),
            std::string(kHead) + "<|assistant|><think></think><tool_call>f</tool_call>");
  EXPECT_EQ(error_of(kRequest, ChatInput::Variant::official),
            "messages[0].tool_calls[0].arguments: want an object, found a string");
}

TEST(Render, errors_name_the_path_of_the_value) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"messages":null})", "messages: want an array, found null"},
      {R"({"messages":{"role":"user"}})", "messages: want an array, found an object"},
      {R"({"tools":"f"})", "tools: want an array of objects, found a string"},
      {R"({"tools":[{},7]})", "tools[1]: want an object, found a number"},
      {R"({"tools":[{"function":null}]})", "tools[0].function: want an object, found null"},
      {R"({"messages":[{},{"role":"assistant","tool_calls":"f"}]})",
       "messages[1].tool_calls: want an array of objects, found a string"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{"arguments":{}},true]}]})",
       "messages[0].tool_calls[1]: want an object, found a boolean"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{"function":"f"}]}]})",
       "messages[0].tool_calls[0].function: want an object, found a string"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}]})",
       "messages[0].tool_calls[0].function.arguments: want an object, found nothing"},
      {R"({"messages":[{"role":"tool","content":{"a":1}}]})",
       "messages[0].content: want a string or an array, found an object"},
      {R"({"messages":[{"role":"tool","content":[{"type":"tool_reference"}]}]})",
       "messages[0].content: a tool reference needs tools in the request"},
      {R"({"messages":[{"role":"user","content":[{"type":"text","text":["é"]}]}]})",
       "messages[0].content[0].text: a string inside an array or object has non-ASCII text, which "
       "cannot be printed as Python would; send the value as a string"},
  };
  for (const auto& [request, message] : cases) EXPECT_EQ(error_of(request), message) << request;
}

TEST(Render, tool_references_reveal_deferred_tools_in_order_of_declaration) {
  EXPECT_EQ(
      text_of(R"({"tools":[{"name":"a","defer_loading":true},{"name":"b"},
                                 {"function":{"name":"a","strict":1,"x":2}}],
                        "messages":[{"role":"tool","content":[{"type":"tool_reference","name":"a"},
                          {"type":"tool_reference","name":"zzz"},"b"]}]})")
          .substr(text_of(R"({"tools":[{"name":"b"},{"name":"a","x":2}]})").size()),
      "<|observation|><tool_response><tools>\n{\"name\": \"a\"}\n{\"name\": \"a\", \"x\": 2}\n"
      "</tools></tool_response>");
}

TEST(Render, text_beyond_the_limit_is_refused) {
  std::string references;
  for (int i = 0; i < 1000; ++i) references += ",{}";
  const std::string request = R"({"tools":[{"d":")" + std::string(2000, 'x') +
                              R"("}],"messages":[{"role":"tool","content":[
                                {"type":"tool_reference"})" +
                              references + "]}]}";
  EXPECT_TRUE(render(request, ChatInput::Variant::mia, 4 << 20).ok());
  const auto chat = render(request, ChatInput::Variant::mia, 1 << 20);
  ASSERT_FALSE(chat.ok());
  EXPECT_EQ(chat.error().kind, ErrorKind::exhausted);
}

// Matching results to calls pair by pair would take minutes; the program's time limit catches it.
TEST(Render, many_results_are_matched_in_linear_time) {
  std::string calls;
  std::string results;
  constexpr int kCount = 50'000;
  for (int i = 0; i < kCount; ++i) {
    calls +=
        (i ? "," : "") + std::string("{\"arguments\":{},\"id\":") + std::to_string(i + 1) + "}";
    results += R"(,{"role":"tool","id":")" + std::to_string(kCount - i) + R"(","content":"r)" +
               std::to_string(kCount - i) + "\"}";
  }
  const std::string text =
      text_of(R"({"messages":[{"role":"assistant","tool_calls":[)" + calls + "]}" + results + "]}");
  EXPECT_NE(text.find("<|observation|><tool_response>r1</tool_response><tool_response>r2<"),
            text.npos);
}

TEST(PromptText, strip_removes_what_python_strips) {
  constexpr std::string_view kBlanks =
      "\t\n\v\f\r\x1c\x1d\x1e\x1f \u0085\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000";
  PromptText text;
  text.quote(kBlanks);
  text.write("<x");
  text.quote(" y");
  text.quote(kBlanks);
  const PromptText stripped = text.stripped();
  EXPECT_EQ(stripped.text(), "<x y");
  EXPECT_THAT(stripped.literal(), ElementsAre(ByteRange{2, 4}));
  for (const std::string_view kept : {"\u180e", "\u200b", "\u200d", "\u2060", "\ufeff", "\x1b"}) {
    PromptText other;
    other.quote(kept);
    EXPECT_EQ(other.stripped().text(), kept);
  }
  PromptText blank;
  blank.quote(kBlanks);
  EXPECT_EQ(blank.stripped().text(), "");
  EXPECT_TRUE(blank.stripped().literal().empty());
}

TEST(PromptText, touching_ranges_are_one) {
  PromptText text;
  text.quote("a");
  text.quote("");
  text.quote("b");
  text.write("c");
  text.quote("d");
  PromptText joined;
  joined.quote("-");
  joined.append(text);
  EXPECT_EQ(joined.text(), "-abcd");
  EXPECT_THAT(joined.literal(), ElementsAre(ByteRange{0, 3}, ByteRange{4, 5}));
  EXPECT_THAT(joined.slice(2, 5).literal(), ElementsAre(ByteRange{0, 1}, ByteRange{2, 3}));
}

}  // namespace
}  // namespace yoke::engine
