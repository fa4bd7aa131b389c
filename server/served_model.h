// The model behind the API, as the server sees it. Set once loading has got so far that requests
// can be read; whether they are admitted is the service's word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/generation.h"
#include "engine/sampling/sampling.h"
#include "engine/tokenizer/tokenizer.h"

namespace yoke::server {

struct ServedModel {
  std::vector<std::string> names;  ///< the first is the main name
  std::string root;                ///< folder name, never a path
  std::string fingerprint;         ///< `fp_…`, changes with the weights
  int32_t max_model_len = 0;       ///< what a request can really use
  int32_t max_positions = 0;       ///< what the checkpoint says
  int32_t vocab_size = 0;          ///< ids that the tokenizer defines
  uint64_t parameters = 0;
  uint64_t bytes = 0;
  int32_t max_num_seqs = 1;
  std::vector<int32_t> eos_token_ids;
  engine::SamplingParams sampling;            ///< for silent requests
  std::optional<int64_t> default_max_tokens;  ///< generation_config.json
  // Both outlive the server's threads.
  const engine::Tokenizer* tokenizer = nullptr;
  engine::GenerationService* service = nullptr;
};

}  // namespace yoke::server
