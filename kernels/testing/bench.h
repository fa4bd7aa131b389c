// What every bench program says about where it ran and what it measured, in its table and its JSON
// (--benchmark_out). The commit comes with --benchmark_context=commit=….
#pragma once

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/core/cpu.h"

namespace yoke::kernels::testing {

/// Put one at namespace scope of a bench file.
struct BenchContext {
  BenchContext() {
    benchmark::AddCustomContext("processor", processor_name());
    benchmark::AddCustomContext("simd_target", simd_target_name(simd_target()));
  }
};

/// Seconds that `work` takes. One thread is timed by its own processor time, which other programs
/// on the machine disturb less.
template <class Work>
double seconds_of(int threads, const Work& work) {
  const auto now = [threads] {
    timespec t{};
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What one run of an op moves and computes, for the columns.
struct BenchCost {
  double bytes = 0;
  double flops = 0;
};

/// Runs `work` once per iteration and fills the columns that every op bench has: median and median
/// absolute deviation in µs, GB/s, GFLOP/s and, with a reference, how many times faster than it.
template <class Work, class Reference>
void measure(benchmark::State& state, int threads, const BenchCost& cost, const Work& work,
             const Reference& reference) {
  std::vector<double> times;
  for (auto _ : state) {
    times.push_back(seconds_of(threads, work));
    state.SetIterationTime(times.back());
  }
  const double middle = median(times);
  std::vector<double> deviations;
  for (const double t : times) deviations.push_back(std::abs(t - middle));
  state.counters["median_us"] = 1e6 * middle;
  state.counters["mad_us"] = 1e6 * median(deviations);
  state.counters["GB/s"] = 1e-9 * cost.bytes / middle;
  state.counters["GFLOP/s"] = 1e-9 * cost.flops / middle;
  std::vector<double> reference_times;
  for (int i = 0; i < 5; ++i) reference_times.push_back(seconds_of(threads, reference));
  state.counters["of_reference"] = median(reference_times) / middle;
}

/// Where the op is its own reference: the plain instruction set of the same op.
template <class Work>
void measure(benchmark::State& state, int threads, const BenchCost& cost, const Work& work) {
  const SimdTarget best = simd_target();
  const SimdTarget plain = simd_targets().back();
  measure(state, threads, cost, work, [&] {
    set_simd_target(plain);
    work();
    set_simd_target(best);
  });
}

}  // namespace yoke::kernels::testing
