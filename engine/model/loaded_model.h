// The one implementation of Model, with its parts open to tests that record passes, force choices
// or count memory. The rest of the engine sees model.h only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/model/caches.h"
#include "engine/model/forward.h"
#include "engine/model/memory.h"
#include "engine/model/model.h"
#include "engine/model/snapshots.h"
#include "engine/model/step_buffers.h"
#include "engine/model/weights.h"
#include "engine/model/workspace.h"

namespace yoke::engine {

/// Bytes per class that a model of these options takes; nothing is allocated. For `yoke plan`, and
/// for refusing to start.
config::Result<MemoryPlan> plan_memory(const Checkpoint& checkpoint, const ModelOptions& options,
                                       int threads);

/// Everything a model consists of, in the order in which its parts depend on each other.
struct ModelParts {
  ModelParts(const ModelConfig& model_config, const ModelOptions& model_options, Weights loaded,
             kernels::ThreadPool& threads);
  ModelParts(const ModelParts&) = delete;
  ModelParts& operator=(const ModelParts&) = delete;

  ModelConfig config;
  ModelOptions options;
  Weights weights;
  Caches caches;
  Snapshots snapshots;
  Memory memory{Memory::Mode::allocate};  // of the two that follow
  StepBuffers buffers;
  Workspace workspace;
  kernels::Stream stream;
  Forward forward;
};

class LoadedModel final : public Model {
 public:
  /// As Model::load.
  static config::Result<std::unique_ptr<LoadedModel>> load(const Checkpoint& checkpoint,
                                                           const ModelOptions& options,
                                                           kernels::ThreadPool& threads,
                                                           const LoadProgress& progress = {});

  LoadedModel(const ModelConfig& model_config, const ModelOptions& model_options, Weights weights,
              kernels::ThreadPool& threads);

  const ModelConfig& config() const noexcept override { return parts_.config; }
  const ModelOptions& options() const noexcept override { return parts_.options; }
  int32_t block_tokens() const noexcept override { return parts_.caches.geometry().block_tokens; }
  int32_t num_blocks() const noexcept override { return parts_.caches.geometry().num_blocks; }
  bool has_mtp() const noexcept override { return parts_.weights.mtp.has_value(); }
  uint64_t weight_bytes() const noexcept override { return parts_.weights.bytes; }
  uint64_t cache_bytes() const noexcept override { return parts_.caches.bytes(); }
  void set_trace(Trace trace) override { parts_.forward.set_trace(std::move(trace)); }

  StepResult step(const StepPlan& plan) override;
  void take_snapshots(const StepPlan& plan) override;
  kernels::ConstTensorView snapshot_hidden(int32_t snapshot) const noexcept override;
  kernels::ConstTensorView hidden() const noexcept override;
  StepResult mtp_step(const StepPlan& plan, std::span<const float> hidden) override;
  kernels::ConstTensorView mtp_hidden() const noexcept override;

  ModelParts& parts() noexcept { return parts_; }

 private:
  /// Where a slot's recurrent state stands: a plan that contradicts it is a bug of the planner.
  struct SlotState {
    int32_t committed = 0;  ///< position after the last committed row
    int32_t window = 0;     ///< pending rows after it
  };

  void advance(const StepSequence& sequence);
  StepResult result() const;

  ModelParts parts_;
  std::vector<SlotState> slots_;
  std::vector<int32_t> snapshot_positions_;  // tokens before each; 0: never filled
  int32_t hidden_rows_ = 0;
  int32_t mtp_rows_ = 0;
};

}  // namespace yoke::engine
