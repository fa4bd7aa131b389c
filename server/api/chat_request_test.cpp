#include "server/api/chat_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/json/json.h"
#include "server/api/messages.h"

namespace yoke::server {
namespace {

using engine::Json;
using engine::to_json;
using testing::HasSubstr;

const ChatContext kContext{
    .model_names = {"main", "alias"}, .vocab_size = 1000, .reasoning_effort = "high"};

/// A request with one user message and `fields` (`,"key":value…`) beside it.
std::string with(std::string_view fields) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + std::string(fields) + "}";
}
std::string with_messages(std::string_view messages) {
  return R"({"messages":)" + std::string(messages) + "}";
}

ChatRequest accepted(std::string_view body, const ChatContext& context = kContext) {
  ParsedChat parsed = parse_chat_request(body, context);
  if (auto* error = std::get_if<ApiError>(&parsed)) {
    ADD_FAILURE() << body << "\n" << error_body(*error);
    return {};
  }
  return std::get<ChatRequest>(std::move(parsed));
}

/// `code param`, or what was accepted.
std::string refused(std::string_view body, const ChatContext& context = kContext) {
  const ParsedChat parsed = parse_chat_request(body, context);
  const auto* error = std::get_if<ApiError>(&parsed);
  if (error == nullptr) return "accepted";
  EXPECT_FALSE(error->message.empty());
  return std::string(error_row(error->code).wire_code) + " " + error->param.value_or("-");
}

std::string messages_of(std::string_view messages) {
  return to_json(accepted(with_messages(messages)).messages);
}

// --- body
// ------------------------------------------------------------------------------------------

TEST(ChatRequest, body_must_be_a_json_object) {
  for (const char* body : {"", "{", "[]", "1", "\"x\"", "null", "{\"a\":1}x", "\xff{}"})
    EXPECT_EQ(refused(body), "invalid_json -") << body;
  const ParsedChat parsed = parse_chat_request("{\"messages\":[}", kContext);
  EXPECT_THAT(std::get<ApiError>(parsed).message, HasSubstr("13"));
}

TEST(ChatRequest, errors_quote_no_half_characters) {
  const std::string long_word(39, 'x');
  for (const std::string& body :
       {with_messages(R"([{"role":")" + long_word + R"(äö"}])"),
        with_messages(R"([{"role":"user","content":[{"type":")" + long_word + R"(äö"}]}])"),
        with(R"(,"reasoning_effort":")" + long_word + R"(äö")"),
        with(R"(,"tool_choice":")" + long_word + R"(äö")")}) {
    const ParsedChat parsed = parse_chat_request(body, kContext);
    const auto* error = std::get_if<ApiError>(&parsed);
    ASSERT_NE(error, nullptr) << body;
    EXPECT_THAT(error->message, HasSubstr(long_word + "'"));
    EXPECT_TRUE(engine::parse_json(error_body(*error), "the error").ok()) << error->message;
  }
}

TEST(ChatRequest, byte_order_mark_duplicate_keys_and_unknown_fields_are_fine) {  // A6, rule 17
  const ChatRequest request =
      accepted("\xEF\xBB\xBF" + with(R"(,"seed":1,"seed":2,"some_future_field":{"a":[1]})"));
  EXPECT_EQ(request.sampling.seed, 2);
}

TEST(ChatRequest, depth_64_is_read_and_100000_refused) {  // D6
  std::string schema = "{}";
  for (int i = 0; i < 30; ++i) schema = R"({"properties":{"a":)" + schema + "}}";
  accepted(with(R"(,"tools":[{"type":"function","function":{"name":"f","parameters":)" + schema +
                "}}]"));
  EXPECT_EQ(refused(std::string(100'000, '[')), "invalid_json -");
  EXPECT_EQ(refused(with(",\"x\":" + std::string(100'000, '['))), "invalid_json -");
}

TEST(ChatRequest, lone_surrogates_become_replacement_characters_and_nul_survives) {  // D5
  EXPECT_EQ(accepted(with_messages(R"([{"role":"user","content":"a\ud83db\u0000c"}])"))
                .messages.items()[0]
                .find("content")
                ->as_string(),
            std::string("a\xEF\xBF\xBD"
                        "b\0c",
                        7));
}

TEST(ChatRequest, null_is_the_same_as_absent) {  // rule 17
  const ChatRequest request = accepted(with(
      R"(,"model":null,"stream":null,"stream_options":null,"max_tokens":null,"temperature":null,
      "stop":null,"tools":null,"tool_choice":null,"n":null,"seed":null,"response_format":null,
      "reasoning_effort":null,"chat_template_kwargs":null,"logit_bias":null,"reasoning":null,
      "thinking":null,"logprobs":null,"parallel_tool_calls":null,"user":null)"));
  EXPECT_EQ(request.model, "main");
  EXPECT_FALSE(request.stream);
  EXPECT_TRUE(request.enable_thinking.is_null());
}

// --- model
// -------------------------------------------------------------------------------------------

TEST(ChatRequest, model_may_be_missing_main_or_alias) {
  EXPECT_EQ(accepted(with("")).model, "main");
  EXPECT_EQ(accepted(with(R"(,"model":"")")).model, "main");
  EXPECT_EQ(accepted(with(R"(,"model":"alias")")).model, "alias");
  EXPECT_EQ(refused(with(R"(,"model":"gpt-4")")), "model_not_found model");
  EXPECT_EQ(refused(with(R"(,"model":5)")), "invalid_type model");
}

TEST(ChatRequest, any_model_is_taken_and_echoed_when_allowed) {
  ChatContext context = kContext;
  context.accept_any_model = true;
  EXPECT_EQ(accepted(with(R"(,"model":"gpt-4")"), context).model, "gpt-4");
}

TEST(ChatRequest, model_is_checked_before_the_fields) {
  EXPECT_EQ(refused(R"({"model":"x","messages":5,"n":2})"), "model_not_found model");
}

// --- fields
// ------------------------------------------------------------------------------------------

TEST(ChatRequest, stream_options_are_read_and_ignored_without_stream) {
  const ChatRequest request =
      accepted(with(R"(,"stream":true,"stream_options":{"include_usage":true,"x":1})"));
  EXPECT_TRUE(request.stream && request.include_usage && !request.running_usage);
  EXPECT_FALSE(accepted(with(R"(,"stream_options":{"include_usage":true})")).stream);
  EXPECT_EQ(refused(with(R"(,"stream_options":{"include_usage":1})")),
            "invalid_type stream_options.include_usage");
}

TEST(ChatRequest, integers_may_be_written_as_integral_doubles) {
  EXPECT_EQ(accepted(with(R"(,"max_tokens":1e3)")).max_tokens, 1000);
  EXPECT_EQ(accepted(with(R"(,"top_k":5.0)")).sampling.top_k, 5);
  EXPECT_EQ(accepted(with(R"(,"seed":-9223372036854775808)")).sampling.seed, INT64_MIN);
  EXPECT_EQ(refused(with(R"(,"seed":9223372036854775808)")), "invalid_value seed");
  EXPECT_EQ(refused(with(R"(,"max_tokens":1.5)")), "invalid_value max_tokens");
}

TEST(ChatRequest, max_completion_tokens_wins_over_max_tokens) {
  EXPECT_EQ(accepted(with(R"(,"max_tokens":7,"max_completion_tokens":9)")).max_tokens, 9);
  EXPECT_EQ(accepted(with("")).max_tokens, std::nullopt);
  EXPECT_EQ(refused(with(R"(,"max_tokens":0)")), "invalid_value max_tokens");
}

TEST(ChatRequest, sampling_fields_have_ranges) {
  const ChatRequest request = accepted(with(
      R"(,"temperature":0,"top_p":0,"top_k":-1,"min_p":0.5,"presence_penalty":-2,
      "frequency_penalty":2,"repetition_penalty":1.1)"));
  EXPECT_EQ(request.sampling.temperature, 0.0);
  EXPECT_EQ(request.sampling.top_k, -1);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.1);
  const std::pair<const char*, const char*> bad[] = {
      {R"(,"temperature":2.1)", "invalid_value temperature"},
      {R"(,"temperature":-0.1)", "invalid_value temperature"},
      {R"(,"temperature":1e999)", "invalid_value temperature"},
      {R"(,"temperature":"1")", "invalid_type temperature"},
      {R"(,"top_p":1.01)", "invalid_value top_p"},
      {R"(,"top_k":-2)", "invalid_value top_k"},
      {R"(,"min_p":-1)", "invalid_value min_p"},
      {R"(,"presence_penalty":3)", "invalid_value presence_penalty"},
      {R"(,"frequency_penalty":-3)", "invalid_value frequency_penalty"},
      {R"(,"repetition_penalty":0)", "invalid_value repetition_penalty"},
  };
  for (const auto& [fields, expected] : bad) EXPECT_EQ(refused(with(fields)), expected) << fields;
}

TEST(ChatRequest, logit_bias_takes_both_forms_and_checks_ids) {
  using Pairs = std::vector<std::pair<int32_t, double>>;
  EXPECT_EQ(accepted(with(R"(,"logit_bias":{"7":-100,"3":1.5})")).sampling.logit_bias,
            (Pairs{{3, 1.5}, {7, -100}}));
  EXPECT_EQ(accepted(with(R"(,"logit_bias":[[7,1],["3",2],[7,4]])")).sampling.logit_bias,
            (Pairs{{3, 2}, {7, 4}}));
  for (const char* bad : {R"({"1000":1})", R"({"-1":1})", R"({"x":1})", R"({"1":101})", R"([[1]])",
                          R"({"1":"a"})", R"("x")"})
    EXPECT_THAT(refused(with(",\"logit_bias\":" + std::string(bad))), HasSubstr("logit_bias"))
        << bad;
}

TEST(ChatRequest, stop_is_a_string_or_up_to_16_and_empty_ones_are_dropped) {
  using Strings = std::vector<std::string>;
  EXPECT_EQ(accepted(with(R"(,"stop":"a")")).stop, Strings{"a"});
  EXPECT_EQ(accepted(with(R"(,"stop":["a","","b"])")).stop, (Strings{"a", "b"}));
  EXPECT_EQ(accepted(with(R"(,"stop":[])")).stop, Strings{});
  EXPECT_EQ(refused(with(R"(,"stop":[1])")), "invalid_type stop");
  EXPECT_EQ(refused(with(R"(,"stop":{})")), "invalid_type stop");
  std::string many;
  for (int i = 0; i < 17; ++i) many += (i ? ",\"s\"" : "\"s\"");
  EXPECT_EQ(refused(with(",\"stop\":[" + many + "]")), "invalid_value stop");
  EXPECT_EQ(accepted(with(R"(,"stop_token_ids":[5,999])")).stop_token_ids,
            (std::vector<int32_t>{5, 999}));
  EXPECT_EQ(refused(with(R"(,"stop_token_ids":[1000])")), "invalid_value stop_token_ids");
}

TEST(ChatRequest, fields_without_meaning_here_are_ignored) {
  accepted(with(R"(,"prediction":{"a":1},"user":"u","metadata":{},"store":true,"service_tier":"x",
    "safety_identifier":"s","prompt_cache_key":"k","verbosity":"low","modalities":["text"],
    "web_search_options":{},"typical_p":0.5,"mirostat":2,"cache_prompt":true,"priority":3,
    "snippy":{"enabled":false},"intent":true,"logit_bias":{},"best_of":1,"echo":false,
    "skip_special_tokens":true,"return_token_ids":false)"));
  EXPECT_TRUE(accepted(with(R"(,"service_tier":"auto")")).echo_service_tier);
}

TEST(ChatRequest, only_non_neutral_values_of_later_fields_are_refused) {
  accepted(with(R"(,"n":1,"logprobs":false,"top_logprobs":0,"response_format":{"type":"text"},
    "min_tokens":0,"ignore_eos":false,"thinking_budget":-1,"best_of":1)"));
  const std::pair<const char*, const char*> later[] = {
      {R"(,"n":2)", "n"},
      {R"(,"logprobs":true)", "logprobs"},
      {R"(,"top_logprobs":3)", "top_logprobs"},
      {R"(,"response_format":{"type":"json_object"})", "response_format"},
      {R"(,"response_format":{"type":"json_schema","json_schema":{}})", "response_format"},
      {R"(,"min_tokens":1)", "min_tokens"},
      {R"(,"ignore_eos":true)", "ignore_eos"},
      {R"(,"grammar":"root ::= x")", "grammar"},
      {R"(,"guided_json":{})", "guided_json"},
      {R"(,"structured_outputs":{})", "structured_outputs"},
      {R"(,"thinking_budget":0)", "thinking_budget"},
      {R"(,"thinking_token_budget":5)", "thinking_token_budget"},
      {R"(,"reasoning":{"max_tokens":5})", "reasoning.max_tokens"},
      {R"(,"thinking":{"type":"enabled","budget_tokens":5})", "thinking.budget_tokens"},
      {R"(,"tools":[{"type":"function","function":{"name":"f","strict":true}}])",
       "tools[0].function.strict"},
      {R"(,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required")",
       "tool_choice"},
      {R"(,"tools":[{"type":"function","function":{"name":"f"}}],
        "tool_choice":{"type":"function","function":{"name":"f"}})",
       "tool_choice"},
      {R"(,"modalities":["text","audio"])", "modalities"},
  };
  for (const auto& [fields, param] : later)
    EXPECT_EQ(refused(with(fields)), "unsupported_value " + std::string(param)) << fields;
  EXPECT_EQ(refused(with(R"(,"n":0)")), "invalid_value n");
  EXPECT_EQ(refused(with(R"(,"response_format":{"type":"xml"})")),
            "invalid_value response_format.type");
  for (const char* never : {R"(,"echo":true)", R"(,"best_of":2)", R"(,"use_beam_search":true)",
                            R"(,"prompt_logprobs":1)", R"(,"truncate_prompt_tokens":5)",
                            R"(,"chat_template":"x")", R"(,"documents":[1])"})
    EXPECT_THAT(refused(with(never)), HasSubstr("unsupported_parameter")) << never;
}

// --- messages
// ------------------------------------------------------------------------------------------

TEST(ChatMessages, shapes_that_are_refused_name_their_place) {
  const std::pair<const char*, const char*> bad[] = {
      {"5", "invalid_type messages"},
      {R"("hi")", "invalid_type messages"},
      {"{}", "invalid_type messages"},
      {"[]", "invalid_value messages"},
      {"[5]", "invalid_type messages[0]"},
      {"[{}]", "missing_required_parameter messages[0].role"},
      {R"([{"role":5}])", "invalid_type messages[0].role"},
      {R"([{"role":"user"},{"role":"robot"}])", "invalid_value messages[1].role"},
      {R"([{"role":"user","content":5}])", "invalid_type messages[0].content"},
      {R"([{"role":"user","content":true}])", "invalid_type messages[0].content"},
      {R"([{"role":"user","content":{}}])", "invalid_type messages[0].content"},
      {R"([{"role":"user","content":[5]}])", "invalid_type messages[0].content[0]"},
      {R"([{"role":"user","content":[{}]}])",
       "missing_required_parameter messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"x"}]}])",
       "unsupported_content messages[0].content[0]"},
      {R"([{"role":"user","content":[{"type":"text","text":5}]}])",
       "invalid_type messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}])",
       "unsupported_content messages[0].content[0]"},
      {R"([{"role":"user","content":[{"type":"thinking","thinking":"x"}]}])",
       "unsupported_content messages[0].content[0]"},
      {R"([{"role":"assistant","content":[{"type":"tool_use"}]}])",
       "unsupported_content messages[0].content[0]"},
      {R"([{"role":"tool","content":"x"}])", "missing_required_parameter messages[0].tool_call_id"},
      {R"([{"role":"tool","tool_call_id":5}])",
       "missing_required_parameter messages[0].tool_call_id"},
      {R"([{"role":"assistant","tool_calls":{}}])", "invalid_type messages[0].tool_calls"},
      {R"([{"role":"assistant","tool_calls":[{"id":"c"}]}])",
       "missing_required_parameter messages[0].tool_calls[0].function.name"},
      {R"([{"role":"function","content":"x"}])", "missing_required_parameter messages[0].name"},
  };
  for (const auto& [messages, expected] : bad)
    EXPECT_EQ(refused(with_messages(messages)), expected) << messages;
  EXPECT_EQ(refused("{}"), "missing_required_parameter messages");
}

TEST(ChatMessages, content_may_be_string_null_absent_or_parts) {  // D1, rule 18
  EXPECT_EQ(messages_of(R"([{"role":"user"},{"role":"system","content":null},
                {"role":"developer","content":"d","name":""},
                {"role":"user","content":[{"type":"text","text":"a"},{"text":"b"},"c",
                  {"type":"input_text","text":"d"},{"type":"refusal","refusal":"e"},
                  {"type":"text","text":null}]},
                {"role":"user","content":[]}])"),
            R"([{"role":"user","content":""},{"role":"system","content":""},)"
            R"({"role":"system","content":"d"},{"role":"user","content":"abcde"},)"
            R"({"role":"user","content":""}])");
}

TEST(ChatMessages, assistant_turns_with_calls_need_no_content) {
  for (const char* content : {"", R"("content":null,)", R"("content":"",)", R"("content":[],)"})
    EXPECT_EQ(messages_of(R"([{"role":"assistant",)" + std::string(content) +
                          R"("tool_calls":[{"id":"c1","type":"function",
                          "function":{"name":"f","arguments":"{\"b\":1.0,\"a\":[]}"}}]}])"),
              R"([{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function",)"
              R"("function":{"name":"f","arguments":{"b":1.0,"a":[]}}}]}])");
  EXPECT_EQ(messages_of(R"([{"role":"assistant","tool_calls":null},
                            {"role":"assistant","tool_calls":[]}])"),
            R"([{"role":"assistant","content":""},{"role":"assistant","content":""}])");
}

TEST(ChatMessages, call_arguments_of_any_shape_become_objects) {  // C16
  const auto arguments = [](std::string_view json) {
    const auto parsed = engine::parse_json(json, "test");
    return to_json(call_arguments(&*parsed));
  };
  EXPECT_EQ(arguments(R"("{\"a\":1}")"), R"({"a":1})");
  EXPECT_EQ(arguments(R"({"a":1e3})"), R"({"a":1e3})");
  EXPECT_EQ(arguments(R"("")"), "{}");
  EXPECT_EQ(arguments("null"), "{}");
  EXPECT_EQ(to_json(call_arguments(nullptr)), "{}");
  EXPECT_EQ(arguments(R"("{\"a\":")"), R"({"_raw":"{\"a\":"})");
  EXPECT_EQ(arguments(R"("[1]")"), R"({"_raw":"[1]"})");
  EXPECT_EQ(arguments("[1]"), R"({"_raw":"[1]"})");
  EXPECT_EQ(arguments("5"), R"({"_raw":"5"})");
}

TEST(ChatMessages, reasoning_comes_from_the_first_known_field) {
  const auto reasoning = [](std::string_view fields) {
    const ChatRequest request = accepted(
        with_messages(R"([{"role":"assistant","content":"x")" + std::string(fields) + "}]"));
    const Json* value = request.messages.items()[0].find("reasoning_content");
    return value == nullptr ? "absent" : value->as_string();
  };
  EXPECT_EQ(reasoning(""), "absent");
  EXPECT_EQ(reasoning(R"(,"reasoning_content":"a","reasoning":"b","cot_id":"x")"), "a");
  EXPECT_EQ(reasoning(R"(,"reasoning_content":"","reasoning":"b")"), "b");
  EXPECT_EQ(reasoning(R"(,"reasoning_content":"")"), "");
  EXPECT_EQ(reasoning(R"(,"reasoning_content":5)"), "absent");
  EXPECT_EQ(reasoning(R"(,"reasoning":{"text":"b"})"), "b");
  EXPECT_EQ(reasoning(R"(,"reasoning":[{"text":"b"},{"text":"c"}])"), "bc");
  EXPECT_EQ(reasoning(R"(,"reasoning_text":"t","cot_summary":"s")"), "t");
  EXPECT_EQ(reasoning(R"(,"cot_summary":"s","reasoning_details":[{"text":"d"}])"), "s");
  EXPECT_EQ(reasoning(R"(,"reasoning_details":[{"text":"d"}])"), "d");
  EXPECT_EQ(messages_of(R"([{"role":"assistant","content":[
              {"type":"thinking","thinking":"t"},{"type":"text","text":"x"}]}])"),
            R"([{"role":"assistant","content":"x","reasoning_content":"t"}])");
}

TEST(ChatMessages, legacy_function_calls_and_results_become_tools) {
  EXPECT_EQ(messages_of(R"([{"role":"assistant","content":null,
                       "function_call":{"name":"f","arguments":"{}"}},
                      {"role":"function","name":"f","content":"r"}])"),
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"function_call_0",)"
            R"("type":"function","function":{"name":"f","arguments":{}}}]},)"
            R"({"role":"tool","tool_call_id":"function_call_0","content":"r"}])");
}

TEST(ChatMessages, tool_results_may_be_strings_parts_or_the_templates_own_lists) {
  EXPECT_EQ(messages_of(R"([{"role":"tool","tool_call_id":""},
              {"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"a"}]},
              {"role":"tool","tool_call_id":"c","content":[{"output":"o"}]}])"),
            R"([{"role":"tool","tool_call_id":"","content":""},)"
            R"({"role":"tool","tool_call_id":"c","content":"a"},)"
            R"({"role":"tool","tool_call_id":"c","content":[{"output":"o"}]}])");
}

// --- tools
// -----------------------------------------------------------------------------------------------

std::string tools_of(std::string_view fields) {
  const ChatRequest request = accepted(with(fields));
  return to_json(request.tools) + " " + to_json(request.callable);
}

constexpr std::string_view kTool =
    R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";

TEST(ChatTools, empty_and_absent_are_the_same) {  // C12, rule 19
  EXPECT_EQ(tools_of(""), "null null");
  EXPECT_EQ(tools_of(R"(,"tools":[],"tool_choice":null)"), "null null");
  EXPECT_EQ(tools_of(R"(,"tools":[],"tool_choice":"auto")"), "null null");
  EXPECT_EQ(tools_of(R"(,"tool_choice":"none")"), "null null");
}

TEST(ChatTools, all_forms_become_one) {
  const std::string tool(kTool);
  EXPECT_EQ(tools_of(",\"tools\":" + tool), tool + " " + tool);
  EXPECT_EQ(tools_of(R"(,"tools":[{"function":{"name":"f","parameters":{"type":"object"}}}])"),
            tool + " " + tool);
  EXPECT_EQ(tools_of(R"(,"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}])"),
            tool + " " + tool);
  EXPECT_EQ(tools_of(R"(,"functions":[{"name":"f","parameters":{"type":"object"}}])"),
            tool + " " + tool);
}

