// All that a model remembers between steps, as bytes: for tests of what a step may change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/caches.h"

namespace yoke::engine {

/// One cache tensor. The first dimension is slots, or rows of paged blocks.
struct CacheView {
  std::string name;  ///< "layer 3 latent"
  bool paged = false;
  int32_t rows_per_block = 0;  ///< of paged ones
  kernels::TensorView view;
};

/// Every tensor of `caches`, in layer order, the MTP layer last.
std::vector<CacheView> cache_views(Caches& caches, const ModelConfig& config, bool with_mtp);

}  // namespace yoke::engine
