// Comparers that say where two tensors differ. Use as EXPECT_TRUE(same_bits(actual, expected)).
#pragma once

#include <gtest/gtest.h>

#include "kernels/core/tensor_view.h"

namespace yoke::kernels::testing {

/// |actual - expected| <= absolute + relative · |expected|.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

/// What one rounding to nearest costs at most, relative: half a unit in the last place.
constexpr double rounding_error(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0x1p-24;
}

/// Float views of one shape. Equal infinities and NaNs at the same places pass. On failure: the
/// worst element (error over bound), its coordinate, both values and the bound.
::testing::AssertionResult all_close(ConstTensorView actual, ConstTensorView expected,
                                     Tolerance tolerance);

/// The same with an absolute bound per element.
::testing::AssertionResult all_within(ConstTensorView actual, ConstTensorView expected,
                                      ConstTensorView bounds);

/// Per row of the last dimension: rms(actual - expected) <= rms_share · rms(expected) and
/// max|actual - expected| <= max_share · rms(expected).
::testing::AssertionResult rows_close(ConstTensorView actual, ConstTensorView expected,
                                      double rms_share, double max_share);

/// Equal type, shape and bytes. On failure: the first coordinate that differs and both patterns.
::testing::AssertionResult same_bits(ConstTensorView actual, ConstTensorView expected);

}  // namespace yoke::kernels::testing
