// Every instruction set, row count, thread count and form of the weights against the plain loops of
// exl3_plain.cpp, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/core/row_groups.h"
#include "kernels/exl3/exl3.h"
#include "kernels/exl3/exl3_packed.h"
#include "kernels/exl3/exl3_product.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/simd.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

using testing::Random;

constexpr Codebook kCodebooks[] = {Codebook::threeinst, Codebook::mcg, Codebook::mul1};

/// A matrix of random words in both forms.
struct RandomMatrix {
  RandomMatrix(Random& random, int64_t in, int64_t out, int bits, Codebook codebook)
      : words(static_cast<size_t>(in * out * bits / 16)) {
    for (uint16_t& word : words) word = static_cast<uint16_t>(random.bits());
    suh = testing::random_tensor(random, DType::f16, {in});
    svh = testing::random_tensor(random, DType::f16, {out});
    both = {.in = in,
            .out = out,
            .bits = bits,
            .codebook = codebook,
            .trellis = words.data(),
            .suh = suh.view().as<f16>(),
            .svh = svh.view().as<f16>()};
    packed_bytes = Buffer(exl3_packed_bytes(both));
    exl3_pack(packed_bytes.data(), both);
    both.packed = packed_bytes.data();
  }
  Exl3Matrix packed_only() const {
    Exl3Matrix w = both;
    w.trellis = nullptr;
    return w;
  }
  Exl3Matrix trellis_only() const {
    Exl3Matrix w = both;
    w.packed = nullptr;
    return w;
  }

  std::vector<uint16_t> words;
  Tensor suh, svh;
  Buffer packed_bytes;
  Exl3Matrix both;
};

/// y by the plain stages, row by row: the definition of every bit.
Tensor plain_product(ConstTensorView x, const Exl3Matrix& w, DType dtype) {
  const int64_t rows = x.elements() / w.in;
  Tensor y = testing::unwritten(dtype, {rows, w.out});
  std::vector<float> z(static_cast<size_t>(w.in));
  std::vector<float> v(static_cast<size_t>(kExl3Block));
  for (int64_t r = 0; r < rows; ++r) {
    exl3_plain::transform_input(z.data(), 0, 1, x, r, w);
    for (int64_t b = 0; b < w.out / kExl3Block; ++b) {
      exl3_plain::multiply_block(v.data(), z.data(), 1, w, b);
      exl3_plain::store_block(y.view(), r, v.data(), w, b);
    }
  }
  return y;
}

Tensor product(ConstTensorView x, const Exl3Matrix& w, DType dtype, int threads) {
  const int64_t rows = x.elements() / w.in;
  testing::Compute compute(threads);
  Tensor y = testing::unwritten(dtype, {rows, w.out});
  Tensor scratch = testing::unwritten(DType::f32, {exl3_scratch_floats(w, rows)});
  exl3_matmul(y.view(), x, w, scratch.view(), compute.stream);
  return y;
}

class Exl3Simd : public ::testing::TestWithParam<std::tuple<Codebook, int>> {
 protected:
  Codebook codebook() const { return std::get<0>(GetParam()); }
  int bits() const { return std::get<1>(GetParam()); }
};
std::string case_name(const ::testing::TestParamInfo<Exl3Simd::ParamType>& test) {
  constexpr const char* kNames[] = {"threeinst", "mcg", "mul1"};
  return std::string(kNames[static_cast<int>(std::get<0>(test.param))]) + "_k" +
         std::to_string(std::get<1>(test.param));
}
INSTANTIATE_TEST_SUITE_P(All, Exl3Simd,
                         ::testing::Combine(::testing::ValuesIn(kCodebooks),
                                            ::testing::Range(1, 9)),
                         case_name);

TEST_P(Exl3Simd, packing_keeps_every_bit) {
  Random random(1);
  SCOPED_TRACE(random.trace());
  const RandomMatrix m(random, 256, 128, bits(), codebook());
  EXPECT_EQ(exl3_packed_bytes(m.both), m.words.size() * 2);
  std::vector<uint16_t> left(static_cast<size_t>(16 * bits()));
  std::vector<uint16_t> right(left.size());
  for (int64_t tk = 0; tk < 16; ++tk) {
    for (int64_t strip = 0; strip < 4; ++strip) {
      exl3_unpack_pair(left.data(), right.data(),
                       m.packed_bytes.data() + exl3_pair_offset(m.both, strip, tk), bits());
      const auto* tile = m.words.data() + (tk * 8 + 2 * strip) * 16 * bits();
      EXPECT_TRUE(std::equal(left.begin(), left.end(), tile)) << tk << ' ' << strip;
      EXPECT_TRUE(std::equal(right.begin(), right.end(), tile + 16 * bits())) << tk << ' ' << strip;
    }
  }
}

/// The rows of the unit matrix as the products take them: they read the inner weights back.
std::vector<float> unit_rows() {
  std::vector<float> z(128 * 128, 0.0f);
  for (int64_t k = 0; k < 128; ++k) {
    const int64_t first = k / kGroupRows * kGroupRows;
    const int64_t place = k / 16 * 16 + exl3_row_place(k % 16);
    z[static_cast<size_t>(first * 128 + place * group_size(128, first) + (k - first))] = 1.0f;
  }
  return z;
}

/// exl3_multiply_block against exl3_decode_inner, for a matrix of 128 inputs.
void expect_inner_weights(const Exl3Matrix& w, const std::vector<f16>& inner) {
  const std::vector<float> unit = unit_rows();
  std::vector<float> v(128 * 128);
  for (int64_t first = 0; first < w.out; first += kExl3Block) {
    exl3_multiply_block(v.data(), unit.data(), 128, w, first / kExl3Block);
    for (int64_t i = 0; i < 128 * kExl3Block; ++i) {
      const int64_t row = i / kExl3Block;
      const int64_t column = first + i % kExl3Block;
      ASSERT_EQ(v[static_cast<size_t>(i)],
                to_float(inner[static_cast<size_t>(row * w.out + column)]))
          << "row " << row << " column " << column;
    }
  }
}

