// golden/nano: the trained demo model with EXL3 experts (its README gives the bounds).
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <optional>

#include "engine/model/golden_files.h"
#include "engine/model/loaded_model.h"
#include "engine/testing/reference_ties.h"
#include "engine/testing/step_driver.h"
#include "kernels/core/math.h"

namespace yoke::engine {
namespace {

constexpr float kLogitBound = 2e-4f;      // fp32
constexpr float kDraftTie = 1e-3f;        // drafts closer than this may differ in fp32
constexpr double kBf16Share = 1.5;        // of the reference's own BF16 error
constexpr float kBf16Margin = 1.0f;       // steps with a larger margin must agree in BF16
constexpr float kRouterError = 0.02f;     // what BF16 moves a choice score by, measured
constexpr double kForcedShare = 0.02;     // of the router's choices that may hang on that
constexpr double kBf16DraftShare = 0.05;  // of a case's sum of accepted drafts
constexpr int kChain = 3;                 // MTP drafts per position

struct Case {
  std::string name;
  std::vector<int32_t> prompt, greedy;
  std::vector<float> margin;
  std::vector<int32_t> rows;  // positions whose logits follow
  std::vector<float> logits;  // [rows, vocab]
  std::vector<int32_t> drafts_right;
  std::map<size_t, double> near_ties;  // step → margin
  double bf16_rms = 0;

  std::vector<int32_t> text() const {
    std::vector<int32_t> ids = prompt;
    ids.insert(ids.end(), greedy.begin(), greedy.end());
    return ids;
  }
};

std::vector<Case> read_cases() {
  const std::filesystem::path folder = golden_root() / "nano";
  const SafetensorsFile golden = read_golden(folder / "golden.safetensors");
  const auto list = [&](const std::string& name) {
    const auto values = ints(golden.tensor(name));
    return std::vector<int32_t>(values.begin(), values.end());
  };
  std::vector<Case> cases;
  std::ifstream lines(folder / "cases.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const boost::json::value json = boost::json::parse(line);
    Case c;
    c.name = json.at("name").as_string().c_str();
    c.bf16_rms = json.at("bf16_rms").to_number<double>();
    for (const auto& tie : json.at("near_ties").as_array())
      c.near_ties[tie.at(0).to_number<size_t>()] = tie.at(1).to_number<double>();
    c.prompt = list(c.name + ".ids");
    c.greedy = list(c.name + ".greedy");
    c.rows = list(c.name + ".rows");
    c.drafts_right = list(c.name + ".mtp");
    c.margin = to_floats(golden.tensor(c.name + ".margin"));
    c.logits = to_floats(golden.tensor(c.name + ".logits"));
    cases.push_back(std::move(c));
  }
  return cases;
}

class NanoGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    cases_ = read_cases();
    ASSERT_FALSE(cases_.empty());
  }

  std::unique_ptr<LoadedModel> load(Precision precision) {
    config::Result<Checkpoint> checkpoint =
        Checkpoint::open(std::filesystem::path(YOKE_SOURCE_DIR) / "tools/nano/checkpoint");
    if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
    size_t longest = 0;
    for (const Case& c : cases_) longest = std::max(longest, c.text().size());
    ModelOptions options;
    options.precision = precision;
    options.max_rows = static_cast<int32_t>(longest);
    options.max_logit_rows = options.max_rows;
    options.max_model_len = options.max_rows + kChain;
    options.max_slots = 1;
    auto model = LoadedModel::load(*checkpoint, options, threads_);
    if (!model.ok()) throw std::runtime_error(model.error().message);
    return std::move(*model);
  }

  /// All rows of a text in one pass, as the reference ran it.
  static RowSet whole_text(LoadedModel& model, const Case& c, RowSet* hidden = nullptr) {
    const std::vector<int32_t> ids = c.text();
    return run_prompt(model, ids, static_cast<int32_t>(ids.size()), hidden);
  }

  kernels::ThreadPool threads_{2};
  std::vector<Case> cases_;
};

