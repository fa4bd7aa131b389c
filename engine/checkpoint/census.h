// Whether the tensors of a folder are those of the model that its config.json describes.
#pragma once

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/shard_set.h"

namespace yoke::engine {

Census take_census(const ModelConfig& config, const ShardSet& shards);

}  // namespace yoke::engine
