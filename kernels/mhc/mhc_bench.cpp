#include <benchmark/benchmark.h>

#include "kernels/mhc/mhc.h"
#include "kernels/testing/bench.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

const testing::BenchContext context;

constexpr int64_t kStreams = 4;

/// One site's tensors; four streams, BF16.
struct Site {
  Site(int64_t row_count, int64_t width)
      : rows(row_count),
        hidden(width),
        fn(testing::random_tensor(random, DType::bf16, {24, kStreams * hidden}, 0.01)),
        base(testing::random_tensor(random, DType::f32, {24})),
        scale(testing::random_tensor(random, DType::f32, {3})),
        streams(testing::random_tensor(random, DType::bf16, {rows, kStreams, hidden})),
        y(testing::random_tensor(random, DType::f32, {rows, hidden})),
        x(DType::bf16, {rows, hidden}),
        post(DType::f32, {rows, kStreams}),
        comb(DType::f32, {rows, kStreams, kStreams}) {}
  MhcWeights weights() const { return {fn.view(), base.view(), scale.view(), 1e-5f, 1e-6f, 20}; }
  double elements() const { return static_cast<double>(rows * kStreams * hidden); }

  testing::Random random{1};
  int64_t rows, hidden;
  Tensor fn, base, scale, streams, y, x, post, comb;
  testing::Compute compute;
};

void mhc_coefficients_bench(benchmark::State& state) {
  Site s(state.range(0), state.range(1));
  testing::measure(
      state, 1,
      {.bytes = 2 * s.elements() + 2.0 * 24 * 4 * static_cast<double>(s.hidden),
       .flops = 2 * 25 * s.elements()},
      [&] {
        mhc_coefficients(s.x.view(), s.post.view(), s.comb.view(), s.streams.view(), s.weights(),
                         s.compute.stream);
      },
      [&] {
        mhc_coefficients_ref(s.x.view(), s.post.view(), s.comb.view(), s.streams.view(),
                             s.weights(), s.compute.stream);
      });
}

void mhc_mix_bench(benchmark::State& state) {
  Site s(state.range(0), state.range(1));
  testing::measure(
      state, 1, {.bytes = 4 * s.elements() + s.elements(), .flops = 10 * s.elements()},
      [&] {
        mhc_mix(s.streams.view(), s.y.view(), s.post.view(), s.comb.view(), s.compute.stream);
      },
      [&] {
        mhc_mix_ref(s.streams.view(), s.y.view(), s.post.view(), s.comb.view(), s.compute.stream);
      });
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "hidden"})->UseManualTime()->Unit(benchmark::kMicrosecond);
  for (const int64_t hidden : {128, 1024, 4096}) {  // nano, wide, GLM-5.3-Flash
    for (const int64_t rows : {1, 4, 32}) bench->Args({rows, hidden});
  }
}

BENCHMARK(mhc_coefficients_bench)->Apply(shapes);
BENCHMARK(mhc_mix_bench)->Apply(shapes);

}  // namespace
}  // namespace yoke::kernels
