// Whether the tensors of a folder are those of the model that its config.json describes: every name
// of the inventory, with its shape and type, and nothing else.
#pragma once

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/model_config.h"
#include "engine/checkpoint/shard_set.h"

namespace yoke::engine {

/// Reads the four bytes of each codebook marker and nothing else. The MTP layer and the vision
/// tower may be absent as a whole, never in part (design.md 11).
Census take_census(const ModelConfig& config, const ShardSet& shards);

}  // namespace yoke::engine
