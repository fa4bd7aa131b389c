#include "kernels/testing/compare.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

namespace yoke::kernels::testing {
namespace {

using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

std::string coordinate(const Shape& shape, int64_t i) {
  std::string text = "]";
  for (int d = shape.rank - 1; d >= 0; --d) {
    text = (d > 0 ? ", " : "[") + std::to_string(i % shape[d]) + text;
    i /= shape[d];
  }
  return shape.rank == 0 ? "[]" : text;
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (int d = 0; d < shape.rank; ++d) text += (d > 0 ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

AssertionResult shapes_differ(ConstTensorView actual, ConstTensorView expected) {
  return AssertionFailure() << "shapes differ: actual " << shape_text(actual.shape) << ", expected "
                            << shape_text(expected.shape);
}

/// How many times over its bound the error is; at most 1 passes.
double excess(double actual, double expected, double bound) {
  if (actual == expected) return 0;
  if (std::isnan(actual) && std::isnan(expected)) return 0;
  const double error = std::fabs(actual - expected);
  if (!std::isfinite(error)) return std::numeric_limits<double>::infinity();
  return bound > 0 ? error / bound : std::numeric_limits<double>::infinity();
}

template <class Bound>
AssertionResult compare(ConstTensorView actual, ConstTensorView expected, Bound&& bound) {
  if (!(actual.shape == expected.shape)) return shapes_differ(actual, expected);
  int64_t failures = 0;
  int64_t worst = 0;
  double worst_excess = 0;
  for (int64_t i = 0; i < actual.elements(); ++i) {
    const double over = excess(load_float(actual, i), load_float(expected, i), bound(i));
    if (over > 1) ++failures;
    if (over > worst_excess) {
      worst_excess = over;
      worst = i;
    }
  }
  if (failures == 0) return AssertionSuccess();
  const double a = load_float(actual, worst);
  const double e = load_float(expected, worst);
  return AssertionFailure() << failures << " of " << actual.elements() << " elements differ; worst "
                            << coordinate(actual.shape, worst) << ": expected " << e << ", actual "
                            << a << ", error " << std::fabs(a - e) << ", allowed " << bound(worst);
}

uint32_t pattern(ConstTensorView view, int64_t i) {
  const size_t width = dtype_bytes(view.dtype);
  uint32_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(view.data) + static_cast<size_t>(i) * width,
              width);
  return bits;
}

std::string hex(uint32_t bits) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%X", bits);
  return text;
}

}  // namespace

AssertionResult all_close(ConstTensorView actual, ConstTensorView expected, Tolerance tolerance) {
  return compare(actual, expected, [&](int64_t i) {
    return tolerance.absolute + tolerance.relative * std::fabs(double{load_float(expected, i)});
  });
}

AssertionResult all_within(ConstTensorView actual, ConstTensorView expected,
                           ConstTensorView bounds) {
  if (!(bounds.shape == expected.shape)) return shapes_differ(bounds, expected);
  return compare(actual, expected, [&](int64_t i) { return double{load_float(bounds, i)}; });
}

AssertionResult rows_close(ConstTensorView actual, ConstTensorView expected, double rms_share,
                           double max_share) {
  if (!(actual.shape == expected.shape)) return shapes_differ(actual, expected);
  const int64_t width = actual.dim(actual.rank() - 1);
  for (int64_t r = 0; r < actual.elements() / width; ++r) {
    double squares = 0;
    double error_squares = 0;
    double worst = 0;
    int64_t worst_at = r * width;
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      const double e = load_float(expected, i);
      const double error = std::fabs(load_float(actual, i) - e);
      squares += e * e;
      error_squares += error * error;
      if (!(error <= worst)) {
        worst = error;
        worst_at = i;
      }
    }
    const double rms = std::sqrt(squares / static_cast<double>(width));
    const double error_rms = std::sqrt(error_squares / static_cast<double>(width));
    if (error_rms <= rms_share * rms && worst <= max_share * rms) continue;
    return AssertionFailure() << "row " << r << ": rms error / rms " << error_rms / rms
                              << " (allowed " << rms_share << "), max error / rms " << worst / rms
                              << " (allowed " << max_share << "), worst at "
                              << coordinate(actual.shape, worst_at) << ": expected "
                              << load_float(expected, worst_at) << ", actual "
                              << load_float(actual, worst_at);
  }
  return AssertionSuccess();
}

AssertionResult same_bits(ConstTensorView actual, ConstTensorView expected) {
  if (!(actual.shape == expected.shape)) return shapes_differ(actual, expected);
  if (actual.dtype != expected.dtype)
    return AssertionFailure() << "types differ: actual " << dtype_name(actual.dtype)
                              << ", expected " << dtype_name(expected.dtype);
  for (int64_t i = 0; i < actual.elements(); ++i) {
    const uint32_t a = pattern(actual, i);
    const uint32_t e = pattern(expected, i);
    if (a == e) continue;
    AssertionResult failure = AssertionFailure();
    failure << "first difference at " << coordinate(actual.shape, i) << ": expected " << hex(e)
            << ", actual " << hex(a);
    if (actual.dtype == DType::bf16 || actual.dtype == DType::f16 || actual.dtype == DType::f32)
      failure << " (" << load_float(expected, i) << ", " << load_float(actual, i) << ")";
    return failure;
  }
  return AssertionSuccess();
}

}  // namespace yoke::kernels::testing
