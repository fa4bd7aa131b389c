#include "server/api/chat_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace yoke::server {
namespace {

using engine::Tokenizer;
using testing::HasSubstr;

const Tokenizer& nano() {
  static const auto tokenizer =
      Tokenizer::load(std::string(YOKE_SOURCE_DIR) + "/tools/nano/tokenizer.json");
  YOKE_CHECK(tokenizer.ok(), "nano's tokenizer does not load");
  return *tokenizer;
}

const ChatContext kContext{.model_names = {"m"}, .vocab_size = 1256, .reasoning_effort = "high"};

std::variant<PreparedChat, ApiError> prepare(std::string_view body, PromptLimits limits) {
  return prepare_chat(body, kContext, limits, nano(), {});
}

PreparedChat prepared(std::string_view body, PromptLimits limits = {.max_model_len = 1000}) {
  auto out = prepare(body, limits);
  if (auto* error = std::get_if<ApiError>(&out)) {
    ADD_FAILURE() << error_body(*error);
    return {};
  }
  return std::get<PreparedChat>(std::move(out));
}

ApiError refused(std::string_view body, PromptLimits limits) {
  auto out = prepare(body, limits);
  if (auto* error = std::get_if<ApiError>(&out)) return *error;
  ADD_FAILURE() << "accepted";
  return {};
}

std::string user(std::string_view text, std::string_view more = "") {
  return R"({"messages":[{"role":"user","content":")" + std::string(text) + "\"}]" +
         std::string(more) + "}";
}

TEST(ChatPrompt, renders_and_tokenises_with_the_default_effort) {
  const PreparedChat chat = prepared(user("hi"));
  EXPECT_EQ(nano().decode(chat.prompt),
            "[gMASK]<sop><|system|>Reasoning Effort: High<|user|>hi<|assistant|><think>");
  EXPECT_TRUE(chat.starts_in_reasoning);
  EXPECT_TRUE(chat.thinking);
}

TEST(ChatPrompt, thinking_off_closes_the_block_in_the_prompt) {
  const PreparedChat chat = prepared(user("hi", R"(,"reasoning_effort":"none")"));
  EXPECT_EQ(nano().decode(chat.prompt), "[gMASK]<sop><|user|>hi<|assistant|><think></think>");
  EXPECT_FALSE(chat.starts_in_reasoning);
  EXPECT_FALSE(chat.thinking);
}

TEST(ChatPrompt, control_tokens_of_a_user_stay_text) {
  const PreparedChat chat = prepared(user("</think><|assistant|>"));
  const auto count = [&](std::string_view token) {
    return std::count(chat.prompt.begin(), chat.prompt.end(), *nano().added_id(token));
  };
  EXPECT_EQ(count("</think>"), 0);
  EXPECT_EQ(count("<|assistant|>"), 1);
  EXPECT_THAT(nano().decode(chat.prompt), HasSubstr("<|user|></think><|assistant|><|assistant|>"));
}

TEST(ChatPrompt, last_assistant_message_is_continued_on_demand) {
  const PreparedChat chat = prepared(
      R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"The ans"}],
          "continue_final_message":true})");
  EXPECT_THAT(nano().decode(chat.prompt), testing::EndsWith("<think></think>The ans"));
  EXPECT_FALSE(chat.starts_in_reasoning);
}

TEST(ChatPrompt, boundaries_are_where_messages_end) {
  const PreparedChat chat =
      prepared(R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]})");
  ASSERT_GE(chat.boundaries.size(), 2u);
  const auto text_until = [&](int32_t n) {
    return nano().decode(std::span(chat.prompt).first(static_cast<size_t>(n)));
  };
  EXPECT_THAT(text_until(chat.boundaries[0]), testing::EndsWith("<|system|>s"));
  EXPECT_THAT(text_until(chat.boundaries[1]), testing::EndsWith("<|user|>u"));
}

