#include "engine/checkpoint/exl3_group.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "engine/checkpoint/file.h"
#include "engine/checkpoint/shard_set.h"

namespace yoke::engine {

using config::invalid_input;
using config::Result;

namespace {

constexpr int64_t kTile = 16;
constexpr int64_t kHadamard = 128;
constexpr uint32_t kMcgMultiplier = 0xCBAC1FED;
constexpr uint32_t kMul1Multiplier = 0x83DCD12D;

/// "tensor 'x' in model.safetensors: ".
std::string subject(const ShardSet& shards, const TensorInfo& tensor) {
  return "tensor " + quote(tensor.name) + " in " + std::string(shards.file_name(tensor)) + ": ";
}

std::string found(const TensorInfo& tensor) {
  return ", found " + tensor.dtype + " " + shape_text(tensor.shape);
}

Result<void> check_trellis(const ShardSet& shards, const TensorInfo& trellis, int64_t wanted_out,
                           int64_t wanted_in) {
  const auto where = [&] { return subject(shards, trellis); };
  if (wanted_in % kHadamard != 0 || wanted_out % kHadamard != 0)
    return invalid_input(where() +
                         "EXL3 needs sizes that are multiples of 128, config.json makes this "
                         "matrix " +
                         std::to_string(wanted_in) + " in, " + std::to_string(wanted_out) +
                         " out: use a checkpoint that leaves it unquantised");
  const bool well_formed = trellis.dtype == "I16" && trellis.shape.size() == 3 &&
                           trellis.shape[2] % kTile == 0 && trellis.shape[2] >= kTile &&
                           trellis.shape[2] <= 8 * kTile;
  if (!well_formed || trellis.shape[0] != wanted_in / kTile ||
      trellis.shape[1] != wanted_out / kTile)
    return invalid_input(where() + "wanted I16 [" + std::to_string(wanted_in / kTile) + "," +
                         std::to_string(wanted_out / kTile) + ",16·K] with K = 1 to 8" +
                         found(trellis));
  return {};
}

/// `<stem>.<name>` F16 [channels], or `<stem>.<legacy>` I16 [channels / 16].
Result<const TensorInfo*> find_scales(const ShardSet& shards, const TensorInfo& trellis,
                                      std::string_view stem, std::string_view name,
                                      std::string_view legacy, int64_t channels) {
  const std::string full = std::string(stem) + "." + std::string(name);
  const std::string legacy_full = std::string(stem) + "." + std::string(legacy);
  const TensorInfo* scales = shards.find(full);
  const TensorInfo* signs = shards.find(legacy_full);
  if (scales != nullptr && signs != nullptr)
    return invalid_input(subject(shards, *signs) + "wanted either " + quote(full) +
                         " or this, found both");
  if (scales == nullptr && signs == nullptr)
    return invalid_input("tensor " + quote(full) + " is missing: wanted F16 [" +
                         std::to_string(channels) + "], for the trellis in " +
                         std::string(shards.file_name(trellis)));
  const TensorInfo& tensor = scales != nullptr ? *scales : *signs;
  const char* dtype = scales != nullptr ? "F16" : "I16";
  const int64_t length = scales != nullptr ? channels : channels / kTile;
  if (tensor.dtype != dtype || tensor.shape != std::vector<int64_t>{length})
    return invalid_input(subject(shards, tensor) + "wanted " + dtype + " [" +
                         std::to_string(length) + "]" + found(tensor));
  return &tensor;
}

Result<void> check_marker(const ShardSet& shards, const TensorInfo& marker, uint32_t multiplier) {
  const auto where = [&] { return subject(shards, marker); };
  const bool one_element = marker.shape.empty() || marker.shape == std::vector<int64_t>{1};
  if (marker.dtype != "I32" || !one_element)
    return invalid_input(where() + "wanted I32 [] or [1]" + found(marker));
  uint32_t value = 0;
  if (auto read = shards.files[marker.shard].read(marker.file_offset,
                                                  std::as_writable_bytes(std::span(&value, 1)));
      !read)
    return read.error();
  if (value == multiplier) return {};
  char text[64];
  std::snprintf(text, sizeof text, "wanted 0x%08X, found 0x%08X", multiplier, value);
  return invalid_input(where() + "codebook multiplier: " + text +
                       ": the file is damaged or uses an experimental codebook");
}

bool is_finite(kernels::f16 x) {
  return (x.bits & 0x7C00u) != 0x7C00u;
}

}  // namespace

bool has_exl3(const ShardSet& shards, std::string_view stem) {
  return shards.find(std::string(stem) + ".trellis") != nullptr;
}

Result<Exl3Group> find_exl3_group(const ShardSet& shards, std::string_view stem, int64_t wanted_out,
                                  int64_t wanted_in) {
  const std::string prefix = std::string(stem) + ".";
  Exl3Group group;
  group.in = wanted_in;
  group.out = wanted_out;
  group.trellis = shards.find(prefix + "trellis");
  if (group.trellis == nullptr)
    return invalid_input("tensor " + quote(prefix + "trellis") + " is missing");
  if (auto checked = check_trellis(shards, *group.trellis, wanted_out, wanted_in); !checked)
    return checked.error();
  group.bits = static_cast<int>(group.trellis->shape[2] / kTile);

  auto in_scales = find_scales(shards, *group.trellis, stem, "suh", "su", wanted_in);
  if (!in_scales) return in_scales.error();
  auto out_scales = find_scales(shards, *group.trellis, stem, "svh", "sv", wanted_out);
  if (!out_scales) return out_scales.error();
  group.in_scales = *in_scales;
  group.out_scales = *out_scales;

  const TensorInfo* mcg = shards.find(prefix + "mcg");
  const TensorInfo* mul1 = shards.find(prefix + "mul1");
  if (mcg != nullptr && mul1 != nullptr)
    return invalid_input(subject(shards, *mul1) + "wanted one codebook, found this and " +
                         quote(mcg->name));
  if (mcg != nullptr || mul1 != nullptr) {
    group.marker = mcg != nullptr ? mcg : mul1;
    group.codebook = mcg != nullptr ? kernels::Codebook::mcg : kernels::Codebook::mul1;
    const uint32_t multiplier = mcg != nullptr ? kMcgMultiplier : kMul1Multiplier;
    if (auto checked = check_marker(shards, *group.marker, multiplier); !checked)
      return checked.error();
  }
  return group;
}

Result<void> decode_exl3_scales(const TensorInfo& scales, std::span<const std::byte> bytes,
                                std::span<kernels::f16> out) {
  const bool signs = scales.dtype == "I16";
  YOKE_CHECK(bytes.size() == (signs ? out.size() / kTile : out.size()) * 2,
             "scales decoded into another number of channels");
  if (!signs) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
    for (size_t i = 0; i < out.size(); ++i)
      if (!is_finite(out[i]))
        return invalid_input("tensor " + quote(scales.name) + ": channel " + std::to_string(i) +
                             " has a scale that is infinite or not a number: the file is damaged");
    return {};
  }
  constexpr kernels::f16 kPlusOne{0x3C00};
  constexpr kernels::f16 kMinusOne{0xBC00};
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t word = 0;
    std::memcpy(&word, bytes.data() + i / kTile * 2, sizeof word);
    out[i] = (word >> (i % kTile) & 1u) != 0 ? kMinusOne : kPlusOne;
  }
  return {};
}

}  // namespace yoke::engine
