#include "kernels/linear/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/exl3/exl3.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/exl3_matrix.h"
#include "kernels/testing/simd.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

Tensor product(ConstTensorView weight, ConstTensorView x, DType y_type, int threads = 1) {
  testing::Compute compute(threads);
  Tensor y = testing::unwritten(y_type, {x.dim(0), weight.dim(0)});
  const LinearWeight w{.dense = weight, .exl3 = {}};
  Tensor scratch = testing::unwritten(DType::f32, {linear_scratch_floats(w, x.dim(0))});
  linear(y.view(), x, w, scratch.view(), compute.stream);
  return y;
}

Tensor reference(ConstTensorView weight, ConstTensorView x, DType y_type) {
  testing::Compute compute;
  Tensor y = testing::unwritten(y_type, {x.dim(0), weight.dim(0)});
  linear_ref(y.view(), x, weight, compute.stream);
  return y;
}

TEST(Linear, known_answer) {
  const Tensor w = testing::tensor_of(DType::bf16, {2, 3}, {1, 2, 3, -1, 0.5, 0});
  const Tensor x = testing::tensor_of(DType::bf16, {2, 3}, {1, 1, 1, 2, 4, -8});
  const Tensor expected = testing::tensor_of(DType::bf16, {2, 2}, {6, -0.5, -14, 0});
  testing::for_each_simd_target([&] {
    EXPECT_TRUE(
        testing::same_bits(product(w.view(), x.view(), DType::bf16).view(), expected.view()));
  });
  EXPECT_TRUE(
      testing::same_bits(reference(w.view(), x.view(), DType::bf16).view(), expected.view()));
}

// Each partial sum makes at most 1024/16 roundings, the tree four more and each section one, each
// at most 2^-24 of the sum of magnitudes; the reference rounds once to float.
Tensor float_bounds(ConstTensorView weight, ConstTensorView x) {
  const Tensor magnitudes =
      reference(testing::absolute(weight).view(), testing::absolute(x).view(), DType::f32);
  Tensor bounds(DType::f32, magnitudes.view().shape);
  const auto in = static_cast<double>(weight.dim(1));
  const double steps = std::ceil(std::min(in, 1024.0) / 16) + 4 + std::ceil(in / 1024) + 1;
  for (int64_t i = 0; i < bounds.view().elements(); ++i)
    store_float(bounds.view(), i,
                static_cast<float>(1.001 * steps * 0x1p-24 * load_float(magnitudes.view(), i)));
  return bounds;
}

TEST(Linear, agrees_with_the_reference_for_odd_lengths_row_counts_and_types) {
  testing::Random random(61);
  SCOPED_TRACE(random.trace());
  for (const DType w_type : {DType::bf16, DType::f16, DType::f32}) {
    for (const DType x_type : {DType::bf16, DType::f32}) {
      for (const int64_t in : {1, 3, 17, 64, 127, 128, 1000}) {
        for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
          const int64_t out = 1 + random.below(20);
          SCOPED_TRACE(std::string(dtype_name(w_type)) + "·" + dtype_name(x_type) + " in " +
                       std::to_string(in) + " out " + std::to_string(out) + " rows " +
                       std::to_string(rows));
          const Tensor w = testing::random_tensor(random, w_type, {out, in});
          const Tensor x = testing::random_tensor(random, x_type, {rows, in});
          const Tensor expected = reference(w.view(), x.view(), DType::f32);
          const Tensor bounds = float_bounds(w.view(), x.view());
          testing::for_each_simd_target([&] {
            ASSERT_TRUE(testing::all_within(product(w.view(), x.view(), DType::f32).view(),
                                            expected.view(), bounds.view()));
          });
        }
      }
    }
  }
}

/// The tree of dense_product.h, spelled out.
float tree_sum(ConstTensorView w, int64_t o, ConstTensorView x, int64_t r) {
  const int64_t in = w.dim(1);
  float total = 0;
  for (int64_t begin = 0; begin < in; begin += 1024) {
    float sums[16] = {};
    for (int64_t k = begin; k < std::min(in, begin + 1024); ++k)
      sums[k % 16] = std::fma(load_float(w, o * in + k), load_float(x, r * in + k), sums[k % 16]);
    for (int half = 8; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) sums[l] += sums[l + half];
    }
    total = begin == 0 ? sums[0] : total + sums[0];
  }
  return total;
}

