#include "engine/checkpoint/foreign_layout.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace yoke::engine {

namespace {

constexpr std::string_view kUseOurs =
    "use an EXL3 checkpoint (such as brandonmusic/GLM-5.3-Flash-tr3-4bpw) or the BF16 release "
    "(zai-org/GLM-5.3-Flash-BF16)";

constexpr ForeignLayout kFp8{"an FP8 weight or its scales", kUseOurs};
constexpr ForeignLayout kGptq{"GPTQ or AWQ weights", kUseOurs};
constexpr ForeignLayout kCompressed{"compressed-tensors weights", kUseOurs};
constexpr ForeignLayout kBitsAndBytes{"bitsandbytes weights", kUseOurs};
constexpr ForeignLayout kRankSliced{
    "EXL3 weights sliced per rank",
    "use a checkpoint with whole matrices; yoke slices them itself when it loads"};
constexpr ForeignLayout kTileOrder{"EXL3 tiles reordered for other hardware",
                                   "use a checkpoint without tile_order"};
constexpr ForeignLayout kTextOnly{"names of a text-only export (no 'model.language_model.')",
                                  "use a checkpoint with the names of the original release"};
constexpr ForeignLayout kInMemory{"names of Hugging Face's model in memory",
                                  "save with the names of the original release"};

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

bool contains_any(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

/// ".rank0." and the like.
bool has_rank(std::string_view name) {
  constexpr std::string_view kMark = ".rank";
  for (size_t at = name.find(kMark); at != std::string_view::npos; at = name.find(kMark, at + 1)) {
    size_t end = at + kMark.size();
    while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
    if (end > at + kMark.size() && end < name.size() && name[end] == '.') return true;
  }
  return false;
}

}  // namespace

const ForeignLayout* foreign_layout(const TensorInfo& tensor) {
  const std::string_view name = tensor.name;
  if (has_rank(name)) return &kRankSliced;
  if (tensor.dtype.starts_with("F8_") ||
      ends_with_any(name, {".weight_scale_inv", ".weight_scale", ".input_scale"}))
    return &kFp8;
  if (ends_with_any(name, {".qweight", ".qzeros", ".scales", ".g_idx"})) return &kGptq;
  if (ends_with_any(name, {".weight_packed", ".weight_shape", ".weight_zero_point"}))
    return &kCompressed;
  if (contains_any(
          name, {".weight.absmax", ".weight.quant_map", ".weight.quant_state", ".weight.nested_"}))
    return &kBitsAndBytes;
  if (ends_with_any(name, {".tile_order"})) return &kTileOrder;
  if (name.starts_with("model.layers.") || name.starts_with("model.embed_tokens.") ||
      name.starts_with("language_model."))
    return &kTextOnly;
  if (contains_any(name, {".forget_gate.", ".attn_hc.", ".ffn_hc.", ".self_attn.conv1d.",
                          ".experts.gate_up_proj"}) ||
      ends_with_any(name, {".experts.down_proj"}))
    return &kInMemory;
  return nullptr;
}

}  // namespace yoke::engine
