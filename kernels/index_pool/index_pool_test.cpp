#include "kernels/index_pool/index_pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/testing/compare.h"
#include "kernels/testing/schedule.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

using testing::Compute;
using testing::Random;
using testing::same_bits;
using testing::ScheduledStep;
using testing::ScheduleShape;
using testing::unwritten;

constexpr int64_t kDim = 10;

struct Inputs {
  Inputs(Random& random, const ScheduleShape& shape, DType act, int64_t pool_tokens)
      : keys(random, shape, act, {kDim}),
        gates(random, shape, act, {kDim}, 2.0),
        ape(testing::random_tensor(random, DType::bf16, {pool_tokens, kDim})) {}
  testing::RowSource keys, gates;
  Tensor ape;
};

/// Memory starts as NaN: what a slot held must not matter.
struct Pooling {
  Pooling(const ScheduleShape& s, DType act, int64_t pool_tokens, int threads = 1)
      : shape(s),
        m(pool_tokens),
        ring((pool_tokens + s.max_window + pool_tokens - 1) / pool_tokens * pool_tokens),
        pools(unwritten(act, {s.cache_rows() / m, kDim})),
        raw_keys(unwritten(act, {s.slots, ring, kDim})),
        raw_gates(unwritten(act, {s.slots, ring, kDim})),
        compute(threads) {}

  /// The key of each pool right after the step with its last true row: [sequences, length / m,
  /// dim].
  Tensor run(const std::vector<ScheduledStep>& steps, const Inputs& in, Random& random) {
    Tensor seen = unwritten(pools.view().dtype, {shape.sequences, shape.length / m, kDim});
    const size_t line = pools.bytes() / static_cast<size_t>(pools.view().dim(0));
    testing::StepTable table(random, shape);
    for (const ScheduledStep& step : steps) {
      const Tensor keys = in.keys.rows(step);
      const Tensor gates = in.gates.rows(step);
      const StepRows rows = table.fill(step);
      index_pool(pools.view(), raw_keys.view(), raw_gates.view(), keys.view(), gates.view(),
                 in.ape.view(), rows, compute.stream);
      for (const testing::ScheduledRow& row : step.rows) {
        if (row.rejected || (row.position + 1) % m != 0) continue;
        const int64_t pool = row.position / m;
        const int64_t from = rows.cache_row(shape.slot_of(row.sequence), pool * m) / m;
        const int64_t to = row.sequence * (shape.length / m) + pool;
        std::memcpy(static_cast<std::byte*>(seen.view().data) + static_cast<size_t>(to) * line,
                    static_cast<std::byte*>(pools.view().data) + static_cast<size_t>(from) * line,
                    line);
      }
    }
    return seen;
  }

  ScheduleShape shape;
  int64_t m, ring;
  Tensor pools, raw_keys, raw_gates;
  Compute compute;
};

Tensor pools_in_double(const Inputs& in, const ScheduleShape& shape, int64_t m) {
  Tensor out(DType::f32, {shape.sequences, shape.length / m, kDim});
  for (int64_t s = 0; s < shape.sequences; ++s) {
    for (int64_t p = 0; p < shape.length / m; ++p) {
      for (int64_t d = 0; d < kDim; ++d) {
        const auto at = [&](const testing::RowSource& x, int64_t j) {
          return static_cast<double>(
              load_float(x.truth.view(), (s * shape.max_positions() + p * m + j) * kDim + d));
        };
        double sum = 0;
        double pooled = 0;
        for (int64_t j = 0; j < m; ++j) {
          const double w = std::exp(at(in.gates, j) + load_float(in.ape.view(), j * kDim + d));
          sum += w;
          pooled += w * at(in.keys, j);
        }
        out.view().as<float>()[(s * (shape.length / m) + p) * kDim + d] =
            static_cast<float>(pooled / sum);
      }
    }
  }
  return out;
}

class IndexPool : public ::testing::TestWithParam<DType> {};

TEST_P(IndexPool, agrees_with_the_formulas_in_double) {
  Random random(1);
  SCOPED_TRACE(random.trace());
  for (const int32_t m : {1, 2, 3, 4, 16}) {
    const ScheduleShape shape{.sequences = 2, .length = 48, .block_tokens = 48};
    const Inputs in(random, shape, GetParam(), m);
    Pooling op(shape, GetParam(), m);
    const Tensor got = op.run(serial_schedule(shape), in, random);
    const Tensor want = pools_in_double(in, shape, m);
    // A weighted mean of at most 16 values of size ~1 in float, one rounding.
    EXPECT_TRUE(testing::all_close(got.view(), want.view(),
                                   {2e-6, testing::rounding_error(GetParam()) * 1.01}))
        << m << " tokens per pool";
  }
}

TEST_P(IndexPool, pools_survive_any_schedule_bit_for_bit) {
  for (uint64_t seed = 10; seed < 40; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const ScheduleShape shape;
    const Inputs in(random, shape, GetParam(), 4);
    Pooling serial(shape, GetParam(), 4);
    Pooling mixed(shape, GetParam(), 4, 1 + static_cast<int>(seed % 3));
    const Tensor want = serial.run(serial_schedule(shape), in, random);
    const Tensor got = mixed.run(random_schedule(random, shape), in, random);
    EXPECT_TRUE(same_bits(got.view(), want.view()));
  }
}

TEST_P(IndexPool, a_pool_that_reopens_is_computed_from_the_ring_again) {
  // Tokens 0..5 are certain, a window of four holds 6..9: pool 1 = {4..7} completes with rejected
  // rows and reopens. Its tokens 4 and 5 must still be in the ring (spec/speculative.md 7).
  Random random(2);
  SCOPED_TRACE(random.trace());
  const ScheduleShape shape{.sequences = 1, .length = 8, .max_window = 4};
  const Inputs in(random, shape, GetParam(), 4);
  Pooling serial(shape, GetParam(), 4);
  Pooling op(shape, GetParam(), 4);
  const int32_t slot = shape.slot_of(0);
  ScheduledStep prompt{{{slot, 0, 6, 0, 6, 0}}, {}, 0};
  for (int32_t t = 0; t < 6; ++t) prompt.rows.push_back({0, t, false});
  ScheduledStep window{{{slot, 0, 4, 6, 0, 0}}, {}, 0};
  for (int32_t t = 6; t < 10; ++t) window.rows.push_back({0, t, true});
  ScheduledStep rest{{{slot, 0, 2, 6, 2, 0}}, {{0, 6, false}, {0, 7, false}}, 0};
  const Tensor want = serial.run(serial_schedule(shape), in, random);
  const Tensor got = op.run({prompt, window, rest}, in, random);
  EXPECT_TRUE(same_bits(got.view(), want.view()));
}

INSTANTIATE_TEST_SUITE_P(Types, IndexPool, ::testing::Values(DType::bf16, DType::f32),
                         [](const auto& test) { return dtype_name(test.param); });

}  // namespace
}  // namespace yoke::kernels
