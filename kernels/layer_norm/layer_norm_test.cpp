#include "kernels/layer_norm/layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/testing/compare.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

TEST(LayerNorm, known_answer) {
  // mean 3, biased variance 4, with eps 12 a root of 4.
  const Tensor x = testing::tensor_of(DType::f32, {1, 2}, {1, 5});
  const Tensor w = testing::tensor_of(DType::bf16, {2}, {2, 4});
  const Tensor b = testing::tensor_of(DType::bf16, {2}, {10, 20});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::f32, {1, 2});
  layer_norm(y.view(), x.view(), w.view(), b.view(), 12.0f, compute.stream);
  EXPECT_EQ(testing::to_vector(y.view()), (std::vector<float>{9, 22}));
}

TEST(LayerNorm, an_offset_of_the_row_changes_nothing) {
  const Tensor x = testing::tensor_of(DType::f32, {2, 4}, {1, 2, 3, 6, 1025, 1026, 1027, 1030});
  const Tensor w = testing::tensor_of(DType::f32, {4}, {1, 1, 1, 1});
  const Tensor b(DType::f32, {4});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::f32, {2, 4});
  layer_norm(y.view(), x.view(), w.view(), b.view(), 1e-6f, compute.stream);
  EXPECT_TRUE(
      testing::same_bits(testing::row_range(y.view(), 1, 1), testing::row_range(y.view(), 0, 1)));
}

TEST(LayerNorm, a_constant_row_gives_the_bias) {
  const Tensor x = testing::tensor_of(DType::bf16, {1, 3}, {5, 5, 5});
  const Tensor w = testing::tensor_of(DType::bf16, {3}, {1, 2, 3});
  const Tensor b = testing::tensor_of(DType::bf16, {3}, {0.5, -1, 2});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::bf16, {1, 3});
  layer_norm(y.view(), x.view(), w.view(), b.view(), 1e-6f, compute.stream);
  EXPECT_TRUE(testing::same_bits(reshaped(y.view(), {3}), b.view()));
}

TEST(LayerNorm, equals_the_reference_for_all_types_lengths_and_threads) {
  testing::Random random(121);
  SCOPED_TRACE(random.trace());
  for (const int64_t n : {1, 3, 64, 128, 257, 600}) {
    for (const DType x_type : {DType::bf16, DType::f32}) {
      for (const DType w_type : {DType::bf16, DType::f16, DType::f32}) {
        Tensor x = testing::random_tensor(random, x_type, {7, n}, 3);
        const Tensor w = testing::random_tensor(random, w_type, {n});
        const Tensor b = testing::random_tensor(random, w_type, {n});
        testing::Compute one;
        Tensor expected = testing::unwritten(x_type, {7, n});
        layer_norm_ref(expected.view(), x.view(), w.view(), b.view(), 1e-6f, one.stream);
        for (const int threads : {1, 3}) {
          testing::Compute compute(threads);
          Tensor y = testing::unwritten(x_type, {7, n});
          layer_norm(y.view(), x.view(), w.view(), b.view(), 1e-6f, compute.stream);
          ASSERT_TRUE(testing::same_bits(y.view(), expected.view())) << n;
        }
        layer_norm(x.view(), x.view(), w.view(), b.view(), 1e-6f, one.stream);  // in place
        ASSERT_TRUE(testing::same_bits(x.view(), expected.view())) << n;
      }
    }
  }
}

}  // namespace
}  // namespace yoke::kernels
