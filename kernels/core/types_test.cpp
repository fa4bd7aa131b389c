#include "kernels/core/types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/testing/random.h"

namespace yoke::kernels {
namespace {

/// The value of a 16-bit pattern by the definition of the format, in double.
double value_of(uint32_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const uint32_t exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  if (exponent == (1u << exponent_bits) - 1)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  const double fraction = std::ldexp(double{static_cast<double>(mantissa)}, -mantissa_bits);
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias)
                       : sign * std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
}

template <class T>
struct Format;
template <>
struct Format<bf16> {
  static constexpr int kExponentBits = 8;
  static constexpr uint16_t kInfinity = 0x7F80;
  static bf16 round(float x) { return to_bf16(x); }
};
template <>
struct Format<f16> {
  static constexpr int kExponentBits = 5;
  static constexpr uint16_t kInfinity = 0x7C00;
  static f16 round(float x) { return to_f16(x); }
};

template <class T>
class Types : public ::testing::Test {};
using Formats = ::testing::Types<bf16, f16>;
TYPED_TEST_SUITE(Types, Formats);

TYPED_TEST(Types, every_pattern_widens_exactly_and_comes_back) {
  using F = Format<TypeParam>;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const TypeParam x{static_cast<uint16_t>(bits)};
    const double expected = value_of(bits, F::kExponentBits);
    const float widened = to_float(x);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(widened)) << std::hex << bits;
      ASSERT_TRUE(std::isnan(to_float(F::round(widened)))) << std::hex << bits;
    } else {
      ASSERT_EQ(double{widened}, expected) << std::hex << bits;
      ASSERT_EQ(std::signbit(widened), (bits & 0x8000u) != 0) << std::hex << bits;
      ASSERT_EQ(F::round(widened).bits, bits) << std::hex << bits;
    }
  }
}

// Between two neighbours: below the middle rounds down, above rounds up, the middle to even. Covers
// subnormals, the step to the smallest normal and, with the value after the largest, overflow.
TYPED_TEST(Types, rounds_to_the_nearest_neighbour_and_ties_to_even) {
  using F = Format<TypeParam>;
  for (uint32_t bits = 0; bits < F::kInfinity; ++bits) {
    const double low = value_of(bits, F::kExponentBits);
    const double step = bits + 1 < F::kInfinity ? value_of(bits + 1, F::kExponentBits) - low
                                                : low - value_of(bits - 1, F::kExponentBits);
    const auto middle = static_cast<float>(low + step / 2);
    if (double{middle} != low + step / 2) continue;  // bf16 subnormals at the float limit
    const float below = std::nextafter(middle, 0.0f);
    const float above = std::nextafter(middle, std::numeric_limits<float>::infinity());
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(F::round(middle).bits, even) << std::hex << bits;
    ASSERT_EQ(F::round(below).bits, bits) << std::hex << bits;
    ASSERT_EQ(F::round(above).bits, bits + 1) << std::hex << bits;
    ASSERT_EQ(F::round(-middle).bits, even | 0x8000u) << std::hex << bits;
    ASSERT_EQ(F::round(-below).bits, bits | 0x8000u) << std::hex << bits;
    ASSERT_EQ(F::round(-above).bits, (bits + 1) | 0x8000u) << std::hex << bits;
  }
}

TYPED_TEST(Types, special_values) {
  using F = Format<TypeParam>;
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(F::round(inf).bits, F::kInfinity);
  EXPECT_EQ(F::round(-inf).bits, F::kInfinity | 0x8000u);
  EXPECT_EQ(F::round(std::numeric_limits<float>::max()).bits, F::kInfinity);
  EXPECT_EQ(F::round(-0.0f).bits, 0x8000u);
  EXPECT_EQ(F::round(std::numeric_limits<float>::denorm_min()).bits, 0u);
  // A signalling NaN whose payload lies in the dropped bits must not become infinity.
  EXPECT_TRUE(std::isnan(to_float(F::round(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(to_float(F::round(std::bit_cast<float>(0xFFFFFFFFu)))));
}

TYPED_TEST(Types, random_floats_go_to_a_nearest_value) {
  using F = Format<TypeParam>;
  testing::Random random(21);
  SCOPED_TRACE(random.trace());
  for (int i = 0; i < 500'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random.bits()));
    const TypeParam rounded = F::round(x);
    const double error = std::fabs(double{to_float(rounded)} - double{x});
    if (!std::isfinite(error)) continue;  // NaN and overflow: tested above
    for (const int step : {-1, 1}) {
      const auto neighbour = static_cast<uint16_t>(rounded.bits + step);
      const double other = value_of(neighbour, F::kExponentBits);
      if (std::isfinite(other) && std::fabs(other) >= 0x1p-130) {
        ASSERT_LE(error, std::fabs(other - double{x})) << x;
      }
    }
  }
}

TEST(DTypes, sizes_and_names) {
  EXPECT_EQ(dtype_bytes(DType::bf16), 2u);
  EXPECT_EQ(dtype_bytes(DType::f16), 2u);
  EXPECT_EQ(dtype_bytes(DType::i16), 2u);
  EXPECT_EQ(dtype_bytes(DType::f32), 4u);
  EXPECT_EQ(dtype_bytes(DType::i32), 4u);
  EXPECT_STREQ(dtype_name(DType::bf16), "BF16");
}

}  // namespace
}  // namespace yoke::kernels
