#include "kernels/exl3/exl3_packed.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "config/check.h"
#include "kernels/exl3/exl3.h"

namespace yoke::kernels {
namespace {

/// The pieces of a lane's number, from its low end, and where pieces of that kind start in a pair.
struct Piece {
  int bytes;
  int shift;
  int64_t offset;
};

struct Pieces {
  std::array<Piece, 3> list{};
  size_t count = 0;
};

constexpr Pieces pieces_of(int bits) {
  Pieces p;
  int shift = 0;
  int64_t offset = 0;
  for (const int bytes : {4, 4, 2, 1}) {
    if (8 * bits - shift < 8 * bytes) continue;
    p.list[p.count++] = {bytes, shift, offset};
    shift += 8 * bytes;
    offset += int64_t{4} * kPairLanes * bytes;
  }
  return p;
}

/// A tile's stream: u32 words, each taken most significant bit first (spec/exl3.md 3.3).
class TileBits {
 public:
  TileBits(const uint16_t* words, int bits) : bits_(bits) {
    for (int m = 0; m < 8 * bits; ++m)
      words_[static_cast<size_t>(m)] = words[2 * m] | static_cast<uint32_t>(words[2 * m + 1]) << 16;
  }

  /// The 8 · bits bits of lane t.
  uint64_t lane(int t) const {
    uint64_t value = 0;
    for (int byte = t * bits_; byte < (t + 1) * bits_; ++byte)
      value = value << 8 | (words_[static_cast<size_t>(byte / 4)] >> (24 - 8 * (byte % 4)) & 0xFFu);
    return value;
  }

 private:
  int bits_;
  std::array<uint32_t, 64> words_{};
};

void set_lane(uint16_t* words, int bits, int t, uint64_t value) {
  for (int byte = (t + 1) * bits - 1; byte >= t * bits; --byte, value >>= 8) {
    // Byte 0 of the stream is the most significant of the first u32.
    const int place = 24 - 8 * (byte % 4);
    words[2 * (byte / 4) + place / 16] |= static_cast<uint16_t>((value & 0xFFu) << (place % 16));
  }
}

/// Where lane t of tile 0 or 1 keeps its piece, in bytes from the pair's start.
int64_t place_of(const Piece& piece, int tile, int t) {
  return piece.offset + (t % 4 * kPairLanes + 8 * tile + t / 4) * piece.bytes;
}

/// What exl3_pack_pair does for 4 bits, where a lane is one u32 of the stream.
void pack_words(std::byte* pair, const uint16_t* tile_words, int tile) {
  for (int t = 0; t < 32; ++t)
    std::memcpy(pair + 4 * (t % 4 * kPairLanes + 8 * tile + t / 4), tile_words + 2 * t, 4);
}

}  // namespace

void exl3_pack_pair(void* to, const uint16_t* left, const uint16_t* right, int bits) noexcept {
  auto* pair = static_cast<std::byte*>(to);
  const Pieces pieces = pieces_of(bits);
  for (int tile = 0; tile < 2; ++tile) {
    const uint16_t* words = tile == 0 ? left : right;
    if (bits == 4) {
      pack_words(pair, words, tile);
      continue;
    }
    const TileBits stream(words, bits);
    for (int t = 0; t < 32; ++t) {
      const uint64_t value = stream.lane(t);
      for (size_t i = 0; i < pieces.count; ++i) {
        const Piece& piece = pieces.list[i];
        const auto part = static_cast<uint32_t>(value >> piece.shift);  // little-endian
        std::memcpy(pair + place_of(piece, tile, t), &part, static_cast<size_t>(piece.bytes));
      }
    }
  }
}

void exl3_unpack_pair(uint16_t* left, uint16_t* right, const void* from, int bits) noexcept {
  const auto* pair = static_cast<const std::byte*>(from);
  const Pieces pieces = pieces_of(bits);
  for (int tile = 0; tile < 2; ++tile) {
    uint16_t* words = tile == 0 ? left : right;
    std::fill_n(words, 16 * bits, uint16_t{0});
    for (int t = 0; t < 32; ++t) {
      uint64_t value = 0;
      for (size_t i = 0; i < pieces.count; ++i) {
        const Piece& piece = pieces.list[i];
        uint32_t part = 0;
        std::memcpy(&part, pair + place_of(piece, tile, t), static_cast<size_t>(piece.bytes));
        value |= uint64_t{part} << piece.shift;
      }
      set_lane(words, bits, t, value);
    }
  }
}

void exl3_tile_words(uint16_t* words, const Exl3Matrix& w, int64_t tk, int64_t tn) noexcept {
  if (w.trellis != nullptr) {
    std::copy_n(w.trellis + (tk * (w.out / 16) + tn) * 16 * w.bits, 16 * w.bits, words);
    return;
  }
  uint16_t other[128];
  const auto* pair = static_cast<const std::byte*>(w.packed) + exl3_pair_offset(w, tn / 2, tk);
  if (tn % 2 == 0) {
    exl3_unpack_pair(words, other, pair, w.bits);
  } else {
    exl3_unpack_pair(other, words, pair, w.bits);
  }
}

size_t exl3_packed_bytes(const Exl3Matrix& w) noexcept {
  return static_cast<size_t>(w.in / 16 * (w.out / kStripColumns) * exl3_pair_bytes(w.bits));
}

void exl3_pack(void* to, const Exl3Matrix& w) noexcept {
  YOKE_CHECK(w.trellis != nullptr, "exl3_pack: the matrix has no trellis");
  const int64_t tile_words = int64_t{16} * w.bits;
  for (int64_t strip = 0; strip < w.out / kStripColumns; ++strip) {
    for (int64_t tk = 0; tk < w.in / 16; ++tk) {
      const uint16_t* left = w.trellis + (tk * (w.out / 16) + 2 * strip) * tile_words;
      exl3_pack_pair(static_cast<std::byte*>(to) + exl3_pair_offset(w, strip, tk), left,
                     left + tile_words, w.bits);
    }
  }
}

}  // namespace yoke::kernels
