#include "kernels/moe_experts/moe_experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/exl3/exl3.h"
#include "kernels/linear/linear.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/exl3_matrix.h"
#include "kernels/testing/simd.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

/// Segments as moe_segments would make them.
struct Segments {
  Segments(const std::vector<int32_t>& ids, int64_t experts) {
    std::vector<int32_t> first;
    std::vector<int32_t> sorted;
    for (int64_t e = 0; e < experts; ++e) {
      first.push_back(static_cast<int32_t>(sorted.size()));
      for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] == e) sorted.push_back(static_cast<int32_t>(i));
      }
    }
    first.push_back(static_cast<int32_t>(sorted.size()));
    sorted.resize(ids.size(), -1);
    offsets = testing::ints_of({experts + 1}, first);
    items = testing::ints_of({static_cast<int64_t>(ids.size())}, sorted);
  }
  Tensor offsets;
  Tensor items;
};

/// Experts of one kind; owns what the weights point to.
struct Experts {
  Experts(testing::Random& random, bool quantised, int64_t count, int64_t in, int64_t out) {
    for (int64_t e = 0; e < count; ++e) {
      if (quantised) {
        // Bit rates and codebooks may differ from expert to expert.
        const int bits = 3 + static_cast<int>(e % 3);
        const Codebook codebook = e % 2 == 0 ? Codebook::mcg : Codebook::mul1;
        exl3.push_back(std::make_unique<testing::RandomExl3>(random, in, out, bits, codebook));
        weights.push_back({.dense = {}, .exl3 = exl3.back()->matrix()});
      } else {
        dense.push_back(testing::random_tensor(random, DType::bf16, {out, in}));
        weights.push_back({.dense = std::as_const(dense.back()).view(), .exl3 = {}});
      }
    }
  }
  std::vector<std::unique_ptr<testing::RandomExl3>> exl3;
  std::vector<Tensor> dense;
  std::vector<LinearWeight> weights;
};

constexpr int64_t kExperts = 5;
constexpr int64_t kChoices = 2;
constexpr int64_t kIn = 256;
constexpr int64_t kOut = 128;

// Expert 3 has no rows, expert 1 has most; row 4 is padding.
const std::vector<int32_t> kIds = {1, 0, 1, 4, 0, 1, 2, 1, -1, -1, 1, 2, 4, 1};
constexpr int64_t kRows = 7;

Tensor grouped(const Experts& experts, ConstTensorView x, int32_t divisor, const Segments& segments,
               DType y_type, int threads) {
  testing::Compute compute(threads);
  const int64_t items = segments.items.view().elements();
  Tensor y = testing::unwritten(y_type, {items, kOut});
  Tensor scratch = testing::unwritten(
      DType::f32, {grouped_linear_scratch_floats(experts.weights, items, threads)});
  grouped_linear(y.view(), x, divisor, segments.offsets.view(), segments.items.view(),
                 experts.weights, scratch.view(), compute.stream);
  return y;
}

Tensor one_row(const LinearWeight& weight, ConstTensorView x, DType y_type) {
  testing::Compute compute;
  Tensor y = testing::unwritten(y_type, {1, weight.out()});
  Tensor scratch(DType::f32, {weight.is_exl3() ? exl3_scratch_floats(weight.exl3, 1) : 0});
  linear(y.view(), x, weight, scratch.view(), compute.stream);
  return y;
}

class GroupedLinear : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Kind, GroupedLinear, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "exl3" : "dense"; });

TEST_P(GroupedLinear, each_row_is_linear_with_its_expert_bit_for_bit) {
  testing::Random random(81);
  SCOPED_TRACE(random.trace());
  const Experts experts(random, GetParam(), kExperts, kIn, kOut);
  const Segments segments(kIds, kExperts);
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const int32_t divisor : {1, static_cast<int32_t>(kChoices)}) {
      const int64_t items = static_cast<int64_t>(kIds.size());
      const Tensor x = testing::random_tensor(random, dtype, {items / divisor, kIn});
      testing::for_each_simd_target([&] {
        for (const int threads : {1, 3}) {
          const Tensor y = grouped(experts, x.view(), divisor, segments, dtype, threads);
          for (int64_t i = 0; i < items; ++i) {
            SCOPED_TRACE("item " + std::to_string(i));
            const ConstTensorView row = testing::row_range(std::as_const(y).view(), i, 1);
            if (kIds[static_cast<size_t>(i)] < 0) {
              const Tensor untouched = testing::unwritten(dtype, {1, kOut});
              ASSERT_TRUE(testing::same_bits(row, untouched.view()));
            } else {
              const auto expert = static_cast<size_t>(kIds[static_cast<size_t>(i)]);
              const Tensor expected = one_row(experts.weights[expert],
                                              testing::row_range(x.view(), i / divisor, 1), dtype);
              ASSERT_TRUE(testing::same_bits(row, expected.view()));
            }
          }
        }
      });
    }
  }
}

