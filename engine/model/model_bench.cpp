// Tokens per second of the forward pass, nano and `wide` (issue 4's shape: EXL3 experts, BF16
// otherwise), and where the time goes: one pass is recorded, its ops are replayed one by one and
// their medians are summed by name. Sampling, scheduling and the server are not in these figures.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/testing/random_model.h"
#include "kernels/testing/bench.h"

namespace yoke::engine {
namespace {

using kernels::testing::median;
using kernels::testing::seconds_of;

const kernels::testing::BenchContext context;

constexpr int32_t kPrompt = 512;

ModelOptions options() {
  return {.max_rows = kPrompt, .max_slots = 1, .max_model_len = 2048, .with_mtp = false};
}

std::unique_ptr<LoadedModel> nano(kernels::ThreadPool& threads) {
  const auto checkpoint = Checkpoint::open(YOKE_SOURCE_DIR "/tools/nano/checkpoint");
  if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
  auto model = LoadedModel::load(*checkpoint, options(), threads);
  if (!model.ok()) throw std::runtime_error(model.error().message);
  return std::move(*model);
}

std::unique_ptr<LoadedModel> wide(kernels::ThreadPool& threads, int expert_bits) {
  return load_random_model(wide_checkpoint({.expert_bits = expert_bits, .with_mtp = false}),
                           options(), threads);
}

std::vector<int32_t> some_tokens(const Model& model, int32_t count) {
  kernels::testing::Random random(3);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>(random.below(model.config().vocab_size)));
  return tokens;
}

StepPlan plan_of(SequenceDriver& sequence, const std::vector<int32_t>& tokens) {
  StepPlan plan;
  const auto rows = static_cast<int32_t>(tokens.size());
  plan.sequences.push_back(sequence.next(tokens, -1, {rows - 1}));
  return plan;
}

/// Prints µs per op of one step of this plan, the dearest first.
void print_profile(const std::string& name, ModelParts& parts, const StepPlan& plan) {
  const int threads = parts.stream.threads().threads();
  parts.buffers.fill(plan);
  kernels::Stream::Recording recording;
  parts.stream.begin_recording(recording);
  parts.forward.trunk(parts.buffers.bucket());
  parts.forward.trunk_head(parts.buffers.logit_bucket());
  parts.stream.end_recording();
  std::vector<std::vector<double>> times(recording.size());
  for (int run = 0; run < (plan.rows() == 1 ? 51 : 3); ++run) {
    for (size_t i = 0; i < recording.size(); ++i)
      times[i].push_back(seconds_of(threads, [&] { recording[i].work(); }));
  }
  std::map<std::string, std::pair<double, int>> ops;
  double total = 0;
  for (size_t i = 0; i < recording.size(); ++i) {
    auto& [seconds, count] = ops[recording[i].op];
    seconds += median(times[i]);
    total += median(times[i]);
    ++count;
  }
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [op, cost] : ops) sorted.emplace_back(cost.first, op);
  std::sort(sorted.rbegin(), sorted.rend());
  for (const auto& [seconds, op] : sorted)
    std::printf("%-24s %-18s %4d× %10.1f µs %5.1f %%\n", name.c_str(), op.c_str(), ops[op].second,
                seconds * 1e6, 100 * seconds / total);
}

/// Single rows after a prompt of kPrompt tokens.
void decode(benchmark::State& state, const std::string& name, LoadedModel& model) {
  const int threads = model.parts().stream.threads().threads();
  SequenceDriver sequence(model, 0);
  model.step(plan_of(sequence, some_tokens(model, kPrompt)));
  const std::vector<int32_t> one = some_tokens(model, 1);
  std::vector<double> times;
  for (auto _ : state) {
    if (sequence.position() == model.options().max_model_len) {
      sequence.restart();
      model.step(plan_of(sequence, some_tokens(model, kPrompt)));
    }
    const StepPlan plan = plan_of(sequence, one);
    times.push_back(seconds_of(threads, [&] { model.step(plan); }));
    state.SetIterationTime(times.back());
  }
  state.counters["tokens/s"] = 1 / median(times);
  print_profile(name, model.parts(), plan_of(sequence, one));
}

void prefill(benchmark::State& state, const std::string& name, LoadedModel& model) {
  const int threads = model.parts().stream.threads().threads();
  SequenceDriver sequence(model, 0);
  const StepPlan plan = plan_of(sequence, some_tokens(model, kPrompt));
  std::vector<double> times;
  for (auto _ : state) {
    times.push_back(seconds_of(threads, [&] { model.step(plan); }));
    state.SetIterationTime(times.back());
  }
  state.counters["tokens/s"] = kPrompt / median(times);
  print_profile(name, model.parts(), plan);
}

template <class Load>
void model_bench(benchmark::State& state, const std::string& name, const Load& load,
                 const auto& measure) {
  kernels::ThreadPool threads(static_cast<int>(state.range(0)));
  const std::unique_ptr<LoadedModel> model = load(threads);
  measure(state, name, *model);
}

const auto kWideExl3 = [](kernels::ThreadPool& threads) { return wide(threads, 4); };
const auto kWideBf16 = [](kernels::ThreadPool& threads) { return wide(threads, 0); };

void thread_counts(benchmark::internal::Benchmark* bench) {
  bench->ArgName("threads")->UseManualTime()->Unit(benchmark::kMillisecond)->Arg(1)->Arg(2);
}

BENCHMARK_CAPTURE(model_bench, nano_decode, "nano decode", nano, decode)->Apply(thread_counts);
BENCHMARK_CAPTURE(model_bench, nano_prefill512, "nano prefill", nano, prefill)
    ->Apply(thread_counts);
BENCHMARK_CAPTURE(model_bench, wide_exl3_decode, "wide EXL3 decode", kWideExl3, decode)
    ->Apply(thread_counts);
BENCHMARK_CAPTURE(model_bench, wide_exl3_prefill512, "wide EXL3 prefill", kWideExl3, prefill)
    ->Apply(thread_counts);
BENCHMARK_CAPTURE(model_bench, wide_bf16_prefill512, "wide BF16 prefill", kWideBf16, prefill)
    ->Apply(thread_counts);

}  // namespace
}  // namespace yoke::engine
