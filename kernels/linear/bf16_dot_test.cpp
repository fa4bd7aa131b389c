// The tiles of bf16_dot-inl.h with the instruction imitated, so that they are proven on machines
// without AVX-512-BF16; and the instruction itself where there is one.
#include "kernels/linear/bf16_dot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "kernels/core/cpu.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/tensors.h"

#define YOKE_BF16_UNROLL
#include "kernels/linear/bf16_dot-inl.h"

namespace yoke::kernels {
namespace {

float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

/// VDPBF16PS as its description has it.
float dot_of_pair(float sum, bf16 a0, bf16 a1, bf16 b0, bf16 b1) {
  const auto input = [](bf16 x) { return flushed(to_float(x)); };
  sum = flushed(std::fma(input(a1), input(b1), flushed(sum)));
  return flushed(std::fma(input(a0), input(b0), sum));
}

float tree(std::array<float, 16> s) {
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t l = 0; l < half; ++l) s[l] += s[l + half];
  }
  return s[0];
}

struct Imitated {
  using Bits = std::array<bf16, 32>;
  using Sums = std::array<float, 16>;
  static Sums zero() { return {}; }
  static Bits load(const bf16* p) { return load_first(p, 32); }
  static Bits load_first(const bf16* p, int64_t count) {
    Bits b{};
    std::copy_n(p, count, b.begin());
    return b;
  }
  static Sums dot(Sums s, const Bits& a, const Bits& b) {
    for (size_t l = 0; l < 16; ++l)
      s[l] = dot_of_pair(s[l], a[2 * l], a[2 * l + 1], b[2 * l], b[2 * l + 1]);
    return s;
  }
  static float sum(const Sums& s) { return tree(s); }
};

/// The tree of bf16_dot-inl.h, spelled out.
float stated_sum(const bf16* x, const bf16* w, int64_t in) {
  std::array<float, 16> s{};
  for (int64_t k = 0; k < in; k += 2) {
    const bf16 x1 = k + 1 < in ? x[k + 1] : bf16{0};
    const bf16 w1 = k + 1 < in ? w[k + 1] : bf16{0};
    float& sum = s[static_cast<size_t>(k / 2 % 16)];
    sum = dot_of_pair(sum, x[k], x1, w[k], w1);
  }
  return tree(s);
}

struct Case {
  Case(testing::Random& random, int64_t rows, int64_t in, int64_t out)
      : x(testing::random_tensor(random, DType::bf16, {rows, in})),
        w(testing::random_tensor(random, DType::bf16, {out, in})),
        y(testing::unwritten(DType::f32, {rows, out})),
        product{.y = y.view(),
                .x = std::as_const(x).view(),
                .w = std::as_const(w).view(),
                .in = in,
                .x_stride = in,
                .y_stride = out} {}

  void expect_stated_sums() const {
    const int64_t in = product.in;
    const int64_t out = product.y_stride;
    for (int64_t i = 0; i < y.view().elements(); ++i)
      ASSERT_EQ(y.view().as<float>()[i], stated_sum(x.view().as<bf16>() + i / out * in,
                                                    w.view().as<bf16>() + i % out * in, in))
          << "row " << i / out << " output " << i % out << " in " << in;
  }

  Tensor x, w, y;
  DenseProduct product;
};

template <class Multiply>
void expect_stated_sums_for_all_shapes(const Multiply& multiply) {
  testing::Random random(91);
  SCOPED_TRACE(random.trace());
  for (const int64_t in : {1, 2, 31, 32, 33, 64, 700}) {
    for (int64_t rows = 1; rows <= 13; ++rows) {
      Case c(random, rows, in, 1 + random.below(30));
      store_float(c.x.view(), 0, 0x1p-130f);  // a subnormal
      multiply(c.product, rows);
      c.expect_stated_sums();
    }
  }
  Case wide(random, 6, 40'000, 20);  // weights of several chunks
  multiply(wide.product, 6);
  wide.expect_stated_sums();
}

TEST(Bf16Dot, imitated_tiles_give_the_stated_sums) {
  expect_stated_sums_for_all_shapes([](const DenseProduct& p, int64_t rows) {
    Bf16Dot<Imitated>::multiply(p, rows, 0, p.y_stride);
  });
}

TEST(Bf16Dot, instruction_gives_the_stated_sums) {
  if (std::ranges::count(simd_targets(), SimdTarget::avx512_bf16) == 0)
    GTEST_SKIP() << "this machine has no AVX-512-BF16: bf16_dot_avx512.cpp is compiled, not run";
  expect_stated_sums_for_all_shapes([](const DenseProduct& p, int64_t rows) {
    ASSERT_TRUE(uses_bf16_dot(p));
    bf16_dot_product(p, rows, 0, p.y_stride);
  });
}

}  // namespace
}  // namespace yoke::kernels
