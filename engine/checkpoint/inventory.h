// Which tensors a glm5_next checkpoint has, as data: names, shapes and classes of
// spec/glm5_next.md 3, for any sizes that config.json may name.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "engine/checkpoint/model_config.h"

namespace yoke::engine {

/// What a tensor is for; the lines of `yoke inspect`.
enum class TensorClass : uint8_t {
  embedding,
  head,
  norms,              ///< layer norms and the final norm
  hyper_connections,  ///< mHC: hc_*
  kda_attention,
  mla_attention,
  indexer,
  dense_mlp,
  router,
  routed_experts,
  shared_experts,
  mtp,     ///< what only the MTP layer has: eh_proj and its norms
  vision,  ///< recognised, counted, skipped
};
constexpr size_t kTensorClasses = 13;
std::string_view class_name(TensorClass tensor_class);

/// The text model, the MTP layer, the vision tower: the last two may be absent as a whole.
enum class InventoryPart : uint8_t { text, mtp, vision };

struct ExpectedTensor {
  std::string name;  ///< full name in the file
  std::array<int64_t, 5> dims{};
  int rank = 0;
  TensorClass tensor_class = TensorClass::norms;
  /// A 2-D `.weight` [out, in]: an EXL3 group (`.trellis` and its company in place of `.weight`)
  /// may stand for it. Everything else is dense: BF16, F16 or F32.
  bool quantisable = false;

  std::span<const int64_t> shape() const { return {dims.data(), static_cast<size_t>(rank)}; }
  uint64_t elements() const;
};

/// Calls `visit` for each tensor of one part, in layer order. Nothing is stored: a config with
/// absurd counts costs time, not memory. `vision` needs config.vision.
void visit_inventory(const ModelConfig& config, InventoryPart part,
                     const std::function<void(const ExpectedTensor&)>& visit);

/// "model.language_model.layers.<layer>."
std::string layer_prefix(int32_t layer);
constexpr std::string_view kTextPrefix = "model.language_model.";
constexpr std::string_view kVisionPrefix = "model.visual.";

}  // namespace yoke::engine