TEST(ChatTools, missing_parameters_become_an_empty_object_schema) {
  EXPECT_THAT(tools_of(R"(,"tools":[{"type":"function","function":{"name":"f"}}])"),
              HasSubstr(R"("parameters":{"type":"object","properties":{}})"));
}

TEST(ChatTools, entries_of_other_types_are_dropped) {  // A6
  EXPECT_EQ(tools_of(R"(,"tools":[{"type":"web_search"},{"type":"custom","custom":{}}])"),
            "null null");
}

TEST(ChatTools, none_keeps_them_in_the_prompt_only) {
  EXPECT_EQ(tools_of(",\"tool_choice\":\"none\",\"tools\":" + std::string(kTool)),
            std::string(kTool) + " null");
  EXPECT_EQ(tools_of(",\"function_call\":\"none\",\"functions\":[{\"name\":\"f\",\"parameters\":"
                     "{\"type\":\"object\"}}]"),
            std::string(kTool) + " null");
}

TEST(ChatTools, allowed_tools_restrict_what_may_be_called) {
  const std::string two = R"([{"type":"function","function":{"name":"f","parameters":{}}},)"
                          R"({"type":"function","function":{"name":"g","parameters":{}}}])";
  EXPECT_EQ(tools_of(",\"tools\":" + two +
                     R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto",
                     "tools":[{"type":"function","function":{"name":"g"}}]}})"),
            two + R"( [{"type":"function","function":{"name":"g","parameters":{}}}])");
}

