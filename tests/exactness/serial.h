// Clients of the suite, and what serial decoding makes of them: the definition of right.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/sampling.h"
#include "kernels/testing/random.h"
#include "tests/exactness/op_watch.h"
#include "tests/exactness/subject.h"

namespace yoke::tests {

/// One sequence that is asked for.
struct Client {
  std::vector<int32_t> prompt;
  int32_t output = 0;  ///< tokens, at least 1
  engine::SamplingParams sampling;
};

struct ClientShape {
  int32_t count = 6;
  int32_t prompt_min = 3, prompt_max = 40;
  int32_t output_min = 8, output_max = 24;
  int32_t long_prompt = 0;  ///< of the first client, if not 0: beyond where attention is sparse
};

/// Random tokens. Every second one samples: with top-p, with penalties, with a high temperature.
std::vector<Client> random_clients(uint64_t seed, const engine::ModelConfig& config,
                                   const ClientShape& shape);

/// What serial decoding makes of clients: each alone, its prompt in one step, then one row per
/// step.
struct Truth {
  std::vector<std::vector<int32_t>> tokens;  ///< prompt and output
  OpDigests digests;
  bool with_mtp = false;
};
Truth serial_decoding(const Subject& subject, const std::vector<Client>& clients);

/// Options of a model that any traffic of `clients` fits in. Blocks are scarce.
engine::ModelOptions traffic_options(const Subject& subject, const std::vector<Client>& clients);

/// The client's next token, for `position`. Throws when a logit is not finite.
int32_t sample(std::span<const float> logits, const Client& client,
               const engine::TokenCounts& counts, size_t position);

/// Rows `first` to `first + count` of a hidden view, as floats.
std::vector<float> hidden_rows(kernels::ConstTensorView hidden, int64_t first, int64_t count);

/// In [low, high].
int32_t at_random(kernels::testing::Random& random, int32_t low, int32_t high);

}  // namespace yoke::tests
