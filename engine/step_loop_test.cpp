#include "engine/step_loop.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>
#include <stdexcept>

#include "tests/fakes/scripted_model.h"

namespace yoke::engine {
namespace {

using tests::ScriptedModel;

const config::TimePoint kStart{};

ModelOptions model_options() {
  ModelOptions options;
  options.max_rows = 16;
  options.max_slots = 3;
  options.max_model_len = 64;
  options.max_logit_rows = 3;
  return options;
}

GenerationRequest request(std::vector<int32_t> prompt, int32_t max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

/// A loop over a scripted model, and everything its requests were told.
class Fixture {
 public:
  explicit Fixture(const ModelOptions& options = model_options(), config::Duration time_limit = {})
      : model(options), loop(model, loop_options(time_limit), config::null_logger()) {}

  RequestId add(GenerationRequest request) {
    const RequestId id{next_id++};
    Submission submission;
    submission.id = id;
    if (request.sampling.uses_counts()) submission.counts = TokenCounts(request.prompt);
    submission.request = std::move(request);
    submission.mailbox = mailboxes[id] = std::make_shared<Mailbox>();
    submission.at = kStart;
    loop.add(std::move(submission), kStart);
    return id;
  }

  void run_until_idle() {
    while (loop.plan(kStart)) loop.run();
  }

  /// All that the request was told since the last call.
  GenerationEvent take(RequestId id) {
    return mailboxes.at(id)->take().value_or(GenerationEvent{});
  }

  ScriptedModel model;
  StepLoop loop;
  std::map<RequestId, std::shared_ptr<Mailbox>> mailboxes;
  std::vector<RequestId> ends;
  uint64_t next_id = 1;

 private:
  StepLoop::Options loop_options(config::Duration time_limit) {
    StepLoop::Options options;
    options.defined_vocab = ScriptedModel::kDefinedVocab;
    options.max_waiting = 1000;
    options.time_limit = time_limit;
    options.on_end = [this](RequestId id) { ends.push_back(id); };
    return options;
  }
};

TEST(StepLoop, answers_greedily_up_to_max_tokens) {
  Fixture fixture;
  const GenerationRequest asked = request({3, 1, 4, 1, 5}, 7);
  const RequestId id = fixture.add(asked);
  fixture.run_until_idle();
  const GenerationEvent told = fixture.take(id);
  EXPECT_EQ(told.tokens, ScriptedModel::answer(asked, 64));
  EXPECT_EQ(told.tokens.size(), 7u);
  EXPECT_EQ(told.cached_tokens, 0);
  ASSERT_TRUE(told.finish.has_value());
  EXPECT_EQ(told.finish->reason, FinishReason::length);
  EXPECT_EQ(fixture.ends, std::vector{id});
}

TEST(StepLoop, the_stop_token_is_delivered_and_ends_the_request) {
  Fixture fixture;
  GenerationRequest asked = request({3, 1, 4}, 50);
  asked.stop_token_ids = {ScriptedModel::answer(asked, 64)[3]};
  const RequestId id = fixture.add(asked);
  fixture.run_until_idle();
  const GenerationEvent told = fixture.take(id);
  EXPECT_EQ(told.tokens, ScriptedModel::answer(asked, 64));
  EXPECT_EQ(told.tokens.back(), asked.stop_token_ids[0]);
  EXPECT_EQ(told.finish->reason, FinishReason::stop);
}

TEST(StepLoop, the_context_ends_a_request) {
  Fixture fixture;
  const GenerationRequest asked = request(std::vector<int32_t>(60, 1), 50);
  const RequestId id = fixture.add(asked);
  fixture.run_until_idle();
  const GenerationEvent told = fixture.take(id);
  EXPECT_EQ(told.tokens.size(), 4u);
  EXPECT_EQ(told.finish->reason, FinishReason::length);
}

TEST(StepLoop, the_first_event_comes_with_the_first_rows_of_a_long_prompt) {
  Fixture fixture;
  const RequestId id = fixture.add(request(std::vector<int32_t>(40, 1), 1));
  ASSERT_TRUE(fixture.loop.plan(kStart));
  EXPECT_FALSE(fixture.mailboxes[id]->take().has_value());
  fixture.loop.run();
  const auto told = fixture.mailboxes[id]->take();
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->cached_tokens, 0);
  EXPECT_TRUE(told->tokens.empty());
  EXPECT_FALSE(told->finish.has_value());
}

TEST(StepLoop, cancel_ends_at_once_and_frees_the_slot) {
  Fixture fixture;
  std::vector<RequestId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(fixture.add(request({1, 2}, 50)));
  ASSERT_TRUE(fixture.loop.plan(kStart));
  fixture.loop.run();
  fixture.loop.cancel(ids[3]);  // waits for a slot
  fixture.loop.cancel(ids[0]);  // decodes
  fixture.loop.cancel(ids[0]);
  for (const size_t i : {0u, 3u})
    EXPECT_EQ(fixture.take(ids[i]).finish->reason, FinishReason::cancelled);
  EXPECT_EQ(fixture.ends, (std::vector{ids[3], ids[0]}));
  ServiceStatus status;
  fixture.loop.report(status);
  EXPECT_EQ(status.running, 2);
  EXPECT_EQ(status.waiting, 0);
}

TEST(StepLoop, a_row_that_is_not_finite_ends_its_request_alone) {
  Fixture fixture;
  const GenerationRequest good = request({1, 2}, 20);
  const RequestId a = fixture.add(good), b = fixture.add(request({3, 4}, 20));
  fixture.model.set_edit_logits([](int32_t slot, int32_t tokens, std::span<float> row) {
    if (slot == 1 && tokens == 5) row[7] = std::numeric_limits<float>::quiet_NaN();
  });
  fixture.run_until_idle();
  EXPECT_EQ(fixture.take(a).tokens, ScriptedModel::answer(good, 64));
  const GenerationEvent told = fixture.take(b);
  EXPECT_EQ(told.tokens.size(), 3u) << "those before the bad row";
  EXPECT_EQ(told.finish->reason, FinishReason::error);
  EXPECT_FALSE(told.finish->message.empty());
  ServiceStatus status;
  fixture.loop.report(status);
  EXPECT_EQ(status.nonfinite_rows, 1u);
}

TEST(StepLoop, three_rows_in_a_row_that_are_not_finite_are_fatal) {
  Fixture fixture;
  fixture.model.set_edit_logits([](int32_t, int32_t, std::span<float> row) {
    row[0] = std::numeric_limits<float>::infinity();
  });
  const RequestId a = fixture.add(request({1}, 20)), b = fixture.add(request({2}, 20));
  ASSERT_TRUE(fixture.loop.plan(kStart));
  EXPECT_NO_THROW(fixture.loop.run());
  const RequestId c = fixture.add(request({3}, 20));
  ASSERT_TRUE(fixture.loop.plan(kStart));
  EXPECT_THROW(fixture.loop.run(), std::runtime_error);
  for (const RequestId id : {a, b, c})
    EXPECT_EQ(fixture.take(id).finish->reason, FinishReason::error);
}

TEST(StepLoop, a_finite_row_between_them_is_not_fatal) {
  Fixture fixture;
  int rows = 0;
  fixture.model.set_edit_logits([&](int32_t, int32_t, std::span<float> row) {
    if (++rows % 3 != 0) row[0] = std::numeric_limits<float>::infinity();
  });
  for (int i = 0; i < 9; ++i) fixture.add(request({1}, 1));
  EXPECT_NO_THROW(fixture.run_until_idle());
  ServiceStatus status;
  fixture.loop.report(status);
  EXPECT_EQ(status.nonfinite_rows, 6u);
}

TEST(StepLoop, requests_that_take_too_long_end_with_an_error) {
  Fixture fixture(model_options(), std::chrono::seconds(30));
  const RequestId id = fixture.add(request({1, 2}, 50));
  ASSERT_TRUE(fixture.loop.plan(kStart));
  fixture.loop.run();
  EXPECT_FALSE(fixture.loop.plan(kStart + std::chrono::seconds(30)));
  const GenerationEvent told = fixture.take(id);
  EXPECT_EQ(told.finish->reason, FinishReason::error);
  EXPECT_EQ(told.finish->message, "the request took longer than the limit of 30 s");
}

TEST(StepLoop, end_all_tells_running_and_waiting_requests) {
  Fixture fixture;
  std::vector<RequestId> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(fixture.add(request({1, 2}, 50)));
  ASSERT_TRUE(fixture.loop.plan(kStart));
  fixture.loop.run();
  fixture.loop.end_all("gone");
  for (const RequestId id : ids) {
    const GenerationEvent told = fixture.take(id);
    EXPECT_EQ(told.finish->reason, FinishReason::error);
    EXPECT_EQ(told.finish->message, "gone");
  }
  EXPECT_EQ(fixture.ends.size(), 5u);
}

TEST(StepLoop, counts_what_it_computes) {
  Fixture fixture;
  fixture.add(request(std::vector<int32_t>(20, 1), 3));
  fixture.add(request({1}, 2));
  fixture.run_until_idle();
  ServiceStatus status;
  fixture.loop.report(status);
  EXPECT_EQ(status.prompt_tokens_computed, 21u);
  EXPECT_EQ(status.generated_tokens, 5u);
  EXPECT_EQ(status.running + status.waiting, 0);
  EXPECT_EQ(status.cache_usage, 0);
}

GenerationRequest random_request(std::mt19937_64& random, int32_t max_model_len) {
  GenerationRequest r;
  const uint64_t longest = random() % 4 == 0 ? static_cast<uint64_t>(max_model_len - 1) : 12;
  r.prompt.resize(1 + random() % longest);
  for (int32_t& token : r.prompt)
    token = static_cast<int32_t>(random() % ScriptedModel::kDefinedVocab);
  r.max_tokens = 1 + static_cast<int32_t>(random() % 40);
  r.stop_token_ids = {static_cast<int32_t>(random() % ScriptedModel::kDefinedVocab)};
  r.sampling.temperature = random() % 3 == 0 ? 0 : 1.5;
  r.sampling.seed = random();
  if (random() % 3 == 0) r.sampling.top_p = 0.9;
  if (random() % 3 == 0) r.sampling.frequency_penalty = 0.5;
  if (random() % 3 == 0) r.sampling.repetition_penalty = 1.3;
  r.key_label = std::string(1, static_cast<char>('a' + random() % 3));
  return r;
}

// Batched = alone, chunked = whole, preempted = undisturbed (design.md 5), as far as the engine can
// spoil them: slots, blocks, positions, histories and noise.
TEST(StepLoopProperty, whatever_happens_around_a_request_its_answer_is_the_same) {
  int preempted_answers = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    ModelOptions options = model_options();
    options.max_slots = options.max_logit_rows = 1 + static_cast<int32_t>(random() % 5);
    options.max_rows = 2 * options.max_slots + static_cast<int32_t>(random() % 20);
    options.num_blocks = 16 + static_cast<int32_t>(random() % 16);
    Fixture fixture(options);
    std::map<RequestId, GenerationRequest> asked;
    std::set<RequestId> cancelled;
    uint64_t steps = 0;
    for (int arrivals = 0; arrivals < 40 || !fixture.loop.idle();) {
      if (arrivals < 40 && random() % 3 == 0) {
        GenerationRequest r = random_request(random, options.max_model_len);
        asked.emplace(fixture.add(r), r);
        ++arrivals;
      }
      if (random() % 50 == 0 && !asked.empty()) {
        const RequestId victim{1 + random() % asked.size()};
        const size_t ends = fixture.ends.size();
        fixture.loop.cancel(victim);
        if (fixture.ends.size() > ends) cancelled.insert(victim);
      }
      if (fixture.loop.plan(kStart)) fixture.loop.run();
      ASSERT_LT(++steps, 10000u) << "somebody starves";
    }
    ASSERT_EQ(fixture.ends.size(), asked.size());
    for (const auto& [id, r] : asked) {
      const GenerationEvent told = fixture.take(id);
      ASSERT_TRUE(told.finish.has_value());
      std::vector<int32_t> want = ScriptedModel::answer(r, options.max_model_len);
      if (cancelled.contains(id)) {
        EXPECT_EQ(told.finish->reason, FinishReason::cancelled);
        ASSERT_LE(told.tokens.size(), want.size());
        want.resize(told.tokens.size());
      }
      EXPECT_EQ(told.tokens, want) << "request " << static_cast<uint64_t>(id);
    }
    ServiceStatus status;
    fixture.loop.report(status);
    EXPECT_EQ(status.cache_usage, 0);
    uint64_t prompts = 0;
    for (const auto& [id, r] : asked) prompts += r.prompt.size();
    preempted_answers += status.prompt_tokens_computed > prompts;
  }
  EXPECT_GT(preempted_answers, 5) << "the traffic must meet what it is meant to test";
}

}  // namespace
}  // namespace yoke::engine
