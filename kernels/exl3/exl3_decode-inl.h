// Decoding packed tile pairs (exl3_packed.h) to floats, bit exact. Compiled once per instruction
// set. A vector of u32 lanes carries sixteen-bit states in both halves: the upper half belongs to
// column c of a tile, the lower to column c + 8 of the same row, so that the codebook's integer
// work is done on twice as many lanes.
#if defined(YOKE_KERNELS_EXL3_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef YOKE_KERNELS_EXL3_DECODE_INL_H_
#undef YOKE_KERNELS_EXL3_DECODE_INL_H_
#else
#define YOKE_KERNELS_EXL3_DECODE_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/core/weights.h"
#include "kernels/exl3/exl3_packed.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

namespace hn = hwy::HWY_NAMESPACE;

using DU32 = hn::CappedTag<uint32_t, kPairLanes>;
using DI32 = hn::RebindToSigned<DU32>;
using DF32 = hn::RebindToFloat<DU32>;
using DU16 = hn::Repartition<uint16_t, DU32>;
using VU32 = hn::Vec<DU32>;
using VI32 = hn::Vec<DI32>;
using VF32 = hn::Vec<DF32>;
using VU16 = hn::Vec<DU16>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DU32()));
constexpr int kParts = kPairLanes / kLanes;  // vectors per q

// --- bits to states -----------------------------------------------------------------------------

/// A lane's 8·K bits: the low 32 in `low`, the rest in `high`.
struct OwnBits {
  VU32 low, high;
};

template <int K>
HWY_INLINE OwnBits own_bits(const uint8_t* HWY_RESTRICT pair, int q, int part) {
  const DU32 d;
  const int lane = q * kPairLanes + part * kLanes;
  constexpr int kWords = 8 * K / 32;
  constexpr bool kHasShort = (8 * K & 16) != 0;
  constexpr bool kHasByte = (8 * K & 8) != 0;
  constexpr int kShorts = kWords * 256;  // bytes before the pieces of 16 bits: 64 lanes each
  constexpr int kBytes = kShorts + (kHasShort ? 128 : 0);
  const auto word = [&](int i) HWY_ATTR {
    return hn::LoadU(d, reinterpret_cast<const uint32_t*>(pair) + i * 4 * kPairLanes + lane);
  };
  const auto rest = [&]() HWY_ATTR {
    VU32 bits = hn::Zero(d);
    if constexpr (kHasShort) {
      const hn::Rebind<uint16_t, DU32> d16;
      bits = hn::PromoteTo(
          d, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(pair + kShorts) + lane));
    }
    if constexpr (kHasByte) {
      const hn::Rebind<uint8_t, DU32> d8;
      const VU32 byte = hn::PromoteTo(d, hn::LoadU(d8, pair + kBytes + lane));
      bits = kHasShort ? hn::Or(bits, hn::ShiftLeft<16>(byte)) : byte;
    }
    return bits;
  };
  if constexpr (kWords == 0) {
    return {rest(), hn::Zero(d)};
  } else if constexpr (kWords == 1) {
    return {word(0), rest()};
  } else {
    return {word(0), word(1)};
  }
}

/// Lane t - 1 of every lane t with q = 0: the column to the left in the same tile, column 7 for
/// column 0.
HWY_INLINE void rotate_columns(VU32 (&v)[kParts]) {
  const DU32 d;
  if constexpr (kLanes == 4) {
    HWY_UNROLL(2)
    for (int tile = 0; tile < kParts; tile += 2) {
      const VU32 first = v[tile];
      const VU32 second = v[tile + 1];
      v[tile] = hn::CombineShiftRightLanes<3>(d, first, second);
      v[tile + 1] = hn::CombineShiftRightLanes<3>(d, second, first);
    }
  } else {
    HWY_ALIGN static constexpr int32_t kLeft[16] = {7,  0, 1, 2,  3,  4,  5,  6,
                                                    15, 8, 9, 10, 11, 12, 13, 14};
    const auto left = hn::SetTableIndices(d, kLeft);
    HWY_UNROLL(2)
    for (int part = 0; part < kParts; ++part) v[part] = hn::TableLookupLanes(v[part], left);
  }
}

