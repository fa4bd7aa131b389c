// Chat answers over real sockets: the rules of spec/api.md 0 and the catalogue of 5.3. Row numbers
// of the catalogue stand beside the tests; catalogue_test.cpp has the rows without a place here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/scenario/chat_script.h"

namespace yoke::tests {
namespace {

using engine::FinishReason;
using engine::Json;
using engine::RequestId;
using testing::HasSubstr;
using testing::Not;

// --- streams
// -------------------------------------------------------------------------------------------

TEST(ChatStream, obeys_the_rules_from_head_to_done) {
  TestServer server;
  answer_with(server, "Let me see.</think>\n\nHello w\xC3\xB6rld \xF0\x9F\x98\x80", 1,
              FinishReason::stop, 3);
  const HttpReply reply = server.chat(chat_body(kStream), "X-Request-Id: abc-1\r\n");
  EXPECT_EQ(reply.header("cache-control"), "no-cache");
  EXPECT_EQ(reply.header("x-accel-buffering"), "no");
  EXPECT_EQ(reply.header("x-request-id"), "abc-1");
  EXPECT_EQ(reply.header("transfer-encoding"), "chunked");
  EXPECT_TRUE(reply.body.starts_with(": keep-alive\n\ndata: ")) << "rule 2";
  const StreamResult result = StreamRules::check(reply.body);
  EXPECT_EQ(result.reasoning, "Let me see.");
  EXPECT_EQ(result.content, "Hello w\xC3\xB6rld \xF0\x9F\x98\x80");
  EXPECT_EQ(result.finish_reason, "stop");
  EXPECT_EQ(result.model, "nano");
  const auto prompt = static_cast<int64_t>(server.engine.request(RequestId{0}).prompt.size());
  EXPECT_EQ(number(result.usage, "prompt_tokens"), prompt);
  EXPECT_EQ(number(result.usage, "total_tokens"),
            prompt + number(result.usage, "completion_tokens"));
  EXPECT_EQ(number(*result.usage.find("prompt_tokens_details"), "cached_tokens"), 3);
}

TEST(ChatStream, equals_the_plain_answer_for_any_grouping_of_tokens) {  // C2, C3, E2, E5, H3
  TestServer server;
  const std::string script =
      "r \xE2\x82\xAC</think>before " + kCall + "<tool_call>list_dir</tool_call>";
  for (const size_t step : {1, 2, 3, 5, 16, 1000}) {
    answer_with(server, script, step);
    const StreamResult streamed = stream(server, kTools);
    const Json plain = server.chat(chat_body(kTools)).json();
    const Json& message = message_of(plain);
    EXPECT_EQ(message.find("reasoning_content")->as_string(), streamed.reasoning);
    EXPECT_EQ(message.find("content")->as_string(), streamed.content);
    EXPECT_EQ(streamed.content, "before ");
    EXPECT_EQ(streamed.finish_reason, "tool_calls");
    EXPECT_EQ(choice_of(plain).find("finish_reason")->as_string(), "tool_calls");
    ASSERT_EQ(streamed.calls.size(), 2u) << "C1";
    const Json::Array& calls = message.find("tool_calls")->items();
    for (size_t i = 0; i < 2; ++i) {
      const Json& function = *calls[i].find("function");
      EXPECT_EQ(function.find("name")->as_string(), streamed.calls[i].name);
      EXPECT_EQ(function.find("arguments")->as_string(), streamed.calls[i].arguments);
    }
    EXPECT_EQ(streamed.calls[0].arguments, R"({"filePath":"/src/a.ts","startLine":1})");
    EXPECT_EQ(streamed.calls[1].arguments, "{}");
    EXPECT_EQ(number(*plain.find("usage"), "completion_tokens"),
              number(streamed.usage, "completion_tokens"));
  }
}

TEST(ChatStream, has_a_finish_chunk_even_when_the_model_says_nothing) {  // A4
  TestServer server;
  answer_with(server, "");
  const StreamResult result = stream(server);
  EXPECT_EQ(result.finish_reason, "stop");
  EXPECT_EQ(result.events, 3u);
  EXPECT_EQ(number(result.usage, "completion_tokens"), 1);
}

TEST(ChatStream, usage_only_when_asked) {  // H1, H2
  TestServer server;
  answer_with(server, "a</think>b");
  const HttpReply silent = server.chat(chat_body(R"(,"stream":true)"));
  EXPECT_THAT(silent.body, Not(HasSubstr("usage")));
  EXPECT_FALSE(stream(server).usage.is_null());
  const HttpReply running =
      server.chat(chat_body(R"(,"stream":true,"stream_options":{"continuous_usage_stats":true})"));
  EXPECT_THAT(running.body, HasSubstr("\"total_tokens\""));
  StreamRules::check(running.body);
  config::Config config = test_config();
  config.api.force_include_usage = true;
  TestServer forced(config);
  answer_with(forced, "a");
  EXPECT_FALSE(
      StreamRules::check(forced.chat(chat_body(R"(,"stream":true)")).body).usage.is_null());
}

TEST(ChatStream, arguments_arrive_while_they_are_generated) {  // C9
  TestServer server;
  server.engine.hold_all();
  HttpClient client(server.port());
  client.request("POST", "/v1/chat/completions",
                 chat_body(std::string(kStream) + std::string(kTools)));
  const RequestId id = server.engine.wait_for_request(0);
  server.engine.emit(id, ids_of("</think><tool_call>read_file<arg_key>filePath</arg_key>"
                                "<arg_value>first part"));
  client.read_head();
  EXPECT_THAT(client.read_until("first"), HasSubstr("read_file"));
  server.engine.emit(id, ids_of(" second part"));
  client.read_until("second");
  server.engine.emit(id, ids_of("</arg_value></tool_call>", true));
  server.engine.finish(id);
  EXPECT_EQ(StreamRules::check(client.read_until("[DONE]\n\n")).calls.at(0).arguments,
            R"({"filePath":"first part second part"})");
}

TEST(ChatStream, tokens_of_one_interval_are_joined) {  // rule 11
  config::Config config = test_config();
  config.api.stream_interval = std::chrono::seconds(30);
  TestServer server(config);
  std::string text = "</think>";
  for (int i = 0; i < 200; ++i) text += " the";
  answer_with(server, text);
  EXPECT_LE(stream(server).content_events.size(), 3u);
}

TEST(ChatStream, failure_after_the_head_is_finish_error_done) {  // rule 4, I1, B5
  TestServer server;
  server.engine.hold_all();
  for (const bool with_text : {true, false}) {
    HttpClient client(server.port());
    client.request("POST", "/v1/chat/completions", chat_body(kStream));
    const RequestId id = server.engine.wait_for_request(with_text ? 0 : 1);
    if (with_text) server.engine.emit(id, ids_of("</think>half an ans"));
    server.engine.finish(id, FinishReason::error, "row is not finite");
    const HttpReply reply = client.read_reply();
    const StreamResult result = StreamRules::check(reply.body);
    EXPECT_EQ(result.finish_reason, "error");
    EXPECT_EQ(result.error.find("code")->as_string(), "internal_error");
    EXPECT_EQ(result.error.members().size(), 4u);
    EXPECT_EQ(result.content, with_text ? "half an ans" : "");
    client.request("GET", "/health");
    EXPECT_EQ(client.read_reply().status, 200) << "the connection lives on";
  }
}

TEST(ChatStream, heartbeats_come_while_queued_and_in_prefill) {  // rules 2 and 3, B1, B2, A8
  config::Config config = test_config();
  config.api.heartbeat_interval = std::chrono::milliseconds(20);
  TestServer server(config);
  server.engine.hold_all();
  HttpClient client(server.port());
  client.request("POST", "/v1/chat/completions", chat_body(kStream));
  EXPECT_EQ(client.read_head().status, 200) << "before the engine did anything";
  const std::string beat = ": keep-alive\n\n";
  for (int i = 0; i < 4; ++i) EXPECT_EQ(client.next_chunk(), beat);
  const RequestId id = server.engine.wait_for_request(0);
  server.engine.start(id);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(client.next_chunk(), beat);
  server.engine.emit(id, ids_of("x</think>y", true));
  server.engine.finish(id);
  EXPECT_EQ(StreamRules::check(client.read_until("[DONE]\n\n")).content, "y");
}

TEST(ChatStream, parallel_streams_with_calls_do_not_mix) {  // C19
  TestServer server;
  server.engine.hold_all();
  HttpClient a(server.port());
  HttpClient b(server.port());
  const std::string body = chat_body(std::string(kStream) + std::string(kTools));
  a.request("POST", "/v1/chat/completions", body);
  const RequestId id_a = server.engine.wait_for_request(0);
  b.request("POST", "/v1/chat/completions", body);
  const RequestId id_b = server.engine.wait_for_request(1);
  const auto steps_a = steps_of(
      "</think><tool_call>read_file<arg_key>filePath</arg_key><arg_value>"
      "aaaa a a a a</arg_value></tool_call>");
  const auto steps_b = steps_of(
      "</think><tool_call>list_dir</tool_call><tool_call>read_file"
      "<arg_key>filePath</arg_key><arg_value>bbb b b</arg_value>"
      "</tool_call>");
  for (size_t i = 0; i < std::max(steps_a.size(), steps_b.size()); ++i) {
    if (i < steps_a.size()) server.engine.emit(id_a, steps_a[i]);
    if (i < steps_b.size()) server.engine.emit(id_b, steps_b[i]);
  }
  server.engine.finish(id_b);
  server.engine.finish(id_a);
  const StreamResult result_a = StreamRules::check(a.read_reply().body);
  const StreamResult result_b = StreamRules::check(b.read_reply().body);
  ASSERT_EQ(result_a.calls.size(), 1u);
  ASSERT_EQ(result_b.calls.size(), 2u);
  EXPECT_EQ(result_a.calls[0].arguments, R"({"filePath":"aaaa a a a a"})");
  EXPECT_EQ(result_b.calls[1].arguments, R"({"filePath":"bbb b b"})");
  EXPECT_NE(result_a.id, result_b.id);
}

TEST(ChatStream, connection_serves_on_after_done) {
  TestServer server;
  answer_with(server, "x</think>y");
  HttpClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.request("POST", "/v1/chat/completions", chat_body(kStream));
    EXPECT_EQ(StreamRules::check(client.read_reply().body).content, "y");
  }
}

TEST(ChatStream, http_1_0_clients_get_it_unchunked_to_the_end_of_the_connection) {
  TestServer server;
  answer_with(server, "x</think>y");
  HttpClient client(server.port());
  const std::string body = chat_body(kStream);
  client.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  const HttpReply reply = client.read_reply();
  EXPECT_EQ(reply.header("transfer-encoding"), "");
  EXPECT_EQ(StreamRules::check(reply.body).content, "y");
}

TEST(ChatStream, a_repetitive_end_survives_copilots_filter) {  // 1.5.12
  TestServer server;
  server.engine.hold_all();
  HttpClient client(server.port());
  client.request("POST", "/v1/chat/completions", chat_body(kStream));
  const RequestId id = server.engine.wait_for_request(0);
  server.engine.emit(id, ids_of("</think>start"));
  client.read_head();
  client.read_until("start");
  std::string sent = "start";
  for (int i = 0; i < 40; ++i) {
    server.engine.emit(id, ids_of("="));
    sent += "=";
  }
  server.engine.emit(id, ids_of("", true));
  server.engine.finish(id);
  const StreamResult result = StreamRules::check(client.read_until("[DONE]\n\n"));
  EXPECT_EQ(result.content, sent);
  size_t equal = 0;
  for (size_t i = 1; i < result.content_events.size(); ++i) {
    equal = result.content_events[i] == result.content_events[i - 1] ? equal + 1 : 0;
    EXPECT_LT(equal, 9u);
  }
}

// --- plain answers
// -----------------------------------------------------------------------------------------

TEST(ChatPlain, has_every_key_that_clients_read) {
  TestServer server;
  answer_with(server, "think</think>answer", 2, FinishReason::stop, 4);
  const HttpReply reply = server.chat(chat_body(R"(,"seed":-7,"service_tier":"auto")"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "application/json");
  EXPECT_THAT(reply.header("x-request-id"), testing::StartsWith("req_"));
  const Json answer = reply.json();
  EXPECT_THAT(answer.find("id")->as_string(), HasSubstr("cmpl"));
  EXPECT_EQ(answer.find("object")->as_string(), "chat.completion");
  EXPECT_EQ(answer.find("model")->as_string(), "nano");
  EXPECT_EQ(answer.find("system_fingerprint")->as_string(), "fp_test");
  EXPECT_EQ(answer.find("service_tier")->as_string(), "default");
  EXPECT_EQ(number(answer, "seed"), -7);
  EXPECT_EQ(message_of(answer).find("content")->as_string(), "answer");
  EXPECT_EQ(message_of(answer).find("reasoning_content")->as_string(), "think");
  EXPECT_TRUE(message_of(answer).find("refusal")->is_null());
  EXPECT_EQ(message_of(answer).find("tool_calls"), nullptr);
  EXPECT_EQ(number(*answer.find("usage")->find("prompt_tokens_details"), "cached_tokens"), 4);
  EXPECT_EQ(server.engine.request(RequestId{0}).sampling.seed, static_cast<uint64_t>(-7));
}

TEST(ChatPlain, seed_is_drawn_and_returned_when_absent) {
  TestServer server;
  answer_with(server, "x");
  const auto seed = number(server.chat(chat_body()).json(), "seed");
  EXPECT_GE(seed, 0);
  EXPECT_EQ(server.engine.request(RequestId{0}).sampling.seed, static_cast<uint64_t>(seed));
  EXPECT_NE(number(server.chat(chat_body()).json(), "seed"), seed);
  const HttpReply streamed = server.chat(chat_body(kStream));
  EXPECT_THAT(streamed.body, HasSubstr("\"finish_reason\":\"stop\"}],\"usage\":null,\"seed\":"));
}

TEST(ChatPlain, alias_is_echoed_and_unknown_models_are_404) {
  TestServer server;
  answer_with(server, "x");
  EXPECT_EQ(server.chat(chat_body(R"(,"model":"org/alias")")).json().find("model")->as_string(),
            "org/alias");
  const HttpReply unknown = server.chat(chat_body(R"(,"model":"gpt-4","stream":true)"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.json().find("error")->find("code")->as_string(), "model_not_found");
}

TEST(ChatPlain, length_is_length_and_failure_has_a_status) {
  TestServer server;
  answer_with(server, "</think>abc", 1, FinishReason::length);
  EXPECT_EQ(choice_of(server.chat(chat_body()).json()).find("finish_reason")->as_string(),
            "length");
  answer_with(server, "", 1, FinishReason::error);
  const HttpReply failed = server.chat(chat_body());
  EXPECT_EQ(failed.status, 500);
  EXPECT_EQ(failed.header("x-should-retry"), "false");
  EXPECT_EQ(failed.json().find("error")->find("code")->as_string(), "internal_error");
}

TEST(ChatPlain, content_is_null_only_beside_calls) {  // C6, D2
  TestServer server;
  answer_with(server, "r</think>" + kCall);
  const Json with_call = server.chat(chat_body(kTools)).json();
  EXPECT_TRUE(message_of(with_call).find("content")->is_null());
  EXPECT_EQ(message_of(with_call).find("reasoning_content")->as_string(), "r") << "C18";
  answer_with(server, "r</think>");
  EXPECT_EQ(message_of(server.chat(chat_body()).json()).find("content")->as_string(), "");
}

TEST(ChatPlain, without_tools_or_with_none_markup_is_text) {  // C7
  TestServer server;
  answer_with(server, "</think>" + kCall);
  EXPECT_EQ(message_of(server.chat(chat_body()).json()).find("content")->as_string(), kCall);
  const Json none = server.chat(chat_body(std::string(kTools) + R"(,"tool_choice":"none")")).json();
  EXPECT_EQ(message_of(none).find("content")->as_string(), kCall);
  const auto& with_tools = server.engine.request(RequestId{1});
  EXPECT_THAT(nano_tokenizer().decode(with_tools.prompt), HasSubstr("read_file"))
      << "tools stay in the prompt";
}

TEST(ChatPlain, thinking_off_means_content_from_the_first_token) {  // E4
  TestServer server;
  answer_with(server, "straight");
  for (const char* off : {R"(,"reasoning_effort":"none")", R"(,"enable_thinking":false)",
                          R"(,"chat_template_kwargs":{"enable_thinking":false})"}) {
    const Json answer = server.chat(chat_body(off)).json();
    EXPECT_EQ(message_of(answer).find("content")->as_string(), "straight") << off;
    EXPECT_EQ(message_of(answer).find("reasoning_content"), nullptr) << off;
  }
}

TEST(ChatPlain, reasoning_can_be_hidden_or_renamed) {
  config::Config config = test_config();
  config.api.reasoning_field = "both";
  TestServer server(config);
  answer_with(server, "r</think>c");
  const Json both = server.chat(chat_body()).json();
  EXPECT_EQ(message_of(both).find("reasoning")->as_string(), "r");
  EXPECT_EQ(message_of(both).find("reasoning_content")->as_string(), "r");
  const Json hidden = server.chat(chat_body(R"(,"include_reasoning":false)")).json();
  EXPECT_EQ(message_of(hidden).find("reasoning_content"), nullptr);
  EXPECT_GT(number(*hidden.find("usage")->find("completion_tokens_details"), "reasoning_tokens"),
            0);
}

TEST(ChatPlain, stop_strings_end_the_answer_and_the_engine) {  // F1 to F5
  TestServer server;
  server.engine.hold_all();
  HttpClient client(server.port());
  client.request("POST", "/v1/chat/completions", chat_body(R"(,"stop":["END","abac"])"));
  const RequestId id = server.engine.wait_for_request(0);
  server.engine.emit(id, ids_of("END in reasoning</think>one E"));
  server.engine.emit(id, ids_of("ND two"));
  server.engine.wait_until_cancelled(id);
  const Json answer = client.read_reply().json();
  EXPECT_EQ(message_of(answer).find("content")->as_string(), "one ");
  EXPECT_EQ(choice_of(answer).find("finish_reason")->as_string(), "stop");
}

TEST(ChatPlain, parallel_tool_calls_false_ends_after_the_first) {
  TestServer server;
  answer_with(server, "</think>" + kCall + kCall);
  const Json answer =
      server.chat(chat_body(std::string(kTools) + R"(,"parallel_tool_calls":false)")).json();
  EXPECT_EQ(message_of(answer).find("tool_calls")->items().size(), 1u);
  EXPECT_EQ(choice_of(answer).find("finish_reason")->as_string(), "tool_calls");
}

TEST(ChatPlain, unknown_tools_in_the_answer_are_text) {  // C16
  TestServer server;
  answer_with(server,
              "</think><tool_call>nope<arg_key>a</arg_key><arg_value>b</arg_value>"
              "</tool_call>");
  const Json answer = server.chat(chat_body(kTools)).json();
  EXPECT_THAT(message_of(answer).find("content")->as_string(), HasSubstr("nope"));
  EXPECT_EQ(choice_of(answer).find("finish_reason")->as_string(), "stop");
}

// --- requests
// --------------------------------------------------------------------------------------------------

TEST(ChatRequests, sampling_limits_and_stops_reach_the_engine) {
  TestServer server;
  answer_with(server, "x");
  server.chat(chat_body(R"(,"temperature":0.5,"top_p":0.9,"top_k":7,"min_p":0.1,"seed":5,
      "presence_penalty":1,"frequency_penalty":0.5,"repetition_penalty":1.2,
      "logit_bias":{"5":-1},"max_tokens":11,"stop_token_ids":[42])"));
  const engine::GenerationRequest request = server.engine.request(RequestId{0});
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.9);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_EQ(request.sampling.min_p, 0.1);
  EXPECT_EQ(request.sampling.presence_penalty, 1);
  EXPECT_EQ(request.sampling.frequency_penalty, 0.5);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.2);
  EXPECT_EQ(request.sampling.seed, 5u);
  ASSERT_EQ(request.sampling.logit_bias.size(), 1u);
  EXPECT_EQ(request.max_tokens, 11);
  EXPECT_THAT(request.stop_token_ids, testing::IsSupersetOf({42, 1220, 1227, 1229}));
}

TEST(ChatRequests, no_max_tokens_means_until_the_context_is_full) {  // rule 22, A9
  TestServer server;
  answer_with(server, "x");
  server.chat(chat_body());
  const engine::GenerationRequest request = server.engine.request(RequestId{0});
  EXPECT_EQ(request.max_tokens + static_cast<int32_t>(request.prompt.size()), TestServer::kContext);
}

TEST(ChatRequests, overflow_is_400_before_any_stream) {  // rule 26, I2, C13
  TestServer server;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "7 1 ";
  const HttpReply reply = server.chat(chat_body(kStream, text));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.header("content-type"), "application/json");
  const Json body = reply.json();
  const Json& error = *body.find("error");
  EXPECT_EQ(error.find("code")->as_string(), "context_length_exceeded");
  EXPECT_THAT(error.find("message")->as_string(),
              HasSubstr("maximum context length is 4096 tokens"));
  EXPECT_EQ(number(error, "n_ctx"), 4096);
  EXPECT_GT(number(error, "n_prompt_tokens"), 4096);
  EXPECT_EQ(server.engine.submitted(), 0u);
}

TEST(ChatRequests, every_form_of_history_is_taken) {  // A2, D1, D3, rules 18 to 21
  TestServer server;
  answer_with(server, "x");
  for (const char* messages :
       {R"([{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function",
            "function":{"name":"f","arguments":"{broken"}}]},
            {"role":"tool","tool_call_id":"a","content":""}])",
        R"([{"role":"user","content":"q"},{"role":"system","content":"late"},
            {"role":"developer","content":"d"},{"role":"user","content":"q"}])",
        R"([{"role":"assistant","content":"a","reasoning_content":"r"},
            {"role":"assistant","content":"b"},{"role":"user"}])",
        R"([{"role":"tool","tool_call_id":"gone","content":[{"type":"text","text":"t"}]}])",
        R"([{"role":"function","name":"f","content":"r"}])"}) {
    const std::string body = R"({"messages":)" + std::string(messages) + "}";
    EXPECT_EQ(server.chat(body).status, 200) << messages;
  }
}

