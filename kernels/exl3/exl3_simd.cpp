// Decoding EXL3 tiles and multiplying by them.
//
// A tile's 256 weights are decoded as [8][32]: stream index 8t + j at [j][t]. For a fixed j that is
// input 2(t%4) + {0,1,8,9}[j%4] and output t/4 + 8(j/4), so 32 lanes hold 8 outputs × 4 inputs, and
// the four inputs are the same in every group of four lanes. No weight is ever moved: the lanes are
// four partial sums per output, added at the end of a segment.
#include <cstring>

#include "kernels/core/simd_targets.h"
#include "kernels/exl3/exl3.h"
#include "kernels/exl3/exl3_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/exl3/exl3_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

void multiply_block(float* v, const float* tiles, int64_t rows, const Exl3Matrix& w,
                    int64_t block) {
  uint16_t states[256];
  for (int64_t tile_column = 0; tile_column < 8; ++tile_column) {
    for (int64_t r = 0; r < rows; ++r) {
      double sums[16] = {};
      for (int64_t tk = 0; tk < w.in / 16; ++tk) {
        const int64_t tile = tk * (w.out / 16) + block * 8 + tile_column;
        exl3_tile_states(states, w.trellis + tile * 16 * w.bits, w.bits);
        const float* z = tiles + (tk * rows + r) * 16;
        for (int i = 0; i < 256; ++i) {
          const int column = exl3_tile_position(i) % 16;
          const float weight = to_float(exl3_codebook_value(w.codebook, states[i]));
          sums[column] += double{z[i % 4 * 4 + i / 8 % 4]} * double{weight};
        }
      }
      for (int64_t n = 0; n < 16; ++n)
        v[r * kExl3Block + tile_column * 16 + n] = static_cast<float>(sums[n]);
    }
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kSegmentTiles = 16;

using DF = hn::CappedTag<float, 16>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));
constexpr int kVectors = 32 / kLanes;  // per 32 stream lanes

/// The product that both sum-of-halves codebooks start with, to the fp16 sum as float. A half with
/// exponent field 12..15 becomes a float by moving its bits and adding 112 to the exponent; the
/// xor constant does both that and the codebook's own xor. The sum is exact in float and then
/// rounded to 11 bits, nearest even; it is 0 or at least 2^-13, so never a subnormal half.
HWY_INLINE VF sum_of_halves(VU product) {
  const DU du;
  const VU field = hn::Set(du, 0x01FFE000u);
  const VU sign = hn::Set(du, 0x80000000u);
  const VU constant = hn::Set(du, 0x3F6C0000u);
  const VU low =
      hn::Or(hn::And(hn::ShiftLeft<16>(product), sign), hn::And(hn::ShiftLeft<13>(product), field));
  const VU high = hn::Or(hn::And(product, sign), hn::And(hn::ShiftRight<3>(product), field));
  const VF sum = hn::Add(hn::BitCast(DF(), hn::Xor(low, constant)),
                         hn::BitCast(DF(), hn::Xor(high, constant)));
  const VU bits = hn::BitCast(du, sum);
  const VU odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(du, 1u));
  const VU rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0xFFFu)));
  return hn::BitCast(DF(), hn::And(rounded, hn::Set(du, 0xFFFFE000u)));
}

/// (1024 + byte sum)·c + d, exact in float (see exl3.cpp), rounded to 11 bits. Results below 2^-14,
/// where halves have fewer bits, are multiples of 2^-18 and stay as they are.
HWY_INLINE VF scaled_byte_sum(VU product) {
  const DU du;
  const VU bytes = hn::Set(du, 0x00FF00FFu);
  const VU pairs = hn::Add(hn::And(product, bytes), hn::And(hn::ShiftRight<8>(product), bytes));
  const VU sum = hn::And(hn::Add(pairs, hn::ShiftRight<16>(pairs)), hn::Set(du, 0xFFFFu));
  const hn::RebindToSigned<DF> di;
  const VF a = hn::ConvertTo(DF(), hn::BitCast(di, hn::Add(sum, hn::Set(du, 1024u))));
  const VF value = hn::MulAdd(a, hn::Set(DF(), 0x1.bb8p-8f), hn::Set(DF(), -10.3828125f));
  const VU bits = hn::BitCast(du, value);
  const VU odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(du, 1u));
  const VU rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0xFFFu)));
  return hn::BitCast(DF(), hn::And(rounded, hn::Set(du, 0xFFFFE000u)));
}

