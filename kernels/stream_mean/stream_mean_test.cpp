#include "kernels/stream_mean/stream_mean.h"

#include <gtest/gtest.h>

#include "kernels/testing/compare.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

TEST(StreamMean, known_answer) {
  const Tensor streams = testing::tensor_of(DType::bf16, {1, 4, 2}, {1, 10, 2, 20, 3, 30, 6, 40});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::bf16, {1, 2});
  stream_mean(y.view(), streams.view(), compute.stream);
  EXPECT_EQ(testing::to_vector(y.view()), (std::vector<float>{3, 25}));
}

TEST(StreamMean, equal_streams_give_the_stream) {
  testing::Random random(141);
  SCOPED_TRACE(random.trace());
  const Tensor one = testing::random_tensor(random, DType::bf16, {1, 300});
  Tensor streams(DType::bf16, {1, 4, 300});
  for (int64_t i = 0; i < 1200; ++i)
    store_float(streams.view(), i, load_float(one.view(), i % 300));
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::bf16, {1, 300});
  stream_mean(y.view(), streams.view(), compute.stream);
  EXPECT_TRUE(testing::same_bits(y.view(), one.view()));
}

TEST(StreamMean, equals_the_reference_for_all_types_and_threads) {
  testing::Random random(142);
  SCOPED_TRACE(random.trace());
  for (const int64_t hidden : {1, 128, 257, 700}) {
    for (const int64_t s : {1, 3, 4}) {
      for (const DType dtype : {DType::bf16, DType::f32}) {
        const Tensor streams = testing::random_tensor(random, dtype, {6, s, hidden});
        testing::Compute one;
        Tensor expected = testing::unwritten(dtype, {6, hidden});
        stream_mean_ref(expected.view(), streams.view(), one.stream);
        for (const int threads : {1, 3}) {
          testing::Compute compute(threads);
          Tensor y = testing::unwritten(dtype, {6, hidden});
          stream_mean(y.view(), streams.view(), compute.stream);
          ASSERT_TRUE(testing::same_bits(y.view(), expected.view()));
        }
      }
    }
  }
}

}  // namespace
}  // namespace yoke::kernels
