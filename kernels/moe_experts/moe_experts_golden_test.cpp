// golden/exl3, exl3_moe_*: one block of routed experts by the reference's fused kernel and exactly.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "kernels/moe_experts/moe_experts.h"
#include "kernels/moe_route/moe_route.h"
#include "kernels/swiglu/swiglu.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/simd.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

using engine::SafetensorsFile;

std::vector<std::filesystem::path> moe_files() {
  const char* root = std::getenv("YOKE_GOLDEN_ROOT");
  const auto folder = std::filesystem::path(root != nullptr ? root : YOKE_GOLDEN_ROOT) / "exl3";
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().find("_moe_") != std::string::npos)
      files.push_back(entry.path());
  }
  return files;
}

TEST(Exl3MoeGolden, files_exist) {
  EXPECT_FALSE(moe_files().empty());
}

std::vector<LinearWeight> experts(const SafetensorsFile& file, const std::string& projection) {
  std::vector<LinearWeight> weights;
  for (int e = 0;; ++e) {
    const std::string prefix = "experts." + std::to_string(e) + "." + projection;
    if (!file.has(prefix + ".trellis")) return weights;
    const ConstTensorView trellis = file.tensor(prefix + ".trellis");
    Exl3Matrix w;
    w.in = trellis.dim(0) * 16;
    w.out = trellis.dim(1) * 16;
    w.bits = static_cast<int>(trellis.dim(2) / 16);
    w.codebook = file.has(prefix + ".mcg")    ? Codebook::mcg
                 : file.has(prefix + ".mul1") ? Codebook::mul1
                                              : Codebook::threeinst;
    w.trellis = reinterpret_cast<const uint16_t*>(trellis.as<int16_t>());
    w.suh = file.tensor(prefix + ".suh").as<f16>();
    w.svh = file.tensor(prefix + ".svh").as<f16>();
    weights.push_back({.dense = {}, .exl3 = w});
  }
}

class Exl3Moe : public ::testing::TestWithParam<std::filesystem::path> {};
INSTANTIATE_TEST_SUITE_P(Files, Exl3Moe, ::testing::ValuesIn(moe_files()),
                         [](const auto& test) { return test.param.stem().string(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Exl3Moe);

/// The block as the forward pass runs it: segments, gate and up, swiglu, down, combine.
Tensor block(const SafetensorsFile& file, DType act) {
  const std::vector<LinearWeight> gate = experts(file, "gate_proj");
  const std::vector<LinearWeight> up = experts(file, "up_proj");
  const std::vector<LinearWeight> down = experts(file, "down_proj");
  const ConstTensorView ids = file.tensor("ref.topk_ids");
  const int64_t rows = ids.dim(0);
  const int64_t k = ids.dim(1);
  const int64_t items = rows * k;
  const int64_t hidden = gate[0].in();
  const int64_t inner = gate[0].out();
  const float limit = std::stof(file.metadata("act_limit"));

  testing::Compute compute(2);
  Stream& stream = compute.stream;
  const Tensor x = testing::converted(file.tensor("ref.x"), act);
  const Tensor weights = testing::converted(file.tensor("ref.topk_weights"), DType::f32);
  Tensor offsets(DType::i32, {static_cast<int64_t>(gate.size()) + 1});
  Tensor order(DType::i32, {items});
  Tensor g(act, {items, inner});
  Tensor u(act, {items, inner});
  Tensor slots(DType::f32, {items, hidden});
  const Tensor shared(DType::f32, {rows, hidden});
  Tensor y(DType::f32, {rows, hidden});
  Tensor scratch(DType::f32, {grouped_linear_scratch_floats(gate, items, 2)});
  moe_segments(offsets.view(), order.view(), ids, stream);
  grouped_linear(g.view(), x.view(), static_cast<int32_t>(k), offsets.view(), order.view(), gate,
                 scratch.view(), stream);
  grouped_linear(u.view(), x.view(), static_cast<int32_t>(k), offsets.view(), order.view(), up,
                 scratch.view(), stream);
  swiglu(g.view(), g.view(), u.view(), limit, stream);
  grouped_linear(slots.view(), g.view(), 1, offsets.view(), order.view(), down, scratch.view(),
                 stream);
  moe_combine(y.view(), reshaped(slots.view(), {rows, k, hidden}), weights.view(), ids,
              shared.view(), stream);
  return y;
}

TEST_P(Exl3Moe, fp32_block_is_within_the_allowed_error) {
  auto file = SafetensorsFile::read(GetParam());
  ASSERT_TRUE(file.ok()) << file.error().message;
  testing::for_each_simd_target([&] {
    const Tensor y = block(file.value(), DType::f32);
    EXPECT_TRUE(testing::rows_close(y.view(), file.value().tensor("ref.y_exact"), 2e-3, 1e-2));
    EXPECT_TRUE(testing::rows_close(y.view(), file.value().tensor("ref.y_f32"), 2e-3, 1e-2));
  });
}

}  // namespace
}  // namespace yoke::kernels
