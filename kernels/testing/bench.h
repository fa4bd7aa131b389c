// What every bench program says about where it ran, in its table and its JSON.
#pragma once

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
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

}  // namespace yoke::kernels::testing