/// The 32·3 bits that end with a lane's own bits; what lies before is the end of lane t - 1.
struct Window {
  // Implicit constructors would lack the target's attributes, and g++ would not inline NEON's.
  HWY_INLINE Window() {}
  HWY_INLINE Window(VU32 last, VU32 middle, VU32 first) : words{last, middle, first} {}

  VU32 words[3];  // the last bits in words[0]
};

/// `before` ends with at least the 16 last bits of lane t - 1 and then becomes the same of lane t.
template <int K>
HWY_INLINE Window window(const OwnBits& own, VU32& before) {
  Window w(own.low, own.high, before);
  constexpr int kShift = 8 * K % 32;
  if constexpr (K < 4) {
    w.words[0] = hn::Or(own.low, hn::ShiftLeft<kShift>(before));
    w.words[1] = hn::ShiftRight<32 - kShift>(before);
  } else if constexpr (K == 4) {
    w.words[1] = before;
  } else if constexpr (K < 8) {
    w.words[1] = hn::Or(own.high, hn::ShiftLeft<kShift>(before));
    w.words[2] = hn::ShiftRight<32 - kShift>(before);
  }
  before = w.words[0];
  return w;
}

/// Bits [Shift, Shift + 16) of the window in the lower half of each lane; rubbish in the upper.
template <int Shift>
HWY_INLINE VU32 lower_state(const Window& w) {
  constexpr int kWord = Shift / 32;
  constexpr int kBit = Shift % 32;
  if constexpr (kBit == 0) {
    return w.words[kWord];
  } else if constexpr (kBit <= 16) {
    return hn::ShiftRight<kBit>(w.words[kWord]);
  } else {
    return hn::Or(hn::ShiftRight<kBit>(w.words[kWord]),
                  hn::ShiftLeft<32 - kBit>(w.words[kWord + 1]));
  }
}

/// The same bits in the upper half; rubbish in the lower.
template <int Shift>
HWY_INLINE VU32 upper_state(const Window& w) {
  constexpr int kWord = Shift / 32;
  constexpr int kBit = Shift % 32;
  if constexpr (kBit == 16) {
    return w.words[kWord];
  } else if constexpr (kBit < 16) {
    return hn::ShiftLeft<16 - kBit>(w.words[kWord]);
  } else {
    return hn::Or(hn::ShiftRight<kBit - 16>(w.words[kWord]),
                  hn::ShiftLeft<48 - kBit>(w.words[kWord + 1]));
  }
}

/// The states of row j of the lane (column c) in the upper halves, and of symbol j + 4 (column
/// c + 8) in the lower halves.
template <int K, int J>
HWY_INLINE VU16 states(const Window& w) {
  const DU16 d;
  constexpr int kUpper = (7 - J) * K;
  constexpr int kLower = (3 - J) * K;
  if constexpr (K == 4 && J == 3) {
    return hn::BitCast(d, w.words[0]);
  } else if constexpr (K == 4) {  // the two are exactly 16 bits apart
    return hn::BitCast(d, upper_state<kUpper>(w));
  } else {
    return hn::OddEven(hn::BitCast(d, upper_state<kUpper>(w)),
                       hn::BitCast(d, lower_state<kLower>(w)));
  }
}

// --- states to weights --------------------------------------------------------------------------

/// The weights of the upper and of the lower halves of a vector of states.
struct Weights {
  VF32 upper, lower;
};

