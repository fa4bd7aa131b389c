// The tensors that stand for one quantised matrix: trellis, scales, codebook marker
// (spec/exl3.md 2.1 and 9).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "config/result.h"
#include "engine/checkpoint/safetensors.h"
#include "kernels/core/types.h"
#include "kernels/core/weights.h"

namespace yoke::engine {

struct ShardSet;

/// Pointers live as long as the ShardSet (or Checkpoint).
struct Exl3Group {
  const TensorInfo* trellis = nullptr;     ///< I16 [in/16, out/16, 16·bits]
  const TensorInfo* in_scales = nullptr;   ///< suh F16 [in], or su I16 [in/16]: packed signs
  const TensorInfo* out_scales = nullptr;  ///< svh F16 [out], or sv I16 [out/16]
  const TensorInfo* marker = nullptr;      ///< mcg or mul1, I32 of one element; none for 3inst
  kernels::Codebook codebook = kernels::Codebook::threeinst;
  int bits = 0;  ///< K, 1..8
  int64_t in = 0;
  int64_t out = 0;
};

/// True when `stem`.trellis is there: whatever else, this is meant to be an EXL3 matrix.
bool has_exl3(const ShardSet& shards, std::string_view stem);

/// The group of `stem` (a weight's name without ".weight"), checked against the matrix it stands
/// for: types, shapes, multiples of 128, one codebook; the marker's four bytes are read and must be
/// the codebook's multiplier. The error names tensor and file.
config::Result<Exl3Group> find_exl3_group(const ShardSet& shards, std::string_view stem,
                                          int64_t wanted_out, int64_t wanted_in);

/// Scales as they lie in the file → fp16, one per channel. `bytes` is F16 [n], or I16 [n/16] of
/// sign bits (bit b of word j is channel 16j + b; 1 means −1); `out` has n entries. A scale that is
/// infinite or not a number is an error that names the tensor and the channel.
config::Result<void> decode_exl3_scales(const TensorInfo& scales, std::span<const std::byte> bytes,
                                        std::span<kernels::f16> out);

}  // namespace yoke::engine
