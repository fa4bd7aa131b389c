// golden/mtp: the MTP layer over the trunk of golden/glm5_next, in fp32 (its README gives the
// bounds).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>

#include "engine/model/golden_files.h"
#include "engine/model/loaded_model.h"
#include "engine/testing/reference_ties.h"
#include "engine/testing/step_driver.h"

namespace yoke::engine {
namespace {

constexpr float kBound = 3e-4f;

/// The trunk's config with one MTP layer.
std::string config_with_mtp(const std::filesystem::path& folder) {
  std::ostringstream text;
  text << std::ifstream(folder / "config.json").rdbuf();
  std::string json = text.str();
  const std::string key = "\"num_nextn_predict_layers\":";
  const size_t at = json.find(key);
  EXPECT_NE(at, std::string::npos);
  json[json.find_first_of("0123456789", at + key.size())] = '1';
  return json;
}

class MtpGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path trunk = golden_root() / "glm5_next";
    golden_ = read_golden(golden_root() / "mtp" / "golden.safetensors");
    const std::array<std::filesystem::path, 1> extra = {golden_root() / "mtp" /
                                                        "model.safetensors"};
    config::Result<Checkpoint> checkpoint = Checkpoint::open(trunk, extra, config_with_mtp(trunk));
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
    ASSERT_TRUE(model_->has_mtp());
    ties_.emplace(model_->config());
    model_->parts().forward.set_selection_hook(std::ref(*ties_));
  }

  /// The trunk's rows after the final norm, for a whole prompt.
  std::vector<float> trunk_hidden(std::span<const int32_t> ids) {
    RowSet hidden;
    run_prompt(*model_, ids, static_cast<int32_t>(ids.size()), &hidden);
    return hidden.values;
  }

  StepResult mtp(SequenceDriver& sequence, std::span<const int32_t> next,
                 std::span<const float> hidden, std::vector<int32_t> logit_rows) {
    StepPlan plan;
    plan.sequences.push_back(sequence.next(next, -1, std::move(logit_rows)));
    return model_->mtp_step(plan, hidden);
  }

  void expect_rows(std::span<const float> actual, std::span<const float> wanted, int64_t width,
                   const std::string& entry) {
    ASSERT_EQ(actual.size(), wanted.size()) << entry;
    for (size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NEAR(actual[i], wanted[i], kBound)
          << entry << " row " << i / static_cast<size_t>(width) << " element "
          << i % static_cast<size_t>(width);
  }

  kernels::ThreadPool threads_{2};
  SafetensorsFile golden_;
  std::unique_ptr<LoadedModel> model_;
  std::optional<ReferenceTies> ties_;
};

TEST_F(MtpGolden, whole_prompts_give_hidden_rows_and_logits) {
  const std::vector<int> lengths = numbered(golden_, "len", "ids");
  ASSERT_FALSE(lengths.empty());
  for (const int n : lengths) {
    const std::string entry = "len" + std::to_string(n);
    const std::span<const int32_t> ids = ints(golden_.tensor(entry + ".ids"));
    ASSERT_EQ(ids.size(), static_cast<size_t>(n) + 1);
    const std::vector<float> hidden = trunk_hidden(ids.first(static_cast<size_t>(n)));
    SequenceDriver sequence(*model_, 0);
    const StepResult result = mtp(sequence, ids.subspan(1), hidden, all_rows(ids.subspan(1)));
    expect_rows(to_floats(model_->mtp_hidden()), floats_of(golden_.tensor(entry + ".hidden")),
                model_->config().hidden_size, entry + ".hidden");
    expect_rows(result.logits, floats_of(golden_.tensor(entry + ".logits")), result.vocab,
                entry + ".logits");
  }
}

TEST_F(MtpGolden, chained_drafts_feed_on_their_own_rows) {
  const std::vector<int> lengths = numbered(golden_, "chain", "ids");
  ASSERT_FALSE(lengths.empty());
  for (const int n : lengths) {
    const std::string entry = "chain" + std::to_string(n);
    const std::span<const int32_t> ids = ints(golden_.tensor(entry + ".ids"));
    const std::span<const int32_t> drafts = ints(golden_.tensor(entry + ".drafts"));
    const std::span<const float> logits = floats_of(golden_.tensor(entry + ".logits"));
    const auto width = static_cast<size_t>(model_->config().hidden_size);
    std::vector<float> hidden = trunk_hidden(ids.first(static_cast<size_t>(n)));
    std::vector<int32_t> next(ids.begin() + 1, ids.end());
    SequenceDriver sequence(*model_, 0);
    for (size_t k = 0; k < drafts.size(); ++k) {
      const StepResult result =
          mtp(sequence, next, hidden, {static_cast<int32_t>(next.size()) - 1});
      const auto vocab = static_cast<size_t>(result.vocab);
      expect_rows(result.row(0), logits.subspan(k * vocab, vocab), result.vocab,
                  entry + " draft " + std::to_string(k));
      EXPECT_EQ(argmax_of(result.row(0)), drafts[k]) << entry << " draft " << k;
      const std::vector<float> rows = to_floats(model_->mtp_hidden());
      hidden.assign(rows.end() - static_cast<int64_t>(width), rows.end());
      next = {drafts[k]};
    }
  }
}

}  // namespace
}  // namespace yoke::engine
