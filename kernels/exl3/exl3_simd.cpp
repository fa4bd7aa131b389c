// The stages of exl3_product.h with Highway.
#include "kernels/core/simd_targets.h"
#include "kernels/exl3/exl3_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/exl3/exl3_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/panel-inl.h"
#include "kernels/core/row_groups.h"
#include "kernels/exl3/exl3_decode-inl.h"
#include "kernels/exl3/hadamard-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

void transform_input(float* z, int64_t row, int64_t rows, const ConstTensorView& x, int64_t x_row,
                     const Exl3Matrix& w) {
  exl3_plain::transform_input(z, row, rows, x, x_row, w);
}
void multiply_block(float* v, const float* z, int64_t rows, const Exl3Matrix& w, int64_t block) {
  exl3_plain::multiply_block(v, z, rows, w, block);
}
void store_block(const TensorView& y, int64_t y_row, float* v, const Exl3Matrix& w, int64_t block) {
  exl3_plain::store_block(y, y_row, v, w, block);
}

#else

// --- multiply -----------------------------------------------------------------------------------

/// Tile pairs that are decoded before they are used: 128 inputs by 32 outputs, 16 KiB, half of the
/// first-level cache.
constexpr int64_t kChunkTiles = 8;

/// `count` tile pairs of a strip as floats [16 · count, 32].
using DecodeTiles = void (*)(float* weights, const uint8_t* pairs, int64_t count);

template <Codebook codebook, int K>
void decode_tiles(float* HWY_RESTRICT weights, const uint8_t* HWY_RESTRICT pairs, int64_t count) {
  const DF32 d;
  for (int64_t t = 0; t < count; ++t) {
    decode_pair<codebook, K>(pairs + t * exl3_pair_bytes(K),
                             [&](int k, const VF32(&w)[2 * kParts]) HWY_ATTR {
                               float* to = weights + (16 * t + k) * kStripColumns;
                               HWY_UNROLL(8)
                               for (int v = 0; v < 2 * kParts; ++v)
                                 hn::Store(w[v], d, to + v * kLanes);
                             });
  }
}

/// One row against a whole strip, without a place for the weights in between.
using MultiplyRow = void (*)(float* sums, const float* z, const uint8_t* pairs, int64_t count);

template <Codebook codebook, int K>
void multiply_row(float* HWY_RESTRICT sums, const float* HWY_RESTRICT z,
                  const uint8_t* HWY_RESTRICT pairs, int64_t count) {
  const DF32 d;
  VF32 sum[2 * kParts];
  HWY_UNROLL(8)
  for (int v = 0; v < 2 * kParts; ++v) sum[v] = hn::Zero(d);
  for (int64_t t = 0; t < count; ++t, z += 16, pairs += exl3_pair_bytes(K)) {
    decode_pair<codebook, K>(pairs, [&](int k, const VF32(&w)[2 * kParts]) HWY_ATTR {
      const VF32 x = hn::Set(d, z[k]);
      HWY_UNROLL(8)
      for (int v = 0; v < 2 * kParts; ++v) sum[v] = hn::MulAdd(x, w[v], sum[v]);
    });
  }
  HWY_UNROLL(8)
  for (int v = 0; v < 2 * kParts; ++v) hn::StoreU(sum[v], d, sums + v * kLanes);
}

struct Decoder {
  DecodeTiles tiles;
  MultiplyRow row;
};

template <Codebook codebook>
Decoder decoder_of_bits(int bits) {
  switch (bits) {
    case 1:
      return {&decode_tiles<codebook, 1>, &multiply_row<codebook, 1>};
    case 2:
      return {&decode_tiles<codebook, 2>, &multiply_row<codebook, 2>};
    case 3:
      return {&decode_tiles<codebook, 3>, &multiply_row<codebook, 3>};
    case 4:
      return {&decode_tiles<codebook, 4>, &multiply_row<codebook, 4>};
    case 5:
      return {&decode_tiles<codebook, 5>, &multiply_row<codebook, 5>};
    case 6:
      return {&decode_tiles<codebook, 6>, &multiply_row<codebook, 6>};
    case 7:
      return {&decode_tiles<codebook, 7>, &multiply_row<codebook, 7>};
    default:
      return {&decode_tiles<codebook, 8>, &multiply_row<codebook, 8>};
  }
}

Decoder decoder_of(const Exl3Matrix& w) {
  switch (w.codebook) {
    case Codebook::threeinst:
      return decoder_of_bits<Codebook::threeinst>(w.bits);
    case Codebook::mcg:
      return decoder_of_bits<Codebook::mcg>(w.bits);
    case Codebook::mul1:
      break;
  }
  return decoder_of_bits<Codebook::mul1>(w.bits);
}

/// A group of R rows times a chunk of decoded weights.
template <int R>
void multiply_group(float* HWY_RESTRICT sums, bool fresh, const float* HWY_RESTRICT z,
                    const float* HWY_RESTRICT weights, int64_t inputs) {
  const DF32 d;
  constexpr int kColumns = kLanes == 16 || (kLanes == 8 && R <= 3) ? 32 : 16;
  for (int64_t n = 0; n < kStripColumns; n += kColumns) {
    panel<R, kColumns / kLanes>(
        d, sums + n, kExl3Block, fresh, z, inputs, [&](int64_t k, size_t v) HWY_ATTR {
          return hn::Load(d, weights + k * kStripColumns + n + static_cast<int64_t>(v) * kLanes);
        });
  }
}

