// Arithmetic per channel: x_j = gate + ape, e_j = our float64 exp of (x_j - max) rounded to float,
// sum and Σ w_j·key_j in float with j ascending, w_j = e_j / sum, one rounding at the end. The same
// bits whether a pool's tokens come from this step or from the ring, for the ring holds them as
// they were. One implementation serves as reference.
#include "kernels/index_pool/index_pool.h"

#include <algorithm>
#include <cstring>

#include "kernels/core/act.h"
#include "kernels/core/row_math.h"

namespace yoke::kernels {
namespace {

struct Step {
  TensorView pools, raw_keys, raw_gates;
  ConstTensorView keys, gates, ape;
  StepRows rows;
  int64_t dim, pool_tokens, ring;
};

constexpr int64_t kPoolChannels = 64;

/// Channels [begin, begin + count) of one pool, token after token.
template <class Act>
void pool_channels(const Step& step, Act* out, const Act* const* keys, const Act* const* gates,
                   int64_t begin, int64_t count) {
  float weights[kMaxPoolTokens][kPoolChannels];
  float highest[kPoolChannels];
  float sum[kPoolChannels] = {};
  float pooled[kPoolChannels] = {};
  for (int64_t j = 0; j < step.pool_tokens; ++j) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t d = begin + i;
      weights[j][i] = widen(gates[j][d]) + load_float(step.ape, j * step.dim + d);
      highest[i] = j == 0 ? weights[j][i] : std::max(highest[i], weights[j][i]);
    }
  }
  for (int64_t j = 0; j < step.pool_tokens; ++j) {
    for (int64_t i = 0; i < count; ++i) weights[j][i] -= highest[i];
    exp_run(weights[j], weights[j], count);
    for (int64_t i = 0; i < count; ++i) sum[i] += weights[j][i];
  }
  for (int64_t j = 0; j < step.pool_tokens; ++j) {
    for (int64_t i = 0; i < count; ++i)
      pooled[i] += weights[j][i] / sum[i] * widen(keys[j][begin + i]);
  }
  for (int64_t i = 0; i < count; ++i) out[begin + i] = narrow<Act>(pooled[i]);
}

/// The pool whose last token is row `r`.
template <class Act>
void complete_pool(const Step& step, int64_t r) {
  const StepRows& rows = step.rows;
  const SequenceRows& sequence = rows.sequences[rows.sequence[r]];
  const int64_t first = rows.position[r] - (step.pool_tokens - 1);
  const Act* keys[kMaxPoolTokens];
  const Act* gates[kMaxPoolTokens];
  for (int64_t j = 0; j < step.pool_tokens; ++j) {
    const int64_t row = first + j - sequence.start_position;
    if (row >= 0) {
      keys[j] = step.keys.as<Act>() + (sequence.first_row + row) * step.dim;
      gates[j] = step.gates.as<Act>() + (sequence.first_row + row) * step.dim;
    } else {
      const int64_t at = sequence.slot * step.ring + (first + j) % step.ring;
      keys[j] = step.raw_keys.as<Act>() + at * step.dim;
      gates[j] = step.raw_gates.as<Act>() + at * step.dim;
    }
  }
  Act* out =
      step.pools.as<Act>() + rows.cache_row(rows.slot[r], first) / step.pool_tokens * step.dim;
  for (int64_t begin = 0; begin < step.dim; begin += kPoolChannels)
    pool_channels(step, out, keys, gates, begin, std::min(kPoolChannels, step.dim - begin));
}

/// The newest `ring` rows of one sequence, each at its position modulo `ring`.
void keep_raw(const Step& step, const SequenceRows& sequence) {
  const size_t line = static_cast<size_t>(step.dim) * dtype_bytes(step.keys.dtype);
  const auto copy = [&](const TensorView& to, const ConstTensorView& from, int64_t row) {
    const int64_t at = sequence.slot * step.ring + (sequence.start_position + row) % step.ring;
    std::memcpy(static_cast<std::byte*>(to.data) + static_cast<size_t>(at) * line,
                static_cast<const std::byte*>(from.data) +
                    static_cast<size_t>(sequence.first_row + row) * line,
                line);
  };
  for (int64_t row = std::max<int64_t>(0, sequence.rows - step.ring); row < sequence.rows; ++row) {
    copy(step.raw_keys, step.keys, row);
    copy(step.raw_gates, step.gates, row);
  }
}

}  // namespace

void index_pool(TensorView pools, TensorView raw_keys, TensorView raw_gates, ConstTensorView keys,
                ConstTensorView gates, ConstTensorView ape, const StepRows& rows,
                Stream& stream) noexcept {
  const Step step{pools, raw_keys, raw_gates,  keys,       gates,
                  ape,   rows,     ape.dim(1), ape.dim(0), raw_keys.dim(1)};
  YOKE_CHECK(step.pool_tokens >= 1 && step.pool_tokens <= kMaxPoolTokens,
             "index_pool: tokens per pool");
  YOKE_CHECK(step.ring >= step.pool_tokens && rows.block_tokens % step.pool_tokens == 0,
             "index_pool: ring or block size");
  YOKE_CHECK(keys.dim(1) == step.dim && gates.dim(1) == step.dim && pools.dim(1) == step.dim &&
                 raw_keys.dim(2) == step.dim && raw_gates.shape == raw_keys.shape,
             "index_pool: widths differ");
  YOKE_CHECK(gates.dtype == keys.dtype && pools.dtype == keys.dtype &&
                 raw_keys.dtype == keys.dtype && raw_gates.dtype == keys.dtype,
             "index_pool: types differ");
  ThreadPool& threads = stream.threads();
  stream.launch("index_pool", [=, &threads] {
    threads.for_range(
        step.rows.rows, grain_for(8 * step.dim), [&](int64_t begin, int64_t end, int) {
          dispatch_act(step.keys.dtype, [&](auto act) {
            for (int64_t r = begin; r < end; ++r) {
              if (step.rows.slot[r] >= 0 && (step.rows.position[r] + 1) % step.pool_tokens == 0)
                complete_pool<decltype(act)>(step, r);
            }
          });
        });
    for (int32_t s = 0; s < step.rows.max_sequences; ++s) {
      if (step.rows.sequences[s].slot >= 0) keep_raw(step, step.rows.sequences[s]);
    }
  });
}

}  // namespace yoke::kernels
