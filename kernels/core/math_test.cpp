#include "kernels/core/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/testing/random.h"

namespace yoke::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// |actual - exact| in units of the last place of a double near `exact`.
double ulps(double actual, long double exact) {
  const double nearest = static_cast<double>(exact);
  const double magnitude = std::max(std::fabs(nearest), 0x1p-1022);
  const long double unit = std::ldexp(1.0L, std::ilogb(magnitude) - 52);
  return static_cast<double>(std::fabs(static_cast<long double>(actual) - exact) / unit);
}

/// The largest error over [low, high): an even sweep and random points.
template <class Function, class Exact>
double worst_error(double low, double high, Function function, Exact exact) {
  testing::Random random(11);
  constexpr int kPoints = 200'000;
  double worst = 0;
  for (int i = 0; i < kPoints; ++i) {
    const double even = low + (high - low) * i / kPoints;
    const double random_point = random.uniform(low, high);
    worst = std::max(worst, ulps(function(even), exact(even)));
    worst = std::max(worst, ulps(function(random_point), exact(random_point)));
  }
  return worst;
}

long double exp_exact(double x) {
  return std::exp(static_cast<long double>(x));
}
long double log_exact(double x) {
  return std::log(static_cast<long double>(x));
}
long double sigmoid_exact(double x) {
  const long double wide = x;
  return wide >= 0 ? 1 / (1 + std::exp(-wide)) : std::exp(wide) / (1 + std::exp(wide));
}
long double softplus_exact(double x) {
  return std::log1p(std::exp(static_cast<long double>(x)));
}

TEST(Exp64, error_is_below_its_bound) {
  EXPECT_LT(worst_error(-1, 1, exp64, exp_exact), 0.6);
  EXPECT_LT(worst_error(-50, 50, exp64, exp_exact), 0.6);
  EXPECT_LT(worst_error(-708, 709.78, exp64, exp_exact), 0.6);
  EXPECT_LT(worst_error(-1e-8, 1e-8, exp64, exp_exact), 0.6);
  EXPECT_LT(worst_error(-745.1, -708, exp64, exp_exact), 0.8);  // subnormal results
}

