#include "engine/warm_up.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/fakes/scripted_model.h"

namespace yoke::engine {
namespace {

using tests::ScriptedModel;

ModelOptions model_options() {
  ModelOptions options;
  options.max_rows = 16;
  options.max_slots = 2;
  options.max_model_len = 64;
  options.max_logit_rows = 2;
  return options;
}

Tokenizer nano_tokenizer() {
  return Tokenizer::load(std::string(YOKE_SOURCE_DIR) + "/tools/nano/checkpoint/tokenizer.json")
      .value();
}

GenerationRequest greedy(std::vector<int32_t> prompt, int32_t max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

TEST(GreedyContinuation, equals_the_serial_answer_for_every_chunk_size) {
  const std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5};
  const std::vector<int32_t> want = ScriptedModel::answer(greedy(prompt, 12), 64);
  for (const int32_t chunk : {1, 2, 4, 9, 16}) {
    ScriptedModel model(model_options());
    const auto got = greedy_continuation(model, prompt, 12, ScriptedModel::kDefinedVocab, chunk);
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_EQ(*got, want) << "chunks of " << chunk;
  }
}

TEST(GreedyContinuation, a_row_that_is_not_finite_is_an_error) {
  ScriptedModel model(model_options());
  model.set_edit_logits([](int32_t, int32_t tokens, std::span<float> row) {
    if (tokens == 5) row[2] = std::numeric_limits<float>::quiet_NaN();
  });
  const auto got = greedy_continuation(model, std::vector<int32_t>{1, 2, 3}, 9,
                                       ScriptedModel::kDefinedVocab, 16);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().message,
            "warm-up: a logit after 5 tokens is not finite: the weights or the computation are "
            "broken");
}

TEST(GreedyContinuation, a_context_that_is_too_short_is_an_error) {
  ScriptedModel model(model_options());
  EXPECT_FALSE(greedy_continuation(model, std::vector<int32_t>(60, 1), 5, 32, 16).ok());
}

TEST(QuestionIds, are_those_of_the_golden_prompt) {
  const Tokenizer tokenizer = nano_tokenizer();
  const auto ids = question_ids(tokenizer, "What is 17 times 23?");
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(tokenizer.decode(*ids),
            "[gMASK]<sop><|system|>Reasoning Effort: High<|user|>What is 17 times 23?"
            "<|assistant|><think>");
  EXPECT_EQ(ids->size(), 20u);
}

TEST(WarmUp, an_unknown_checkpoint_passes_with_finite_logits_and_equal_runs) {
  const Tokenizer tokenizer = nano_tokenizer();
  ScriptedModel model(model_options(), tokenizer.size());
  const auto result = warm_up(model, tokenizer, nullptr);
  EXPECT_TRUE(result.ok()) << result.error().message;
}

TEST(WarmUp, an_unknown_checkpoint_fails_when_two_runs_differ) {
  const Tokenizer tokenizer = nano_tokenizer();
  ScriptedModel model(model_options(), tokenizer.size());
  int rows = 0;
  model.set_edit_logits([&](int32_t, int32_t, std::span<float> row) {
    if (++rows == 12) row[5] = 1000;
  });
  const auto result = warm_up(model, tokenizer, nullptr);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("two greedy runs of one prompt differ"), std::string::npos);
}

TEST(WarmUp, a_wrong_known_answer_says_what_was_wanted_and_what_came) {
  const Tokenizer tokenizer = nano_tokenizer();
  ScriptedModel model(model_options(), tokenizer.size());
  const KnownAnswer known{"", "nano", "What is 17 times 23?", "I need", 4};
  const auto result = warm_up(model, tokenizer, &known);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("the answer of nano to \"What is 17 times 23?\" must begin "
                                        "with \"I need\", got \""),
            std::string::npos)
      << result.error().message;
}

TEST(WarmUp, a_tokenizer_that_does_not_fit_the_model_is_an_error) {
  const Tokenizer tokenizer = nano_tokenizer();
  ScriptedModel model(model_options());  // 40 tokens
  const auto result = warm_up(model, tokenizer, nullptr);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("tokenizer.json"), std::string::npos);
}

}  // namespace
}  // namespace yoke::engine
