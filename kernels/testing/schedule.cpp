#include "kernels/testing/schedule.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace yoke::kernels::testing {

namespace {

Shape prepend(std::initializer_list<int64_t> first, const Shape& rest) {
  Shape shape(first);
  for (int i = 0; i < rest.rank; ++i) shape.dims[static_cast<size_t>(shape.rank++)] = rest[i];
  return shape;
}

/// Where one sequence stands.
struct Progress {
  int32_t committed = 0;
  int32_t kept = 0;  // rows of the last window that were right

  int32_t position() const { return committed + kept; }
};

/// Rows of one sequence in the next step, at least one.
void schedule_rows(ScheduledStep& step, Progress& progress, int32_t sequence, Random& random,
                   const ScheduleShape& shape) {
  const int32_t left = shape.length - progress.position();
  // Mostly one certain row and a window, as decoding does; sometimes a chunk, sometimes no commit.
  const int64_t kind = random.below(6);
  int32_t commit = 1;
  if (kind == 0) commit = 0;
  if (kind <= 2 && kind > 0) commit = 1 + static_cast<int32_t>(random.below(shape.max_chunk));
  commit = std::min(commit, left);
  int32_t window = static_cast<int32_t>(random.below(shape.max_window + 1));
  if (commit + window == 0) window = 1;
  const int32_t right = static_cast<int32_t>(random.below(std::min(window, left - commit) + 1));

  SequenceRows rows;
  rows.slot = shape.slot_of(sequence);
  rows.first_row = static_cast<int32_t>(step.rows.size());
  rows.rows = commit + window;
  rows.start_position = progress.position();
  rows.commit = commit;
  rows.replay = progress.kept;
  step.sequences.push_back(rows);
  for (int32_t i = 0; i < rows.rows; ++i)
    step.rows.push_back({sequence, rows.start_position + i, i >= commit + right});
  progress = {rows.start_position + commit, right};
}

}  // namespace

std::vector<ScheduledStep> random_schedule(Random& random, const ScheduleShape& shape) {
  std::vector<ScheduledStep> steps;
  std::vector<Progress> progress(static_cast<size_t>(shape.sequences));
  const auto done = [&](const Progress& p) { return p.position() >= shape.length; };
  while (!std::all_of(progress.begin(), progress.end(), done)) {
    ScheduledStep step;
    for (int32_t s = 0; s < shape.sequences; ++s) {
      Progress& p = progress[static_cast<size_t>(s)];
      if (!done(p) && random.below(4) != 0) schedule_rows(step, p, s, random, shape);
    }
    if (step.rows.empty()) continue;
    step.padding = static_cast<int32_t>(random.below(4));
    steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<ScheduledStep> serial_schedule(const ScheduleShape& shape) {
  std::vector<ScheduledStep> steps;
  for (int32_t s = 0; s < shape.sequences; ++s) {
    for (int32_t t = 0; t < shape.length; ++t) {
      ScheduledStep step;
      step.sequences.push_back({shape.slot_of(s), 0, 1, t, 1, 0});
      step.rows.push_back({s, t, false});
      steps.push_back(std::move(step));
    }
  }
  return steps;
}

StepTable::StepTable(Random& random, const ScheduleShape& shape) : shape_(shape) {
  std::vector<int32_t> blocks(static_cast<size_t>(shape.slots * shape.blocks_per_slot()));
  std::iota(blocks.begin(), blocks.end(), 0);
  for (size_t i = blocks.size(); i > 1; --i)
    std::swap(blocks[i - 1], blocks[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
  blocks_ = ints_of({shape.slots, shape.blocks_per_slot()}, blocks);
}

StepRows StepTable::fill(const ScheduledStep& step) {
  std::vector<int32_t> slot, position, sequence;
  for (size_t s = 0; s < step.sequences.size(); ++s) {
    for (int32_t i = 0; i < step.sequences[s].rows; ++i) {
      slot.push_back(step.sequences[s].slot);
      position.push_back(step.sequences[s].start_position + i);
      sequence.push_back(static_cast<int32_t>(s));
    }
  }
  slot.resize(static_cast<size_t>(step.bucket()), -1);
  position.resize(slot.size(), 0);
  sequence.resize(slot.size(), -1);
  slot_ = ints_of({step.bucket()}, slot);
  position_ = ints_of({step.bucket()}, position);
  sequence_ = ints_of({step.bucket()}, sequence);
  sequences_ = step.sequences;
  sequences_.resize(static_cast<size_t>(shape_.slots));  // unused entries have slot -1
  const auto ints = [](const Tensor& t) { return t.view().as<int32_t>(); };
  return {step.bucket(),      ints(slot_),       ints(position_), ints(sequence_),
          shape_.slots,       sequences_.data(), ints(blocks_),   shape_.blocks_per_slot(),
          shape_.block_tokens};
}

RowSource::RowSource(Random& random, const ScheduleShape& shape, DType dtype, Shape row_shape,
                     double scale)
    : truth(random_tensor(random, dtype,
                          prepend({shape.sequences, shape.max_positions()}, row_shape), scale)),
      rejected(random_tensor(
          random, dtype, prepend({shape.sequences, shape.max_positions()}, row_shape), scale)) {}

Tensor RowSource::rows(const ScheduledStep& step) const {
  const ConstTensorView all = truth.view();
  Shape shape{step.bucket()};
  for (int i = 2; i < all.rank(); ++i) shape.dims[static_cast<size_t>(shape.rank++)] = all.dim(i);
  Tensor out = unwritten(all.dtype, shape);
  const size_t bytes = out.bytes() / static_cast<size_t>(step.bucket());
  auto* to = static_cast<std::byte*>(out.view().data);
  for (size_t r = 0; r < step.rows.size(); ++r) {
    const ScheduledRow& row = step.rows[r];
    const ConstTensorView from = row.rejected ? rejected.view() : truth.view();
    const auto at = static_cast<size_t>(row.sequence * all.dim(1) + row.position);
    std::memcpy(to + r * bytes, static_cast<const std::byte*>(from.data) + at * bytes, bytes);
  }
  return out;
}

RowSink::RowSink(const ScheduleShape& shape, DType dtype, Shape row_shape)
    : all_(unwritten(dtype, prepend({shape.sequences, shape.length}, row_shape))) {}

void RowSink::take(const ScheduledStep& step, ConstTensorView y) {
  const TensorView all = all_.view();
  const size_t bytes = y.bytes() / static_cast<size_t>(step.bucket());
  for (size_t r = 0; r < step.rows.size(); ++r) {
    const ScheduledRow& row = step.rows[r];
    if (row.rejected) continue;
    const auto at = static_cast<size_t>(row.sequence * all.dim(1) + row.position);
    std::memcpy(static_cast<std::byte*>(all.data) + at * bytes,
                static_cast<const std::byte*>(y.data) + r * bytes, bytes);
  }
}

}  // namespace yoke::kernels::testing
