// A Model without weights for tests of the engine: logits are a pure function of the tokens before
// them, so that every answer can be checked. It keeps caches as a real one does (tokens in blocks,
// a running hash in slots) and complains when the engine hands it a wrong block, slot or position.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/generation.h"
#include "engine/model/model.h"

namespace yoke::tests {

class ScriptedModel final : public engine::Model {
 public:
  static constexpr int32_t kVocab = 40;
  /// Ids from here on are padding; they have the largest logits of all.
  static constexpr int32_t kDefinedVocab = 32;
  static constexpr int32_t kBlockTokens = 4;

  /// Called at the start of each step, on the engine's thread; may wait and may throw.
  using BeforeStep = std::function<void(const engine::StepPlan&)>;
  /// May change the logits of a row; `tokens` is the number of tokens up to and including the row.
  using EditLogits = std::function<void(int32_t slot, int32_t tokens, std::span<float> row)>;

  /// `vocab` other than kVocab: for tests that bring a tokenizer; the last kVocab - kDefinedVocab
  /// ids are padding.
  explicit ScriptedModel(const engine::ModelOptions& options, int32_t vocab = kVocab)
      : options_(options) {
    config_.vocab_size = vocab;
    config_.max_positions = options.max_model_len;
    const int32_t per_slot = (options.max_model_len + kBlockTokens - 1) / kBlockTokens;
    if (options_.num_blocks == 0) options_.num_blocks = per_slot * options.max_slots;
    cache_.resize(static_cast<size_t>(options_.num_blocks * kBlockTokens), -1);
    slots_.resize(static_cast<size_t>(options.max_slots));
    snapshots_.resize(static_cast<size_t>(options.max_snapshots));
  }

  void set_before_step(BeforeStep hook) { before_step_ = std::move(hook); }
  void set_edit_logits(EditLogits hook) { edit_logits_ = std::move(hook); }

  const engine::ModelConfig& config() const noexcept override { return config_; }
  const engine::ModelOptions& options() const noexcept override { return options_; }
  int32_t block_tokens() const noexcept override { return kBlockTokens; }
  int32_t num_blocks() const noexcept override { return options_.num_blocks; }

  engine::StepResult step(const engine::StepPlan& plan) override {
    if (before_step_) before_step_(plan);
    require(plan.rows() <= options_.max_rows, "more rows than the model has");
    logits_.clear();
    for (const engine::StepSequence& sequence : plan.sequences) run(sequence);
    engine::StepResult result;
    result.logits = logits_;
    result.vocab = config_.vocab_size;
    result.logit_count = static_cast<int32_t>(logits_.size()) / config_.vocab_size;
    require(result.logit_count <= options_.max_logit_rows, "more logits than the model has");
    return result;
  }

  void take_snapshots(const engine::StepPlan& plan) override {
    for (const engine::StepSequence& sequence : plan.sequences) {
      if (sequence.save < 0) continue;
      const Slot& slot = slots_[static_cast<size_t>(sequence.slot)];
      const int32_t end = sequence.start_position + sequence.commit;
      require(slot.length == end, "a snapshot of another step");
      Snapshot& snapshot = snapshots_.at(static_cast<size_t>(sequence.save));
      snapshot.slot = slot;
      snapshot.last_block.clear();
      for (int32_t position = last_block_start(end); position < end; ++position)
        snapshot.last_block.push_back(cell(sequence, position));
    }
  }
  kernels::ConstTensorView snapshot_hidden(int32_t) const noexcept override { return {}; }

  kernels::ConstTensorView hidden() const noexcept override { return {}; }
  engine::StepResult mtp_step(const engine::StepPlan&, std::span<const float>) override {
    throw std::logic_error("the scripted model has no MTP layer");
  }
  kernels::ConstTensorView mtp_hidden() const noexcept override { return {}; }
  bool has_mtp() const noexcept override { return false; }
  void set_trace(Trace) override {}
  uint64_t weight_bytes() const noexcept override { return 0; }
  uint64_t cache_bytes() const noexcept override { return 0; }

  /// What the engine must answer to `request`: one token after the other, nothing cached.
  static std::vector<int32_t> answer(const engine::GenerationRequest& request,
                                     int32_t max_model_len) {
    uint64_t hash = kSeed;
    for (const int32_t token : request.prompt) hash = mix(hash, token);
    std::vector<int32_t> output;
    engine::TokenCounts counts(request.prompt);
    std::vector<float> row(kVocab);
    size_t length = request.prompt.size();
    while (static_cast<int32_t>(output.size()) < request.max_tokens &&
           length < static_cast<size_t>(max_model_len)) {
      fill(hash, row);
      const int32_t token =
          engine::sample_token(row, request.sampling, counts, kDefinedVocab, length).value();
      output.push_back(token);
      counts.add_output(token);
      ++length;
      for (const int32_t stop : request.stop_token_ids) {
        if (token == stop) return output;
      }
      hash = mix(hash, token);
    }
    return output;
  }

