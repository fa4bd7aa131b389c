#include "kernels/copy_entries/copy_entries.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/testing/compare.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

TEST(CopyEntries, copies_the_named_entries_and_leaves_the_others_alone) {
  const Tensor from = testing::tensor_of(DType::bf16, {3, 2}, {1, 2, 3, 4, 5, 6});
  Tensor to = testing::tensor_of(DType::bf16, {4, 2}, {-1, -1, -1, -1, -1, -1, -1, -1});
  const Tensor targets = testing::ints_of({4}, {3, -1, 0, 1});
  const Tensor sources = testing::ints_of({4}, {0, 1, 2, -1});
  testing::Compute compute;
  copy_entries(to.view(), from.view(), targets.view(), sources.view(), compute.stream);
  EXPECT_EQ(testing::to_vector(to.view()), (std::vector<float>{5, 6, -1, -1, -1, -1, 1, 2}));
}

TEST(CopyEntries, copies_entries_of_any_size_on_any_number_of_threads) {
  testing::Random random(171);
  SCOPED_TRACE(random.trace());
  for (const int64_t elements : {1, 100, 16384, 16385, 100000}) {
    const Tensor from = testing::random_tensor(random, DType::f32, {5, elements});
    const Tensor targets = testing::ints_of({3}, {1, 0, 2});
    const Tensor sources = testing::ints_of({3}, {4, 2, 4});
    for (const int threads : {1, 4}) {
      testing::Compute compute(threads);
      Tensor to = testing::unwritten(DType::f32, {3, elements, 1});
      copy_entries(to.view(), from.view(), targets.view(), sources.view(), compute.stream);
      const TensorView rows = reshaped(to.view(), {3, elements});
      for (const auto& [target, source] : {std::pair{1, 4}, {0, 2}, {2, 4}})
        ASSERT_TRUE(testing::same_bits(testing::row_range(ConstTensorView(rows), target, 1),
                                       testing::row_range(from.view(), source, 1)));
    }
  }
}

TEST(CopyEntries, replay_reads_the_new_indices) {
  const Tensor from = testing::tensor_of(DType::f32, {2, 1}, {10, 20});
  Tensor to = testing::tensor_of(DType::f32, {2, 1}, {0, 0});
  Tensor targets = testing::ints_of({1}, {-1}), sources = testing::ints_of({1}, {-1});
  testing::Compute compute;
  Stream::Recording recording;
  compute.stream.begin_recording(recording);
  copy_entries(to.view(), from.view(), targets.view(), sources.view(), compute.stream);
  compute.stream.end_recording();
  Stream::replay(recording);
  EXPECT_EQ(testing::to_vector(to.view()), (std::vector<float>{0, 0}));
  targets.view().as<int32_t>()[0] = 0;
  sources.view().as<int32_t>()[0] = 1;
  Stream::replay(recording);
  EXPECT_EQ(testing::to_vector(to.view()), (std::vector<float>{20, 0}));
}

}  // namespace
}  // namespace yoke::kernels