/// Rounds x·Scale to 11 significant bits, nearest even: the fp16 rounding of spec/exl3.md 4, whose
/// results are all normal halves (or 0). With c = float(8193·x), c - 8192·x is x plus the rounding
/// error of c. c has 24 bits, 13 more than wanted and starting 13 places higher, so it is rounded
/// to a multiple of x's 11-bit unit u; 8192·x is an even multiple of u here (x is a multiple of
/// 2^-18 and below 4), so that ties go to even as well. The tests look at all 65,536 states.
template <class Scale>
HWY_INLINE VF32 round_to_half(VF32 x, Scale) {
  const DF32 d;
  const VF32 c = hn::Mul(x, hn::Set(d, 8193.0f * Scale::value));
  return hn::MulAdd(x, hn::Set(d, -8192.0f * Scale::value), c);
}
struct ScaleOne {
  static constexpr float value = 1.0f;
};
struct ScaleHalf {  // from the exponent bias of a half to that of a float
  static constexpr float value = 0x1p112f;
};

/// Both 16-bit halves of the codebook's 32-bit product, for twice as many states.
struct Product {
  VU16 high, low;
};

template <uint32_t kFactor>
HWY_INLINE Product multiply(VU16 state) {
  const DU16 d;
  const VU16 low_factor = hn::Set(d, static_cast<uint16_t>(kFactor));
  const VU16 high_factor = hn::Set(d, static_cast<uint16_t>(kFactor >> 16));
  return {hn::Add(hn::MulHigh(state, low_factor), hn::Mul(state, high_factor)),
          hn::Mul(state, low_factor)};
}

template <uint32_t kOffset>
HWY_INLINE Product add(Product p) {
  const DU16 d;
  const VU16 offset = hn::Set(d, static_cast<uint16_t>(kOffset));
  p.low = hn::Add(p.low, offset);
  // All ones, that is -1, where the sum did not wrap.
  const VU16 no_carry = hn::VecFromMask(d, hn::Eq(hn::Max(p.low, offset), p.low));
  p.high =
      hn::Add(hn::Add(p.high, hn::Set(d, static_cast<uint16_t>((kOffset >> 16) + 1))), no_carry);
  return p;
}

/// Masks the half that stands, as a sign-extended number, in bits 13 and up, and sets its exponent:
/// a float 2^-112 times the half. spec/exl3.md 4: (h & 0x8FFF) ^ 0x3B60.
HWY_INLINE VF32 half_as_float(VI32 shifted) {
  const DI32 d;
  const VI32 mask = hn::Set(d, static_cast<int32_t>(0x81FFE000));
  const VI32 exponent = hn::Set(d, 0x3B60 << 13);
  return hn::BitCast(DF32(), hn::Xor(hn::And(shifted, mask), exponent));
}

HWY_INLINE VI32 upper_half(VU16 v) {
  return hn::ShiftRight<3>(hn::BitCast(DI32(), v));
}

HWY_INLINE VI32 lower_half(VU16 v) {
  const DI32 d;
#if HWY_ARCH_X86
  // One multiply-add of pairs does both shifts below: lower · 2^13 + upper · 0.
  const hn::Repartition<int16_t, DI32> d16;
  VI32 unused = hn::Zero(d);
  return hn::ReorderWidenMulAccumulate(d, hn::BitCast(d16, v),
                                       hn::BitCast(d16, hn::Set(d, 1 << 13)), hn::Zero(d), unused);
#else
  return hn::ShiftRight<3>(hn::ShiftLeft<16>(hn::BitCast(d, v)));
#endif
}

/// RN16(low half + high half) of the products (3inst and mcg). The sum of two halves is exact in
/// float.
HWY_INLINE Weights sum_of_halves(Product p) {
  const VF32 upper = hn::Add(half_as_float(upper_half(p.high)), half_as_float(upper_half(p.low)));
  const VF32 lower = hn::Add(half_as_float(lower_half(p.high)), half_as_float(lower_half(p.low)));
  return {round_to_half(upper, ScaleHalf()), round_to_half(lower, ScaleHalf())};
}

