#include <benchmark/benchmark.h>

#include "kernels/kda/kda.h"
#include "kernels/testing/bench.h"
#include "kernels/testing/schedule.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

const testing::BenchContext context;

/// Committed rows of one sequence, BF16.
void kda_recurrence_bench(benchmark::State& state) {
  const auto rows = static_cast<int32_t>(state.range(0));
  const int64_t heads = state.range(1);
  const int64_t dim = state.range(2);
  const int64_t width = heads * dim;
  testing::Random random(1);
  testing::Compute compute;
  const testing::ScheduleShape shape{.sequences = 1, .length = rows + 1, .max_window = 1};
  testing::StepTable table(random, shape);
  testing::ScheduledStep step;
  step.sequences.push_back({shape.slot_of(0), 0, rows, 1, rows, 0});
  for (int32_t t = 0; t < rows; ++t) step.rows.push_back({0, 1 + t, false});
  const StepRows step_rows = table.fill(step);

  const Tensor q = testing::random_tensor(random, DType::bf16, {rows, width});
  const Tensor k = testing::random_tensor(random, DType::bf16, {rows, width});
  const Tensor v = testing::random_tensor(random, DType::bf16, {rows, width});
  Tensor g = testing::random_tensor(random, DType::f32, {rows, width});
  for (int64_t i = 0; i < g.view().elements(); ++i)
    g.view().as<float>()[i] = -std::abs(g.view().as<float>()[i]);
  const Tensor beta = testing::random_tensor(random, DType::f32, {rows, heads}, 0.1);
  Tensor o(DType::bf16, {rows, width});
  Tensor memory(DType::f32, {shape.slots, heads, dim, dim});
  Tensor pending_k(DType::bf16, {shape.slots, 1, width});
  Tensor pending_v(DType::bf16, {shape.slots, 1, width});
  Tensor pending_g(DType::f32, {shape.slots, 1, width});
  Tensor pending_beta(DType::f32, {shape.slots, 1, heads});
  const KdaState kda{memory.view(), pending_k.view(), pending_v.view(), pending_g.view(),
                     pending_beta.view()};
  const auto cells = static_cast<double>(rows * width * dim);
  testing::measure(state, 1, {.bytes = 8.0 * static_cast<double>(width * dim), .flops = 7 * cells},
                   [&] {
                     kda_recurrence(o.view(), q.view(), k.view(), v.view(), g.view(), beta.view(),
                                    kda, step_rows, compute.stream);
                   });
}
BENCHMARK(kda_recurrence_bench)
    ->ArgNames({"rows", "heads", "dim"})
    ->ArgsProduct({{1, 4, 32}, {16}, {64}})   // wide
    ->ArgsProduct({{1, 4, 32}, {2}, {128}})   // nano
    ->ArgsProduct({{1, 4, 32}, {32}, {128}})  // 32 of GLM-5.3-Flash's heads
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace yoke::kernels
