#include "engine/model/loaded_model.h"

#include "engine/model/load_checks.h"

namespace yoke::engine {

using config::Result;
using kernels::ConstTensorView;

Result<MemoryPlan> plan_memory(const Checkpoint& checkpoint, const ModelOptions& options,
                               int threads) {
  const Result<Weights> weights = describe_weights(checkpoint, options);
  if (!weights.ok()) return weights.error();
  const ModelConfig& config = checkpoint.config();

  const bool with_mtp = weights->mtp.has_value();
  const Caches caches(config, options, with_mtp, Memory::Mode::count);
  const Snapshots snapshots(config, options, with_mtp, Memory::Mode::count);
  Memory memory(Memory::Mode::count);
  const StepBuffers buffers(config, options, memory);
  const Workspace workspace(config, options, *weights, threads, memory);

  const CacheGeometry& g = caches.geometry();
  const auto count = [](int64_t n) { return format_count(n); };
  MemoryPlan plan;
  plan.classes = {
      {"weights", weights->bytes,
       std::to_string(config.num_layers) + " layers" + (with_mtp ? " and the MTP layer" : "")},
      {"KV pool", caches.paged_bytes(),
       count(int64_t{g.num_blocks} * g.block_tokens) + " tokens in " + count(g.num_blocks) +
           " blocks"},
      {"KDA slots", caches.bytes() - caches.paged_bytes(),
       count(options.max_slots) + " sequences at once"},
      {"prefix snapshots", snapshots.bytes(),
       options.max_snapshots == 0
           ? "off"
           : count(options.max_snapshots) + " of " +
                 format_bytes(snapshots.bytes() / static_cast<uint64_t>(options.max_snapshots))},
      {"MoE slot buffer", workspace.moe_bytes(),
       count(options.max_rows) + " rows of " + std::to_string(config.experts_per_token) +
           " experts"},
      {"workspace", memory.bytes() - workspace.moe_bytes(),
       "activations of " + count(options.max_rows) + " rows, logits of " +
           count(options.max_logit_rows)}};
  return plan;
}

ModelParts::ModelParts(const ModelConfig& model_config, const ModelOptions& model_options,
                       Weights loaded, kernels::ThreadPool& threads)
    : config(model_config),
      options(model_options),
      weights(std::move(loaded)),
      caches(config, options, weights.mtp.has_value()),
      snapshots(config, options, weights.mtp.has_value()),
      buffers(config, options, memory),
      workspace(config, options, weights, threads.threads(), memory),
      stream(threads),
      forward(config, weights, caches, snapshots, buffers, workspace, stream) {}

LoadedModel::LoadedModel(const ModelConfig& model_config, const ModelOptions& model_options,
                         Weights weights, kernels::ThreadPool& threads)
    : parts_(model_config, model_options, std::move(weights), threads),
      slots_(static_cast<size_t>(model_options.max_slots)),
      snapshot_positions_(static_cast<size_t>(model_options.max_snapshots)) {}

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(const Checkpoint& checkpoint,
                                                       const ModelOptions& options,
                                                       kernels::ThreadPool& threads,
                                                       const LoadProgress& progress) {
  if (const auto problem = check_loadable(checkpoint, options)) return *problem;
  const Result<MemoryPlan> plan = plan_memory(checkpoint, options, threads.threads());
  if (!plan.ok()) return plan.error();
  if (const auto problem = check_memory(*plan)) return *problem;

  Result<Weights> weights = load_weights(checkpoint, options, threads, progress);
  if (!weights.ok()) return weights.error();
  return std::make_unique<LoadedModel>(checkpoint.config(), options, std::move(*weights), threads);
}

Result<std::unique_ptr<Model>> Model::load(const Checkpoint& checkpoint,
                                           const ModelOptions& options,
                                           kernels::ThreadPool& threads,
                                           const LoadProgress& progress) {
  Result<std::unique_ptr<LoadedModel>> model =
      LoadedModel::load(checkpoint, options, threads, progress);
  if (!model.ok()) return model.error();
  return std::unique_ptr<Model>(std::move(*model));
}

StepResult LoadedModel::step(const StepPlan& plan) {
  parts_.buffers.fill(plan);
  for (const StepSequence& s : plan.sequences) advance(s);
  if (parts_.buffers.restores().count > 0) parts_.forward.restore_snapshots();
  parts_.forward.trunk(parts_.buffers.bucket());
  parts_.forward.trunk_head(parts_.buffers.logit_bucket());
  hidden_rows_ = parts_.buffers.rows();
  return result();
}

void LoadedModel::take_snapshots(const StepPlan& plan) {
  bool wanted = false;
  for (const StepSequence& s : plan.sequences) {
    if (s.save < 0) continue;
    const SlotState& slot = slots_[static_cast<size_t>(s.slot)];
    YOKE_CHECK(slot.committed == s.start_position + s.commit,
               "take_snapshots: the plan is not that of the last step");
    snapshot_positions_[static_cast<size_t>(s.save)] = slot.committed;
    wanted = true;
  }
  if (!wanted) return;
  parts_.buffers.fill(plan);  // an MTP pass may have filled them with another plan
  parts_.forward.save_snapshots();
}

ConstTensorView LoadedModel::snapshot_hidden(int32_t snapshot) const noexcept {
  const ConstTensorView all = parts_.snapshots.hidden().view();
  if (!all) return {};
  const auto* data = static_cast<const std::byte*>(all.data);
  const int64_t width = all.dim(1);
  return {data + static_cast<size_t>(snapshot * width) * kernels::dtype_bytes(all.dtype),
          all.dtype,
          {1, width}};
}

StepResult LoadedModel::mtp_step(const StepPlan& plan, std::span<const float> hidden) {
  YOKE_CHECK(has_mtp(), "mtp_step: no MTP layer is loaded");
  parts_.buffers.fill(plan);
  const int64_t width = parts_.config.hidden_size;
  YOKE_CHECK(static_cast<int64_t>(hidden.size()) == parts_.buffers.rows() * width,
             "mtp_step: one hidden row per row of the plan");
  const kernels::TensorView in = parts_.workspace.mtp_in.view();
  for (size_t i = 0; i < hidden.size(); ++i)
    kernels::store_float(in, static_cast<int64_t>(i), hidden[i]);
  parts_.forward.mtp(parts_.buffers.bucket());
  parts_.forward.mtp_head(parts_.buffers.logit_bucket());
  mtp_rows_ = parts_.buffers.rows();
  return result();
}

ConstTensorView LoadedModel::hidden() const noexcept {
  return parts_.workspace.hidden.rows(hidden_rows_);
}

ConstTensorView LoadedModel::mtp_hidden() const noexcept {
  return parts_.workspace.mtp_hidden.rows(mtp_rows_);
}

void LoadedModel::advance(const StepSequence& s) {
  SlotState& slot = slots_[static_cast<size_t>(s.slot)];
  if (s.restore >= 0) slot = {snapshot_positions_[static_cast<size_t>(s.restore)], 0};
  YOKE_CHECK(s.start_position == 0 ||
                 (s.replay <= slot.window && s.start_position == slot.committed + s.replay),
             "plan: a sequence does not continue where its slot stands");
  slot.committed = s.start_position + s.commit;
  slot.window = static_cast<int32_t>(s.tokens.size()) - s.commit;
}

StepResult LoadedModel::result() const {
  const int32_t count = parts_.buffers.logit_rows();
  const int32_t vocab = parts_.config.vocab_size;
  const ConstTensorView logits = parts_.workspace.logits.view();
  return {
      {logits.as<float>(), static_cast<size_t>(count) * static_cast<size_t>(vocab)}, count, vocab};
}

}  // namespace yoke::engine
