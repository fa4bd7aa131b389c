// The storage format: states, positions, codebooks (spec/exl3.md 2 to 4).
#include "kernels/exl3/exl3.h"

#include <algorithm>
#include <cmath>

#include "config/check.h"
#include "kernels/exl3/exl3_packed.h"

namespace yoke::kernels {
namespace {

/// The 32-bit stream word `m` of a tile: stored as two 16-bit words, low half first.
uint32_t stream_word(const uint16_t* words, int m) {
  return words[2 * m] | static_cast<uint32_t>(words[2 * m + 1]) << 16;
}

f16 sum_of_halves(uint32_t product) {
  const uint32_t p = (product & 0x8FFF8FFFu) ^ 0x3B603B60u;
  const f16 low{static_cast<uint16_t>(p)};
  const f16 high{static_cast<uint16_t>(p >> 16)};
  return to_f16(to_float(low) + to_float(high));
}

f16 scaled_byte_sum(uint32_t product) {
  const uint32_t sum =
      (product & 0xFFu) + (product >> 8 & 0xFFu) + (product >> 16 & 0xFFu) + (product >> 24);
  const float scale = to_float(f16{0x1EEE});
  const float offset = to_float(f16{0xC931});
  // Product and sum are exact in float: 1024 + sum has 11 bits, scale 11, and both terms are
  // multiples of 2^-18 below 2^5. So this is the fused half operation.
  return to_f16(static_cast<float>(1024 + sum) * scale + offset);
}

}  // namespace

f16 exl3_codebook_value(Codebook codebook, uint16_t state) noexcept {
  const uint32_t s = state;
  switch (codebook) {
    case Codebook::threeinst:
      return sum_of_halves(s * 89226354u + 64248484u);
    case Codebook::mcg:
      return sum_of_halves(s * 0xCBAC1FEDu);
    case Codebook::mul1:
      break;
  }
  return scaled_byte_sum(s * 0x83DCD12Du);
}

void exl3_tile_states(uint16_t states[256], const uint16_t* words, int bits) noexcept {
  const int stream_words = 8 * bits;
  for (int i = 0; i < 256; ++i) {
    const int end = (i + 1) * bits;  // one past the last bit of the state
    const int last = (end - 1) / 32;
    const int first = end >= 16 ? (end - 16) / 32 : stream_words - 1;
    const uint64_t pair =
        static_cast<uint64_t>(stream_word(words, first)) << 32 | stream_word(words, last);
    states[i] = static_cast<uint16_t>(pair >> (32 * (last + 1) - end));
  }
}

void exl3_pack_tile(uint16_t* words, const uint16_t states[256], int bits) noexcept {
  std::fill_n(words, 16 * bits, uint16_t{0});
  for (int i = 0; i < 256; ++i) {
    for (int b = 0; b < bits; ++b) {
      const int bit = i * bits + b;  // in the stream; most significant bit of the symbol first
      const int place = 31 - bit % 32;
      const uint32_t value = states[i] >> (bits - 1 - b) & 1u;
      words[2 * (bit / 32) + place / 16] |= static_cast<uint16_t>(value << (place % 16));
    }
  }
}

int exl3_tile_position(int i) noexcept {
  const int t = i / 8;
  const int j = i % 8;
  const int row = 2 * (t % 4) + (j & 1) + 8 * (j >> 1 & 1);
  const int column = t / 4 + 8 * (j >> 2);
  return row * 16 + column;
}

void exl3_decode_inner(TensorView inner, const Exl3Matrix& w) noexcept {
  YOKE_CHECK(inner.dtype == DType::f16 && inner.elements() == w.in * w.out,
             "exl3_decode_inner: want inner [in, out] f16");
  f16* to = inner.as<f16>();
  uint16_t words[128];
  uint16_t states[256];
  for (int64_t tk = 0; tk < w.in / 16; ++tk) {
    for (int64_t tn = 0; tn < w.out / 16; ++tn) {
      exl3_tile_words(words, w, tk, tn);
      exl3_tile_states(states, words, w.bits);
      for (int i = 0; i < 256; ++i) {
        const int position = exl3_tile_position(i);
        to[(tk * 16 + position / 16) * w.out + tn * 16 + position % 16] =
            exl3_codebook_value(w.codebook, states[i]);
      }
    }
  }
}

void exl3_unpack_signs(f16* scales, const uint16_t* words, int64_t count) noexcept {
  constexpr uint16_t kOne = 0x3C00;
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t sign = words[i / 16] >> (i % 16) & 1u;
    scales[i] = {static_cast<uint16_t>(kOne | sign << 15)};
  }
}

}  // namespace yoke::kernels
