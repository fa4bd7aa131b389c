#include "kernels/exl3/exl3.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "kernels/testing/compare.h"
#include "kernels/testing/exl3_matrix.h"
#include "kernels/testing/simd.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

using testing::RandomExl3;

constexpr Codebook kCodebooks[] = {Codebook::threeinst, Codebook::mcg, Codebook::mul1};

// --- format
// ---------------------------------------------------------------------------------------

TEST(Exl3Format, tile_positions_are_a_permutation) {
  std::set<int> seen;
  for (int i = 0; i < 256; ++i) seen.insert(exl3_tile_position(i));
  EXPECT_EQ(seen.size(), 256u);
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), 255);
}

// spec/exl3.md 3.4: words 0x2009 0xE368 … 0xA6B6 0x48F7 of a K = 4 tile.
TEST(Exl3Format, worked_example_of_the_specification) {
  uint16_t words[64] = {0x2009, 0xE368};
  words[62] = 0xA6B6;
  words[63] = 0x48F7;
  uint16_t states[256];
  exl3_tile_states(states, words, 4);
  constexpr uint16_t kExpected[] = {0x6B6E, 0xB6E3, 0x6E36, 0xE368, 0x3682, 0x6820, 0x8200, 0x2009};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(states[i], kExpected[i]) << i;
}

class Exl3Bits : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(K, Exl3Bits, ::testing::Range(1, 9));

TEST_P(Exl3Bits, packing_inverts_unpacking) {
  const int bits = GetParam();
  testing::Random random(41);
  SCOPED_TRACE(random.trace());
  for (int tile = 0; tile < 50; ++tile) {
    std::vector<uint16_t> words(static_cast<size_t>(16 * bits));
    for (uint16_t& w : words) w = static_cast<uint16_t>(random.bits());
    uint16_t states[256];
    exl3_tile_states(states, words.data(), bits);
    for (int i = 0; i < 256; ++i) {
      const uint16_t before = states[(i + 255) % 256];
      const uint32_t symbol = states[i] & ((1u << bits) - 1);
      ASSERT_EQ(states[i], static_cast<uint16_t>(before << bits | symbol)) << i;
    }
    std::vector<uint16_t> packed(words.size(), 0xABCD);
    exl3_pack_tile(packed.data(), states, bits);
    ASSERT_EQ(packed, words);
  }
}

TEST(Exl3Format, signs_are_read_from_the_lowest_bit_up) {
  const uint16_t words[] = {0x0001, 0x8000};
  f16 scales[32];
  exl3_unpack_signs(scales, words, 32);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(to_float(scales[i]), i == 0 || i == 31 ? -1.0f : 1.0f);
}

// --- decoding inside the product
// ---------------------------------------------------------------------------------------

Tensor product(const Exl3Matrix& w, ConstTensorView x, DType y_type, int threads = 1) {
  testing::Compute compute(threads);
  const int64_t rows = x.dim(0);
  Tensor y = testing::unwritten(y_type, {rows, w.out});
  Tensor scratch = testing::unwritten(DType::f32, {exl3_scratch_floats(w, rows)});
  exl3_matmul(y.view(), x, w, scratch.view(), compute.stream);
  return y;
}

struct Case {
  int64_t in;
  int64_t out;
  int64_t rows;
  int bits;
  Codebook codebook;
};
const Case kCases[] = {
    {128, 128, 1, 4, Codebook::mcg},  {128, 256, 5, 1, Codebook::mul1},
    {256, 128, 9, 2, Codebook::mcg},  {384, 384, 2, 5, Codebook::threeinst},
    {640, 256, 7, 8, Codebook::mul1}, {1024, 128, 4, 7, Codebook::mcg},
};

// A float sum of d terms that are added one after the other, errors of half a unit each, is off by
// about sqrt(d) · 2^-24 of the result's size; d leaves room for the worst element of a small
// matrix. d: the terms, 14 butterflies, scales and store.
double float_share(int64_t in) {
  return static_cast<double>(in + 14 + 5) * 0x1p-24;
}

