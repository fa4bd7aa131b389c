// The delta rule, one row after the other, for every row: prompt, window and decode share these
// loops, so a chunk border cannot show.
//
// Value columns of a head are independent: an item is (sequence, head, block of kKdaColumns value
// columns), its part of the state a local array [key][column]. Reduction trees, all in float,
// products and sums rounded separately:
//   u and o    one accumulator per column, keys in ascending order
//   Σq², Σk²   dot_lanes (kernels/core/lanes.h)
// e^g is our float64 exp rounded to float. The same bits on every instruction set.
#include <algorithm>
#include <cmath>

#include "kernels/core/act.h"
#include "kernels/core/simd_targets.h"
#include "kernels/kda/kda_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kda/kda_recurrence_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/lanes-inl.h"
#include "kernels/core/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kColumnVectors = static_cast<int>(kKdaColumns) / kLaneFloats;
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
HWY_INLINE void normalise(float* HWY_RESTRICT unit, const Act* HWY_RESTRICT x, int64_t dim,
                          float scale) {
  const DLanes d;
  const float inverse = 1.0f / std::sqrt(dot_in_lanes(x, x, dim) + kNormEps);
  int64_t i = 0;
  for (; i + kLaneFloats <= dim; i += kLaneFloats) {
    const VLanes scaled = hn::Mul(load_as_float(d, x + i), hn::Set(d, inverse));
    hn::Store(hn::Mul(scaled, hn::Set(d, scale)), d, unit + i);
  }
  for (; i < dim; ++i) unit[i] = widen(x[i]) * inverse * scale;
}

/// The state columns [first, first + width) of one head. Columns past `width` stay zero and are
/// never stored, so that the inner loops have a constant length.
class Columns {
 public:
  Columns(int64_t dim, int64_t first, int64_t width) : dim_(dim), first_(first), width_(width) {}

  void clear() { std::fill_n(state_[0], dim_ * kKdaColumns, 0.0f); }
  void load(const float* state) {
    if (width_ < kKdaColumns) clear();
    for (int64_t k = 0; k < dim_; ++k) std::copy_n(state + k * dim_ + first_, width_, state_[k]);
  }
  void store(float* state) const {
    for (int64_t k = 0; k < dim_; ++k) std::copy_n(state_[k], width_, state + k * dim_ + first_);
  }

  template <class Act>
  HWY_INLINE void apply(const Row<Act>& row, Act* out) {
    HWY_ALIGN float key[kMaxKdaDim];
    HWY_ALIGN float query[kMaxKdaDim];
    HWY_ALIGN float decay[kMaxKdaDim];
    normalise(key, row.k, dim_, 1.0f);
    map_in_double(decay, row.g, dim_, [](VDouble g) HWY_ATTR { return exp64(g); });
    VLanes delta[kColumnVectors];
    read(delta, key, decay);
    aim_at(delta, row.v + first_, row.beta);
    if (row.q == nullptr) {
      write(delta, key, decay);
      return;
    }
    normalise(query, row.q, dim_, 1.0f / std::sqrt(static_cast<float>(dim_)));
    VLanes sum[kColumnVectors];
    write_and_read(sum, delta, key, query, decay);
    keep(out + first_, sum);
  }

 private:
  HWY_INLINE VLanes decayed(int64_t k, int v, VLanes decay) const {
    return hn::Mul(hn::Load(DLanes(), state_[k] + v * kLaneFloats), decay);
  }

  /// sum = keyᵀ · diag(decay) · S
  HWY_INLINE void read(VLanes (&sum)[kColumnVectors], const float* key, const float* decay) const {
    const DLanes d;
    HWY_UNROLL(32)
    for (int v = 0; v < kColumnVectors; ++v) sum[v] = hn::Zero(d);
    for (int64_t k = 0; k < dim_; ++k) {
      const VLanes key_k = hn::Set(d, key[k]);
      const VLanes decay_k = hn::Set(d, decay[k]);
      HWY_UNROLL(32)
      for (int v = 0; v < kColumnVectors; ++v)
        sum[v] = add_product(sum[v], key_k, decayed(k, v, decay_k));
    }
  }

  /// delta = beta · (value - delta)
  template <class Act>
  HWY_INLINE void aim_at(VLanes (&delta)[kColumnVectors], const Act* value, float beta) const {
    const DLanes d;
    Act values[kKdaColumns] = {};
    std::copy_n(value, width_, values);
    HWY_UNROLL(32)
    for (int v = 0; v < kColumnVectors; ++v)
      delta[v] =
          hn::Mul(hn::Set(d, beta), hn::Sub(load_as_float(d, values + v * kLaneFloats), delta[v]));
  }

