// One row of the product's vocabulary under the settings that cost most.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#include "engine/sampling/sampling.h"

namespace yoke::engine {
namespace {

constexpr int32_t kVocab = 154880;

/// Logits as a language model gives them: a wide bulk and a few tokens far above it.
std::vector<float> row(float spread) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(kVocab);
  for (float& l : logits) l = normal(random);
  for (int i = 0; i < 20; ++i) logits[random() % kVocab] += 12;
  return logits;
}

void run(benchmark::State& state, const SamplingParams& params, float spread) {
  const std::vector<float> logits = row(spread);
  const TokenCounts counts;
  SamplingScratch scratch;
  uint64_t position = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(sample_token(logits, params, counts, kVocab, position++, scratch));
}

void greedy(benchmark::State& state) {
  SamplingParams params;
  params.temperature = 0;
  run(state, params, 2);
}
void temperature_1(benchmark::State& state) {
  run(state, {}, 2);
}
void top_p_95(benchmark::State& state) {
  SamplingParams params;
  params.top_p = 0.95;
  run(state, params, 2);
}
void top_p_95_flat(benchmark::State& state) {  // about 140,000 candidates are kept
  SamplingParams params;
  params.top_p = 0.95;
  run(state, params, 0.1f);
}
void top_k_40_top_p_95(benchmark::State& state) {
  SamplingParams params;
  params.top_k = 40;
  params.top_p = 0.95;
  run(state, params, 2);
}

BENCHMARK(greedy)->Unit(benchmark::kMicrosecond);
BENCHMARK(temperature_1)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_p_95)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_p_95_flat)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_k_40_top_p_95)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace yoke::engine
