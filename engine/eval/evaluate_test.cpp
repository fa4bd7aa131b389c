// Evaluation of nano: BF16 against the fp32 path on the same weights, and its known answers.
#include "engine/eval/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/checkpoint/checkpoint.h"
#include "engine/known_answers.h"
#include "engine/runtime.h"
#include "kernels/core/thread_pool.h"

namespace yoke::engine {
namespace {

using testing::HasSubstr;

const std::filesystem::path kNano =
    std::filesystem::path(YOKE_SOURCE_DIR) / "tools/nano/checkpoint";

struct Nano {
  explicit Nano(Precision precision, int32_t context = 512)
      : checkpoint(Checkpoint::open(kNano).value()),
        tokenizer(Tokenizer::load(kNano / "tokenizer.json").value()),
        threads(1) {
    ModelOptions options;
    options.precision = precision;
    options.max_rows = 32;
    options.max_logit_rows = 24;  // less than the rows: the smaller bound cuts the chunks
    options.max_slots = 1;
    options.max_model_len = context;
    options.max_window = 1;
    options.with_mtp = false;
    model = Model::load(checkpoint, options, threads).value();
  }
  Checkpoint checkpoint;
  Tokenizer tokenizer;
  kernels::ThreadPool threads;
  std::unique_ptr<Model> model;
};

/// A conversation as nano was trained on.
constexpr const char* kText =
    "[gMASK]<sop><|system|>Reasoning Effort: High<|user|>Give me JSON with name Zoe, city Kyiv and "
    "age 44.<|assistant|><think>The user wants a JSON object.</think>{\"name\": \"Zoe\", \"city\": "
    "\"Kyiv\", \"age\": 44}<|user|>Who are you?<|assistant|><think>";

class EvaluateNano : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::path(testing::TempDir()) /
            ("yoke_eval_" + std::to_string(::getpid()) + ".safetensors");
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::filesystem::path path_;
};

TEST_F(EvaluateNano, bf16_is_close_to_the_fp32_reference_and_fp32_is_equal) {
  Nano fp32(Precision::fp32);
  const int32_t vocab = fp32.tokenizer.size();
  const std::vector<ReferenceText> texts = {
      {"whole", fp32.tokenizer.encode_ids(kText).value()},
      {"short", fp32.tokenizer.encode_ids("[gMASK]<sop><|user|>ping").value()}};
  const ReferenceOrigin origin{"nano", fp32.checkpoint.identity(), "fp32", vocab};
  ASSERT_TRUE(save_reference(*fp32.model, origin, texts, path_).ok());
  const auto reference = ReferenceFile::open(path_);
  ASSERT_TRUE(reference.ok()) << reference.error().message;

  const auto same = compare_with_reference(*fp32.model, vocab, *reference);
  ASSERT_TRUE(same.ok()) << same.error().message;
  ASSERT_EQ(same->size(), 2u);
  EXPECT_EQ((*same)[0].rows, texts[0].tokens.size());
  EXPECT_EQ((*same)[0].kl_max, 0.0) << "run 1 = run 2";
  EXPECT_EQ((*same)[0].top1(), 1.0);
  EXPECT_EQ((*same)[0].perplexity(), (*same)[0].reference_perplexity());

  Nano bf16(Precision::bf16);
  const auto close = compare_with_reference(*bf16.model, vocab, *reference);
  ASSERT_TRUE(close.ok());
  Divergence all;
  for (const Divergence& text : *close) all.add(text);
  EXPECT_GT(all.mean_kl(), 0.0) << "BF16 cannot be fp32";
  // golden/nano: BF16 moves logits by an RMS of up to 0.13. A row's KL is about half the variance
  // of the moves under its distribution, 0.0085; few rows are that wide. Ten times that fails only
  // when something is wrong.
  EXPECT_LT(all.mean_kl(), 0.085);
  EXPECT_GT(all.top1(), 0.9);
}

TEST_F(EvaluateNano, another_vocabulary_and_texts_that_do_not_fit_are_refused) {
  Nano nano(Precision::bf16, 64);
  const ReferenceOrigin origin{"nano", "", "bf16", nano.tokenizer.size()};
  const std::vector<ReferenceText> long_text = {{"long", std::vector<int32_t>(65, 5)}};
  const auto saved = save_reference(*nano.model, origin, long_text, path_);
  ASSERT_FALSE(saved.ok());
  EXPECT_THAT(saved.error().message, HasSubstr("65 tokens does not fit the context of 64"));
  EXPECT_FALSE(std::filesystem::exists(path_));

  const std::vector<ReferenceText> text = {{"t", {5, 6, 7}}};
  ASSERT_TRUE(save_reference(*nano.model, origin, text, path_).ok());
  const auto reference = ReferenceFile::open(path_);
  ASSERT_TRUE(reference.ok());
  const auto other = compare_with_reference(*nano.model, origin.vocab - 1, *reference);
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, HasSubstr("vocabulary of " + std::to_string(origin.vocab)));
}

