#include <algorithm>

#include "config/check.h"
#include "kernels/core/row_io.h"
#include "kernels/core/simd_targets.h"
#include "kernels/swiglu/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/swiglu/swiglu_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// min and max that keep a NaN in x.
HWY_INLINE VDouble at_most(VDouble x, VDouble limit) {
  return hn::IfThenElse(hn::Gt(x, limit), limit, x);
}
HWY_INLINE VDouble at_least(VDouble x, VDouble limit) {
  return hn::IfThenElse(hn::Lt(x, limit), limit, x);
}

/// gate[i] = silu(min(gate[i], limit)) · clamp(up[i]), in double, rounded once.
void swiglu_chunk(float* HWY_RESTRICT gate, const float* HWY_RESTRICT up, int64_t count,
                  float limit) {
  const DDouble d;
  const DNarrow narrow;
  const VDouble highest = hn::Set(d, double{limit});
  const VDouble lowest = hn::Neg(highest);
  for (int64_t i = 0; i < count; i += kDoubleLanes) {
    const VDouble g = at_most(hn::PromoteTo(d, hn::Load(narrow, gate + i)), highest);
    const VDouble u =
        at_least(at_most(hn::PromoteTo(d, hn::Load(narrow, up + i)), highest), lowest);
    hn::Store(hn::DemoteTo(narrow, hn::Mul(silu64(g), u)), narrow, gate + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {

HWY_EXPORT(swiglu_chunk);

void swiglu(TensorView y, ConstTensorView gate, ConstTensorView up, float limit,
            Stream& stream) noexcept {
  YOKE_CHECK(is_float_type(gate.dtype) && is_float_type(up.dtype) && is_float_type(y.dtype),
             "swiglu: wrong type");
  YOKE_CHECK(gate.elements() == y.elements() && up.elements() == y.elements(),
             "swiglu: gate, up and y differ in size");
  YOKE_CHECK(limit > 0, "swiglu: limit must be positive");
  ThreadPool* threads = &stream.threads();
  stream.launch("swiglu", [=] {
    // By chunks, not rows: a decode step has one wide row.
    const int64_t chunks = (y.elements() + kRowChunk - 1) / kRowChunk;
    threads->for_range(chunks, grain_for(kRowChunk * 4), [&](int64_t begin, int64_t end, int) {
      alignas(64) float g[kRowChunk] = {};  // whole vectors are read, also in a chunk's rest
      alignas(64) float u[kRowChunk] = {};
      for (int64_t c = begin; c < end; ++c) {
        const int64_t first = c * kRowChunk;
        const int64_t count = std::min(kRowChunk, y.elements() - first);
        load_floats(g, gate, first, count);
        load_floats(u, up, first, count);
        HWY_DYNAMIC_DISPATCH(swiglu_chunk)(g, u, count, limit);
        store_floats(y, first, g, count);
      }
    });
  });
}

}  // namespace yoke::kernels
#endif
