// Reuse of prefixes through the whole step loop, on a model that checks what it is handed: blocks,
// slots and snapshots hold the very tokens of whoever reads them.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

#include "engine/step_loop.h"
#include "tests/fakes/scripted_model.h"

namespace yoke::engine {
namespace {

using tests::ScriptedModel;

ModelOptions model_options() {
  ModelOptions options;
  options.max_rows = 16;
  options.max_slots = options.max_logit_rows = 3;
  options.max_model_len = 64;
  options.max_window = 2;
  options.max_snapshots = 4;
  return options;
}

GenerationRequest request(std::vector<int32_t> prompt, std::vector<int32_t> boundaries,
                          int32_t max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.boundaries = std::move(boundaries);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

class Fixture {
 public:
  explicit Fixture(const ModelOptions& options = model_options())
      : model(options), loop(model, loop_options(), config::null_logger()) {}

  RequestId add(GenerationRequest request) {
    const RequestId id{next_id++};
    Submission submission;
    submission.id = id;
    if (request.sampling.uses_counts()) submission.counts = TokenCounts(request.prompt);
    submission.request = std::move(request);
    submission.mailbox = mailboxes[id] = std::make_shared<Mailbox>();
    loop.add(std::move(submission), {});
    return id;
  }
  void run_until_idle() {
    while (loop.plan({})) loop.run();
  }
  GenerationEvent take(RequestId id) {
    return mailboxes.at(id)->take().value_or(GenerationEvent{});
  }
  ServiceStatus status() const {
    ServiceStatus status;
    loop.report(status);
    return status;
  }

  ScriptedModel model;
  StepLoop loop;
  std::map<RequestId, std::shared_ptr<Mailbox>> mailboxes;
  uint64_t next_id = 1;

 private:
  static StepLoop::Options loop_options() {
    StepLoop::Options options;
    options.defined_vocab = ScriptedModel::kDefinedVocab;
    options.max_waiting = 1000;
    return options;
  }
};

TEST(PrefixReuse, the_next_turn_computes_what_is_new) {
  Fixture fixture;
  const GenerationRequest first = request({1, 2, 3, 4, 5, 6, 7, 8}, {3, 7}, 4);
  const RequestId a = fixture.add(first);
  fixture.run_until_idle();
  EXPECT_EQ(fixture.take(a).cached_tokens, 0);
  const GenerationRequest second = request({1, 2, 3, 4, 5, 6, 7, 20, 21, 22}, {3, 7, 9}, 4);
  const RequestId b = fixture.add(second);
  fixture.run_until_idle();
  const GenerationEvent told = fixture.take(b);
  EXPECT_EQ(told.cached_tokens, 7);
  EXPECT_EQ(told.tokens, ScriptedModel::answer(second, 64));
  const ServiceStatus status = fixture.status();
  EXPECT_EQ(status.prompt_tokens_cached, 7u);
  EXPECT_EQ(status.prompt_tokens_computed, 8u + 3u);
  EXPECT_EQ(status.snapshots, 2);
  EXPECT_EQ(status.max_snapshots, 4);
  EXPECT_EQ(status.idle_tokens, 2 * ScriptedModel::kBlockTokens);
}

TEST(PrefixReuse, the_same_plain_prompt_computes_its_last_token_only) {
  Fixture fixture;
  const GenerationRequest asked = request(std::vector<int32_t>(30, 7), {}, 3);
  for (const int32_t cached : {0, 29, 29}) {
    const RequestId id = fixture.add(asked);
    fixture.run_until_idle();
    const GenerationEvent told = fixture.take(id);
    EXPECT_EQ(told.cached_tokens, cached);
    EXPECT_EQ(told.tokens, ScriptedModel::answer(asked, 64));
  }
}

TEST(PrefixReuse, without_snapshots_every_prompt_is_computed_whole) {
  ModelOptions options = model_options();
  options.max_snapshots = 0;
  Fixture fixture(options);
  for (int i = 0; i < 2; ++i) {
    const RequestId id = fixture.add(request(std::vector<int32_t>(30, 7), {20}, 3));
    fixture.run_until_idle();
    EXPECT_EQ(fixture.take(id).cached_tokens, 0);
  }
  EXPECT_EQ(fixture.status().prompt_tokens_computed, 60u);
}

TEST(PrefixReuse, a_kept_prefix_that_is_broken_never_reaches_an_answer) {
  Fixture fixture;
  const GenerationRequest first = request({1, 2, 3, 4, 5, 6}, {5}, 1);
  fixture.add(first);
  fixture.run_until_idle();
  bool broken = true;
  fixture.model.set_edit_logits([&](int32_t, int32_t, std::span<float> row) {
    if (std::exchange(broken, false)) row[3] = std::numeric_limits<float>::quiet_NaN();
  });
  const GenerationRequest second = request({1, 2, 3, 4, 5, 9}, {5}, 6);
  const RequestId id = fixture.add(second);
  fixture.run_until_idle();
  const GenerationEvent told = fixture.take(id);
  EXPECT_EQ(told.finish->reason, FinishReason::length);
  EXPECT_EQ(told.tokens, ScriptedModel::answer(second, 64));
  EXPECT_EQ(told.cached_tokens, 5) << "what it was told at first";
  EXPECT_EQ(fixture.status().nonfinite_rows, 1u);
}

/// Conversations that grow, branch and end in any way, on pools that are too small.
TEST(PrefixReuseProperty, answers_are_those_of_a_model_that_has_seen_nothing_else) {
  uint64_t cached = 0, evictions = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return static_cast<int32_t>(random() % n); };
    ModelOptions options = model_options();
    options.max_slots = options.max_logit_rows = 1 + below(5);
    options.max_rows = 2 * options.max_slots + below(20);
    options.num_blocks = 16 + below(24);
    options.max_snapshots = 1 + below(8);
    options.max_window = below(4);
    Fixture fixture(options);
    // Now and then a row is not finite: the request ends, or is computed again.
    fixture.model.set_edit_logits([&](int32_t, int32_t, std::span<float> row) {
      if (below(60) == 0) row[1] = std::numeric_limits<float>::infinity();
    });
    std::vector<std::vector<int32_t>> histories(4);
    std::map<RequestId, GenerationRequest> asked;
    std::map<RequestId, size_t> history_of;
    const auto arrive = [&] {
      const auto which = static_cast<size_t>(below(histories.size()));
      std::vector<int32_t> prompt = histories[which];
      if (prompt.size() > 40 || (!prompt.empty() && below(6) == 0))
        prompt.resize(1 + static_cast<size_t>(below(10)) % prompt.size());
      const auto before = static_cast<int32_t>(prompt.size());
      for (int32_t i = 1 + below(14); i > 0; --i) prompt.push_back(below(4));
      GenerationRequest r = request(prompt, {}, 1 + below(12));
      if (below(4) != 0) r.boundaries = {before, static_cast<int32_t>(prompt.size()) - below(3)};
      r.stop_token_ids = {below(ScriptedModel::kDefinedVocab)};
      if (below(2) == 0) {
        r.sampling.temperature = 1.5;
        r.sampling.seed = random();
      }
      if (below(3) == 0) r.sampling.frequency_penalty = 0.5;
      histories[which] = prompt;
      const RequestId id = fixture.add(r);
      asked.emplace(id, r);
      history_of[id] = which;
    };
    uint64_t steps = 0;
    for (int arrivals = 0; arrivals < 60 || !fixture.loop.idle();) {
      if (arrivals < 60 && below(3) == 0) {
        arrive();
        ++arrivals;
      }
      if (below(40) == 0 && !asked.empty())
        fixture.loop.cancel(RequestId{1 + random() % asked.size()});
      try {
        if (fixture.loop.plan({})) fixture.loop.run();
      } catch (const std::runtime_error& e) {  // three in a row by chance
        ASSERT_NE(std::string(e.what()).find("not finite"), std::string::npos) << e.what();
        fixture.loop.end_all(e.what());
        break;
      }
      ASSERT_LT(++steps, 20000u) << "somebody starves";
    }
    for (const auto& [id, r] : asked) {
      const GenerationEvent told = fixture.take(id);
      ASSERT_TRUE(told.finish.has_value());
      std::vector<int32_t> want = ScriptedModel::answer(r, options.max_model_len);
      if (told.finish->reason == FinishReason::cancelled ||
          told.finish->reason == FinishReason::error) {
        ASSERT_LE(told.tokens.size(), want.size());
        want.resize(told.tokens.size());
      }
      EXPECT_EQ(told.tokens, want) << "request " << static_cast<uint64_t>(id);
      if (told.cached_tokens) {
        EXPECT_LT(*told.cached_tokens, static_cast<int32_t>(r.prompt.size()));
      }
    }
    EXPECT_EQ(fixture.status().cache_usage, 0);
    cached += fixture.status().prompt_tokens_cached;
    evictions += fixture.status().snapshot_evictions;
  }
  EXPECT_GT(cached, 5000u) << "the traffic must meet what it is meant to test";
  EXPECT_GT(evictions, 500u);
}

}  // namespace
}  // namespace yoke::engine
