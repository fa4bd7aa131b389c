// The forward pass as a list of ops (spec/glm5_next.md 5). Every op goes through the stream and
// works on `bucket` rows; what varies per step is read from StepBuffers, so a pass can be recorded
// once per bucket and replayed with other contents (design.md 6).
#pragma once

#include <cstdint>
#include <functional>

#include "engine/checkpoint/model_config.h"
#include "engine/model/caches.h"
#include "engine/model/model.h"
#include "engine/model/snapshots.h"
#include "engine/model/step_buffers.h"
#include "engine/model/weights.h"
#include "engine/model/workspace.h"
#include "kernels/core/stream.h"

namespace yoke::engine {

/// One layer's token selection, after it was made and before it is used.
struct Selection {
  int32_t layer = 0;
  kernels::StepRows rows;
  kernels::ConstTensorView index_q, index_w, pools;  ///< as kernels/index_select takes them
  kernels::TensorView selected, count;
};

/// One layer's router choice, after it was made and before it is used.
struct Routing {
  int32_t layer = 0;
  int32_t rows = 0;                       ///< without padding
  kernels::ConstTensorView logits, bias;  ///< as kernels/moe_route takes them
  kernels::TensorView ids, weights;
};

/// What one op left for the step's rows, right after it ran. Tests compare it, or spoil it.
struct OpOutput {
  int32_t layer = 0;           ///< the MTP layer's is num_layers; before and after the layers: -1
  const char* name = "";       ///< unique within a layer
  bool of_logit_rows = false;  ///< `y` has a row per wanted logit row instead
  kernels::TensorView y;       ///< [bucket, ...], padding included
};

/// Borrows everything. Thread: the engine thread.
class Forward {
 public:
  Forward(const ModelConfig& config, const Weights& weights, Caches& caches, Snapshots& snapshots,
          const StepBuffers& buffers, Workspace& workspace, kernels::Stream& stream);

  /// Embedding to workspace.hidden.
  void trunk(int32_t bucket);
  /// The MTP layer over workspace.mtp_in, to workspace.mtp_hidden.
  void mtp(int32_t bucket);
  /// Wanted rows of the trunk's, or the MTP layer's, hidden rows to workspace.logits. Apart from
  /// the passes above, so that those are recorded once per row bucket and these once per bucket of
  /// logit rows. 0: nothing.
  void trunk_head(int32_t logit_bucket) { head(ws_.hidden, logit_bucket); }
  void mtp_head(int32_t logit_bucket) { head(ws_.mtp_hidden, logit_bucket); }

  /// Snapshots into slots and blocks, before the pass; and back, after it. Each copies what the
  /// step's tables name, so it can be recorded too; needs max_snapshots > 0.
  void restore_snapshots();
  void save_snapshots();

  /// See Model::set_trace. Not while recording.
  void set_trace(Model::Trace trace) { trace_ = std::move(trace); }
  /// Lets a test look at, or force, what each layer attends to (design.md 5). Not while recording.
  using SelectionHook = std::function<void(const Selection&)>;
  void set_selection_hook(SelectionHook hook) { selection_hook_ = std::move(hook); }
  /// The same for the experts that each layer takes.
  using RoutingHook = std::function<void(const Routing&)>;
  void set_routing_hook(RoutingHook hook) { routing_hook_ = std::move(hook); }
  /// Called after every op, in order. Not while recording.
  using OpHook = std::function<void(const OpOutput&)>;
  void set_op_hook(OpHook hook) { op_hook_ = std::move(hook); }

 private:
  void layer(int32_t index, const LayerWeights& w);
  /// workspace.x → workspace.y
  void attention(int32_t index, const LayerWeights& w);
  void kda(KdaCache& cache, const KdaWeights& w);
  void convolve(const char* name, kernels::Tensor& y, kernels::Tensor& x,
                kernels::ConstTensorView weight, ConvCache& cache);
  void dsa(int32_t index, const DsaWeights& w);
  void select_tokens(int32_t index, const DsaWeights& w);
  void mlp(int32_t index, const LayerWeights& w);
  void swiglu_mlp(kernels::TensorView y, const MlpWeights& w);
  void moe(int32_t index, const MoeWeights& w);
  void head(kernels::Tensor& hidden, int32_t logit_bucket);

  // Ops that many places use; `name` is for the op hook.
  void linear(const char* name, kernels::TensorView y, kernels::ConstTensorView x,
              const kernels::LinearWeight& w);
  void norm(const char* name, kernels::TensorView y, kernels::ConstTensorView x,
            kernels::ConstTensorView weight);
  void mix(const char* name);
  /// copy(cache entry, snapshot entry, index of the cache entry) for all that a snapshot holds.
  template <class Copy>
  void each_snapshot_tensor(const StepBuffers::Copies& copies, Copy&& copy);
  void trace(int32_t layer);
  /// To the op hook: `y` was just written.
  void done(const char* name, kernels::TensorView y, bool of_logit_rows = false) {
    if (op_hook_) op_hook_({layer_, name, of_logit_rows, y});
  }
  /// The step's rows of a workspace tensor.
  kernels::TensorView rows(kernels::Tensor& t) const { return t.rows(bucket_); }
  kernels::StepRows step_rows() const { return buffers_.step_rows(bucket_); }

  const ModelConfig& c_;
  const Weights& weights_;
  Caches& caches_;
  Snapshots& snapshots_;
  const StepBuffers& buffers_;
  Workspace& ws_;
  kernels::Stream& stream_;
  Model::Trace trace_;
  SelectionHook selection_hook_;
  RoutingHook routing_hook_;
  OpHook op_hook_;
  // Of the pass that is being issued:
  int32_t bucket_ = 0;
  int32_t layer_ = -1;
};

}  // namespace yoke::engine
