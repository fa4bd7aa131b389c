// golden/nano: the trained demo model with EXL3 experts (its README gives the bounds).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "engine/model/golden_files.h"
#include "engine/model/loaded_model.h"
#include "engine/testing/step_driver.h"

namespace yoke::engine {
namespace {

TEST(NanoGolden, known_question_decodes_its_answer_greedily) {
  kernels::ThreadPool threads(2);
  const SafetensorsFile golden = read_golden(golden_root() / "nano" / "golden.safetensors");
  config::Result<Checkpoint> checkpoint =
      Checkpoint::open(std::filesystem::path(YOKE_SOURCE_DIR) / "tools/nano/checkpoint");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  config::Result<std::unique_ptr<Model>> model = Model::load(*checkpoint, {}, threads);
  ASSERT_TRUE(model.ok()) << model.error().message;
  SequenceDriver sequence(**model, 0);
  const std::span<const int32_t> prompt = ints(golden.tensor("known.ids"));
  const std::span<const int32_t> greedy = ints(golden.tensor("known.greedy"));
  std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  std::vector<int32_t> answer;
  while (answer.size() < greedy.size()) {
    StepPlan plan;
    plan.sequences.push_back(sequence.next(tokens, -1, {static_cast<int32_t>(tokens.size()) - 1}));
    tokens = {argmax_of((*model)->step(plan).row(0))};
    answer.push_back(tokens.front());
  }
  EXPECT_TRUE(std::equal(answer.begin(), answer.end(), greedy.begin()));
}

}  // namespace
}  // namespace yoke::engine
