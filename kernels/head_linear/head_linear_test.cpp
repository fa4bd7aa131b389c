#include "kernels/head_linear/head_linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/linear/linear.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/simd.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

Tensor product(ConstTensorView w, ConstTensorView x, DType y_type, int threads = 1) {
  testing::Compute compute(threads);
  Tensor y = testing::unwritten(y_type, {x.dim(0), w.dim(0), w.dim(1)});
  head_linear(y.view(), x, w, compute.stream);
  return y;
}

TEST(HeadLinear, known_answer) {
  const Tensor w = testing::tensor_of(DType::bf16, {2, 1, 2}, {1, 2, 3, 4});
  const Tensor x = testing::tensor_of(DType::f32, {1, 2, 2}, {1, 10, 100, 1000});
  const Tensor y = product(w.view(), x.view(), DType::f32);
  EXPECT_EQ(testing::to_vector(y.view()), (std::vector<float>{21, 4300}));
}

TEST(HeadLinear, agrees_with_the_reference) {
  testing::Random random(71);
  SCOPED_TRACE(random.trace());
  for (const DType x_type : {DType::bf16, DType::f32}) {
    for (const int64_t in : {1, 3, 17, 64, 127}) {
      const Tensor w = testing::random_tensor(random, DType::bf16, {4, 9, in});
      const Tensor x = testing::random_tensor(random, x_type, {5, 4, in});
      testing::Compute compute;
      Tensor expected(DType::f32, {5, 4, 9});
      Tensor magnitudes(DType::f32, {5, 4, 9});
      head_linear_ref(expected.view(), x.view(), w.view(), compute.stream);
      head_linear_ref(magnitudes.view(), testing::absolute(x.view()).view(),
                      testing::absolute(w.view()).view(), compute.stream);
      const double steps = std::ceil(static_cast<double>(in) / 16) + 4 + 1;
      for (int64_t i = 0; i < magnitudes.view().elements(); ++i)
        magnitudes.view().as<float>()[i] *= static_cast<float>(1.001 * steps * 0x1p-24);
      testing::for_each_simd_target([&] {
        EXPECT_TRUE(testing::all_within(product(w.view(), x.view(), DType::f32).view(),
                                        expected.view(), magnitudes.view()));
      });
    }
  }
}

TEST(HeadLinear, each_head_is_a_linear_layer_bit_for_bit) {
  testing::Random random(72);
  SCOPED_TRACE(random.trace());
  const int64_t heads = 3;
  const int64_t rows = 6;
  const int64_t in = 50;
  const int64_t out = 11;
  const Tensor w = testing::random_tensor(random, DType::bf16, {heads, out, in});
  const Tensor x = testing::random_tensor(random, DType::bf16, {rows, heads, in});
  for (const int threads : {1, 3}) {
    const Tensor y = product(w.view(), x.view(), DType::bf16, threads);
    testing::Compute compute;
    for (int64_t h = 0; h < heads; ++h) {
      const ConstTensorView head = reshaped(testing::row_range(w.view(), h, 1), {out, in});
      for (int64_t r = 0; r < rows; ++r) {
        const auto x_rows = reshaped(x.view(), {rows * heads, in});
        const auto y_rows = reshaped(y.view(), {rows * heads, out});
        Tensor expected(DType::bf16, {1, out});
        linear(expected.view(), testing::row_range(x_rows, r * heads + h, 1),
               {.dense = head, .exl3 = {}}, {}, compute.stream);
        ASSERT_TRUE(
            testing::same_bits(testing::row_range(y_rows, r * heads + h, 1), expected.view()));
      }
    }
  }
}

TEST(HeadLinear, bits_of_a_row_do_not_depend_on_other_rows) {
  testing::Random random(73);
  SCOPED_TRACE(random.trace());
  const Tensor w = testing::random_tensor(random, DType::bf16, {4, 32, 64});
  const Tensor x = testing::random_tensor(random, DType::bf16, {7, 4, 64});
  const Tensor all = product(w.view(), x.view(), DType::bf16);
  for (int64_t r = 0; r < 7; ++r)
    EXPECT_TRUE(testing::same_bits(
        product(w.view(), testing::row_range(x.view(), r, 1), DType::bf16).view(),
        testing::row_range(all.view(), r, 1)));
}

}  // namespace
}  // namespace yoke::kernels
