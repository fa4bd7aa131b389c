#include "server/api/chat_output.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/json/json.h"
#include "server/api/chat_format.h"
#include "server/api/ids.h"

namespace yoke::server {
namespace {

using engine::Json;
using engine::Tokenizer;

const Tokenizer& nano() {
  static const auto tokenizer =
      Tokenizer::load(std::string(YOKE_SOURCE_DIR) + "/tools/nano/tokenizer.json");
  YOKE_CHECK(tokenizer.ok(), "nano's tokenizer does not load");
  return *tokenizer;
}

const Json& tools() {
  static const Json json = *engine::parse_json(
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":
          {"a":{"type":"string"},"n":{"type":"integer"}}}}},
          {"type":"function","function":{"name":"g","parameters":{"type":"object"}}}])",
      "tools");
  return json;
}

constexpr int32_t kEos = 1227;  // <|user|>

std::vector<int32_t> ids_of(std::string_view text) {
  auto ids = nano().encode_ids(text);
  YOKE_CHECK(ids.ok(), "script does not encode");
  return *ids;
}

struct Case {
  bool with_tools = true;
  bool reasoning = false;
  bool single_call = false;
  bool include_reasoning = true;
  std::vector<std::string> stop = {};
  bool include_stop = false;
  Ending ending = Ending::stop;
};

ChatOutputOptions options_of(const Case& c) {
  ChatOutputOptions options;
  options.parser.starts_in_reasoning = c.reasoning;
  options.parser.thinking = true;
  if (c.with_tools) options.parser.tools = &tools();
  options.parser.single_call = c.single_call;
  options.stop = c.stop;
  options.include_stop = c.include_stop;
  options.include_reasoning = c.include_reasoning;
  options.end_tokens = {1229, kEos, 1220};
  options.new_call_id = [n = 0]() mutable { return "call_" + std::to_string(n++); };
  return options;
}

/// `[reasoning][content] name:id:arguments… finish_reason tokens`
std::string play(const Case& c, const std::vector<int32_t>& tokens, size_t step) {
  ChatOutput output(nano(), options_of(c));
  PlainAnswer answer;
  std::vector<Delta> deltas;
  for (size_t i = 0; i < tokens.size() && !output.wants_stop(); i += step)
    output.feed(std::span(tokens).subspan(i, std::min(step, tokens.size() - i)), deltas);
  const std::string reason(output.finish(c.ending, deltas));
  std::string calls;
  bool call_seen = false;
  bool trailing = false;
  for (const Delta& delta : deltas) {
    EXPECT_FALSE(delta.text.empty());
    answer.add(delta);
    if (delta.kind == Delta::Kind::call_begin) {
      EXPECT_FALSE(trailing) << "content between calls";
      calls += " " + delta.text + ":" + delta.call_id + ":";
      call_seen = true;
    }
    if (delta.kind == Delta::Kind::call_arguments) calls += delta.text;
    if (delta.kind == Delta::Kind::content && call_seen) trailing = true;
  }
  return "[" + answer.reasoning() + "][" + answer.content() + "]" + calls + " " + reason + " " +
         std::to_string(output.completion_tokens());
}

/// The same for every grouping of the tokens into steps; `tokens` is how many count.
void expect(const Case& c, std::string_view script, const std::string& expected, bool eos = true) {
  std::vector<int32_t> tokens = ids_of(script);
  if (eos) tokens.push_back(kEos);
  const std::string whole = play(c, tokens, tokens.size());
  EXPECT_EQ(whole.substr(0, whole.rfind(' ')), expected) << script;
  for (const size_t step : {1, 2, 3, 5, 16}) EXPECT_EQ(play(c, tokens, step), whole) << step;
}

const std::string kCallA = "<tool_call>f<arg_key>a</arg_key><arg_value>x y</arg_value></tool_call>";

TEST(ChatOutput, reasoning_and_content_are_split_at_the_first_end_mark) {  // E6
  expect({.reasoning = true}, "I think.\n</think>\n\nSo: </think>yes", "[I think.][So: yes] stop");
  expect({.reasoning = true}, "never closed", "[never closed][] stop");
  expect({.reasoning = true, .include_reasoning = false}, "secret</think>open", "[][open] stop");
}

