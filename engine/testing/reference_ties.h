// Index scores tie exactly: a pool that no index head matches scores 0, and a small model has many.
// Our rule is the lower pool (spec/glm5_next.md 5.5); PyTorch's top-k leaves the choice to the C++
// library's nth_element, so reference values depend on it. This forces the reference's choice in
// the rows where it is one, and nowhere else (design.md 5: positions with a small margin are listed
// and compared with that choice forced).
#pragma once

#include <cstdint>

#include "engine/model/forward.h"

namespace yoke::engine {

class ReferenceTies {
 public:
  explicit ReferenceTies(const ModelConfig& config) : config_(config) {}

  /// To be used as a Forward::SelectionHook. The step must be the pass that the reference ran: its
  /// list of scores holds the pools of all rows, those still incomplete at a row as -infinity.
  void operator()(const Selection& selection);

  /// Rows (counted per layer) whose choice was among equal scores.
  int64_t forced() const noexcept { return forced_; }

 private:
  void force_row(const Selection& selection, int32_t row);

  ModelConfig config_;
  int64_t forced_ = 0;
};

}  // namespace yoke::engine
