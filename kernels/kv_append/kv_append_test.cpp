#include "kernels/kv_append/kv_append.h"

#include <gtest/gtest.h>

#include "kernels/testing/compare.h"
#include "kernels/testing/schedule.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

using testing::Compute;
using testing::Random;
using testing::ScheduledStep;
using testing::ScheduleShape;

class KvAppend : public ::testing::TestWithParam<DType> {};

TEST_P(KvAppend, every_true_row_ends_up_in_its_block) {
  for (uint64_t seed = 1; seed < 6; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const ScheduleShape shape;
    const testing::RowSource x(random, shape, GetParam(), {7});
    Tensor cache = testing::unwritten(GetParam(), {shape.cache_rows(), 7});
    testing::StepTable table(random, shape);
    Compute compute(1 + static_cast<int>(seed % 3));
    StepRows rows;
    for (const ScheduledStep& step : random_schedule(random, shape)) {
      const Tensor in = x.rows(step);
      rows = table.fill(step);
      kv_append(cache.view(), in.view(), rows, compute.stream);
    }
    for (int32_t s = 0; s < shape.sequences; ++s) {
      for (int32_t t = 0; t < shape.length; ++t) {
        const int64_t at = rows.cache_row(shape.slot_of(s), t);
        const ConstTensorView truth = x.truth.view();
        const int64_t from = s * truth.dim(1) + t;
        EXPECT_TRUE(testing::same_bits(
            testing::row_range(ConstTensorView(cache.view()), at, 1),
            testing::row_range(reshaped(truth, {truth.dim(0) * truth.dim(1), 7}), from, 1)))
            << "sequence " << s << " position " << t;
      }
    }
  }
}

TEST_P(KvAppend, padding_rows_write_nothing) {
  Random random(9);
  const ScheduleShape shape;
  Tensor cache = testing::unwritten(GetParam(), {shape.cache_rows(), 3});
  const Tensor before = testing::copy_of(cache.view());
  testing::StepTable table(random, shape);
  Compute compute;
  ScheduledStep step;
  step.padding = 4;
  const Tensor in = testing::random_tensor(random, GetParam(), {4, 3});
  kv_append(cache.view(), in.view(), table.fill(step), compute.stream);
  EXPECT_TRUE(testing::same_bits(cache.view(), before.view()));
}

INSTANTIATE_TEST_SUITE_P(Types, KvAppend, ::testing::Values(DType::bf16, DType::f32),
                         [](const auto& test) { return dtype_name(test.param); });

}  // namespace
}  // namespace yoke::kernels
