#include "kernels/mla_attention/mla_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/testing/compare.h"
#include "kernels/testing/schedule.h"
#include "kernels/testing/simd.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

using testing::Compute;
using testing::Random;
using testing::same_bits;
using testing::ScheduledStep;
using testing::ScheduleShape;
using testing::unwritten;

constexpr int64_t kHeads = 7;  // a full group of heads and a part of one
constexpr int64_t kRank = 40;  // a full vector of lanes and a part of one
constexpr float kScale = 0.25f;

/// Latents of every position, and for each position the list it attends to.
struct Inputs {
  Inputs(Random& random, const ScheduleShape& shape, DType act)
      : latent(random, shape, act, {kRank}), q(random, shape, act, {kHeads, kRank}) {
    for (int32_t t = 0; t < shape.max_positions(); ++t) {
      std::vector<int32_t> list;
      for (int32_t s = 0; s <= t; ++s) {
        if (s == t || random.below(4) != 0) list.push_back(s);
      }
      lists.push_back(std::move(list));
    }
  }
  testing::RowSource latent, q;
  std::vector<std::vector<int32_t>> lists;
};

Tensor run(const std::vector<ScheduledStep>& steps, const ScheduleShape& shape, const Inputs& in,
           Random& random, int threads = 1) {
  const DType act = in.q.truth.view().dtype;
  Tensor cache = unwritten(act, {shape.cache_rows(), kRank});
  testing::StepTable table(random, shape);
  testing::RowSink out(shape, act, {kHeads, kRank});
  Compute compute(threads);
  for (const ScheduledStep& step : steps) {
    const StepRows rows = table.fill(step);
    const Tensor latent = in.latent.rows(step);
    const Tensor q = in.q.rows(step);
    const size_t line = static_cast<size_t>(kRank) * dtype_bytes(act);
    Tensor selected = unwritten(DType::i32, {step.bucket(), shape.max_positions()});
    Tensor count(DType::i32, {step.bucket()});
    for (size_t r = 0; r < step.rows.size(); ++r) {
      const testing::ScheduledRow& row = step.rows[r];
      const int64_t at = rows.cache_row(rows.slot[r], row.position);
      std::memcpy(static_cast<std::byte*>(cache.view().data) + static_cast<size_t>(at) * line,
                  static_cast<const std::byte*>(latent.view().data) + r * line, line);
      const std::vector<int32_t>& list = in.lists[static_cast<size_t>(row.position)];
      std::copy(list.begin(), list.end(),
                selected.view().as<int32_t>() + static_cast<int64_t>(r) * shape.max_positions());
      count.view().as<int32_t>()[r] = static_cast<int32_t>(list.size());
    }
    Tensor z = unwritten(act, {step.bucket(), kHeads, kRank});
    mla_attention(z.view(), q.view(), cache.view(), selected.view(), count.view(), kScale, rows,
                  compute.stream);
    out.take(step, z.view());
    for (int64_t r = static_cast<int64_t>(step.rows.size()); r < step.bucket(); ++r) {
      const Tensor zero(act, {1, kHeads, kRank});
      EXPECT_TRUE(same_bits(testing::row_range(ConstTensorView(z.view()), r, 1), zero.view()));
    }
  }
  return testing::copy_of(out.view());
}

Tensor attention_in_double(const ScheduleShape& shape, const Inputs& in) {
  Tensor out(DType::f32, {shape.sequences, shape.length, kHeads, kRank});
  for (int64_t s = 0; s < shape.sequences; ++s) {
    for (int64_t t = 0; t < shape.length; ++t) {
      for (int64_t h = 0; h < kHeads; ++h) {
        const auto latent = [&](int32_t position, int64_t d) {
          return static_cast<double>(load_float(
              in.latent.truth.view(), (s * shape.max_positions() + position) * kRank + d));
        };
        const int64_t query = ((s * shape.max_positions() + t) * kHeads + h) * kRank;
        double sum = 0;
        std::vector<double> z(kRank, 0.0);
        for (const int32_t position : in.lists[static_cast<size_t>(t)]) {
          double dot = 0;
          for (int64_t d = 0; d < kRank; ++d)
            dot += load_float(in.q.truth.view(), query + d) * latent(position, d);
          const double p = std::exp(kScale * dot);
          sum += p;
          for (int64_t d = 0; d < kRank; ++d) z[static_cast<size_t>(d)] += p * latent(position, d);
        }
        for (int64_t d = 0; d < kRank; ++d)
          out.view().as<float>()[((s * shape.length + t) * kHeads + h) * kRank + d] =
              static_cast<float>(z[static_cast<size_t>(d)] / sum);
      }
    }
  }
  return out;
}

class MlaAttention : public ::testing::TestWithParam<DType> {};

TEST_P(MlaAttention, agrees_with_the_formulas_in_double_across_segments) {
  Random random(1);
  SCOPED_TRACE(random.trace());
  // Long enough for lists of one, two and three segments, exact multiples among them.
  const ScheduleShape shape{.sequences = 1, .length = 3 * kAttentionSegment, .block_tokens = 16};
  Inputs in(random, shape, GetParam());
  for (const int32_t n : {kAttentionSegment, 2 * kAttentionSegment}) {
    in.lists[static_cast<size_t>(n - 1)].resize(static_cast<size_t>(n));
    std::iota(in.lists[static_cast<size_t>(n - 1)].begin(),
              in.lists[static_cast<size_t>(n - 1)].end(), 0);
  }
  const Tensor got = run(serial_schedule(shape), shape, in, random);
  const Tensor want = attention_in_double(shape, in);
  // Scores of size ~6 with 40 products in float, sums of up to 192 weights; then one rounding.
  EXPECT_TRUE(testing::all_close(got.view(), want.view(),
                                 {2e-5, testing::rounding_error(GetParam()) * 1.01}));
}

TEST_P(MlaAttention, any_schedule_gives_the_bits_of_serial_decoding) {
  for (uint64_t seed = 10; seed < 20; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const ScheduleShape shape{.length = 80};
    const Inputs in(random, shape, GetParam());
    const Tensor want = run(serial_schedule(shape), shape, in, random);
    const Tensor got =
        run(random_schedule(random, shape), shape, in, random, 1 + static_cast<int>(seed % 3));
    EXPECT_TRUE(same_bits(got.view(), want.view()));
  }
}

TEST_P(MlaAttention, one_token_gives_its_latent) {
  Random random(3);
  const ScheduleShape shape{.sequences = 1, .length = 1};
  const Inputs in(random, shape, GetParam());
  const Tensor got = run(serial_schedule(shape), shape, in, random);
  for (int64_t h = 0; h < kHeads; ++h) {
    for (int64_t d = 0; d < kRank; ++d)
      EXPECT_EQ(load_float(got.view(), h * kRank + d), load_float(in.latent.truth.view(), d));
  }
}

TEST_P(MlaAttention, every_instruction_set_gives_the_same_bits) {
  Random random(4);
  SCOPED_TRACE(random.trace());
  const ScheduleShape shape{.sequences = 1, .length = 100};
  const Inputs in(random, shape, GetParam());
  const Tensor want = run(serial_schedule(shape), shape, in, random);
  testing::for_each_simd_target([&] {
    EXPECT_TRUE(same_bits(run(serial_schedule(shape), shape, in, random).view(), want.view()));
  });
}

INSTANTIATE_TEST_SUITE_P(Types, MlaAttention, ::testing::Values(DType::bf16, DType::f32),
                         [](const auto& test) { return dtype_name(test.param); });

}  // namespace
}  // namespace yoke::kernels
