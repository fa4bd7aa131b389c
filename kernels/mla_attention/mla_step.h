// One call of mla_attention, as its items of work see it. Internal to kernels/mla_attention.
#pragma once

#include "kernels/mla_attention/mla_attention.h"

namespace yoke::kernels {

/// Heads that share the reading of a latent.
constexpr int64_t kMlaHeads = 4;

struct MlaStep {
  TensorView z;
  ConstTensorView q, latent, selected, count;
  float scale;
  StepRows rows;
  int64_t heads, rank;
};

}  // namespace yoke::kernels