template <Codebook codebook>
HWY_INLINE VF weights_of(VU states) {
  const DU du;
  if constexpr (codebook == Codebook::threeinst) {
    return sum_of_halves(hn::Add(hn::Mul(states, hn::Set(du, 89226354u)), hn::Set(du, 64248484u)));
  } else if constexpr (codebook == Codebook::mcg) {
    return sum_of_halves(hn::Mul(states, hn::Set(du, 0xCBAC1FEDu)));
  } else {
    return scaled_byte_sum(hn::Mul(states, hn::Set(du, 0x83DCD12Du)));
  }
}

/// K = 4: the eight states of lane t are windows of its own word and its left neighbour.
template <Codebook codebook, int j>
HWY_INLINE void decode_lane_weights4(float* weights, const uint32_t* words) {
  const DU du;
  const VU mask = hn::Set(du, 0xFFFFu);
  for (int v = 0; v < kVectors; ++v) {
    const VU own = hn::LoadU(du, words + 1 + v * kLanes);
    VU states = hn::ShiftRight<28 - 4 * j>(own);
    if constexpr (j < 3) {
      const VU left = hn::LoadU(du, words + v * kLanes);
      states = hn::Or(states, hn::ShiftLeft<4 + 4 * j>(left));
    }
    if constexpr (j != 3) states = hn::And(states, mask);
    hn::Store(weights_of<codebook>(states), DF(), weights + j * 32 + v * kLanes);
  }
}

template <Codebook codebook>
HWY_INLINE void decode_tile4(float* weights, const uint16_t* tile) {
  uint32_t words[33];  // words[0] is the wrapped-around left neighbour of the first
  std::memcpy(words + 1, tile, 128);
  words[0] = words[32];
  decode_lane_weights4<codebook, 0>(weights, words);
  decode_lane_weights4<codebook, 1>(weights, words);
  decode_lane_weights4<codebook, 2>(weights, words);
  decode_lane_weights4<codebook, 3>(weights, words);
  decode_lane_weights4<codebook, 4>(weights, words);
  decode_lane_weights4<codebook, 5>(weights, words);
  decode_lane_weights4<codebook, 6>(weights, words);
  decode_lane_weights4<codebook, 7>(weights, words);
}

/// Any K: the words in reverse order make the whole stream one little-endian number, in which each
/// state is a byte-aligned 32-bit load and a shift.
template <Codebook codebook>
HWY_INLINE void decode_tile(float* weights, const uint16_t* tile, int bits) {
  if (bits == 4) return decode_tile4<codebook>(weights, tile);
  const int words = 8 * bits;
  uint32_t reversed[65];
  uint32_t word = 0;
  for (int m = 0; m < words; ++m) {
    std::memcpy(&word, tile + 2 * m, 4);
    reversed[words - 1 - m] = word;
  }
  reversed[words] = word;  // before the first word stands the last one
  const auto* bytes = reinterpret_cast<const unsigned char*>(reversed) + 4 * words;
  const DU du;
  const hn::Rebind<uint16_t, DU> du16;
  HWY_ALIGN uint16_t states[32];
  for (int j = 0; j < 8; ++j) {
    const int end_bytes = ((j + 1) * bits + 7) / 8;
    const int shift = 8 * end_bytes - (j + 1) * bits;
    for (int t = 0; t < 32; ++t) {
      std::memcpy(&word, bytes - (t * bits + end_bytes), 4);
      states[t] = static_cast<uint16_t>(word >> shift);
    }
    for (int v = 0; v < kVectors; ++v) {
      const VU wide = hn::PromoteTo(du, hn::Load(du16, states + v * kLanes));
      hn::Store(weights_of<codebook>(wide), DF(), weights + j * 32 + v * kLanes);
    }
  }
}

