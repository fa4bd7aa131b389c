// dense_product of BF16 rows with BF16 weights by the BF16 dot of AVX-512: a vector of 32 products
// added in pairs to 16 float sums. Included once under the compiler's AVX-512 switch
// (bf16_dot_avx512.cpp) and once by the test, with the instructions imitated.
//
// Reduction tree over `in`, which differs from dense_product.h: sixteen partial sums from +0,
// number l taking the pairs of inputs (2p, 2p + 1) with p mod 16 = l in ascending order; the dot
// adds the product of the odd input to the sum, then that of the even one, each as one fused
// multiply-add that reads subnormals as 0 and flushes subnormal results to 0. Then s[l] += s[l + 8]
// for l < 8, the same with 4, 2 and 1, in ordinary arithmetic. Inputs beyond `in` are zeros. It
// depends on `in` alone.
//
// Rows and weights are read as they lie in memory. Whatever is not a template of Ops must stay out
// of this file: the compiler could merge its two versions.
#include <cstddef>
#include <cstdint>

#include "kernels/linear/dense_product.h"

namespace yoke::kernels {

/// Ops: Bits (32 bf16), Sums (16 floats), zero(), load(p), load_first(p, count),
/// dot(sums, a, b), sum(sums) by the tree.
template <class Ops>
struct Bf16Dot {
  using Bits = typename Ops::Bits;
  using Sums = typename Ops::Sums;

  static constexpr int64_t kInputs = 32;

  template <int kRows, int kOutputs>
  static void tile(float* results, const bf16* const* x, const bf16* const* w, int64_t in) {
    Sums sums[kRows * kOutputs];
    YOKE_BF16_UNROLL
    for (int i = 0; i < kRows * kOutputs; ++i) sums[i] = Ops::zero();
    int64_t k = 0;
    for (; k + kInputs <= in; k += kInputs) {
      Bits inputs[kRows];
      YOKE_BF16_UNROLL
      for (int r = 0; r < kRows; ++r) inputs[r] = Ops::load(x[r] + k);
      YOKE_BF16_UNROLL
      for (int o = 0; o < kOutputs; ++o) {
        const Bits weights = Ops::load(w[o] + k);
        YOKE_BF16_UNROLL
        for (int r = 0; r < kRows; ++r)
          sums[r * kOutputs + o] = Ops::dot(sums[r * kOutputs + o], inputs[r], weights);
      }
    }
    if (k < in) {
      for (int r = 0; r < kRows; ++r) {
        const Bits inputs = Ops::load_first(x[r] + k, in - k);
        for (int o = 0; o < kOutputs; ++o)
          sums[r * kOutputs + o] =
              Ops::dot(sums[r * kOutputs + o], inputs, Ops::load_first(w[o] + k, in - k));
      }
    }
    YOKE_BF16_UNROLL
    for (int i = 0; i < kRows * kOutputs; ++i) results[i] = Ops::sum(sums[i]);
  }

  template <int kRows, int kOutputs>
  static void tile_and_store(const DenseProduct& p, int64_t row, int64_t output) {
    const bf16* x[kRows];
    const bf16* w[kOutputs];
    for (int r = 0; r < kRows; ++r) x[r] = static_cast<const bf16*>(p.x.data) + p.x_row(row + r);
    for (int o = 0; o < kOutputs; ++o)
      w[o] = static_cast<const bf16*>(p.w.data) + p.w_offset + (output + o) * p.in;
    float results[kRows * kOutputs];
    tile<kRows, kOutputs>(results, x, w, p.in);
    for (int r = 0; r < kRows; ++r) {
      for (int o = 0; o < kOutputs; ++o)
        store_float(p.y, p.y_row(row + r) + output + o, results[r * kOutputs + o]);
    }
  }

  template <int kRows, int kOutputs>
  static void rows(const DenseProduct& p, int64_t row, int64_t begin, int64_t end) {
    int64_t o = begin;
    for (; o + kOutputs <= end; o += kOutputs) tile_and_store<kRows, kOutputs>(p, row, o);
    for (; o < end; ++o) tile_and_store<kRows, 1>(p, row, o);
  }

  /// Tiles of 1×8 and 5×4: twenty sums, four inputs and a weight of 32 registers.
  static void multiply(const DenseProduct& p, int64_t row_count, int64_t out_begin,
                       int64_t out_end) {
    // So many outputs that their weights stay in half of a second cache of 1 MiB.
    const int64_t fitting = (int64_t{512} << 10) / (p.in * int64_t{sizeof(bf16)}) / 8 * 8;
    const int64_t chunk = fitting < 8 ? 8 : fitting;
    for (int64_t begin = out_begin; begin < out_end; begin += chunk) {
      const int64_t end = begin + chunk < out_end ? begin + chunk : out_end;
      int64_t r = 0;
      for (; row_count - r >= 5; r += 5) rows<5, 4>(p, r, begin, end);
      for (; row_count - r >= 2; r += 2) rows<2, 8>(p, r, begin, end);
      if (r < row_count) rows<1, 8>(p, r, begin, end);
    }
  }
};

}  // namespace yoke::kernels
