// Runs a test once per instruction set that this machine has and the kernels were compiled for.
#pragma once

#include <gtest/gtest.h>

#include "kernels/core/cpu.h"

namespace yoke::kernels::testing {

template <class Body>
void for_each_simd_target(Body&& body) {
  const SimdTarget best = simd_target();
  for (const SimdTarget target : simd_targets()) {
    SCOPED_TRACE(simd_target_name(target));
    set_simd_target(target);
    body();
  }
  set_simd_target(best);
}

}  // namespace yoke::kernels::testing
