#include <benchmark/benchmark.h>

#include <cmath>
#include <numeric>

#include "kernels/mla_attention/mla_attention.h"
#include "kernels/testing/bench.h"
#include "kernels/testing/schedule.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

const testing::BenchContext context;

/// Rows of one sequence that each attend to the first `list` tokens, BF16.
void mla_attention_bench(benchmark::State& state) {
  const auto rows = static_cast<int32_t>(state.range(0));
  const int64_t heads = state.range(1);
  const int64_t rank = state.range(2);
  const auto list = static_cast<int32_t>(state.range(3));
  testing::Random random(1);
  testing::Compute compute;
  const testing::ScheduleShape shape{
      .sequences = 1, .length = list + rows, .max_window = 1, .slots = 2, .block_tokens = 16};
  testing::StepTable table(random, shape);
  testing::ScheduledStep step;
  step.sequences.push_back({shape.slot_of(0), 0, rows, list, rows, 0});
  for (int32_t t = 0; t < rows; ++t) step.rows.push_back({0, list + t, false});
  const StepRows step_rows = table.fill(step);

  const Tensor q = testing::random_tensor(random, DType::bf16, {rows, heads, rank});
  const Tensor latent = testing::random_tensor(random, DType::bf16, {shape.cache_rows(), rank});
  Tensor z(DType::bf16, {rows, heads, rank});
  Tensor selected(DType::i32, {rows, list});
  Tensor count(DType::i32, {rows});
  for (int32_t r = 0; r < rows; ++r) {
    std::iota(selected.view().as<int32_t>() + int64_t{r} * list,
              selected.view().as<int32_t>() + int64_t{r + 1} * list, 0);
    count.view().as<int32_t>()[r] = list;
  }
  const float scale = 1.0f / std::sqrt(static_cast<float>(rank));
  const double cells = static_cast<double>(rows) * list * static_cast<double>(rank);
  testing::measure(state, 1, {.bytes = 2 * cells, .flops = 4 * cells * static_cast<double>(heads)},
                   [&] {
                     mla_attention(z.view(), q.view(), latent.view(), selected.view(), count.view(),
                                   scale, step_rows, compute.stream);
                   });
}
BENCHMARK(mla_attention_bench)
    ->ArgNames({"rows", "heads", "rank", "list"})
    ->ArgsProduct({{1, 4, 32}, {4}, {64}, {256}})    // nano
    ->ArgsProduct({{1, 4, 32}, {16}, {256}, {256}})  // wide
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace yoke::kernels
