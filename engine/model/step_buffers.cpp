#include "engine/model/step_buffers.h"

#include <algorithm>

namespace yoke::engine {

using kernels::DType;
using kernels::SequenceRows;
using kernels::Tensor;

namespace {

static_assert(sizeof(SequenceRows) % sizeof(int32_t) == 0);
constexpr int64_t kSequenceWords = sizeof(SequenceRows) / sizeof(int32_t);

int32_t* ints(Tensor& t) {
  return t.view().as<int32_t>();
}
const int32_t* ints(const Tensor& t) {
  return t.view().as<int32_t>();
}

}  // namespace

int32_t row_bucket(int32_t rows, int32_t capacity) {
  if (rows <= 8) return std::min(rows, capacity);
  int32_t power = 8;
  while (power < rows) power *= 2;
  const int32_t between = power / 4 * 3;
  return std::min(rows <= between ? between : power, capacity);
}

StepBuffers::StepBuffers(const ModelConfig& config, const ModelOptions& options, Memory& memory)
    : options_(options),
      geometry_(cache_geometry(config, options)),
      vocab_size_(config.vocab_size) {
  tokens_ = memory.tensor(DType::i32, {options.max_rows});
  slot_ = memory.tensor(DType::i32, {options.max_rows});
  position_ = memory.tensor(DType::i32, {options.max_rows});
  sequence_ = memory.tensor(DType::i32, {options.max_rows});
  logit_index_ = memory.tensor(DType::i32, {options.max_logit_rows});
  block_table_ = memory.tensor(DType::i32, {options.max_slots, geometry_.blocks_per_slot});
  sequences_ = memory.tensor(DType::i32, {options.max_slots, kSequenceWords});
  for (Copies* copies : {&restores_, &saves_}) {
    for (Tensor* t : {&copies->snapshot, &copies->slot, &copies->block, &copies->row})
      *t = memory.tensor(DType::i32, {options.max_slots});
  }
}

void StepBuffers::check(const StepSequence& s) const {
  const auto rows = static_cast<int32_t>(s.tokens.size());
  const int32_t end = s.start_position + rows;
  YOKE_CHECK(rows >= 1, "plan: a sequence without rows");
  YOKE_CHECK(s.slot >= 0 && s.slot < options_.max_slots, "plan: slot out of range");
  YOKE_CHECK(s.start_position >= 0 && end <= options_.max_model_len,
             "plan: positions beyond max_model_len");
  YOKE_CHECK(s.commit >= 0 && s.commit <= rows && rows - s.commit <= options_.max_window,
             "plan: window longer than max_window");
  YOKE_CHECK(s.replay >= 0 && s.replay <= options_.max_window && s.replay <= s.start_position,
             "plan: replay longer than the last window");
  YOKE_CHECK(s.restore >= -1 && s.restore < options_.max_snapshots && s.save >= -1 &&
                 s.save < options_.max_snapshots,
             "plan: snapshot out of range");
  YOKE_CHECK(s.restore < 0 || (s.start_position > 0 && s.replay == 0),
             "plan: a sequence restored at position 0, or with a window before it");
  YOKE_CHECK(s.save < 0 || s.commit > 0, "plan: a snapshot without a row that is certain");
  const auto wanted =
      static_cast<size_t>((end + geometry_.block_tokens - 1) / geometry_.block_tokens);
  YOKE_CHECK(s.blocks.size() >= wanted &&
                 s.blocks.size() <= static_cast<size_t>(geometry_.blocks_per_slot),
             "plan: blocks do not cover the rows, or exceed the table");
  for (const int32_t block : s.blocks)
    YOKE_CHECK(block >= 0 && block < geometry_.num_blocks, "plan: block out of range");
  for (const int32_t token : s.tokens)
    YOKE_CHECK(token >= 0 && token < vocab_size_, "plan: token outside the vocabulary");
  for (size_t i = 0; i < s.logit_rows.size(); ++i) {
    YOKE_CHECK(s.logit_rows[i] >= 0 && s.logit_rows[i] < rows, "plan: logit row out of range");
    YOKE_CHECK(i == 0 || s.logit_rows[i - 1] < s.logit_rows[i], "plan: logit rows not ascending");
  }
}

void StepBuffers::add(const StepSequence& s, int32_t entry) {
  const auto rows = static_cast<int32_t>(s.tokens.size());
  YOKE_CHECK(rows_ + rows <= options_.max_rows, "plan: more rows than max_rows");
  YOKE_CHECK(logit_rows_ + static_cast<int32_t>(s.logit_rows.size()) <= options_.max_logit_rows,
             "plan: more logit rows than max_logit_rows");
  auto* sequences = static_cast<SequenceRows*>(sequences_.view().data);
  for (int32_t i = 0; i < entry; ++i)
    YOKE_CHECK(sequences[i].slot != s.slot, "plan: a slot twice in one step");
  sequences[entry] = {s.slot, rows_, rows, s.start_position, s.commit, s.replay};
  add_copies(s, entry, rows_);
  for (const int32_t row : s.logit_rows) ints(logit_index_)[logit_rows_++] = rows_ + row;
  for (int32_t i = 0; i < rows; ++i, ++rows_) {
    ints(tokens_)[rows_] = s.tokens[static_cast<size_t>(i)];
    ints(slot_)[rows_] = s.slot;
    ints(position_)[rows_] = s.start_position + i;
    ints(sequence_)[rows_] = entry;
  }
  std::copy(s.blocks.begin(), s.blocks.end(),
            ints(block_table_) + int64_t{s.slot} * geometry_.blocks_per_slot);
}

void StepBuffers::add_copies(const StepSequence& s, int32_t entry, int32_t first_row) {
  const auto set = [&](Copies& copies, int32_t snapshot, int32_t tokens, int32_t row) {
    const bool used = snapshot >= 0;
    ints(copies.snapshot)[entry] = snapshot;
    ints(copies.slot)[entry] = used ? s.slot : -1;
    ints(copies.block)[entry] =
        used ? s.blocks[static_cast<size_t>((tokens - 1) / geometry_.block_tokens)] : -1;
    ints(copies.row)[entry] = used ? row : -1;
    copies.count += used;
  };
  for (int32_t i = 0; i < entry; ++i)
    YOKE_CHECK(s.save < 0 || ints(saves_.snapshot)[i] != s.save, "plan: a snapshot filled twice");
  set(restores_, s.restore, s.start_position, -1);
  set(saves_, s.save, s.start_position + s.commit, first_row + s.commit - 1);
}

void StepBuffers::fill(const StepPlan& plan) {
  YOKE_CHECK(plan.sequences.size() <= static_cast<size_t>(options_.max_slots),
             "plan: more sequences than slots");
  YOKE_CHECK(!plan.sequences.empty(), "plan: no sequence");
  rows_ = 0;
  logit_rows_ = 0;
  restores_.count = saves_.count = 0;
  int32_t entries = 0;
  for (const StepSequence& s : plan.sequences) {
    check(s);
    add(s, entries++);
  }
  auto* sequences = static_cast<SequenceRows*>(sequences_.view().data);
  std::fill(sequences + entries, sequences + options_.max_slots, SequenceRows{});
  for (Copies* copies : {&restores_, &saves_}) {
    for (Tensor* t : {&copies->snapshot, &copies->slot, &copies->block, &copies->row})
      std::fill(ints(*t) + entries, ints(*t) + options_.max_slots, -1);
  }
  for (int32_t r = rows_; r < options_.max_rows; ++r) {
    ints(tokens_)[r] = -1;
    ints(slot_)[r] = -1;
    ints(position_)[r] = 0;
    ints(sequence_)[r] = -1;
  }
  std::fill(ints(logit_index_) + logit_rows_, ints(logit_index_) + options_.max_logit_rows, -1);
}

kernels::StepRows StepBuffers::step_rows(int32_t bucket) const noexcept {
  return {bucket,
          ints(slot_),
          ints(position_),
          ints(sequence_),
          options_.max_slots,
          static_cast<const SequenceRows*>(sequences_.view().data),
          ints(block_table_),
          geometry_.blocks_per_slot,
          geometry_.block_tokens};
}

}  // namespace yoke::engine
