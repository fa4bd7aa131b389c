// exp64, sigmoid64 and silu64 of math.h for vectors of doubles: the same operations in the same
// order, so the same bits. Compiled once per instruction set.
#if defined(YOKE_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef YOKE_KERNELS_MATH_INL_H_
#undef YOKE_KERNELS_MATH_INL_H_
#else
#define YOKE_KERNELS_MATH_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/core/math_tables.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DDouble = hn::CappedTag<double, 8>;
using VDouble = hn::Vec<DDouble>;
constexpr int64_t kDoubleLanes = static_cast<int64_t>(hn::MaxLanes(DDouble()));
/// Half as wide: as many floats as there are doubles.
using DNarrow = hn::Rebind<float, DDouble>;

/// a · b + c, rounded once, also on the scalar target, whose MulAdd rounds twice.
HWY_INLINE VDouble fused(VDouble a, VDouble b, VDouble c) {
#if HWY_TARGET == HWY_SCALAR
  return VDouble(std::fma(hn::GetLane(a), hn::GetLane(b), hn::GetLane(c)));
#else
  return hn::MulAdd(a, b, c);
#endif
}

/// high and low of kPowers at each lane's index.
template <class VIndex>
HWY_INLINE void powers(VIndex index, VDouble& high, VDouble& low) {
  const DDouble d;
  const hn::RebindToUnsigned<DDouble> du;
#if HWY_TARGET == HWY_AVX2
  // Gathers are slow before AVX-512: pairs of high and low are loaded and turned instead.
  const hn::Full128<double> d2;
  HWY_ALIGN uint64_t at[4];
  hn::Store(index, du, at);
  const auto pair = [&](int lane) HWY_ATTR { return hn::Load(d2, kPowers[at[lane]]); };
  const VDouble even = hn::Combine(d, pair(2), pair(0));
  const VDouble odd = hn::Combine(d, pair(3), pair(1));
  high = hn::InterleaveLower(d, even, odd);
  low = hn::InterleaveUpper(d, even, odd);
#else
  const hn::RebindToSigned<DDouble> di;
  const auto place = hn::BitCast(di, hn::Add(index, index));
  high = hn::GatherIndex(d, kPowers[0], place);
  low = hn::GatherIndex(d, kPowers[0] + 1, place);
  (void)du;
#endif
}

HWY_INLINE VDouble exp64(VDouble x) {
  const DDouble d;
  const hn::RebindToUnsigned<DDouble> du;
  const auto set = [d](double value) HWY_ATTR { return hn::Set(d, value); };
  const VDouble shift = set(0x1.8p52);
  const VDouble shifted = hn::Add(hn::Mul(x, set(0x1.71547652b82fep+5)), shift);
  const VDouble n = hn::Sub(shifted, shift);
  const VDouble r =
      hn::Sub(hn::Sub(x, hn::Mul(n, set(kLn2High / 32))), hn::Mul(n, set(kLn2Low / 32)));

  VDouble series = hn::Add(set(1.0 / 120), hn::Mul(r, set(1.0 / 720)));
  series = hn::Add(set(1.0 / 24), hn::Mul(r, series));
  series = hn::Add(set(1.0 / 6), hn::Mul(r, series));
  series = hn::Add(set(1.0 / 2), hn::Mul(r, series));
  const VDouble p = hn::Add(r, hn::Mul(hn::Mul(r, r), series));

  // n as an integer plus 2^17, so that shifts need no sign; what lies outside of exp64's range is
  // nonsense and replaced below.
  const auto index =
      hn::Sub(hn::BitCast(du, shifted), hn::Set(du, 0x4338000000000000u - (uint64_t{4096} << 5)));
  VDouble high;
  VDouble low;
  powers(hn::And(index, hn::Set(du, uint64_t{31})), high, low);
  const VDouble y = hn::Add(high, hn::Add(low, hn::Mul(high, p)));

  // 2^exponent as two factors, both normal: only the last product can round.
  const auto exponent = hn::ShiftRight<5>(index);  // plus 4096
  const auto half = hn::ShiftRight<1>(exponent);   // plus 2048
  const auto bias = hn::Set(du, uint64_t{2048 - 1023});
  const auto factor = [&](auto e)
                          HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<52>(hn::Sub(e, bias))); };
  const VDouble scaled = hn::Mul(hn::Mul(y, factor(half)), factor(hn::Sub(exponent, half)));
  const VDouble bounded = hn::IfThenElse(hn::Gt(x, set(kExpHighest)),
                                         set(std::numeric_limits<double>::infinity()), scaled);
  const VDouble positive = hn::IfThenElse(hn::Lt(x, set(kExpLowest)), hn::Zero(d), bounded);
  return hn::IfThenElse(hn::Eq(x, x), positive, x);
}

HWY_INLINE VDouble sigmoid64(VDouble x) {
  const DDouble d;
  const VDouble one = hn::Set(d, 1.0);
  const VDouble e = exp64(hn::Neg(hn::Abs(x)));
  const VDouble numerator = hn::IfThenElse(hn::Ge(x, hn::Zero(d)), one, e);
  return hn::Div(numerator, hn::Add(one, e));
}

HWY_INLINE VDouble silu64(VDouble x) {
  const DDouble d;
  const auto lowest = hn::Eq(x, hn::Set(d, -std::numeric_limits<double>::infinity()));
  return hn::IfThenElse(lowest, hn::Zero(d), hn::Mul(x, sigmoid64(x)));
}

/// to[i] = f(from[i]), computed in double and rounded once. `to` may be `from`.
template <class F>
HWY_INLINE void map_in_double(float* to, const float* from, int64_t count, const F& f) {
  const DDouble d;
  const DNarrow narrow;
  int64_t i = 0;
  for (; i + kDoubleLanes <= count; i += kDoubleLanes)
    hn::StoreU(hn::DemoteTo(narrow, f(hn::PromoteTo(d, hn::LoadU(narrow, from + i)))), narrow,
               to + i);
  if (i == count) return;
  float rest[kDoubleLanes] = {};
  std::copy_n(from + i, count - i, rest);
  hn::StoreU(hn::DemoteTo(narrow, f(hn::PromoteTo(d, hn::LoadU(narrow, rest)))), narrow, rest);
  std::copy_n(rest, count - i, to + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#endif  // per target
