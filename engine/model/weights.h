// All weights of one rank, in memory of their own, in the form the ops want them. Matrices keep the
// checkpoint's form (dense or EXL3); only what an op needs dense is decoded at load.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/model/memory.h"
#include "engine/model/model.h"
#include "kernels/core/weights.h"
#include "kernels/mhc/mhc.h"

namespace yoke::engine {

/// spec/glm5_next.md 3.3. W = heads · head_dim.
struct KdaWeights {
  kernels::LinearWeight q, k, v;                    ///< [W, hidden]
  kernels::ConstTensorView q_conv, k_conv, v_conv;  ///< [W, kernel]
  kernels::LinearWeight f_a, f_b;                   ///< [head_dim, hidden], [W, head_dim]
  kernels::LinearWeight g_a, g_b;                   ///< as f_a, f_b
  kernels::LinearWeight b;                          ///< [heads, hidden]
  kernels::ConstTensorView a_log, dt_bias;          ///< [heads], [W], f32
  kernels::ConstTensorView o_norm;                  ///< [head_dim]
  kernels::LinearWeight o;                          ///< [hidden, W]
};

/// spec/glm5_next.md 3.4; kv_b_proj is split for the absorbed form.
struct DsaWeights {
  kernels::LinearWeight q_a, q_b, kv_a, o;
  kernels::ConstTensorView q_a_norm, kv_a_norm;
  kernels::ConstTensorView key_up;    ///< [heads, kv_rank, qk_dim]: K_hᵀ
  kernels::ConstTensorView value_up;  ///< [heads, v_dim, kv_rank]: V_h
  kernels::LinearWeight index_q;      ///< wq_b [index_heads · index_dim, q_rank]
  kernels::LinearWeight index_k;      ///< wk [index_dim, hidden]
  kernels::LinearWeight index_w;      ///< weights_proj [index_heads, hidden]
  kernels::LinearWeight index_gate;   ///< index_kpool_compress_gate [index_dim, hidden]
  kernels::ConstTensorView k_norm_weight, k_norm_bias;  ///< [index_dim]
  kernels::ConstTensorView pool_ape;                    ///< [kpool, index_dim]
};

struct MlpWeights {
  kernels::LinearWeight gate, up, down;
};

struct MoeWeights {
  kernels::LinearWeight router;                       ///< [experts, hidden], dense
  kernels::ConstTensorView bias;                      ///< [experts] f32
  std::vector<kernels::LinearWeight> gate, up, down;  ///< one per expert
  MlpWeights shared;
};

struct LayerWeights {
  kernels::ConstTensorView input_norm, post_attention_norm;
  kernels::MhcWeights attention_hc, mlp_hc;  ///< empty in the MTP layer
  std::variant<KdaWeights, DsaWeights> attention;
  std::variant<MlpWeights, MoeWeights> mlp;
};

/// spec/glm5_next.md 3.6. Embedding and head are the trunk's.
struct MtpWeights {
  kernels::ConstTensorView embedding_norm, hidden_norm, output_norm;  ///< enorm, hnorm, shared_head
  kernels::LinearWeight eh;                                           ///< [hidden, 2 · hidden]
  LayerWeights layer;
};

struct Weights {
  kernels::ConstTensorView embedding;  ///< [vocab, hidden]
  kernels::ConstTensorView norm;       ///< [hidden]
  kernels::LinearWeight lm_head;       ///< [vocab, hidden]; the embedding when tied
  std::vector<LayerWeights> layers;
  std::optional<MtpWeights> mtp;

  std::vector<kernels::Tensor> storage;
  uint64_t bytes = 0;       ///< of memory
  uint64_t file_bytes = 0;  ///< read for it
};

/// What load_weights() will hold: shapes, kinds and `bytes`, without memory; the data of its views
/// must not be read. For plans.
config::Result<Weights> describe_weights(const Checkpoint& checkpoint, const ModelOptions& options);

/// Reads every tensor of the text model (and of the MTP layer when present and wanted). Errors name
/// the tensor, what was wanted and what was found. `threads` decode EXL3 matrices that are needed
/// dense.
config::Result<Weights> load_weights(const Checkpoint& checkpoint, const ModelOptions& options,
                                     kernels::ThreadPool& threads, const LoadProgress& progress);

/// The MTP layer is in the checkpoint and the options want it.
bool uses_mtp(const Checkpoint& checkpoint, const ModelOptions& options);

}  // namespace yoke::engine
