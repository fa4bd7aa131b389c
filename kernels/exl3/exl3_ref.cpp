// Products and full weights by the formulas of spec/exl3.md 5, without a thought for speed.
#include <cmath>
#include <vector>

#include "config/check.h"
#include "kernels/exl3/exl3.h"
#include "kernels/exl3/hadamard.h"

namespace yoke::kernels {
namespace {

double round_to_f16(double x) {
  return double{to_float(to_f16(static_cast<float>(x)))};
}

/// had128(x ⊙ suh), with the fp16 roundings of the contract when `rounded`.
std::vector<double> transformed_input(const ConstTensorView& x, int64_t row, const Exl3Matrix& w,
                                      bool rounded) {
  std::vector<double> z(static_cast<size_t>(w.in));
  for (int64_t i = 0; i < w.in; ++i) {
    const double value = load_float(x, row * w.in + i);
    const double scale = to_float(w.suh[i]);
    z[static_cast<size_t>(i)] = rounded ? round_to_f16(round_to_f16(value) * scale) : value * scale;
  }
  for (int64_t i = 0; i < w.in; i += kHadamardBlock) hadamard128(z.data() + i);
  for (double& value : z) {
    value *= 1.0 / std::sqrt(128.0);
    if (rounded) value = round_to_f16(value);
  }
  return z;
}

}  // namespace

void exl3_matmul_ref(TensorView y, ConstTensorView x, const Exl3Matrix& w,
                     Stream& stream) noexcept {
  stream.launch("exl3_matmul_ref", [=] {
    std::vector<f16> inner(static_cast<size_t>(w.in * w.out));
    exl3_decode_inner({inner.data(), DType::f16, {w.in, w.out}}, w);
    for (int64_t r = 0; r < x.elements() / w.in; ++r) {
      const std::vector<double> z = transformed_input(x, r, w, x.dtype != DType::f32);
      std::vector<double> v(static_cast<size_t>(w.out));
      for (size_t k = 0; k < z.size(); ++k) {
        for (size_t n = 0; n < v.size(); ++n)
          v[n] += z[k] * double{to_float(inner[k * v.size() + n])};
      }
      for (int64_t n = 0; n < w.out; n += kHadamardBlock) hadamard128(v.data() + n);
      for (int64_t n = 0; n < w.out; ++n) {
        const double value =
            v[static_cast<size_t>(n)] / std::sqrt(128.0) * double{to_float(w.svh[n])};
        store_float(y, r * w.out + n, static_cast<float>(value));
      }
    }
  });
}

}  // namespace yoke::kernels