TEST(ChatOutput, an_answer_can_be_empty) {
  expect({}, "", "[][] stop");
}

TEST(ChatOutput, calls_of_one_step_are_both_complete) {  // C1
  expect({.reasoning = true}, "r</think>" + kCallA + "<tool_call>g</tool_call>",
         "[r][] f:call_0:{\"a\":\"x y\"} g:call_1:{} tool_calls");
}

TEST(ChatOutput, call_ends_reasoning_and_both_arrive) {  // C18
  expect({.reasoning = true}, "r" + kCallA, "[r][] f:call_0:{\"a\":\"x y\"} tool_calls");
}

TEST(ChatOutput, text_around_calls_is_content_in_order) {
  expect({}, "before " + kCallA + " \n", "[][before ] f:call_0:{\"a\":\"x y\"} tool_calls");
  expect({}, "before " + kCallA + " after",
         "[][before  after] f:call_0:{\"a\":\"x y\"} tool_calls");
  expect({}, "\n\n" + kCallA, "[][] f:call_0:{\"a\":\"x y\"} tool_calls");
}

TEST(ChatOutput, unknown_tools_and_requests_without_tools_get_text) {  // C7, C16
  expect({}, "<tool_call>nope</tool_call>", "[][<tool_call>nope</tool_call>] stop");
  expect({.with_tools = false}, kCallA, "[][" + kCallA + "] stop");
}

TEST(ChatOutput, limit_means_length_whatever_was_emitted) {  // rule 16
  expect({.ending = Ending::length}, "abc", "[][abc] length", false);
  expect({.ending = Ending::length}, kCallA, "[][] f:call_0:{\"a\":\"x y\"} length", false);
  expect({.ending = Ending::length}, kCallA + "<tool_call>f<arg_key>a</arg_key><arg_value>x",
         "[][] f:call_0:{\"a\":\"x y\"} f:call_1:{\"a\":\"x length", false);
}

TEST(ChatOutput, call_that_breaks_off_never_ends_as_tool_calls) {  // rules 15 and 16, C10, C14
  expect({}, "<tool_call>f<arg_key>a</arg_key><arg_value>x", "[][] f:call_0:{\"a\":\"x length");
  expect({}, kCallA + "<tool_call>f<arg_key>a", "[][] f:call_0:{\"a\":\"x y\"} f:call_1: length");
}

TEST(ChatOutput, failure_means_error) {
  expect({.ending = Ending::error}, "ab", "[][ab] error", false);
}

TEST(ChatOutput, single_call_ends_after_the_first) {
  std::vector<int32_t> tokens = ids_of(kCallA + kCallA);
  const std::string result = play({.single_call = true}, tokens, tokens.size());
  EXPECT_EQ(result,
            "[][] f:call_0:{\"a\":\"x y\"} tool_calls " + std::to_string(ids_of(kCallA).size()));
}

TEST(ChatOutput, stop_strings_cut_content_only) {  // F2
  expect({.reasoning = true, .stop = {"END"}}, "END in reasoning</think>abcENDdef",
         "[END in reasoning][abc] stop");
  expect({.stop = {"END"}, .include_stop = true}, "abcENDdef", "[][abcEND] stop");
  expect({.stop = {"x y"}}, kCallA + " done", "[][ done] f:call_0:{\"a\":\"x y\"} tool_calls");
  expect({.stop = {"abac"}}, "ababac", "[][ab] stop");
  expect({.stop = {"zzz"}}, "abcz", "[][abcz] stop");
}

TEST(ChatOutput, held_back_text_comes_before_a_call) {
  expect({.stop = {"ab<"}}, "ab" + kCallA, "[][ab] f:call_0:{\"a\":\"x y\"} tool_calls");
}

