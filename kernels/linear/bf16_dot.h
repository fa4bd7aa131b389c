// The one product whose sums are not those of dense_product.h: BF16 by BF16 with the dot of
// AVX-512-BF16.
#pragma once

#include "kernels/linear/dense_product.h"

namespace yoke::kernels {

/// The types fit and the processor's target in use is avx512_bf16.
bool uses_bf16_dot(const DenseProduct& p) noexcept;

/// As dense_product, with the reduction tree of bf16_dot-inl.h. Only where uses_bf16_dot(p).
void bf16_dot_product(const DenseProduct& p, int64_t rows, int64_t out_begin,
                      int64_t out_end) noexcept;

}  // namespace yoke::kernels
