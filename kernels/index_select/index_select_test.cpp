#include "kernels/index_select/index_select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/testing/compare.h"
#include "kernels/testing/schedule.h"
#include "kernels/testing/simd.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

using testing::Compute;
using testing::Random;
using testing::random_tensor;
using testing::ScheduledStep;
using testing::ScheduleShape;
using testing::unwritten;

/// One query row per position of interest, over pools that are all in the cache.
struct Queries {
  Queries(Random& random, DType act, int32_t tokens_per_sequence, int32_t pool_tokens,
          int64_t num_heads = 3, int64_t head_dim = 20)
      : shape{.sequences = 2, .length = tokens_per_sequence, .max_window = 1},
        m(pool_tokens),
        heads(num_heads),
        dim(head_dim),
        table(random, adjusted()),
        pools(random_tensor(random, act, {adjusted().cache_rows() / m, dim})) {}

  ScheduleShape adjusted() {
    shape.block_tokens = 4 * m;
    return shape;
  }

  struct Result {
    Tensor selected, count;
    std::vector<int32_t> row(int64_t r) const {
      const int32_t n = count.view().as<int32_t>()[r];
      const int32_t* from = selected.view().as<int32_t>() + r * selected.view().dim(1);
      return {from, from + n};
    }
  };

  /// Rows at `positions` of sequence 1, and padding.
  Result select(const std::vector<int32_t>& positions, ConstTensorView iq, ConstTensorView iw,
                int32_t top_pools, int threads = 1) {
    ScheduledStep step;
    step.padding = static_cast<int32_t>(iq.dim(0) - static_cast<int64_t>(positions.size()));
    for (const int32_t p : positions) {  // each its own entry: positions need not be contiguous
      step.sequences.push_back({shape.slot_of(1), 0, 1, p, 1, 0});
      step.rows.push_back({1, p, false});
    }
    YOKE_CHECK(positions.size() <= static_cast<size_t>(shape.slots), "too many rows at once");
    rows = table.fill(step);
    Compute compute(threads);
    Tensor scratch = unwritten(DType::f32, {threads, shape.length / m + top_pools});
    Result result{unwritten(DType::i32, {iq.dim(0), int64_t{top_pools} * m + m - 1}),
                  unwritten(DType::i32, {iq.dim(0)})};
    index_select(result.selected.view(), result.count.view(), iq, iw, pools.view(), {top_pools, m},
                 scratch.view(), rows, compute.stream);
    return result;
  }

  double score(ConstTensorView iq, ConstTensorView iw, int64_t row, int64_t pool) const {
    const int64_t at = rows.cache_row(shape.slot_of(1), pool * m) / m;
    double sum = 0;
    for (int64_t h = 0; h < heads; ++h) {
      double dot = 0;
      for (int64_t d = 0; d < dim; ++d)
        dot += static_cast<double>(load_float(iq, (row * heads + h) * dim + d)) *
               load_float(pools.view(), at * dim + d);
      sum += load_float(iw, row * heads + h) / std::sqrt(static_cast<double>(heads)) *
             std::max(0.0, dot / std::sqrt(static_cast<double>(dim)));
    }
    return sum;
  }

  ScheduleShape shape;
  int32_t m;
  int64_t heads, dim;
  testing::StepTable table;
  Tensor pools;
  StepRows rows;
};

