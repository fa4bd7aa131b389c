// Random orders in which sequences go through an op with memory: prompts in chunks, windows with
// rejected rows, several sequences in one step, padding. Serial decoding, one row at a time and
// each sequence alone, must give the same bits (design.md 5).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/core/step_rows.h"
#include "kernels/testing/random.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels::testing {

struct ScheduleShape {
  int32_t sequences = 3;
  int32_t length = 40;  ///< true rows of each sequence
  int32_t max_chunk = 9;
  int32_t max_window = 4;
  int32_t slots = 5;  ///< more than sequences: some stay unused
  int32_t block_tokens = 8;

  int32_t slot_of(int32_t sequence) const { return (2 * sequence + 1) % slots; }
  int32_t max_positions() const { return length + max_window; }
  int32_t blocks_per_slot() const { return (max_positions() + block_tokens - 1) / block_tokens; }
  int64_t cache_rows() const { return int64_t{slots} * blocks_per_slot() * block_tokens; }
};

struct ScheduledRow {
  int32_t sequence = 0;
  int32_t position = 0;
  bool rejected = false;  ///< a window row that turns out wrong: its inputs are not the true ones
};

struct ScheduledStep {
  std::vector<SequenceRows> sequences;
  std::vector<ScheduledRow> rows;
  int32_t padding = 0;  ///< rows after them that belong to nobody

  int32_t bucket() const { return static_cast<int32_t>(rows.size()) + padding; }
};

/// Every true row of every sequence exactly once, mixed with rejected ones.
std::vector<ScheduledStep> random_schedule(Random& random, const ScheduleShape& shape);
/// One row per step, committed, one sequence after the other.
std::vector<ScheduledStep> serial_schedule(const ScheduleShape& shape);

/// StepRows of a step, with a block table that is shuffled once.
class StepTable {
 public:
  StepTable(Random& random, const ScheduleShape& shape);
  /// Valid until the next call.
  StepRows fill(const ScheduledStep& step);

 private:
  ScheduleShape shape_;
  Tensor slot_, position_, sequence_, blocks_;
  std::vector<SequenceRows> sequences_;
};

/// One input of an op: what each true row and each rejected row of a position is.
struct RowSource {
  Tensor truth, rejected;  ///< [sequences, length + max_window, ...]

  /// `row_shape` without the row dimension.
  RowSource(Random& random, const ScheduleShape& shape, DType dtype, Shape row_shape,
            double scale = 1.0);
  /// [bucket, ...]; padding rows are NaN.
  Tensor rows(const ScheduledStep& step) const;
};

/// Collects the outputs of true rows: [sequences, length, ...].
class RowSink {
 public:
  RowSink(const ScheduleShape& shape, DType dtype, Shape row_shape);
  void take(const ScheduledStep& step, ConstTensorView y);
  ConstTensorView view() const { return all_.view(); }

 private:
  Tensor all_;
};

}  // namespace yoke::kernels::testing
