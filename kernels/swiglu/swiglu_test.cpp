#include "kernels/swiglu/swiglu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/testing/compare.h"
#include "kernels/testing/simd.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor swiglu_of(ConstTensorView gate, ConstTensorView up, float limit, DType y_type,
                 int threads = 1) {
  testing::Compute compute(threads);
  Tensor y = testing::unwritten(y_type, gate.shape);
  swiglu(y.view(), gate, up, limit, compute.stream);
  return y;
}

// silu(1) = 0.7310586, silu(-20) = -4.1e-8: the gate has no lower clamp, up is clamped on both
// sides, and the gate's clamp comes before silu.
TEST(Swiglu, clamps_the_gate_above_only_and_up_on_both_sides) {
  const Tensor gate = testing::tensor_of(DType::f32, {6}, {1, 50, -20, 1, 1, 0});
  const Tensor up = testing::tensor_of(DType::f32, {6}, {2, 1, 1, 50, -50, 3});
  const Tensor y = swiglu_of(gate.view(), up.view(), 10, DType::f32);
  const double silu1 = 1 / (1 + std::exp(-1.0));
  const double silu10 = 10 / (1 + std::exp(-10.0));
  const double silu_minus20 = -20 / (1 + std::exp(20.0));
  const std::vector<double> exact = {2 * silu1, silu10, silu_minus20, 10 * silu1, -10 * silu1, 0};
  std::vector<float> expected(exact.begin(), exact.end());
  EXPECT_TRUE(testing::all_close(y.view(), testing::tensor_of(DType::f32, {6}, expected).view(),
                                 {0, 0x1p-23}));
}

TEST(Swiglu, infinite_limit_means_no_clamp) {
  const Tensor gate = testing::tensor_of(DType::f32, {3}, {100, -kInfinity, 1000});
  const Tensor up = testing::tensor_of(DType::f32, {3}, {-100, 5, 1000});
  const Tensor y = swiglu_of(gate.view(), up.view(), kInfinity, DType::f32);
  EXPECT_EQ(testing::to_vector(y.view()), (std::vector<float>{-10000, 0, 1e6f}));
}

TEST(Swiglu, nan_is_not_clamped_away) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor gate = testing::tensor_of(DType::f32, {2}, {nan, 1});
  const Tensor up = testing::tensor_of(DType::f32, {2}, {1, nan});
  for (const float v : testing::to_vector(swiglu_of(gate.view(), up.view(), 10, DType::f32).view()))
    EXPECT_TRUE(std::isnan(v));
}

TEST(Swiglu, equals_the_reference_for_all_types_lengths_and_threads) {
  testing::Random random(131);
  SCOPED_TRACE(random.trace());
  for (const int64_t n : {1, 255, 256, 257, 2000}) {
    for (const DType dtype : {DType::bf16, DType::f32}) {
      const Tensor gate = testing::random_tensor(random, dtype, {3, n}, 8);
      const Tensor up = testing::random_tensor(random, dtype, {3, n}, 8);
      testing::Compute compute;
      Tensor expected = testing::unwritten(dtype, {3, n});
      swiglu_ref(expected.view(), gate.view(), up.view(), 10, compute.stream);
      testing::for_each_simd_target([&] {
        for (const int threads : {1, 4})
          ASSERT_TRUE(testing::same_bits(
              swiglu_of(gate.view(), up.view(), 10, dtype, threads).view(), expected.view()));
      });
    }
  }
}

TEST(Swiglu, may_overwrite_gate_or_up) {
  testing::Random random(132);
  SCOPED_TRACE(random.trace());
  Tensor gate = testing::random_tensor(random, DType::bf16, {2, 300}, 8);
  Tensor up = testing::random_tensor(random, DType::bf16, {2, 300}, 8);
  const Tensor expected = swiglu_of(gate.view(), up.view(), 10, DType::bf16);
  testing::Compute compute;
  Tensor up_copy = testing::copy_of(up.view());
  swiglu(up_copy.view(), gate.view(), up_copy.view(), 10, compute.stream);
  EXPECT_TRUE(testing::same_bits(up_copy.view(), expected.view()));
  swiglu(gate.view(), gate.view(), up.view(), 10, compute.stream);
  EXPECT_TRUE(testing::same_bits(gate.view(), expected.view()));
}

}  // namespace
}  // namespace yoke::kernels
