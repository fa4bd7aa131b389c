#include "kernels/moe_route/moe_route.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/core/math.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Routed route(ConstTensorView logits, ConstTensorView bias, int64_t k, MoeRouteParams params = {},
             const int32_t* slot = nullptr, int threads = 1) {
  testing::Compute compute(threads);
  Tensor ids = testing::unwritten(DType::i32, {logits.dim(0), k});
  Tensor weights = testing::unwritten(DType::f32, {logits.dim(0), k});
  moe_route(ids.view(), weights.view(), logits, bias, params, slot, compute.stream);
  return {testing::to_ints(ids.view()), testing::to_vector(weights.view())};
}

float sigmoid(float x) {
  return static_cast<float>(sigmoid64(x));
}

TEST(MoeRoute, chooses_by_score_plus_bias_and_weighs_by_score_alone) {
  const Tensor logits = testing::tensor_of(DType::f32, {1, 4}, {2, 1, 0, -1});
  const Tensor bias = testing::tensor_of(DType::f32, {4}, {0, 0, 0, 5});
  const Routed r = route(logits.view(), bias.view(), 2, {true, 2.5f});
  EXPECT_EQ(r.ids, (std::vector<int32_t>{3, 0}));
  const double sum = double{sigmoid(-1)} + double{sigmoid(2)} + 1e-20;
  EXPECT_FLOAT_EQ(r.weights[0], static_cast<float>(sigmoid(-1) / sum * 2.5));
  EXPECT_FLOAT_EQ(r.weights[1], static_cast<float>(sigmoid(2) / sum * 2.5));
}

TEST(MoeRoute, without_normalisation_the_weight_is_the_scaled_score) {
  const Tensor logits = testing::tensor_of(DType::f32, {1, 3}, {0, 3, 1});
  const Tensor bias(DType::f32, {3});
  const Routed r = route(logits.view(), bias.view(), 1, {false, 2.0f});
  EXPECT_EQ(r.ids, (std::vector<int32_t>{1}));
  EXPECT_FLOAT_EQ(r.weights[0], 2 * sigmoid(3));
}

TEST(MoeRoute, ties_go_to_the_lower_index) {
  const Tensor logits = testing::tensor_of(DType::f32, {1, 6}, {1, 2, 2, 0, 2, 1});
  const Tensor bias(DType::f32, {6});
  EXPECT_EQ(route(logits.view(), bias.view(), 2).ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(route(logits.view(), bias.view(), 4).ids, (std::vector<int32_t>{1, 2, 4, 0}));
  EXPECT_EQ(route(logits.view(), bias.view(), 6).ids, (std::vector<int32_t>{1, 2, 4, 0, 5, 3}));
}

// Scores are floats: logits that differ but saturate to the same score tie.
TEST(MoeRoute, scores_are_rounded_to_float_before_they_are_compared) {
  const Tensor logits = testing::tensor_of(DType::f32, {1, 3}, {40, 50, 60});
  const Tensor bias(DType::f32, {3});
  EXPECT_EQ(route(logits.view(), bias.view(), 2).ids, (std::vector<int32_t>{0, 1}));
}

TEST(MoeRoute, padding_rows_get_no_expert) {
  const Tensor logits = testing::tensor_of(DType::f32, {2, 2}, {1, 2, 3, 4});
  const Tensor bias(DType::f32, {2});
  const int32_t slot[] = {-1, 0};
  const Routed r = route(logits.view(), bias.view(), 1, {}, slot);
  EXPECT_EQ(r.ids, (std::vector<int32_t>{-1, 1}));
  EXPECT_EQ(r.weights[0], 0);
  EXPECT_FLOAT_EQ(r.weights[1], 1);
}

TEST(MoeRoute, all_scores_zero_do_not_divide_by_zero) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor logits = testing::tensor_of(DType::f32, {1, 3}, {-inf, -inf, -inf});
  const Tensor bias(DType::f32, {3});
  const Routed r = route(logits.view(), bias.view(), 2);
  EXPECT_EQ(r.ids, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(r.weights, (std::vector<float>{0, 0}));
}

TEST(MoeRoute, nan_is_chosen_last_and_no_expert_twice) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor logits = testing::tensor_of(DType::f32, {1, 4}, {nan, 1, nan, 0});
  const Tensor bias(DType::f32, {4});
  EXPECT_EQ(route(logits.view(), bias.view(), 4).ids, (std::vector<int32_t>{1, 3, 0, 2}));
}

