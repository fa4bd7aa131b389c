#include "kernels/mhc/mhc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/testing/compare.h"
#include "kernels/testing/simd.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

/// One site's weights; owns them.
struct Site {
  Site(testing::Random& random, int64_t streams, int64_t hidden, DType fn_type, double strength)
      : fn(testing::random_tensor(random, fn_type,
                                  {2 * streams + streams * streams, streams * hidden},
                                  strength / std::sqrt(static_cast<double>(streams * hidden)))),
        base(testing::random_tensor(random, DType::f32, {2 * streams + streams * streams})),
        scale(testing::random_tensor(random, DType::f32, {3})) {}
  MhcWeights weights() const { return {fn.view(), base.view(), scale.view(), 1e-5f, 1e-6f, 20}; }
  Tensor fn;
  Tensor base;
  Tensor scale;
};

struct Coefficients {
  Coefficients(ConstTensorView streams, DType act)
      : x(testing::unwritten(act, {streams.dim(0), streams.dim(2)})),
        post(testing::unwritten(DType::f32, {streams.dim(0), streams.dim(1)})),
        comb(testing::unwritten(DType::f32, {streams.dim(0), streams.dim(1), streams.dim(1)})) {}
  Tensor x;
  Tensor post;
  Tensor comb;
};

Coefficients coefficients(ConstTensorView streams, const MhcWeights& weights, int threads = 1) {
  testing::Compute compute(threads);
  Coefficients c(streams, streams.dtype);
  mhc_coefficients(c.x.view(), c.post.view(), c.comb.view(), streams, weights, compute.stream);
  return c;
}

// fn = 0: nothing depends on the streams. pre = σ(0) + ε = 0.5 + 1e-6, post = 2·σ(0) = 1, and comb
// starts uniform, which Sinkhorn keeps but for the ε.
TEST(MhcCoefficients, known_answer_without_mixing_weights) {
  const Tensor fn(DType::bf16, {8, 4});
  const Tensor base(DType::f32, {8});
  const Tensor scale = testing::tensor_of(DType::f32, {3}, {1, 1, 1});
  const Tensor streams = testing::tensor_of(DType::f32, {1, 2, 2}, {1, 2, 3, 4});
  const Coefficients c =
      coefficients(streams.view(), {fn.view(), base.view(), scale.view(), 1e-5f, 1e-6f, 20});
  EXPECT_EQ(testing::to_vector(c.post.view()), (std::vector<float>{1, 1}));
  for (const float v : testing::to_vector(c.comb.view())) EXPECT_NEAR(v, 0.5, 1e-6);
  const std::vector<float> x = testing::to_vector(c.x.view());
  EXPECT_NEAR(x[0], 4 * 0.500001, 1e-6);
  EXPECT_NEAR(x[1], 6 * 0.500001, 1e-6);
}

// Two streams of one element, f = (1, 1): rms is 1 but for its eps, so the products are the row
// sums of fn.
TEST(MhcCoefficients, known_answer_of_each_coefficient) {
  const Tensor fn =
      testing::tensor_of(DType::f32, {8, 2}, {1, 0, 0, 2, 0.5, 0, 0, -1, 0, 0, 1, 0, 0, 0, 0, 2});
  const Tensor base = testing::tensor_of(DType::f32, {8}, {0, 1, 0, 0, 0, 0, 0, 0});
  const Tensor scale = testing::tensor_of(DType::f32, {3}, {2, 3, 1});
  const Tensor streams = testing::tensor_of(DType::f32, {1, 2, 1}, {1, 1});
  MhcWeights weights{fn.view(), base.view(), scale.view(), 0, 1e-6f, 1};
  const Coefficients c = coefficients(streams.view(), weights);
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const std::vector<float> post = testing::to_vector(c.post.view());
  EXPECT_NEAR(post[0], 2 * sigmoid(0.5 * 3), 1e-6);
  EXPECT_NEAR(post[1], 2 * sigmoid(-1 * 3.0), 1e-6);
  EXPECT_NEAR(testing::to_vector(c.x.view())[0], sigmoid(1 * 2) + sigmoid(2 * 2 + 1) + 2e-6, 1e-6);
  // A = [[0, 1], [0, 2]]: softmax over the second index (rows), then + ε, then columns / (Σ + ε).
  const double e = 1e-6;
  const double a = std::exp(1.0), b = std::exp(2.0);
  const double c00 = 1 / (1 + a) + e, c01 = a / (1 + a) + e;
  const double c10 = 1 / (1 + b) + e, c11 = b / (1 + b) + e;
  const std::vector<float> comb = testing::to_vector(c.comb.view());
  EXPECT_NEAR(comb[0], c00 / (c00 + c10 + e), 1e-6);
  EXPECT_NEAR(comb[1], c01 / (c01 + c11 + e), 1e-6);
  EXPECT_NEAR(comb[2], c10 / (c00 + c10 + e), 1e-6);
  EXPECT_NEAR(comb[3], c11 / (c01 + c11 + e), 1e-6);
}

