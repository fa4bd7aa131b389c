// Our own exp, log, sigmoid: the same bits on every machine (design.md 5). Only IEEE +, -, *, /
// and integer operations, all in float64.
//
// Row kernels use these too and round their result where the op's contract says so: one arithmetic
// for exp and sigmoid in the whole program, until a measurement asks for a float version.
#pragma once

namespace yoke::kernels {

/// e^x, error below 0.6 ulp (0.8 where the result is subnormal); 0 below -745.2, +inf above
/// 709.8, NaN for NaN.
double exp64(double x) noexcept;

/// Natural logarithm, error below 1 ulp; -inf at ±0, NaN below 0 and for NaN, +inf at +inf.
double log64(double x) noexcept;

/// 1 / (1 + e^-x), without overflow for any x; error below 2.5 ulp.
double sigmoid64(double x) noexcept;

/// x · sigmoid(x); 0 at -inf.
double silu64(double x) noexcept;

/// ln(1 + e^x), error below 2 ulp; x itself above 20 (the reference's softplus threshold).
double softplus64(double x) noexcept;

}  // namespace yoke::kernels