/// RN16((1024 + sum of the four bytes) · c + d) (mul1); exact in float before the rounding.
HWY_INLINE Weights scaled_byte_sum(Product p) {
  const DU16 d;
  const VU16 byte = hn::Set(d, 0x00FF);
  const VU16 sum = hn::Add(hn::Add(hn::And(p.low, byte), hn::And(p.high, byte)),
                           hn::Add(hn::ShiftRight<8>(p.low), hn::ShiftRight<8>(p.high)));
  const DF32 df;
  const DI32 di;
  const DU32 du;
  const VF32 c = hn::Set(df, 0x1.bb8p-8f);
  const VF32 offset = hn::Set(df, 1024 * 0x1.bb8p-8f - 10.3828125f);
  const VU32 pairs = hn::BitCast(du, sum);
  const VF32 upper = hn::ConvertTo(df, hn::BitCast(di, hn::ShiftRight<16>(pairs)));
  const VF32 lower = hn::ConvertTo(df, hn::BitCast(di, hn::And(pairs, hn::Set(du, 0xFFFFu))));
  return {round_to_half(hn::MulAdd(upper, c, offset), ScaleOne()),
          round_to_half(hn::MulAdd(lower, c, offset), ScaleOne())};
}

template <Codebook codebook>
HWY_INLINE Weights weights_of(VU16 state) {
  if constexpr (codebook == Codebook::threeinst) {
    return sum_of_halves(add<64248484u>(multiply<89226354u>(state)));
  } else if constexpr (codebook == Codebook::mcg) {
    return sum_of_halves(multiply<0xCBAC1FEDu>(state));
  } else {
    return scaled_byte_sum(multiply<0x83DCD12Du>(state));
  }
}

// --- a tile pair --------------------------------------------------------------------------------

/// Where decoded column n of a strip stands among its 32 floats. Vectors of 16 lanes hold the same
/// eight columns of both tiles.
constexpr int64_t decoded_place(int64_t n) {
  if (kLanes < 16) return n;
  return (n & 7) | (n & 8) << 1 | (n & 16) >> 1;
}

template <Codebook codebook, int K, int J, class Row>
HWY_INLINE void decode_row(const Window (&w)[kParts], int q, const Row& row) {
  // In the order of decoded_place: per tile, first the columns of the upper halves.
  constexpr int kPartsPerTile = kParts >= 2 ? kParts / 2 : 1;
  VF32 out[2 * kParts];
  HWY_UNROLL(4)
  for (int part = 0; part < kParts; ++part) {
    const Weights weights = weights_of<codebook>(states<K, J>(w[part]));
    const int first = part / kPartsPerTile * 2 * kPartsPerTile + part % kPartsPerTile;
    out[first] = weights.upper;
    out[first + kPartsPerTile] = weights.lower;
  }
  row(4 * q + J, out);
}

/// Calls row(i, v) for the 16 rows of a tile pair in the order of the stream (row 2q, 2q+1, 2q+8,
/// 2q+9 for q = 0..3), with the 32 columns in v, in the order of decoded_place.
template <Codebook codebook, int K, class Row>
HWY_INLINE void decode_pair(const uint8_t* HWY_RESTRICT pair, const Row& row) {
  VU32 before[kParts];
  HWY_UNROLL(4)
  for (int part = 0; part < kParts; ++part) {
    before[part] = own_bits<K>(pair, 3, part).low;
    if constexpr (K == 1)
      before[part] = hn::Or(before[part], hn::ShiftLeft<8>(own_bits<K>(pair, 2, part).low));
  }
  rotate_columns(before);
  for (int q = 0; q < 4; ++q) {
    Window w[kParts];
    HWY_UNROLL(4)
    for (int part = 0; part < kParts; ++part)
      w[part] = window<K>(own_bits<K>(pair, q, part), before[part]);
    decode_row<codebook, K, 0>(w, q, row);
    decode_row<codebook, K, 1>(w, q, row);
    decode_row<codebook, K, 2>(w, q, row);
    decode_row<codebook, K, 3>(w, q, row);
  }
}

#endif  // not scalar

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#endif  // per target