TEST(ChatTools, bad_tools_and_choices_are_refused) {
  const std::pair<const char*, const char*> bad[] = {
      {R"(,"tools":{})", "invalid_type tools"},
      {R"(,"tools":[5])", "invalid_type tools[0]"},
      {R"(,"tools":[{}])", "missing_required_parameter tools[0].type"},
      {R"(,"tools":[{"type":"function"}])", "invalid_tool tools[0].name"},
      {R"(,"tools":[{"type":"function","function":{"name":5}}])",
       "invalid_tool tools[0].function.name"},
      {R"(,"tools":[{"type":"function","function":{"name":"a b"}}])",
       "invalid_tool tools[0].function.name"},
      {R"(,"tools":[{"type":"function","function":{"name":"f","parameters":5}}])",
       "invalid_tool tools[0].function.parameters"},
      {R"(,"tools":[{"function":{"name":"f"}},{"function":{"name":"f"}}])",
       "invalid_tool tools[1].function.name"},
      {R"(,"tool_choice":"required")", "invalid_value tool_choice"},
      {R"(,"tools":[{"type":"web_search"}],"tool_choice":"required")", "invalid_value tool_choice"},
      {R"(,"tool_choice":"sometimes")", "invalid_value tool_choice"},
      {R"(,"tool_choice":5)", "invalid_type tool_choice"},
      {R"(,"tool_choice":{"type":"function","function":{"name":"x"}},
         "tools":[{"type":"function","function":{"name":"f"}}])",
       "invalid_value tool_choice"},
  };
  for (const auto& [fields, expected] : bad) EXPECT_EQ(refused(with(fields)), expected) << fields;
}

