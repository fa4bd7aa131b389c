// What design.md 6 promises of a step, clause by clause: any mix of rows, padding that changes
// nothing, state that only its own rows change, rollback to any kept count.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/testing/cache_views.h"
#include "engine/testing/random_model.h"
#include "kernels/testing/compare.h"

namespace yoke::engine {
namespace {

using kernels::testing::Random;
using kernels::testing::RowSink;
using kernels::testing::same_bits;
using kernels::testing::ScheduledStep;
using kernels::testing::ScheduleShape;

constexpr int32_t kWindow = 8;

RandomCheckpoint tiny() {
  RandomCheckpoint what;
  what.config = tiny_config();
  return what;
}

std::vector<CacheView> views_of(LoadedModel& model) {
  return cache_views(model.parts().caches, model.config(), model.has_mtp());
}

/// Copies of all caches, to compare with later.
class Memory {
 public:
  explicit Memory(LoadedModel& model) {
    for (const CacheView& v : views_of(model)) {
      const auto* bytes = static_cast<const std::byte*>(v.view.data);
      copies_.emplace_back(bytes, bytes + v.view.bytes());
    }
  }
  /// Names of the rows (slots or blocks) that changed since, as "layer 3 latent[2]".
  std::vector<std::string> changes(LoadedModel& model) const {
    std::vector<std::string> out;
    const std::vector<CacheView> views = views_of(model);
    for (size_t i = 0; i < views.size(); ++i) {
      const CacheView& v = views[i];
      const int64_t rows = v.paged ? v.rows_per_block : 1;
      const size_t line =
          static_cast<size_t>(v.view.row_elements() * rows) * kernels::dtype_bytes(v.view.dtype);
      for (int64_t r = 0; r < v.view.dim(0) / rows; ++r) {
        const size_t at = static_cast<size_t>(r) * line;
        if (std::memcmp(copies_[i].data() + at, static_cast<const std::byte*>(v.view.data) + at,
                        line) != 0)
          out.push_back(v.name + "[" + std::to_string(r) + "]");
      }
    }
    return out;
  }

 private:
  std::vector<std::vector<std::byte>> copies_;
};

TEST(StepInterface, larger_buckets_change_no_bit_and_no_state) {
  const ScheduleShape shape{.sequences = 3, .length = 40, .max_chunk = 16};
  kernels::ThreadPool threads(2);
  const ModelOptions options = options_for(shape, Precision::bf16);
  const auto exact = load_random_model(tiny(), options, threads);
  const auto padded = load_random_model(tiny(), options, threads);
  Random random(1);
  SCOPED_TRACE(random.trace());
  const ScheduledTokens tokens(random, shape, exact->config().vocab_size);
  for (const ScheduledStep& step : random_schedule(random, shape)) {
    const StepPlan plan = tokens.plan(step, *exact);
    const StepResult want = exact->step(plan);
    padded->parts().buffers.set_least_buckets(
        static_cast<int32_t>(random.below(options.max_rows + 1)),
        static_cast<int32_t>(random.below(options.max_logit_rows + 1)));
    const StepResult got = padded->step(plan);
    ASSERT_TRUE(same_bits(logits_view(got), logits_view(want)));
    ASSERT_TRUE(same_bits(padded->hidden(), exact->hidden()));
    const std::vector<float> hidden = to_floats(exact->hidden());
    const StepResult want_draft = exact->mtp_step(plan, hidden);
    ASSERT_TRUE(same_bits(logits_view(padded->mtp_step(plan, hidden)), logits_view(want_draft)));
  }
  EXPECT_EQ(Memory(*exact).changes(*padded), std::vector<std::string>{});
}

TEST(StepInterface, rows_change_the_state_of_their_own_slot_and_blocks_only) {
  kernels::ThreadPool threads(2);
  ModelOptions options;
  options.max_slots = 3;
  options.max_model_len = 128;
  options.max_rows = 64;
  const auto model = load_random_model(tiny(), options, threads);
  // Slot 1 in the blocks 1 and 4, slot 2 in 2 and 5; position 70 lies in the second block of each.
  SequenceDriver first(*model, 1, {4, 1});
  SequenceDriver second(*model, 2, {5, 2});
  const std::vector<int32_t> prompt(60, 7);
  for (SequenceDriver* sequence : {&first, &second})
    model->step({{sequence->next(prompt, -1, {})}});

  const Memory before(*model);
  const std::vector<int32_t> more = {9, 8, 7, 6, 5, 4, 3, 2, 1, 2};
  const StepPlan plan{{second.next(more, 6, {9})}};
  model->parts().buffers.set_least_buckets(32, 4);
  model->step(plan);
  model->mtp_step(plan, std::vector<float>(more.size() * 128, 0.5f));
  const std::vector<std::string> changes = before.changes(*model);
  EXPECT_GT(changes.size(), 40u);
  for (const std::string& name : changes)
    EXPECT_TRUE(name.ends_with("[2]") || name.ends_with("[5]")) << name;
}

/// Logits of all rows of a sequence, one row per step.
std::vector<std::vector<float>> serial_logits(Model& model, const std::vector<int32_t>& tokens) {
  SequenceDriver sequence(model, 0);
  std::vector<std::vector<float>> logits;
  for (const int32_t token : tokens) {
    const StepResult result = model.step({{sequence.next({&token, 1}, 1, {0})}});
    logits.emplace_back(result.logits.begin(), result.logits.end());
  }
  return logits;
}

class Rollback : public ::testing::Test {
 protected:
  Rollback() {
    ModelOptions options;
    options.max_slots = 2;
    options.max_model_len = 64;
    options.max_rows = 32;
    options.max_window = kWindow;
    options.max_logit_rows = 32;
    model_ = load_random_model(tiny(), options, threads_);
    Random random(2);
    for (int i = 0; i < 48; ++i)
      tokens_.push_back(static_cast<int32_t>(random.below(model_->config().vocab_size)));
    want_ = serial_logits(*model_, tokens_);
  }

