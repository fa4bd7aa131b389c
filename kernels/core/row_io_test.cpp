#include "kernels/core/row_io.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/testing/compare.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

TEST(RowIo, runs_equal_element_by_element_access) {
  testing::Random random(31);
  SCOPED_TRACE(random.trace());
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    const Tensor from = testing::random_tensor(random, dtype, {1000});
    for (const int64_t begin : {0, 1, 7, 999}) {
      for (const int64_t count : {0, 1, 2, 31, 1000}) {
        if (begin + count > 1000) continue;
        std::vector<float> run(static_cast<size_t>(count));
        load_floats(run.data(), from.view(), begin, count);
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(run[static_cast<size_t>(i)], load_float(from.view(), begin + i));

        for (float& x : run) x *= 1.001f;  // values that need rounding
        Tensor expected = testing::copy_of(from.view());
        Tensor actual = testing::copy_of(from.view());
        for (int64_t i = 0; i < count; ++i)
          store_float(expected.view(), begin + i, run[static_cast<size_t>(i)]);
        store_floats(actual.view(), begin, run.data(), count);
        ASSERT_TRUE(testing::same_bits(actual.view(), expected.view()));
      }
    }
  }
}

}  // namespace
}  // namespace yoke::kernels
