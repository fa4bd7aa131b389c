// The unscaled 128-point Walsh-Hadamard transform in natural order, ascending strides: the order of
// additions that EXL3 means (spec/exl3.md 5.1). Internal to kernels/exl3.
#pragma once

namespace yoke::kernels {

constexpr int kHadamardBlock = 128;
/// 1/sqrt(128) as float, 0x3DB504F3.
constexpr float kHadamardScale = 0x1.6a09e6p-4f;

template <class T>
void hadamard128(T* x) {
  for (int stride = 1; stride < kHadamardBlock; stride *= 2) {
    for (int block = 0; block < kHadamardBlock; block += 2 * stride) {
      for (int i = block; i < block + stride; ++i) {
        const T a = x[i];
        const T b = x[i + stride];
        x[i] = a + b;
        x[i + stride] = a - b;
      }
    }
  }
}

}  // namespace yoke::kernels
