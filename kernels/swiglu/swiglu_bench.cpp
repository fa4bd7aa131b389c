#include <benchmark/benchmark.h>

#include "kernels/swiglu/swiglu.h"
#include "kernels/testing/bench.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

const testing::BenchContext context;

void swiglu_bench(benchmark::State& state) {
  testing::Random random(1);
  testing::Compute compute;
  const Shape shape{state.range(0), state.range(1)};
  const Tensor gate = testing::random_tensor(random, DType::bf16, shape, 4);
  const Tensor up = testing::random_tensor(random, DType::bf16, shape, 4);
  Tensor y(DType::bf16, shape);
  const auto elements = static_cast<double>(shape.elements());
  testing::measure(
      state, 1, {.bytes = 6 * elements, .flops = 2 * elements},
      [&] { swiglu(y.view(), gate.view(), up.view(), 10, compute.stream); },
      [&] { swiglu_ref(y.view(), gate.view(), up.view(), 10, compute.stream); });
}
BENCHMARK(swiglu_bench)
    ->ArgNames({"rows", "width"})
    ->ArgsProduct({{1, 4, 32}, {256, 512, 2048}})  // nano, wide, GLM-5.3-Flash
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace yoke::kernels