TEST_F(NanoGolden, fp32_teacher_forced_agrees_in_logits_and_every_choice) {
  const std::unique_ptr<LoadedModel> model = load(Precision::fp32);
  ReferenceTies ties(model->config());
  model->parts().forward.set_selection_hook(std::ref(ties));
  for (const Case& c : cases_) {
    SCOPED_TRACE(c.name);
    const RowSet logits = whole_text(*model, c);
    const auto vocab = static_cast<size_t>(logits.width);
    ASSERT_EQ(c.logits.size(), c.rows.size() * vocab);
    for (size_t r = 0; r < c.rows.size(); ++r) {
      const auto got = logits.row(c.rows[r]);
      for (size_t i = 0; i < vocab; ++i)
        ASSERT_NEAR(got[i], c.logits[r * vocab + i], kLogitBound)
            << "row " << c.rows[r] << " id " << i;
    }
    for (size_t step = 0; step < c.greedy.size(); ++step) {
      if (c.near_ties.count(step)) continue;
      EXPECT_EQ(argmax_of(logits.row(static_cast<int64_t>(c.prompt.size() + step) - 1)),
                c.greedy[step])
          << "step " << step;
    }
  }
}

TEST_F(NanoGolden, fp32_free_running_writes_the_reference_text) {
  const std::unique_ptr<LoadedModel> model = load(Precision::fp32);
  for (const Case& c : cases_) {
    if (!c.near_ties.empty()) continue;
    SCOPED_TRACE(c.name);
    SequenceDriver sequence(*model, 0);
    std::vector<int32_t> tokens = c.prompt;
    std::vector<int32_t> answer;
    while (answer.size() < c.greedy.size()) {
      StepPlan plan;
      plan.sequences.push_back(
          sequence.next(tokens, -1, {static_cast<int32_t>(tokens.size()) - 1}));
      tokens = {argmax_of(model->step(plan).row(0))};
      answer.push_back(tokens.front());
    }
    EXPECT_EQ(answer, c.greedy);
  }
}

/// The experts that an fp32 pass takes, for a BF16 pass to take too where the choice hangs on less
/// than BF16's rounding: one expert for another moves a row's logits far more than all rounding
/// does (design.md 5: such positions are compared with the choice forced).
class RouterChoices {
 public:
  explicit RouterChoices(const ModelConfig& config) : config_(config) {}

  void record(const Routing& r) {
    Layer& layer = layers_[r.layer];
    layer.ids = to_ints(r.ids, r.rows);
    layer.scores = choice_scores(r);
  }

  void force(const Routing& r) {
    const Layer& layer = layers_.at(r.layer);
    const auto choices = static_cast<size_t>(r.ids.dim(1));
    for (size_t row = 0; row < static_cast<size_t>(r.rows); ++row) {
      int32_t* ids = r.ids.as<int32_t>() + row * choices;
      const int32_t* wanted = layer.ids.data() + row * choices;
      ++rows_;
      if (std::is_permutation(ids, ids + choices, wanted)) continue;
      if (margin(layer, row, choices) > kRouterError) continue;
      ++forced_;
      places_ += " " + std::to_string(r.layer) + ":" + std::to_string(row);
      std::copy_n(wanted, choices, ids);
      reweigh(r, row);
    }
  }

  int64_t rows() const { return rows_; }
  int64_t forced() const { return forced_; }
  /// layer:row of each choice that was forced.
  const std::string& places() const { return places_; }

 private:
  struct Layer {
    std::vector<int32_t> ids;   // [rows, choices]
    std::vector<float> scores;  // [rows, experts]
  };

  static std::vector<int32_t> to_ints(kernels::ConstTensorView ids, int32_t rows) {
    return {ids.as<int32_t>(), ids.as<int32_t>() + rows * ids.dim(1)};
  }

  static float sigmoid(const Routing& r, size_t row, int64_t expert) {
    const int64_t experts = r.logits.dim(1);
    return static_cast<float>(
        kernels::sigmoid64(r.logits.as<float>()[static_cast<int64_t>(row) * experts + expert]));
  }

