// `yoke bench` against a server over real sockets: what it measures, and what it says of an
// endpoint that cannot be measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/bench/run.h"
#include "tests/scenario/chat_script.h"

namespace yoke::tests {
namespace {

using server::BenchPlan;
using testing::HasSubstr;

BenchPlan plan_for(const TestServer& server) {
  BenchPlan plan;
  plan.target.endpoint =
      server::parse_endpoint("http://127.0.0.1:" + std::to_string(server.port())).value();
  plan.prompts = {{"one", "hi"}, {"two", "ho"}};
  plan.concurrency = {1, 3};
  plan.runs = 2;
  return plan;
}

std::string failure_of(const BenchPlan& plan) {
  const auto model = server::check_endpoint(plan);
  return model.ok() ? "none, it serves " + *model : model.error().message;
}

TEST(Bench, sweep_counts_tokens_requests_and_cache_hits) {
  TestServer server;
  answer_with(server, "some words of an answer", 2, engine::FinishReason::stop, 5);
  const auto tokens = static_cast<double>(ids_of("some words of an answer", true).size());
  std::vector<std::string> seen;
  const auto result = server::run_bench(plan_for(server), [&](const std::string& kind, int32_t at) {
    seen.push_back(kind + std::to_string(at));
  });
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_THAT(seen, testing::ElementsAre("one1", "one3", "two1", "two3"));
  EXPECT_EQ(result->model, "nano");
  EXPECT_FALSE(result->failed());
  EXPECT_FALSE(result->server_version.empty());
  ASSERT_EQ(result->cells.size(), 4u);
  EXPECT_EQ(result->cells[1].line.requests, 6) << "2 runs of 3; the first run is discarded";
  for (const auto& cell : result->cells) {
    EXPECT_DOUBLE_EQ(cell.line.output_tokens, tokens);
    EXPECT_GT(cell.line.ttft_ms.p50, 0);
    EXPECT_GT(cell.line.wall_tps, 0);
    EXPECT_DOUBLE_EQ(cell.line.cached_share, 5 / cell.line.prompt_tokens);
    EXPECT_TRUE(cell.line.counted_tokens);
  }
  // 1 probe, then per prompt 3 waves of 1 and 3 waves of 3.
  ASSERT_EQ(server.engine.submitted(), 1u + 2 * (3 + 9));
  const auto first = server.engine.request(engine::RequestId{1});
  EXPECT_EQ(first.sampling.temperature, 0);
  EXPECT_EQ(first.max_tokens, 256);
  EXPECT_NE(first.prompt, server.engine.request(engine::RequestId{2}).prompt) << "cold";
}

TEST(Bench, reuse_sends_equal_prompts) {
  TestServer server;
  answer_with(server, "x");
  BenchPlan plan = plan_for(server);
  plan.request.cold = false;
  ASSERT_TRUE(server::run_bench(plan, [](const std::string&, int32_t) {}).ok());
  EXPECT_EQ(server.engine.request(engine::RequestId{1}).prompt,
            server.engine.request(engine::RequestId{2}).prompt);
}

TEST(Bench, time_to_first_token_is_that_of_the_first_token) {
  TestServer server;
  server.engine.hold_all();
  BenchPlan plan = plan_for(server);
  server::Wave wave;
  std::thread client([&] {
    wave =
        server::bench_wave(plan.target, {server::bench_body(plan.prompts[0], plan.request, "0")});
  });
  const auto id = server.engine.wait_for_request(0);
  const auto before_first = config::Clock::now();
  server.engine.emit(id, ids_of("first"));
  server.engine.emit(id, ids_of(" last", true));
  server.engine.finish(id);
  client.join();
  ASSERT_EQ(wave.size(), 1u);
  EXPECT_EQ(wave[0].failure, "");
  EXPECT_LE(wave[0].sent, before_first);
  EXPECT_GE(wave[0].pieces.at(0).at, before_first) << "heads and comments are no tokens";
}

TEST(Bench, errors_of_an_endpoint_name_the_cause_and_the_flag) {
  config::Config config = test_config();
  config.access.api_keys = {"alice:secret"};
  TestServer server(config);
  answer_with(server, "x");
  BenchPlan plan = plan_for(server);
  EXPECT_THAT(failure_of(plan), HasSubstr("401"));
  EXPECT_THAT(failure_of(plan), HasSubstr("--api-key"));
  plan.target.api_key = "secret";
  EXPECT_EQ(failure_of(plan), "none, it serves nano");
  plan.request.model = "gpt-4";
  EXPECT_THAT(failure_of(plan), HasSubstr("has no model \"gpt-4\"; it serves: nano, org/alias"));
  plan.request.model = "org/alias";
  EXPECT_EQ(failure_of(plan), "none, it serves org/alias");
}

TEST(Bench, endpoint_that_loads_is_not_measured_but_waited_for) {
  TestServer server;
  answer_with(server, "x");
  server.engine.set_state(engine::ReadyState::loading, "1 of 3 GiB");
  BenchPlan plan = plan_for(server);
  EXPECT_THAT(failure_of(plan), HasSubstr("503"));
  EXPECT_THAT(failure_of(plan), HasSubstr("1 of 3 GiB"));
  EXPECT_THAT(failure_of(plan), HasSubstr("--wait"));
  plan.patience = std::chrono::minutes(1);
  std::thread other([&] { server.engine.set_state(engine::ReadyState::ready); });
  EXPECT_EQ(failure_of(plan), "none, it serves nano");
  other.join();
}

TEST(Bench, nobody_there_is_said) {
  BenchPlan plan;
  {
    TestServer server;
    plan = plan_for(server);
  }
  EXPECT_THAT(failure_of(plan), HasSubstr("cannot connect to http://127.0.0.1:"));
}

TEST(Bench, requests_that_fail_are_counted_and_named) {
  TestServer server;
  answer_with(server, "half", 1, engine::FinishReason::error);
  const BenchPlan plan = plan_for(server);
  const std::string body = server::bench_body(plan.prompts[0], plan.request, "0");
  const server::Wave wave = server::bench_wave(plan.target, {body, "{}"});
  EXPECT_THAT(wave.at(0).failure, HasSubstr("the engine ended the request"));
  EXPECT_THAT(wave.at(1).failure, HasSubstr("HTTP 400: "));
}

TEST(Bench, endpoint_that_falls_silent_fails_in_time) {
  TestServer server;
  server.engine.hold_all();
  BenchPlan plan = plan_for(server);
  plan.target.silence = std::chrono::milliseconds(50);
  const server::Wave wave =
      server::bench_wave(plan.target, {server::bench_body(plan.prompts[0], plan.request, "0")});
  EXPECT_THAT(wave.at(0).failure, HasSubstr("no answer in time"));
  server.engine.wait_until_cancelled(engine::RequestId{0});
}

}  // namespace
}  // namespace yoke::tests