TEST(Exl3Matmul, fp32_path_agrees_with_the_reference) {
  testing::Random random(44);
  SCOPED_TRACE(random.trace());
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::to_string(c.in) + "x" + std::to_string(c.out) + " K" +
                 std::to_string(c.bits));
    const RandomExl3 weight(random, c.in, c.out, c.bits, c.codebook);
    const Tensor x = testing::random_tensor(random, DType::f32, {c.rows, c.in});
    testing::Compute compute;
    Tensor expected(DType::f32, {c.rows, c.out});
    exl3_matmul_ref(expected.view(), x.view(), weight.matrix(), compute.stream);
    testing::for_each_simd_target([&] {
      const Tensor y = product(weight.matrix(), x.view(), DType::f32);
      const double share = float_share(c.in);
      EXPECT_TRUE(testing::rows_close(y.view(), expected.view(), share, 6 * share));
    });
  }
}

// The reference's float64 butterflies put about one value in 2^11 on the other side of an fp16
// rounding: one such input moves y by 2^-10 of one of `in` terms.
TEST(Exl3Matmul, rounded_path_agrees_with_the_reference) {
  testing::Random random(45);
  SCOPED_TRACE(random.trace());
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::to_string(c.in) + "x" + std::to_string(c.out) + " K" +
                 std::to_string(c.bits));
    const RandomExl3 weight(random, c.in, c.out, c.bits, c.codebook);
    const Tensor x = testing::random_tensor(random, DType::bf16, {c.rows, c.in});
    testing::Compute compute;
    Tensor expected(DType::f32, {c.rows, c.out});
    exl3_matmul_ref(expected.view(), x.view(), weight.matrix(), compute.stream);
    testing::for_each_simd_target([&] {
      const Tensor y = product(weight.matrix(), x.view(), DType::f32);
      const double flip = 0x1p-10 / std::sqrt(static_cast<double>(c.in));
      const double share = float_share(c.in) + 2 * flip;
      EXPECT_TRUE(testing::rows_close(y.view(), expected.view(), share, 6 * share));
    });
  }
}

TEST(Exl3Matmul, output_is_the_float_result_rounded_once) {
  testing::Random random(46);
  SCOPED_TRACE(random.trace());
  const RandomExl3 weight(random, 256, 256, 4, Codebook::mcg);
  const Tensor x = testing::random_tensor(random, DType::bf16, {3, 256});
  const Tensor y32 = product(weight.matrix(), x.view(), DType::f32);
  const Tensor y16 = product(weight.matrix(), x.view(), DType::bf16);
  EXPECT_TRUE(testing::same_bits(y16.view(), testing::converted(y32.view(), DType::bf16).view()));
}

TEST(Exl3Matmul, bf16_and_f16_inputs_of_equal_value_give_equal_bits) {
  testing::Random random(47);
  SCOPED_TRACE(random.trace());
  const RandomExl3 weight(random, 128, 128, 4, Codebook::mcg);
  const Tensor x = testing::random_tensor(random, DType::bf16, {2, 128});
  const Tensor half = testing::converted(x.view(), DType::f16);  // exact: 8 bits into 11
  EXPECT_TRUE(testing::same_bits(product(weight.matrix(), x.view(), DType::f32).view(),
                                 product(weight.matrix(), half.view(), DType::f32).view()));
}

TEST(Exl3Matmul, bits_of_a_row_depend_neither_on_other_rows_nor_on_threads) {
  testing::Random random(48);
  SCOPED_TRACE(random.trace());
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const RandomExl3 weight(random, 640, 384, 4, Codebook::mcg);
    const Tensor x = testing::random_tensor(random, dtype, {9, 640});
    testing::for_each_simd_target([&] {
      const Tensor all = product(weight.matrix(), x.view(), dtype);
      for (const int threads : {2, 3, 8})
        EXPECT_TRUE(testing::same_bits(product(weight.matrix(), x.view(), dtype, threads).view(),
                                       all.view()));
      for (int64_t first = 0; first < 9; ++first) {
        for (const int64_t count : {1, 2, 4}) {
          if (first + count > 9) continue;
          const Tensor some =
              product(weight.matrix(), testing::row_range(x.view(), first, count), dtype);
          ASSERT_TRUE(
              testing::same_bits(some.view(), testing::row_range(all.view(), first, count)));
        }
      }
    });
  }
}

