// A loaded model of random weights, and plans for it from the schedules of kernels/testing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/model/loaded_model.h"
#include "engine/testing/random_checkpoint.h"
#include "engine/testing/step_driver.h"
#include "kernels/testing/schedule.h"

namespace yoke::engine {

/// Writes the checkpoint to a temporary folder and loads it. Throws std::runtime_error with the
/// loader's message when it is refused.
std::unique_ptr<LoadedModel> load_random_model(const RandomCheckpoint& what,
                                               const ModelOptions& options,
                                               kernels::ThreadPool& threads);

/// Options that fit any step of `shape`.
ModelOptions options_for(const kernels::testing::ScheduleShape& shape, Precision precision);

/// The tokens of a schedule: true ones, and others where rows will be rejected.
class ScheduledTokens {
 public:
  ScheduledTokens(kernels::testing::Random& random, const kernels::testing::ScheduleShape& shape,
                  int32_t vocab_size);

  /// A plan that wants the logits of every row.
  StepPlan plan(const kernels::testing::ScheduledStep& step, const Model& model) const;
  /// The first `count` true tokens of a sequence.
  std::vector<int32_t> truth(int32_t sequence, int32_t count) const;

 private:
  kernels::testing::ScheduleShape shape_;
  std::vector<std::vector<int32_t>> truth_, rejected_;  // [sequence][position]
};

/// The result's logits of a step whose plan wanted every row, as [rows, vocab].
kernels::ConstTensorView logits_view(const StepResult& result);

}  // namespace yoke::engine
