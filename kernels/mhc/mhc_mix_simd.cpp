#include "kernels/core/simd_targets.h"
#include "kernels/mhc/mhc_mix_chunk.h"
#include "kernels/mhc/mhc_site.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/mhc/mhc_mix_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The constant keeps all streams of a vector of elements in registers.
template <int kStreams>
HWY_INLINE void mix(float* HWY_RESTRICT out, const float* HWY_RESTRICT from,
                    const float* HWY_RESTRICT y, const double* post, const double* comb,
                    int64_t count) {
  const DDouble d;
  const DNarrow narrow;
  for (int64_t at = 0; at < count; at += kDoubleLanes) {
    const VDouble added = hn::PromoteTo(d, hn::LoadU(narrow, y + at));
    VDouble x[kStreams];
    HWY_UNROLL(8)
    for (int i = 0; i < kStreams; ++i)
      x[i] = hn::PromoteTo(d, hn::LoadU(narrow, from + i * kRowChunk + at));
    HWY_UNROLL(8)
    for (int j = 0; j < kStreams; ++j) {
      VDouble sum = hn::Mul(hn::Set(d, post[j]), added);
      HWY_UNROLL(8)
      for (int i = 0; i < kStreams; ++i)
        sum = hn::Add(sum, hn::Mul(hn::Set(d, comb[i * kStreams + j]), x[i]));
      hn::StoreU(hn::DemoteTo(narrow, sum), narrow, out + j * kRowChunk + at);
    }
  }
}

template <int kStreams>
void mix_streams(float* out, const float* from, const float* y, const double* post,
                 const double* comb, int streams, int64_t count) {
  if (streams == kStreams) {
    mix<kStreams>(out, from, y, post, comb, count);
  } else if constexpr (kStreams > 1) {
    mix_streams<kStreams - 1>(out, from, y, post, comb, streams, count);
  }
}

void mix_chunk(float* out, const float* from, const float* y, const float* post, const float* comb,
               int streams, int64_t count) {
  double post_double[kMhcMaxStreams];
  double comb_double[kMhcMaxStreams * kMhcMaxStreams];
  for (int i = 0; i < streams; ++i) post_double[i] = double{post[i]};
  for (int i = 0; i < streams * streams; ++i) comb_double[i] = double{comb[i]};
  mix_streams<kMhcMaxStreams>(out, from, y, post_double, comb_double, streams, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {

HWY_EXPORT(mix_chunk);

void mhc_mix_chunk(float* out, const float* from, const float* y, const float* post,
                   const float* comb, int64_t streams, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(mix_chunk)(out, from, y, post, comb, static_cast<int>(streams), count);
}

}  // namespace yoke::kernels
#endif
