#include <benchmark/benchmark.h>

#include "kernels/rms_norm/rms_norm.h"
#include "kernels/testing/bench.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

const testing::BenchContext context;

void rms_norm_bench(benchmark::State& state) {
  testing::Random random(1);
  testing::Compute compute;
  const Shape shape{state.range(0), state.range(1)};
  const Tensor x = testing::random_tensor(random, DType::bf16, shape);
  const Tensor weight = testing::random_tensor(random, DType::bf16, {state.range(1)});
  Tensor y(DType::bf16, shape);
  const auto elements = static_cast<double>(shape.elements());
  testing::measure(
      state, 1, {.bytes = 4 * elements, .flops = 4 * elements},
      [&] { rms_norm(y.view(), x.view(), weight.view(), 1e-5f, compute.stream); },
      [&] { rms_norm_ref(y.view(), x.view(), weight.view(), 1e-5f, compute.stream); });
}
BENCHMARK(rms_norm_bench)
    ->ArgNames({"rows", "width"})
    ->ArgsProduct({{1, 4, 32}, {128, 1024, 4096}})  // nano, wide, GLM-5.3-Flash
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace yoke::kernels
