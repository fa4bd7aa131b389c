// Sums in float64 over runs of floats, for row ops: the same bits on every instruction set.
#pragma once

#include <cstdint>

namespace yoke::kernels {

/// sums[i] += factor · values[i], product and sum rounded separately.
void add_scaled(double* sums, double factor, const float* values, int64_t count) noexcept;

/// to[i] = sums[i], rounded to float.
void round_sums(float* to, const double* sums, int64_t count) noexcept;

/// Σ x² in sixteen partial sums: number l takes the elements i with i mod 16 = l in ascending
/// order, product and sum rounded separately; then the upper half is added to the lower, 16 → 8 → 4
/// → 2 → 1. Runs but the last must be multiples of 16 long.
class SquareSum {
 public:
  void add(const float* x, int64_t count) noexcept;
  double total() const noexcept;

 private:
  alignas(64) double lanes_[16] = {};
};

/// values[i] = values[i] · scale · weights[i] in float64, rounded once.
void scale_row(float* values, double scale, const float* weights, int64_t count) noexcept;

}  // namespace yoke::kernels
