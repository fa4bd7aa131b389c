#include "engine/runtime.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "engine/known_answers.h"
#include "engine/memory_plan.h"
#include "engine/model/caches.h"
#include "engine/model/load_checks.h"
#include "engine/model/snapshots.h"
#include "engine/scheduler/scheduler.h"
#include "engine/warm_up.h"

namespace yoke::engine {
namespace {

/// Cache for sequences of ordinary length in every slot; one of full length always fits, others
/// are preempted for it.
constexpr int64_t kTokensPerSlot = 32768;

/// More snapshots are not worth searching through when one must go.
constexpr uint64_t kMaxSnapshots = 256;

/// Rows of a generation prompt, which follow the snapshot of the last message within its step:
/// `<|assistant|><think></think>` and one to spare.
constexpr int32_t kWindow = 4;

/// What would fail only after minutes of loading.
config::Result<void> check(const RuntimeOptions& options, const Checkpoint& checkpoint,
                           const Tokenizer& tokenizer) {
  const ModelConfig& config = checkpoint.config();
  if (!checkpoint.census().problems.empty())
    return config::invalid_input(checkpoint.name() + " cannot be served:\n" +
                                 problem_summary(checkpoint.census()));
  if (options.max_model_len > config.max_positions)
    return config::invalid_input("max_model_len: the checkpoint allows " +
                                 std::to_string(config.max_positions) + " tokens, got " +
                                 std::to_string(options.max_model_len));
  if (tokenizer.size() > config.vocab_size)
    return config::invalid_input("tokenizer.json defines " + std::to_string(tokenizer.size()) +
                                 " tokens, config.json has vocab_size " +
                                 std::to_string(config.vocab_size));
  const ModelOptions model = model_options(options, config);
  SchedulerLimits limits;
  limits.max_sequences = options.max_sequences;
  limits.max_batched_tokens = options.max_batched_tokens;
  limits.max_waiting = options.max_waiting;
  limits.max_model_len = model.max_model_len;
  limits.block_tokens = cache_geometry(config, model).block_tokens;
  limits.num_blocks = model.num_blocks;
  limits.time_limit = options.time_limit;
  return check_limits(limits);
}

/// After the start: whether the machine's memory is where the plan says.
config::Result<void> check_use(const MemoryPlan& plan, const std::optional<SystemMemory>& before,
                               const config::Logger& log) {
  const std::optional<SystemMemory> after = system_memory();
  if (!before || !after) return {};
  const uint64_t taken = before->available - std::min(before->available, after->available);
  const std::string facts = "planned \"" + format_bytes(allocated_at_start(plan)) + "\", taken \"" +
                            format_bytes(taken) + "\", available \"" +
                            format_bytes(after->available) + "\"";
  switch (compare_with_plan(plan, *before, *after)) {
    case MemoryVerdict::as_planned:
      return {};
    case MemoryVerdict::exceeded:
      log->info("memory.exceeded {}; other processes may have taken some", facts);
      return {};
    case MemoryVerdict::refused:
      break;
  }
  return config::Error{config::ErrorKind::exhausted,
                       "the start took more memory than the plan and the reserve of " +
                           format_bytes(plan.bytes_of(kReserve)) + " together: " + facts +
                           "; most is held by " + describe(memory_holders(3))};
}

}  // namespace

std::vector<int32_t> eos_token_ids(const Checkpoint& checkpoint) {
  std::vector<int32_t> ids = checkpoint.config().eos_token_ids;
  const std::vector<int32_t>& more = checkpoint.generation().eos_token_ids;
  ids.insert(ids.end(), more.begin(), more.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

int compute_threads(const RuntimeOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ModelOptions model_options(const RuntimeOptions& options, const ModelConfig& config) {
  ModelOptions model;
  model.precision = options.precision;
  model.max_rows = options.max_batched_tokens;
  model.max_slots = options.max_sequences;
  model.max_model_len = options.max_model_len > 0 ? options.max_model_len : config.max_positions;
  model.max_window = options.prompt_cache_bytes > 0 ? kWindow : 1;  // no drafts yet
  model.max_logit_rows = options.max_sequences;
  model.with_mtp = false;
  const int64_t all_full = int64_t{model.max_slots} * model.max_model_len;
  const int64_t tokens =
      options.kv_tokens > 0
          ? options.kv_tokens
          : std::max<int64_t>(model.max_model_len,
                              std::min(all_full, model.max_slots * kTokensPerSlot));
  const int32_t block_tokens = cache_geometry(config, model).block_tokens;
  model.num_blocks = static_cast<int32_t>((tokens + block_tokens - 1) / block_tokens);
  model.max_snapshots = static_cast<int32_t>(std::min(
      kMaxSnapshots, options.prompt_cache_bytes / snapshot_bytes(config, model, model.with_mtp)));
  return model;
}

SamplingParams default_sampling(const GenerationConfig& generation) {
  SamplingParams params;
  params.temperature = generation.temperature.value_or(params.temperature);
  params.top_p = generation.top_p.value_or(params.top_p);
  params.top_k = generation.top_k.value_or(params.top_k);
  params.min_p = generation.min_p.value_or(params.min_p);
  params.repetition_penalty = generation.repetition_penalty.value_or(params.repetition_penalty);
  return params;
}

config::Result<std::unique_ptr<Runtime>> Runtime::open(const RuntimeOptions& options,
                                                       config::Logger log) {
  auto checkpoint = Checkpoint::open(options.folder);
  if (!checkpoint.ok()) return checkpoint.error();
  auto tokenizer = Tokenizer::load(options.folder / "tokenizer.json");
  if (!tokenizer.ok()) return tokenizer.error();
  if (auto checked = check(options, *checkpoint, *tokenizer); !checked.ok()) return checked.error();
  auto plan = plan_memory(*checkpoint, options);
  if (!plan.ok()) return plan.error();
  log->info("memory.plan total=\"{}\" {}", format_bytes(plan->total()), plan->describe());
  if (const auto problem = check_memory(*plan)) return *problem;
  const std::optional<SystemMemory> before = system_memory();

  std::unique_ptr<Runtime> runtime(
      new Runtime(options, std::move(*checkpoint), std::move(*tokenizer)));
  EngineOptions engine;
  engine.defined_vocab = runtime->tokenizer_.size();
  engine.max_waiting = options.max_waiting;
  engine.time_limit = options.time_limit;
  const auto load = [r = runtime.get()](const LoadProgress& progress) {
    return Model::load(r->checkpoint_, r->model_options_, r->threads_, progress);
  };
  const auto warm = [r = runtime.get(), log, before, plan = *plan](Model& model) {
    const std::optional<KnownAnswer> known = known_answer(r->checkpoint_.identity());
    auto result = warm_up(model, r->tokenizer_, known ? &*known : nullptr);
    if (result.ok())
      log->info("engine.warm checkpoint={} answer={}", r->checkpoint_.name(),
                known ? "known" : "unknown, two equal runs");
    if (result.ok()) result = check_use(plan, before, log);
    return result;
  };
  runtime->engine_ = std::make_unique<Engine>(engine, load, warm, std::move(log));
  return runtime;
}

Runtime::Runtime(const RuntimeOptions& options, Checkpoint checkpoint, Tokenizer tokenizer)
    : checkpoint_(std::move(checkpoint)),
      tokenizer_(std::move(tokenizer)),
      model_options_(engine::model_options(options, checkpoint_.config())),
      eos_token_ids_(engine::eos_token_ids(checkpoint_)),
      default_sampling_(engine::default_sampling(checkpoint_.generation())),
      threads_(engine::compute_threads(options)) {}

}  // namespace yoke::engine