// The last half step divides by column sums, so columns (over sources) sum to 1 but for ε; after 20
// rounds rows nearly do.
TEST(MhcCoefficients, sinkhorn_makes_comb_doubly_stochastic) {
  testing::Random random(181);
  SCOPED_TRACE(random.trace());
  for (const int64_t s_count : {1, 2, 4, 8}) {
    const Site site(random, s_count, 32, DType::bf16, 1.0);
    const Tensor streams = testing::random_tensor(random, DType::bf16, {6, s_count, 32});
    const Coefficients c = coefficients(streams.view(), site.weights());
    const std::vector<float> comb = testing::to_vector(c.comb.view());
    const auto at = [&](int64_t r, int64_t i, int64_t j) {
      return comb[static_cast<size_t>((r * s_count + i) * s_count + j)];
    };
    for (int64_t r = 0; r < 6; ++r) {
      for (int64_t i = 0; i < s_count; ++i) {
        double column = 0;
        double row = 0;
        for (int64_t j = 0; j < s_count; ++j) {
          EXPECT_GT(at(r, j, i), 0);
          column += double{at(r, j, i)};
          row += double{at(r, i, j)};
        }
        EXPECT_NEAR(column, 1, 3e-6);
        EXPECT_NEAR(row, 1, 1e-2);
      }
    }
  }
}

TEST(MhcCoefficients, a_scaled_row_gives_the_same_coefficients) {
  testing::Random random(182);
  SCOPED_TRACE(random.trace());
  const Site site(random, 4, 64, DType::bf16, 1.0);
  const Tensor streams = testing::random_tensor(random, DType::f32, {1, 4, 64}, 100);
  Tensor scaled = testing::copy_of(streams.view());
  for (int64_t i = 0; i < 256; ++i) scaled.view().as<float>()[i] *= 4;
  const Coefficients a = coefficients(streams.view(), site.weights());
  const Coefficients b = coefficients(scaled.view(), site.weights());
  EXPECT_TRUE(testing::all_close(b.comb.view(), a.comb.view(), {0, 1e-5}));
  EXPECT_TRUE(testing::all_close(b.post.view(), a.post.view(), {0, 1e-5}));
}

