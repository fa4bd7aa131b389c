#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "kernels/testing/compare.h"
#include "kernels/testing/random.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels::testing {
namespace {

TEST(Random, same_seed_same_values_and_other_seed_other_values) {
  Random a(7);
  Random b(7);
  Random c(8);
  int equal_to_other_seed = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t x = a.bits();
    EXPECT_EQ(x, b.bits());
    if (x == c.bits()) ++equal_to_other_seed;
  }
  EXPECT_EQ(equal_to_other_seed, 0);
}

TEST(Random, first_values_are_fixed) {
  Random random(1);
  EXPECT_EQ(random.bits(), 0xE95557BDC31D327Eu);
  EXPECT_EQ(random.bits(), 0x569ADBC3A05BE45Fu);
}

TEST(Random, bits_are_balanced_and_values_distinct) {
  Random random(3);
  std::set<uint64_t> seen;
  int ones[64] = {};
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t x = random.bits();
    seen.insert(x);
    for (int b = 0; b < 64; ++b) ones[b] += static_cast<int>(x >> b & 1u);
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kDraws));
  for (const int count : ones) EXPECT_NEAR(count, kDraws / 2, 5 * std::sqrt(kDraws / 4.0));
}

TEST(Random, normal_has_mean_0_and_deviation_1) {
  Random random(4);
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1, 0.03);
}

TEST(Random, below_stays_below_and_reaches_all) {
  Random random(5);
  std::set<int64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const int64_t x = random.below(7);
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 7);
    seen.insert(x);
  }
  EXPECT_EQ(seen.size(), 7u);
}

TEST(Compare, all_close_names_the_worst_element) {
  const Tensor expected = tensor_of(DType::f32, {2, 2}, {1, 2, 3, 4});
  const Tensor actual = tensor_of(DType::f32, {2, 2}, {1, 2.5, 3, 6});
  EXPECT_TRUE(all_close(actual.view(), expected.view(), {2, 0}));
  EXPECT_TRUE(all_close(actual.view(), expected.view(), {0, 0.5}));
  const auto result = all_close(actual.view(), expected.view(), {0.25, 0});
  ASSERT_FALSE(result);
  const std::string text = result.message();
  EXPECT_NE(text.find("2 of 4"), std::string::npos) << text;
  EXPECT_NE(text.find("[1, 1]: expected 4, actual 6"), std::string::npos) << text;
}

TEST(Compare, nan_passes_only_against_nan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor a = tensor_of(DType::f32, {3}, {nan, inf, 1});
  const Tensor b = tensor_of(DType::f32, {3}, {nan, 2, 1});
  const Tensor c = tensor_of(DType::f32, {3}, {1, inf, 1});
  EXPECT_TRUE(all_close(a.view(), a.view(), {}));
  EXPECT_FALSE(all_close(a.view(), b.view(), {1e30, 0}));
  EXPECT_FALSE(all_close(a.view(), c.view(), {1e30, 0}));
  EXPECT_FALSE(all_close(c.view(), a.view(), {1e30, 0}));
}

TEST(Compare, all_within_uses_each_bound) {
  const Tensor expected = tensor_of(DType::f32, {2}, {1, 1});
  const Tensor actual = tensor_of(DType::f32, {2}, {2, 1.5});
  const Tensor enough = tensor_of(DType::f32, {2}, {1, 0.5});
  const Tensor tight = tensor_of(DType::f32, {2}, {1, 0.25});
  EXPECT_TRUE(all_within(actual.view(), expected.view(), enough.view()));
  EXPECT_FALSE(all_within(actual.view(), expected.view(), tight.view()));
}

TEST(Compare, rows_close_looks_at_each_row_alone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor expected = tensor_of(DType::f32, {2, 2}, {100, 100, 1, 1});
  const Tensor actual = tensor_of(DType::f32, {2, 2}, {101, 100, 1, 1});
  const Tensor broken = tensor_of(DType::f32, {2, 2}, {100, nan, 1, 1});
  EXPECT_TRUE(rows_close(actual.view(), expected.view(), 0.01, 0.02));
  EXPECT_FALSE(rows_close(actual.view(), expected.view(), 0.001, 0.02));
  EXPECT_FALSE(rows_close(actual.view(), expected.view(), 0.01, 0.005));
  EXPECT_FALSE(rows_close(broken.view(), expected.view(), 1, 1));
}

TEST(Compare, same_bits_names_the_first_difference_and_sees_the_sign_of_zero) {
  const Tensor expected = tensor_of(DType::bf16, {1, 3}, {1, 0, 5});
  const Tensor actual = tensor_of(DType::bf16, {1, 3}, {1, -0.0f, 6});
  EXPECT_TRUE(same_bits(expected.view(), expected.view()));
  const auto result = same_bits(actual.view(), expected.view());
  ASSERT_FALSE(result);
  const std::string text = result.message();
  EXPECT_NE(text.find("[0, 1]: expected 0x0, actual 0x8000"), std::string::npos) << text;
}

TEST(Compare, other_shape_or_type_fails) {
  const Tensor a = tensor_of(DType::f32, {2}, {1, 2});
  EXPECT_FALSE(same_bits(a.view(), reshaped(a.view(), {1, 2})));
  EXPECT_FALSE(all_close(a.view(), reshaped(a.view(), {1, 2}), {1, 0}));
  EXPECT_FALSE(same_bits(a.view(), converted(a.view(), DType::bf16).view()));
}

TEST(Tensors, unwritten_floats_are_nan) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    const Tensor t = unwritten(dtype, {4});
    for (const float x : to_vector(t.view())) EXPECT_TRUE(std::isnan(x));
  }
}

}  // namespace
}  // namespace yoke::kernels::testing