std::vector<f16> decoded_inner(const Exl3Matrix& w) {
  std::vector<f16> inner(static_cast<size_t>(w.in * w.out));
  exl3_decode_inner({inner.data(), DType::f16, {w.in, w.out}}, w);
  return inner;
}

TEST_P(Exl3Simd, decoding_reads_either_form) {
  Random random(7);
  SCOPED_TRACE(random.trace());
  const RandomMatrix m(random, 128, 128, bits(), codebook());
  EXPECT_EQ(decoded_inner(m.packed_only()), decoded_inner(m.trellis_only()));
  testing::Compute compute;
  Tensor from_trellis = testing::unwritten(DType::f32, {128, 128});
  Tensor from_packed = testing::unwritten(DType::f32, {128, 128});
  exl3_dense_weight(from_trellis.view(), m.trellis_only(), compute.stream);
  exl3_dense_weight(from_packed.view(), m.packed_only(), compute.stream);
  EXPECT_TRUE(testing::same_bits(from_packed.view(), from_trellis.view()));
}

TEST_P(Exl3Simd, decodes_every_weight) {
  Random random(2);
  SCOPED_TRACE(random.trace());
  const RandomMatrix m(random, 128, 256, bits(), codebook());
  const std::vector<f16> inner = decoded_inner(m.both);
  testing::for_each_simd_target([&] {
    expect_inner_weights(m.packed_only(), inner);
    expect_inner_weights(m.trellis_only(), inner);
  });
}

TEST_P(Exl3Simd, product_is_the_plain_one_for_every_row_count) {
  Random random(3);
  SCOPED_TRACE(random.trace());
  const RandomMatrix m(random, 384, 256, bits(), codebook());
  const Tensor x = testing::random_tensor(random, DType::bf16, {9, 384});
  const Tensor expected = plain_product(x.view(), m.both, DType::f32);
  testing::for_each_simd_target([&] {
    for (int64_t rows = 1; rows <= 9; ++rows) {
      for (const Exl3Matrix& w : {m.packed_only(), m.trellis_only()}) {
        const Tensor y = product(testing::row_range(x.view(), 0, rows), w, DType::f32, 1);
        EXPECT_TRUE(testing::same_bits(y.view(), testing::row_range(expected.view(), 0, rows)))
            << rows << " rows";
      }
    }
  });
}

// Random words of 2^20 weights hold all 65,536 states.
TEST(Exl3SimdStates, every_state_of_every_codebook) {
  Random random(4);
  SCOPED_TRACE(random.trace());
  for (const Codebook codebook : kCodebooks) {
    const RandomMatrix m(random, 128, 128 * 64, 4, codebook);
    std::vector<bool> seen(65536);
    uint16_t states[256];
    for (size_t tile = 0; tile < m.words.size(); tile += 64) {
      exl3_tile_states(states, m.words.data() + tile, 4);
      for (const uint16_t state : states) seen[state] = true;
    }
    ASSERT_EQ(std::count(seen.begin(), seen.end(), true), 65536);
    const std::vector<f16> inner = decoded_inner(m.both);
    testing::for_each_simd_target([&] { expect_inner_weights(m.packed_only(), inner); });
  }
}

TEST(Exl3SimdRows, many_rows_and_threads_change_no_bit) {
  Random random(5);
  SCOPED_TRACE(random.trace());
  const RandomMatrix m(random, 512, 384, 4, Codebook::mcg);
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const Tensor x = testing::random_tensor(random, dtype, {130, 512});
    const Tensor expected = plain_product(x.view(), m.both, dtype);
    testing::for_each_simd_target([&] {
      for (const int64_t rows : {1, 7, 16, 64, 130}) {
        for (const int threads : {1, 2, 3}) {
          const Tensor y = product(testing::row_range(x.view(), 130 - rows, rows), m.packed_only(),
                                   dtype, threads);
          EXPECT_TRUE(
              testing::same_bits(y.view(), testing::row_range(expected.view(), 130 - rows, rows)))
              << rows << " rows, " << threads << " threads";
        }
      }
    });
  }
}

TEST(Exl3SimdRows, extreme_inputs_are_those_of_the_plain_version) {
  Random random(6);
  SCOPED_TRACE(random.trace());
  RandomMatrix m(random, 128, 128, 4, Codebook::mcg);
  m.suh.view().as<f16>()[3] = {0x0001};  // the smallest subnormal
  m.svh.view().as<f16>()[5] = {0x0000};
  Tensor x = testing::random_tensor(random, DType::bf16, {4, 128});
  store_float(x.view(), 0 * 128 + 3, 30000.0f);
  store_float(x.view(), 1 * 128 + 7, 0x1p-130f);  // a subnormal bf16
  store_float(x.view(), 2 * 128 + 9, 1e6f);       // infinite as a half
  std::fill_n(static_cast<bf16*>(x.view().data) + 3 * 128, 128, bf16{0});
  const Tensor expected = plain_product(x.view(), m.both, DType::bf16);
  testing::for_each_simd_target([&] {
    const Tensor y = product(x.view(), m.both, DType::bf16, 1);
    EXPECT_TRUE(testing::same_bits(testing::row_range(y.view(), 0, 2),
                                   testing::row_range(expected.view(), 0, 2)));
    EXPECT_TRUE(testing::all_close(testing::row_range(y.view(), 2, 2),
                                   testing::row_range(expected.view(), 2, 2), {}));
  });
}

}  // namespace
}  // namespace yoke::kernels