  static std::vector<float> choice_scores(const Routing& r) {
    std::vector<float> scores;
    for (size_t row = 0; row < static_cast<size_t>(r.rows); ++row) {
      for (int64_t e = 0; e < r.logits.dim(1); ++e)
        scores.push_back(sigmoid(r, row, e) + r.bias.as<float>()[e]);
    }
    return scores;
  }

  /// Between the last expert taken and the first one left out.
  static float margin(const Layer& layer, size_t row, size_t choices) {
    const size_t experts = layer.scores.size() / (layer.ids.size() / choices);
    std::vector<float> sorted(layer.scores.begin() + static_cast<int64_t>(row * experts),
                              layer.scores.begin() + static_cast<int64_t>((row + 1) * experts));
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    return sorted[choices - 1] - sorted[choices];
  }

  /// Weights of the forced experts from the pass's own scores (spec/glm5_next.md 5.7).
  void reweigh(const Routing& r, size_t row) const {
    const auto choices = static_cast<size_t>(r.ids.dim(1));
    const int32_t* ids = r.ids.as<int32_t>() + row * choices;
    float* weights = r.weights.as<float>() + row * choices;
    double sum = config_.norm_topk_prob ? 0.0 : 1.0;
    for (size_t j = 0; config_.norm_topk_prob && j < choices; ++j) sum += sigmoid(r, row, ids[j]);
    for (size_t j = 0; j < choices; ++j)
      weights[j] =
          static_cast<float>(sigmoid(r, row, ids[j]) / sum * config_.routed_scaling_factor);
  }

  ModelConfig config_;
  std::map<int32_t, Layer> layers_;
  int64_t rows_ = 0;
  int64_t forced_ = 0;
  std::string places_;
};

double squared_difference(const RowSet& a, const RowSet& b) {
  double sum = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double error = static_cast<double>(a.values[i]) - b.values[i];
    sum += error * error;
  }
  return sum;
}

TEST_F(NanoGolden, bf16_stays_within_the_references_own_rounding) {
  const std::unique_ptr<LoadedModel> exact = load(Precision::fp32);
  const std::unique_ptr<LoadedModel> rounded = load(Precision::bf16);
  double error_sum = 0;
  double reference_sum = 0;
  int64_t rows = 0;
  int64_t forced = 0;
  for (const Case& c : cases_) {
    SCOPED_TRACE(c.name);
    RouterChoices router(exact->config());
    exact->parts().forward.set_routing_hook([&](const Routing& r) { router.record(r); });
    const RowSet want = whole_text(*exact, c);
    const auto elements = static_cast<double>(want.values.size());

    const RowSet free = whole_text(*rounded, c);
    error_sum += squared_difference(free, want);
    reference_sum += c.bf16_rms * c.bf16_rms * elements;
    for (size_t step = 0; step < c.greedy.size(); ++step) {
      if (c.margin[step] <= kBf16Margin) continue;
      EXPECT_EQ(argmax_of(free.row(static_cast<int64_t>(c.prompt.size() + step) - 1)),
                c.greedy[step])
          << "step " << step;
    }

    rounded->parts().forward.set_routing_hook([&](const Routing& r) { router.force(r); });
    const RowSet guided = whole_text(*rounded, c);
    rounded->parts().forward.set_routing_hook({});
    const double rms = std::sqrt(squared_difference(guided, want) / elements);
    RecordProperty(c.name, std::to_string(rms / c.bf16_rms));
    EXPECT_LE(rms, kBf16Share * c.bf16_rms);
    RecordProperty(c.name + "_forced", router.places());
    rows += router.rows();
    forced += router.forced();
  }
  // With every choice left free, all texts together: single choices may fall either way.
  RecordProperty("free", std::to_string(std::sqrt(error_sum / reference_sum)));
  RecordProperty("forced", std::to_string(forced) + "/" + std::to_string(rows));
  EXPECT_LE(std::sqrt(error_sum), kBf16Share * std::sqrt(reference_sum));
  EXPECT_LE(static_cast<double>(forced), kForcedShare * static_cast<double>(rows));
}

/// Drafts along one text: at every known token the MTP layer absorbs its row, then chains.
class Drafting {
 public:
  Drafting(LoadedModel& model, const Case& c)
      : model_(model), text_(c.text()), prompt_(c.prompt.size()) {
    whole_text_hidden(c);
  }

