// The forward pass of GLM-5.3-Flash over one rank's weights and caches (spec/glm5_next.md 5 and 6).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "config/result.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/model/step.h"
#include "kernels/core/stream.h"

namespace yoke::engine {

enum class Precision { bf16, fp32 };

struct ModelOptions {
  Precision precision = Precision::bf16;  ///< activations and caches; fp32 is used by goldens
  int32_t max_rows = 512;                 ///< rows of one step
  int32_t max_slots = 4;                  ///< sequences with state at the same time
  int32_t max_model_len = 8192;           ///< tokens of one sequence
  int32_t num_blocks =
      0;  ///< KV blocks shared by all slots; 0 = enough for max_slots × max_model_len
  int32_t max_window = 8;  ///< window rows per sequence and step
  int32_t max_logit_rows = 64;
  bool with_mtp = true;       ///< load the MTP layer when the checkpoint has one
  int32_t max_snapshots = 0;  ///< states that can be kept for later sequences; 0 = none
};

/// Bytes done and bytes in all while weights load.
using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

/// Steps run one at a time on the engine thread. Memory is allocated in load() only.
class Model {
 public:
  /// Checks census().problems first. Errors name what is wrong with the checkpoint or how much
  /// memory is missing.
  static config::Result<std::unique_ptr<Model>> load(const Checkpoint& checkpoint,
                                                     const ModelOptions& options,
                                                     kernels::ThreadPool& threads,
                                                     const LoadProgress& progress = {});
  virtual ~Model() = default;

  virtual const ModelConfig& config() const noexcept = 0;
  virtual const ModelOptions& options() const noexcept = 0;
  /// Tokens per cache block (a multiple of the index pool size) and blocks in all.
  virtual int32_t block_tokens() const noexcept = 0;
  virtual int32_t num_blocks() const noexcept = 0;

  /// Runs one step. The plan must respect the options' capacities (a bug otherwise). A sequence at
  /// start_position 0 starts from the zero state whatever its slot held, one with `restore` from
  /// that snapshot.
  virtual StepResult step(const StepPlan& plan) = 0;

  /// Fills the snapshots that the `save` of this plan's sequences name. To be called after step(),
  /// and after mtp_step() where that runs too, before the next step. The sequence itself is not
  /// disturbed.
  virtual void take_snapshots(const StepPlan& plan) = 0;
  /// [1, hidden]: the trunk's row of the snapshot's last token, MTP input of a sequence that was
  /// restored from it. Empty without MTP layer.
  virtual kernels::ConstTensorView snapshot_hidden(int32_t snapshot) const noexcept = 0;

  /// Hidden rows after the final norm of the last step, [rows, hidden] in plan order: MTP input,
  /// traces.
  virtual kernels::ConstTensorView hidden() const noexcept = 0;

  /// The MTP layer over rows of this plan: `tokens` are the *next* tokens (row t holds token t+1),
  /// `hidden` [rows, hidden] float are the trunk's (or the previous draft's) rows. Logits as in
  /// step(); mtp_hidden() gives the rows after shared_head.norm. The layer's caches are positional:
  /// commit and replay mean nothing to it, and drafted rows are dropped by writing the true ones at
  /// their positions, at most max_window behind the furthest that was written.
  virtual StepResult mtp_step(const StepPlan& plan, std::span<const float> hidden) = 0;
  virtual kernels::ConstTensorView mtp_hidden() const noexcept = 0;
  virtual bool has_mtp() const noexcept = 0;

  /// When set, step() calls it with the streams [rows, S, hidden] after the embedding (layer 0) and
  /// after each layer (1..L).
  using Trace = std::function<void(int32_t layer, kernels::ConstTensorView streams)>;
  virtual void set_trace(Trace trace) = 0;

  virtual uint64_t weight_bytes() const noexcept = 0;
  virtual uint64_t cache_bytes() const noexcept = 0;
};

}  // namespace yoke::engine