TEST_P(GroupedLinear, agrees_with_the_reference) {
  testing::Random random(82);
  SCOPED_TRACE(random.trace());
  const Experts experts(random, GetParam(), kExperts, kIn, kOut);
  std::vector<int32_t> ids = kIds;
  ids[8] = ids[9] = 3;  // every item computed, so that all of y compares
  const Segments segments(ids, kExperts);
  const Tensor x = testing::random_tensor(random, DType::f32, {kRows, kIn});
  const Tensor y = grouped(experts, x.view(), kChoices, segments, DType::f32, 2);
  Tensor expected = testing::unwritten(DType::f32, {kRows * kChoices, kOut});
  testing::Compute compute;
  grouped_linear_ref(expected.view(), x.view(), kChoices, segments.offsets.view(),
                     segments.items.view(), experts.weights, compute.stream);
  // Float sums of 256 terms; linear_test.cpp and exl3_test.cpp derive tight bounds per element.
  EXPECT_TRUE(testing::rows_close(y.view(), expected.view(), 100 * 0x1p-24, 600 * 0x1p-24));
}

TEST_P(GroupedLinear, replay_follows_new_segments) {
  testing::Random random(83);
  SCOPED_TRACE(random.trace());
  const Experts experts(random, GetParam(), kExperts, kIn, kOut);
  const Tensor x = testing::random_tensor(random, DType::bf16, {kRows, kIn});
  testing::Compute compute(2);
  Segments segments(kIds, kExperts);
  const int64_t items = segments.items.view().elements();
  Tensor y = testing::unwritten(DType::bf16, {items, kOut});
  Tensor scratch(DType::f32, {grouped_linear_scratch_floats(experts.weights, items, 2)});
  Stream::Recording recording;
  compute.stream.begin_recording(recording);
  grouped_linear(y.view(), x.view(), kChoices, segments.offsets.view(), segments.items.view(),
                 experts.weights, scratch.view(), compute.stream);
  compute.stream.end_recording();
  const std::vector<std::vector<int32_t>> plans = {
      std::vector<int32_t>(kIds.size(), 2),        // all rows to one expert
      {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3},  // spread
      std::vector<int32_t>(kIds.size(), -1),       // padding only
  };
  for (const std::vector<int32_t>& ids : plans) {
    const Segments next(ids, kExperts);
    std::copy_n(next.offsets.view().as<int32_t>(), kExperts + 1,
                segments.offsets.view().as<int32_t>());
    std::copy_n(next.items.view().as<int32_t>(), items, segments.items.view().as<int32_t>());
    std::memset(y.view().data, 0xFF, y.bytes());
    Stream::replay(recording);
    EXPECT_TRUE(testing::same_bits(
        y.view(), grouped(experts, x.view(), kChoices, next, DType::bf16, 1).view()));
  }
}

// --- combine
// ------------------------------------------------------------------------------------------

TEST(MoeCombine, known_answer) {
  const Tensor slots = testing::tensor_of(DType::f32, {2, 2, 2}, {1, 2, 10, 20, 5, 6, 7, 8});
  const Tensor weights = testing::tensor_of(DType::f32, {2, 2}, {0.5, 2, 1, 1});
  const Tensor ids = testing::ints_of({2, 2}, {3, 0, -1, -1});
  const Tensor shared = testing::tensor_of(DType::bf16, {2, 2}, {100, 200, 1, 2});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::bf16, {2, 2});
  moe_combine(y.view(), slots.view(), weights.view(), ids.view(), shared.view(), compute.stream);
  EXPECT_EQ(testing::to_vector(y.view()), (std::vector<float>{120.5, 241, 1, 2}));
}

// A padding row's slots hold whatever was there: it must not reach y even as 0 · NaN.
TEST(MoeCombine, ignores_slots_of_padding_rows) {
  const Tensor slots = testing::unwritten(DType::f32, {1, 2, 3});
  const Tensor weights = testing::unwritten(DType::f32, {1, 2});
  const Tensor ids = testing::ints_of({1, 2}, {-1, -1});
  const Tensor shared = testing::tensor_of(DType::f32, {1, 3}, {1, 2, 3});
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::f32, {1, 3});
  moe_combine(y.view(), slots.view(), weights.view(), ids.view(), shared.view(), compute.stream);
  EXPECT_TRUE(testing::same_bits(y.view(), shared.view()));
}

TEST(MoeCombine, equals_the_reference_for_all_types_rows_and_threads) {
  testing::Random random(84);
  SCOPED_TRACE(random.trace());
  constexpr int64_t kCombineRows = 5;
  constexpr int64_t kHidden = 700;
  const Tensor slots = testing::random_tensor(random, DType::f32, {kCombineRows, 3, kHidden});
  const Tensor weights = testing::random_tensor(random, DType::f32, {kCombineRows, 3});
  const Tensor ids =
      testing::ints_of({kCombineRows, 3}, {0, 1, 2, 3, -1, 5, -1, -1, -1, 9, 8, 7, 1, 1, 1});
  for (const DType y_type : {DType::bf16, DType::f32}) {
    for (const DType shared_type : {DType::bf16, DType::f32}) {
      const Tensor shared = testing::random_tensor(random, shared_type, {kCombineRows, kHidden});
      testing::Compute compute;
      Tensor expected = testing::unwritten(y_type, {kCombineRows, kHidden});
      moe_combine_ref(expected.view(), slots.view(), weights.view(), ids.view(), shared.view(),
                      compute.stream);
      for (const int threads : {1, 4}) {
        testing::Compute many(threads);
        Tensor y = testing::unwritten(y_type, {kCombineRows, kHidden});
        moe_combine(y.view(), slots.view(), weights.view(), ids.view(), shared.view(), many.stream);
        EXPECT_TRUE(testing::same_bits(y.view(), expected.view()));
      }
    }
  }
}

}  // namespace
}  // namespace yoke::kernels
