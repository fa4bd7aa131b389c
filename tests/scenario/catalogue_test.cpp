// Rows of the bug catalogue (spec/api.md 5.3) that have no other test; each name carries its rows.
//
// Rows that do not apply to chat completions as served now: A5, B3, C17, D4, I3, I8 (Responses and
// Messages APIs), C11 and I5 (demanded calls and grammars are refused with 400), C15 (there is no
// loop guard: every limit we have ends in `length` or in an error).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scenario/chat_script.h"

namespace yoke::tests {
namespace {

using engine::FinishReason;
using engine::Json;
using engine::RequestId;
using testing::HasSubstr;
using testing::Not;

/// Single bytes as tokens.
std::vector<int32_t> byte_tokens(std::string_view bytes) {
  std::vector<int32_t> ids;
  for (const char byte : bytes) {
    for (int32_t id = 0; id < 256; ++id) {
      if (nano_tokenizer().token_bytes(id) == std::string_view(&byte, 1)) ids.push_back(id);
    }
  }
  EXPECT_EQ(ids.size(), bytes.size());
  return ids;
}

/// A stream whose engine waits for the test.
struct HeldStream {
  explicit HeldStream(TestServer& test_server, std::string_view more = "")
      : server(test_server), client(test_server.port()) {
    server.engine.hold_all();
    const size_t n = server.engine.submitted();
    client.request("POST", "/v1/chat/completions",
                   chat_body(std::string(kStream) + std::string(more)));
    id = server.engine.wait_for_request(n);
    EXPECT_EQ(client.read_head().status, 200);
  }
  StreamResult end(FinishReason reason = FinishReason::stop) {
    server.engine.finish(id, reason);
    return StreamRules::check(client.read_until("[DONE]\n\n"));
  }

