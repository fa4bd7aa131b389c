// The three types between scheduling and compute (design.md 6): StepPlan → StepBuffers → forward →
// StepResult.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "config/result.h"

namespace yoke::engine {

/// One sequence's part of a step. See kernels::SequenceRows for commit, window and replay. A new
/// field goes into plan_to_bytes() too.
struct StepSequence {
  int32_t slot = 0;
  int32_t start_position = 0;
  std::vector<int32_t> tokens;
  int32_t commit = 0;  ///< the first `commit` rows are certain; the rest is a window
  int32_t replay = 0;
  /// Rows of `tokens` (indices) whose logits are wanted, ascending.
  std::vector<int32_t> logit_rows;
  /// Physical blocks of the slot, in logical order, covering start_position + tokens.
  std::vector<int32_t> blocks;
  /// Before the rows run: the snapshot that slot and last block (that of start_position - 1) are
  /// filled from, or -1. The blocks before that one must hold the same tokens' rows already.
  int32_t restore = -1;
  /// After the step, by Model::take_snapshots(): the snapshot to fill with the state after the
  /// `commit` rows (at least one), or -1.
  int32_t save = -1;

  friend bool operator==(const StepSequence&, const StepSequence&) = default;
};

/// What rank 0 decides for one step and sends to the others: host memory, serialisable, no
/// pointers.
struct StepPlan {
  std::vector<StepSequence> sequences;
  int32_t rows() const {
    int32_t n = 0;
    for (const StepSequence& s : sequences) n += static_cast<int32_t>(s.tokens.size());
    return n;
  }

  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

/// How a plan travels from rank 0 to the others: plan_from_bytes(plan_to_bytes(p)) == p. Bytes that
/// are no plan are an error; whether a plan fits a model is StepBuffers' to check.
std::vector<std::byte> plan_to_bytes(const StepPlan& plan);
config::Result<StepPlan> plan_from_bytes(std::span<const std::byte> bytes);

/// What comes back: one row of logits per wanted row, in plan order. Views into the model's result
/// buffer, valid until the next step.
struct StepResult {
  std::span<const float> logits;  ///< [logit_count, vocab]
  int32_t logit_count = 0;
  int32_t vocab = 0;
  std::span<const float> row(int32_t i) const {
    return logits.subspan(static_cast<size_t>(i) * static_cast<size_t>(vocab),
                          static_cast<size_t>(vocab));
  }
};

}  // namespace yoke::engine
