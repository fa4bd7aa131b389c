// A checkpoint folder brought to life: its tokenizer, its model on compute threads, and the engine
// that serves it. What `serve` and `chat` build first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "config/clock.h"
#include "config/log.h"
#include "config/result.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "engine/model/model.h"
#include "engine/sampling/sampling.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/core/thread_pool.h"

namespace yoke::engine {

struct RuntimeOptions {
  std::filesystem::path folder;
  Precision precision = Precision::bf16;
  int32_t max_sequences = 4;         ///< sequences in one step
  int32_t max_batched_tokens = 512;  ///< rows in one step
  int32_t max_model_len = 0;         ///< tokens of one sequence; 0 = what the checkpoint allows
  int32_t max_waiting = 64;
  config::Duration time_limit{};    ///< of one request; 0 = none
  uint64_t prompt_cache_bytes = 0;  ///< for snapshots of prefixes; 0 = prompts are not reused
  /// Tokens of the paged caches, all sequences and kept prefixes together; at least max_model_len.
  /// 0 = enough for sequences of ordinary length in every slot.
  int64_t kv_tokens = 0;
  uint64_t host_bytes = 0;  ///< that other parts of the process may take later
  std::optional<uint64_t>
      reserve_bytes;    ///< left to the operating system; unset: default_reserve()
  int32_t threads = 0;  ///< that compute; 0 = as many as the machine has cores
};

/// Thread: open() and the destructor on one; the accessors from any.
class Runtime {
 public:
  /// Reads headers, configs and the tokenizer (no weights), checks what can be checked, and starts
  /// the engine, which loads weights and warms up on its own thread: see engine().status() and
  /// wait_until_ready(). Errors: what is wrong with the folder or the options.
  static config::Result<std::unique_ptr<Runtime>> open(const RuntimeOptions& options,
                                                       config::Logger log);

  const Checkpoint& checkpoint() const noexcept { return checkpoint_; }
  const Tokenizer& tokenizer() const noexcept { return tokenizer_; }
  Engine& engine() noexcept { return *engine_; }
  int32_t max_model_len() const noexcept { return model_options_.max_model_len; }
  const ModelOptions& model_options() const noexcept { return model_options_; }
  int threads() const noexcept { return threads_.threads(); }
  /// End of turn: the ids of config.json and generation_config.json, sorted.
  const std::vector<int32_t>& eos_token_ids() const noexcept { return eos_token_ids_; }
  /// What a request that is silent gets (design.md 11): generation_config.json, else neutral.
  const SamplingParams& default_sampling() const noexcept { return default_sampling_; }

 private:
  Runtime(const RuntimeOptions& options, Checkpoint checkpoint, Tokenizer tokenizer);

  Checkpoint checkpoint_;
  Tokenizer tokenizer_;
  ModelOptions model_options_;
  std::vector<int32_t> eos_token_ids_;
  SamplingParams default_sampling_;
  kernels::ThreadPool threads_;
  std::unique_ptr<Engine> engine_;  // last: its thread uses all of the above
};

/// What the model must be able to do for these options.
ModelOptions model_options(const RuntimeOptions& options, const ModelConfig& config);
/// Threads that compute: those of the options, or as many as the machine has cores.
int compute_threads(const RuntimeOptions& options);
/// The ids that end a turn, sorted: config.json's and generation_config.json's.
std::vector<int32_t> eos_token_ids(const Checkpoint& checkpoint);

/// generation_config.json as sampling parameters: do_sample false is temperature 0.
SamplingParams default_sampling(const GenerationConfig& generation);

}  // namespace yoke::engine
