#include "kernels/core/math.h"

#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/core/math_tables.h"

namespace yoke::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kQuietNan = std::numeric_limits<double>::quiet_NaN();

/// 2^exponent; the result must be normal.
constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

}  // namespace

double exp64(double x) noexcept {
  if (!(x <= kExpHighest)) return x != x ? x : kInfinity;
  if (x < kExpLowest) return 0.0;

  // x = (n/32)·ln 2 + r with |r| <= ln2/64. Adding 1.5·2^52 leaves round(x·32/ln 2) in the low
  // bits.
  constexpr double kShift = 0x1.8p52;
  const double shifted = x * 0x1.71547652b82fep+5 + kShift;
  const double n = shifted - kShift;
  const int index = static_cast<int32_t>(std::bit_cast<uint64_t>(shifted));
  const double r = (x - n * (kLn2High / 32)) - n * (kLn2Low / 32);

  // e^r - 1 by its series; the first term left out is r^7/5040 < 2^-58.
  const double p =
      r + r * r * (1.0 / 2 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 + r * (1.0 / 720)))));
  const double* power = kPowers[index & 31];
  const double y = power[0] + (power[1] + power[0] * p);

  const int exponent = index >> 5;  // -1075 .. 1024
  if (exponent > 1023) return y * power_of_two(1023) * 2.0;
  if (exponent < -1021) return y * power_of_two(exponent + 200) * 0x1p-200;
  return y * power_of_two(exponent);
}

double log64(double x) noexcept {
  if (x != x || x == kInfinity) return x;
  if (x == 0.0) return -kInfinity;
  if (x < 0.0) return kQuietNan;

  int exponent = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    exponent = -54;
  }
  // x = 2^exponent · m with m in [√½, √2).
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  constexpr uint64_t kRootHalf = 0x3FE6A09E667F3BCDu;
  const int64_t shift = static_cast<int64_t>(bits - kRootHalf) >> 52;
  exponent += static_cast<int>(shift);
  const double m = std::bit_cast<double>(bits - (static_cast<uint64_t>(shift) << 52));

  // ln m = 2 artanh(s), s = f/(2+f), f = m - 1 (exact). With 2s = f - sf and sf = h - sh, h = f²/2:
  // ln m = f - (h - s·(h + R)), R = 2 (s²/3 + s⁴/5 + …). The first term left out is s^22/23 <
  // 2^-60.
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double tail = 2.0 / 21;
  tail = 2.0 / 19 + z * tail;
  tail = 2.0 / 17 + z * tail;
  tail = 2.0 / 15 + z * tail;
  tail = 2.0 / 13 + z * tail;
  tail = 2.0 / 11 + z * tail;
  tail = 2.0 / 9 + z * tail;
  tail = 2.0 / 7 + z * tail;
  tail = 2.0 / 5 + z * tail;
  tail = 2.0 / 3 + z * tail;
  const double half_square = 0.5 * f * f;
  const double correction = s * (half_square + z * tail);
  const double e = exponent;
  return e * kLn2High - ((half_square - (correction + e * kLn2Low)) - f);
}

double sigmoid64(double x) noexcept {
  if (x >= 0.0) return 1.0 / (1.0 + exp64(-x));
  const double e = exp64(x);
  return e / (1.0 + e);
}

double silu64(double x) noexcept {
  return x == -kInfinity ? 0.0 : x * sigmoid64(x);
}

double softplus64(double x) noexcept {
  if (x > 20.0) return x;
  const double e = exp64(x);
  const double u = 1.0 + e;
  if (u == 1.0) return e;
  // ln(1+e) = ln(u) + ln(1 + (e - (u-1))/u): the second part repairs the rounding of u.
  return log64(u) + (e - (u - 1.0)) / u;
}

}  // namespace yoke::kernels