void multiply_groups(float* sums, bool fresh, const float* z, int64_t z_tile, int64_t rows,
                     int64_t in, const float* weights, int64_t inputs) {
  for (int64_t first = 0; first < rows; first += kGroupRows) {
    const int size = group_size(rows, first);
    float* s = sums + first * kExl3Block;
    const float* a = z + first * in + z_tile * 16 * size;
    switch (size) {
      case 1:
        multiply_group<1>(s, fresh, a, weights, inputs);
        break;
      case 2:
        multiply_group<2>(s, fresh, a, weights, inputs);
        break;
      case 3:
        multiply_group<3>(s, fresh, a, weights, inputs);
        break;
      case 4:
        multiply_group<4>(s, fresh, a, weights, inputs);
        break;
      case 5:
        multiply_group<5>(s, fresh, a, weights, inputs);
        break;
      default:
        multiply_group<6>(s, fresh, a, weights, inputs);
        break;
    }
  }
}

/// Tile pairs [tk, tk + count) of a strip: in place, or regrouped into `room` when the matrix is
/// not packed.
const uint8_t* pairs_of(const Exl3Matrix& w, int64_t strip, int64_t tk, int64_t count,
                        uint8_t* room) {
  if (w.packed != nullptr)
    return static_cast<const uint8_t*>(w.packed) + exl3_pair_offset(w, strip, tk);
  const int64_t tile_words = int64_t{16} * w.bits;
  for (int64_t t = 0; t < count; ++t) {
    const uint16_t* left = w.trellis + ((tk + t) * (w.out / 16) + 2 * strip) * tile_words;
    exl3_pack_pair(room + t * exl3_pair_bytes(w.bits), left, left + tile_words, w.bits);
  }
  return room;
}

/// Columns from the order in which they were decoded to ascending ones.
void order_columns(float* v, int64_t rows) {
  if (decoded_place(8) == 8) return;
  float ordered[kStripColumns];
  for (int64_t i = 0; i < rows * kExl3Block; i += kStripColumns) {
    for (int64_t n = 0; n < kStripColumns; ++n) ordered[n] = v[i + decoded_place(n)];
    for (int64_t n = 0; n < kStripColumns; ++n) v[i + n] = ordered[n];
  }
}

void multiply_block(float* v, const float* z, int64_t rows, const Exl3Matrix& w, int64_t block) {
  HWY_ALIGN float weights[kChunkTiles * 16 * kStripColumns];
  HWY_ALIGN uint8_t room[kChunkTiles * exl3_pair_bytes(8)];
  const Decoder decoder = decoder_of(w);
  const int64_t tiles = w.in / 16;
  for (int64_t column = 0; column < kExl3Block; column += kStripColumns) {
    const int64_t strip = (block * kExl3Block + column) / kStripColumns;
    if (rows == 1 && w.packed != nullptr) {
      decoder.row(v + column, z, pairs_of(w, strip, 0, tiles, nullptr), tiles);
      continue;
    }
    for (int64_t tk = 0; tk < tiles; tk += kChunkTiles) {  // in is a multiple of 128
      decoder.tiles(weights, pairs_of(w, strip, tk, kChunkTiles, room), kChunkTiles);
      multiply_groups(v + column, tk == 0, z, tk, rows, w.in, weights, kChunkTiles * 16);
    }
  }
  order_columns(v, rows);
}

// --- rows ---------------------------------------------------------------------------------------

void transform_input(float* z, int64_t row, int64_t rows, const ConstTensorView& x, int64_t x_row,
                     const Exl3Matrix& w) {
  const int64_t first = row / kGroupRows * kGroupRows;
  const int64_t size = group_size(rows, first);
  float* group = z + first * w.in + (row - first);
  HWY_ALIGN float block[kExl3Block];
  for (int64_t begin = 0; begin < w.in; begin += kExl3Block) {
    const int64_t from = x_row * w.in + begin;
    switch (x.dtype) {
      case DType::bf16:
        scaled_input(block, x.as<bf16>() + from, w.suh + begin);
        break;
      case DType::f16:
        scaled_input(block, x.as<f16>() + from, w.suh + begin);
        break;
      default:
        scaled_input(block, x.as<float>() + from, w.suh + begin);
        break;
    }
    hadamard_block(block, x.dtype != DType::f32);
    for (int64_t i = 0; i < kExl3Block; ++i)
      group[(begin + i / 16 * 16 + exl3_row_place(i % 16)) * size] = block[i];
  }
}

void store_block(const TensorView& y, int64_t y_row, float* v, const Exl3Matrix& w, int64_t block) {
  const int64_t first = block * kExl3Block;
  hadamard_block(v, false);
  if (y.dtype == DType::bf16) {
    scaled_output(y.as<bf16>() + y_row * w.out + first, v, w.svh + first);
  } else {
    scaled_output(y.as<float>() + y_row * w.out + first, v, w.svh + first);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {

HWY_EXPORT(transform_input);
HWY_EXPORT(multiply_block);
HWY_EXPORT(store_block);

void exl3_transform_input(float* z, int64_t row, int64_t rows, const ConstTensorView& x,
                          int64_t x_row, const Exl3Matrix& w) noexcept {
  HWY_DYNAMIC_DISPATCH(transform_input)(z, row, rows, x, x_row, w);
}

void exl3_multiply_block(float* v, const float* z, int64_t rows, const Exl3Matrix& w,
                         int64_t block) noexcept {
  HWY_DYNAMIC_DISPATCH(multiply_block)(v, z, rows, w, block);
}

void exl3_store_block(const TensorView& y, int64_t y_row, float* v, const Exl3Matrix& w,
                      int64_t block) noexcept {
  HWY_DYNAMIC_DISPATCH(store_block)(y, y_row, v, w, block);
}

}  // namespace yoke::kernels
#endif