TEST(Linear, sums_by_the_stated_tree) {
  testing::Random random(62);
  SCOPED_TRACE(random.trace());
  for (const int64_t in : {1, 15, 16, 17, 40, 1000, 1024, 1025, 2100}) {
    const Tensor w = testing::random_tensor(random, DType::bf16, {37, in});
    const Tensor x = testing::random_tensor(random, DType::f32, {8, in});
    testing::for_each_simd_target([&] {
      for (const int64_t rows : {5, 8}) {  // below and above the count from which rows are packed
        const Tensor y = product(w.view(), testing::row_range(x.view(), 0, rows), DType::f32);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t o = 0; o < 37; ++o)
            ASSERT_EQ(load_float(y.view(), r * 37 + o), tree_sum(w.view(), o, x.view(), r))
                << "in " << in << " [" << r << ", " << o << "]";
        }
      }
    });
  }
}

TEST(Linear, output_is_the_float_result_rounded_once) {
  testing::Random random(63);
  SCOPED_TRACE(random.trace());
  const Tensor w = testing::random_tensor(random, DType::bf16, {33, 100});
  const Tensor x = testing::random_tensor(random, DType::bf16, {4, 100});
  const Tensor y32 = product(w.view(), x.view(), DType::f32);
  const Tensor y16 = product(w.view(), x.view(), DType::bf16);
  EXPECT_TRUE(testing::same_bits(y16.view(), testing::converted(y32.view(), DType::bf16).view()));
}

TEST(Linear, bits_of_a_row_depend_neither_on_other_rows_nor_on_threads) {
  testing::Random random(64);
  SCOPED_TRACE(random.trace());
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const int64_t in : {17, 128, 1000}) {
      const Tensor w = testing::random_tensor(random, DType::bf16, {301, in});
      const Tensor x = testing::random_tensor(random, dtype, {9, in});
      testing::for_each_simd_target([&] {
        const Tensor all = product(w.view(), x.view(), dtype);
        for (const int threads : {2, 3, 8})
          EXPECT_TRUE(
              testing::same_bits(product(w.view(), x.view(), dtype, threads).view(), all.view()));
        for (int64_t first = 0; first < 9; ++first) {
          for (int64_t count = 1; first + count <= 9; ++count) {
            const Tensor some =
                product(w.view(), testing::row_range(x.view(), first, count), dtype);
            ASSERT_TRUE(
                testing::same_bits(some.view(), testing::row_range(all.view(), first, count)))
                << first << "+" << count;
          }
        }
      });
    }
  }
}

TEST(Linear, many_rows_and_all_types_give_the_bits_of_one_row) {
  testing::Random random(70);
  SCOPED_TRACE(random.trace());
  constexpr int64_t kMany = 130;
  for (const DType w_type : {DType::bf16, DType::f16, DType::f32}) {
    for (const DType x_type : {DType::bf16, DType::f32}) {
      for (const int64_t in : {40, 512, 2100}) {
        if (in > 512 && w_type != DType::bf16) continue;  // takes minutes in instrumented builds
        const Tensor w = testing::random_tensor(random, w_type, {83, in});
        const Tensor x = testing::random_tensor(random, x_type, {kMany, in});
        testing::for_each_simd_target([&] {
          Tensor ones = testing::unwritten(x_type, {kMany, 83});
          testing::Compute compute;
          for (int64_t r = 0; r < kMany; ++r)
            linear(testing::row_range(ones.view(), r, 1), testing::row_range(x.view(), r, 1),
                   {.dense = w.view(), .exl3 = {}}, {}, compute.stream);
          for (const int64_t rows : {16, 64, 130}) {
            for (const int threads : {1, 3}) {
              const Tensor y =
                  product(w.view(), testing::row_range(x.view(), 0, rows), x_type, threads);
              ASSERT_TRUE(testing::same_bits(y.view(), testing::row_range(ones.view(), 0, rows)))
                  << "in " << in << " rows " << rows << " threads " << threads;
            }
          }
        });
      }
    }
  }
}

