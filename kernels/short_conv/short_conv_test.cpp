#include "kernels/short_conv/short_conv.h"

#include <gtest/gtest.h>

#include "kernels/core/math.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/schedule.h"
#include "kernels/testing/simd.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

using testing::all_close;
using testing::Compute;
using testing::Random;
using testing::random_tensor;
using testing::same_bits;
using testing::ScheduledStep;
using testing::ScheduleShape;
using testing::unwritten;

/// The op with memory of its own, which starts as NaN: what a slot held must not matter.
struct Conv {
  Conv(const ScheduleShape& shape, ConstTensorView weight, DType act, int threads = 1)
      : weight_(weight),
        history(unwritten(act, {shape.slots, weight.dim(1) - 1, weight.dim(0)})),
        pending(unwritten(act, {shape.slots, shape.max_window, weight.dim(0)})),
        compute(threads) {}

  Tensor run(ConstTensorView x, const StepRows& rows) {
    Tensor y = unwritten(x.dtype, x.shape);
    short_conv(y.view(), x, weight_, history.view(), pending.view(), rows, compute.stream);
    return y;
  }

  ConstTensorView weight_;
  Tensor history, pending;
  Compute compute;
};

Tensor run_schedule(const std::vector<ScheduledStep>& steps, const ScheduleShape& shape,
                    const testing::RowSource& x, Conv& conv, Random& random) {
  testing::StepTable table(random, shape);
  testing::RowSink out(shape, x.truth.view().dtype, {conv.weight_.dim(0)});
  for (const ScheduledStep& step : steps)
    out.take(step, conv.run(x.rows(step).view(), table.fill(step)).view());
  return testing::copy_of(out.view());
}

class ShortConv : public ::testing::TestWithParam<DType> {};

TEST_P(ShortConv, agrees_with_plain_loops) {
  Random random(1);
  SCOPED_TRACE(random.trace());
  for (const int64_t kernel : {1, 2, 4, 8}) {
    for (const DType weight_type : {DType::bf16, DType::f16, DType::f32}) {
      const ScheduleShape shape{.sequences = 1, .length = 11, .max_window = 1};
      const int64_t channels = 70;  // a full block of channels and a part of one
      const Tensor weight = random_tensor(random, weight_type, {channels, kernel}, 0.5);
      const testing::RowSource x(random, shape, GetParam(), {channels});
      Conv conv(shape, weight.view(), GetParam());
      const Tensor y = run_schedule(serial_schedule(shape), shape, x, conv, random);

      Tensor expected(DType::f32, y.view().shape);
      for (int64_t t = 0; t < shape.length; ++t) {
        for (int64_t c = 0; c < channels; ++c) {
          double u = 0;
          for (int64_t j = 0; j < kernel; ++j) {
            const int64_t at = t - (kernel - 1) + j;
            if (at < 0) continue;
            u += static_cast<double>(load_float(weight.view(), c * kernel + j)) *
                 load_float(x.truth.view(), at * channels + c);
          }
          expected.view().as<float>()[t * channels + c] = static_cast<float>(silu64(u));
        }
      }
      // At most 8 products of size ~1 in float, then one rounding to the output type.
      const double rounding = testing::rounding_error(GetParam());
      EXPECT_TRUE(all_close(y.view(), expected.view(), {1e-5, rounding * 1.01}));
    }
  }
}

TEST_P(ShortConv, any_schedule_gives_the_bits_of_serial_decoding) {
  for (uint64_t seed = 10; seed < 30; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const ScheduleShape shape;
    const Tensor weight = random_tensor(random, DType::bf16, {70, 4}, 0.5);
    const testing::RowSource x(random, shape, GetParam(), {70});
    Conv serial(shape, weight.view(), GetParam());
    Conv mixed(shape, weight.view(), GetParam(), 1 + static_cast<int>(seed % 3));
    const Tensor want = run_schedule(serial_schedule(shape), shape, x, serial, random);
    const Tensor got = run_schedule(random_schedule(random, shape), shape, x, mixed, random);
    EXPECT_TRUE(same_bits(got.view(), want.view()));
  }
}

TEST_P(ShortConv, whole_prompt_leaves_the_history_of_single_rows) {
  Random random(2);
  SCOPED_TRACE(random.trace());
  for (const int32_t length : {1, 2, 3, 4, 9}) {
    const ScheduleShape shape{.sequences = 1, .length = length};
    const Tensor weight = random_tensor(random, DType::bf16, {70, 4}, 0.5);
    const testing::RowSource x(random, shape, GetParam(), {70});
    Conv rows(shape, weight.view(), GetParam());
    Conv whole(shape, weight.view(), GetParam());
    const Tensor want = run_schedule(serial_schedule(shape), shape, x, rows, random);
    ScheduledStep prompt;
    prompt.sequences.push_back({shape.slot_of(0), 0, length, 0, length, 0});
    for (int32_t t = 0; t < length; ++t) prompt.rows.push_back({0, t, false});
    const Tensor got = run_schedule({prompt}, shape, x, whole, random);
    EXPECT_TRUE(same_bits(got.view(), want.view()));
    EXPECT_TRUE(same_bits(whole.history.view(), rows.history.view()));
  }
}

TEST_P(ShortConv, every_instruction_set_gives_the_same_bits) {
  Random random(3);
  SCOPED_TRACE(random.trace());
  const ScheduleShape shape{.sequences = 1, .length = 9};
  const Tensor weight = random_tensor(random, DType::bf16, {141, 4}, 0.5);
  const testing::RowSource x(random, shape, GetParam(), {141});
  Conv best(shape, weight.view(), GetParam());
  const Tensor want = run_schedule(serial_schedule(shape), shape, x, best, random);
  testing::for_each_simd_target([&] {
    Conv conv(shape, weight.view(), GetParam());
    const Tensor got = run_schedule(serial_schedule(shape), shape, x, conv, random);
    EXPECT_TRUE(same_bits(got.view(), want.view()));
  });
}

INSTANTIATE_TEST_SUITE_P(Types, ShortConv, ::testing::Values(DType::bf16, DType::f32),
                         [](const auto& test) { return dtype_name(test.param); });

}  // namespace
}  // namespace yoke::kernels