TEST(ChatOutput, characters_made_of_byte_tokens_arrive_whole) {  // F6, rule 9
  std::vector<int32_t> tokens;
  const std::string emoji = "\xF0\x9F\x98\x80";
  for (const char c : emoji)
    for (int32_t id = 0; id < 256; ++id)
      if (nano().token_bytes(id) == std::string_view(&c, 1)) tokens.push_back(id);
  ASSERT_EQ(tokens.size(), 4u);
  EXPECT_EQ(play({}, tokens, 1), "[][" + emoji + "] stop 4");
  tokens.pop_back();
  EXPECT_EQ(play({}, tokens, 1), "[][\xEF\xBF\xBD] stop 3");
}

TEST(ChatOutput, tokens_are_counted_by_kind_and_the_end_token_counts) {
  ChatOutput output(nano(), options_of({.reasoning = true}));
  std::vector<int32_t> tokens = ids_of("r</think>" + kCallA);
  const auto reasoning = static_cast<int64_t>(ids_of("r</think>").size());
  tokens.push_back(kEos);
  tokens.push_back(5);  // after the end: not there
  std::vector<Delta> deltas;
  output.feed(tokens, deltas);
  EXPECT_EQ(output.completion_tokens(), static_cast<int64_t>(tokens.size()) - 1);
  EXPECT_EQ(output.reasoning_tokens(), reasoning);
  EXPECT_EQ(output.tool_tokens(), static_cast<int64_t>(ids_of(kCallA).size()) - 1);
}

TEST(ChatOutput, long_string_arguments_arrive_in_many_pieces) {  // C9
  ChatOutput output(nano(), options_of({}));
  std::string text = "<tool_call>f<arg_key>a</arg_key><arg_value>";
  for (int i = 0; i < 1000; ++i) text += " the word " + std::to_string(i);
  std::vector<Delta> deltas;
  size_t steps = 0;
  for (const int32_t id : ids_of(text)) {
    const size_t before = deltas.size();
    output.feed({&id, 1}, deltas);
    if (deltas.size() > before) ++steps;
  }
  EXPECT_GT(steps, 1000u);
}

// --- format
// ----------------------------------------------------------------------------------------

AnswerHead head() {
  return {.id = "chatcmpl-1", .created = 7, .model = "m", .fingerprint = "fp_1", .seed = 9};
}

Json parsed(std::string_view event) {
  EXPECT_TRUE(event.starts_with("data: "));
  EXPECT_TRUE(event.ends_with("\n\n"));
  EXPECT_EQ(std::count(event.begin(), event.end(), '\n'), 2);
  const auto json = engine::parse_json(event.substr(6), "chunk");
  EXPECT_TRUE(json.ok());
  return *json;
}

TEST(ChatFormat, chunks_look_as_clients_expect) {  // C4, C5, rule 13
  const ChunkFormat format(head(), true);
  const std::string prefix =
      R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m",)"
      R"("system_fingerprint":"fp_1","choices":)";
  EXPECT_EQ(format.role(),
            prefix + R"([{"index":0,"delta":{"role":"assistant","content":null},"logprobs":null,)"
                     R"("finish_reason":null}],"usage":null})"
                     "\n\n");
  EXPECT_EQ(format.delta({Delta::Kind::content, "a\n\"b"}),
            prefix + R"([{"index":0,"delta":{"content":"a\n\"b"},"logprobs":null,)"
                     R"("finish_reason":null}],"usage":null})"
                     "\n\n");
  EXPECT_EQ(format.delta({Delta::Kind::call_begin, "f", 1, "call_x"}),
            prefix + R"([{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_x",)"
                     R"("type":"function","function":{"name":"f","arguments":""}}]},)"
                     R"("logprobs":null,"finish_reason":null}],"usage":null})"
                     "\n\n");
  EXPECT_EQ(format.delta({Delta::Kind::call_arguments, "{\"a\"", 1}),
            prefix + R"([{"index":0,"delta":{"tool_calls":[{"index":1,"function":)"
                     R"({"arguments":"{\"a\""}}]},"logprobs":null,"finish_reason":null}],)"
                     R"("usage":null})"
                     "\n\n");
  EXPECT_EQ(format.finish("stop"),
            prefix + R"([{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],)"
                     R"("usage":null,"seed":9})"
                     "\n\n");
  EXPECT_EQ(format.usage({10, 5, 8, 3}),
            prefix + R"([],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,)"
                     R"("prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":)"
                     R"({"reasoning_tokens":3,"accepted_prediction_tokens":0,)"
                     R"("rejected_prediction_tokens":0}}})"
                     "\n\n");
}

