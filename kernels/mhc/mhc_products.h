// The products of mHC's coefficients with a row's streams. Internal to kernels/mhc.
#pragma once

#include <cstdint>

#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// Rows that one call multiplies at most: they share the reading of fn.
constexpr int64_t kMhcProductRows = 3;

/// products[r][o] = fn[o] · streams[first + r] for `rows` rows and all outputs of fn [outputs,
/// width], in float64. Reduction tree over the width: eight partial sums from +0, number l taking
/// the inputs k with k mod 8 = l in ascending order, each with one fused multiply-add; then 8 → 4 →
/// 2 → 1, the upper half onto the lower. The same bits for every row count and instruction set.
void mhc_products(double* products, const ConstTensorView& streams, const ConstTensorView& fn,
                  int64_t first, int64_t rows) noexcept;

}  // namespace yoke::kernels
