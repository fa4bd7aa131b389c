#include "kernels/rms_norm/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/testing/compare.h"
#include "kernels/testing/simd.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

TEST(RmsNorm, known_answer) {
  // mean square 12.5 + 3.5 = 16: the root is 4. eps stands inside it.
  const Tensor x = testing::tensor_of(DType::f32, {1, 2}, {3, -4});
  const Tensor w = testing::tensor_of(DType::bf16, {2}, {2, 0.5});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::f32, {1, 2});
  rms_norm(y.view(), x.view(), w.view(), 3.5f, compute.stream);
  EXPECT_EQ(testing::to_vector(y.view()), (std::vector<float>{1.5, -0.5}));
}

TEST(RmsNorm, a_row_of_zeros_stays_zero) {
  const Tensor x(DType::bf16, {1, 8});
  const Tensor w = testing::tensor_of(DType::bf16, {8}, {1, 1, 1, 1, 1, 1, 1, 1});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::bf16, {1, 8});
  rms_norm(y.view(), x.view(), w.view(), 1e-5f, compute.stream);
  for (const float v : testing::to_vector(y.view())) EXPECT_EQ(v, 0);
}

// Sums in float64: squares of the largest floats do not overflow.
TEST(RmsNorm, huge_values_do_not_overflow) {
  const float huge = std::numeric_limits<float>::max();
  const Tensor x = testing::tensor_of(DType::f32, {1, 2}, {huge, huge});
  const Tensor w = testing::tensor_of(DType::f32, {2}, {1, 1});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::f32, {1, 2});
  rms_norm(y.view(), x.view(), w.view(), 1e-5f, compute.stream);
  EXPECT_EQ(testing::to_vector(y.view()), (std::vector<float>{1, 1}));
}

// The float64 sums differ in order alone, by less than 2^-40 of their size: where that crosses the
// one rounding to y's type, neighbours come out.
TEST(RmsNorm, agrees_with_the_reference_for_all_types_lengths_targets_and_threads) {
  testing::Random random(111);
  SCOPED_TRACE(random.trace());
  for (const int64_t n : {1, 3, 128, 255, 256, 257, 1000}) {
    for (const DType x_type : {DType::bf16, DType::f32}) {
      for (const DType w_type : {DType::bf16, DType::f16, DType::f32}) {
        const Tensor x = testing::random_tensor(random, x_type, {9, n}, 3);
        const Tensor w = testing::random_tensor(random, w_type, {n});
        testing::Compute one;
        Tensor expected = testing::unwritten(x_type, {9, n});
        rms_norm_ref(expected.view(), x.view(), w.view(), 1e-5f, one.stream);
        Tensor first = testing::unwritten(x_type, {9, n});
        rms_norm(first.view(), x.view(), w.view(), 1e-5f, one.stream);
        ASSERT_TRUE(testing::all_close(first.view(), expected.view(),
                                       {0, 2.01 * testing::rounding_error(x_type)}))
            << n;
        testing::for_each_simd_target([&] {
          for (const int threads : {1, 3}) {
            testing::Compute compute(threads);
            Tensor y = testing::unwritten(x_type, {9, n});
            rms_norm(y.view(), x.view(), w.view(), 1e-5f, compute.stream);
            ASSERT_TRUE(testing::same_bits(y.view(), first.view())) << n;
          }
        });
      }
    }
  }
}

TEST(RmsNorm, may_work_in_place) {
  testing::Random random(112);
  SCOPED_TRACE(random.trace());
  Tensor x = testing::random_tensor(random, DType::bf16, {3, 300});
  const Tensor w = testing::random_tensor(random, DType::bf16, {300});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::bf16, {3, 300});
  rms_norm(y.view(), x.view(), w.view(), 1e-5f, compute.stream);
  rms_norm(x.view(), x.view(), w.view(), 1e-5f, compute.stream);
  EXPECT_TRUE(testing::same_bits(x.view(), y.view()));
}

// Heads: the weight's length decides what a row is.
TEST(RmsNorm, normalises_the_last_dimension_of_any_shape) {
  testing::Random random(113);
  SCOPED_TRACE(random.trace());
  const Tensor x = testing::random_tensor(random, DType::bf16, {2, 4, 32});
  const Tensor w = testing::random_tensor(random, DType::bf16, {32});
  testing::Compute compute;
  Tensor deep = testing::unwritten(DType::bf16, {2, 4, 32});
  Tensor flat = testing::unwritten(DType::bf16, {8, 32});
  rms_norm(deep.view(), x.view(), w.view(), 1e-5f, compute.stream);
  rms_norm(flat.view(), reshaped(x.view(), {8, 32}), w.view(), 1e-5f, compute.stream);
  EXPECT_TRUE(testing::same_bits(reshaped(deep.view(), {8, 32}), flat.view()));
}

}  // namespace
}  // namespace yoke::kernels
