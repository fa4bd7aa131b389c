// Our own exp, log, sigmoid: the same bits on every machine (design.md 5). Only IEEE +, -, *, /,
// fma and integer operations.
#pragma once

namespace yoke::kernels {

/// e^x in float64, error below 2 ulp; 0 below -745.2, +inf above 709.8, NaN for NaN.
double exp64(double x) noexcept;

/// Natural logarithm in float64, error below 2 ulp; -inf at 0, NaN below 0 and for NaN, +inf at
/// +inf.
double log64(double x) noexcept;

/// 1 / (1 + e^-x), without overflow for any x.
double sigmoid64(double x) noexcept;

/// x · sigmoid(x).
inline double silu64(double x) noexcept {
  return x * sigmoid64(x);
}

/// ln(1 + e^x); x itself above 20 (the reference's softplus threshold).
double softplus64(double x) noexcept;

}  // namespace yoke::kernels