TEST(ChatTools, a_thousand_fit) {
  const auto tools = [](int count) {
    std::string out = ",\"tools\":[";
    for (int i = 0; i < count; ++i)
      out += (i ? ",{" : "{") + (R"("function":{"name":"f)" + std::to_string(i)) + "\"}}";
    return out + "]";
  };
  EXPECT_EQ(accepted(with(tools(1024))).tools.items().size(), 1024u);
  EXPECT_THAT(refused(with(tools(1025))), HasSubstr("invalid_tool"));
}

// --- thinking
// -----------------------------------------------------------------------------------------------

std::string thinking_of(std::string_view fields, const ChatContext& context = kContext) {
  const ChatRequest r = accepted(with(fields), context);
  return to_json(r.effort) + " " + to_json(r.thinking) + " " + to_json(r.enable_thinking);
}

TEST(ChatThinking, effort_words_map_to_what_the_template_knows) {
  const std::pair<const char*, const char*> words[] = {{"minimal", "low"}, {"low", "low"},
                                                       {"medium", "high"}, {"high", "high"},
                                                       {"max", "max"},     {"xhigh", "max"}};
  for (const auto& [word, effort] : words) {
    const std::string expected = "\"" + std::string(effort) + "\" null null";
    EXPECT_EQ(thinking_of(",\"reasoning_effort\":\"" + std::string(word) + "\""), expected);
    EXPECT_EQ(thinking_of(",\"reasoning\":{\"effort\":\"" + std::string(word) + "\"}"), expected);
    EXPECT_EQ(thinking_of(",\"chat_template_kwargs\":{\"reasoning_effort\":\"" + std::string(word) +
                          "\"}"),
              expected);
  }
  EXPECT_EQ(thinking_of(""), "\"high\" null null");
  EXPECT_EQ(refused(with(R"(,"reasoning_effort":"hi")")), "invalid_value reasoning_effort");
  EXPECT_EQ(refused(with(R"(,"reasoning_effort":1)")), "invalid_type reasoning_effort");
}

