// The vectors of math-inl.h and row_sums_simd.cpp against the plain functions, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/core/math.h"
#include "kernels/core/row_sums.h"
#include "kernels/core/simd_targets.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/random.h"
#include "kernels/testing/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/core/math_simd_test.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class F>
void map_doubles(double* x, size_t count, const F& f) {
  const DDouble d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) hn::StoreU(f(hn::LoadU(d, x + i)), d, x + i);
}

void exp_all(double* x, size_t count) {
  map_doubles(x, count, [](VDouble v) HWY_ATTR { return exp64(v); });
}
void sigmoid_all(double* x, size_t count) {
  map_doubles(x, count, [](VDouble v) HWY_ATTR { return sigmoid64(v); });
}
void silu_all(double* x, size_t count) {
  map_doubles(x, count, [](VDouble v) HWY_ATTR { return silu64(v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {
namespace {

HWY_EXPORT(exp_all);
HWY_EXPORT(sigmoid_all);
HWY_EXPORT(silu_all);

/// Special values, the edges of exp64's range, and random ones of every size; a multiple of 8.
std::vector<double> inputs() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> x = {0.0,
                           -0.0,
                           kInfinity,
                           -kInfinity,
                           std::nan(""),
                           1e-310,
                           -1e-310,
                           0x1p-60,
                           709.78,
                           709.79,
                           -745.13,
                           -745.14,
                           -708.4,
                           -1022.0,
                           1e308,
                           -1e308,
                           0x1.62e42fefa39efp+9,
                           -0x1.74910d52d3052p+9};
  testing::Random random(31);
  while (x.size() % 8 != 0 || x.size() < 40'000)
    x.push_back(random.normal() * std::ldexp(1.0, static_cast<int>(random.below(24)) - 12));
  return x;
}

template <class Vector>
void expect_same_bits(const Vector& vector, double (*plain)(double) noexcept) {
  const std::vector<double> x = inputs();
  testing::for_each_simd_target([&] {
    std::vector<double> y = x;
    vector(y.data(), y.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = plain(x[i]);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(y[i])) << x[i];
      } else {
        ASSERT_EQ(std::bit_cast<uint64_t>(y[i]), std::bit_cast<uint64_t>(want)) << x[i];
      }
    }
  });
}

TEST(MathSimd, exp_has_the_bits_of_exp64) {
  expect_same_bits([](double* x, size_t n) { HWY_DYNAMIC_DISPATCH(exp_all)(x, n); }, &exp64);
}
TEST(MathSimd, sigmoid_has_the_bits_of_sigmoid64) {
  expect_same_bits(
      [](double* x, size_t n) {
        HWY_DYNAMIC_DISPATCH(sigmoid_all)
        (x, n);
      },
      &sigmoid64);
}
TEST(MathSimd, silu_has_the_bits_of_silu64) {
  expect_same_bits([](double* x, size_t n) { HWY_DYNAMIC_DISPATCH(silu_all)(x, n); }, &silu64);
}

std::vector<float> random_floats(testing::Random& random, size_t count) {
  std::vector<float> x;
  for (size_t i = 0; i < count; ++i) x.push_back(static_cast<float>(random.normal()));
  return x;
}

TEST(RowSums, scaled_sums_have_the_bits_of_plain_loops) {
  testing::Random random(32);
  SCOPED_TRACE(random.trace());
  for (const size_t n : {1u, 3u, 8u, 21u, 256u}) {
    const std::vector<float> a = random_floats(random, n);
    const std::vector<float> b = random_floats(random, n);
    const double factor = random.normal();
    testing::for_each_simd_target([&] {
      std::vector<double> sums(n, 0.25);
      std::vector<float> scaled = a;
      std::vector<float> rounded(n);
      add_scaled(sums.data(), factor, a.data(), static_cast<int64_t>(n));
      round_sums(rounded.data(), sums.data(), static_cast<int64_t>(n));
      scale_row(scaled.data(), factor, b.data(), static_cast<int64_t>(n));
      for (size_t i = 0; i < n; ++i) {
        ASSERT_EQ(sums[i], 0.25 + factor * double{a[i]});
        ASSERT_EQ(rounded[i], static_cast<float>(sums[i]));
        ASSERT_EQ(scaled[i], static_cast<float>(double{a[i]} * factor * double{b[i]}));
      }
    });
  }
}

TEST(RowSums, squares_are_summed_by_the_stated_tree) {
  testing::Random random(33);
  SCOPED_TRACE(random.trace());
  for (const size_t n : {1u, 15u, 16u, 17u, 300u}) {
    const std::vector<float> x = random_floats(random, n);
    double lanes[16] = {};
    for (size_t i = 0; i < n; ++i) lanes[i % 16] += double{x[i]} * double{x[i]};
    for (size_t half = 8; half > 0; half /= 2) {
      for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    }
    testing::for_each_simd_target([&] {
      SquareSum sum;
      const size_t first = n / 32 * 16;  // in two runs
      sum.add(x.data(), static_cast<int64_t>(first));
      sum.add(x.data() + first, static_cast<int64_t>(n - first));
      ASSERT_EQ(sum.total(), lanes[0]) << n;
    });
  }
}

}  // namespace
}  // namespace yoke::kernels
#endif