// The float64 sums differ in order alone, by less than 2^-40 of their size: where that crosses the
// one rounding to a result's type, neighbours come out.
TEST(MhcCoefficients, agrees_with_the_reference_for_all_types_rows_targets_and_threads) {
  testing::Random random(183);
  SCOPED_TRACE(random.trace());
  for (const int64_t hidden : {1, 33, 128, 300}) {
    for (const int64_t s_count : {2, 3, 4}) {
      for (const DType act : {DType::bf16, DType::f32}) {
        for (const DType fn_type : {DType::bf16, DType::f16, DType::f32}) {
          const Site site(random, s_count, hidden, fn_type, 2.0);
          const Tensor streams = testing::random_tensor(random, act, {5, s_count, hidden});
          testing::Compute compute;
          Coefficients expected(streams.view(), act);
          mhc_coefficients_ref(expected.x.view(), expected.post.view(), expected.comb.view(),
                               streams.view(), site.weights(), compute.stream);
          const Coefficients one = coefficients(streams.view(), site.weights());
          const testing::Tolerance neighbours{0, 2.01 * testing::rounding_error(DType::f32)};
          ASSERT_TRUE(testing::all_close(one.x.view(), expected.x.view(),
                                         {1e-9, 2.01 * testing::rounding_error(act)}));
          ASSERT_TRUE(testing::all_close(one.post.view(), expected.post.view(), neighbours));
          ASSERT_TRUE(testing::all_close(one.comb.view(), expected.comb.view(), neighbours));
          testing::for_each_simd_target([&] {
            for (const int threads : {1, 3}) {
              const Coefficients c = coefficients(streams.view(), site.weights(), threads);
              ASSERT_TRUE(testing::same_bits(c.x.view(), one.x.view()));
              ASSERT_TRUE(testing::same_bits(c.post.view(), one.post.view()));
              ASSERT_TRUE(testing::same_bits(c.comb.view(), one.comb.view()));
            }
            const Coefficients alone =
                coefficients(testing::row_range(streams.view(), 3, 1), site.weights());
            ASSERT_TRUE(testing::same_bits(alone.x.view(), testing::row_range(one.x.view(), 3, 1)));
          });
        }
      }
    }
  }
}

TEST(MhcMix, first_index_of_comb_is_the_source) {
  // post = (10, 20), y = 1; stream 0 goes to destination 1 whole, stream 1 to destination 0 by
  // half.
  const Tensor post = testing::tensor_of(DType::f32, {1, 2}, {10, 20});
  const Tensor comb = testing::tensor_of(DType::f32, {1, 2, 2}, {0, 1, 0.5, 0});
  const Tensor y = testing::tensor_of(DType::f32, {1, 1}, {1});
  Tensor streams = testing::tensor_of(DType::f32, {1, 2, 1}, {3, 8});
  testing::Compute compute;
  mhc_mix(streams.view(), y.view(), post.view(), comb.view(), compute.stream);
  EXPECT_EQ(testing::to_vector(streams.view()), (std::vector<float>{14, 23}));
}

TEST(MhcMix, identity_and_no_update_change_nothing) {
  testing::Random random(184);
  SCOPED_TRACE(random.trace());
  const Tensor post(DType::f32, {2, 3});
  Tensor comb(DType::f32, {2, 3, 3});
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t i = 0; i < 3; ++i) comb.view().as<float>()[r * 9 + i * 4] = 1;
  }
  const Tensor y = testing::random_tensor(random, DType::bf16, {2, 200});
  const Tensor before = testing::random_tensor(random, DType::bf16, {2, 3, 200});
  Tensor streams = testing::copy_of(before.view());
  testing::Compute compute;
  mhc_mix(streams.view(), y.view(), post.view(), comb.view(), compute.stream);
  EXPECT_TRUE(testing::same_bits(streams.view(), before.view()));
}

TEST(MhcMix, equals_the_reference_for_all_types_rows_and_threads) {
  testing::Random random(185);
  SCOPED_TRACE(random.trace());
  for (const int64_t hidden : {1, 63, 64, 65, 500}) {
    for (const DType act : {DType::bf16, DType::f32}) {
      for (const DType y_type : {DType::bf16, DType::f32}) {
        const Tensor before = testing::random_tensor(random, act, {4, 4, hidden});
        const Tensor y = testing::random_tensor(random, y_type, {4, hidden});
        const Tensor post = testing::random_tensor(random, DType::f32, {4, 4});
        const Tensor comb = testing::random_tensor(random, DType::f32, {4, 4, 4});
        testing::Compute one;
        Tensor expected = testing::copy_of(before.view());
        mhc_mix_ref(expected.view(), y.view(), post.view(), comb.view(), one.stream);
        testing::for_each_simd_target([&] {
          for (const int threads : {1, 3}) {
            testing::Compute compute(threads);
            Tensor streams = testing::copy_of(before.view());
            mhc_mix(streams.view(), y.view(), post.view(), comb.view(), compute.stream);
            ASSERT_TRUE(testing::same_bits(streams.view(), expected.view()));
          }
        });
      }
    }
  }
}

}  // namespace
}  // namespace yoke::kernels
