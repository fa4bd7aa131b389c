// The whole program but for its command line: nano's weights behind real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/runtime.h"
#include "server/bench/run.h"
#include "tests/scenario/chat_script.h"

namespace yoke::tests {
namespace {

using engine::Json;

class NanoServer : public testing::Test {
 protected:
  void SetUp() override {
    engine::RuntimeOptions options;
    options.folder = std::string(YOKE_SOURCE_DIR) + "/tools/nano/checkpoint";
    options.max_batched_tokens = 64;
    options.max_model_len = 4096;
    options.threads = 1;
    auto opened = engine::Runtime::open(options, test_logger());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    runtime_ = std::move(*opened);
    server_ = std::make_unique<server::Server>(test_config(), server::KeyRing{}, test_logger());
    ASSERT_TRUE(server_->start().ok());
    auto model = std::make_shared<server::ServedModel>();
    model->names = {"nano"};
    model->fingerprint = "fp_test";
    model->max_model_len = runtime_->max_model_len();
    model->max_positions = runtime_->checkpoint().config().max_positions;
    model->vocab_size = runtime_->tokenizer().size();
    model->eos_token_ids = runtime_->eos_token_ids();
    model->sampling = runtime_->default_sampling();
    model->tokenizer = &runtime_->tokenizer();
    model->service = &runtime_->engine();
    server_->set_model(model);
    ASSERT_TRUE(runtime_->engine().wait_until_ready().ok());
  }
  void TearDown() override {
    if (server_) server_->stop();
    if (runtime_) runtime_->engine().stop();
  }
  HttpReply chat(std::string_view more, std::string_view text) {
    return ask(server_->port(), "POST", "/v1/chat/completions", chat_body(more, text));
  }

  std::unique_ptr<engine::Runtime> runtime_;
  std::unique_ptr<server::Server> server_;
};

TEST_F(NanoServer, known_question_gives_the_same_answer_plain_and_streamed) {  // E5, H3
  const char* question = "What is 17 times 23?";
  const Json plain = chat(R"(,"temperature":0)", question).json();
  EXPECT_EQ(message_of(plain).find("content")->as_string(), "17 times 23 is 391.");
  const HttpReply reply = chat(std::string(kStream) + R"(,"temperature":0)", question);
  const StreamResult streamed = StreamRules::check(reply.body);
  EXPECT_EQ(streamed.content, "17 times 23 is 391.");
  EXPECT_EQ(streamed.reasoning, message_of(plain).find("reasoning_content")->as_string());
  EXPECT_EQ(streamed.finish_reason, "stop");
  for (const char* key : {"prompt_tokens", "completion_tokens", "total_tokens"})
    EXPECT_EQ(number(streamed.usage, key), number(*plain.find("usage"), key)) << key;
}

TEST_F(NanoServer, long_answer_does_not_keep_another_prompt_waiting) {  // G5
  // The end of a turn is forbidden, so that A goes on to its limit.
  std::string bias = R"(,"temperature":0,"max_tokens":3000,"logit_bias":{)";
  for (const int32_t id : runtime_->eos_token_ids())
    bias += (bias.back() == '{' ? "\"" : ",\"") + std::to_string(id) + "\":-100";
  HttpClient a(server_->port());
  a.request("POST", "/v1/chat/completions",
            chat_body(R"(,"stream":true)" + bias + "}", "Count from 1 to 200."));
  a.read_head();
  a.read_until("reasoning_content");
  std::string text = "Say yes.";
  for (int i = 0; i < 100; ++i) text += " The weather is fine.";
  const StreamResult b = StreamRules::check(
      chat(std::string(kStream) + R"(,"temperature":0,"max_tokens":4)", text).body);
  EXPECT_GT(number(b.usage, "prompt_tokens"), 400) << "several chunks of prefill";
  EXPECT_GT(number(b.usage, "completion_tokens"), 0);
  EXPECT_GE(runtime_->engine().status().running, 1) << "B's answer came before A's end";
  a.reset();
  EXPECT_TRUE(runtime_->engine().wait_until_idle(std::chrono::minutes(1)));
}

TEST_F(NanoServer, can_be_measured) {
  server::BenchPlan plan;
  plan.target.endpoint =
      server::parse_endpoint("http://127.0.0.1:" + std::to_string(server_->port())).value();
  plan.request.max_tokens = 16;
  plan.prompts = server::built_in_prompts();
  plan.concurrency = {2};
  plan.runs = 1;
  const auto result = server::run_bench(plan, [](const std::string&, int32_t) {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_FALSE(result->failed()) << server::bench_text(*result);
  ASSERT_EQ(result->cells.size(), 4u);
  for (const auto& cell : result->cells) {
    EXPECT_GE(cell.line.output_tokens, 2) << cell.kind;
    EXPECT_LE(cell.line.output_tokens, 16) << cell.kind;
    EXPECT_TRUE(cell.line.counted_tokens);
  }
}

}  // namespace
}  // namespace yoke::tests