  TestServer& server;
  HttpClient client;
  RequestId id{};
};

// --- A: editors
// ------------------------------------------------------------------------------------------

TEST(Catalogue, one_step_with_everything_gives_one_kind_per_delta) {  // A1, A12, E1, C18
  TestServer server;
  answer_with(server, "why</think>text " + kCall, 1000);
  const HttpReply reply = server.chat(chat_body(std::string(kStream) + std::string(kTools)));
  EXPECT_THAT(reply.body, Not(HasSubstr("\"tool_calls\":[]")));
  const StreamResult result = StreamRules::check(reply.body);  // rule 7, for every delta
  EXPECT_EQ(result.reasoning, "why");
  EXPECT_EQ(result.content, "text ");
  EXPECT_EQ(result.calls.size(), 1u);
}

TEST(Catalogue, no_piece_of_arguments_is_sent_twice) {  // A7, A11
  TestServer server;
  const std::string html = "<html><b>doubled letters: bookkeeper</b></html>";
  answer_with(server, "</think><tool_call>read_file<arg_key>filePath</arg_key><arg_value>" + html +
                          "</arg_value><arg_key>startLine</arg_key><arg_value>22</arg_value>"
                          "</tool_call>");
  const StreamResult result = stream(server, kTools);
  ASSERT_EQ(result.calls.size(), 1u);
  EXPECT_EQ(result.calls[0].arguments, R"({"filePath":")" + html + R"(","startLine":22})");
  EXPECT_EQ(result.finish_reason, "tool_calls");
}

TEST(Catalogue, reasoning_alone_ends_in_a_finish_chunk_of_its_own) {  // A3, A4, A10
  TestServer server;
  for (const FinishReason reason : {FinishReason::stop, FinishReason::length}) {
    answer_with(server, "only thoughts", 1, reason);
    const StreamResult result = stream(server);  // the finish chunk's delta is empty
    EXPECT_EQ(result.reasoning, "only thoughts");
    EXPECT_EQ(result.content, "");
    EXPECT_EQ(result.finish_reason, reason == FinishReason::stop ? "stop" : "length");
  }
}

TEST(Catalogue, fields_and_tools_of_other_apis_do_not_fail) {  // A6
  TestServer server;
  answer_with(server, "</think>fine");
  const StreamResult result = stream(
      server,
      R"(,"prompt_cache_key":"k","prompt_cache_retention":"24h","verbosity":"low","store":true,
      "metadata":{"a":"b"},"prediction":{"type":"content","content":"x"},"snippy":{"enabled":false},
      "tools":[{"type":"web_search"},{"type":"tool_search","execution":"client"},
      {"type":"custom","name":"c"}])");
  EXPECT_EQ(result.content, "fine");
}

// --- B: keep-alive
// ---------------------------------------------------------------------------------------

TEST(Catalogue, silence_is_filled_between_tokens_too) {  // B2, B4, A8
  config::Config config = test_config();
  config.api.heartbeat_interval = std::chrono::milliseconds(20);
  TestServer server(config);
  HeldStream held(server);
  server.engine.emit(held.id, ids_of("</think>first"));
  held.client.read_until("first");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(held.client.next_chunk(), ": keep-alive\n\n");
  server.engine.emit(held.id, ids_of(" second", true));
  EXPECT_EQ(held.end().content, "first second");
}

// --- C: tool calls
// ---------------------------------------------------------------------------------------

TEST(Catalogue, finish_is_tool_calls_only_with_a_whole_call) {  // C10, rules 15 and 16
  TestServer server;
  const std::pair<const char*, const char*> endings[] = {
      {"</think><tool_call>no_such_tool</tool_call>", "stop"},
      {"</think>text only", "stop"},
      {"</think><tool_call>read_file<arg_key>filePath</arg_key><arg_value>/src/a", "length"},
  };
  for (const auto& [text, reason] : endings) {
    answer_with(server, text);
    EXPECT_EQ(stream(server, kTools).finish_reason, reason) << text;
    const Json plain = server.chat(chat_body(kTools)).json();
    EXPECT_EQ(choice_of(plain).find("finish_reason")->as_string(), reason) << text;
  }
}

TEST(Catalogue, call_cut_by_the_context_ends_in_length_and_invents_nothing) {  // C14, A9
  TestServer server;
  answer_with(server, "x");
  const auto prompt_of = [&](size_t words) {
    std::string text = "go";
    for (size_t i = 0; i < words; ++i) text += " the";
    return text;
  };
  server.chat(chat_body(kTools, prompt_of(1)));
  const size_t base = server.engine.request(RequestId{0}).prompt.size() - 1;
  const size_t room = 14;
  const std::vector<int32_t> cut =
      ids_of("</think><tool_call>read_file<arg_key>filePath</arg_key><arg_value>/src/main.cpp");
  ASSERT_GE(cut.size(), room);
  Script script;
  for (size_t i = 0; i < room; ++i) script.steps.push_back({cut[i]});
  script.reason = FinishReason::length;
  server.engine.set_director([&](const engine::GenerationRequest&) { return script; });
  const std::string text = prompt_of(TestServer::kContext - room - base);
  const StreamResult result = StreamRules::check(
      server.chat(chat_body(std::string(kStream) + std::string(kTools), text)).body);
  EXPECT_EQ(server.engine.request(RequestId{1}).max_tokens, static_cast<int32_t>(room));
  EXPECT_EQ(result.finish_reason, "length");
  ASSERT_EQ(result.calls.size(), 1u);
  EXPECT_THAT(result.calls[0].arguments, testing::StartsWith(R"({"filePath":"/)"));
  EXPECT_THAT(result.calls[0].arguments, Not(HasSubstr("startLine")));
  const Json plain = server.chat(chat_body(kTools, text)).json();
  EXPECT_EQ(choice_of(plain).find("finish_reason")->as_string(), "length");
  EXPECT_EQ(number(*plain.find("usage"), "total_tokens"), TestServer::kContext);
}

// --- D: messages
// -----------------------------------------------------------------------------------------

std::string nested_tool(size_t depth) {
  std::string open;
  std::string close;
  for (size_t i = 0; i < depth; ++i) {
    open += R"({"type":"object","properties":{"a":)";
    close += "}}";
  }
  return R"(,"tools":[{"type":"function","function":{"name":"f","parameters":)" + open +
         R"({"type":"string"})" + close + "}}]";
}

TEST(Catalogue, schemas_of_depth_64_work_and_of_100000_are_refused) {  // D6
  TestServer server;
  answer_with(server, "</think>fine");
  EXPECT_EQ(server.chat(chat_body(nested_tool(64))).status, 200);
  const HttpReply deep = server.chat(chat_body(nested_tool(100'000)));
  EXPECT_EQ(deep.status, 400);
  EXPECT_EQ(deep.json().find("error")->find("code")->as_string(), "invalid_json");
  EXPECT_EQ(server.chat(chat_body()).status, 200) << "the server lives";
}

// --- E: reasoning
// ----------------------------------------------------------------------------------------

TEST(Catalogue, tags_are_never_visible) {  // E3, E6
  TestServer server;
  const std::string text = "a</think>b</think>c<think>d</think>e " + kCall;
  for (const size_t step : {1, 2, 3, 1000}) {
    answer_with(server, text, step);
    const StreamResult result = stream(server, kTools);
    for (const std::string& shown : {result.reasoning, result.content})
      for (const char* tag : {"think>", "tool_call>", "arg_key>", "<|"})
        EXPECT_THAT(shown, Not(HasSubstr(tag)));
    EXPECT_EQ(result.calls.size(), 1u);
  }
}

TEST(Catalogue, an_end_tag_spelled_by_ordinary_tokens_is_text) {  // E6
  TestServer server;
  const auto spelled = nano_tokenizer().encode_plain("</think>");
  ASSERT_TRUE(spelled.ok());
  HeldStream held(server);
  server.engine.emit(held.id, ids_of("The tag is "));
  server.engine.emit(held.id, *spelled);
  server.engine.emit(held.id, ids_of(" here.</think>So", true));
  const StreamResult result = held.end();
  EXPECT_EQ(result.reasoning, "The tag is </think> here.");
  EXPECT_EQ(result.content, "So");
}

// --- F: stop strings and UTF-8
// ---------------------------------------------------------------------------

TEST(Catalogue, failed_partial_stop_neither_doubles_nor_loses_text) {  // F1, F2, F3
  TestServer server;
  HeldStream held(server, R"(,"stop":"abac")");
  server.engine.emit(held.id, ids_of("</think>"));
  for (const char* piece : {"ab", "ab", "ac"}) server.engine.emit(held.id, ids_of(piece));
  server.engine.wait_until_cancelled(held.id);  // the engine learns that enough is said
  const StreamResult result = StreamRules::check(held.client.read_until("[DONE]\n\n"));
  EXPECT_EQ(result.content, "ab");
  EXPECT_EQ(result.finish_reason, "stop");
}

TEST(Catalogue, beginning_of_a_stop_waits_until_it_is_disproved) {  // F4
  TestServer server;
  HeldStream held(server, R"(,"stop":["END"])");
  server.engine.emit(held.id, ids_of("</think>one E"));
  EXPECT_THAT(held.client.read_until("one"), Not(HasSubstr("E\"")));
  server.engine.emit(held.id, ids_of("xit"));
  held.client.read_until("Exit");
  server.engine.emit(held.id, ids_of(" two EN", true));
  EXPECT_EQ(held.end().content, "one Exit two EN") << "what is held comes out at the end";
}

TEST(Catalogue, characters_of_several_tokens_arrive_whole) {  // F6, rule 9
  TestServer server;
  const std::string text = "\xF0\x9F\x98\x80\xE6\x9D\xB1\xC3\xA9";  // 😀東é
  HeldStream held(server);
  server.engine.emit(held.id, ids_of("</think>"));
  for (const int32_t id : byte_tokens(text)) server.engine.emit(held.id, {id});
  for (const int32_t id : byte_tokens("\xF0\x9F\x98")) server.engine.emit(held.id, {id});
  EXPECT_EQ(held.end().content, text + "\xEF\xBF\xBD") << "a cut tail becomes one U+FFFD";
}

}  // namespace
}  // namespace yoke::tests