  /// For each anchor position: how many of the chained drafts are right. `ties` gets, per anchor,
  /// whether a draft was closer than kDraftTie.
  std::vector<int32_t> run(std::vector<bool>& ties) {
    std::vector<int32_t> right;
    absorb(0, prompt_ - 1);
    for (size_t anchor = prompt_; anchor + 1 < text_.size(); ++anchor) {
      bool tie = false;
      right.push_back(chain(anchor, tie));
      ties.push_back(tie);
    }
    return right;
  }

 private:
  void whole_text_hidden(const Case&) {
    RowSet rows;
    run_prompt(model_, text_, static_cast<int32_t>(text_.size()), &rows);
    hidden_ = std::move(rows.values);
  }

  std::span<const float> hidden_rows(size_t first, size_t count) const {
    const auto width = static_cast<size_t>(model_.config().hidden_size);
    return std::span(hidden_).subspan(first * width, count * width);
  }

  StepResult step(size_t first, std::span<const int32_t> next, std::span<const float> hidden,
                  std::vector<int32_t> logit_rows) {
    SequenceDriver sequence(model_, 0);
    StepPlan plan;
    plan.sequences.push_back(sequence.next(next, -1, std::move(logit_rows)));
    StepSequence& s = plan.sequences.front();
    s.start_position = static_cast<int32_t>(first);
    s.blocks =
        SequenceDriver(model_, 0).blocks(s.start_position + static_cast<int32_t>(next.size()));
    return model_.mtp_step(plan, hidden);
  }

  /// True rows [first, end): row t holds token t + 1.
  void absorb(size_t first, size_t end) {
    if (first == end) return;
    step(first, std::span(text_).subspan(first + 1, end - first), hidden_rows(first, end - first),
         {});
  }

  /// Tokens up to `anchor` are known; its row is absorbed and gives the first draft.
  int32_t chain(size_t anchor, bool& tie) {
    std::vector<float> hidden(hidden_rows(anchor - 1, 1).begin(), hidden_rows(anchor - 1, 1).end());
    int32_t next = text_[anchor];
    for (int32_t k = 0; k < kChain; ++k) {
      const size_t row = anchor - 1 + static_cast<size_t>(k);
      const StepResult result = step(row, std::span(&next, 1), hidden, {0});
      next = argmax_of(result.row(0));
      tie = tie || margin_of(result.row(0)) < kDraftTie;
      if (row + 2 >= text_.size() || next != text_[row + 2]) return k;
      hidden = to_floats(model_.mtp_hidden());
    }
    return kChain;
  }

  LoadedModel& model_;
  std::vector<int32_t> text_;
  size_t prompt_;
  std::vector<float> hidden_;
};

TEST_F(NanoGolden, fp32_mtp_drafts_are_right_where_the_references_are) {
  const std::unique_ptr<LoadedModel> model = load(Precision::fp32);
  ReferenceTies reference(model->config());
  model->parts().forward.set_selection_hook(std::ref(reference));
  for (const Case& c : cases_) {
    SCOPED_TRACE(c.name);
    std::vector<bool> ties;
    const std::vector<int32_t> right = Drafting(*model, c).run(ties);
    ASSERT_EQ(right.size(), c.drafts_right.size());
    for (size_t i = 0; i < right.size(); ++i) {
      if (ties[i]) continue;
      EXPECT_EQ(right[i], c.drafts_right[i]) << "anchor " << i;
    }
  }
}

TEST_F(NanoGolden, bf16_mtp_drafts_are_right_as_often) {
  const std::unique_ptr<LoadedModel> model = load(Precision::bf16);
  for (const Case& c : cases_) {
    SCOPED_TRACE(c.name);
    std::vector<bool> ties;
    double got = 0;
    double want = 0;
    for (const int32_t n : Drafting(*model, c).run(ties)) got += n;
    for (const int32_t n : c.drafts_right) want += n;
    EXPECT_NEAR(got, want, kBf16DraftShare * want);
  }
}

}  // namespace
}  // namespace yoke::engine
