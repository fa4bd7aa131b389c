// Any bytes as config.json or generation_config.json: parsing never crashes, and an accepted config
// keeps the promises of ModelConfig and has an inventory whose sizes fit in 64 bits.
#include <cstdint>

#include "config/check.h"
#include "engine/checkpoint/inventory.h"
#include "engine/checkpoint/model_config.h"

namespace {

using yoke::engine::ExpectedTensor;
using yoke::engine::InventoryPart;
using yoke::engine::ModelConfig;

void check_inventory(const ModelConfig& config) {
  const auto check = [](const ExpectedTensor& tensor) {
    uint64_t bytes = 4;
    for (const int64_t d : tensor.shape()) {
      YOKE_CHECK(d > 0, "an empty tensor");
      YOKE_CHECK(!__builtin_mul_overflow(bytes, static_cast<uint64_t>(d), &bytes), "overflow");
    }
    YOKE_CHECK(bytes < uint64_t{1} << 56, "sums of sizes may overflow");
  };
  visit_inventory(config, InventoryPart::text, check);
  if (config.num_mtp_layers > 0) visit_inventory(config, InventoryPart::mtp, check);
  if (config.vision) visit_inventory(config, InventoryPart::vision, check);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(yoke::engine::parse_generation_config(text, "fuzz"));
  const auto parsed = yoke::engine::parse_model_config(text, "fuzz");
  if (!parsed.ok()) {
    const std::string& message = parsed.error().message;
    YOKE_CHECK(message.starts_with("fuzz: "), "an error without its file");
    YOKE_CHECK(message.find('\n') == std::string::npos, "an error of two lines");
    YOKE_CHECK(message.size() < 2000, "an endless error");
    return 0;
  }
  const ModelConfig& c = *parsed;
  const auto layers = static_cast<size_t>(c.num_layers);
  YOKE_CHECK(c.num_layers > 0 && c.attention.size() == layers && c.mlp.size() == layers, "layers");
  YOKE_CHECK(c.kda_width() > 0 && c.index_topk % c.index_kpool == 0, "sizes");
  YOKE_CHECK(c.experts_per_token <= c.num_experts, "experts");
  for (const int32_t id : c.eos_token_ids) YOKE_CHECK(id >= 0 && id < c.vocab_size, "eos id");
  // Walking millions of experts says nothing new and takes a second.
  if (int64_t{c.num_layers} * c.num_experts < 10'000) check_inventory(c);
  return 0;
}