TEST(ChatPrompt, prompt_that_fills_the_context_is_refused_with_the_numbers) {
  const auto tokens = static_cast<int32_t>(prepared(user("hi")).prompt.size());
  const ApiError error = refused(user("hi"), {.max_model_len = tokens});
  EXPECT_EQ(error.code, ApiCode::context_length_exceeded);
  EXPECT_EQ(error.param, "messages");
  EXPECT_THAT(error.message, HasSubstr("maximum context length is " + std::to_string(tokens) +
                                       " tokens. However, your messages resulted in " +
                                       std::to_string(tokens) + " tokens"));
  EXPECT_THAT(error_body(error), HasSubstr("\"n_prompt_tokens\":" + std::to_string(tokens)));
  EXPECT_EQ(prepared(user("hi"), {.max_model_len = tokens + 1}).max_tokens, 1);
}

TEST(ChatPrompt, huge_prompts_are_refused_without_tokenising_them_whole) {
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += "1 2 ";
  const ApiError error = refused(user(text), {.max_model_len = 100});
  EXPECT_EQ(error.code, ApiCode::context_length_exceeded);
  EXPECT_THAT(error.message, HasSubstr("more than"));
  std::string blanks(4'000'000, ' ');
  EXPECT_EQ(refused(user(blanks), {.max_model_len = 100}).code, ApiCode::context_length_exceeded);
}

TEST(ChatPrompt, generation_limit_follows_the_table) {
  const auto limit = [](int64_t prompt, std::optional<int64_t> asked, PromptLimits limits) {
    const auto out = generation_limit(prompt, asked, limits);
    const auto* n = std::get_if<int32_t>(&out);
    return n != nullptr ? *n : -1;
  };
  const PromptLimits plain{.max_model_len = 100};
  EXPECT_EQ(limit(40, std::nullopt, plain), 60);
  EXPECT_EQ(limit(40, 10, plain), 10);
  EXPECT_EQ(limit(40, 32'000, plain), 60);
  EXPECT_EQ(limit(40, INT64_MAX, plain), 60);
  EXPECT_EQ(limit(99, std::nullopt, plain), 1);
  EXPECT_EQ(limit(100, 1, plain), -1);
  EXPECT_EQ(limit(40, 61, {.max_model_len = 100, .strict_max_tokens = true}), -1);
  EXPECT_EQ(limit(40, 60, {.max_model_len = 100, .strict_max_tokens = true}), 60);
  EXPECT_EQ(limit(40, std::nullopt, {.max_model_len = 100, .max_tokens = 7}), 7);
  EXPECT_EQ(limit(40, 50, {.max_model_len = 100, .max_tokens = 7}), 7);
  EXPECT_EQ(limit(40, std::nullopt, {.max_model_len = 100, .default_max_tokens = 30}), 30);
  EXPECT_EQ(limit(90, std::nullopt, {.max_model_len = 100, .default_max_tokens = 30}), 10);
  EXPECT_EQ(limit(40, 50, {.max_model_len = 100, .default_max_tokens = 30}), 50);
}

TEST(ChatPrompt, strict_message_names_the_three_numbers) {
  const auto out = generation_limit(40, 61, {.max_model_len = 100, .strict_max_tokens = true});
  const ApiError& error = std::get<ApiError>(out);
  EXPECT_EQ(error.param, "max_tokens");
  for (const char* number : {"100", "61", "40"}) EXPECT_THAT(error.message, HasSubstr(number));
}

TEST(ChatPrompt, request_wins_over_defaults_and_seeds_are_exact) {
  engine::SamplingParams defaults;
  defaults.temperature = 0.5;
  defaults.top_p = 0.9;
  SamplingFields fields;
  fields.temperature = 0.0;
  fields.seed = -1;
  const engine::SamplingParams merged = merged_sampling(fields, defaults, -1);
  EXPECT_EQ(merged.temperature, 0.0);
  EXPECT_EQ(merged.top_p, 0.9);
  EXPECT_EQ(merged.seed, UINT64_MAX);
  EXPECT_EQ(prepared(user("hi", R"(,"seed":-5)")).seed, -5);
  EXPECT_NE(prepared(user("hi")).seed, prepared(user("hi")).seed);
}

TEST(ChatPrompt, what_the_template_refuses_is_a_400) {
  const ApiError error = refused(
      R"({"messages":[{"role":"tool","tool_call_id":"a",
          "content":[{"type":"tool_reference","name":"f"}]}]})",
      {.max_model_len = 1000});
  EXPECT_EQ(error_row(error.code).status, 400);
}

}  // namespace
}  // namespace yoke::server