// Tensor parallelism slices outputs, and threads take any range of them.
TEST(Linear, bits_of_an_output_do_not_depend_on_its_neighbours) {
  testing::Random random(65);
  SCOPED_TRACE(random.trace());
  const Tensor w = testing::random_tensor(random, DType::bf16, {23, 130});
  const Tensor x = testing::random_tensor(random, DType::bf16, {1, 130});
  const Tensor all = product(w.view(), x.view(), DType::f32);
  for (int64_t first = 0; first < 23; ++first) {
    const Tensor one = product(testing::row_range(w.view(), first, 1), x.view(), DType::f32);
    EXPECT_EQ(load_float(one.view(), 0), load_float(all.view(), first));
  }
}

TEST(Linear, a_broken_row_breaks_no_other) {
  testing::Random random(66);
  SCOPED_TRACE(random.trace());
  for (const int64_t in : {20, 64}) {
    const Tensor w = testing::random_tensor(random, DType::bf16, {9, in});
    Tensor x = testing::random_tensor(random, DType::bf16, {5, in});
    const Tensor clean = product(w.view(), x.view(), DType::bf16);
    store_float(x.view(), 2 * in + in - 1, std::numeric_limits<float>::quiet_NaN());
    store_float(x.view(), 4 * in, std::numeric_limits<float>::infinity());
    const Tensor y = product(w.view(), x.view(), DType::bf16);
    for (const int64_t r : {0, 1, 3})
      EXPECT_TRUE(testing::same_bits(testing::row_range(y.view(), r, 1),
                                     testing::row_range(clean.view(), r, 1)));
    for (int64_t o = 0; o < 9; ++o) {
      EXPECT_TRUE(std::isnan(load_float(y.view(), 2 * 9 + o)));
      EXPECT_FALSE(std::isfinite(load_float(y.view(), 4 * 9 + o)));
    }
  }
}

TEST(Linear, no_rows_is_no_work) {
  testing::Random random(67);
  const Tensor w = testing::random_tensor(random, DType::bf16, {4, 8});
  testing::Compute compute;
  linear({nullptr, DType::bf16, {0, 4}}, {nullptr, DType::bf16, {0, 8}},
         {.dense = w.view(), .exl3 = {}}, {}, compute.stream);
}

TEST(Linear, exl3_weights_go_to_the_exl3_product) {
  testing::Random random(68);
  SCOPED_TRACE(random.trace());
  const testing::RandomExl3 weight(random, 128, 256, 4, Codebook::mcg);
  const Tensor x = testing::random_tensor(random, DType::bf16, {3, 128});
  testing::Compute compute;
  Tensor scratch(DType::f32, {exl3_scratch_floats(weight.matrix(), 3)});
  Tensor expected = testing::unwritten(DType::bf16, {3, 256});
  Tensor y = testing::unwritten(DType::bf16, {3, 256});
  exl3_matmul(expected.view(), x.view(), weight.matrix(), scratch.view(), compute.stream);
  linear(y.view(), x.view(), {.dense = {}, .exl3 = weight.matrix()}, scratch.view(),
         compute.stream);
  EXPECT_TRUE(testing::same_bits(y.view(), expected.view()));
}

TEST(Linear, replay_reads_new_inputs) {
  testing::Random random(69);
  SCOPED_TRACE(random.trace());
  testing::Compute compute(2);
  const Tensor w = testing::random_tensor(random, DType::bf16, {200, 64});
  Tensor x = testing::random_tensor(random, DType::bf16, {3, 64});
  Tensor y = testing::unwritten(DType::bf16, {3, 200});
  Stream::Recording recording;
  compute.stream.begin_recording(recording);
  linear(y.view(), x.view(), {.dense = w.view(), .exl3 = {}}, {}, compute.stream);
  compute.stream.end_recording();
  for (int step = 0; step < 2; ++step) {
    for (int64_t i = 0; i < x.view().elements(); ++i)
      store_float(x.view(), i, static_cast<float>(random.normal()));
    Stream::replay(recording);
    EXPECT_TRUE(testing::same_bits(y.view(), product(w.view(), x.view(), DType::bf16).view()));
  }
}

}  // namespace
}  // namespace yoke::kernels