TEST(Exl3Matmul, trellis_needs_two_byte_alignment_only) {
  testing::Random random(49);
  SCOPED_TRACE(random.trace());
  for (const int bits : {3, 4}) {
    RandomExl3 weight(random, 128, 128, bits, Codebook::mcg);
    const Tensor x = testing::random_tensor(random, DType::bf16, {1, 128});
    std::vector<uint16_t> shifted(1, 0);
    shifted.insert(shifted.end(), weight.words(), weight.words() + 8 * 8 * 16 * bits);
    Exl3Matrix moved = weight.matrix();
    moved.trellis = shifted.data() + 1;
    EXPECT_TRUE(testing::same_bits(product(moved, x.view(), DType::f32).view(),
                                   product(weight.matrix(), x.view(), DType::f32).view()));
  }
}

TEST(Exl3Matmul, no_rows_is_no_work) {
  testing::Random random(50);
  const RandomExl3 weight(random, 128, 128, 4, Codebook::mcg);
  testing::Compute compute;
  exl3_matmul({nullptr, DType::bf16, {0, 128}}, {nullptr, DType::bf16, {0, 128}}, weight.matrix(),
              {nullptr, DType::f32, {0}}, compute.stream);
}

TEST(Exl3Matmul, replay_reads_new_inputs) {
  testing::Random random(51);
  SCOPED_TRACE(random.trace());
  const RandomExl3 weight(random, 256, 128, 4, Codebook::mcg);
  testing::Compute compute(2);
  Tensor x = testing::random_tensor(random, DType::bf16, {2, 256});
  Tensor y = testing::unwritten(DType::bf16, {2, 128});
  Tensor scratch(DType::f32, {exl3_scratch_floats(weight.matrix(), 2)});
  Stream::Recording recording;
  compute.stream.begin_recording(recording);
  exl3_matmul(y.view(), x.view(), weight.matrix(), scratch.view(), compute.stream);
  compute.stream.end_recording();
  for (int step = 0; step < 2; ++step) {
    for (int64_t i = 0; i < x.view().elements(); ++i)
      store_float(x.view(), i, static_cast<float>(random.normal()));
    Stream::replay(recording);
    EXPECT_TRUE(
        testing::same_bits(y.view(), product(weight.matrix(), x.view(), DType::bf16).view()));
  }
}

// y = x · W with the dense weight: another way to the same numbers.
TEST(Exl3DenseWeight, gives_the_product_of_the_fp32_path) {
  testing::Random random(52);
  SCOPED_TRACE(random.trace());
  const int64_t in = 256;
  const int64_t out = 384;
  const RandomExl3 weight(random, in, out, 4, Codebook::mul1);
  for (const int threads : {1, 3}) {
    testing::Compute compute(threads);
    Tensor dense = testing::unwritten(DType::f32, {out, in});
    exl3_dense_weight(dense.view(), weight.matrix(), compute.stream);
    const Tensor x = testing::random_tensor(random, DType::f32, {2, in});
    Tensor expected(DType::f32, {2, out});
    for (int64_t r = 0; r < 2; ++r) {
      for (int64_t n = 0; n < out; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < in; ++k)
          sum += double{load_float(x.view(), r * in + k)} * load_float(dense.view(), n * in + k);
        store_float(expected.view(), r * out + n, static_cast<float>(sum));
      }
    }
    // The dense weight's own float butterflies add 14 roundings per weight.
    const double share = float_share(in) + 14 * 0x1p-24;
    EXPECT_TRUE(testing::rows_close(product(weight.matrix(), x.view(), DType::f32).view(),
                                    expected.view(), share, 6 * share));
  }
}

}  // namespace
}  // namespace yoke::kernels
