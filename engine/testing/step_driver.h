// Drives a Model the way the engine will, for tests: one object per sequence that knows its slot,
// its blocks, what is committed and what waits for a replay.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/model.h"

namespace yoke::engine {

/// Logits [rows, vocab], copied out of the model.
struct RowSet {
  std::vector<float> values;
  int64_t width = 0;

  int64_t count() const { return width == 0 ? 0 : static_cast<int64_t>(values.size()) / width; }
  std::span<const float> row(int64_t i) const {
    return std::span(values).subspan(static_cast<size_t>(i * width), static_cast<size_t>(width));
  }
  void append(std::span<const float> rows, int64_t row_width);
};

int32_t argmax_of(std::span<const float> row);
/// Largest minus second largest.
float margin_of(std::span<const float> row);
/// A view's elements as floats.
std::vector<float> to_floats(kernels::ConstTensorView view);

/// One sequence in one slot. Its blocks cover max_model_len: slot s owns every block whose number
/// is s modulo max_slots, in descending order, so that logical order never equals physical order.
class SequenceDriver {
 public:
  SequenceDriver(const Model& model, int32_t slot);
  SequenceDriver(const Model& model, int32_t slot, std::vector<int32_t> blocks);

  /// The next rows: `tokens`, the first `commit` certain (-1: all). Wants the logits of
  /// `logit_rows` (indices into tokens). The driver assumes that the step is then run.
  StepSequence next(std::span<const int32_t> tokens, int32_t commit,
                    std::vector<int32_t> logit_rows);
  /// After a step with a window: `kept` of its rows were right; the next step replays them.
  void keep(int32_t kept);
  /// Position of the next row.
  int32_t position() const { return committed_ + replay_; }
  /// Physical blocks that cover `tokens` positions.
  std::vector<int32_t> blocks(int32_t tokens) const;
  void restart() { *this = SequenceDriver(slot_, blocks_, block_tokens_); }

 private:
  SequenceDriver(int32_t slot, std::vector<int32_t> blocks, int32_t block_tokens);

  int32_t slot_;
  std::vector<int32_t> blocks_;
  int32_t block_tokens_;
  int32_t committed_ = 0;
  int32_t replay_ = 0;
};

/// Every index of `tokens`.
std::vector<int32_t> all_rows(std::span<const int32_t> tokens);

/// Runs `tokens` from the start of slot 0 in steps of at most `chunk` rows; logits of every row,
/// and the rows after the final norm if `hidden` is not null.
RowSet run_prompt(Model& model, std::span<const int32_t> tokens, int32_t chunk,
                  RowSet* hidden = nullptr);

}  // namespace yoke::engine