TEST(ChatThinking, every_switch_can_turn_it_off) {
  for (const char* fields :
       {R"(,"reasoning_effort":"none")", R"(,"enable_thinking":false)", R"(,"thinking":false)",
        R"(,"thinking":{"type":"disabled"})", R"(,"reasoning":{"enabled":false})",
        R"(,"reasoning":{"effort":"none"})", R"(,"chat_template_kwargs":{"enable_thinking":false})",
        R"(,"template_vars":{"enable_thinking":false})"})
    EXPECT_THAT(thinking_of(fields), HasSubstr("null false")) << fields;
  EXPECT_THAT(thinking_of(R"(,"chat_template_kwargs":{"thinking":false})"),
              HasSubstr(" false null"));
  ChatContext silent = kContext;
  silent.reasoning_effort = "none";
  EXPECT_THAT(thinking_of("", silent), HasSubstr("null false"));
  EXPECT_EQ(thinking_of(R"(,"reasoning_effort":"high")", silent), "\"high\" null null");
}

TEST(ChatThinking, template_keys_win_over_aliases) {
  EXPECT_EQ(thinking_of(R"(,"chat_template_kwargs":{"enable_thinking":true},"thinking":false,
                          "reasoning_effort":"none")"),
            "\"low\" null true");
  EXPECT_EQ(thinking_of(R"(,"chat_template_kwargs":{"reasoning_effort":"low"},
                          "reasoning_effort":"max")"),
            "\"low\" null null");
  EXPECT_EQ(thinking_of(R"(,"chat_template_kwargs":{"enable_thinking":null,"thinking":null})"),
            "\"high\" null null");
}

