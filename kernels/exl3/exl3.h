// EXL3 trellis weights: decoding (bit-exact) and products. Formulas: spec/exl3.md 3 to 5.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"
#include "kernels/core/weights.h"

namespace yoke::kernels {

/// The fp16 value of a 16-bit trellis state (spec/exl3.md 4).
f16 exl3_codebook_value(Codebook codebook, uint16_t state) noexcept;

/// The 256 states of one tile in stream order. `words` holds 16·bits numbers, as stored.
void exl3_tile_states(uint16_t states[256], const uint16_t* words, int bits) noexcept;

/// Packs states (their low `bits` bits) back to tile words: the inverse of exl3_tile_states.
void exl3_pack_tile(uint16_t* words, const uint16_t states[256], int bits) noexcept;

/// row · 16 + column inside the tile of stream index i (spec/exl3.md 3.2).
int exl3_tile_position(int i) noexcept;

/// Inner weights Wq [in, out] f16, bit exact.
void exl3_decode_inner(TensorView inner, const Exl3Matrix& w) noexcept;

/// The full dense weight, in the orientation of a checkpoint `.weight`: y [out, in] f32.
/// Float butterflies with ascending strides, scale rows by suh before and columns by svh after, as
/// the reference does.
void exl3_dense_weight(TensorView y, const Exl3Matrix& w, Stream& stream);

/// Sign words of old EXL3 files to scales: +1 where the bit is 0, -1 where it is 1
/// (spec/exl3.md 2.1).
void exl3_unpack_signs(f16* scales, const uint16_t* words, int64_t count) noexcept;

/// Bytes of the CPU kernels' form of the trellis, as many as the trellis has.
size_t exl3_packed_bytes(const Exl3Matrix& w) noexcept;

/// Writes that form to `to` (64-byte aligned), for Exl3Matrix::packed. Reads w.trellis, which may
/// be freed afterwards. Thread: any.
void exl3_pack(void* to, const Exl3Matrix& w) noexcept;

/// Floats of scratch that exl3_matmul needs for `rows` rows.
int64_t exl3_scratch_floats(const Exl3Matrix& w, int64_t rows) noexcept;

/// y[r] = had128( had128(x[r] ⊙ suh) · Wq ) ⊙ svh.
///   x [rows, in] bf16, f16 or f32      y [rows, out] bf16 or f32
/// Rounding (design.md 7): 16-bit x: x to fp16, times suh to fp16, butterflies in float (ascending
/// strides, then 1/sqrt(128)), result to fp16; x f32: nothing of that is rounded. Codebook values
/// are fp16 always. Products and sums in float, epilogue in float (butterflies, then 1/sqrt(128),
/// then svh), one rounding to y's type.
/// Reduction tree over `in`: exl3_product.h; the same for every row count, thread count and
/// instruction set.
/// bf16 values above 65504 become infinite on their way to fp16 (spec/exl3.md 5.2).
void exl3_matmul(TensorView y, ConstTensorView x, const Exl3Matrix& w, TensorView scratch,
                 Stream& stream) noexcept;

/// The same with float64 sums and butterflies between the stated rounding points: the definition of
/// correct.
void exl3_matmul_ref(TensorView y, ConstTensorView x, const Exl3Matrix& w, Stream& stream) noexcept;

}  // namespace yoke::kernels