TEST(MoeRoute, equals_a_full_sort_for_any_thread_count) {
  testing::Random random(171);
  SCOPED_TRACE(random.trace());
  constexpr int64_t kRows = 33;
  constexpr int64_t kExperts = 288;
  constexpr int64_t kChoices = 8;
  Tensor logits = testing::random_tensor(random, DType::f32, {kRows, kExperts});
  // Coarse values make ties common.
  for (int64_t i = 0; i < logits.view().elements(); ++i) {
    float& x = logits.view().as<float>()[i];
    x = std::round(x * 8) / 8;
  }
  Tensor bias = testing::random_tensor(random, DType::f32, {kExperts}, 0.01);
  std::fill_n(bias.view().as<float>(), kExperts / 2, 0.0f);
  const Routed one = route(logits.view(), bias.view(), kChoices, {true, 2.5f});
  for (int64_t r = 0; r < kRows; ++r) {
    std::vector<int32_t> order(kExperts);
    std::iota(order.begin(), order.end(), 0);
    const auto value = [&](int32_t e) {
      return sigmoid(load_float(logits.view(), r * kExperts + e)) + load_float(bias.view(), e);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return value(a) > value(b); });
    double sum = 0;
    for (int64_t j = 0; j < kChoices; ++j) {
      const auto at = static_cast<size_t>(r * kChoices + j);
      EXPECT_EQ(one.ids[at], order[static_cast<size_t>(j)]) << "row " << r << " choice " << j;
      EXPECT_GT(one.weights[at], 0);
      sum += double{one.weights[at]};
    }
    EXPECT_NEAR(sum, 2.5, 2.5 * 8 * 0x1p-24);
  }
  const Routed many = route(logits.view(), bias.view(), kChoices, {true, 2.5f}, nullptr, 4);
  EXPECT_EQ(many.ids, one.ids);
  EXPECT_EQ(many.weights, one.weights);
}

TEST(MoeSegments, groups_pairs_by_expert_in_ascending_order) {
  const Tensor ids = testing::ints_of({4, 2}, {2, 0, 0, 2, -1, -1, 3, 2});
  testing::Compute compute;
  Tensor offsets = testing::unwritten(DType::i32, {5});
  Tensor items = testing::unwritten(DType::i32, {8});
  moe_segments(offsets.view(), items.view(), ids.view(), compute.stream);
  EXPECT_EQ(testing::to_ints(offsets.view()), (std::vector<int32_t>{0, 2, 2, 5, 6}));
  EXPECT_EQ(testing::to_ints(items.view()), (std::vector<int32_t>{1, 2, 0, 3, 7, 6, -1, -1}));
}

TEST(MoeSegments, places_every_pair_exactly_once) {
  testing::Random random(172);
  SCOPED_TRACE(random.trace());
  constexpr int64_t kExperts = 16;
  for (int round = 0; round < 50; ++round) {
    const int64_t rows = 1 + random.below(60);
    std::vector<int32_t> list;
    for (int64_t i = 0; i < rows * 2; ++i)
      list.push_back(static_cast<int32_t>(random.below(kExperts + 1)) - 1);
    const Tensor ids = testing::ints_of({rows, 2}, list);
    testing::Compute compute;
    Tensor offsets = testing::unwritten(DType::i32, {kExperts + 1});
    Tensor items = testing::unwritten(DType::i32, {rows * 2});
    moe_segments(offsets.view(), items.view(), ids.view(), compute.stream);
    const std::vector<int32_t> first = testing::to_ints(offsets.view());
    const std::vector<int32_t> item = testing::to_ints(items.view());
    ASSERT_EQ(first.front(), 0);
    ASSERT_EQ(first.back(), static_cast<int32_t>(list.size()) -
                                static_cast<int32_t>(std::count(list.begin(), list.end(), -1)));
    for (size_t e = 0; e < kExperts; ++e) {
      for (int32_t i = first[e]; i < first[e + 1]; ++i) {
        const auto at = static_cast<size_t>(i);
        ASSERT_EQ(list[static_cast<size_t>(item[at])], static_cast<int32_t>(e));
        if (i > first[e]) {
          ASSERT_LT(item[at - 1], item[at]);
        }
      }
    }
  }
}

TEST(MoeSegments, replay_reads_new_choices) {
  Tensor ids = testing::ints_of({1, 2}, {0, 1});
  testing::Compute compute;
  Tensor offsets = testing::unwritten(DType::i32, {3});
  Tensor items = testing::unwritten(DType::i32, {2});
  Stream::Recording recording;
  compute.stream.begin_recording(recording);
  moe_segments(offsets.view(), items.view(), ids.view(), compute.stream);
  compute.stream.end_recording();
  ids.view().as<int32_t>()[1] = 0;
  Stream::replay(recording);
  EXPECT_EQ(testing::to_ints(offsets.view()), (std::vector<int32_t>{0, 2, 2}));
}

}  // namespace
}  // namespace yoke::kernels
