// Vectors of floats from and to memory in any activation or weight type, with the roundings of
// types.h. Compiled once per instruction set. Highway's own conversion to BF16 truncates.
#if defined(YOKE_KERNELS_FLOAT_IO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef YOKE_KERNELS_FLOAT_IO_INL_H_
#undef YOKE_KERNELS_FLOAT_IO_INL_H_
#else
#define YOKE_KERNELS_FLOAT_IO_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/core/types.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_as_float([[maybe_unused]] D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load_as_float([[maybe_unused]] D d, const bf16* from) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

template <class D>
HWY_INLINE hn::Vec<D> load_as_float([[maybe_unused]] D d, const f16* from) {
  const hn::Rebind<hwy::float16_t, D> d16;
  const hn::Rebind<uint16_t, D> du16;
  const auto bits = hn::LoadU(du16, reinterpret_cast<const uint16_t*>(from));
  return hn::PromoteTo(d, hn::BitCast(d16, bits));
}

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
/// To fp16 and back.
template <class D>
HWY_INLINE hn::Vec<D> through_half(D d, hn::Vec<D> x) {
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::DemoteTo(d16, x));
}
#endif

template <class D>
HWY_INLINE void store_rounded([[maybe_unused]] D d, hn::Vec<D> x, float* to) {
  hn::StoreU(x, d, to);
}

/// Nearest even; NaN stays NaN, as to_bf16 of types.h.
template <class D>
HWY_INLINE void store_rounded([[maybe_unused]] D d, hn::Vec<D> x, bf16* to) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(d32, x);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(d32, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7FFFu))));
  const auto nan = hn::Or(high, hn::Set(d32, 0x40u));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(x));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<decltype(d32)>(),
                                           hn::IfThenElse(is_nan, nan, rounded))),
             d16, reinterpret_cast<uint16_t*>(to));
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#endif  // per target
