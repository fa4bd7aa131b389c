// The delta rule, one row after the other, for every row: prompt, window and decode share these
// loops, so a chunk border cannot show.
//
// Value columns of a head are independent: an item is (sequence, head, block of kColumns value
// columns), its part of the state a local array [key][column]. Reduction trees, all in float,
// products and sums rounded separately:
//   u and o    one accumulator per column, keys in ascending order
//   Σq², Σk²   dot_lanes (kernels/core/lanes.h)
// e^g is our float64 exp rounded to float. One implementation serves as reference.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/core/act.h"
#include "kernels/core/lanes.h"
#include "kernels/core/math.h"
#include "kernels/kda/kda.h"

namespace yoke::kernels {
namespace {

constexpr int64_t kColumns = 32;
constexpr float kNormEps = 1e-6f;

/// One head's inputs at one row, at the head's first channel. `q` is null where no output is
/// wanted (replayed rows).
template <class Act>
struct Row {
  const Act* q;
  const Act* k;
  const Act* v;
  const float* g;
  float beta;
};

/// unit = x / sqrt(Σx² + eps) · scale
template <class Act>
void normalise(float* unit, const Act* x, int64_t dim, float scale) {
  const float inverse = 1.0f / std::sqrt(dot_lanes(x, x, dim) + kNormEps);
  for (int64_t i = 0; i < dim; ++i) unit[i] = widen(x[i]) * inverse * scale;
}

/// The state columns [first, first + width) of one head. Columns past `width` stay zero and are
/// never stored, so that the inner loops have a constant length.
class Columns {
 public:
  Columns(int64_t dim, int64_t first, int64_t width) : dim_(dim), first_(first), width_(width) {}

  void clear() { std::memset(state_, 0, static_cast<size_t>(dim_) * sizeof(state_[0])); }
  void load(const float* state) {
    if (width_ < kColumns) clear();
    for (int64_t k = 0; k < dim_; ++k) std::copy_n(state + k * dim_ + first_, width_, state_[k]);
  }
  void store(float* state) const {
    for (int64_t k = 0; k < dim_; ++k) std::copy_n(state_[k], width_, state + k * dim_ + first_);
  }

  template <class Act>
  void apply(const Row<Act>& row, Act* out) {
    float key[kMaxKdaDim];
    float query[kMaxKdaDim];
    normalise(key, row.k, dim_, 1.0f);
    if (row.q != nullptr) normalise(query, row.q, dim_, 1.0f / std::sqrt(static_cast<float>(dim_)));
    float delta[kColumns] = {};
    for (int64_t k = 0; k < dim_; ++k) {
      const float decay = static_cast<float>(exp64(row.g[k]));
      for (int64_t c = 0; c < kColumns; ++c) {
        state_[k][c] *= decay;
        delta[c] += key[k] * state_[k][c];
      }
    }
    for (int64_t c = 0; c < kColumns; ++c) {
      const float value = c < width_ ? widen(row.v[first_ + c]) : 0.0f;
      delta[c] = row.beta * (value - delta[c]);
    }
    if (row.q == nullptr) {
      for (int64_t k = 0; k < dim_; ++k) {
        for (int64_t c = 0; c < kColumns; ++c) state_[k][c] += key[k] * delta[c];
      }
      return;
    }
    float sum[kColumns] = {};
    for (int64_t k = 0; k < dim_; ++k) {
      for (int64_t c = 0; c < kColumns; ++c) {
        state_[k][c] += key[k] * delta[c];
        sum[c] += query[k] * state_[k][c];
      }
    }
    for (int64_t c = 0; c < width_; ++c) out[first_ + c] = narrow<Act>(sum[c]);
  }

