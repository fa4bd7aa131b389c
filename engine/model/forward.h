// The forward pass as a list of ops (spec/glm5_next.md 5). Every op goes through the stream and
// works on `bucket` rows; what varies per step is read from StepBuffers, so a pass can be recorded
// once per bucket and replayed with other contents (design.md 6).
#pragma once

#include <cstdint>
#include <functional>

#include "engine/checkpoint/model_config.h"
#include "engine/model/caches.h"
#include "engine/model/model.h"
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

/// Borrows everything. Thread: the engine thread.
class Forward {
 public:
  Forward(const ModelConfig& config, const Weights& weights, Caches& caches,
          const StepBuffers& buffers, Workspace& workspace, kernels::Stream& stream);

  /// Embedding to logits of the trunk. `logit_bucket` 0: no head.
  /// Fills workspace.hidden and workspace.logits.
  void trunk(int32_t bucket, int32_t logit_bucket);
  /// The MTP layer over workspace.mtp_in. Fills workspace.mtp_hidden and workspace.logits.
  void mtp(int32_t bucket, int32_t logit_bucket);

  /// See Model::set_trace. Not while recording.
  void set_trace(Model::Trace trace) { trace_ = std::move(trace); }
  /// Lets a test look at, or force, what each layer attends to (design.md 5). Not while recording.
  using SelectionHook = std::function<void(const Selection&)>;
  void set_selection_hook(SelectionHook hook) { selection_hook_ = std::move(hook); }
  /// The same for the experts that each layer takes.
  using RoutingHook = std::function<void(const Routing&)>;
  void set_routing_hook(RoutingHook hook) { routing_hook_ = std::move(hook); }

 private:
  void layer(int32_t index, const LayerWeights& w);
  /// workspace.x → workspace.y
  void attention(int32_t index, const LayerWeights& w);
  void kda(KdaCache& cache, const KdaWeights& w);
  void convolve(kernels::Tensor& y, kernels::Tensor& x, kernels::ConstTensorView weight,
                ConvCache& cache);
  void dsa(int32_t index, const DsaWeights& w);
  void select_tokens(int32_t index, const DsaWeights& w);
  void mlp(int32_t index, const LayerWeights& w);
  void swiglu_mlp(kernels::TensorView y, const MlpWeights& w);
  void moe(int32_t index, const MoeWeights& w);
  void head(kernels::Tensor& hidden, int32_t logit_bucket);

  void linear(kernels::TensorView y, kernels::ConstTensorView x, const kernels::LinearWeight& w);
  void norm(kernels::TensorView y, kernels::ConstTensorView x, kernels::ConstTensorView weight);
  void trace(int32_t layer);
  /// The step's rows of a workspace tensor.
  kernels::TensorView rows(kernels::Tensor& t) const { return t.rows(bucket_); }
  kernels::StepRows step_rows() const { return buffers_.step_rows(bucket_); }

  const ModelConfig& c_;
  const Weights& weights_;
  Caches& caches_;
  const StepBuffers& buffers_;
  Workspace& ws_;
  kernels::Stream& stream_;
  Model::Trace trace_;
  SelectionHook selection_hook_;
  RoutingHook routing_hook_;
  int32_t bucket_ = 0;  // of the pass that is being issued
};

}  // namespace yoke::engine
