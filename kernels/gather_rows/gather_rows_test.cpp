#include "kernels/gather_rows/gather_rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/testing/compare.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

TEST(GatherRows, copies_rows_in_any_order_and_zeroes_minus_one) {
  const Tensor x = testing::tensor_of(DType::bf16, {3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor index = testing::ints_of({4}, {2, -1, 0, 2});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::bf16, {4, 2});
  gather_rows(y.view(), x.view(), index.view(), compute.stream);
  EXPECT_EQ(testing::to_vector(y.view()), (std::vector<float>{5, 6, 0, 0, 1, 2, 5, 6}));
}

TEST(GatherRows, works_on_every_type_and_thread_count) {
  testing::Random random(161);
  SCOPED_TRACE(random.trace());
  std::vector<int32_t> list;
  for (int i = 0; i < 100; ++i) list.push_back(static_cast<int32_t>(random.below(31)) - 1);
  const Tensor index = testing::ints_of({100}, list);
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    const Tensor x = testing::random_tensor(random, dtype, {30, 1500});
    for (const int threads : {1, 4}) {
      testing::Compute compute(threads);
      Tensor y = testing::unwritten(dtype, {100, 1500});
      gather_rows(y.view(), x.view(), index.view(), compute.stream);
      const Tensor zero(dtype, {1, 1500});
      for (int64_t i = 0; i < 100; ++i) {
        const int64_t from = list[static_cast<size_t>(i)];
        ASSERT_TRUE(
            testing::same_bits(testing::row_range(std::as_const(y).view(), i, 1),
                               from < 0 ? zero.view() : testing::row_range(x.view(), from, 1)));
      }
    }
  }
}

TEST(GatherRows, replay_reads_the_new_index) {
  const Tensor x = testing::tensor_of(DType::f32, {2, 1}, {10, 20});
  Tensor index = testing::ints_of({1}, {0});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::f32, {1, 1});
  Stream::Recording recording;
  compute.stream.begin_recording(recording);
  gather_rows(y.view(), x.view(), index.view(), compute.stream);
  compute.stream.end_recording();
  index.view().as<int32_t>()[0] = 1;
  Stream::replay(recording);
  EXPECT_EQ(load_float(y.view(), 0), 20);
}

}  // namespace
}  // namespace yoke::kernels