  /// A step of `commit` certain rows and a window in which `right` rows are true.
  void run(SequenceDriver& sequence, int32_t commit, int32_t window, int32_t right) {
    const int32_t start = sequence.position();
    std::vector<int32_t> rows;
    for (int32_t i = 0; i < commit + window; ++i) {
      const int32_t truth = tokens_[static_cast<size_t>(start + i)];
      rows.push_back(i < commit + right ? truth : (truth + 1) % model_->config().vocab_size);
    }
    const StepResult result = model_->step({{sequence.next(rows, commit, all_rows(rows))}});
    for (int32_t i = 0; i < commit + right; ++i) {
      const std::span<const float> got = result.row(i);
      const std::vector<float>& want = want_[static_cast<size_t>(start + i)];
      ASSERT_TRUE(std::equal(got.begin(), got.end(), want.begin())) << "position " << start + i;
    }
    sequence.keep(right);
  }

  kernels::ThreadPool threads_{1};
  std::unique_ptr<LoadedModel> model_;
  std::vector<int32_t> tokens_;
  std::vector<std::vector<float>> want_;
};

TEST_F(Rollback, any_kept_count_from_any_place_in_a_pool) {
  for (int32_t prompt = 0; prompt < 8; ++prompt) {
    for (int32_t kept = 0; kept <= kWindow; ++kept) {
      SCOPED_TRACE("prompt " + std::to_string(prompt) + ", kept " + std::to_string(kept));
      SequenceDriver sequence(*model_, 1);
      if (prompt > 0) run(sequence, prompt, 0, 0);
      run(sequence, prompt == 0 ? 0 : 1, kWindow, kept);  // at 0: a window over the zero state
      run(sequence, 0, kWindow, kept);                    // a window right after a window
      run(sequence, 1, kWindow, kWindow - kept);
      run(sequence, 5, 0, 0);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(Rollback, a_window_is_dropped_when_the_sequence_starts_again) {
  SequenceDriver sequence(*model_, 1);
  run(sequence, 6, kWindow, 5);
  sequence.restart();
  run(sequence, 7, 3, 0);
  run(sequence, 4, 0, 0);
}

TEST_F(Rollback, raw_index_rows_outlive_any_window) {
  const CacheGeometry& geometry = model_->parts().caches.geometry();
  EXPECT_GE(geometry.raw_ring, model_->config().index_kpool + kWindow);
  EXPECT_EQ(geometry.raw_ring % model_->config().index_kpool, 0);
}

/// The MTP layer has positional caches only: rows are written again, with the true hidden rows,
/// over those that drafting left behind (spec/glm5_next.md 5.9).
TEST_F(Rollback, drafts_of_the_mtp_layer_leave_no_trace) {
  const int64_t width = model_->config().hidden_size;
  Random random(3);
  std::vector<float> hidden(tokens_.size() * static_cast<size_t>(width));
  for (float& x : hidden) x = static_cast<float>(random.normal());
  const auto rows = [&](int32_t from, int32_t count) {
    return std::span(hidden).subspan(static_cast<size_t>(from * width),
                                     static_cast<size_t>(count * width));
  };
  const auto plan_of = [&](int32_t slot, int32_t start, std::span<const int32_t> tokens) {
    StepPlan plan;
    plan.sequences.push_back({slot,
                              start,
                              {tokens.begin(), tokens.end()},
                              static_cast<int32_t>(tokens.size()),
                              0,
                              all_rows(tokens),
                              SequenceDriver(*model_, slot).blocks(64)});
    return plan;
  };
  std::vector<std::vector<float>> want;
  for (int32_t t = 0; t < 40; ++t) {
    const StepResult r =
        model_->mtp_step(plan_of(0, t, {&tokens_[static_cast<size_t>(t)], 1}), rows(t, 1));
    want.emplace_back(r.logits.begin(), r.logits.end());
  }
  int32_t position = 0;
  for (int32_t accepted = 3; position + accepted <= 40; accepted = accepted % 9 + 1) {
    const StepResult r =
        model_->mtp_step(plan_of(1, position,
                                 std::span(tokens_).subspan(static_cast<size_t>(position),
                                                            static_cast<size_t>(accepted))),
                         rows(position, accepted));
    for (int32_t i = 0; i < accepted; ++i) {
      ASSERT_TRUE(std::equal(r.row(i).begin(), r.row(i).end(),
                             want[static_cast<size_t>(position + i)].begin()))
          << "position " << position + i;
    }
    position += accepted;
    // A chain of drafts beyond it, each from the hidden row of the one before.
    std::vector<float> last = to_floats(model_->mtp_hidden());
    last.erase(last.begin(), last.end() - width);
    for (int32_t draft = 0; draft < kWindow; ++draft) {
      const auto token = static_cast<int32_t>(random.below(model_->config().vocab_size));
      model_->mtp_step(plan_of(1, position + draft, {&token, 1}), last);
      last = to_floats(model_->mtp_hidden());
    }
  }
  EXPECT_GT(position, 30);
}

StepPlan random_plan(Random& random) {
  StepPlan plan;
  const auto numbers = [&](int64_t most) {
    std::vector<int32_t> out(static_cast<size_t>(random.below(most)));
    for (int32_t& x : out) x = static_cast<int32_t>(random.bits());
    return out;
  };
  plan.sequences.resize(static_cast<size_t>(random.below(5)));
  for (StepSequence& s : plan.sequences) {
    s = {static_cast<int32_t>(random.bits()),
         static_cast<int32_t>(random.bits()),
         numbers(6),
         static_cast<int32_t>(random.bits()),
         static_cast<int32_t>(random.bits()),
         numbers(4),
         numbers(4),
         static_cast<int32_t>(random.bits()),
         static_cast<int32_t>(random.bits())};
  }
  return plan;
}

TEST(StepPlan, travels_as_bytes) {
  Random random(4);
  SCOPED_TRACE(random.trace());
  for (int i = 0; i < 50; ++i) {
    const StepPlan plan = random_plan(random);
    const auto back = plan_from_bytes(plan_to_bytes(plan));
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(*back, plan);
  }
}

TEST(StepPlan, other_bytes_are_refused_without_harm) {
  Random random(5);
  SCOPED_TRACE(random.trace());
  for (int i = 0; i < 50; ++i) {
    const std::vector<std::byte> bytes = plan_to_bytes(random_plan(random));
    for (size_t cut = 0; cut < bytes.size(); ++cut)
      EXPECT_FALSE(plan_from_bytes(std::span(bytes).first(cut)).ok()) << cut;
    std::vector<std::byte> longer = bytes;
    longer.resize(bytes.size() + sizeof(int32_t));
    EXPECT_FALSE(plan_from_bytes(longer).ok());
    std::vector<std::byte> spoilt = bytes;
    spoilt[static_cast<size_t>(random.below(static_cast<int64_t>(bytes.size())))] ^=
        std::byte{0x80};
    const auto back = plan_from_bytes(spoilt);  // another plan or an error, nothing else
    if (back.ok()) {
      EXPECT_NE(plan_to_bytes(*back), bytes);
    }
  }
}

}  // namespace
}  // namespace yoke::engine
