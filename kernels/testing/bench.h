// What every bench program says about where it ran, in its table and its JSON.
#pragma once

#include <benchmark/benchmark.h>

#include "kernels/core/cpu.h"

namespace yoke::kernels::testing {

/// Put one at namespace scope of a bench file.
struct BenchContext {
  BenchContext() {
    benchmark::AddCustomContext("processor", processor_name());
    benchmark::AddCustomContext("simd_target", simd_target_name(simd_target()));
  }
};

}  // namespace yoke::kernels::testing
