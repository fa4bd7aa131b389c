#include "engine/testing/step_driver.h"

#include <algorithm>
#include <numeric>

namespace yoke::engine {

void RowSet::append(std::span<const float> rows, int64_t row_width) {
  width = row_width;
  values.insert(values.end(), rows.begin(), rows.end());
}

int32_t argmax_of(std::span<const float> row) {
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

float margin_of(std::span<const float> row) {
  const float best = row[static_cast<size_t>(argmax_of(row))];
  float second = -std::numeric_limits<float>::infinity();
  bool seen = false;
  for (const float x : row) {
    if (x == best && !seen) {
      seen = true;
    } else {
      second = std::max(second, x);
    }
  }
  return best - second;
}

std::vector<float> to_floats(kernels::ConstTensorView view) {
  std::vector<float> out(static_cast<size_t>(view.elements()));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = kernels::load_float(view, static_cast<int64_t>(i));
  return out;
}

namespace {

std::vector<int32_t> interleaved_blocks(const Model& model, int32_t slot) {
  const int32_t per_slot =
      (model.options().max_model_len + model.block_tokens() - 1) / model.block_tokens();
  std::vector<int32_t> blocks;
  for (int32_t i = per_slot - 1; i >= 0; --i)
    blocks.push_back(i * model.options().max_slots + slot);
  return blocks;
}

}  // namespace

SequenceDriver::SequenceDriver(const Model& model, int32_t slot)
    : SequenceDriver(slot, interleaved_blocks(model, slot), model.block_tokens()) {}

SequenceDriver::SequenceDriver(const Model& model, int32_t slot, std::vector<int32_t> blocks)
    : SequenceDriver(slot, std::move(blocks), model.block_tokens()) {}

SequenceDriver::SequenceDriver(int32_t slot, std::vector<int32_t> blocks, int32_t block_tokens)
    : slot_(slot), blocks_(std::move(blocks)), block_tokens_(block_tokens) {}

StepSequence SequenceDriver::next(std::span<const int32_t> tokens, int32_t commit,
                                  std::vector<int32_t> logit_rows) {
  StepSequence s;
  s.slot = slot_;
  s.start_position = position();
  s.tokens.assign(tokens.begin(), tokens.end());
  s.commit = commit < 0 ? static_cast<int32_t>(tokens.size()) : commit;
  s.replay = replay_;
  s.logit_rows = std::move(logit_rows);
  s.blocks = blocks(s.start_position + static_cast<int32_t>(tokens.size()));
  committed_ = s.start_position + s.commit;
  replay_ = 0;
  return s;
}

std::vector<int32_t> SequenceDriver::blocks(int32_t tokens) const {
  return {blocks_.begin(), blocks_.begin() + (tokens + block_tokens_ - 1) / block_tokens_};
}

void SequenceDriver::keep(int32_t kept) {
  replay_ = kept;
}

std::vector<int32_t> all_rows(std::span<const int32_t> tokens) {
  std::vector<int32_t> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

RowSet run_prompt(Model& model, std::span<const int32_t> tokens, int32_t chunk, RowSet* hidden) {
  SequenceDriver sequence(model, 0);
  RowSet logits;
  while (!tokens.empty()) {
    const auto part = tokens.first(std::min(tokens.size(), static_cast<size_t>(chunk)));
    StepPlan plan;
    plan.sequences.push_back(sequence.next(part, -1, all_rows(part)));
    const StepResult result = model.step(plan);
    logits.append(result.logits, result.vocab);
    if (hidden != nullptr) hidden->append(to_floats(model.hidden()), model.config().hidden_size);
    tokens = tokens.subspan(part.size());
  }
  return logits;
}

}  // namespace yoke::engine