TEST(Exp64, special_values) {
  EXPECT_EQ(exp64(0.0), 1.0);
  EXPECT_EQ(exp64(-0.0), 1.0);
  EXPECT_EQ(exp64(kInfinity), kInfinity);
  EXPECT_EQ(exp64(-kInfinity), 0.0);
  EXPECT_TRUE(std::isnan(exp64(kNan)));
  EXPECT_EQ(exp64(709.79), kInfinity);
  EXPECT_EQ(exp64(1e300), kInfinity);
  EXPECT_TRUE(std::isfinite(exp64(709.782712893384)));
  EXPECT_EQ(exp64(-745.14), 0.0);
  EXPECT_EQ(exp64(-1e300), 0.0);
  EXPECT_EQ(exp64(-745.13), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(exp64(std::numeric_limits<double>::denorm_min()), 1.0);
}

TEST(Exp64, is_monotonic_across_table_steps) {
  for (int i = -2000; i < 2000; ++i) {
    const double edge = (i + 0.5) * 0.021660849392498290;  // ln 2 / 32: where the reduction changes
    double x = edge - 8 * std::fabs(edge) * 0x1p-53;
    for (int step = 0; step < 16; ++step) {
      const double next = std::nextafter(x, kInfinity);
      EXPECT_LE(exp64(x), exp64(next)) << x;
      x = next;
    }
  }
}

TEST(Log64, error_is_below_its_bound) {
  EXPECT_LT(worst_error(0.5, 2, log64, log_exact), 1.0);
  EXPECT_LT(worst_error(0.999, 1.001, log64, log_exact), 1.0);
  EXPECT_LT(worst_error(1e-3, 1e3, log64, log_exact), 1.0);
  EXPECT_LT(worst_error(1, 1e300, log64, log_exact), 1.0);
  EXPECT_LT(worst_error(0, 0x1p-1022, log64, log_exact), 1.0);  // subnormal arguments
}

TEST(Log64, error_over_random_bit_patterns) {
  testing::Random random(12);
  double worst = 0;
  for (int i = 0; i < 500'000; ++i) {
    const double x = std::bit_cast<double>(random.bits() & 0x7FFFFFFFFFFFFFFFu);
    if (std::isfinite(x) && x > 0) worst = std::max(worst, ulps(log64(x), log_exact(x)));
  }
  EXPECT_LT(worst, 1.0);
}

TEST(Log64, special_values) {
  EXPECT_EQ(log64(1.0), 0.0);
  EXPECT_EQ(log64(0.0), -kInfinity);
  EXPECT_EQ(log64(-0.0), -kInfinity);
  EXPECT_EQ(log64(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(log64(-1.0)));
  EXPECT_TRUE(std::isnan(log64(-kInfinity)));
  EXPECT_TRUE(std::isnan(log64(kNan)));
  const double tiny = std::numeric_limits<double>::denorm_min();
  EXPECT_LT(ulps(log64(tiny), log_exact(tiny)), 1.0);
  const double huge = std::numeric_limits<double>::max();
  EXPECT_LT(ulps(log64(huge), log_exact(huge)), 1.0);
}

TEST(Sigmoid64, error_is_below_its_bound) {
  EXPECT_LT(worst_error(-2, 2, sigmoid64, sigmoid_exact), 2.5);
  EXPECT_LT(worst_error(-60, 60, sigmoid64, sigmoid_exact), 2.5);
  EXPECT_LT(worst_error(-745, -700, sigmoid64, sigmoid_exact), 2.5);
}

TEST(Sigmoid64, special_values) {
  EXPECT_EQ(sigmoid64(0.0), 0.5);
  EXPECT_EQ(sigmoid64(kInfinity), 1.0);
  EXPECT_EQ(sigmoid64(-kInfinity), 0.0);
  EXPECT_EQ(sigmoid64(1e300), 1.0);
  EXPECT_EQ(sigmoid64(-1e300), 0.0);
  EXPECT_TRUE(std::isnan(sigmoid64(kNan)));
}

TEST(Silu64, special_values) {
  EXPECT_EQ(silu64(0.0), 0.0);
  EXPECT_EQ(silu64(kInfinity), kInfinity);
  EXPECT_EQ(silu64(-kInfinity), 0.0);
  EXPECT_EQ(silu64(-1e300), 0.0);
  EXPECT_TRUE(std::isnan(silu64(kNan)));
  EXPECT_NEAR(silu64(1.0), 0.73105857863000490, 1e-16);
}

TEST(Softplus64, error_is_below_its_bound) {
  EXPECT_LT(worst_error(-2, 2, softplus64, softplus_exact), 2.0);
  EXPECT_LT(worst_error(-40, 20, softplus64, softplus_exact), 2.0);
  EXPECT_LT(worst_error(-700, -30, softplus64, softplus_exact), 2.0);
}

TEST(Softplus64, special_values) {
  EXPECT_EQ(softplus64(20.5), 20.5);
  EXPECT_EQ(softplus64(kInfinity), kInfinity);
  EXPECT_EQ(softplus64(-kInfinity), 0.0);
  EXPECT_TRUE(std::isnan(softplus64(kNan)));
}

// Bits, not values: what every other machine must produce too.
TEST(Math, results_have_the_recorded_bits) {
  const auto digest = [](auto function, double low, double high) {
    testing::Random random(13);
    uint64_t sum = 0;
    for (int i = 0; i < 100'000; ++i)
      sum = (sum ^ std::bit_cast<uint64_t>(function(random.uniform(low, high)))) *
            0xD6E8FEB86659FD93u;
    return sum;
  };
  EXPECT_EQ(digest(exp64, -750, 712), 0xFC1307BF5C46EC70u);
  EXPECT_EQ(digest(log64, 0, 1e6), 0xA3258FA291C3B6E1u);
  EXPECT_EQ(digest(sigmoid64, -50, 50), 0x9B27A542AF931284u);
  EXPECT_EQ(digest(softplus64, -50, 25), 0xE26378975D807FF0u);
}

}  // namespace
}  // namespace yoke::kernels
