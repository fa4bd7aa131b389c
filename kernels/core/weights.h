// Views of weight matrices as the checkpoint stores them. Dense: [out, in], y = W·x. EXL3: oriented
// [in, out] (spec/exl3.md).
#pragma once

#include <cstdint>

#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

enum class Codebook : uint8_t { threeinst, mcg, mul1 };

/// One EXL3 matrix; in and out are multiples of 128. Memory is 2-byte aligned at least.
/// The CPU kernels read `packed`: the same bytes as the trellis in another order (exl3_pack), made
/// once at load and owned by whoever owns the matrix. One of `trellis` and `packed` may be null:
/// every function takes either, but without `packed` a product reorders tile by tile in every call.
struct Exl3Matrix {
  int64_t in = 0;
  int64_t out = 0;
  int bits = 0;  ///< K, 1..8
  Codebook codebook = Codebook::mcg;
  const uint16_t* trellis = nullptr;  ///< [in/16, out/16, 16*bits]
  const f16* suh = nullptr;           ///< [in]
  const f16* svh = nullptr;           ///< [out]
  const void* packed = nullptr;       ///< kernels/exl3/exl3_packed.h; 64-byte aligned
};

/// A linear layer's weight: exactly one of the two is set.
struct LinearWeight {
  ConstTensorView dense;  ///< [out, in] bf16, f16 or f32
  Exl3Matrix exl3;

  bool is_exl3() const noexcept { return exl3.bits != 0; }
  int64_t in() const noexcept { return is_exl3() ? exl3.in : dense.dim(1); }
  int64_t out() const noexcept { return is_exl3() ? exl3.out : dense.dim(0); }
};

}  // namespace yoke::kernels
