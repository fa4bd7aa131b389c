// A pass is recorded once per row bucket and replayed with other contents, as a CUDA graph will be
// (design.md 6): it must do what direct execution does, bit for bit.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "engine/testing/random_model.h"
#include "kernels/testing/compare.h"

namespace yoke::engine {
namespace {

using kernels::Stream;
using kernels::testing::Random;
using kernels::testing::same_bits;
using kernels::testing::ScheduledStep;
using kernels::testing::ScheduleShape;

/// Recorded passes of one model: one per row bucket, and one head per bucket of logit rows. Each is
/// recorded at the first step that needs it and replayed with the contents of all later ones.
class Recordings {
 public:
  Recordings(ModelParts& parts, bool mtp) : parts_(parts), mtp_(mtp) {}

  /// What LoadedModel does with a plan, from recordings.
  void replay() {
    Forward& forward = parts_.forward;
    const int32_t bucket = parts_.buffers.bucket();
    const int32_t logit_bucket = parts_.buffers.logit_bucket();
    play(passes_, bucket, [&] { mtp_ ? forward.mtp(bucket) : forward.trunk(bucket); });
    play(heads_, logit_bucket,
         [&] { mtp_ ? forward.mtp_head(logit_bucket) : forward.trunk_head(logit_bucket); });
  }
  size_t recorded() const { return passes_.size(); }
  int reused() const { return reused_; }

 private:
  using ByBucket = std::map<int32_t, Stream::Recording>;

  template <class Pass>
  void play(ByBucket& recordings, int32_t bucket, Pass&& pass) {
    auto [at, is_new] = recordings.try_emplace(bucket);
    if (is_new) {
      parts_.stream.begin_recording(at->second);
      pass();
      parts_.stream.end_recording();
    } else {
      ++reused_;
    }
    Stream::replay(at->second);
  }

  ModelParts& parts_;
  bool mtp_;
  ByBucket passes_, heads_;
  int reused_ = 0;
};

class Recording : public ::testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    RandomCheckpoint what;
    what.config = exl3_config();
    what.bits = exl3_experts(3);
    direct_ = load_random_model(what, options_for(shape_, GetParam()), threads_);
    replayed_ = load_random_model(what, options_for(shape_, GetParam()), threads_);
  }

  ScheduleShape shape_{.sequences = 3, .length = 40, .max_chunk = 16};
  kernels::ThreadPool threads_{2};
  std::unique_ptr<LoadedModel> direct_, replayed_;
};

TEST_P(Recording, replayed_steps_of_the_trunk_equal_direct_ones) {
  Random random(5);
  SCOPED_TRACE(random.trace());
  const ScheduledTokens tokens(random, shape_, direct_->config().vocab_size);
  ModelParts& parts = replayed_->parts();
  Recordings recordings(parts, false);
  for (int round = 0; round < 3; ++round) {
    for (const ScheduledStep& step : random_schedule(random, shape_)) {
      const StepPlan plan = tokens.plan(step, *direct_);
      const StepResult want = direct_->step(plan);
      parts.buffers.fill(plan);
      recordings.replay();
      ASSERT_TRUE(same_bits(parts.workspace.logits.rows(want.logit_count), logits_view(want)));
    }
  }
  EXPECT_GT(recordings.reused(), 10);
}

TEST_P(Recording, replayed_steps_of_the_mtp_layer_equal_direct_ones) {
  Random random(6);
  SCOPED_TRACE(random.trace());
  const ScheduledTokens tokens(random, shape_, direct_->config().vocab_size);
  const kernels::testing::RowSource hidden(random, shape_, kernels::DType::f32,
                                           {direct_->config().hidden_size});
  ModelParts& parts = replayed_->parts();
  Recordings recordings(parts, true);
  for (int round = 0; round < 3; ++round) {
    for (ScheduledStep step : random_schedule(random, shape_)) {
      step.padding = 0;
      const StepPlan plan = tokens.plan(step, *direct_);
      const std::vector<float> rows = to_floats(hidden.rows(step).view());
      const StepResult want = direct_->mtp_step(plan, rows);
      parts.buffers.fill(plan);
      for (size_t i = 0; i < rows.size(); ++i)
        kernels::store_float(parts.workspace.mtp_in.view(), static_cast<int64_t>(i), rows[i]);
      recordings.replay();
      ASSERT_TRUE(same_bits(parts.workspace.logits.rows(want.logit_count), logits_view(want)));
    }
  }
  EXPECT_GT(recordings.reused(), 10);
}

INSTANTIATE_TEST_SUITE_P(Precisions, Recording, ::testing::Values(Precision::fp32, Precision::bf16),
                         [](const auto& test) {
                           return test.param == Precision::fp32 ? "fp32" : "bf16";
                         });

}  // namespace
}  // namespace yoke::engine
