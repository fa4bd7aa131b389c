// The same bits whatever a row shares its step with (design.md 5), on models of random weights.
#include <gtest/gtest.h>

#include <optional>

#include "engine/testing/random_model.h"
#include "kernels/testing/compare.h"

namespace yoke::engine {
namespace {

using kernels::ConstTensorView;
using kernels::testing::Random;
using kernels::testing::RowSink;
using kernels::testing::same_bits;
using kernels::testing::ScheduledStep;
using kernels::testing::ScheduleShape;

/// What a model is made of, and how wide the activations are.
struct Kind {
  const char* name;
  ModelConfig config;
  std::function<int(const ExpectedTensor&)> bits;
  Precision precision;
};

std::vector<Kind> kinds() {
  const auto dense = [](const ExpectedTensor&) { return 0; };
  return {{"tiny_fp32", tiny_config(), dense, Precision::fp32},
          {"tiny_bf16", tiny_config(), dense, Precision::bf16},
          {"exl3_fp32", exl3_config(), exl3_everything(), Precision::fp32},
          {"exl3_bf16", exl3_config(), exl3_experts(4), Precision::bf16}};
}

class Exactness : public ::testing::TestWithParam<Kind> {
 protected:
  /// Logits and hidden rows of every true row.
  struct Outputs {
    kernels::Tensor logits, hidden;
  };

  std::unique_ptr<LoadedModel> load(const ScheduleShape& shape, kernels::ThreadPool& threads) {
    RandomCheckpoint what;
    what.config = GetParam().config;
    what.bits = GetParam().bits;
    return load_random_model(what, options_for(shape, GetParam().precision), threads);
  }

  Outputs run(LoadedModel& model, const std::vector<ScheduledStep>& steps,
              const ScheduleShape& shape, const ScheduledTokens& tokens) {
    RowSink logits(shape, kernels::DType::f32, {model.config().vocab_size});
    RowSink hidden(shape, model.hidden().dtype, {model.config().hidden_size});
    for (ScheduledStep step : steps) {
      step.padding = 0;  // the model pads by itself
      logits.take(step, logits_view(model.step(tokens.plan(step, model))));
      hidden.take(step, model.hidden());
    }
    return {kernels::testing::copy_of(logits.view()), kernels::testing::copy_of(hidden.view())};
  }
};

TEST_P(Exactness, any_schedule_gives_the_bits_of_serial_decoding) {
  const ScheduleShape shape{.sequences = 3, .length = 45, .max_chunk = 20};
  kernels::ThreadPool one(1);
  const std::unique_ptr<LoadedModel> serial = load(shape, one);
  for (int threads = 1; threads <= 3; ++threads) {
    Random random(static_cast<uint64_t>(40 + threads));
    SCOPED_TRACE(random.trace());
    const ScheduledTokens tokens(random, shape, serial->config().vocab_size);
    const Outputs want = run(*serial, serial_schedule(shape), shape, tokens);
    kernels::ThreadPool pool(threads);
    const std::unique_ptr<LoadedModel> mixed = load(shape, pool);
    for (int i = 0; i < 2; ++i) {  // the second time over slots and blocks that were used
      const Outputs got = run(*mixed, random_schedule(random, shape), shape, tokens);
      EXPECT_TRUE(same_bits(got.logits.view(), want.logits.view()));
      EXPECT_TRUE(same_bits(got.hidden.view(), want.hidden.view()));
    }
  }
}

TEST_P(Exactness, a_prompt_gives_the_same_bits_in_any_chunks) {
  const ScheduleShape shape{.sequences = 1, .length = 70, .max_chunk = 70};
  kernels::ThreadPool threads(2);
  const std::unique_ptr<LoadedModel> model = load(shape, threads);
  Random random(7);
  SCOPED_TRACE(random.trace());
  const ScheduledTokens tokens(random, shape, model->config().vocab_size);
  const std::vector<int32_t> prompt = tokens.truth(0, shape.length);
  const RowSet whole = run_prompt(*model, prompt, shape.length);
  for (const int32_t chunk : {1, 3, 4, 16, 64})
    EXPECT_EQ(run_prompt(*model, prompt, chunk).values, whole.values) << "chunks of " << chunk;
}

TEST_P(Exactness, the_mtp_layer_gives_the_same_bits_in_any_schedule) {
  const ScheduleShape shape{.sequences = 2, .length = 40};
  kernels::ThreadPool threads(2);
  const std::unique_ptr<LoadedModel> model = load(shape, threads);
  Random random(8);
  SCOPED_TRACE(random.trace());
  const ScheduledTokens tokens(random, shape, model->config().vocab_size);
  const kernels::testing::RowSource hidden(random, shape, kernels::DType::f32,
                                           {model->config().hidden_size});
  const auto run_mtp = [&](const std::vector<ScheduledStep>& steps) {
    RowSink logits(shape, kernels::DType::f32, {model->config().vocab_size});
    for (ScheduledStep step : steps) {
      step.padding = 0;
      const std::vector<float> rows = to_floats(hidden.rows(step).view());
      logits.take(step, logits_view(model->mtp_step(tokens.plan(step, *model), rows)));
    }
    return kernels::testing::copy_of(logits.view());
  };
  const kernels::Tensor want = run_mtp(serial_schedule(shape));
  const kernels::Tensor got = run_mtp(random_schedule(random, shape));
  EXPECT_TRUE(same_bits(got.view(), want.view()));
}

TEST_P(Exactness, drafting_and_running_the_trunk_do_not_disturb_each_other) {
  const ScheduleShape shape{.sequences = 1, .length = 30};
  kernels::ThreadPool threads(1);
  const std::unique_ptr<LoadedModel> model = load(shape, threads);
  Random random(9);
  SCOPED_TRACE(random.trace());
  const ScheduledTokens tokens(random, shape, model->config().vocab_size);
  const Outputs want = run(*model, serial_schedule(shape), shape, tokens);
  RowSink logits(shape, kernels::DType::f32, {model->config().vocab_size});
  for (const ScheduledStep& step : serial_schedule(shape)) {
    const StepPlan plan = tokens.plan(step, *model);
    logits.take(step, logits_view(model->step(plan)));
    model->mtp_step(plan, to_floats(model->hidden()));
  }
  EXPECT_TRUE(same_bits(logits.view(), want.logits.view()));
}

INSTANTIATE_TEST_SUITE_P(Models, Exactness, ::testing::ValuesIn(kinds()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace yoke::engine
