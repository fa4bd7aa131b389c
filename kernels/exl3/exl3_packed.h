// The order in which the CPU kernels read a trellis. Internal to kernels/exl3 except for
// exl3_pack() (exl3.h).
//
// A strip is 32 output columns: two tiles side by side. Strips follow each other, and inside a
// strip the tile pairs with ascending rows, so that a product reads memory in one ascending run. A
// tile pair takes 64 · bits bytes, as in the trellis. Its 64 lanes of eight symbols
// (spec/exl3.md 3.2: lane t = 4c + q holds four rows of columns c and c + 8) are regrouped as [q
// 4][lane 16], lane = 8 · tile + c, so that one vector holds the same rows of 16 columns and the
// neighbour lane t - 1, whose bits a state reaches back to, is the same lane of the vector before.
// The 8 · bits bits of a lane are one number, first stream bit most significant, cut from its low
// end into pieces of 32, 16 and 8 bits; the pieces of one kind lie together:
//   bits  1: u8    2: u16    3: u16 u8    4: u32    5: u32 u8    6: u32 u16    7: u32 u16 u8
//   bits  8: u32 u32
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/weights.h"

namespace yoke::kernels {

constexpr int64_t kStripColumns = 32;
constexpr int kPairLanes = 16;  // of one q

constexpr int64_t exl3_pair_bytes(int bits) noexcept {
  return int64_t{64} * bits;
}

/// First byte of the tile pair that covers rows 16·tk.. and columns 32·strip.. .
constexpr int64_t exl3_pair_offset(const Exl3Matrix& w, int64_t strip, int64_t tk) noexcept {
  return (strip * (w.in / 16) + tk) * exl3_pair_bytes(w.bits);
}

/// Regroups two tiles that lie side by side, each 16·bits words as stored; `to` takes
/// exl3_pair_bytes(bits).
void exl3_pack_pair(void* to, const uint16_t* left, const uint16_t* right, int bits) noexcept;

/// The inverse.
void exl3_unpack_pair(uint16_t* left, uint16_t* right, const void* from, int bits) noexcept;

/// The 16 · bits words of a tile as the checkpoint stores them, from whichever form there is.
void exl3_tile_words(uint16_t* words, const Exl3Matrix& w, int64_t tk, int64_t tn) noexcept;

}  // namespace yoke::kernels
