#include "kernels/core/math.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace yoke::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kQuietNan = std::numeric_limits<double>::quiet_NaN();

/// 2^exponent; the result must be normal.
constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

struct HighLow {
  double high;
  double low;
};

// 2^(j/32) = high + low: the nearest double, and the nearest double of what is left.
// math_test.cpp recomputes it.
constexpr HighLow kPowers[32] = {
    {0x1.0000000000000p+0, 0x0.0p+0},
    {0x1.059b0d3158574p+0, 0x1.d73e2a475b465p-55},
    {0x1.0b5586cf9890fp+0, 0x1.8a62e4adc610bp-54},
    {0x1.11301d0125b51p+0, -0x1.6c51039449b3ap-54},
    {0x1.172b83c7d517bp+0, -0x1.19041b9d78a76p-55},
    {0x1.1d4873168b9aap+0, 0x1.e016e00a2643cp-54},
    {0x1.2387a6e756238p+0, 0x1.9b07eb6c70573p-54},
    {0x1.29e9df51fdee1p+0, 0x1.612e8afad1255p-55},
    {0x1.306fe0a31b715p+0, 0x1.6f46ad23182e4p-55},
    {0x1.371a7373aa9cbp+0, -0x1.63aeabf42eae2p-54},
    {0x1.3dea64c123422p+0, 0x1.ada0911f09ebcp-55},
    {0x1.44e086061892dp+0, 0x1.89b7a04ef80d0p-59},
    {0x1.4bfdad5362a27p+0, 0x1.d4397afec42e2p-56},
    {0x1.5342b569d4f82p+0, -0x1.07abe1db13cadp-55},
    {0x1.5ab07dd485429p+0, 0x1.6324c054647adp-54},
    {0x1.6247eb03a5585p+0, -0x1.383c17e40b497p-54},
    {0x1.6a09e667f3bcdp+0, -0x1.bdd3413b26456p-54},
    {0x1.71f75e8ec5f74p+0, -0x1.16e4786887a99p-55},
    {0x1.7a11473eb0187p+0, -0x1.41577ee04992fp-55},
    {0x1.82589994cce13p+0, -0x1.d4c1dd41532d8p-54},
    {0x1.8ace5422aa0dbp+0, 0x1.6e9f156864b27p-54},
    {0x1.93737b0cdc5e5p+0, -0x1.75fc781b57ebcp-57},
    {0x1.9c49182a3f090p+0, 0x1.c7c46b071f2bep-56},
    {0x1.a5503b23e255dp+0, -0x1.d2f6edb8d41e1p-54},
    {0x1.ae89f995ad3adp+0, 0x1.7a1cd345dcc81p-54},
    {0x1.b7f76f2fb5e47p+0, -0x1.5584f7e54ac3bp-56},
    {0x1.c199bdd85529cp+0, 0x1.11065895048ddp-55},
    {0x1.cb720dcef9069p+0, 0x1.503cbd1e949dbp-56},
    {0x1.d5818dcfba487p+0, 0x1.2ed02d75b3707p-55},
    {0x1.dfc97337b9b5fp+0, -0x1.1a5cd4f184b5cp-54},
    {0x1.ea4afa2a490dap+0, -0x1.e9c23179c2893p-54},
    {0x1.f50765b6e4540p+0, 0x1.9d3e12dd8a18bp-54},
};

// ln 2 = high + low, high with 32 significant bits, so that a product with an integer of at most 21
// bits is exact.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

}  // namespace

double exp64(double x) noexcept {
  if (!(x <= 0x1.62e42fefa39efp+9)) return x != x ? x : kInfinity;
  if (x < -0x1.74910d52d3052p+9) return 0.0;

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
  const HighLow power = kPowers[index & 31];
  const double y = power.high + (power.low + power.high * p);

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
