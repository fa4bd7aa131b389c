#include "engine/testing/random_model.h"

#include <stdexcept>

namespace yoke::engine {

using kernels::testing::Random;
using kernels::testing::ScheduledStep;
using kernels::testing::ScheduleShape;

std::unique_ptr<LoadedModel> load_random_model(const RandomCheckpoint& what,
                                               const ModelOptions& options,
                                               kernels::ThreadPool& threads) {
  const TempFolder folder;
  write_random_checkpoint(folder.path(), what);
  const config::Result<Checkpoint> checkpoint = Checkpoint::open(folder.path());
  if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
  auto model = LoadedModel::load(*checkpoint, options, threads);
  if (!model.ok()) throw std::runtime_error(model.error().message);
  return std::move(*model);
}

ModelOptions options_for(const ScheduleShape& shape, Precision precision) {
  ModelOptions options;
  options.precision = precision;
  options.max_slots = shape.slots;
  options.max_window = shape.max_window;
  options.max_model_len = shape.max_positions();
  options.max_rows = shape.sequences * (shape.max_chunk + shape.max_window);
  if (options.max_rows < shape.length) options.max_rows = shape.length;
  options.max_logit_rows = options.max_rows;
  return options;
}

ScheduledTokens::ScheduledTokens(Random& random, const ScheduleShape& shape, int32_t vocab_size)
    : shape_(shape) {
  for (auto* table : {&truth_, &rejected_}) {
    table->resize(static_cast<size_t>(shape.sequences));
    for (std::vector<int32_t>& row : *table) {
      for (int32_t t = 0; t < shape.max_positions(); ++t)
        row.push_back(static_cast<int32_t>(random.below(vocab_size)));
    }
  }
}

StepPlan ScheduledTokens::plan(const ScheduledStep& step, const Model& model) const {
  StepPlan plan;
  for (const kernels::SequenceRows& rows : step.sequences) {
    StepSequence s;
    s.slot = rows.slot;
    s.start_position = rows.start_position;
    s.commit = rows.commit;
    s.replay = rows.replay;
    for (int32_t i = 0; i < rows.rows; ++i) {
      const auto& row = step.rows[static_cast<size_t>(rows.first_row + i)];
      const auto& table = row.rejected ? rejected_ : truth_;
      s.tokens.push_back(
          table[static_cast<size_t>(row.sequence)][static_cast<size_t>(row.position)]);
    }
    s.logit_rows = all_rows(s.tokens);
    s.blocks = SequenceDriver(model, rows.slot).blocks(rows.start_position + rows.rows);
    plan.sequences.push_back(std::move(s));
  }
  return plan;
}

std::vector<int32_t> ScheduledTokens::truth(int32_t sequence, int32_t count) const {
  const std::vector<int32_t>& row = truth_[static_cast<size_t>(sequence)];
  return {row.begin(), row.begin() + count};
}

kernels::ConstTensorView logits_view(const StepResult& result) {
  return {result.logits.data(), kernels::DType::f32, {result.logit_count, result.vocab}};
}

}  // namespace yoke::engine
