// How products hold their input rows: in groups of up to six, interleaved, so that the inner loop
// reads the group's values of one input side by side.
#pragma once

#include <algorithm>
#include <cstdint>

namespace yoke::kernels {

/// Rows that share one pass over the weights: with 16 outputs they fill twelve AVX2 registers.
constexpr int kGroupRows = 6;

/// The group that starts at row `first` of `rows`: value (row r, input k) lies at
/// first · in + k · size + (r - first). Only the last group is smaller than kGroupRows, so groups
/// leave no gaps: `rows` rows take rows · in floats.
constexpr int group_size(int64_t rows, int64_t first) noexcept {
  return static_cast<int>(std::min<int64_t>(kGroupRows, rows - first));
}

}  // namespace yoke::kernels
