// Runs a test once per instruction set that this machine has and the kernels were compiled for.
#pragma once

#include <gtest/gtest.h>

#include "kernels/core/simd_targets.h"

// Highway reads what simd_targets.h defines.
#include "hwy/highway.h"
#include "hwy/targets.h"

namespace yoke::kernels::testing {

template <class Body>
void for_each_simd_target(Body&& body) {
  const auto choose = [](int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  };
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    choose(target);
    body();
  }
  choose(0);  // back to the best one
}

}  // namespace yoke::kernels::testing