TEST(ChatFormat, usage_key_is_absent_when_nobody_asked) {  // H2, rule 6
  const ChunkFormat format(head(), false);
  EXPECT_EQ(parsed(format.role()).find("usage"), nullptr);
  EXPECT_EQ(parsed(format.finish("stop")).find("usage"), nullptr);
  EXPECT_NE(parsed(format.delta({Delta::Kind::content, "a"}, Usage{1, 1, 0, 0}))
                .find("usage")
                ->find("total_tokens"),
            nullptr);
}

TEST(ChatFormat, error_chunks_have_no_choices) {  // rule 4
  const Json json = parsed(ChunkFormat::error({ApiCode::internal_error, "m"}));
  EXPECT_EQ(json.find("choices"), nullptr);
  EXPECT_EQ(json.find("error")->members().size(), 4u);
}

TEST(ChatFormat, reasoning_field_is_the_operators_choice) {
  for (const auto& [field, keys] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"reasoning_content", {"reasoning_content"}},
           {"reasoning", {"reasoning"}},
           {"reasoning_text", {"reasoning_text"}},
           {"both", {"reasoning_content", "reasoning"}}}) {
    AnswerHead h = head();
    h.reasoning_field = field;
    const Json json = parsed(ChunkFormat(h, false).delta({Delta::Kind::reasoning, "r"}));
    const Json& delta = *json.find("choices")->items()[0].find("delta");
    ASSERT_EQ(delta.members().size(), keys.size());
    for (const std::string& key : keys) EXPECT_NE(delta.find(key), nullptr) << key;
  }
}

Json plain(const std::vector<Delta>& deltas) {
  PlainAnswer answer;
  for (const Delta& delta : deltas) answer.add(delta);
  return *engine::parse_json(answer.format(head(), {10, 5, 8, 3}, "stop"), "answer");
}
const Json& message_of(const Json& answer) {
  return *answer.find("choices")->items()[0].find("message");
}

TEST(ChatFormat, plain_content_is_null_only_beside_calls) {  // C6, D2
  EXPECT_EQ(message_of(plain({})).find("content")->as_string(), "");
  const Json with_call = plain({{Delta::Kind::call_begin, "f", 0, "c"},
                                {Delta::Kind::call_arguments, "{", 0},
                                {Delta::Kind::call_arguments, "}", 0}});
  EXPECT_TRUE(message_of(with_call).find("content")->is_null());
  EXPECT_EQ(to_json(*message_of(with_call).find("tool_calls")),
            R"([{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}])");
  EXPECT_EQ(message_of(plain({})).find("tool_calls"), nullptr);
  EXPECT_EQ(message_of(plain({})).find("reasoning_content"), nullptr);
}

TEST(ChatFormat, plain_answer_has_all_keys) {
  const Json answer = plain({{Delta::Kind::reasoning, "r"}, {Delta::Kind::content, "c"}});
  EXPECT_EQ(answer.find("object")->as_string(), "chat.completion");
  EXPECT_EQ(answer.find("seed")->to_int64(), 9);
  EXPECT_EQ(answer.find("usage")->find("total_tokens")->to_int64(), 15);
  EXPECT_EQ(message_of(answer).find("reasoning_content")->as_string(), "r");
  EXPECT_TRUE(answer.find("choices")->items()[0].find("logprobs")->is_null());
}

TEST(Ids, are_random_and_long_enough) {
  const std::string a = random_id("call_");
  EXPECT_EQ(a.size(), 29u);
  EXPECT_TRUE(a.starts_with("call_"));
  EXPECT_NE(a, random_id("call_"));
  EXPECT_TRUE(std::all_of(a.begin() + 5, a.end(), [](unsigned char c) { return std::isalnum(c); }));
  EXPECT_LT(random_seed(), int64_t{1} << 53);
}

}  // namespace
}  // namespace yoke::server