std::vector<int32_t> up_to(int32_t n) {
  std::vector<int32_t> list(static_cast<size_t>(n));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

class IndexSelect : public ::testing::TestWithParam<DType> {};

TEST_P(IndexSelect, worked_example_of_the_specification) {
  Random random(1);
  SCOPED_TRACE(random.trace());
  Queries q(random, GetParam(), 2064, 4);
  const Tensor iq = random_tensor(random, GetParam(), {3, q.heads, q.dim});
  const Tensor iw = random_tensor(random, DType::f32, {3, q.heads});
  const auto result = q.select({5, 7, 2052}, iq.view(), iw.view(), 512);
  EXPECT_EQ(result.row(0), up_to(6));
  EXPECT_EQ(result.row(1), up_to(8));
  const std::vector<int32_t> sparse = result.row(2);  // 513 pools, 512 chosen, tail {2052}
  EXPECT_EQ(sparse.size(), 2049u);
  EXPECT_EQ(sparse.back(), 2052);
  EXPECT_TRUE(std::is_sorted(sparse.begin(), sparse.end()));
  // The one pool left out is the one of lowest score.
  std::vector<double> scores;
  for (int64_t p = 0; p < 513; ++p) scores.push_back(q.score(iq.view(), iw.view(), 2, p));
  const auto worst =
      static_cast<int32_t>(std::min_element(scores.begin(), scores.end()) - scores.begin());
  EXPECT_FALSE(std::binary_search(sparse.begin(), sparse.end(), 4 * worst));
}

TEST_P(IndexSelect, everything_visible_is_taken_up_to_the_last_dense_length) {
  Random random(2);
  SCOPED_TRACE(random.trace());
  Queries q(random, GetParam(), 40, 4);
  const Tensor iq = random_tensor(random, GetParam(), {1, q.heads, q.dim});
  const Tensor iw = random_tensor(random, DType::f32, {1, q.heads});
  const int32_t top = 5;
  for (int32_t n = 1; n <= 4 * top + 3; ++n)
    EXPECT_EQ(q.select({n - 1}, iq.view(), iw.view(), top).row(0), up_to(n)) << n << " visible";
  EXPECT_EQ(q.select({4 * top + 3}, iq.view(), iw.view(), top).row(0).size(), 20u)
      << "the first sparse length";
}

TEST_P(IndexSelect, without_a_tail_a_row_may_leave_itself_out) {
  Random random(3);
  SCOPED_TRACE(random.trace());
  Queries q(random, GetParam(), 24, 4, 1);
  const Tensor iw = testing::tensor_of(DType::f32, {1, 1}, {1.0f});
  // The query points against the last pool's key: its score is 0, some others are positive.
  Tensor iq = random_tensor(random, GetParam(), {1, 1, q.dim});
  q.select({23}, iq.view(), iw.view(), 3);
  const int64_t own = q.rows.cache_row(q.shape.slot_of(1), 20) / 4;
  for (int64_t d = 0; d < q.dim; ++d)
    store_float(iq.view(), d, -load_float(q.pools.view(), own * q.dim + d));
  int positive = 0;
  for (int64_t p = 0; p < 5; ++p) positive += q.score(iq.view(), iw.view(), 0, p) > 0;
  ASSERT_GE(positive, 1);
  const std::vector<int32_t> list = q.select({23}, iq.view(), iw.view(), 1).row(0);
  EXPECT_EQ(list.size(), 4u);
  EXPECT_FALSE(std::binary_search(list.begin(), list.end(), 23));
}

TEST_P(IndexSelect, each_row_sees_only_the_pools_complete_at_its_position) {
  Random random(4);
  SCOPED_TRACE(random.trace());
  Queries q(random, GetParam(), 64, 4);
  const Tensor iq = random_tensor(random, GetParam(), {4, q.heads, q.dim});
  const Tensor iw = random_tensor(random, DType::f32, {4, q.heads});
  const std::vector<int32_t> positions = {30, 31, 32, 50};
  const auto result = q.select(positions, iq.view(), iw.view(), 4);
  for (size_t r = 0; r < positions.size(); ++r) {
    const std::vector<int32_t> list = result.row(static_cast<int64_t>(r));
    const int32_t visible = positions[r] + 1;
    EXPECT_LT(list.back(), visible);
    EXPECT_EQ(list.size(), 16u + static_cast<size_t>(visible % 4));
    for (int32_t t = visible / 4 * 4; t < visible; ++t)
      EXPECT_TRUE(std::binary_search(list.begin(), list.end(), t)) << "tail token " << t;
    // No complete pool outside the list scores clearly above one inside.
    double lowest_in = std::numeric_limits<double>::infinity();
    double highest_out = -lowest_in;
    for (int32_t p = 0; p < visible / 4; ++p) {
      const double s = q.score(iq.view(), iw.view(), static_cast<int64_t>(r), p);
      if (std::binary_search(list.begin(), list.end(), 4 * p)) {
        lowest_in = std::min(lowest_in, s);
      } else {
        highest_out = std::max(highest_out, s);
      }
    }
    EXPECT_LE(highest_out, lowest_in + 1e-5);
  }
}

TEST_P(IndexSelect, equal_scores_go_to_the_lower_pool) {
  Random random(5);
  Queries q(random, GetParam(), 64, 4);
  const Tensor iw = random_tensor(random, DType::f32, {1, q.heads});
  const Tensor zero(GetParam(), {1, q.heads, q.dim});  // every score is 0
  EXPECT_EQ(
      q.select({62}, zero.view(), iw.view(), 4).row(0),
      (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 60, 61, 62}));
}

