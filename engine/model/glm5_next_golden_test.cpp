// golden/glm5_next: a random model against Hugging Face in fp32 (its README gives the bounds).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "engine/model/golden_files.h"
#include "engine/model/loaded_model.h"
#include "engine/testing/reference_ties.h"
#include "engine/testing/step_driver.h"

namespace yoke::engine {
namespace {

constexpr float kBound = 3e-4f;

class Glm5NextGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path folder = golden_root() / "glm5_next";
    golden_ = read_golden(folder / "golden.safetensors");
    config::Result<Checkpoint> checkpoint = Checkpoint::open(folder);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    ModelOptions options;
    options.precision = Precision::fp32;
    options.max_rows = 256;
    options.max_logit_rows = 256;
    options.max_model_len = 512;
    options.max_slots = 1;
    config::Result<std::unique_ptr<LoadedModel>> model =
        LoadedModel::load(*checkpoint, options, threads_);
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
    ties_.emplace(model_->config());
    model_->parts().forward.set_selection_hook(std::ref(*ties_));
  }

  /// RowSet of `actual` against rows [first, …) of the golden entry.
  void expect_logits(const RowSet& actual, const std::string& entry, int64_t first = 0) {
    const kernels::ConstTensorView wanted = golden_.tensor(entry);
    ASSERT_EQ(wanted.dim(1), actual.width);
    ASSERT_LE(first + actual.count(), wanted.dim(0));
    for (int64_t r = 0; r < actual.count(); ++r) {
      const auto want = floats_of(wanted).subspan(static_cast<size_t>((first + r) * actual.width),
                                                  static_cast<size_t>(actual.width));
      const auto got = actual.row(r);
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i], kBound) << entry << " row " << first + r << " id " << i;
      EXPECT_EQ(argmax_of(got), argmax_of(want)) << entry << " row " << first + r;
    }
  }

  kernels::ThreadPool threads_{2};
  SafetensorsFile golden_;
  std::unique_ptr<LoadedModel> model_;
  std::optional<ReferenceTies> ties_;
};

TEST_F(Glm5NextGolden, every_prompt_length_as_one_chunk) {
  const std::vector<int> lengths = numbered(golden_, "len", "ids");
  ASSERT_FALSE(lengths.empty());
  for (const int n : lengths) {
    const std::string entry = "len" + std::to_string(n);
    expect_logits(run_prompt(*model_, ints(golden_.tensor(entry + ".ids")), n), entry + ".logits");
  }
}

TEST_F(Glm5NextGolden, streams_after_every_layer) {
  std::map<int32_t, std::vector<float>> streams;
  model_->set_trace(
      [&](int32_t layer, kernels::ConstTensorView view) { streams[layer] = to_floats(view); });
  const std::span<const int32_t> ids = ints(golden_.tensor("trace.ids"));
  RowSet hidden;
  const RowSet logits = run_prompt(*model_, ids, static_cast<int32_t>(ids.size()), &hidden);
  model_->set_trace({});
  expect_logits(logits, "trace.logits");

  const int32_t layers = model_->config().num_layers;
  ASSERT_EQ(streams.size(), static_cast<size_t>(layers) + 1);
  streams[layers] = hidden.values;  // the reference's last entry is after the final norm
  for (int32_t layer = 0; layer <= layers; ++layer) {
    const kernels::ConstTensorView wanted = golden_.tensor("trace.hidden" + std::to_string(layer));
    const std::span<const float> want = floats_of(wanted);
    const std::vector<float>& got = streams[layer];
    ASSERT_EQ(got.size(), want.size()) << "layer " << layer;
    const auto row = static_cast<size_t>(wanted.row_elements());
    for (size_t r = 0; r < want.size() / row; ++r) {
      float highest = 1.0f;
      for (size_t i = 0; i < row; ++i) highest = std::max(highest, std::abs(want[r * row + i]));
      for (size_t i = 0; i < row; ++i)
        ASSERT_NEAR(got[r * row + i], want[r * row + i], kBound * highest)
            << "layer " << layer << " row " << r << " element " << i;
    }
  }
}

TEST_F(Glm5NextGolden, continues_from_its_caches_row_by_row_and_in_a_chunk) {
  constexpr int32_t kPrompt = 40;
  constexpr int32_t kSingles = 10;
  const std::span<const int32_t> ids = ints(golden_.tensor("decode.ids"));
  SequenceDriver sequence(*model_, 0);
  RowSet logits;
  const auto run = [&](std::span<const int32_t> tokens, std::vector<int32_t> wanted) {
    StepPlan plan;
    plan.sequences.push_back(sequence.next(tokens, -1, std::move(wanted)));
    const StepResult result = model_->step(plan);
    logits.append(result.logits, result.vocab);
  };
  run(ids.first(kPrompt), {kPrompt - 1});
  for (int32_t i = 0; i < kSingles; ++i) run(ids.subspan(static_cast<size_t>(kPrompt + i), 1), {0});
  const auto rest = ids.subspan(kPrompt + kSingles);
  run(rest, all_rows(rest));
  ASSERT_EQ(logits.count(), golden_.tensor("decode.logits").dim(0));
  expect_logits(logits, "decode.logits");
}

}  // namespace
}  // namespace yoke::engine