TEST(ChatThinking, reasoning_can_be_left_out_of_the_answer) {
  EXPECT_TRUE(accepted(with("")).include_reasoning);
  EXPECT_FALSE(accepted(with(R"(,"include_reasoning":false)")).include_reasoning);
  EXPECT_FALSE(accepted(with(R"(,"reasoning":{"exclude":true})")).include_reasoning);
}

TEST(ChatThinking, a_last_assistant_message_can_be_continued) {
  EXPECT_TRUE(accepted(with("")).add_generation_prompt);
  EXPECT_FALSE(accepted(with(R"(,"continue_final_message":true)")).add_generation_prompt);
  EXPECT_FALSE(accepted(with(R"(,"add_generation_prompt":false)")).add_generation_prompt);
  EXPECT_EQ(refused(with(R"(,"add_generation_prompt":true,"continue_final_message":true)")),
            "invalid_value continue_final_message");
}

// --- errors
// -----------------------------------------------------------------------------------------------

TEST(Errors, body_always_has_the_four_keys) {  // rule 24
  EXPECT_EQ(error_body({ApiCode::invalid_type, "m\"\n", "messages[2].content"}),
            R"({"error":{"message":"m\"\n","type":"invalid_request_error",)"
            R"("param":"messages[2].content","code":"invalid_type"}})");
  EXPECT_EQ(error_body({ApiCode::not_implemented, "m"}),
            R"({"error":{"message":"m","type":"not_implemented_error","param":null,"code":null}})");
  EXPECT_EQ(error_body({ApiCode::context_length_exceeded, "m", "messages", {{"n_ctx", 5}}}),
            R"({"error":{"message":"m","type":"invalid_request_error","param":"messages",)"
            R"("code":"context_length_exceeded","n_ctx":5}})");
}

TEST(Errors, statuses_are_those_that_clients_understand) {  // rule 25
  for (const ErrorRow& row : error_table()) {
    EXPECT_EQ(&error_row(row.code), &row);
    const Response response = error_response({row.code, "m"});
    EXPECT_EQ(response.status, row.status);
    EXPECT_NE(row.status, 422);
    EXPECT_NE(row.status, 409);
    EXPECT_NE(reason_phrase(row.status), "Unknown") << row.status;
    const bool retry = row.status == 429 || row.status == 503;
    EXPECT_EQ(response.headers.contains("retry-after"), retry) << row.wire_code;
    EXPECT_EQ(response.headers.contains("www-authenticate"), row.status == 401);
  }
}

TEST(Errors, below_v1_messages_they_have_the_anthropic_shape) {
  const Response response = anthropic_error_response({ApiCode::not_implemented, "m"}, "req_1");
  EXPECT_EQ(response.status, 501);
  EXPECT_EQ(response.body,
            R"({"type":"error","error":{"type":"api_error","message":"m"},"request_id":"req_1"})");
}

}  // namespace
}  // namespace yoke::server
