// What the rows of one step are, as ops see it: plain arrays in device memory, filled once per step
// (design.md 6). Ops never get per-step numbers by value.
#pragma once

#include <cstdint>

namespace yoke::kernels {

/// The rows of one sequence in this step. They are contiguous and ascend in position.
///   replay  rows of the previous window (kept in the per-slot pending buffers) that turned out to
///   be right: recurrent ops
///           apply them first
///   commit  rows of this step that are certain (prompt, or the newest accepted token): applied to
///   the state and written rows - commit  window: outputs only; their inputs go to the pending
///   buffers for a later replay
/// A sequence whose `start_position` is 0 starts from the zero state, whatever its slot holds.
struct SequenceRows {
  int32_t slot = -1;  ///< cache slot, or -1: entry unused
  int32_t first_row = 0;
  int32_t rows = 0;
  int32_t start_position = 0;  ///< position of the first row; replayed rows stand just before it
  int32_t commit = 0;
  int32_t replay = 0;
};

/// All pointers stay the same from step to step; only what they point to changes.
struct StepRows {
  int32_t rows = 0;  ///< rows of this bucket, padding included
  const int32_t* slot =
      nullptr;  ///< [rows] cache slot, or -1: padding row, changes no bit and no state
  const int32_t* position = nullptr;  ///< [rows] position of the row's token in its sequence
  const int32_t* sequence = nullptr;  ///< [rows] index into `sequences`, or -1

  int32_t max_sequences = 0;
  const SequenceRows* sequences = nullptr;  ///< [max_sequences]

  const int32_t* block_table =
      nullptr;  ///< [slots, blocks_per_slot] physical block of each logical block
  int32_t blocks_per_slot = 0;
  int32_t block_tokens = 0;  ///< tokens per cache block; a multiple of the index pool size

  /// Row of the paged caches that holds `position_in_slot` of `slot`.
  int64_t cache_row(int32_t slot_index, int64_t position_in_slot) const noexcept {
    const int64_t block =
        block_table[int64_t{slot_index} * blocks_per_slot + position_in_slot / block_tokens];
    return block * block_tokens + position_in_slot % block_tokens;
  }
};

}  // namespace yoke::kernels
