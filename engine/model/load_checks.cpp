#include "engine/model/load_checks.h"

#include "engine/model/system_memory.h"
#include "kernels/index_pool/index_pool.h"
#include "kernels/kda/kda.h"
#include "kernels/mla_attention/mla_attention.h"
#include "kernels/short_conv/short_conv.h"

namespace yoke::engine {

using config::Error;
using config::ErrorKind;

namespace {

constexpr int32_t kMaxStreams = 8;  // kernels/mhc/mhc.h
constexpr size_t kHoldersNamed = 3;

std::optional<Error> check_options(const ModelOptions& o) {
  struct Bound {
    const char* name;
    int32_t value;
    int32_t lowest;
  };
  const Bound bounds[] = {
      {"max_rows", o.max_rows, 1},           {"max_slots", o.max_slots, 1},
      {"max_model_len", o.max_model_len, 1}, {"num_blocks", o.num_blocks, 0},
      {"max_window", o.max_window, 0},       {"max_logit_rows", o.max_logit_rows, 1}};
  for (const Bound& b : bounds) {
    if (b.value < b.lowest)
      return config::invalid_input(std::string(b.name) + ": want at least " +
                                   std::to_string(b.lowest) + ", found " + std::to_string(b.value));
  }
  return std::nullopt;
}

/// What the kernels can do, beyond what the config parser checks.
std::optional<Error> check_kernels(const ModelConfig& c) {
  struct Limit {
    const char* name;
    int64_t value;
    int64_t highest;
  };
  const Limit limits[] = {{"linear_attn_config.head_dim", c.kda_head_dim, kernels::kMaxKdaDim},
                          {"short_conv_kernel_size", c.conv_kernel, kernels::kMaxConvKernel},
                          {"kv_lora_rank", c.kv_lora_rank, kernels::kMaxLatentRank},
                          {"index_kpool", c.index_kpool, kernels::kMaxPoolTokens},
                          {"hc_mult", c.hc_streams, kMaxStreams}};
  for (const Limit& l : limits) {
    if (l.value > l.highest)
      return Error{ErrorKind::unsupported, "config.json: " + std::string(l.name) + " is " +
                                               std::to_string(l.value) + ", the kernels take " +
                                               std::to_string(l.highest) + " at most"};
  }
  return std::nullopt;
}

std::optional<Error> check_checkpoint(const Checkpoint& checkpoint) {
  const std::vector<std::string>& problems = checkpoint.census().problems;
  if (problems.empty()) return std::nullopt;
  std::string message = checkpoint.name() + " cannot be served: " + problems.front();
  if (problems.size() > 1)
    message += " (and " + std::to_string(problems.size() - 1) + " more; see yoke inspect)";
  return config::invalid_input(std::move(message));
}

}  // namespace

std::optional<Error> check_loadable(const Checkpoint& checkpoint, const ModelOptions& options) {
  if (auto problem = check_options(options)) return problem;
  if (auto problem = check_checkpoint(checkpoint)) return problem;
  return check_kernels(checkpoint.config());
}

std::optional<Error> check_memory(const MemoryPlan& plan) {
  const std::optional<SystemMemory> memory = system_memory();
  if (!memory || plan.total() <= memory->available) return std::nullopt;
  const std::string holders = describe(memory_holders(kHoldersNamed));
  return Error{ErrorKind::exhausted,
               "want " + format_bytes(plan.total()) + " of memory (" + plan.describe() + "), " +
                   format_bytes(memory->available) + " of " + format_bytes(memory->total) +
                   " are available: " + format_bytes(plan.total() - memory->available) +
                   " are missing" + (holders.empty() ? "" : "; most is held by " + holders)};
}

}  // namespace yoke::engine
