// One call of kda_recurrence, as its items of work see it. Internal to kernels/kda.
#pragma once

#include "kernels/kda/kda.h"

namespace yoke::kernels {

/// Value columns of a head that one item of work keeps.
constexpr int64_t kKdaColumns = 32;

struct KdaStep {
  TensorView o;
  ConstTensorView q, k, v, g, beta;
  KdaState memory;
  int64_t heads, dim;
};

}  // namespace yoke::kernels