TEST(ChatRequests, errors_are_json_with_four_keys_for_streams_too) {  // rule 24, C12, C13
  TestServer server;
  const std::pair<std::string, const char*> bad[] = {
      {"{", "invalid_json"},
      {"[]", "invalid_json"},
      {R"({"messages":[]})", "invalid_value"},
      {chat_body(R"(,"stream":true,"n":2)"), "unsupported_value"},
      {chat_body(R"(,"stream":true,"tool_choice":"required")"), "invalid_value"},
      {chat_body(R"(,"stream":true,"tools":[{"type":"function","function":{"name":"a b"}}])"),
       "invalid_tool"},
      {std::string(100'000, '['), "invalid_json"},
  };
  for (const auto& [body, code] : bad) {
    const HttpReply reply = server.chat(body);
    EXPECT_EQ(reply.status, 400) << body.substr(0, 80);
    EXPECT_EQ(reply.header("content-type"), "application/json");
    const Json json = reply.json();
    for (const char* key : {"message", "type", "param", "code"})
      EXPECT_NE(json.find("error")->find(key), nullptr) << key;
    EXPECT_EQ(json.find("error")->find("code")->as_string(), code) << body.substr(0, 80);
  }
  EXPECT_EQ(server.chat(chat_body(R"(,"tools":[],"tool_choice":null)")).status, 200) << "C12";
}

TEST(ChatRequests, lone_surrogates_do_not_stick_the_session) {  // D5
  TestServer server;
  answer_with(server, "x");
  EXPECT_EQ(server.chat(R"({"messages":[{"role":"user","content":"cut \ud83d"}]})").status, 200);
  EXPECT_THAT(nano_tokenizer().decode(server.engine.request(RequestId{0}).prompt),
              HasSubstr("cut \xEF\xBF\xBD"));
}

}  // namespace
}  // namespace yoke::tests
