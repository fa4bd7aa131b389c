// The arithmetic of mhc_mix on a run of elements. Internal to kernels/mhc.
#pragma once

#include <cstdint>

#include "kernels/core/row_io.h"

namespace yoke::kernels {

/// out[j][d] = post[j]·y[d] + Σ_i comb[i][j]·from[i][d], i ascending, in float64, products and sums
/// rounded separately, the result once. out and from are [streams][kRowChunk]; whole vectors are
/// read and written: `count` is rounded up to a multiple of 8. The same bits on every instruction
/// set.
void mhc_mix_chunk(float* out, const float* from, const float* y, const float* post,
                   const float* comb, int64_t streams, int64_t count) noexcept;

}  // namespace yoke::kernels
