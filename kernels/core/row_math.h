// exp and sigmoid of math.h over runs of floats, each computed in float64 and rounded once: the
// same bits on every instruction set.
#pragma once

#include <cstdint>

namespace yoke::kernels {

/// y[i] = e^x[i]; y may be x.
void exp_run(float* y, const float* x, int64_t count) noexcept;

/// y[i] = 1 / (1 + e^-x[i]); y may be x.
void sigmoid_run(float* y, const float* x, int64_t count) noexcept;

}  // namespace yoke::kernels