 private:
  int64_t dim_;
  int64_t first_;
  int64_t width_;
  alignas(64) float state_[kMaxKdaDim][kColumns];
};

struct Step {
  TensorView o;
  ConstTensorView q, k, v, g, beta;
  KdaState memory;
  int64_t heads, dim;
};

/// Row of `sequence` relative to its first row; below 0: a pending row.
template <class Act>
Row<Act> input(const Step& step, const SequenceRows& sequence, int64_t head, int64_t row) {
  const int64_t width = step.heads * step.dim;
  const int64_t channel = head * step.dim;
  if (row >= 0) {
    const int64_t r = sequence.first_row + row;
    const int64_t at = r * width + channel;
    return {step.q.as<Act>() + at, step.k.as<Act>() + at, step.v.as<Act>() + at,
            step.g.as<float>() + at, step.beta.as<float>()[r * step.heads + head]};
  }
  const KdaState& m = step.memory;
  const int64_t r = sequence.slot * m.pending_k.dim(1) + row + sequence.replay;
  const int64_t at = r * width + channel;
  return {nullptr, m.pending_k.as<Act>() + at, m.pending_v.as<Act>() + at,
          m.pending_g.as<float>() + at, m.pending_beta.as<float>()[r * step.heads + head]};
}

template <class Act>
void run_columns(const Step& step, const SequenceRows& sequence, int64_t head, int64_t first) {
  const int64_t dim = step.dim;
  Columns columns(dim, first, std::min(kColumns, dim - first));
  float* stored = step.memory.state.as<float>() + (sequence.slot * step.heads + head) * dim * dim;
  if (sequence.start_position == 0) {
    columns.clear();
  } else {
    columns.load(stored);
    for (int64_t row = -sequence.replay; row < 0; ++row)
      columns.apply(input<Act>(step, sequence, head, row), static_cast<Act*>(nullptr));
  }
  Act* out = step.o.as<Act>() + sequence.first_row * step.heads * dim + head * dim;
  for (int64_t row = 0; row < sequence.rows; ++row) {
    if (row == sequence.commit) columns.store(stored);
    columns.apply(input<Act>(step, sequence, head, row), out + row * step.heads * dim);
  }
  if (sequence.commit == sequence.rows) columns.store(stored);
}

/// Inputs of the window rows, for a later replay. After all items of the recurrence: they read the
/// pending rows of the step before.
template <class Act>
void keep_window(const Step& step, const SequenceRows& sequence) {
  const KdaState& m = step.memory;
  const int64_t width = step.heads * step.dim;
  const int64_t from = sequence.first_row + sequence.commit;
  const int64_t to = sequence.slot * m.pending_k.dim(1);
  const int64_t rows = sequence.rows - sequence.commit;
  std::copy_n(step.k.as<Act>() + from * width, rows * width, m.pending_k.as<Act>() + to * width);
  std::copy_n(step.v.as<Act>() + from * width, rows * width, m.pending_v.as<Act>() + to * width);
  std::copy_n(step.g.as<float>() + from * width, rows * width,
              m.pending_g.as<float>() + to * width);
  std::copy_n(step.beta.as<float>() + from * step.heads, rows * step.heads,
              m.pending_beta.as<float>() + to * step.heads);
}

void check_shapes(const Step& step) {
  const KdaState& m = step.memory;
  const int64_t width = step.heads * step.dim;
  YOKE_CHECK(step.dim >= 1 && step.dim <= kMaxKdaDim, "kda_recurrence: head size");
  YOKE_CHECK(m.state.rank() == 4 && m.state.dim(3) == step.dim, "kda_recurrence: state");
  YOKE_CHECK(step.q.dim(1) == width && step.k.dim(1) == width && step.v.dim(1) == width &&
                 step.g.dim(1) == width && step.o.dim(1) == width && step.beta.dim(1) == step.heads,
             "kda_recurrence: widths differ");
  YOKE_CHECK(m.pending_k.dim(2) == width && m.pending_v.dim(2) == width &&
                 m.pending_g.dim(2) == width && m.pending_beta.dim(2) == step.heads,
             "kda_recurrence: pending widths differ");
  YOKE_CHECK(step.o.dtype == step.q.dtype && step.k.dtype == step.q.dtype &&
                 step.v.dtype == step.q.dtype && m.pending_k.dtype == step.q.dtype &&
                 m.pending_v.dtype == step.q.dtype,
             "kda_recurrence: types differ");
}

}  // namespace

void kda_recurrence(TensorView o, ConstTensorView q, ConstTensorView k, ConstTensorView v,
                    ConstTensorView g, ConstTensorView beta, const KdaState& state,
                    const StepRows& rows, Stream& stream) noexcept {
  const Step step{o, q, k, v, g, beta, state, state.state.dim(1), state.state.dim(2)};
  check_shapes(step);
  ThreadPool& threads = stream.threads();
  stream.launch("kda_recurrence", [=, &threads] {
    const int64_t blocks = (step.dim + kColumns - 1) / kColumns;
    const int64_t items = rows.max_sequences * step.heads * blocks;
    threads.for_range(items, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t item = begin; item < end; ++item) {
        // Sequences vary fastest: unused entries then spread over all threads.
        const SequenceRows& sequence = rows.sequences[item % rows.max_sequences];
        if (sequence.slot < 0) continue;
        YOKE_DCHECK(std::max(sequence.replay, sequence.rows - sequence.commit) <=
                        step.memory.pending_k.dim(1),
                    "kda_recurrence: more window rows than pending holds");
        const int64_t part = item / rows.max_sequences;
        const int64_t head = part / blocks;
        const int64_t first = part % blocks * kColumns;
        dispatch_act(step.q.dtype,
                     [&](auto act) { run_columns<decltype(act)>(step, sequence, head, first); });
      }
    });
    for (int32_t s = 0; s < rows.max_sequences; ++s) {
      if (rows.sequences[s].slot < 0) continue;
      dispatch_act(step.q.dtype,
                   [&](auto act) { keep_window<decltype(act)>(step, rows.sequences[s]); });
    }
  });
}

}  // namespace yoke::kernels