 private:
  static constexpr uint64_t kSeed = 0x1234;

  struct Slot {
    uint64_t hash = kSeed;        // of the committed tokens
    int32_t length = 0;           // committed
    std::vector<int32_t> window;  // tokens after them
  };
  struct Snapshot {
    Slot slot;
    std::vector<int32_t> last_block;
  };

  /// First position of the block that holds the newest of `tokens` tokens.
  static int32_t last_block_start(int32_t tokens) {
    return (tokens - 1) / kBlockTokens * kBlockTokens;
  }

  static uint64_t mix(uint64_t hash, int32_t token) {
    uint64_t x = (hash ^ static_cast<uint64_t>(token)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 31)) * 0x94D049BB133111EBull;
    return x ^ (x >> 29);
  }

  static void fill(uint64_t hash, std::span<float> row) {
    const auto vocab = static_cast<int32_t>(row.size());
    for (int32_t id = 0; id < vocab; ++id) {
      const uint64_t bits = mix(hash, 1000 + id) >> 40;
      row[static_cast<size_t>(id)] =
          id < vocab - (kVocab - kDefinedVocab) ? static_cast<float>(bits) * 0x1p-22f - 2 : 50.0f;
    }
  }

  static void require(bool condition, const char* what) {
    if (!condition) throw std::logic_error(std::string("scripted model: ") + what);
  }

  void run(const engine::StepSequence& sequence) {
    require(sequence.slot >= 0 && sequence.slot < options_.max_slots, "no such slot");
    require(!sequence.tokens.empty(), "a sequence without rows");
    const auto rows = static_cast<int32_t>(sequence.tokens.size());
    require(sequence.commit >= 0 && sequence.commit <= rows &&
                rows - sequence.commit <= options_.max_window,
            "a window longer than the model's");
    Slot& slot = slots_[static_cast<size_t>(sequence.slot)];
    if (sequence.start_position == 0) slot = {};
    if (sequence.restore >= 0) restore(sequence, slot);
    require(sequence.replay <= static_cast<int32_t>(slot.window.size()),
            "a replay longer than the last window");
    for (int32_t i = 0; i < sequence.replay; ++i) commit(slot, slot.window[static_cast<size_t>(i)]);
    slot.window.clear();
    require(slot.length == sequence.start_position, "the slot holds another length");
    Slot with_window = slot;
    size_t wanted = 0;
    for (int32_t row = 0; row < rows; ++row) {
      const int32_t token = sequence.tokens[static_cast<size_t>(row)];
      cell(sequence, with_window.length) = token;
      commit(with_window, token);
      if (row < sequence.commit) {
        commit(slot, token);
      } else {
        slot.window.push_back(token);
      }
      if (wanted < sequence.logit_rows.size() && sequence.logit_rows[wanted] == row) {
        ++wanted;
        append_logits(sequence, with_window);
      }
    }
    require(wanted == sequence.logit_rows.size(), "logits of a row that is not there");
  }

  static void commit(Slot& slot, int32_t token) {
    slot.hash = mix(slot.hash, token);
    ++slot.length;
  }

  void restore(const engine::StepSequence& sequence, Slot& slot) {
    const Snapshot& snapshot = snapshots_.at(static_cast<size_t>(sequence.restore));
    slot = snapshot.slot;
    slot.window.clear();
    int32_t position = last_block_start(slot.length);
    for (const int32_t token : snapshot.last_block) cell(sequence, position++) = token;
  }

  void append_logits(const engine::StepSequence& sequence, const Slot& slot) {
    uint64_t hash = kSeed;
    for (int32_t position = 0; position < slot.length; ++position)
      hash = mix(hash, cell(sequence, position));
    require(hash == slot.hash, "the blocks hold other tokens than the slot has seen");
    const auto vocab = static_cast<size_t>(config_.vocab_size);
    logits_.resize(logits_.size() + vocab);
    const std::span<float> row = std::span(logits_).last(vocab);
    fill(hash, row);
    if (edit_logits_) edit_logits_(sequence.slot, slot.length, row);
  }

  int32_t& cell(const engine::StepSequence& sequence, int32_t position) {
    const auto index = static_cast<size_t>(position / kBlockTokens);
    require(index < sequence.blocks.size(), "a position beyond the blocks");
    const int32_t block = sequence.blocks[index];
    require(block >= 0 && block < options_.num_blocks, "no such block");
    return cache_[static_cast<size_t>(block * kBlockTokens + position % kBlockTokens)];
  }

  engine::ModelConfig config_;
  engine::ModelOptions options_;
  std::vector<int32_t> cache_;  // [blocks, block_tokens]
  std::vector<Slot> slots_;
  std::vector<Snapshot> snapshots_;
  std::vector<float> logits_;
  BeforeStep before_step_;
  EditLogits edit_logits_;
};

}  // namespace yoke::tests