/// sums[n] += one row's segment for the 16 outputs of a tile column.
HWY_INLINE void multiply_segment(float* sums, const float* weights, const float* z, int64_t tiles,
                                 int64_t z_step) {
  const DF df;
  VF low[kVectors];
  VF high[kVectors];
  for (int v = 0; v < kVectors; ++v) low[v] = high[v] = hn::Zero(df);
  for (int64_t tile = 0; tile < tiles; ++tile) {
    for (int j = 0; j < 4; ++j) {
      const VF inputs = hn::LoadDup128(df, z + tile * z_step + 4 * j);
      const float* w = weights + tile * 256 + j * 32;
      for (int v = 0; v < kVectors; ++v) {
        low[v] = hn::MulAdd(hn::Load(df, w + v * kLanes), inputs, low[v]);
        high[v] = hn::MulAdd(hn::Load(df, w + 128 + v * kLanes), inputs, high[v]);
      }
    }
  }
  // Groups of four lanes to their sum, which then stands in all four.
  HWY_ALIGN float lanes[64];
  for (int v = 0; v < kVectors; ++v) {
    const VF l = hn::Add(low[v], hn::Shuffle2301(low[v]));
    const VF h = hn::Add(high[v], hn::Shuffle2301(high[v]));
    hn::Store(hn::Add(l, hn::Shuffle1032(l)), df, lanes + v * kLanes);
    hn::Store(hn::Add(h, hn::Shuffle1032(h)), df, lanes + 32 + v * kLanes);
  }
  for (int n = 0; n < 16; ++n) sums[n] += lanes[4 * n];
}

template <Codebook codebook>
HWY_INLINE void multiply_columns(float* v, const float* z, int64_t rows, const Exl3Matrix& w,
                                 int64_t block) {
  HWY_ALIGN float weights[kSegmentTiles * 256];
  const int64_t tile_rows = w.in / 16;
  const int64_t tile_columns = w.out / 16;
  std::memset(v, 0, static_cast<size_t>(rows * kExl3Block) * sizeof(float));
  for (int64_t first = 0; first < tile_rows; first += kSegmentTiles) {
    const int64_t count = HWY_MIN(kSegmentTiles, tile_rows - first);
    for (int64_t column = 0; column < 8; ++column) {
      for (int64_t t = 0; t < count; ++t) {
        const int64_t tile = (first + t) * tile_columns + block * 8 + column;
        decode_tile<codebook>(weights + t * 256, w.trellis + tile * 16 * w.bits, w.bits);
      }
      for (int64_t r = 0; r < rows; ++r)
        multiply_segment(v + r * kExl3Block + column * 16, weights, z + (first * rows + r) * 16,
                         count, rows * 16);
    }
  }
}

void multiply_block(float* v, const float* tiles, int64_t rows, const Exl3Matrix& w,
                    int64_t block) {
  switch (w.codebook) {
    case Codebook::threeinst:
      return multiply_columns<Codebook::threeinst>(v, tiles, rows, w, block);
    case Codebook::mcg:
      return multiply_columns<Codebook::mcg>(v, tiles, rows, w, block);
    case Codebook::mul1:
      return multiply_columns<Codebook::mul1>(v, tiles, rows, w, block);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {

HWY_EXPORT(multiply_block);

void exl3_multiply_block(float* v, const float* tiles, int64_t rows, const Exl3Matrix& w,
                         int64_t block) noexcept {
  HWY_DYNAMIC_DISPATCH(multiply_block)(v, tiles, rows, w, block);
}

}  // namespace yoke::kernels
#endif
