// Activations of one step: every tensor between two ops, allocated once for the largest step. Ops
// work on the first rows of each. Act = bf16, or f32 under --precision fp32.
#pragma once

#include "engine/checkpoint/model_config.h"
#include "engine/model/memory.h"
#include "engine/model/model.h"
#include "engine/model/weights.h"

namespace yoke::engine {

/// R = max_rows, H = hidden, S = residual streams, k = experts per token.
struct Workspace {
  /// `weights` give the scratch that the products need.
  Workspace(const ModelConfig& config, const ModelOptions& options, const Weights& weights,
            int threads, Memory& memory);

  /// Of its memory, what the routed experts take.
  uint64_t moe_bytes() const noexcept { return moe_bytes_; }

  kernels::Tensor streams;     ///< [R, S, H] act
  kernels::Tensor post, comb;  ///< [R, S], [R, S, S] f32
  kernels::Tensor x;           ///< [R, H] act: input of a sub-layer, before and after its norm
  kernels::Tensor y;           ///< [R, H] f32: its output, rounded when it joins the streams
  kernels::Tensor scratch;     ///< f32, for products

  // KDA, W = heads · head_dim
  kernels::Tensor q_raw, k_raw, v_raw, q, k, v;  ///< [R, W] act: before and after the convolution
  kernels::Tensor low;                           ///< [R, head_dim] act: between f_a/g_a and f_b/g_b
  kernels::Tensor z;                             ///< [R, W] act: decay input, later output gate
  kernels::Tensor write;                         ///< [R, heads] f32: input of beta
  kernels::Tensor g, beta;                       ///< [R, W], [R, heads] f32
  kernels::Tensor o;                             ///< [R, W] act

  // MLA and the indexer
  kernels::Tensor q_low;                ///< [R, q_rank] act
  kernels::Tensor query;                ///< [R, heads, qk_dim] act
  kernels::Tensor latent;               ///< [R, kv_rank] act
  kernels::Tensor absorbed, attended;   ///< [R, heads, kv_rank] act
  kernels::Tensor value;                ///< [R, heads, v_dim] act
  kernels::Tensor index_q;              ///< [R, index_heads, index_dim] act
  kernels::Tensor index_k, index_gate;  ///< [R, index_dim] act
  kernels::Tensor index_w;              ///< [R, index_heads] f32
  kernels::Tensor selected, count;      ///< [R, list], [R] i32
  kernels::Tensor select_scratch;       ///< [threads, pools per sequence + top pools] f32

  // Dense MLP and shared expert
  kernels::Tensor gate, up;  ///< [R, max(intermediate, shared)] act

  // MoE
  kernels::Tensor router;                  ///< [R, experts] f32
  kernels::Tensor ids, weights;            ///< [R, k] i32, f32
  kernels::Tensor offsets, items;          ///< [experts + 1], [R · k] i32
  kernels::Tensor expert_gate, expert_up;  ///< [R · k, moe_intermediate] act
  kernels::Tensor slots;                   ///< [R, k, H] f32
  kernels::Tensor shared;                  ///< [R, H] f32

  // MTP
  kernels::Tensor mtp_in;                 ///< [R, H] act: hidden rows as given
  kernels::Tensor mtp_embedding, joined;  ///< [R, H], [R, 2H] act
  kernels::Tensor mtp_hidden;             ///< [R, H] act: after shared_head.norm

  // Head
  kernels::Tensor hidden;     ///< [R, H] act: after the final norm
  kernels::Tensor head_rows;  ///< [max_logit_rows, H] act
  kernels::Tensor logits;     ///< [max_logit_rows, vocab] f32

 private:
  uint64_t moe_bytes_ = 0;
};

}  // namespace yoke::engine
