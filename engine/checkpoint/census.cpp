#include "engine/checkpoint/census.h"

#include <string>

namespace yoke::engine {

Census take_census(const ModelConfig& config, const ShardSet& shards) {
  Census census;
  census.problems = shards.problems;
  const std::string mtp = "model.language_model.layers." + std::to_string(config.num_layers) + ".";
  for (const TensorInfo& tensor : shards.tensors) {
    ++census.tensors;
    census.bytes += tensor.bytes;
    census.has_mtp |= config.num_mtp_layers > 0 && tensor.name.starts_with(mtp);
    census.has_vision |= tensor.name.starts_with("model.visual.");
  }
  return census;
}

}  // namespace yoke::engine
