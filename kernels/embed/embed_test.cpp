#include "kernels/embed/embed.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/testing/compare.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

TEST(Embed, copies_rows_and_gives_zeros_for_ids_outside_the_table) {
  const Tensor table = testing::tensor_of(DType::bf16, {3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor ids = testing::ints_of({5}, {2, 0, -1, 3, 1});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::bf16, {5, 2});
  embed(y.view(), ids.view(), table.view(), nullptr, compute.stream);
  EXPECT_EQ(testing::to_vector(y.view()), (std::vector<float>{5, 6, 1, 2, 0, 0, 0, 0, 3, 4}));
}

TEST(Embed, zeroes_rows_at_position_0_when_asked) {
  const Tensor table = testing::tensor_of(DType::bf16, {2, 1}, {7, 8});
  const Tensor ids = testing::ints_of({3}, {0, 1, 1});
  const Tensor positions = testing::ints_of({3}, {0, 1, 0});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::f32, {3, 1});
  embed(y.view(), ids.view(), table.view(), positions.view().as<int32_t>(), compute.stream);
  EXPECT_EQ(testing::to_vector(y.view()), (std::vector<float>{0, 8, 0}));
}

TEST(Embed, streams_are_equal_copies) {
  const Tensor table = testing::tensor_of(DType::bf16, {2, 2}, {1, 2, 3, 4});
  const Tensor ids = testing::ints_of({2}, {1, 0});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::bf16, {2, 3, 2});
  embed_streams(y.view(), ids.view(), table.view(), compute.stream);
  EXPECT_EQ(testing::to_vector(y.view()), (std::vector<float>{3, 4, 3, 4, 3, 4, 1, 2, 1, 2, 1, 2}));
}

TEST(Embed, equals_the_reference_for_all_types_and_threads) {
  testing::Random random(101);
  SCOPED_TRACE(random.trace());
  std::vector<int32_t> id_list;
  std::vector<int32_t> position_list;
  for (int i = 0; i < 40; ++i) {
    id_list.push_back(static_cast<int32_t>(random.below(25)) - 2);
    position_list.push_back(static_cast<int32_t>(random.below(3)));
  }
  const Tensor ids = testing::ints_of({40}, id_list);
  const Tensor positions = testing::ints_of({40}, position_list);
  for (const int64_t hidden : {1, 255, 256, 257, 600}) {
    for (const DType table_type : {DType::bf16, DType::f16, DType::f32}) {
      for (const DType y_type : {DType::bf16, DType::f32}) {
        const Tensor table = testing::random_tensor(random, table_type, {21, hidden});
        testing::Compute one;
        Tensor expected = testing::unwritten(y_type, {40, hidden});
        embed_ref(expected.view(), ids.view(), table.view(), positions.view().as<int32_t>(),
                  one.stream);
        for (const int threads : {1, 4}) {
          testing::Compute compute(threads);
          Tensor y = testing::unwritten(y_type, {40, hidden});
          embed(y.view(), ids.view(), table.view(), positions.view().as<int32_t>(), compute.stream);
          ASSERT_TRUE(testing::same_bits(y.view(), expected.view()));
        }
      }
    }
  }
}

}  // namespace
}  // namespace yoke::kernels
