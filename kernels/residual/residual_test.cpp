#include "kernels/residual/residual.h"

#include <gtest/gtest.h>

#include "kernels/testing/compare.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

TEST(ResidualAdd, rounds_once_to_the_type_of_x) {
  // 1 + 2^-8 is a tie in bf16 and goes to even; the f32 addend is not rounded first.
  Tensor x = testing::tensor_of(DType::bf16, {1, 3}, {1, 1, 2});
  const Tensor y = testing::tensor_of(DType::f32, {1, 3}, {0x1p-8f, 0x1p-8f + 0x1p-20f, -2});
  testing::Compute compute;
  residual_add(x.view(), y.view(), compute.stream);
  EXPECT_EQ(testing::to_vector(x.view()), (std::vector<float>{1, 1 + 0x1p-7f, 0}));
}

TEST(ResidualAdd, equals_the_reference_for_all_types_and_threads) {
  testing::Random random(151);
  SCOPED_TRACE(random.trace());
  for (const int64_t n : {1, 256, 1001}) {
    for (const DType x_type : {DType::bf16, DType::f32}) {
      for (const DType y_type : {DType::bf16, DType::f32}) {
        const Tensor start = testing::random_tensor(random, x_type, {5, n});
        const Tensor y = testing::random_tensor(random, y_type, {5, n});
        testing::Compute one;
        Tensor expected = testing::copy_of(start.view());
        residual_add_ref(expected.view(), y.view(), one.stream);
        for (const int threads : {1, 3}) {
          testing::Compute compute(threads);
          Tensor x = testing::copy_of(start.view());
          residual_add(x.view(), y.view(), compute.stream);
          ASSERT_TRUE(testing::same_bits(x.view(), expected.view()));
        }
      }
    }
  }
}

TEST(ConcatColumns, puts_rows_side_by_side) {
  const Tensor a = testing::tensor_of(DType::bf16, {2, 1}, {1, 2});
  const Tensor b = testing::tensor_of(DType::bf16, {2, 3}, {3, 4, 5, 6, 7, 8});
  for (const int threads : {1, 2}) {
    testing::Compute compute(threads);
    Tensor y = testing::unwritten(DType::bf16, {2, 4});
    concat_columns(y.view(), a.view(), b.view(), compute.stream);
    EXPECT_EQ(testing::to_vector(y.view()), (std::vector<float>{1, 3, 4, 5, 2, 6, 7, 8}));
  }
}

TEST(ConcatColumns, keeps_every_bit_of_either_type) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const Tensor a = testing::unwritten(dtype, {3, 5});  // NaN patterns
    const Tensor b(dtype, {3, 2});
    testing::Compute compute;
    Tensor y(dtype, {3, 7});
    concat_columns(y.view(), a.view(), b.view(), compute.stream);
    for (int64_t r = 0; r < 3; ++r) {
      const auto row = reshaped(testing::row_range(std::as_const(y).view(), r, 1), {7, 1});
      EXPECT_TRUE(testing::same_bits(testing::row_range(row, 0, 5),
                                     reshaped(testing::row_range(a.view(), r, 1), {5, 1})));
      EXPECT_TRUE(testing::same_bits(testing::row_range(row, 5, 2),
                                     reshaped(testing::row_range(b.view(), r, 1), {2, 1})));
    }
  }
}

}  // namespace
}  // namespace yoke::kernels