TEST_P(IndexSelect, scores_that_are_not_numbers_lose_and_do_no_harm) {
  Random random(6);
  Queries q(random, GetParam(), 64, 4);
  const Tensor iw = random_tensor(random, DType::f32, {1, q.heads});
  Tensor iq = random_tensor(random, GetParam(), {1, q.heads, q.dim});
  q.select({63}, iq.view(), iw.view(), 4);
  const auto set_pool = [&](int64_t pool, float value) {
    const int64_t at = q.rows.cache_row(q.shape.slot_of(1), pool * 4) / 4;
    for (int64_t d = 0; d < q.dim; ++d) store_float(q.pools.view(), at * q.dim + d, value);
  };
  const float infinity = std::numeric_limits<float>::infinity();
  set_pool(0, std::numeric_limits<float>::quiet_NaN());
  set_pool(1, infinity);
  for (int64_t p = 2; p < 16; ++p) set_pool(p, 0);
  const std::vector<int32_t> list = q.select({63}, iq.view(), iw.view(), 4).row(0);
  EXPECT_EQ(list.size(), 16u);
  EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
  EXPECT_GE(list.front(), 0);
  EXPECT_LE(list.back(), 63);
}

TEST_P(IndexSelect, padding_rows_select_nothing_and_threads_do_not_matter) {
  Random random(7);
  SCOPED_TRACE(random.trace());
  Queries q(random, GetParam(), 64, 4);
  const Tensor iq = random_tensor(random, GetParam(), {7, q.heads, q.dim});
  const Tensor iw = random_tensor(random, DType::f32, {7, q.heads});
  const std::vector<int32_t> positions = {63, 40, 3};
  const auto one = q.select(positions, iq.view(), iw.view(), 4);
  for (const int threads : {2, 3}) {
    const auto many = q.select(positions, iq.view(), iw.view(), 4, threads);
    EXPECT_TRUE(testing::same_bits(many.selected.view(), one.selected.view()));
    EXPECT_TRUE(testing::same_bits(many.count.view(), one.count.view()));
  }
  for (int64_t r = 3; r < 7; ++r) {
    EXPECT_TRUE(one.row(r).empty());
    EXPECT_EQ(one.selected.view().as<int32_t>()[r * one.selected.view().dim(1)], -1);
  }
}

TEST_P(IndexSelect, other_pool_sizes) {
  Random random(8);
  SCOPED_TRACE(random.trace());
  for (const int32_t m : {1, 3}) {
    Queries q(random, GetParam(), 60, m);
    const Tensor iq = random_tensor(random, GetParam(), {1, q.heads, q.dim});
    const Tensor iw = random_tensor(random, DType::f32, {1, q.heads});
    const std::vector<int32_t> list = q.select({55}, iq.view(), iw.view(), 4).row(0);
    EXPECT_EQ(list.size(), static_cast<size_t>(4 * m + 56 % m));
  }
}

TEST_P(IndexSelect, every_instruction_set_gives_the_same_scores) {
  Random random(9);
  SCOPED_TRACE(random.trace());
  Queries q(random, GetParam(), 160, 4, 7, 40);  // a full group of heads and a part of one
  const Tensor iq = random_tensor(random, GetParam(), {1, q.heads, q.dim});
  const Tensor iw = random_tensor(random, GetParam(), {1, q.heads});
  q.select({159}, iq.view(), iw.view(), 4);
  const auto scores = [&] {
    std::vector<float> s(40);
    index_scores(s.data(), 40, 0, iq.view(), iw.view(), q.pools.view(), 4, q.rows);
    return s;
  };
  const std::vector<float> want = scores();
  testing::for_each_simd_target([&] { EXPECT_EQ(scores(), want); });
}

INSTANTIATE_TEST_SUITE_P(Types, IndexSelect, ::testing::Values(DType::bf16, DType::f32),
                         [](const auto& test) { return dtype_name(test.param); });

}  // namespace
}  // namespace yoke::kernels