  /// S = diag(decay) · S + key ⊗ delta
  HWY_INLINE void write(const VLanes (&delta)[kColumnVectors], const float* key,
                        const float* decay) {
    const DLanes d;
    for (int64_t k = 0; k < dim_; ++k) {
      const VLanes key_k = hn::Set(d, key[k]);
      const VLanes decay_k = hn::Set(d, decay[k]);
      HWY_UNROLL(32)
      for (int v = 0; v < kColumnVectors; ++v)
        hn::Store(add_product(decayed(k, v, decay_k), key_k, delta[v]), d,
                  state_[k] + v * kLaneFloats);
    }
  }

  /// The same, and sum = queryᵀ · S.
  HWY_INLINE void write_and_read(VLanes (&sum)[kColumnVectors],
                                 const VLanes (&delta)[kColumnVectors], const float* key,
                                 const float* query, const float* decay) {
    const DLanes d;
    HWY_UNROLL(32)
    for (int v = 0; v < kColumnVectors; ++v) sum[v] = hn::Zero(d);
    for (int64_t k = 0; k < dim_; ++k) {
      const VLanes key_k = hn::Set(d, key[k]);
      const VLanes query_k = hn::Set(d, query[k]);
      const VLanes decay_k = hn::Set(d, decay[k]);
      HWY_UNROLL(32)
      for (int v = 0; v < kColumnVectors; ++v) {
        const VLanes s = add_product(decayed(k, v, decay_k), key_k, delta[v]);
        hn::Store(s, d, state_[k] + v * kLaneFloats);
        sum[v] = add_product(sum[v], query_k, s);
      }
    }
  }

  template <class Act>
  HWY_INLINE void keep(Act* out, const VLanes (&sum)[kColumnVectors]) const {
    const DLanes d;
    Act values[kKdaColumns];
    HWY_UNROLL(32)
    for (int v = 0; v < kColumnVectors; ++v) store_rounded(d, sum[v], values + v * kLaneFloats);
    std::copy_n(values, width_, out);
  }

  int64_t dim_;
  int64_t first_;
  int64_t width_;
  HWY_ALIGN float state_[kMaxKdaDim][kKdaColumns];
};

/// Row of `sequence` relative to its first row; below 0: a pending row.
template <class Act>
Row<Act> input(const KdaStep& step, const SequenceRows& sequence, int64_t head, int64_t row) {
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
HWY_INLINE void run_typed(const KdaStep& step, const SequenceRows& sequence, int64_t head,
                          int64_t first) {
  const int64_t dim = step.dim;
  Columns columns(dim, first, std::min(kKdaColumns, dim - first));
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

void run_columns(const KdaStep& step, const SequenceRows& sequence, int64_t head, int64_t first) {
  if (step.q.dtype == DType::bf16) {
    run_typed<bf16>(step, sequence, head, first);
  } else {
    run_typed<float>(step, sequence, head, first);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {
namespace {

HWY_EXPORT(run_columns);

/// Inputs of the window rows, for a later replay. After all items of the recurrence: they read the
/// pending rows of the step before.
template <class Act>
void keep_window(const KdaStep& step, const SequenceRows& sequence) {
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

void check_shapes(const KdaStep& step) {
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
  const KdaStep step{o, q, k, v, g, beta, state, state.state.dim(1), state.state.dim(2)};
  check_shapes(step);
  ThreadPool& threads = stream.threads();
  stream.launch("kda_recurrence", [=, &threads] {
    const int64_t blocks = (step.dim + kKdaColumns - 1) / kKdaColumns;
    const int64_t items = rows.max_sequences * step.heads * blocks;
    // Of an item whose sequence has an average share of the rows, at 4 ns per key.
    const int64_t item_ns = rows.rows * step.dim * 4 / rows.max_sequences;
    threads.for_range(items, grain_for(item_ns), [&](int64_t begin, int64_t end, int) {
      for (int64_t item = begin; item < end; ++item) {
        // Sequences vary fastest: unused entries then spread over all threads.
        const SequenceRows& sequence = rows.sequences[item % rows.max_sequences];
        if (sequence.slot < 0) continue;
        YOKE_DCHECK(std::max(sequence.replay, sequence.rows - sequence.commit) <=
                        step.memory.pending_k.dim(1),
                    "kda_recurrence: more window rows than pending holds");
        const int64_t part = item / rows.max_sequences;
        const int64_t head = part / blocks;
        HWY_DYNAMIC_DISPATCH(run_columns)(step, sequence, head, part % blocks * kKdaColumns);
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
#endif
