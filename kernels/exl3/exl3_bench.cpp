// EXL3 products: shapes of GLM-5.3-Flash experts and of nano. `weights/s` counts the matrix once,
// whatever the number of rows; `flop/s` counts 2 · rows · in · out; bytes are the trellis, once.
#include <benchmark/benchmark.h>

#include "kernels/exl3/exl3.h"
#include "kernels/testing/bench.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

const testing::BenchContext context;

struct RandomMatrix {
  RandomMatrix(int64_t in, int64_t out, int bits, Codebook codebook)
      : trellis(DType::i16, {in / 16, out / 16, 16 * bits}) {
    testing::Random random(1);
    auto* words = reinterpret_cast<uint16_t*>(trellis.view().as<int16_t>());
    for (int64_t i = 0; i < trellis.view().elements(); ++i)
      words[i] = static_cast<uint16_t>(random.bits());
    suh = testing::random_tensor(random, DType::f16, {in});
    svh = testing::random_tensor(random, DType::f16, {out});
    matrix = {in, out, bits, codebook, words, suh.view().as<f16>(), svh.view().as<f16>()};
    packed = Buffer(exl3_packed_bytes(matrix));
    exl3_pack(packed.data(), matrix);
    matrix.packed = packed.data();
  }
  Tensor trellis;
  Tensor suh;
  Tensor svh;
  Buffer packed;
  Exl3Matrix matrix;
};

void exl3_matmul_bench(benchmark::State& state, Codebook codebook, DType dtype, int threads) {
  const int64_t in = state.range(0);
  const int64_t out = state.range(1);
  const int64_t rows = state.range(3);
  const RandomMatrix weight(in, out, static_cast<int>(state.range(2)), codebook);
  testing::Random random(2);
  testing::Compute compute(threads);
  const Tensor x = testing::random_tensor(random, dtype, {rows, in});
  Tensor y(dtype, {rows, out});
  Tensor scratch(DType::f32, {exl3_scratch_floats(weight.matrix, rows)});
  for (auto _ : state)
    exl3_matmul(y.view(), x.view(), weight.matrix, scratch.view(), compute.stream);
  const auto runs = static_cast<double>(state.iterations());
  const auto weights = static_cast<double>(in * out);
  state.counters["weights/s"] = benchmark::Counter(runs * weights, benchmark::Counter::kIsRate);
  state.counters["flop/s"] = benchmark::Counter(2 * runs * weights * static_cast<double>(rows),
                                                benchmark::Counter::kIsRate);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(weight.trellis.bytes()));
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"in", "out", "K", "rows"})->Unit(benchmark::kMicrosecond);
  for (const int64_t rows : {1, 4, 8, 48, 512}) {
    bench->Args({4096, 2048, 4, rows});  // GLM-5.3-Flash gate, up
    bench->Args({2048, 4096, 4, rows});  // GLM-5.3-Flash down
    bench->Args({128, 256, 4, rows});    // nano gate, up
    bench->Args({256, 128, 4, rows});    // nano down
  }
}

void rates(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"in", "out", "K", "rows"})->Unit(benchmark::kMicrosecond);
  for (const int64_t bits : {1, 2, 3, 4, 5, 6, 7, 8}) bench->Args({2048, 2048, bits, 1});
}

BENCHMARK_CAPTURE(exl3_matmul_bench, mcg_bf16_1thread, Codebook::mcg, DType::bf16, 1)
    ->Apply(shapes);
BENCHMARK_CAPTURE(exl3_matmul_bench, mcg_bf16_2threads, Codebook::mcg, DType::bf16, 2)
    ->Apply(shapes)
    ->UseRealTime();
BENCHMARK_CAPTURE(exl3_matmul_bench, mcg_1thread, Codebook::mcg, DType::bf16, 1)->Apply(rates);
BENCHMARK_CAPTURE(exl3_matmul_bench, mul1_1thread, Codebook::mul1, DType::bf16, 1)->Apply(rates);
BENCHMARK_CAPTURE(exl3_matmul_bench, 3inst_1thread, Codebook::threeinst, DType::bf16, 1)
    ->Apply(rates);

}  // namespace
}  // namespace yoke::kernels