TEST(Questions, nano_gives_its_known_answers) {
  Nano nano(Precision::bf16);
  const auto questions = known_questions(nano.checkpoint.identity());
  ASSERT_GE(questions.size(), 5u);
  for (const Question& question : questions) {
    const auto result = ask(*nano.model, nano.tokenizer, eos_token_ids(nano.checkpoint), question);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_TRUE(result->right) << question.question << " → " << result->completion;
    EXPECT_LE(result->tokens, question.max_tokens);
  }
}

TEST(Questions, wrong_answers_limits_and_efforts_are_seen) {
  Nano nano(Precision::bf16);
  const auto eos = eos_token_ids(nano.checkpoint);
  Question question{"What is 17 times 23?", "400", "high", 200, Question::Match::anywhere};
  EXPECT_FALSE(ask(*nano.model, nano.tokenizer, eos, question)->right);
  question.answer = "391.";
  const auto right = ask(*nano.model, nano.tokenizer, eos, question);
  EXPECT_TRUE(right->right);
  EXPECT_LT(right->tokens, 200) << "ends at the end of turn";
  EXPECT_THAT(right->completion, HasSubstr("</think>"));
  question.max_tokens = 3;
  EXPECT_EQ(ask(*nano.model, nano.tokenizer, eos, question)->tokens, 3);
  question.effort = "none";
  question.max_tokens = 40;
  EXPECT_THAT(ask(*nano.model, nano.tokenizer, eos, question)->completion,
              testing::Not(HasSubstr("</think>")));
}

TEST(Questions, files_hold_one_object_per_line) {
  const auto questions = read_questions(
      "{\"question\":\"a\",\"answer\":\"b\"}\n\n"
      "{\"question\":\"c\",\"answer\":\"d\",\"effort\":\"none\",\"max_tokens\":7}\n",
      "f");
  ASSERT_TRUE(questions.ok()) << questions.error().message;
  ASSERT_EQ(questions->size(), 2u);
  EXPECT_EQ((*questions)[0].effort, "high");
  EXPECT_EQ((*questions)[1].effort, "none");
  EXPECT_EQ((*questions)[1].max_tokens, 7);
  for (const char* line :
       {"{}", "[]", "{", R"({"question":"a","answer":""})", R"({"question":"a","answer":1})",
        R"({"question":"a","answer":"b","effort":"much"})",
        R"({"question":"a","answer":"b","max_tokens":0})"}) {
    const auto bad = read_questions(std::string("\n") + line, "my.jsonl");
    ASSERT_FALSE(bad.ok()) << line;
    EXPECT_THAT(bad.error().message, HasSubstr("my.jsonl:2")) << line;
  }
  EXPECT_FALSE(read_questions("", "f").ok());
}

TEST(Questions, unknown_checkpoints_have_none) {
  EXPECT_TRUE(known_questions("another").empty());
  EXPECT_TRUE(known_answers("another").empty());
}

}  // namespace
}  // namespace yoke::engine
